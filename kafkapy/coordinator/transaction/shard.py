"""One partition of ``__transaction_state`` as state, and the replay of its records: the only code that changes it."""

from kafkapy.coordinator.loading import LoadProgress, replay_records
from kafkapy.coordinator.runtime import Shard
from kafkapy.coordinator.transaction.records import decode_key, decode_value
from kafkapy.coordinator.transaction.transaction import Transaction, TransactionData
from kafkapy.records.batch import BatchHeader
from kafkapy.records.errors import InvalidRecordError
from kafkapy.records.record import Record
from kafkapy.turns import Steps
from kafkapy.types import TopicPartition


class TransactionShard(Shard):
    """The transactional ids of one partition.

    Markers have the ``leader_epoch`` as the coordinator's epoch, so that a coordinator that has been replaced can't
    end a transaction after its successor.
    """

    __slots__ = ("transactions",)

    def __init__(self, topic_partition: TopicPartition, leader_epoch: int) -> None:
        super().__init__(topic_partition, leader_epoch)
        self.transactions: dict[str, Transaction] = {}

    @property
    def entry_count(self) -> int:
        """The number of transactional ids."""
        return len(self.transactions)

    def add(self, transaction: Transaction) -> None:
        """Add a transactional id whose first record is about to be written."""
        self.transactions[transaction.transactional_id] = transaction

    def replay_batch(self, content: bytes, header: BatchHeader, position: int, progress: LoadProgress) -> Steps[None]:
        """Replay a batch of the log; records that can't be decoded are skipped."""
        if not header.is_control:
            yield from replay_records(content, header, position, progress, self.replay_record)

    def replay_record(self, record: Record) -> bool:
        """Replay one record of the log.

        Returns False for a record of a kind that only a later release of Kafka knows. Raises one of ``UNDECODABLE`` if
        it is not as a broker writes it.
        """
        if record.key is None:
            raise InvalidRecordError("the record has no key")
        transactional_id = decode_key(record.key)
        if transactional_id is None:
            return False
        self.replay_data(transactional_id, None if record.value is None else decode_value(record.value))
        return True

    def replay_data(self, transactional_id: str, data: TransactionData | None) -> None:
        """Replay the content of a record, loaded or just appended; None is a tombstone."""
        if data is None:
            self.transactions.pop(transactional_id, None)
            return
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            self.transactions[transactional_id] = Transaction(transactional_id, data)
        else:
            transaction.replay(data)
