"""The partitions of OffsetCommit and TxnOffsetCommit requests: which of them exist, and their offsets."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from kafkapy.coordinator.group.offsets import NO_EXPIRY, CommittedOffset, committed_offset_of
from kafkapy.metadata.image import MetadataImage
from kafkapy.protocol.errors import ErrorCode
from kafkapy.turns import pieces
from kafkapy.types import NO_TIMESTAMP, TopicPartition, topic_partition_of

COMMITS_IN_A_STEP: Final = 256
"""Partitions that one step commits; a request for fewer has a single step."""


class _Part(NamedTuple):
    """Some partitions of a topic that a request names."""

    name: str
    partitions: Sequence[Any]


def is_large(topics: Sequence[Any]) -> bool:
    """Whether a commit names so many partitions that it must be served in steps."""
    if len(topics) == 1:  # the usual case
        return len(topics[0].partitions) >= COMMITS_IN_A_STEP
    return len(topics) >= COMMITS_IN_A_STEP or sum(len(topic.partitions) for topic in topics) >= COMMITS_IN_A_STEP


def parts_of(topics: Iterable[Any]) -> Iterator[_Part]:
    """Cut the topics of a large commit into parts of at most ``COMMITS_IN_A_STEP`` partitions."""
    for topic in topics:
        for piece in pieces(topic.partitions, COMMITS_IN_A_STEP):
            yield _Part(topic.name, piece)


def split_by_existence(
    image: MetadataImage, topics: Iterable[Any], now_ms: int, expire_ms: int = NO_EXPIRY, *, is_dated: bool = False
) -> tuple[dict[TopicPartition, CommittedOffset], dict[TopicPartition, int]]:
    """The commits of partitions that exist, and an error code for each of the others.

    The time of a commit is ``now_ms``, or, if the request ``is_dated``, the timestamp that it has for the partition.
    Groups commit frequently, so the loop calls no Python function for each partition.
    """
    commits: dict[TopicPartition, CommittedOffset] = {}
    errors: dict[TopicPartition, int] = {}
    known = image.topics
    for topic in topics:
        name = topic.name
        found = known.get(name)
        partitions = found.partitions if found is not None else ()
        for each in topic.partitions:
            index = each.partition_index
            partition = topic_partition_of((name, index))
            if index not in partitions:
                errors[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            commit_ms = each.commit_timestamp if is_dated and each.commit_timestamp != NO_TIMESTAMP else now_ms
            commits[partition] = committed_offset_of(
                (
                    each.committed_offset,
                    each.committed_leader_epoch,
                    each.committed_metadata or "",
                    commit_ms,
                    expire_ms,
                )
            )
    return commits, errors
