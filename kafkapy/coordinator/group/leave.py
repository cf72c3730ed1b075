"""LeaveGroup: members go, by id or by group instance id; several at once from version 3 (KIP-345)."""

from kafkapy.coordinator.group.group import Group
from kafkapy.coordinator.group.rebalance import Rebalancer
from kafkapy.coordinator.group.results import LeavingMember
from kafkapy.errors import BrokerError
from kafkapy.protocol.errors import ErrorCode


class PendingStaticMemberError(BrokerError):
    """A LeaveGroup names a group instance id beside a member id that was handed out and has not joined."""


def leave(rebalancer: Rebalancer, group: Group, leaving: LeavingMember) -> int:
    """Remove one member; returns that member's error code.

    Raises ``PendingStaticMemberError``: Kafka stops there with UNKNOWN_SERVER_ERROR for the whole request, and the
    members that the request named earlier have left.
    """
    member_id, instance_id = leaving
    members = group.members
    if member_id and members.is_fenced(member_id, instance_id):
        return ErrorCode.FENCED_INSTANCE_ID
    if member_id in group.pending:
        if instance_id is not None:
            raise PendingStaticMemberError("a member that has not joined has no group instance id")
        rebalancer.remove_pending(group, member_id)
        return 0
    if instance_id is not None and instance_id in members.static_ids:
        member_id = members.static_ids[instance_id]
    if member_id not in members:
        return ErrorCode.UNKNOWN_MEMBER_ID
    rebalancer.remove_member(group, members[member_id])
    return 0
