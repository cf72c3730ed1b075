"""DeleteGroups: deletes groups without members, and their offsets.

Versions 0-3; the message of version 3 is null, as in 4.4.0.
Errors, by group: COORDINATOR_LOAD_IN_PROGRESS 14, COORDINATOR_NOT_AVAILABLE 15, NOT_COORDINATOR 16, NON_EMPTY_GROUP 68,
GROUP_ID_NOT_FOUND 69.
"""

from typing import TYPE_CHECKING

from kafkapy.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from kafkapy.turns import Steps

if TYPE_CHECKING:
    from kafkapy.server.dispatch.context import RequestContext


def handle(context: "RequestContext", request: DeleteGroupsRequest) -> Steps[DeleteGroupsResponse]:
    """Delete each group; one that is named twice is answered once."""
    coordinator = context.services.group_coordinator
    response = DeleteGroupsResponse(results=[])
    answered: set[str] = set()
    for group_id in request.groups_names:
        if group_id not in answered:
            answered.add(group_id)
            error_code = yield from coordinator.delete_group(group_id)
            response.results.append(DeletableGroupResult(group_id, error_code))
        yield
    return response
