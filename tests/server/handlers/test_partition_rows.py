"""Reading requests that name partitions and building their responses, at once and in steps."""

from operator import attrgetter
from typing import NamedTuple

from kafkapy.server.handlers.shared.partition_rows import (
    ROWS_IN_A_STEP,
    few_partitions,
    few_rows,
    last_by_topic,
    named_partitions,
    rows_by_topic,
)
from kafkapy.turns import finish
from kafkapy.types import TopicPartition


class Named(NamedTuple):
    name: str
    partition_indexes: list[int]


class Content(NamedTuple):
    index: int
    text: str


class Row:
    def __init__(self, name: str) -> None:
        self.name = name
        self.values: list[tuple[int, int]] = []

    def add(self, index: int, value: int) -> None:
        self.values.append((index, value))


def test_few_partitions_are_named_at_once_and_many_in_steps() -> None:
    few = [Named("a", [0, 1]), Named("b", []), Named("a", [1])]
    partitions = [TopicPartition("a", 0), TopicPartition("a", 1)]
    assert few_partitions(few) == [*partitions, partitions[1]]
    assert finish(named_partitions(few)) == partitions
    assert few_partitions([Named("a", list(range(ROWS_IN_A_STEP)))]) is not None
    many = Named("a", list(range(2 * ROWS_IN_A_STEP)))
    assert few_partitions([many]) is None
    assert few_partitions([Named("a", [])] * (ROWS_IN_A_STEP + 1)) is None
    steps = named_partitions([many])
    next(steps)
    assert len(finish(steps)) == 2 * ROWS_IN_A_STEP


def test_rows_are_the_same_at_once_and_in_steps() -> None:
    values = {TopicPartition("ab"[number % 2], number): number * 10 for number in range(2 * ROWS_IN_A_STEP)}
    at_once = list(few_rows(values.items(), Row, Row.add).values())
    steps = rows_by_topic(values, Row, Row.add)
    next(steps)
    in_steps = finish(steps)
    assert [(row.name, row.values) for row in in_steps] == [(row.name, row.values) for row in at_once]
    assert [row.name for row in at_once] == ["a", "b"]
    assert at_once[1].values[0] == (1, 10)


def test_of_a_repeated_partition_the_last_item_counts() -> None:
    said = [
        ("b", [Content(1, "first"), Content(0, "other"), Content(1, "last")]),
        ("empty", []),
        ("a", [Content(0, "") for _ in range(2 * ROWS_IN_A_STEP)]),
        ("b", [Content(0, "later")]),
    ]
    steps = last_by_topic(said, attrgetter("index"))
    assert sum(1 for _ in steps) == 3
    found = finish(last_by_topic(said, attrgetter("index")))
    assert list(found) == ["b", "a"]
    assert found["b"] == {1: Content(1, "last"), 0: Content(0, "later")}
