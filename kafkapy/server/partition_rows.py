"""Requests and responses that name many partitions of many topics, taken apart and put together in steps."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from kafkapy.turns import Steps
from kafkapy.types import TopicPartition, topic_partition_of

V = TypeVar("V")
Topic = TypeVar("Topic")

ROWS_IN_A_STEP: Final = 256
"""Partitions that are taken out of a request, or put into a response, between two places to pause."""


def named_partitions(topics: Iterable[Any]) -> Steps[list[TopicPartition]]:
    """List the partitions that a request names, each once: ``topics`` have ``name`` and ``partition_indexes``."""
    named: dict[TopicPartition, None] = {}
    for topic in topics:
        indexes = topic.partition_indexes
        for start in range(0, len(indexes), ROWS_IN_A_STEP):
            if named:
                yield
            named.update(
                dict.fromkeys(
                    topic_partition_of((topic.name, each)) for each in indexes[start : start + ROWS_IN_A_STEP]
                )
            )
    return list(named)


def rows_by_topic(
    values: Mapping[TopicPartition, V], make: Callable[[str], Topic], add: Callable[[Topic, int, V], object]
) -> Steps[list[Topic]]:
    """Make a row for each topic, and ``add`` to it each of its partitions, in the order in which they come."""
    topics: dict[str, Topic] = {}
    for count, ((name, index), value) in enumerate(values.items(), 1):
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = make(name)
        add(topic, index, value)
        if count % ROWS_IN_A_STEP == 0:
            yield
    return list(topics.values())
