"""StopReplica v0-4, from the controller: in the process, or over the listener of a broker that serves others.

Done: fencing by controller and broker epoch; leader epochs (v3): an older one is refused, an equal one accepted (2.7.2
refuses it too, later releases do not); a replica that is not here is no error.
Errors: STALE_CONTROLLER_EPOCH 11, STALE_BROKER_EPOCH 77 (both with no partitions), INVALID_TOPIC_EXCEPTION 17 (a name
that CreateTopics refuses, a negative partition), FENCED_LEADER_EPOCH 74, KAFKA_STORAGE_ERROR 56.
"""

from collections.abc import Iterator

from kafkapy.errors import BrokerError
from kafkapy.metadata.errors import InvalidTopicError
from kafkapy.protocol.messages.stop_replica import StopReplicaPartitionError, StopReplicaRequest, StopReplicaResponse
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.turns import Steps
from kafkapy.types import NO_EPOCH, TopicPartition

Stop = tuple[TopicPartition, int, bool]


def handle(context: RequestContext, request: StopReplicaRequest) -> Steps[StopReplicaResponse]:
    """Stop replicas, and delete their logs if the request says so; a step is a replica."""
    try:
        context.services.fence.check(request.controller_epoch, request.broker_epoch)
    except BrokerError as error:
        return StopReplicaResponse(error_code=error.error_code)
    response = StopReplicaResponse(partition_errors=[])
    for stop in _stops(request):
        yield
        topic, index = stop[0]
        response.partition_errors.append(StopReplicaPartitionError(topic, index, _apply(context, stop)))
    return response


def _stops(request: StopReplicaRequest) -> Iterator[Stop]:
    for old in request.ungrouped_partitions:
        yield TopicPartition(old.topic_name, old.partition_index), NO_EPOCH, request.delete_partitions
    for topic in request.topics:
        for index in topic.partition_indexes:
            yield TopicPartition(topic.name, index), NO_EPOCH, request.delete_partitions
    for states in request.topic_states:
        for state in states.partition_states:
            topic_partition = TopicPartition(states.topic_name, state.partition_index)
            yield topic_partition, state.leader_epoch, state.delete_partition


def _apply(context: RequestContext, stop: Stop) -> int:
    topic_partition, leader_epoch, delete = stop
    try:
        context.services.replica_manager.stop_replica(topic_partition, leader_epoch, delete=delete)
    except InvalidTopicError as error:
        context.log_refusal(f"the stop of {str(topic_partition)!r}", error)
        return error.error_code
    except BrokerError as error:
        return error.error_code
    return 0
