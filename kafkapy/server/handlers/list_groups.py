"""ListGroups: the groups that this broker coordinates.

Versions 0-4; from version 4 filtered by state.
Errors: 14 (some groups are still loading: those that are there are listed), 15.
"""

from typing import TYPE_CHECKING

from kafkapy.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from kafkapy.server.context import RequestContext


def handle(context: "RequestContext", request: ListGroupsRequest) -> ListGroupsResponse:
    """Ask the coordinator."""
    error_code, groups = context.services.group_coordinator.list_groups(request.states_filter)
    return ListGroupsResponse(
        error_code=error_code,
        groups=[
            ListedGroup(group_id=group.group_id, protocol_type=group.protocol_type, group_state=group.state)
            for group in groups
        ],
    )
