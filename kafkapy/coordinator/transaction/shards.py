"""Ties partitions of ``__transaction_state`` to their state: move → append → replay, load and unload."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final

from kafkapy.clock import Clock
from kafkapy.coordinator.partition_log import BrokerLog, Loading, append_safely, batch_of
from kafkapy.coordinator.steps import Background, pieces
from kafkapy.coordinator.transaction import states
from kafkapy.coordinator.transaction.records import transaction_record
from kafkapy.coordinator.transaction.results import Move
from kafkapy.coordinator.transaction.settings import TransactionSettings
from kafkapy.coordinator.transaction.shard import TransactionShard, replay_all, replay_data
from kafkapy.coordinator.transaction.transaction import Transaction
from kafkapy.metadata.topic_rules import TRANSACTION_STATE_TOPIC
from kafkapy.protocol.errors import ErrorCode
from kafkapy.records.record import Record
from kafkapy.records.validate import ValidatedBatch
from kafkapy.storage.log.log import AppendResult
from kafkapy.turns import Steps
from kafkapy.types import TopicPartition

logger = logging.getLogger(__name__)

TOMBSTONE_BATCH_BYTES: Final = 16_384

# The log's error → what the producer gets: try again, look for the coordinator again, or give up; others pass
# unchanged.
_LOG_ERRORS: Final[Mapping[int, int]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


class Shards:
    """The partitions of ``__transaction_state`` that this broker leads."""

    def __init__(self, settings: TransactionSettings, clock: Clock, log: BrokerLog, background: Background) -> None:
        self.loading = Loading(TRANSACTION_STATE_TOPIC, log, clock, settings.load_buffer_size, background)
        self._shards: dict[int, TransactionShard] = {}
        self._settings = settings
        self._clock = clock
        self._log = log

    def find(self, partition: int) -> TransactionShard | int:
        """The partition's shard, or the error code that says why this broker can't speak for it."""
        shard = self._shards.get(partition)
        if shard is None:
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if shard.is_loading else shard

    def loaded(self) -> Iterator[TransactionShard]:
        """All shards that can be asked."""
        return (shard for shard in list(self._shards.values()) if not shard.is_loading)

    def transactions(self) -> Iterator[tuple[TransactionShard, list[Transaction]]]:
        """All transactional ids that can be asked, in pieces; of each those that are there when it is their turn."""
        for shard in self.loaded():
            for piece in pieces(list(shard.transactions.values())):
                if self._shards.get(shard.partition) is shard:
                    known = shard.transactions
                    yield shard, [each for each in piece if known.get(each.transactional_id) is each]

    # Append and replay

    def append(
        self, shard: TransactionShard, transaction: Transaction, move: Move, on_done: Callable[[int], None]
    ) -> None:
        """Write the move; once all in-sync replicas have it replay it, then call ``on_done`` with 0 or an error code.

        Until then the transactional id is moving: nobody else decides on it.
        """
        states.check_move(transaction.data.state, move.data.state)
        transaction.is_moving = True
        now_ms = self._clock.now_ms()
        record = transaction_record(transaction.transactional_id, move.data, now_ms)

        def finish(error_code: int, appended: AppendResult | None) -> None:
            transaction.is_moving = False
            if appended is not None and self._shards.get(shard.partition) is not shard:
                error_code = ErrorCode.NOT_COORDINATOR  # whoever loads next reads the record from the log
            elif appended is not None:
                replay_data(shard, transaction.transactional_id, move.data)  # which the record says when it is read
                if move.previous is not None:
                    transaction.previous = move.previous
            on_done(_LOG_ERRORS.get(error_code, error_code))

        self._append(shard, batch_of([record], now_ms), finish)

    def expire(self, shard: TransactionShard, transactions: Iterable[Transaction]) -> None:
        """Write tombstones for them, in batches of a moderate size, and forget them."""
        now_ms = self._clock.now_ms()
        batch: list[tuple[Transaction, Record]] = []
        size = 0
        for transaction in transactions:
            record = transaction_record(transaction.transactional_id, None, now_ms)
            size += len(record.key or b"")
            if batch and size > TOMBSTONE_BATCH_BYTES:
                self._append_tombstones(shard, batch, now_ms)
                batch, size = [], len(record.key or b"")
            batch.append((transaction, record))
        if batch:
            self._append_tombstones(shard, batch, now_ms)

    def _append_tombstones(self, shard: TransactionShard, batch: list[tuple[Transaction, Record]], now_ms: int) -> None:
        for transaction, _ in batch:
            transaction.is_moving = True

        def finish(error_code: int, appended: AppendResult | None) -> None:
            for transaction, _ in batch:
                transaction.is_moving = False
                if appended is not None:
                    replay_data(shard, transaction.transactional_id, None)
            logger.info(
                "Forgot %d unused transactional ids of %s-%d: error %d",
                len(batch),
                TRANSACTION_STATE_TOPIC,
                shard.partition,
                error_code,
            )

        self._append(shard, batch_of([record for _, record in batch], now_ms), finish)

    def _append(
        self, shard: TransactionShard, batch: ValidatedBatch, finish: Callable[[int, AppendResult | None], None]
    ) -> None:
        tp = TopicPartition(TRANSACTION_STATE_TOPIC, shard.partition)
        append_safely(self._log, tp, batch, self._settings.request_timeout_ms, finish)

    # Load and unload

    def load(self, partition: int, leader_epoch: int, loaded: Callable[[TransactionShard], Steps[None]]) -> None:
        """This broker leads the partition: read it, then do ``loaded``; what takes a moment only is there at once."""
        known = self._shards.get(partition)
        if known is not None:
            known.coordinator_epoch = max(known.coordinator_epoch, leader_epoch)
            return
        shard = self._shards[partition] = TransactionShard(partition, leader_epoch)
        self.loading.start(partition, partial(replay_all, shard), partial(self._loaded, shard, loaded))

    def _loaded(
        self,
        shard: TransactionShard,
        loaded: Callable[[TransactionShard], Steps[None]],
        is_whole: bool,
        duration_ms: float,
    ) -> Steps[None]:
        if not is_whole:
            del self._shards[shard.partition]
            return
        shard.is_loading = False
        level = logging.INFO if shard.transactions else logging.DEBUG
        text = "Loaded %d transactional ids from %s-%d in %.0f ms"
        logger.log(level, text, len(shard.transactions), TRANSACTION_STATE_TOPIC, shard.partition, duration_ms)
        yield from loaded(shard)

    def unload(self, partition: int, leader_epoch: int | None) -> TransactionShard | None:
        """Another broker leads now (or nobody): the shard that was forgotten, if there was one."""
        shard = self._shards.get(partition)
        if shard is None or (leader_epoch is not None and leader_epoch < shard.coordinator_epoch):
            return None
        self.loading.stop(partition)
        return self._shards.pop(partition)

    def unload_all(self) -> None:
        """The broker stops; the log has everything that was acknowledged."""
        for partition in list(self._shards):
            self.unload(partition, None)
