"""AddPartitionsToTxn v0-2: partitions that a transaction is about to write to; the first one begins it.

All or none: if one can't be added (unknown 3, internal topic 29), the others answer OPERATION_NOT_ATTEMPTED 55.
Errors: 3, 14, 15, 16, 29, INVALID_REQUEST 42, INVALID_PRODUCER_ID_MAPPING 49, CONCURRENT_TRANSACTIONS 51, 55,
PRODUCER_FENCED 90 (below v2: INVALID_PRODUCER_EPOCH 47).
"""

from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Final

from kafkapy.cluster.topic_rules import INTERNAL_TOPICS
from kafkapy.coordinator.runtime import respond_in_turns
from kafkapy.coordinator.steps import pieces
from kafkapy.coordinator.transaction.results import AddCall
from kafkapy.coordinator.transaction.transaction import Incarnation
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from kafkapy.server.fencing_codes import fencing_code
from kafkapy.server.partition_rows import rows_by_topic
from kafkapy.turns import Steps
from kafkapy.types import TopicPartition, topic_partition_of

if TYPE_CHECKING:
    from kafkapy.server.context import RequestContext

_FIRST_VERSION_OF_FENCED: Final = 2


def handle(
    context: "RequestContext", request: AddPartitionsToTxnRequest
) -> Steps[AddPartitionsToTxnResponse | Awaitable[AddPartitionsToTxnResponse]]:
    """See the card."""
    errors: dict[TopicPartition, int] = {}
    for topic in request.v3_and_below_topics:
        for piece in pieces(topic.partitions):
            if errors:
                yield
            for index in piece:
                errors[topic_partition_of((topic.name, index))] = _error(context, topic.name, index)
    if any(errors.values()):
        return (yield from _build({tp: code or ErrorCode.OPERATION_NOT_ATTEMPTED for tp, code in errors.items()}))
    producer = Incarnation(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
    call = AddCall(request.v3_and_below_transactional_id, producer, tuple(errors))
    version = context.header.api_version

    def build(error_code: int) -> Steps[AddPartitionsToTxnResponse]:
        return _build(dict.fromkeys(errors, fencing_code(error_code, version, _FIRST_VERSION_OF_FENCED)))

    answer = context.services.transaction_coordinator.add_partitions(call)
    return (yield from build(answer.value)) if answer.is_set else respond_in_turns(answer, build)


def _error(context: "RequestContext", topic: str, index: int) -> int:
    if topic in INTERNAL_TOPICS:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if context.services.metadata.image.partition(topic, index) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return 0


def _build(errors: Mapping[TopicPartition, int]) -> Steps[AddPartitionsToTxnResponse]:
    topics = yield from rows_by_topic(
        errors,
        lambda name: AddPartitionsToTxnTopicResult(name, []),
        lambda topic, *answer: topic.results_by_partition.append(AddPartitionsToTxnPartitionResult(*answer)),
    )
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)
