"""AddPartitionsToTxn v0-5: adds partitions to a transaction before it writes to them; the first one begins it.

From v4 on brokers send it, for any number of transactions: a leader adds its partition for a producer of transaction
version 2, or asks whether a producer has added it (``verify_only``, KIP-890); TRANSACTION_ABORTABLE 120 if it has not.
All or none: if one can't be added (unknown 3, internal topic 29), the others answer OPERATION_NOT_ATTEMPTED 55.
Errors: UNKNOWN_TOPIC_OR_PARTITION 3, COORDINATOR_LOAD_IN_PROGRESS 14, COORDINATOR_NOT_AVAILABLE 15, NOT_COORDINATOR 16,
TOPIC_AUTHORIZATION_FAILED 29, INVALID_REQUEST 42, INVALID_PRODUCER_ID_MAPPING 49, CONCURRENT_TRANSACTIONS 51,
OPERATION_NOT_ATTEMPTED 55, PRODUCER_FENCED 90 (below v2: INVALID_PRODUCER_EPOCH 47).
"""

from collections.abc import Awaitable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from kafkapy.coordinator.answer import Answer, respond, respond_in_turns
from kafkapy.coordinator.transaction.transaction import AddCall, ProducerIdAndEpoch
from kafkapy.metadata.topic_rules import INTERNAL_TOPICS
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from kafkapy.server.handlers.shared.broker_transactions import FIRST_VERSION_OF_BROKERS, add_for_brokers
from kafkapy.server.handlers.shared.older_versions import fencing_code
from kafkapy.server.handlers.shared.partition_rows import few_rows, rows_by_topic
from kafkapy.turns import PIECE, Steps, pieces
from kafkapy.types import TopicPartition, topic_partition_of

if TYPE_CHECKING:
    from kafkapy.server.dispatch.context import RequestContext

_FIRST_VERSION_OF_FENCED: Final = 2


Answered = AddPartitionsToTxnResponse | Awaitable[AddPartitionsToTxnResponse]


def handle(context: "RequestContext", request: AddPartitionsToTxnRequest) -> Answered | Steps[Answered]:
    """See the card; a request for several topics, or for many partitions, takes steps."""
    if context.header.api_version >= FIRST_VERSION_OF_BROKERS:
        return add_for_brokers(context, request)
    topics = request.v3_and_below_topics
    if len(topics) != 1 or len(topics[0].partitions) > PIECE:
        return _add_many(context, request)
    name = topics[0].name
    errors = {topic_partition_of((name, index)): error_of(context, name, index) for index in topics[0].partitions}
    if any(errors.values()):
        return _build_at_once(refused(errors))
    answer = _add(context, request, errors)
    return respond(
        answer,
        lambda error_code: _build_at_once(_codes(context, errors, error_code)),
    )


def _add_many(context: "RequestContext", request: AddPartitionsToTxnRequest) -> Steps[Answered]:
    """Do what ``handle`` does, with places to pause."""
    errors: dict[TopicPartition, int] = {}
    for topic in request.v3_and_below_topics:
        for piece in pieces(topic.partitions):
            if errors:
                yield
            for index in piece:
                errors[topic_partition_of((topic.name, index))] = error_of(context, topic.name, index)
    if any(errors.values()):
        return (yield from build(refused(errors)))
    answer = _add(context, request, errors)
    if answer.is_set:
        return (yield from build(_codes(context, errors, answer.value)))
    return respond_in_turns(answer, lambda error_code: build(_codes(context, errors, error_code)))


def _add(
    context: "RequestContext", request: AddPartitionsToTxnRequest, partitions: Iterable[TopicPartition]
) -> Answer[int]:
    producer = ProducerIdAndEpoch(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
    call = AddCall(request.v3_and_below_transactional_id, producer, tuple(partitions))
    return context.services.transaction_coordinator.add_partitions(call)


def refused(errors: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return the error of each partition of a request that has some: all or none are added."""
    return {topic_partition: code or ErrorCode.OPERATION_NOT_ATTEMPTED for topic_partition, code in errors.items()}


def _codes(
    context: "RequestContext", partitions: Iterable[TopicPartition], error_code: int
) -> dict[TopicPartition, int]:
    return dict.fromkeys(partitions, fencing_code(error_code, context.header.api_version, _FIRST_VERSION_OF_FENCED))


def error_of(context: "RequestContext", topic: str, index: int) -> int:
    """Return why a partition can't be added to any transaction; 0 if it can."""
    if topic in INTERNAL_TOPICS:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if context.services.metadata.image.partition(topic, index) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return 0


def _build_at_once(errors: Mapping[TopicPartition, int]) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=list(few_rows(errors.items(), _topic, _row).values())
    )


def build(errors: Mapping[TopicPartition, int]) -> Steps[AddPartitionsToTxnResponse]:
    """Build the response with an error code for each partition."""
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=(yield from rows_by_topic(errors, _topic, _row)))


def _topic(name: str) -> AddPartitionsToTxnTopicResult:
    return AddPartitionsToTxnTopicResult(name, [])


def _row(topic: AddPartitionsToTxnTopicResult, index: int, error_code: int) -> None:
    topic.results_by_partition.append(AddPartitionsToTxnPartitionResult(index, error_code))
