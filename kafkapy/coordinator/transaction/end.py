"""EndTxn, and the ends that nobody asks for: fencing, and the completion when every partition has its marker."""

from kafkapy.coordinator.transaction import states
from kafkapy.coordinator.transaction.partitions import producer_error
from kafkapy.coordinator.transaction.results import EndCall, Move
from kafkapy.coordinator.transaction.transaction import MAX_EPOCH, NOBODY, Transaction


def decide(transaction: Transaction, call: EndCall, now_ms: int) -> Move | int:
    """The record to write, or an error code; 0: the transaction has ended so before."""
    table = states.COMMIT if call.is_commit else states.ABORT
    error_code = producer_error(transaction, call.producer) or table[transaction.data.state]
    if error_code or transaction.data.state is not states.ONGOING:
        return error_code
    target = states.PREPARE_COMMIT if call.is_commit else states.PREPARE_ABORT
    return Move(transaction.data._replace(state=target, last_update_ms=now_ms))


def fence(transaction: Transaction, now_ms: int) -> Move:
    """Abort the open transaction in an epoch of its own, so that its producer is refused from this moment on.

    An epoch that the log has refused was given to nobody: it serves for the next attempt.
    """
    assert transaction.data.state is states.ONGOING
    data = transaction.data
    if transaction.fenced_at is None:
        transaction.fenced_at = min(data.producer_epoch + 1, MAX_EPOCH)
    return Move(
        data._replace(state=states.PREPARE_ABORT, producer_epoch=transaction.fenced_at, last_update_ms=now_ms), NOBODY
    )


def complete(transaction: Transaction, now_ms: int) -> Move:
    """Every partition has its marker."""
    is_commit = transaction.data.state is states.PREPARE_COMMIT
    target = states.COMPLETE_COMMIT if is_commit else states.COMPLETE_ABORT
    return Move(transaction.data._replace(state=target, partitions=(), last_update_ms=now_ms))
