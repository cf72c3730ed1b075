"""One partition of ``__transaction_state`` as state, and the only code that changes what must last: replay."""

from functools import partial

from kafkapy.coordinator.partition_log import BATCHES_IN_A_STEP, Reading, replay_records
from kafkapy.coordinator.transaction.records import decode_key, decode_value
from kafkapy.coordinator.transaction.transaction import Transaction, TransactionData
from kafkapy.records.batch import BatchHeader, iterate_headers
from kafkapy.records.errors import InvalidRecordError
from kafkapy.records.record import Record
from kafkapy.turns import Steps


class TransactionShard:
    """The transactional ids of one partition. While ``is_loading`` the log is being read and nobody may ask.

    ``coordinator_epoch`` is the leader epoch of the partition: markers carry it, so that a coordinator that has been
    replaced can't end a transaction after its successor.
    """

    __slots__ = ("partition", "coordinator_epoch", "transactions", "is_loading")

    def __init__(self, partition: int, coordinator_epoch: int) -> None:
        self.partition = partition
        self.coordinator_epoch = coordinator_epoch
        self.transactions: dict[str, Transaction] = {}
        self.is_loading = True


def replay_batch(
    shard: TransactionShard, content: bytes, header: BatchHeader, position: int, reading: Reading
) -> Steps[None]:
    """Take over a batch of the log; records that can't be decoded are skipped."""
    if not header.is_control:
        yield from replay_records(content, header, position, reading, partial(replay_record, shard))


def replay_all(shard: TransactionShard, content: bytes, reading: Reading) -> Steps[int | None]:
    """Take over the batches of one read; returns the offset behind the last whole one, None if there is none.

    Raises ``CorruptRecordError`` where the bytes are no batch as it was written.
    """
    begin = reading.offset
    for count, (position, header) in enumerate(iterate_headers(content), 1):
        reading.check(content, position, header)
        yield from replay_batch(shard, content, header, position, reading)
        reading.offset = header.next_offset
        if count % BATCHES_IN_A_STEP == 0:
            yield
    return None if reading.offset == begin else reading.offset


def replay_record(shard: TransactionShard, record: Record) -> bool:
    """Take over one record of the log.

    Returns False for a record of a kind that only a later release of Kafka knows. Raises one of ``UNDECODABLE`` when it
    is none that a broker writes.
    """
    if record.key is None:
        raise InvalidRecordError("the record has no key")
    transactional_id = decode_key(record.key)
    if transactional_id is None:
        return False
    replay_data(shard, transactional_id, None if record.value is None else decode_value(record.value))
    return True


def replay_data(shard: TransactionShard, transactional_id: str, data: TransactionData | None) -> None:
    """Take over what a record says, one of the log or one that this broker has just appended; None is a tombstone."""
    if data is None:
        shard.transactions.pop(transactional_id, None)
        return
    transaction = shard.transactions.get(transactional_id)
    if transaction is None:
        shard.transactions[transactional_id] = Transaction(transactional_id, data)
    else:
        transaction.data = data
        transaction.fenced_at = None
