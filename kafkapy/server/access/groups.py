"""The rules of APIs about consumer groups and their offsets."""

from typing import Final

from kafkapy import kafka_texts
from kafkapy.protocol.constants import GROUP_KEY, TRANSACTIONAL_ID_KEY, AclOperation
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.message import Message
from kafkapy.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from kafkapy.protocol.messages.consumer_group_describe import (
    DescribedGroup as DescribedConsumerGroup,
)
from kafkapy.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafkapy.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from kafkapy.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from kafkapy.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from kafkapy.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkapy.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kafkapy.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kafkapy.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kafkapy.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kafkapy.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from kafkapy.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kafkapy.security.authorizer import Rights
from kafkapy.server.access.rules import (
    CHECKS_IN_A_STEP,
    GROUP,
    NO_GROUP,
    NO_TOPIC,
    NO_TRANSACTION,
    TOPIC,
    TRANSACTIONAL_ID,
    may_on_only_topic,
    may_on_topics,
    name,
    partition_indexes,
    rows_as_listed,
    rows_of,
    split,
    with_fields,
    without_denied,
)
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.server.dispatch.result import Response
from kafkapy.server.dispatch.verdicts import Partial, Verdict
from kafkapy.server.handlers.shared.authorized_operations import OF_GROUP
from kafkapy.server.handlers.shared.older_versions import refuses_static_member
from kafkapy.turns import MaybeSteps, Steps
from kafkapy.types import NO_OFFSET

_FIRST_VERSION_WITH_REQUEST_ERROR: Final = 2
_FIRST_VERSION_WITH_SEVERAL_KEYS: Final = 4
_FIRST_VERSION_WITH_SEVERAL_GROUPS: Final = 8
_KEY_TYPES: Final = {GROUP_KEY: (GROUP, NO_GROUP), TRANSACTIONAL_ID_KEY: (TRANSACTIONAL_ID, NO_TRANSACTION)}
_FIRST_VERSION_WITHOUT_PROTOCOL: Final = 7
_FIRST_VERSION_WITH_MANDATORY_PROTOCOL: Final = 5


# Offsets


def offset_commit(rights: Rights, context: RequestContext, request: OffsetCommitRequest) -> MaybeSteps[Verdict]:
    """Read on the group, then on each topic."""
    if not rights.may(AclOperation.READ, GROUP, request.group_id):
        return _refused_commit(request)
    if refuses_static_member(context, request.group_instance_id):
        return None  # the handler refuses it, whatever its topics are
    if may_on_only_topic(rights, AclOperation.READ, request.topics, name):
        return None
    return _offset_commit(rights, request)


def _refused_commit(request: OffsetCommitRequest) -> Steps[Verdict]:
    rows = yield from rows_as_listed(
        request.topics,
        (name, partition_indexes),
        lambda index: OffsetCommitResponsePartition(index, NO_GROUP),
        lambda topic, rows: OffsetCommitResponseTopic(topic, partitions=rows),
    )
    return OffsetCommitResponse(topics=rows)


def _offset_commit(rights: Rights, request: OffsetCommitRequest) -> Steps[Verdict]:
    return without_denied(
        rights,
        AclOperation.READ,
        request,
        name,
        lambda denied: rows_of(
            denied,
            (name, partition_indexes),
            lambda index: OffsetCommitResponsePartition(index, NO_TOPIC),
            lambda topic, rows: OffsetCommitResponseTopic(topic, partitions=rows),
        ),
    )


def offset_fetch(rights: Rights, context: RequestContext, request: OffsetFetchRequest) -> MaybeSteps[Verdict]:
    """Describe on the group, then on each topic; a request for all topics gets those that are allowed."""
    version = context.header.api_version
    if version >= _FIRST_VERSION_WITH_SEVERAL_GROUPS:
        return None  # its handler looks at the rights for each group
    if not rights.may(AclOperation.DESCRIBE, GROUP, request.group_id):
        return _refused_fetch(request, version)
    if request.topics is None:
        return Partial(request, lambda response: _without_hidden(rights, response))
    if may_on_only_topic(rights, AclOperation.DESCRIBE, request.topics, name):
        return None
    return _offset_fetch(rights, request, version)


def _refused_fetch(request: OffsetFetchRequest, version: int) -> Steps[Verdict]:
    if version >= _FIRST_VERSION_WITH_REQUEST_ERROR:
        return OffsetFetchResponse(error_code=NO_GROUP)
    return OffsetFetchResponse(topics=(yield from _offset_rows(request.topics or [], NO_GROUP)))


def _without_hidden(rights: Rights, response: OffsetFetchResponse) -> Steps[Response]:
    response.topics, _ = yield from may_on_topics(rights, AclOperation.DESCRIBE, response.topics, name)
    return response


