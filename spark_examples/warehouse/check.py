"""The warehouse against the broker's offsets and against the data set, in plain Python."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from spark_examples.data import flights
from spark_examples.warehouse.job import Position

Counts = tuple[int, int, int, int]
"""Of a partition: records, distinct offsets, the first of them, and the one after the last."""


class NotExactError(RuntimeError):
    """Table and topic differ."""


class MonthTotals(NamedTuple):
    """Sums of a month; delays in minutes."""

    flights: int
    departed: int
    dep_delay: int
    arr_delay: int


def check_offsets(position: Position, found: Mapping[int, Counts]) -> None:
    """Compares what is in table and dead letters with the table's own position; raises NotExactError.

    So many records as offsets, all different, the smallest the first and the largest the last: then each is there
    once. The markers of transactions would take offsets too; the feed has none.
    """
    expected = {}
    for partition, first in position.first.items():
        count = position.next[partition] - first - position.lost.get(partition, 0)
        if count:
            expected[partition] = (count, count, first, position.next[partition])
    if dict(found) != expected:
        raise NotExactError(
            f"(records, distinct offsets, first, end) by partition: {dict(found)} in table and dead letters, "
            f"{expected} by the position of the table."
        )


def check_counts(position: Position, rows: int, broken: int) -> None:
    """Raises NotExactError if the table has other numbers than its loads have counted."""
    if (rows, broken) != (position.rows, position.broken):
        raise NotExactError(
            f"{rows:,} rows and {broken} dead letters, other than the {position.rows:,} and {position.broken} loaded."
        )


def monthly_expected(feed: Iterable[flights.Flight]) -> dict[str, MonthTotals]:
    """The months of the data set."""
    months: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for flight in feed:
        totals = months[flights.day_of(flight.scheduled_ms)[:7]]
        added = 1, flight.dep_delay is not None, flight.dep_delay or 0, flight.arr_delay or 0
        totals[:] = (total + more for total, more in zip(totals, added, strict=True))
    return {month: MonthTotals(*totals) for month, totals in months.items()}


def check_months(found: Mapping[str, MonthTotals], expected: Mapping[str, MonthTotals]) -> None:
    """Raises NotExactError if a month has other sums than the data set."""
    if wrong := [month for month in sorted({*found, *expected}) if found.get(month) != expected.get(month)]:
        month = wrong[0]
        raise NotExactError(f"{len(wrong)} months are wrong: {month} is {found.get(month)}, not {expected.get(month)}.")
