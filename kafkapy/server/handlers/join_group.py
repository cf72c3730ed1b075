"""JoinGroup: adds a member to the next generation of its group.

Versions 0-9. Waits until all members have joined; from version 4 on a member without an id is answered 79 and its id.
Errors: COORDINATOR_LOAD_IN_PROGRESS 14, COORDINATOR_NOT_AVAILABLE 15, NOT_COORDINATOR 16,
INCONSISTENT_GROUP_PROTOCOL 23, INVALID_GROUP_ID 24, UNKNOWN_MEMBER_ID 25, INVALID_SESSION_TIMEOUT 26,
UNSUPPORTED_VERSION 35 (``server/handlers/shared/older_versions.py``), MEMBER_ID_REQUIRED 79, GROUP_MAX_SIZE_REACHED 81,
FENCED_INSTANCE_ID 82 (see ``coordinator/group/classic/membership.py``).
"""

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kafkapy.coordinator.answer import respond
from kafkapy.coordinator.group.classic.calls import JoinCall, JoinResult
from kafkapy.coordinator.group.classic.membership import NO_MEMBER_ID
from kafkapy.coordinator.group.metadata_budget import MOST_PROTOCOLS
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from kafkapy.server.handlers.shared.older_versions import refuses_static_member

if TYPE_CHECKING:
    from kafkapy.server.dispatch.context import RequestContext

REBALANCE_TIMEOUT_FROM = 1
MEMBER_ID_REQUIRED_FROM = 4
NULLABLE_PROTOCOL_FROM = 7
SKIPPED_ASSIGNMENT_FROM = 9


def handle(context: "RequestContext", request: JoinGroupRequest) -> JoinGroupResponse | Awaitable[JoinGroupResponse]:
    """Pass the member to the coordinator."""
    version = context.header.api_version
    call = JoinCall(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        client_id=context.header.client_id or "",
        client_host=f"/{context.session.peer_host}",
        rebalance_timeout_ms=(
            request.rebalance_timeout_ms if version >= REBALANCE_TIMEOUT_FROM else request.session_timeout_ms
        ),
        session_timeout_ms=request.session_timeout_ms,
        protocol_type=request.protocol_type,
        # one above the bound is enough to be refused
        protocols=tuple((each.name, each.metadata) for each in request.protocols[: MOST_PROTOCOLS + 1]),
        requires_known_member_id=version >= MEMBER_ID_REQUIRED_FROM and request.group_instance_id is None,
        can_skip_assignment=version >= SKIPPED_ASSIGNMENT_FROM,
    )

    def build(result: JoinResult) -> JoinGroupResponse:
        return JoinGroupResponse(
            error_code=result.error_code,
            generation_id=result.generation_id,
            protocol_type=result.protocol_type,
            protocol_name=result.protocol_name if version >= NULLABLE_PROTOCOL_FROM else result.protocol_name or "",
            leader=result.leader_id,
            skip_assignment=result.skips_assignment,
            member_id=result.member_id,
            members=[JoinGroupResponseMember(*member) for member in result.members],
        )

    if refuses_static_member(context, request.group_instance_id):
        return build(JoinResult(ErrorCode.UNSUPPORTED_VERSION, NO_MEMBER_ID))
    return respond(context.services.group_coordinator.classic.join(call), build)
