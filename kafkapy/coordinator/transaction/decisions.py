"""Decides on a producer's request: the transition to write, if any, and the response once the log has it.

Only ``fence`` changes a transaction: it raises the epoch at once. ``TransactionRuntime.write_transition`` writes a
transition to the log, and its replay changes the transaction.
"""

from collections.abc import Iterable

from kafkapy.coordinator.transaction import states
from kafkapy.coordinator.transaction.transaction import (
    EPOCH_PER_TRANSACTION,
    MAX_EPOCH,
    NO_ID_AND_EPOCH,
    AddCall,
    EndCall,
    Ended,
    InitializeCall,
    Initialized,
    ProducerIdAndEpoch,
    Transaction,
    TransactionData,
    Transition,
)
from kafkapy.protocol.errors import ErrorCode
from kafkapy.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

# InitProducerId: the next producer id and epoch, which fence the producer before (KIP-98, KIP-360)


def new_transaction(call: InitializeCall, producer_id: int, now_ms: int) -> Transaction:
    """Return the state of an unknown transactional id; it has no epoch before its first record."""
    data = TransactionData(producer_id, NO_PRODUCER_EPOCH, call.timeout_ms, last_update_ms=now_ms)
    return Transaction(call.transactional_id, data)


def initialize(
    transaction: Transaction, call: InitializeCall, now_ms: int, new_id: int | None
) -> tuple[Transition | None, Initialized] | None:
    """None means: it needs ``new_id``, a producer id that has not been used yet.

    An open transaction is aborted and its producer is fenced; the client repeats its request in the meantime.
    """
    if transaction.has_pending_transition:
        return _refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    if not _is_expected(transaction, call.expected):
        return _refused(ErrorCode.PRODUCER_FENCED)
    if transaction.data.state is states.ONGOING:
        return fence(transaction, now_ms), Initialized(ErrorCode.CONCURRENT_TRANSACTIONS)
    error_code = states.INITIALIZE[transaction.data.state]
    return _refused(error_code) if error_code else _next_producer(transaction, call, now_ms, new_id)


def _refused(error_code: int) -> tuple[None, Initialized]:
    return None, Initialized(error_code)


def _is_expected(transaction: Transaction, expected: ProducerIdAndEpoch) -> bool:
    """Whether the request names no producer, the current producer id, or the previous one at its last epoch.

    A client whose producer id was replaced because its epochs were used up may not have received the new id.
    """
    data = transaction.data
    if (
        expected == NO_ID_AND_EPOCH
        or data.producer_epoch == NO_PRODUCER_EPOCH
        or expected.producer_id == data.producer_id
    ):
        return True
    return expected.producer_id == transaction.previous.producer_id and expected.epoch >= MAX_EPOCH - 1


def _next_producer(
    transaction: Transaction, call: InitializeCall, now_ms: int, new_id: int | None
) -> tuple[Transition | None, Initialized] | None:
    data, expected = transaction.data, call.expected
    is_present = expected == NO_ID_AND_EPOCH or data.producer_epoch in (expected.epoch, NO_PRODUCER_EPOCH)
    if is_present:
        producer = ProducerIdAndEpoch(data.producer_id, data.producer_epoch + 1)
        if data.is_epoch_exhausted:
            if new_id is None:
                return None
            producer = ProducerIdAndEpoch(new_id, 0)
        previous_epoch = NO_PRODUCER_EPOCH if expected == NO_ID_AND_EPOCH else data.producer_epoch
        return _initialized(data, call, now_ms, producer, ProducerIdAndEpoch(data.producer_id, previous_epoch))
    if expected.epoch == transaction.previous.epoch:
        # the first response was lost and the request is repeated: the same result, and no producer is fenced
        present = ProducerIdAndEpoch(data.producer_id, data.producer_epoch)
        return _initialized(data, call, now_ms, present, transaction.previous)
    return _refused(ErrorCode.PRODUCER_FENCED)


