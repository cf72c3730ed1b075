"""The partitions of ``__transaction_state`` that this broker leads: the shared runtime and its writes."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kafkapy.clock import Clock
from kafkapy.coordinator.runtime import Background, Config, LeadershipSource, Metadata, Runtime, TopicSettings
from kafkapy.coordinator.transaction import states
from kafkapy.coordinator.transaction.markers import MarkerSender
from kafkapy.coordinator.transaction.records import batch_of, transaction_record
from kafkapy.coordinator.transaction.shard import TransactionShard
from kafkapy.coordinator.transaction.transaction import Transaction, Transition
from kafkapy.metadata.topic_rules import TRANSACTION_STATE_TOPIC
from kafkapy.protocol.errors import ErrorCode
from kafkapy.records.record import Record
from kafkapy.storage.log.log import AppendResult
from kafkapy.turns import Steps, pieces
from kafkapy.types import TopicPartition

logger = logging.getLogger(__name__)

TOMBSTONE_BATCH_BYTES: Final = 16_384

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
"""The log's error → the error for the producer, which repeats its request, finds the coordinator again, or fails.

Other errors stay as they are."""


@dataclass(frozen=True, slots=True, eq=False)
class TransactionSettings:
    """Kafka 2.7's configuration keys for transactions, with its defaults; units as in the names."""

    max_timeout_ms: int = 900_000
    id_expiration_ms: int = 604_800_000
    abort_check_interval_ms: int = 10_000
    expiration_check_interval_ms: int = 3_600_000
    load_buffer_size: int = 5_242_880
    topic_partitions: int = 50
    request_timeout_ms: int = 30_000

    @classmethod
    def from_config(cls, config: Config | Mapping[str, Any]) -> "TransactionSettings":
        """Read the keys from the broker's configuration."""
        return cls(
            max_timeout_ms=config["transaction.max.timeout.ms"],
            id_expiration_ms=config["transactional.id.expiration.ms"],
            abort_check_interval_ms=config["transaction.abort.timed.out.transaction.cleanup.interval.ms"],
            expiration_check_interval_ms=config["transaction.remove.expired.transaction.cleanup.interval.ms"],
            load_buffer_size=config["transaction.state.log.load.buffer.size"],
            topic_partitions=config["transaction.state.log.num.partitions"],
            request_timeout_ms=config["request.timeout.ms"],
        )

    def topic_settings(self) -> TopicSettings:
        """How the partitions of ``__transaction_state`` are read and written."""
        return TopicSettings(
            TRANSACTION_STATE_TOPIC, self.topic_partitions, self.load_buffer_size, self.request_timeout_ms
        )


class TransactionRuntime(Runtime[TransactionShard]):
    """Writes transitions and tombstones of transactional ids."""

    entries = "transactional ids"
    stopped_error = ErrorCode.NOT_COORDINATOR
    unloaded_error = ErrorCode.NOT_COORDINATOR

    def __init__(
        self,
        settings: TransactionSettings,
        clock: Clock,
        replica_manager: LeadershipSource,
        metadata: Metadata,
        markers: MarkerSender,
        background: Background,
    ) -> None:
        super().__init__(settings.topic_settings(), clock, replica_manager, metadata, background)
        self._markers = markers

    def transactions(self) -> Iterator[tuple[TransactionShard, list[Transaction]]]:
        """All transactional ids that are served, in pieces; a piece leaves out those forgotten before its turn."""
        for shard in self.loaded_shards():
            for piece in pieces(list(shard.transactions.values())):
                if self.is_current(shard):
                    known = shard.transactions
                    yield shard, [each for each in piece if known.get(each.transactional_id) is each]

    # Append and replay

    def append(
        self, shard: TransactionShard, transaction: Transaction, transition: Transition, on_done: Callable[[int], None]
    ) -> None:
        """Append the transition's record, replay it when enough replicas have it, then call ``on_done``.

        ``on_done`` gets 0 or an error code. Until then the transactional id has a pending transition, and other
        requests are refused.
        """
        states.check_transition(transaction.data.state, transition.data.state)
        transaction.has_pending_transition = True
        now_ms = self._clock.now_ms()
        record = transaction_record(transaction.transactional_id, transition.data, now_ms)

        def replay(_: AppendResult) -> None:
            shard.replay_data(transaction.transactional_id, transition.data)  # the content of the record, not decoded
            if transition.previous is not None:
                transaction.previous = transition.previous

        def done(error_code: int) -> None:
            transaction.has_pending_transition = False
            on_done(_LOG_ERRORS.get(error_code, error_code))

        self.write(shard, batch_of([record], now_ms), replay, done)

    def expire(self, shard: TransactionShard, transactions: Iterable[Transaction]) -> None:
        """Append tombstones for unused transactional ids, in batches of a moderate size, and forget the ids."""
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
            transaction.has_pending_transition = True

        def replay(_: AppendResult) -> None:
            for transaction, _record in batch:
                shard.replay_data(transaction.transactional_id, None)

        def done(error_code: int) -> None:
            for transaction, _ in batch:
                transaction.has_pending_transition = False
            text = "Forgot %d unused transactional ids of %s: error %d"
            logger.info(text, len(batch), shard.topic_partition, error_code)

        self.write(shard, batch_of([record for _, record in batch], now_ms), replay, done)

    # Load and unload

    def new_shard(self, topic_partition: TopicPartition, leader_epoch: int) -> TransactionShard:
        """A shard without transactional ids."""
        return TransactionShard(topic_partition, leader_epoch)

    def finish_loading(self, shard: TransactionShard) -> Steps[None]:
        """Serve, and end the transactions whose end was decided before."""
        shard.is_loading = False
        yield from self._markers.start_prepared(shard)

    def shard_unloaded(self, shard: TransactionShard) -> None:
        """Stop writing markers: the next coordinator continues."""
        self._markers.forget(shard)
