"""SyncGroup: the group's leader sends the assignment, and each member gets its own part.

Versions 0-5. Waits until the leader's assignment is in the log of all in-sync replicas.
Errors: COORDINATOR_NOT_AVAILABLE 15, NOT_COORDINATOR 16, ILLEGAL_GENERATION 22, INCONSISTENT_GROUP_PROTOCOL 23,
INVALID_GROUP_ID 24, UNKNOWN_MEMBER_ID 25, REBALANCE_IN_PROGRESS 27 (also while the group is loading),
UNSUPPORTED_VERSION 35 (``server/handlers/shared/older_versions.py``), FENCED_INSTANCE_ID 82.
"""

from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Final

from kafkapy.coordinator.answer import respond
from kafkapy.coordinator.group.classic.calls import SyncCall, SyncResult
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kafkapy.server.handlers.shared.older_versions import refuses_static_member
from kafkapy.turns import Steps, pieces

if TYPE_CHECKING:
    from kafkapy.server.dispatch.context import RequestContext

PROTOCOL_MANDATORY_FROM = 5


MANY: Final = 256
"""Assignments that are copied from the request in one step."""

Answered = SyncGroupResponse | Awaitable[SyncGroupResponse]


def handle(context: "RequestContext", request: SyncGroupRequest) -> Answered | Steps[Answered]:
    """Hand the assignment to the coordinator, or wait for it."""
    if refuses_static_member(context, request.group_instance_id):
        return _build(SyncResult(ErrorCode.UNSUPPORTED_VERSION))
    lacks_protocol = request.protocol_type is None or request.protocol_name is None
    if context.header.api_version >= PROTOCOL_MANDATORY_FROM and lacks_protocol:
        return _build(SyncResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    if len(request.assignments) > MANY:
        return _sync_many(context, request)
    return _sync(context, request, {each.member_id: each.assignment for each in request.assignments})


def _sync_many(context: "RequestContext", request: SyncGroupRequest) -> Steps[Answered]:
    assignments: dict[str, bytes] = {}
    for piece in pieces(request.assignments, MANY):
        assignments.update((each.member_id, each.assignment) for each in piece)
        yield
    return _sync(context, request, assignments)


def _sync(context: "RequestContext", request: SyncGroupRequest, assignments: Mapping[str, bytes]) -> Answered:
    call = SyncCall(
        group_id=request.group_id,
        generation_id=request.generation_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignments=assignments,
    )
    return respond(context.services.group_coordinator.classic.sync(call), _build)


def _build(result: SyncResult) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=result.error_code,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol_name,
        assignment=result.assignment,
    )
