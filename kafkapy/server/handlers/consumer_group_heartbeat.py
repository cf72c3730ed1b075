"""ConsumerGroupHeartbeat: a member of a consumer group joins, stays or leaves, and gets its partitions (KIP-848).

Versions 0-1. Answered when the log has the records that follow from it, at once if nothing has changed. Members choose
their own ids; in version 0 an empty one is replaced by an id of the broker. Topics of a regular expression are
assigned after a later heartbeat. Not done: members of the classic protocol in the same group.
Errors: COORDINATOR_LOAD_IN_PROGRESS 14, COORDINATOR_NOT_AVAILABLE 15, NOT_COORDINATOR 16, UNKNOWN_MEMBER_ID 25,
INVALID_REQUEST 42, GROUP_ID_NOT_FOUND 69, GROUP_MAX_SIZE_REACHED 81 (also if all members take too much memory),
FENCED_INSTANCE_ID 82, FENCED_MEMBER_EPOCH 110, UNRELEASED_INSTANCE_ID 111, UNSUPPORTED_ASSIGNOR 112,
INVALID_REGULAR_EXPRESSION 128.
"""

import uuid
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Final

from kafkapy.coordinator.answer import respond
from kafkapy.coordinator.group.consumer.calls import JOIN_EPOCH, HeartbeatCall, HeartbeatResult, Partitions
from kafkapy.protocol.constants import AclOperation, AclResourceType
from kafkapy.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

if TYPE_CHECKING:
    from kafkapy.server.dispatch.context import RequestContext

_OWN_ID_FROM: Final = 1
"""The first version whose members choose their ids."""


def handle(
    context: "RequestContext", request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse | Awaitable[ConsumerGroupHeartbeatResponse]:
    """Pass the heartbeat to the coordinator."""
    member_id, names = request.member_id, request.subscribed_topic_names
    if not member_id and request.member_epoch == JOIN_EPOCH and context.header.api_version < _OWN_ID_FROM:
        member_id = str(uuid.uuid4())
    call = HeartbeatCall(
        group_id=request.group_id,
        member_id=member_id,
        member_epoch=request.member_epoch,
        client_id=context.header.client_id or "",
        client_host=f"/{context.session.peer_host}",
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topic_names=None if names is None else tuple(names),
        topic_regex=request.subscribed_topic_regex,
        server_assignor=request.server_assignor,
        owned=None if request.topic_partitions is None else _owned(request.topic_partitions),
        may_describe=_may_describe(context),
    )
    return respond(context.services.group_coordinator.consumer.heartbeat(call), _build)


def _may_describe(context: "RequestContext") -> Callable[[str], bool] | None:
    """Return the check whether the client may describe a topic; None without an authorizer."""
    rights = context.rights()
    if rights is None:
        return None
    return lambda topic: rights.may(AclOperation.DESCRIBE, AclResourceType.TOPIC, topic, logs=False)


def _owned(topics: Iterable[TopicPartitions]) -> Partitions:
    return {each.topic_id: frozenset(each.partitions) for each in topics}


def _build(result: HeartbeatResult) -> ConsumerGroupHeartbeatResponse:
    assignment = None
    if result.assignment is not None:
        assignment = Assignment(
            [TopicPartitions(topic_id, sorted(partitions)) for topic_id, partitions in result.assignment.items()]
        )
    return ConsumerGroupHeartbeatResponse(
        error_code=result.error_code,
        error_message=result.error_message,
        member_id=result.member_id,
        member_epoch=result.member_epoch,
        heartbeat_interval_ms=result.heartbeat_interval_ms,
        assignment=assignment,
    )
