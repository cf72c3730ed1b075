"""AddPartitionsToTxn and AddOffsetsToTxn: a transaction begins with its first partition."""

from kafkapy.coordinator.transaction import states
from kafkapy.coordinator.transaction.results import AddCall, Move
from kafkapy.coordinator.transaction.transaction import Incarnation, Transaction
from kafkapy.protocol.errors import ErrorCode


def producer_error(transaction: Transaction, producer: Incarnation) -> int:
    """Whether the producer is the one that has the transactional id: 0, or 49, 90, 51 in Kafka's order."""
    if producer.producer_id != transaction.data.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if producer.epoch != transaction.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.CONCURRENT_TRANSACTIONS if transaction.is_moving else 0


def decide(transaction: Transaction, call: AddCall, now_ms: int) -> Move | int:
    """The record to write, or an error code; 0: the transaction has them all."""
    error_code = producer_error(transaction, call.producer) or states.ADD[transaction.data.state]
    if error_code:
        return error_code
    data = transaction.data
    is_open = data.state is states.ONGOING
    partitions = dict.fromkeys((*data.partitions, *call.partitions))
    if is_open and len(partitions) == len(data.partitions):
        return 0
    return Move(
        data._replace(
            state=states.ONGOING,
            partitions=tuple(partitions),
            last_update_ms=now_ms,
            start_ms=data.start_ms if is_open else now_ms,
        )
    )
