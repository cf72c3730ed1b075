"""The replay of a consumer group's records: the same for records that are loaded and for those just appended.

Compaction keeps the last record of each key, so the record of a member's assignment may come before that of its
subscription: each of them makes the member.
"""

from collections.abc import Callable

from kafkapy.coordinator.group.consumer import records as stored
from kafkapy.coordinator.group.consumer.group import FIRST_EPOCH, ConsumerGroup
from kafkapy.coordinator.group.records import (
    ConsumerAssignmentEpochKey,
    ConsumerCurrentKey,
    ConsumerExpressionKey,
    ConsumerGroupKey,
    ConsumerKey,
    ConsumerMemberKey,
)


def replay_value(group_of: Callable[[str], ConsumerGroup], key: ConsumerKey, value: bytes) -> None:
    """Replay a record; ``group_of`` makes the group if need be, after the value was decoded."""
    if isinstance(key, ConsumerGroupKey):
        group_value = stored.decode_group(value)
        group_of(key.group_id).replay_group(group_value.epoch, group_value.metadata_hash)
    elif isinstance(key, ConsumerAssignmentEpochKey):
        epoch = stored.decode_assignment_epoch(value)
        group_of(key.group_id).replay_assignment_epoch(epoch.assignment_epoch, epoch.assignment_timestamp)
    elif isinstance(key, ConsumerMemberKey):
        metadata = stored.decode_member(value)
        group_of(key.group_id).replay_member(key.member_id, metadata)
    elif isinstance(key, ConsumerCurrentKey):
        current = stored.decode_current(value)
        group_of(key.group_id).replay_current(key.member_id, current)
    elif isinstance(key, ConsumerExpressionKey):
        found = stored.decode_expression(value)
        group_of(key.group_id).replay_expression(key.pattern, frozenset(found.topics), found.timestamp)
    else:
        target = stored.decode_target(value)
        group_of(key.group_id).replay_target(key.member_id, target)


def replay_tombstone(group: ConsumerGroup, key: ConsumerKey) -> None:
    """Replay the deletion of a member, or of a part of it; that of the group is up to its type."""
    if isinstance(key, ConsumerMemberKey):
        group.replay_leave(key.member_id)
    elif isinstance(key, ConsumerCurrentKey):
        group.replay_no_current(key.member_id)
    elif isinstance(key, ConsumerExpressionKey):
        group.replay_expression(key.pattern, None)
    elif isinstance(key, ConsumerAssignmentEpochKey):
        group.replay_assignment_epoch(FIRST_EPOCH, 0)
    elif not isinstance(key, ConsumerGroupKey):
        group.replay_target(key.member_id, None)
