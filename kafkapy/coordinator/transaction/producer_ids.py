"""InitProducerId of a transactional id: which producer id and epoch, and who is fenced by it (KIP-98, KIP-360)."""

from enum import Enum

from kafkapy.coordinator.transaction import states
from kafkapy.coordinator.transaction.results import InitializeCall, Move
from kafkapy.coordinator.transaction.transaction import (
    MAX_EPOCH,
    NOBODY,
    Incarnation,
    Transaction,
    TransactionData,
)
from kafkapy.protocol.errors import ErrorCode
from kafkapy.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID


class Needed(Enum):
    """What has to be done first; then the call is decided anew."""

    PRODUCER_ID = 1
    """A producer id that nobody has had."""
    ABORT = 2
    """The open transaction must be aborted, its producer fenced; the client asks again meanwhile."""


def new_transaction(call: InitializeCall, producer_id: int, now_ms: int) -> Transaction:
    """A transactional id that was not known; it has no epoch before its first record."""
    data = TransactionData(producer_id, NO_PRODUCER_EPOCH, call.timeout_ms, last_update_ms=now_ms)
    return Transaction(call.transactional_id, data)


def decide(transaction: Transaction, call: InitializeCall, now_ms: int, new_id: int | None) -> Move | Needed | int:
    """The record to write, what is needed first, or an error code."""
    if transaction.is_moving:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if not _may_be(transaction, call.expected):
        return ErrorCode.PRODUCER_FENCED
    if transaction.data.state is states.ONGOING:
        return Needed.ABORT
    error_code = states.INITIALIZE[transaction.data.state]
    return error_code or _next(transaction, call, now_ms, new_id)


def _may_be(transaction: Transaction, expected: Incarnation) -> bool:
    """Whether the producer that ``expected`` names has not been replaced, as far as its id tells.

    After its id was exchanged because its epochs had run out, it may not have heard of that.
    """
    data = transaction.data
    if expected == NOBODY or data.producer_epoch == NO_PRODUCER_EPOCH or expected.producer_id == data.producer_id:
        return True
    return expected.producer_id == transaction.previous.producer_id and expected.epoch >= MAX_EPOCH - 1


def _next(transaction: Transaction, call: InitializeCall, now_ms: int, new_id: int | None) -> Move | Needed | int:
    data, expected = transaction.data, call.expected
    is_present = expected == NOBODY or data.producer_epoch in (expected.epoch, NO_PRODUCER_EPOCH)
    if is_present:
        producer = Incarnation(data.producer_id, data.producer_epoch + 1)
        if data.is_epoch_exhausted:
            if new_id is None:
                return Needed.PRODUCER_ID
            producer = Incarnation(new_id, 0)
        previous_epoch = NO_PRODUCER_EPOCH if expected == NOBODY else data.producer_epoch
        return _move(call, now_ms, producer, Incarnation(data.producer_id, previous_epoch))
    if expected.epoch == transaction.previous.epoch:
        # it asks again, for it never got the answer: the same once more, and nobody is fenced
        return _move(call, now_ms, Incarnation(data.producer_id, data.producer_epoch), transaction.previous)
    return ErrorCode.PRODUCER_FENCED


def _move(call: InitializeCall, now_ms: int, producer: Incarnation, previous: Incarnation) -> Move:
    assert producer.producer_id != NO_PRODUCER_ID
    data = TransactionData(producer.producer_id, producer.epoch, call.timeout_ms, last_update_ms=now_ms)
    return Move(data, previous)
