"""The periods of a feed in plain Python, without Kafka and without Spark."""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from spark_examples.data.flights import Flight

GAP_MS = 6 * 3_600_000


class Period(NamedTuple):
    """A period of service; times are in milliseconds, the delay in minutes."""

    route: str
    begin_ms: int
    last_ms: int
    flights: int
    departed: int
    delay: int


class WrongPeriodsError(RuntimeError):
    """Spark found other periods than plain Python."""


def expected(feed: Iterable[Flight]) -> list[Period]:
    """The periods of these flights, by route and time."""
    routes: dict[str, list[Flight]] = defaultdict(list)
    for flight in feed:
        routes[f"{flight.origin}-{flight.destination}"].append(flight)
    return sorted(period for route, flights in routes.items() for period in _periods(route, flights))


def _periods(route: str, flights: list[Flight]) -> list[Period]:
    runs: list[list[Flight]] = []
    for flight in sorted(flights, key=lambda each: each.scheduled_ms):
        if not runs or flight.scheduled_ms - runs[-1][-1].scheduled_ms > GAP_MS:  # Spark joins at the gap itself
            runs.append([])
        runs[-1].append(flight)
    return [_period(route, run) for run in runs]


def _period(route: str, run: list[Flight]) -> Period:
    delays = [flight.dep_delay for flight in run if flight.dep_delay is not None]
    return Period(route, run[0].scheduled_ms, run[-1].scheduled_ms, len(run), len(delays), sum(delays))


def check(found: list[Period], right: list[Period], where: str) -> None:
    """Raises WrongPeriodsError if a period is missing, is there twice, or is none of the feed."""
    repeated = len(found) - len(set(found))
    missing, surplus = len(set(right) - set(found)), len(set(found) - set(right))
    if repeated or missing or surplus:
        raise WrongPeriodsError(
            f"The {where} has {len(found):,} periods of {len(right):,}: {missing:,} are missing, {surplus:,} are none "
            f"of the feed, {repeated:,} are there again."
        )
