"""ConsumerGroupDescribe: epochs, members and assignments of consumer groups (KIP-848).

Versions 0-1; version 1 has the type of each member, which is that of its protocol. With the operations that
the client may perform (all; access control replaces them).
Errors, by group: COORDINATOR_LOAD_IN_PROGRESS 14, COORDINATOR_NOT_AVAILABLE 15, NOT_COORDINATOR 16,
INVALID_GROUP_ID 24, TOPIC_AUTHORIZATION_FAILED 29 (``server/access/groups.py``), GROUP_ID_NOT_FOUND 69 (no group, or a
classic one). UNKNOWN_SERVER_ERROR -1 for all groups if names are repeated so often that the response would be larger
than what all groups together take.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kafkapy.coordinator.group.consumer.calls import (
    ConsumerGroupDescription,
    ConsumerMemberDescription,
    NamedPartitions,
)
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from kafkapy.server.handlers.shared.authorized_operations import OF_CONSUMER_GROUP, group_operations
from kafkapy.text import text_size
from kafkapy.turns import Steps, pieces

if TYPE_CHECKING:
    from kafkapy.server.dispatch.context import RequestContext

_CLASSIC_MEMBER, _CONSUMER_MEMBER = 0, 1
"""The types of members, by the protocol that they use."""


def handle(context: "RequestContext", request: ConsumerGroupDescribeRequest) -> Steps[ConsumerGroupDescribeResponse]:
    """Describe each group; one that is named several times is described once and answered each time."""
    coordinator = context.services.group_coordinator
    described: dict[str, tuple[DescribedGroup, int]] = {}
    response = ConsumerGroupDescribeResponse(groups=[])
    size = 0
    for group_id in request.group_ids:
        known = described.get(group_id)
        if known is None:
            group = yield from coordinator.consumer.describe(group_id)
            found = yield from _build(group, with_operations=request.include_authorized_operations)
            known = described[group_id] = found, sum(map(_size_of, group.members))
        response.groups.append(known[0])
        size += known[1]
        if size > coordinator.groups_max_size:
            error = ErrorCode.UNKNOWN_SERVER_ERROR
            groups = [DescribedGroup(error, group_id=each) for each in request.group_ids]
            return ConsumerGroupDescribeResponse(groups=groups)
        yield
    return response


def _size_of(member: ConsumerMemberDescription) -> int:
    """The approximate bytes of a member in the response."""
    topics = sum(map(text_size, member.topic_names))
    partitions = sum(len(each.partitions) for each in (*member.assignment, *member.target))
    return text_size(member.member_id, member.client_id, member.topic_regex) + topics + 4 * partitions


def _build(group: ConsumerGroupDescription, *, with_operations: bool) -> Steps[DescribedGroup]:
    members = []
    for piece in pieces(group.members):
        members += [_member(each) for each in piece]
        yield
    return DescribedGroup(
        error_code=group.error_code,
        error_message=group.error_message,
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor_name,
        members=members,
        authorized_operations=group_operations(OF_CONSUMER_GROUP, asked=with_operations and group.error_code == 0),
    )


def _member(member: ConsumerMemberDescription) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        assignment=_assignment(member.assignment),
        target_assignment=_assignment(member.target),
        member_type=_CLASSIC_MEMBER if member.is_classic else _CONSUMER_MEMBER,
    )


def _assignment(topics: Iterable[NamedPartitions]) -> Assignment:
    return Assignment([TopicPartitions(each.topic_id, each.topic_name, list(each.partitions)) for each in topics])
