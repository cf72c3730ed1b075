"""LeaveGroup: members go, by id or by group instance id; several at once from version 3 (KIP-345)."""

from kafkapy.coordinator.errors import CoordinatorError, FencedInstanceIdError, UnknownMemberIdError
from kafkapy.coordinator.group.group import Group
from kafkapy.coordinator.group.rebalance import Rebalancer
from kafkapy.coordinator.group.results import LeavingMember


def leave(rebalancer: Rebalancer, group: Group, leaving: LeavingMember) -> int:
    """Let one member go; the error code is that member's.

    Raises ``CoordinatorError`` for an id that was given out and comes with an instance id: Kafka breaks off there,
    and who was named before has left.
    """
    member_id, instance_id = leaving
    members = group.members
    if member_id and members.is_fenced(member_id, instance_id):
        return FencedInstanceIdError.error_code
    if member_id in group.pending:
        if instance_id is not None:
            raise CoordinatorError("a member id that was given out belongs to no instance")
        rebalancer.remove_pending(group, member_id)
        return 0
    if instance_id is not None and instance_id in members.static_ids:
        member_id = members.static_ids[instance_id]
    if member_id not in members:
        return UnknownMemberIdError.error_code
    rebalancer.remove_member(group, members[member_id])
    return 0
