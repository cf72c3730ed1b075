"""Heartbeat: keeps a member's session alive, and reports a rebalance of its group.

Versions 0-4. Answered at once: no future, no task.
Errors: COORDINATOR_NOT_AVAILABLE 15, NOT_COORDINATOR 16, ILLEGAL_GENERATION 22, INVALID_GROUP_ID 24,
UNKNOWN_MEMBER_ID 25, REBALANCE_IN_PROGRESS 27, UNSUPPORTED_VERSION 35 (``server/older_versions.py``),
FENCED_INSTANCE_ID 82; 0 while the group is loading.
"""

from typing import TYPE_CHECKING

from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkapy.server.older_versions import refuses_static_member

if TYPE_CHECKING:
    from kafkapy.server.context import RequestContext


def handle(context: "RequestContext", request: HeartbeatRequest) -> HeartbeatResponse:
    """Answer with the coordinator's error code."""
    if refuses_static_member(context, request.group_instance_id):
        return HeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return HeartbeatResponse(
        error_code=context.services.group_coordinator.heartbeat(
            request.group_id, request.generation_id, request.member_id, request.group_instance_id
        )
    )
