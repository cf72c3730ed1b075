"""The checks that every request of a member passes, in Kafka's order: dead, fenced, unknown, generation, protocol."""

from kafkapy.coordinator.group import states
from kafkapy.coordinator.group.group import Group
from kafkapy.protocol.errors import ErrorCode


def member_error(group: Group, member_id: str, instance_id: str | None, generation_id: int) -> int:
    """The error code for a request of ``member_id`` in ``generation_id``; 0 when it may speak for the group."""
    if group.state is states.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if instance_id is not None and group.members.is_fenced(member_id, instance_id):
        return ErrorCode.FENCED_INSTANCE_ID
    if member_id not in group.members:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    return 0
