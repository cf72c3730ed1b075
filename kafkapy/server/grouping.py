"""Answers about the partitions that a request names, by topic: a topic or a partition that is named twice is one."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from kafkapy.turns import Steps

P = TypeVar("P")
Row = TypeVar("Row")
TopicRow = TypeVar("TopicRow")


def answered_by_topic(
    named: Iterable[tuple[str, int, P]],
    answer: Callable[[str, P], Row],
    topic_row: Callable[[str, list[Row]], TopicRow],
) -> Steps[list[TopicRow]]:
    """Return a ``topic_row`` for each topic, with what ``answer`` makes of its partitions.

    ``named`` are (topic, partition, what the request says of it). Topics and partitions come in the order of their
    first mention; of a partition that is named more than once, the last mention counts. A step is a partition.
    """
    asked = yield from _last_by_topic(named)
    topics = []
    for topic, partitions in asked.items():
        rows = []
        for content in partitions.values():
            rows.append(answer(topic, content))
            yield
        topics.append(topic_row(topic, rows))
    return topics


def _last_by_topic(named: Iterable[tuple[str, int, P]]) -> Steps[dict[str, dict[int, P]]]:
    topics: dict[str, dict[int, P]] = {}
    for topic, index, content in named:
        topics.setdefault(topic, {})[index] = content
        yield
    return topics
