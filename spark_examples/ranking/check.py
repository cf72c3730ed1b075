"""The rankings of a feed in plain Python, without Kafka and without Spark."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from spark_examples.data import flights
from spark_examples.ranking.job import LATE_FROM_MINUTES

DAY_BEGINS_MS = 5 * 60 * flights.MINUTE_MS
Rankings = dict[tuple[str, str], dict[str, Any]]
"""By day and airport, the value of the record."""


class MiscountError(RuntimeError):
    """Flights were ranked other than plain Python ranks them."""


def expected(feed: Iterable[flights.Flight], top: int) -> Rankings:
    """The rankings of these flights."""
    groups: dict[tuple[str, str], dict[str, list[flights.Flight]]] = defaultdict(lambda: defaultdict(list))
    for flight in feed:
        groups[flights.day_of(flight.scheduled_ms - DAY_BEGINS_MS), flight.origin][flight.destination].append(flight)
    return {(day, origin): _ranking(day, origin, groups[day, origin], top) for day, origin in groups}


def _ranking(day: str, origin: str, by_destination: Mapping[str, list[flights.Flight]], top: int) -> dict[str, Any]:
    order = sorted(by_destination, key=lambda destination: (-len(by_destination[destination]), destination))
    entries = []
    for rank, destination in enumerate(order[:top], 1):
        rows = by_destination[destination]
        delayed = sum(1 for row in rows if row.dep_delay is not None and row.dep_delay >= LATE_FROM_MINUTES)
        entry = {"rank": rank, "destination": destination, "flights": len(rows), "delayed": delayed}
        entries.append(entry | {"late_share": delayed / len(rows)})
    flown = sum(len(rows) for rows in by_destination.values())
    return {"day": day, "origin": origin, "flights": flown, "top": entries}


def check(found: Rankings, right: Rankings) -> None:
    """Raises MiscountError if the rankings differ."""
    if found != right:
        different = [key for key in sorted(found | right) if found.get(key) != right.get(key)]
        raise MiscountError(f"{len(different)} rankings are wrong, the first of them that of {different[0]}")