def _offset_fetch(rights: Rights, request: OffsetFetchRequest, version: int) -> Steps[Verdict]:
    kept, denied = yield from may_on_topics(rights, AclOperation.DESCRIBE, request.topics or (), name)
    if not denied:
        return None
    rows = yield from _offset_rows(denied, NO_TOPIC)

    def merge(response: OffsetFetchResponse) -> Message:
        """An error of the coordinator is that of all partitions."""
        if response.error_code and version >= _FIRST_VERSION_WITH_REQUEST_ERROR:
            return response
        response.topics += rows
        return response

    return Partial(with_fields(request, topics=kept), merge)


def _offset_rows(topics: list[OffsetFetchRequestTopic], error_code: int) -> Steps[list[OffsetFetchResponseTopic]]:
    return rows_of(
        topics,
        (name, lambda topic: topic.partition_indexes),
        lambda index: OffsetFetchResponsePartition(index, NO_OFFSET, error_code=error_code),
        OffsetFetchResponseTopic,
    )


def offset_delete(rights: Rights, _context: RequestContext, request: OffsetDeleteRequest) -> Steps[Verdict]:
    """Delete on the group, then Read on each topic."""
    if not rights.may(AclOperation.DELETE, GROUP, request.group_id):
        return OffsetDeleteResponse(error_code=NO_GROUP)
    kept, denied = yield from may_on_topics(rights, AclOperation.READ, request.topics, name)
    if not denied:
        return None
    rows = yield from rows_of(
        denied,
        (name, partition_indexes),
        lambda index: OffsetDeleteResponsePartition(index, NO_TOPIC),
        OffsetDeleteResponseTopic,
    )

    def merge(response: OffsetDeleteResponse) -> Message:
        if not response.error_code:
            response.topics += rows
        return response

    return Partial(with_fields(request, topics=kept), merge)


# Members


def find_coordinator(rights: Rights, context: RequestContext, request: FindCoordinatorRequest) -> MaybeSteps[Verdict]:
    """Describe on the group or the transactional id; the handler refuses other kinds of keys."""
    if context.header.api_version >= _FIRST_VERSION_WITH_SEVERAL_KEYS:
        return _find_several(rights, request)
    refusal: tuple[ErrorCode, str] | None = None
    if request.key_type == GROUP_KEY and not rights.may(AclOperation.DESCRIBE, GROUP, request.key):
        refusal = NO_GROUP, kafka_texts.GROUP_NOT_AUTHORIZED
    if request.key_type == TRANSACTIONAL_ID_KEY and not rights.may(
        AclOperation.DESCRIBE, TRANSACTIONAL_ID, request.key
    ):
        refusal = NO_TRANSACTION, kafka_texts.TRANSACTIONAL_ID_NOT_AUTHORIZED
    if refusal is None:
        return None
    error_code, text = refusal
    return FindCoordinatorResponse(error_code=error_code, error_message=text, node_id=-1, host="", port=-1)


def _find_several(rights: Rights, request: FindCoordinatorRequest) -> Steps[Verdict]:
    known = _KEY_TYPES.get(request.key_type)
    if known is None:
        return None
    resource_type, error_code = known
    kept, denied = yield from split(
        request.coordinator_keys, str, lambda key: rights.may(AclOperation.DESCRIBE, resource_type, key)
    )
    if not denied:
        return None

    def merge(response: FindCoordinatorResponse) -> Steps[Response]:
        for key in denied:
            response.coordinators.append(Coordinator(key, -1, "", -1, error_code))
            yield
        return response

    return Partial(with_fields(request, coordinator_keys=kept), merge)


def join_group(rights: Rights, context: RequestContext, request: JoinGroupRequest) -> Verdict:
    """Read on the group."""
    if refuses_static_member(context, request.group_instance_id) or _may_read(rights, request.group_id):
        return None
    protocol_name = None if context.header.api_version >= _FIRST_VERSION_WITHOUT_PROTOCOL else ""
    return JoinGroupResponse(error_code=NO_GROUP, protocol_name=protocol_name, members=[])


def sync_group(rights: Rights, context: RequestContext, request: SyncGroupRequest) -> Verdict:
    """Read on the group; a request without its protocol is refused before that."""
    lacks_protocol = request.protocol_type is None or request.protocol_name is None
    if lacks_protocol and context.header.api_version >= _FIRST_VERSION_WITH_MANDATORY_PROTOCOL:
        return None
    if refuses_static_member(context, request.group_instance_id) or _may_read(rights, request.group_id):
        return None
    return SyncGroupResponse(error_code=NO_GROUP)


def heartbeat(rights: Rights, context: RequestContext, request: HeartbeatRequest) -> Verdict:
    """Read on the group."""
    if refuses_static_member(context, request.group_instance_id) or _may_read(rights, request.group_id):
        return None
    return HeartbeatResponse(error_code=NO_GROUP)


