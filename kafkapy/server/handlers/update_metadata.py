"""UpdateMetadata v0-8, from the controller: in the process, or over the listener of a broker that serves others.

Done: the brokers that are alive, the leader of each partition, ids of topics (v7). A partition that can't exist (its
topic has a name that CreateTopics refuses, or its number is negative) is left out, with a line in the log: names become
paths of the store.
Errors: STALE_CONTROLLER_EPOCH 11 (an older controller), STALE_BROKER_EPOCH 77 (meant for an earlier registration).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafkapy.errors import BrokerError
from kafkapy.metadata.errors import InvalidTopicError
from kafkapy.metadata.topic_rules import check_partition
from kafkapy.protocol.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from kafkapy.turns import Steps
from kafkapy.types import TopicPartition

if TYPE_CHECKING:
    from kafkapy.server.dispatch.context import RequestContext


def handle(context: "RequestContext", request: UpdateMetadataRequest) -> Steps[UpdateMetadataResponse]:
    """Apply the new metadata; a step is a partition."""
    services = context.services
    try:
        services.fence.check(request.controller_epoch, request.broker_epoch)
    except BrokerError as refused:
        return UpdateMetadataResponse(error_code=refused.error_code)
    for topic in request.topic_states:
        topic.partition_states = yield from _legal(context, topic.partition_states, topic.topic_name)
    request.ungrouped_partition_states = yield from _legal(context, request.ungrouped_partition_states)
    yield from services.metadata.apply(request)
    return UpdateMetadataResponse()


def _legal(
    context: "RequestContext", states: Sequence[UpdateMetadataPartitionState], topic: str | None = None
) -> Steps[list[UpdateMetadataPartitionState]]:
    """Return the states of partitions that can exist; old versions name the topic in each state."""
    legal = []
    for state in states:
        yield
        topic_partition = TopicPartition(state.topic_name if topic is None else topic, state.partition_index)
        try:
            check_partition(topic_partition)
        except InvalidTopicError as error:
            context.log_refusal(f"the metadata of {str(topic_partition)!r}", error)
        else:
            legal.append(state)
    return legal
