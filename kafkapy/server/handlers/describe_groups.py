"""DescribeGroups: state, protocol and members of groups.

Versions 0-5; from version 3 with the operations that the client may perform (all: there are no ACLs yet).
Errors, by group: COORDINATOR_LOAD_IN_PROGRESS 14, COORDINATOR_NOT_AVAILABLE 15, NOT_COORDINATOR 16. A group that does
not exist is Dead, without an error.
"""

from typing import TYPE_CHECKING

from kafkapy.coordinator.group.calls import GroupDescription
from kafkapy.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kafkapy.server.authorized_operations import group_operations
from kafkapy.turns import Steps, pieces

if TYPE_CHECKING:
    from kafkapy.server.context import RequestContext


def handle(context: "RequestContext", request: DescribeGroupsRequest) -> Steps[DescribeGroupsResponse]:
    """Describe each group; one that is named several times is described once and answered each time."""
    coordinator = context.services.group_coordinator
    described: dict[str, DescribedGroup] = {}
    response = DescribeGroupsResponse(groups=[])
    for group_id in request.groups:
        found = described.get(group_id)
        if found is None:
            group = yield from coordinator.describe_group(group_id)
            found = yield from _build(group, with_operations=request.include_authorized_operations)
            described[group_id] = found
        response.groups.append(found)
        yield
    return response


def _build(group: GroupDescription, *, with_operations: bool) -> Steps[DescribedGroup]:
    shows_operations = with_operations and group.error_code == 0
    members = []
    for piece in pieces(group.members):
        members += [DescribedGroupMember(*member) for member in piece]
        yield
    return DescribedGroup(
        error_code=group.error_code,
        group_id=group.group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol_name,
        members=members,
        authorized_operations=group_operations(asked=shows_operations),
    )
