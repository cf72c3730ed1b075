"""DescribeGroups: state, protocol and members of groups.

Versions 0-6; from version 3 with the operations that the client may perform (all; access control replaces them).
Errors, by group: COORDINATOR_LOAD_IN_PROGRESS 14, COORDINATOR_NOT_AVAILABLE 15, NOT_COORDINATOR 16. A group that does
not exist is Dead, without an error below version 6, then with GROUP_ID_NOT_FOUND 69. UNKNOWN_SERVER_ERROR -1 for all
groups if names are repeated so often that the response would be larger than what all groups together take.
"""

from typing import TYPE_CHECKING, Final

from kafkapy import kafka_texts
from kafkapy.coordinator.group.calls import DEAD, GroupDescription, MemberDescription
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kafkapy.server.handlers.shared.authorized_operations import OF_GROUP, group_operations
from kafkapy.text import text_size
from kafkapy.turns import Steps, pieces

if TYPE_CHECKING:
    from kafkapy.server.dispatch.context import RequestContext


MISSING_FROM: Final = 6
"""The first version with an error for groups that do not exist."""


def handle(context: "RequestContext", request: DescribeGroupsRequest) -> Steps[DescribeGroupsResponse]:
    """Describe each group; one that is named several times is described once and answered each time.

    A group of some kB that is named in 3 bytes would let a small request have a response of any size. Apache Kafka
    answers all groups with UNKNOWN_SERVER_ERROR if the response takes more than 2^31-1 bytes.
    """
    coordinator = context.services.group_coordinator
    described: dict[str, tuple[DescribedGroup, int]] = {}
    response = DescribeGroupsResponse(groups=[])
    size = 0
    for group_id in request.groups:
        known = described.get(group_id)
        if known is None:
            group = yield from coordinator.describe_group(group_id)
            found = yield from _build(group, with_operations=request.include_authorized_operations)
            if group.state == DEAD and context.header.api_version >= MISSING_FROM:
                found.error_code = ErrorCode.GROUP_ID_NOT_FOUND
                found.error_message = kafka_texts.group_not_found(group_id)
            known = described[group_id] = found, sum(map(_size_of, group.members))
        response.groups.append(known[0])
        size += known[1]
        if size > coordinator.groups_max_size:
            error = ErrorCode.UNKNOWN_SERVER_ERROR
            return DescribeGroupsResponse(groups=[DescribedGroup(error, group_id=each) for each in request.groups])
        yield
    return response


def _size_of(member: MemberDescription) -> int:
    """The bytes of a member's ids, metadata and assignment in the response."""
    *ids, metadata, assignment = member
    return text_size(*ids) + len(metadata) + len(assignment)


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
        authorized_operations=group_operations(OF_GROUP, asked=shows_operations),
    )
