"""AddPartitionsToTxn as brokers send it: partitions of many transactions, to add or to verify (KIP-890)."""

from collections.abc import Awaitable, Iterable
from typing import TYPE_CHECKING, Final

from kafkapy.coordinator.answer import Answer, future_of
from kafkapy.coordinator.transaction.transaction import EPOCH_PER_TRANSACTION, AddCall, ProducerIdAndEpoch
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from kafkapy.turns import Steps, turns
from kafkapy.types import TopicPartition, topic_partition_of

if TYPE_CHECKING:
    from kafkapy.server.dispatch.context import RequestContext

FIRST_VERSION_OF_BROKERS: Final = 4

Answered = AddPartitionsToTxnResponse | Awaitable[AddPartitionsToTxnResponse]


def add_for_brokers(context: "RequestContext", request: AddPartitionsToTxnRequest) -> Steps[Answered]:
    """Answer each transaction for itself; the partitions of one are added all or none."""
    response = AddPartitionsToTxnResponse()
    for transaction in request.transactions:
        partitions: list[TopicPartition] = []
        unknown: set[TopicPartition] = set()
        for topic in transaction.topics:
            for index in topic.partitions:
                topic_partition = topic_partition_of((topic.name, index))
                partitions.append(topic_partition)
                if context.services.metadata.image.partition(topic.name, index) is None:
                    unknown.add(topic_partition)
            yield
        codes = dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED)
        if unknown:
            codes.update(dict.fromkeys(unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            response.results_by_transaction.append(_result(transaction, codes.items()))
            continue
        answer = _answer(context, transaction, tuple(partitions))
        if not answer.is_set:
            turns().wait_for(future_of(answer))
            yield
        response.results_by_transaction.append(_result(transaction, ((each, answer.value) for each in partitions)))
    return response


def _answer(
    context: "RequestContext", transaction: AddPartitionsToTxnTransaction, partitions: tuple[TopicPartition, ...]
) -> Answer[int]:
    coordinator = context.services.transaction_coordinator
    producer = ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch)
    call = AddCall(transaction.transactional_id, producer, partitions, EPOCH_PER_TRANSACTION)
    return Answer.of(coordinator.verify(call)) if transaction.verify_only else coordinator.add_partitions(call)


def _result(
    transaction: AddPartitionsToTxnTransaction, codes: Iterable[tuple[TopicPartition, int]]
) -> AddPartitionsToTxnResult:
    topics: dict[str, AddPartitionsToTxnTopicResult] = {}
    for (name, index), error_code in codes:
        topic = topics.setdefault(name, AddPartitionsToTxnTopicResult(name, []))
        topic.results_by_partition.append(AddPartitionsToTxnPartitionResult(index, error_code))
    return AddPartitionsToTxnResult(transaction.transactional_id, list(topics.values()))