def leave_group(rights: Rights, _context: RequestContext, request: LeaveGroupRequest) -> Verdict:
    """Read on the group."""
    return None if _may_read(rights, request.group_id) else LeaveGroupResponse(error_code=NO_GROUP)


def _may_read(rights: Rights, group_id: str) -> bool:
    return rights.may(AclOperation.READ, GROUP, group_id)


# Groups themselves


def describe_groups(rights: Rights, _context: RequestContext, request: DescribeGroupsRequest) -> Steps[Verdict]:
    """Describe on each group; the response may have the operations that the client has on it."""
    kept, denied = yield from split(
        request.groups, str, lambda group_id: rights.may(AclOperation.DESCRIBE, GROUP, group_id)
    )
    if not denied and not request.include_authorized_operations:
        return None
    hidden = set(denied)

    def merge(response: DescribeGroupsResponse) -> Steps[Response]:
        described = iter(response.groups)
        whole = DescribeGroupsResponse(groups=[])
        for group_id in request.groups:
            if group_id in hidden:
                group = DescribedGroup(NO_GROUP, group_id=group_id)
            else:
                group = next(described)
                if request.include_authorized_operations and not group.error_code:
                    group.authorized_operations = rights.operations(GROUP, group_id) & OF_GROUP
            whole.groups.append(group)
            yield
        return whole

    return Partial(with_fields(request, groups=kept), merge)


def list_groups(rights: Rights, _context: RequestContext, request: ListGroupsRequest) -> Verdict:
    """Describe on the cluster; without it the response has the groups on which Describe is allowed."""
    if rights.may_on_cluster(AclOperation.DESCRIBE):
        return None

    def merge(response: ListGroupsResponse) -> Steps[Response]:
        response.groups, _ = yield from split(
            response.groups,
            lambda group: group.group_id,
            lambda group_id: rights.may(AclOperation.DESCRIBE, GROUP, group_id),
        )
        return response

    return Partial(request, merge)


def delete_groups(rights: Rights, _context: RequestContext, request: DeleteGroupsRequest) -> Steps[Verdict]:
    """Delete on each group; one that is named twice is answered once."""
    kept, denied = yield from split(
        request.groups_names, str, lambda group_id: rights.may(AclOperation.DELETE, GROUP, group_id)
    )
    if not denied:
        return None

    def merge(response: DeleteGroupsResponse) -> Steps[Response]:
        for number, group_id in enumerate(dict.fromkeys(denied), start=1):
            response.results.append(DeletableGroupResult(group_id, NO_GROUP))
            if number % CHECKS_IN_A_STEP == 0:
                yield
        return response

    return Partial(with_fields(request, groups_names=kept), merge)


# Consumer groups (KIP-848)

_HIDDEN_TOPICS: Final = "The group has described topic(s) that the client is not authorized to describe."


def consumer_group_heartbeat(
    rights: Rights, _context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> Steps[Verdict]:
    """Read on the group, and Describe on all topics of the subscription, if the request names it."""
    if not _may_read(rights, request.group_id):
        return ConsumerGroupHeartbeatResponse(error_code=NO_GROUP)
    _, denied = yield from split(
        request.subscribed_topic_names or (),
        str,
        lambda topic: rights.may(AclOperation.DESCRIBE, TOPIC, topic),
    )
    return ConsumerGroupHeartbeatResponse(error_code=NO_TOPIC) if denied else None


def consumer_group_describe(
    rights: Rights, _context: RequestContext, request: ConsumerGroupDescribeRequest
) -> Steps[Verdict]:
    """Describe on each group, and on the topics that its members have or will have."""
    kept, denied = yield from split(
        request.group_ids, str, lambda group_id: rights.may(AclOperation.DESCRIBE, GROUP, group_id)
    )

    def merge(response: ConsumerGroupDescribeResponse) -> Steps[Response]:
        groups = [DescribedConsumerGroup(NO_GROUP, group_id=group_id) for group_id in denied]
        for group in response.groups:
            is_visible = all(rights.may(AclOperation.DESCRIBE, TOPIC, topic) for topic in _topics_of(group))
            if is_visible and request.include_authorized_operations and not group.error_code:
                group.authorized_operations = rights.operations(GROUP, group.group_id)
            hidden = DescribedConsumerGroup(NO_TOPIC, _HIDDEN_TOPICS, group.group_id)
            groups.append(group if is_visible else hidden)
            yield
        return ConsumerGroupDescribeResponse(groups=groups)

    return Partial(with_fields(request, group_ids=kept), merge)


def _topics_of(group: DescribedConsumerGroup) -> set[str]:
    assignments = [each for member in group.members for each in (member.assignment, member.target_assignment)]
    return {topic.topic_name for assignment in assignments for topic in assignment.topic_partitions}
