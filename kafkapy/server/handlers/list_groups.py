"""ListGroups: the groups that this broker coordinates.

Versions 0-4; from version 4 filtered by state.
Errors: COORDINATOR_LOAD_IN_PROGRESS 14 (some groups are still loading: those that are there are listed),
COORDINATOR_NOT_AVAILABLE 15.
"""

from typing import TYPE_CHECKING

from kafkapy.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from kafkapy.turns import Steps, pieces

if TYPE_CHECKING:
    from kafkapy.server.dispatch.context import RequestContext


def handle(context: "RequestContext", request: ListGroupsRequest) -> Steps[ListGroupsResponse]:
    """List the coordinator's groups."""
    error_code, groups = yield from context.services.group_coordinator.list_groups(request.states_filter)
    response = ListGroupsResponse(error_code=error_code, groups=[])
    for piece in pieces(groups):
        response.groups += [ListedGroup(*group) for group in piece]
        yield
    return response
