"""One partition of ``__transaction_state`` as state, and the only code that changes what must last: replay."""

from kafkapy.coordinator.transaction.records import decode_key, decode_value
from kafkapy.coordinator.transaction.transaction import Transaction, TransactionData
from kafkapy.records.batch import BatchHeader, ReadableBuffer
from kafkapy.records.record import Record, read_records

TRANSACTION_TOPIC = "__transaction_state"


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


def replay_batch(shard: TransactionShard, batch: ReadableBuffer, header: BatchHeader, position: int) -> None:
    """Take over a batch of the log."""
    if not header.is_control:
        for record in read_records(batch, header, position):
            replay_record(shard, record)


def replay_record(shard: TransactionShard, record: Record) -> None:
    """Take over one record of the log."""
    transactional_id = None if record.key is None else decode_key(record.key)
    if transactional_id is None:
        return  # of a kind that later releases know
    replay_data(shard, transactional_id, None if record.value is None else decode_value(record.value))


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
