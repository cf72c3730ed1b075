"""ListGroups: the groups that this broker coordinates.

Versions 0-5; from version 4 filtered by state, from version 5 by type too. Then names of states are taken in any case,
as those of types.
Errors: COORDINATOR_LOAD_IN_PROGRESS 14 (some groups are still loading: those that are there are listed),
COORDINATOR_NOT_AVAILABLE 15.
"""

from typing import TYPE_CHECKING, Final

from kafkapy.coordinator.group.classic.states import GroupState
from kafkapy.coordinator.group.consumer.group import STATES as CONSUMER_STATES
from kafkapy.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from kafkapy.turns import Steps, pieces

if TYPE_CHECKING:
    from kafkapy.server.dispatch.context import RequestContext


TYPES_FROM: Final = 5
_STATES: Final = {state.lower(): state for state in (*(each.value for each in GroupState), *CONSUMER_STATES)}


def handle(context: "RequestContext", request: ListGroupsRequest) -> Steps[ListGroupsResponse]:
    """List the coordinator's groups."""
    states = request.states_filter
    if context.header.api_version >= TYPES_FROM:
        states = [_STATES.get(name.lower(), name) for name in states]
    error_code, groups = yield from context.services.group_coordinator.list_groups(states)
    response = ListGroupsResponse(error_code=error_code, groups=[])
    types = {name.lower() for name in request.types_filter}
    for piece in pieces(groups):
        response.groups += [ListedGroup(*group) for group in piece if not types or group.group_type in types]
        yield
    return response
