"""The partitions of ``__transaction_state`` that this broker leads: the shared runtime and its writes."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from kafkapy.clock import Clock
from kafkapy.coordinator.answer import Answer
from kafkapy.coordinator.decision import Decision
from kafkapy.coordinator.runtime import (
    Background,
    Config,
    LeadershipSource,
    Metadata,
    Runtime,
    Soon,
    TopicSettings,
    at_once,
)
from kafkapy.coordinator.transaction import states
from kafkapy.coordinator.transaction.marker_sender import MarkerPaths, MarkerSender
from kafkapy.coordinator.transaction.records import batch_of, transaction_record
from kafkapy.coordinator.transaction.shard import TransactionShard
from kafkapy.coordinator.transaction.transaction import Transaction, Transition
from kafkapy.metadata.topic_rules import TRANSACTION_STATE_TOPIC
from kafkapy.protocol.errors import ErrorCode
from kafkapy.text import text_size
from kafkapy.turns import Steps, pieces
from kafkapy.types import TopicPartition

R = TypeVar("R")

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


# The decisions with their records. A transactional id whose record is written has a pending transition, so that other
# requests are refused; replay and refusal end it


class TransitionWrite(Decision[R]):
    """The record of a transition, after whose replay ``then`` is called."""

    __slots__ = ("_shard", "_transaction", "_transition", "_refused", "_then")

    def __init__(
        self,
        found: tuple[TransactionShard, Transaction],
        transition: Transition,
        now_ms: int,
        response: R,
        refused: Callable[[int], R],
        then: Callable[[], None] | None,
    ) -> None:
        shard, transaction = found
        self.topic_partition = shard.topic_partition
        self.batch = batch_of([transaction_record(transaction.transactional_id, transition.data, now_ms)], now_ms)
        self.response = response
        self._shard, self._transaction = found
        self._transition = transition
        self._refused = refused
        self._then = then

    @property
    def is_current(self) -> bool:
        """Whether this broker still serves the shard."""
        return self._shard.is_current

    def replay(self, _first_offset: int, /) -> None:
        """Replay the content of the record, which need not be decoded."""
        transaction, (data, previous) = self._transaction, self._transition
        self._shard.replay_data(transaction.transactional_id, data)
        if previous is not None:
            transaction.previous = previous
        transaction.has_pending_transition = False
        if self._then is not None:
            self._then()

    def refuse(self, error_code: int, /) -> R:
        """The response to the producer, whose transaction is as before."""
        self._transaction.has_pending_transition = False
        return self._refused(_LOG_ERRORS.get(error_code, error_code))


class TombstonesWrite(Decision[int]):
    """Tombstones of unused transactional ids; the response is 0."""

    __slots__ = ("_shard", "_transactions")

    def __init__(self, shard: TransactionShard, transactions: Sequence[Transaction], now_ms: int) -> None:
        self.topic_partition = shard.topic_partition
        self.batch = batch_of(
            [transaction_record(each.transactional_id, None, now_ms) for each in transactions], now_ms
        )
        self.response = 0
        self._shard = shard
        self._transactions = transactions
        self._set_pending(is_pending=True)

    @property
    def is_current(self) -> bool:
        """Whether this broker still serves the shard."""
        return self._shard.is_current

    def replay(self, _first_offset: int, /) -> None:
        """Forget the ids."""
        self._set_pending(is_pending=False)
        for transaction in self._transactions:
            self._shard.replay_data(transaction.transactional_id, None)

    def refuse(self, error_code: int, /) -> int:
        """The log's error code: the ids are kept until the next check."""
        self._set_pending(is_pending=False)
        return error_code

    def _set_pending(self, *, is_pending: bool) -> None:
        for transaction in self._transactions:
            transaction.has_pending_transition = is_pending


class TransactionRuntime(Runtime[TransactionShard]):
    """Writes transitions and tombstones of transactional ids, and ends the transactions whose end is decided."""

    entries = "transactional ids"
    stopped_error = ErrorCode.NOT_COORDINATOR
    unloaded_error = ErrorCode.NOT_COORDINATOR

    def __init__(
        self,
        settings: TransactionSettings,
        clock: Clock,
        replica_manager: LeadershipSource,
        metadata: Metadata,
        paths: MarkerPaths,
        background: Background,
    ) -> None:
        super().__init__(settings.topic_settings(), clock, replica_manager, metadata, background)
        self.markers: Final = MarkerSender(self.write_transition, paths, metadata, clock, background.run)

    def transactions(self) -> Iterator[tuple[TransactionShard, list[Transaction]]]:
        """All transactional ids that are served, in pieces; a piece leaves out those forgotten before its turn."""
        for shard in self.loaded_shards():
            for piece in pieces(list(shard.transactions.values())):
                if shard.is_current:
                    known = shard.transactions
                    yield shard, [each for each in piece if known.get(each.transactional_id) is each]

    # Append and replay

    def write_transition(
        self,
        shard: TransactionShard,
        transaction: Transaction,
        transition: Transition,
        response: R,
        refused: Callable[[int], R],
        soon: Soon = at_once,
    ) -> Answer[R]:
        """Append the transition's record, replay it when enough replicas have it, then answer ``response``.

        If the log refuses the record, the answer is ``refused`` of the error code. Until then the transactional id has
        a pending transition, and other requests are refused. ``soon`` calls the function that writes the markers after
        a transition to a Prepare state.
        """
        states.check_transition(transaction.data.state, transition.data.state)
        transaction.has_pending_transition = True
        is_prepared = transition.data.state in states.PREPARED
        then = partial(self.markers.start, shard, transaction, soon=soon) if is_prepared else None
        found = shard, transaction
        return self.write(TransitionWrite(found, transition, self._clock.now_ms(), response, refused, then))

    def expire(self, shard: TransactionShard, transactions: Iterable[Transaction]) -> None:
        """Append tombstones for unused transactional ids, in batches of a moderate size, and drop the ids."""
        batch: list[Transaction] = []
        size = 0
        for transaction in transactions:
            id_size = text_size(transaction.transactional_id)
            size += id_size
            if batch and size > TOMBSTONE_BATCH_BYTES:
                self._write_tombstones(shard, batch)
                batch, size = [], id_size
            batch.append(transaction)
        if batch:
            self._write_tombstones(shard, batch)

    def _write_tombstones(self, shard: TransactionShard, transactions: list[Transaction]) -> None:
        answer = self.write(TombstonesWrite(shard, transactions, self._clock.now_ms()))
        text = "Forgot %d unused transactional ids of %s: error %d"
        answer.on_set(lambda error_code: logger.info(text, len(transactions), shard.topic_partition, error_code))

    # Load and unload

    def new_shard(self, topic_partition: TopicPartition, leader_epoch: int) -> TransactionShard:
        """A shard without transactional ids."""
        return TransactionShard(topic_partition, leader_epoch)

    def finish_loading(self, shard: TransactionShard) -> Steps[None]:
        """Serve, and end the transactions whose end was decided before."""
        shard.is_loading = False
        yield from self.markers.start_prepared(shard)

    def shard_unloaded(self, shard: TransactionShard) -> None:
        """Stop writing markers: the next coordinator continues."""
        self.markers.forget(shard)
