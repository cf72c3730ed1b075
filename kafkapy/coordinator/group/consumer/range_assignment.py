"""Ranges: each topic's partitions are cut into adjacent ranges, one for each subscribed member.

Static members come first, by instance id, then the others by member id. The first ``partitions % members`` of them get
one partition more. What members own does not matter.
"""

from collections.abc import Mapping
from uuid import UUID

from kafkapy.coordinator.group.consumer.subscriptions import Assignment, MemberSubscription, TopicMetadata
from kafkapy.turns import Steps


def assign_ranges(
    members: Mapping[str, MemberSubscription], topics: Mapping[UUID, TopicMetadata]
) -> Steps[dict[str, Assignment]]:
    """Return the ranges of every member."""
    assignments: dict[str, Assignment] = {member_id: {} for member_id in members}
    subscribers: dict[UUID, list[str]] = {}
    for member_id in _sorted_ids(members):
        yield
        for topic_id in members[member_id].topic_ids:
            subscribers.setdefault(topic_id, []).append(member_id)
    for topic_id, member_ids in subscribers.items():
        yield
        _cut(topic_id, topics[topic_id].partition_count, member_ids, assignments)
    return assignments


def _sorted_ids(members: Mapping[str, MemberSubscription]) -> list[str]:
    """Return the ids of members in the order of their ranges; Java compares the UTF-16 units of strings."""

    def order(member_id: str) -> tuple[bool, bytes]:
        instance_id = members[member_id].instance_id
        return instance_id is None, (member_id if instance_id is None else instance_id).encode("utf-16-be")

    return sorted(members, key=order)


def _cut(topic_id: UUID, partition_count: int, member_ids: list[str], assignments: dict[str, Assignment]) -> None:
    size, larger_ranges = divmod(partition_count, len(member_ids))
    start = 0
    for place, member_id in enumerate(member_ids):
        end = start + size + (place < larger_ranges)
        if start == end:
            return  # this and all later ranges are empty
        assignments[member_id][topic_id] = set(range(start, end))
        start = end
