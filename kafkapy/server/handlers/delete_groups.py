"""DeleteGroups: forget groups without members, and their offsets.

Versions 0-2.
Errors, by group: 14, 15, 16, 68 (has members), 69 (no such group).
"""

from typing import TYPE_CHECKING

from kafkapy.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

if TYPE_CHECKING:
    from kafkapy.server.context import RequestContext


def handle(context: "RequestContext", request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    """Ask the coordinator."""
    errors = context.services.group_coordinator.delete_groups(request.groups_names)
    return DeleteGroupsResponse(results=[DeletableGroupResult(*each) for each in errors.items()])
