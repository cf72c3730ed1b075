"""The expected results of the pipelines, computed without Kafka and without Spark, and the comparison with them."""

import importlib
import json
import zlib
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from spark_examples.common import topics
from spark_examples.data import flights
from spark_examples.warehouse.demonstration import BROKEN_LINES

parquet: Any = importlib.import_module("pyarrow.parquet")  # it has no types

# --- rankings -----------------------------------------------------------------------------------------------------


def day_of(flight: flights.Flight) -> str:
    """In New York, in winter; it begins at five o'clock UTC, before the first departure."""
    return f"{datetime.fromtimestamp(flight.scheduled_ms / 1000, UTC) - timedelta(hours=5):%Y-%m-%d}"


def expected_rankings(feed: list[flights.Flight]) -> dict[str, dict[str, Any]]:
    """By key of the record, in plain Python."""
    flown: Counter[tuple[str, str, str]] = Counter()
    delayed: Counter[tuple[str, str, str]] = Counter()
    for flight in feed:
        place = day_of(flight), flight.origin, flight.destination
        flown[place] += 1
        delayed[place] += flight.dep_delay is not None and flight.dep_delay >= 15
    rankings: dict[str, dict[str, Any]] = {}
    for day, origin, destination in sorted(flown, key=lambda place: (-flown[place], place[2])):
        count, late = flown[day, origin, destination], delayed[day, origin, destination]
        ranking = rankings.setdefault(f"{day}/{origin}", {"day": day, "origin": origin, "flights": 0, "top": []})
        ranking["flights"] += count
        if len(ranking["top"]) < 3:
            entry = {"rank": len(ranking["top"]) + 1, "destination": destination, "flights": count, "delayed": late}
            ranking["top"].append(entry | {"late_share": late / count})
    return rankings


def held_back(feed: list[flights.Flight]) -> list[flights.Flight]:
    """The records that the pipeline sends when its days are closed: of the feed's first ten days, every 50th flight."""
    end = feed[0].scheduled_ms + 10 * flights.DAY_MS
    return [flight for flight in feed if flight.scheduled_ms < end][::50]


def check_rankings(bootstrap: str, topic: str, feed: list[flights.Flight], *, late: bool = True) -> None:
    """The topic of the rankings has that of each day and airport, and nothing else; late flights count nowhere.

    A key may be there more than once, as after a crash, if its values are the same.
    """
    found: dict[str, Any] = {}
    for record in topics.read_all(bootstrap, f"{topic}-top"):
        value = json.loads(record.value)
        assert found.setdefault(record.key.decode(), value) == value
    punctual = Counter(feed) - Counter(held_back(feed) if late else [])
    assert found == expected_rankings(list(punctual.elements()))


# --- the warehouse ------------------------------------------------------------------------------------------------


def read_table(path: Path) -> list[dict[str, Any]]:
    """The results for a reader that has no data about loads."""
    rows: list[dict[str, Any]] = parquet.read_table(path).to_pylist()
    return rows


def months_of(feed: list[flights.Flight]) -> dict[str, list[int]]:
    """Flights, those that left, and the sums of both delays by month, in plain Python."""
    months: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for flight in feed:
        sums = months[f"{datetime.fromtimestamp(flight.scheduled_ms / 1000, UTC):%Y-%m}"]
        sums[0] += 1
        sums[1] += flight.dep_delay is not None
        sums[2] += flight.dep_delay or 0
        sums[3] += flight.arr_delay or 0
    return dict(months)


def as_flight(row: dict[str, Any]) -> flights.Flight:
    scheduled = int(row["scheduled"].replace(tzinfo=UTC).timestamp()) * 1000
    names = ("dep_delay", "arr_delay", "carrier", "number", "destination")
    return flights.Flight(row["origin"], scheduled, *(row[name] for name in names))


def check_exact(
    bootstrap: str, topic: str, rows: list[dict[str, Any]], feed: list[flights.Flight], broken: int
) -> None:
    """Each flight and each offset is there once: in the table, or, if it is no flight, among the dead letters."""
    assert sorted(map(repr, map(as_flight, rows))) == sorted(map(repr, feed))
    pairs = [(row["partition"], row["offset"]) for row in rows]
    letters = topics.read_all(bootstrap, f"{topic}-dead-letters")
    by_place = {tuple(map(int, letter.key.decode().split("/")[1:])): letter for letter in letters}
    assert len(by_place) == broken
    held = topics.extents(bootstrap, topic)
    assert sorted([*pairs, *by_place]) == [(index, offset) for index in held for offset in range(held[index].end)]
    sent = sorted(BROKEN_LINES * (broken // len(BROKEN_LINES)))
    assert sorted(letter.value for letter in by_place.values()) == sent
    assert {dict(letter.headers)["reason"] for letter in by_place.values()} == {b"not JSON", b"incomplete"}
    months: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for row in rows:
        added = 1, row["dep_delay"] is not None, row["dep_delay"] or 0, row["arr_delay"] or 0
        months[row["month"]] = [old + new for old, new in zip(months[row["month"]], added, strict=True)]
    assert months == months_of(feed)


# --- the mirror ----------------------------------------------------------------------------------------------------


def totals_of(feed: list[flights.Flight]) -> dict[str, list[int | None]]:
    """By carrier: flights, those that left, their delay, the worst delay, the sum of the values' CRCs."""
    totals: dict[str, list[Any]] = {}
    for flight in feed:
        sums = totals.setdefault(flight.carrier, [0, 0, 0, None, 0])
        sums[0] += 1
        sums[4] += zlib.crc32(flight.to_json())
        if flight.dep_delay is not None:
            sums[1] += 1
            sums[2] += flight.dep_delay
            sums[3] = flight.dep_delay if sums[3] is None else max(sums[3], flight.dep_delay)
    return totals


def read_carriers(path: Path) -> dict[str, list[int | None]]:
    """The analysis as Spark has written it."""
    names = ("flights", "departed", "dep_delay", "worst", "checksum")
    rows = parquet.read_table(path).to_pylist()
    assert len(rows) == len({row["carrier"] for row in rows})
    return {row["carrier"]: [row[name] for name in names] for row in rows}
