"""Which committed offsets have outlived their retention (``offsets.retention.minutes``, KIP-211)."""

from collections.abc import Iterable

from kafkapy.coordinator.group import states
from kafkapy.coordinator.group.group import NO_TIMESTAMP, Group
from kafkapy.coordinator.group.offsets import NO_EXPIRY, CommittedOffset
from kafkapy.types import TopicPartition, as_long


def expired_offsets(
    group: Group, partitions: Iterable[TopicPartition], now_ms: int, retention_ms: int
) -> list[TopicPartition]:
    """Those of ``partitions`` whose offsets go now.

    * A group that has lost its members: all, counted from when it became empty.
    * Consumers with members: only topics that nobody subscribes to, counted from the commit.
    * Consumers without group management: counted from the commit.
    * A commit with a retention of its own: when that is over, under the same conditions.
    * Anything else (a protocol whose subscriptions can't be read, with members): none.
    """
    counts_from_empty = group.protocol_type is not None and group.state is states.EMPTY
    if not counts_from_empty and group.protocol_type is not None and group.subscribed is None:
        return []
    empty_since_ms = group.state_timestamp_ms if counts_from_empty else NO_TIMESTAMP
    return [
        partition
        for partition in partitions
        if (committed := group.offsets.committed.get(partition)) is not None
        and _is_over(committed, now_ms, retention_ms, empty_since_ms)
        and not group.offsets.is_appending(partition)
        and (counts_from_empty or group.protocol_type is None or not group.is_subscribed_to(partition.topic))
    ]


def _is_over(committed: CommittedOffset, now_ms: int, retention_ms: int, empty_since_ms: int) -> bool:
    if committed.expire_timestamp_ms != NO_EXPIRY:
        return now_ms >= committed.expire_timestamp_ms
    since_ms = committed.commit_timestamp_ms if empty_since_ms == NO_TIMESTAMP else empty_since_ms
    return as_long(now_ms - since_ms) >= retention_ms
