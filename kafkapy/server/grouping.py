"""Partitions of a request, by topic: a topic or a partition that is named twice is one."""

from collections.abc import Iterable
from typing import TypeVar

from kafkapy.turns import Steps

P = TypeVar("P")


def last_by_topic(named: Iterable[tuple[str, int, P]]) -> Steps[dict[str, dict[int, P]]]:
    """Return topic → partition → what the request says of it, in the order of first mention; the last one counts.

    ``named`` are (topic, partition, content).
    """
    topics: dict[str, dict[int, P]] = {}
    for topic, index, content in named:
        topics.setdefault(topic, {})[index] = content
        yield
    return topics
