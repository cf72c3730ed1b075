"""History and alerts of a feed in plain Python, without Kafka and without Spark."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from spark_examples.data.flights import HOUR_MS, Flight
from spark_examples.monitoring.job import MIN_CANCELLED, MIN_FLIGHTS, MIN_MEAN_DELAY

SILENCE_MS = 9 * HOUR_MS
Place = tuple[str, int]
"""Airport, and a time in milliseconds."""


class WrongResultError(RuntimeError):
    """Spark found other hours or alerts than plain Python."""


def expected_history(feed: Iterable[Flight]) -> dict[Place, dict[str, Any]]:
    """By airport and hour, the row of the history without the two."""
    hours: dict[Place, list[Flight]] = defaultdict(list)
    for flight in feed:
        hours[flight.origin, flight.scheduled_ms // HOUR_MS * HOUR_MS].append(flight)
    return {place: _hour(flights) for place, flights in hours.items()}


def _hour(flights: list[Flight]) -> dict[str, Any]:
    left = [flight.dep_delay for flight in flights if flight.dep_delay is not None]
    arrived = [flight.arr_delay for flight in flights if flight.arr_delay is not None]
    return {
        "flights": len(flights),
        "departed": len(left),
        "dep_delay_sum": sum(left) if left else None,
        "dep_delay_max": max(left, default=None),
        "arrived": len(arrived),
        "arr_delay_sum": sum(arrived) if arrived else None,
        "mean_delay": sum(left) / len(left) if left else None,
        "cancelled": (len(flights) - len(left)) / len(flights),
    }


def expected_alerts(feed: list[Flight], history: dict[Place, dict[str, Any]]) -> set[tuple[str, int, str]]:
    """Airport, time (ms) and reason of each alert; the time of a silence is the last departure before it."""
    found = {(*place, reason) for place, hour in history.items() if (reason := _reason(hour))}
    departures: dict[str, list[int]] = defaultdict(list)
    for flight in feed:
        if flight.dep_delay is not None:
            departures[flight.origin].append(flight.scheduled_ms)
    for origin, times in departures.items():
        times.sort()
        last_ones = [one for one, other in pairwise(times) if other - one > SILENCE_MS]  # Spark joins at the gap itself
        found |= {(origin, time_ms, "silence") for time_ms in (*last_ones, times[-1])}
    return found


def _reason(hour: dict[str, Any]) -> str:
    if hour["flights"] >= MIN_FLIGHTS and hour["cancelled"] >= MIN_CANCELLED:
        return "cancellations"
    is_late = hour["departed"] >= MIN_FLIGHTS and hour["mean_delay"] >= MIN_MEAN_DELAY
    return "delays" if is_late else ""


def _ms_of(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def check(feed: list[Flight], history: list[dict[str, Any]], alerts: list[dict[str, Any]]) -> None:
    """Raises WrongResultError if an hour or an alert is missing, wrong, or there twice."""
    hours = expected_history(feed)
    found = {
        (row["origin"], int(row["hour"].replace(tzinfo=UTC).timestamp() * 1000)): {
            name: value for name, value in row.items() if name not in ("origin", "hour")
        }
        for row in history
    }
    wrong = [place for place in sorted(found.keys() | hours.keys()) if found.get(place) != hours.get(place)]
    if wrong or len(found) != len(history):
        raise WrongResultError(
            f"The history has {len(history):,} hours, of which {len(history) - len(found)} are there again and "
            f"{len(wrong):,} are missing or wrong, the first of them {wrong[:1]}."
        )
    raised = {
        (alert["origin"], _ms_of(alert["since" if alert["reason"] == "silence" else "hour"]), alert["reason"])
        for alert in alerts
    }
    if different := raised ^ expected_alerts(feed, hours):
        raise WrongResultError(f"{len(different)} alerts are missing or wrong, the first of them {min(different)}.")
