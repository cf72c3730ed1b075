"""LeaveGroup: removes members from a group before their sessions expire.

Versions 0-5; from version 3 several at once, by member id or group instance id, each with its own error code.
Errors: COORDINATOR_LOAD_IN_PROGRESS 14, COORDINATOR_NOT_AVAILABLE 15, NOT_COORDINATOR 16, INVALID_GROUP_ID 24 of the
request, UNKNOWN_SERVER_ERROR -1 (an id that has not joined yet, with an instance id); UNKNOWN_MEMBER_ID 25,
FENCED_INSTANCE_ID 82 of a member.
"""

from typing import TYPE_CHECKING

from kafkapy.coordinator.group.classic.calls import LeavingMember
from kafkapy.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from kafkapy.turns import Steps

if TYPE_CHECKING:
    from kafkapy.server.dispatch.context import RequestContext

SEVERAL_FROM = 3


def handle(context: "RequestContext", request: LeaveGroupRequest) -> Steps[LeaveGroupResponse]:
    """Remove the members; older versions have one error code for all."""
    has_several = context.header.api_version >= SEVERAL_FROM
    leaving = [] if has_several else [LeavingMember(request.member_id)]
    for named in request.members if has_several else ():
        leaving.append(LeavingMember(named.member_id, named.group_instance_id))
        yield
    error_code, errors = yield from context.services.group_coordinator.classic.leave(request.group_id, leaving)
    if not has_several:
        return LeaveGroupResponse(error_code=error_code or next(filter(None, errors), 0))
    members = []
    for member, error in zip(leaving, errors, strict=False):
        members.append(MemberResponse(*member, error))
        yield
    return LeaveGroupResponse(error_code=error_code, members=members)