def _initialized(
    before: TransactionData,
    call: InitializeCall,
    now_ms: int,
    producer: ProducerIdAndEpoch,
    previous: ProducerIdAndEpoch,
) -> tuple[Transition, Initialized]:
    assert producer.producer_id != NO_PRODUCER_ID
    data = TransactionData(
        producer.producer_id,
        producer.epoch,
        call.timeout_ms,
        last_update_ms=now_ms,
        client_version=before.client_version,
        previous_producer_id=before.producer_id,
    )
    return Transition(data, previous), Initialized(0, producer.producer_id, producer.epoch)


# AddPartitionsToTxn, AddOffsetsToTxn: a transaction begins with its first partition


def producer_error(transaction: Transaction, producer: ProducerIdAndEpoch) -> int:
    """An error code if the producer is not the current one, or a transition is pending; else 0."""
    if producer.producer_id != transaction.data.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if producer.epoch != transaction.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.CONCURRENT_TRANSACTIONS if transaction.has_pending_transition else 0


def add_partitions(transaction: Transaction, call: AddCall, now_ms: int) -> tuple[Transition | None, int]:
    """The error code is 0 without a transition if the transaction has all the partitions."""
    data = transaction.data
    error_code = producer_error(transaction, call.producer) or states.ADD[data.state]
    if error_code:
        return None, error_code
    is_open = data.state is states.ONGOING
    partitions = dict.fromkeys((*data.partitions, *call.partitions))
    if is_open and len(partitions) == len(data.partitions):
        return None, 0
    opened = data._replace(
        state=states.ONGOING,
        partitions=tuple(partitions),
        last_update_ms=now_ms,
        start_ms=data.start_ms if is_open else now_ms,
        client_version=call.client_version,
        previous_producer_id=data.producer_id,
    )
    return Transition(opened), 0


def verify(transaction: Transaction, call: AddCall) -> int:
    """An error code if a partition is not part of the open transaction (KIP-890), else 0.

    A transition that is pending does not matter: its marker ends the verification in the partition's log.
    """
    data = transaction.data
    if call.producer.producer_id != data.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if call.producer.epoch != transaction.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    if data.state in states.PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    is_added = set(data.partitions).issuperset(call.partitions)
    return 0 if is_added else ErrorCode.TRANSACTION_ABORTABLE


# How a transaction ends: EndTxn, fencing, and completion after all markers are written


def end(
    transaction: Transaction, call: EndCall, now_ms: int, new_id: int | None = None
) -> tuple[Transition | None, Ended] | None:
    """None means: it needs ``new_id``, a producer id that has not been used yet.

    The error code is 0 without a transition if the transaction has ended in this way before.
    """
    if call.client_version >= EPOCH_PER_TRANSACTION:
        return _end_with_epoch(transaction, call, now_ms, new_id)
    table = states.COMMIT if call.is_commit else states.ABORT
    error_code = producer_error(transaction, call.producer) or table[transaction.data.state]
    if error_code or transaction.data.state is not states.ONGOING:
        return None, Ended(error_code)
    return Transition(_prepared(transaction.data, call, now_ms)), Ended(0)


def _end_with_epoch(
    transaction: Transaction, call: EndCall, now_ms: int, new_id: int | None
) -> tuple[Transition | None, Ended] | None:
    """End a transaction of version 2: the producer gets another epoch, which the markers have too.

    The epoch tells a repeated request from the end of the next transaction. An abort without a transaction ends one
    without partitions: the client may not know whether its first write began a transaction.
    """
    data = transaction.data
    is_present = call.producer == (data.producer_id, transaction.producer_epoch)
    error_code = _end_error(transaction, call, is_present=is_present)
    if error_code:
        return None, Ended(error_code)
    if not is_present:
        return None, Ended(0, ProducerIdAndEpoch(data.producer_id, data.producer_epoch))
    if not data.is_epoch_exhausted:
        prepared = _prepared(data, call, now_ms)._replace(producer_epoch=data.producer_epoch + 1)
        ended = Ended(0, ProducerIdAndEpoch(data.producer_id, prepared.producer_epoch))
    elif new_id is None:
        return None
    else:
        prepared = _prepared(data, call, now_ms)._replace(producer_epoch=MAX_EPOCH, next_producer_id=new_id)
        ended = Ended(0, ProducerIdAndEpoch(new_id, 0))
    return Transition(prepared, ProducerIdAndEpoch(data.producer_id, data.producer_epoch)), ended


