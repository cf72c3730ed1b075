"""Read requests and build responses with many partitions of many topics, in steps.

A topic or a partition that a request names twice counts once.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final, TypeVar

from kafkapy.turns import Steps
from kafkapy.types import TopicPartition, topic_partition_of

P = TypeVar("P")
Row = TypeVar("Row")
TopicRow = TypeVar("TopicRow")
V = TypeVar("V")
Topic = TypeVar("Topic")

ROWS_IN_A_STEP: Final = 256
"""Partitions that are taken out of a request, or put into a response, between two places to pause."""


def answered_by_topic(
    topics: Iterable[tuple[str, Sequence[P]]],
    index_of: Callable[[P], int],
    answer: Callable[[str, P], Row],
    topic_row: Callable[[str, list[Row]], TopicRow],
) -> Steps[list[TopicRow]]:
    """Return a ``topic_row`` for each topic, with the results of ``answer`` for its partitions: a step is a partition.

    ``topics`` and ``index_of`` are those of ``last_by_topic``.
    """
    asked = yield from last_by_topic(topics, index_of)
    answered = []
    for topic, partitions in asked.items():
        rows = []
        for content in partitions.values():
            rows.append(answer(topic, content))
            yield
        answered.append(topic_row(topic, rows))
    return answered


def last_by_topic(
    topics: Iterable[tuple[str, Sequence[P]]], index_of: Callable[[P], int]
) -> Steps[dict[str, dict[int, P]]]:
    """Return topic → partition → its item in the request, in the order of first mention; of repeated ones the last.

    ``topics`` are names with the items of their partitions; ``index_of`` returns the partition of an item. Topics
    without partitions are left out.
    """
    named: dict[str, dict[int, P]] = {}
    for name, partitions in topics:
        for start in range(0, len(partitions), ROWS_IN_A_STEP):
            if named:
                yield
            piece = partitions[start : start + ROWS_IN_A_STEP]
            named.setdefault(name, {}).update(zip(map(index_of, piece), piece, strict=True))
    return named


def few_partitions(topics: Sequence[Any]) -> list[TopicPartition] | None:
    """List the partitions that a request names, in its order; None if they are too many for one step."""
    if len(topics) > ROWS_IN_A_STEP:
        return None
    named: list[TopicPartition] = []
    for topic in topics:
        indexes = topic.partition_indexes
        if len(named) + len(indexes) > ROWS_IN_A_STEP:
            return None
        named += [topic_partition_of((topic.name, index)) for index in indexes]
    return named


def named_partitions(topics: Iterable[Any]) -> Steps[list[TopicPartition]]:
    """List the partitions that a request names, each once: ``topics`` have ``name`` and ``partition_indexes``."""
    named: dict[TopicPartition, None] = {}
    for topic in topics:
        indexes = topic.partition_indexes
        for start in range(0, len(indexes), ROWS_IN_A_STEP):
            if named:
                yield
            for index in indexes[start : start + ROWS_IN_A_STEP]:
                named[topic_partition_of((topic.name, index))] = None
    return list(named)


def few_rows(
    values: Iterable[tuple[TopicPartition, V]],
    make: Callable[[str], Topic],
    add: Callable[[Topic, int, V], object],
    topics: dict[str, Topic] | None = None,
) -> dict[str, Topic]:
    """Do what ``rows_by_topic`` does, in one step; add to the rows of ``topics``, if it is given."""
    if topics is None:
        topics = {}
    for (name, index), value in values:
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = make(name)
        add(topic, index, value)
    return topics


def rows_by_topic(
    values: Mapping[TopicPartition, V], make: Callable[[str], Topic], add: Callable[[Topic, int, V], object]
) -> Steps[list[Topic]]:
    """Make a row for each topic, and ``add`` to it each of its partitions, in the order of ``values``."""
    topics: dict[str, Topic] = {}
    remaining = iter(values.items())
    while piece := list(islice(remaining, ROWS_IN_A_STEP)):
        few_rows(piece, make, add, topics)
        if len(piece) == ROWS_IN_A_STEP:
            yield
    return list(topics.values())
