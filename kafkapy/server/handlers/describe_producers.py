"""DescribeProducers v0: the producers that partitions remember, and their open transactions (KIP-664).

Done: every replica answers for its own log, as in 4.4.0. A request that names partitions again and again is refused
with the end of its connection if the response would have more than ``MOST_PRODUCERS``.
Errors, by partition: UNKNOWN_TOPIC_OR_PARTITION 3, NOT_LEADER_OR_FOLLOWER 6 (no replica here),
INVALID_TOPIC_EXCEPTION 17, TOPIC_AUTHORIZATION_FAILED 29 (Read on the topic), KAFKA_STORAGE_ERROR 56.
"""

from typing import Final

from kafkapy import kafka_texts
from kafkapy.errors import BrokerError
from kafkapy.metadata.topic_rules import check_name
from kafkapy.network.errors import RefusedError
from kafkapy.protocol.constants import AclOperation, AclResourceType
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.turns import Steps, pieces
from kafkapy.types import TopicPartition

MOST_PRODUCERS: Final = 1_000_000
"""Producers in one response, of about 40 bytes each."""

TopicError = tuple[int, str]


def handle(context: RequestContext, request: DescribeProducersRequest) -> Steps[DescribeProducersResponse]:
    """Describe each partition once, also one that is named several times."""
    known: dict[TopicPartition, PartitionResponse] = {}
    response = DescribeProducersResponse(topics=[])
    count = 0
    for topic in request.topics:
        error = _topic_error(context, topic.name)
        rows = []
        for index in topic.partition_indexes:
            topic_partition = TopicPartition(topic.name, index)
            row = known.get(topic_partition)
            if row is None:
                row = known[topic_partition] = yield from _describe(context, topic_partition, error)
            rows.append(row)
            count += len(row.active_producers)
            if count > MOST_PRODUCERS:
                raise RefusedError(f"the response of DescribeProducers has more than {MOST_PRODUCERS} producers")
            yield
        response.topics.append(TopicResponse(topic.name, rows))
        yield
    return response


def _topic_error(context: RequestContext, name: str) -> TopicError | None:
    try:
        check_name(name)
    except BrokerError as error:
        return error.error_code, str(error)
    rights = context.rights()
    if rights is not None and not rights.may(AclOperation.READ, AclResourceType.TOPIC, name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED, kafka_texts.TOPIC_NOT_AUTHORIZED
    if name not in context.services.metadata.image.topics:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, kafka_texts.PARTITION_NOT_HOSTED
    return None


def _describe(
    context: RequestContext, topic_partition: TopicPartition, error: TopicError | None
) -> Steps[PartitionResponse]:
    index = topic_partition.partition
    if error is not None:
        return PartitionResponse(index, *error, active_producers=[])
    try:
        state = context.services.replica_manager.partition(topic_partition).log.producer_state
    except BrokerError as refusal:
        return PartitionResponse(index, refusal.error_code, active_producers=[])
    row = PartitionResponse(index, active_producers=[])
    for piece in pieces(list(state.producers.values())):
        row.active_producers += [
            ProducerState(
                producer_id=each.producer_id,
                producer_epoch=each.producer_epoch,
                last_sequence=each.last_sequence,
                last_timestamp=each.last_timestamp,
                coordinator_epoch=each.coordinator_epoch,
                current_txn_start_offset=each.current_txn_first_offset,
            )
            for each in piece
        ]
        yield
    return row