def _end_error(transaction: Transaction, call: EndCall, *, is_present: bool) -> int:
    """Return why a transaction of version 2 can't be ended, else 0: the request ``is_present``, or a repeated one."""
    data, producer = transaction.data, call.producer
    is_repeated = data.client_version >= EPOCH_PER_TRANSACTION and transaction.fenced_at is None
    has_next_epoch = is_repeated and producer == (data.producer_id, data.producer_epoch - 1)
    has_next_id = is_repeated and producer == (data.previous_producer_id, MAX_EPOCH - 1) and not data.producer_epoch
    if producer.producer_id != data.producer_id and not has_next_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    is_repeated = has_next_epoch or has_next_id
    is_expected = is_repeated if data.state in states.PREPARED else is_present
    if not is_expected and not (is_repeated and data.state in states.COMPLETE):
        return ErrorCode.PRODUCER_FENCED
    if transaction.has_pending_transition:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if is_present:
        is_open = data.state is states.ONGOING
        return 0 if is_open or not call.is_commit else ErrorCode.INVALID_TXN_STATE
    return (states.COMMIT if call.is_commit else states.ABORT)[data.state]


def _prepared(data: TransactionData, call: EndCall, now_ms: int) -> TransactionData:
    """The decided end of a transaction; one without partitions begins and ends at the same time."""
    return data._replace(
        state=states.PREPARE_COMMIT if call.is_commit else states.PREPARE_ABORT,
        last_update_ms=now_ms,
        start_ms=data.start_ms if data.state is states.ONGOING else now_ms,
        client_version=call.client_version,
        previous_producer_id=data.producer_id,
    )


def fence(transaction: Transaction, now_ms: int) -> Transition:
    """Abort the open transaction in a new epoch, so that requests of its producer are refused from now on.

    A producer of transaction version 2 may go on with the new epoch: it is not told that it is fenced (KIP-890).
    """
    data = transaction.data
    assert data.state is states.ONGOING
    previous = NO_ID_AND_EPOCH
    if data.client_version >= EPOCH_PER_TRANSACTION:
        previous = ProducerIdAndEpoch(data.producer_id, data.producer_epoch)
    fenced = data._replace(
        state=states.PREPARE_ABORT,
        producer_epoch=transaction.fence(),
        last_update_ms=now_ms,
        previous_producer_id=data.producer_id,
    )
    return Transition(fenced, previous)


def complete(transaction: Transaction, now_ms: int) -> Transition:
    """Complete a transaction whose markers are written in all its partitions."""
    data = transaction.data
    is_commit = data.state is states.PREPARE_COMMIT
    completed = data._replace(
        state=states.COMPLETE_COMMIT if is_commit else states.COMPLETE_ABORT,
        partitions=(),
        last_update_ms=now_ms,
        previous_producer_id=data.producer_id,
    )
    if data.next_producer_id != NO_PRODUCER_ID:
        completed = completed._replace(
            producer_id=data.next_producer_id, producer_epoch=0, next_producer_id=NO_PRODUCER_ID
        )
    return Transition(completed)


# Transactions that are open for too long, and unused transactional ids


def timed_out(transactions: Iterable[Transaction], now_ms: int) -> list[Transaction]:
    """Return the transactions to abort: they are open for longer than their producers' time-outs."""
    return [
        each
        for each in transactions
        if each.data.state is states.ONGOING
        and not each.has_pending_transition
        and each.data.start_ms + each.data.timeout_ms < now_ms
    ]


def expired(transactions: Iterable[Transaction], now_ms: int, expiration_ms: int) -> list[Transaction]:
    """Return the expired transactional ids: without an open transaction, and not updated for ``expiration_ms``."""
    return [
        each
        for each in transactions
        if each.data.state in states.IDLE
        and not each.has_pending_transition
        and each.data.last_update_ms <= now_ms - expiration_ms
    ]
