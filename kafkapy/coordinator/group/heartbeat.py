"""Heartbeat: a member lives. The coordinator's most frequent request: it only moves a deadline."""

from kafkapy.coordinator.group import states
from kafkapy.coordinator.group.checks import member_error
from kafkapy.coordinator.group.group import Group
from kafkapy.coordinator.group.rebalance import Rebalancer


def heartbeat(rebalancer: Rebalancer, group: Group, generation_id: int, member_id: str, instance_id: str | None) -> int:
    """The error code to answer; a member that must join again is alive all the same."""
    error_code = member_error(group, member_id, instance_id, generation_id)
    if error_code:
        return error_code
    rebalancer.touch(group.members[member_id])
    return states.HEARTBEAT[group.state]
