"""The transaction coordinator: what the server talks to. It finds the transactional id and hands the request on.

Nothing here waits: each request gets an ``Answer``, which is there at once unless other replicas have to acknowledge a
record first.
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from kafkapy.clock import Clock, TimerHandle
from kafkapy.coordinator.answer import Answer
from kafkapy.coordinator.group.coordinator import LeadershipSource
from kafkapy.coordinator.group.directory import Metadata
from kafkapy.coordinator.group.settings import Config
from kafkapy.coordinator.placement import partition_for
from kafkapy.coordinator.steps import Background, Soon, at_once, pieces
from kafkapy.coordinator.transaction import end, partitions, producer_ids, states, timeouts
from kafkapy.coordinator.transaction.markers import MarkerChannel, MarkerSender
from kafkapy.coordinator.transaction.producer_ids import Needed
from kafkapy.coordinator.transaction.results import AddCall, EndCall, InitializeCall, Initialized, Move
from kafkapy.coordinator.transaction.settings import TransactionSettings
from kafkapy.coordinator.transaction.shard import TransactionShard
from kafkapy.coordinator.transaction.shards import Shards
from kafkapy.coordinator.transaction.transaction import Transaction
from kafkapy.metadata.topic_rules import TRANSACTION_STATE_TOPIC
from kafkapy.protocol.errors import ErrorCode
from kafkapy.turns import Steps
from kafkapy.types import TopicPartition

logger: Final = logging.getLogger(__name__)

Found = tuple[TransactionShard, Transaction]


class TransactionCoordinator:
    """Transactional ids on the partitions of ``__transaction_state`` that this broker leads."""

    def __init__(
        self,
        config: Config | Mapping[str, Any],
        clock: Clock,
        replica_manager: LeadershipSource,
        metadata: Metadata,
        channel: MarkerChannel,
        background: Background | None = None,
    ) -> None:
        background = background or Background()
        self.settings = TransactionSettings.from_config(config)
        self._clock = clock
        self._replica_manager = replica_manager
        self._metadata = metadata
        self._partition_count: int | None = None
        self._shards = Shards(self.settings, clock, replica_manager, background)
        self._markers = MarkerSender(self._shards, channel, clock, background.run)
        self._soon = background.soon
        self._run = background.run
        self._timers: dict[Callable[[], Steps[None]], TimerHandle] = {}

    # Life

    def startup(self) -> None:
        """Serve: before the broker learns which partitions it leads."""
        self._replica_manager.add_leadership_listener(self)
        self._metadata.add_listener(self.metadata_changed)
        self._repeat(self._abort_timed_out, self.settings.abort_check_interval_ms)
        self._repeat(self._expire, self.settings.expiration_check_interval_ms)

    def shutdown(self) -> None:
        """Stop timers; the log has everything that was acknowledged, and what was prepared the next start ends."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._markers.stop()
        self._shards.unload_all()

    def _repeat(self, work: Callable[[], Steps[None]], interval_ms: int) -> None:
        def due() -> None:
            self._repeat(work, interval_ms)
            self._run(work())

        self._timers[work] = self._clock.call_later(interval_ms, due)

    def on_leader(self, tp: TopicPartition, leader_epoch: int) -> None:
        """This broker leads ``tp`` now."""
        if tp.topic == TRANSACTION_STATE_TOPIC:
            self._shards.load(tp.partition, leader_epoch, self._finish_prepared)

    def on_follower_or_stopped(self, tp: TopicPartition, leader_epoch: int | None) -> None:
        """It does not lead ``tp`` any more."""
        if tp.topic == TRANSACTION_STATE_TOPIC:
            shard = self._shards.unload(tp.partition, leader_epoch)
            if shard is not None:
                self._markers.forget(shard)

    def metadata_changed(self, _image: Any, _deleted: Any) -> None:
        """Leaders for whom markers wait may be there now."""
        self._markers.try_again()

    def _finish_prepared(self, shard: TransactionShard) -> Steps[None]:
        for piece in pieces(list(shard.transactions.values())):
            for transaction in piece:
                if transaction.data.state in states.PREPARED:
                    self._markers.start(shard, transaction)
                    yield
            yield

    def partition_for(self, transactional_id: str) -> int:
        """The partition of ``__transaction_state`` that keeps the transactional id.

        The number of partitions is the topic's when first seen, as in Kafka: the configured one only creates it.
        """
        if self._partition_count is None:
            topic = self._metadata.image.topics.get(TRANSACTION_STATE_TOPIC)
            if topic is None:
                return partition_for(transactional_id, self.settings.topic_partitions)
            self._partition_count = len(topic.partitions)
        return partition_for(transactional_id, self._partition_count)

    # Requests

    def initialize(self, call: InitializeCall, new_id: int | None = None) -> Answer[Initialized] | None:
        """InitProducerId. None: ask again with ``new_id``, a producer id that nobody has had."""
        if not call.transactional_id:
            return _refused(ErrorCode.INVALID_REQUEST)
        if not 0 < call.timeout_ms <= self.settings.max_timeout_ms:
            return _refused(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        shard = self._shards.find(self.partition_for(call.transactional_id))
        if isinstance(shard, int):
            return _refused(shard)
        now_ms = self._clock.now_ms()
        transaction = shard.transactions.get(call.transactional_id)
        if transaction is None:
            if new_id is None:
                return None
            transaction = producer_ids.new_transaction(call, new_id, now_ms)
            shard.transactions[call.transactional_id] = transaction
        decision = producer_ids.decide(transaction, call, now_ms, new_id)
        if decision is Needed.PRODUCER_ID:
            return None
        if decision is Needed.ABORT:
            return self._abort_first(shard, transaction)
        if isinstance(decision, int):
            return _refused(decision)
        return self._give_out(shard, transaction, decision)

    def _give_out(self, shard: TransactionShard, transaction: Transaction, move: Move) -> Answer[Initialized]:
        answer: Answer[Initialized] = Answer()
        given = Initialized(0, move.data.producer_id, move.data.producer_epoch)

        def appended(error_code: int) -> None:
            answer.set(Initialized(error_code) if error_code else given)

        self._shards.append(shard, transaction, move, appended)
        return answer

    def _abort_first(self, shard: TransactionShard, transaction: Transaction) -> Answer[Initialized]:
        answer: Answer[Initialized] = Answer()

        def prepared(error_code: int) -> None:
            answer.set(Initialized(error_code or ErrorCode.CONCURRENT_TRANSACTIONS))

        self._prepare(shard, transaction, end.fence(transaction, self._clock.now_ms()), prepared)
        return answer

    def add_partitions(self, call: AddCall) -> Answer[int]:
        """AddPartitionsToTxn and AddOffsetsToTxn: an error code."""
        found = self._find(call.transactional_id)
        if isinstance(found, int):
            return Answer.of(found)
        decision = partitions.decide(found[1], call, self._clock.now_ms())
        if isinstance(decision, int):
            return Answer.of(decision)
        answer: Answer[int] = Answer()
        self._shards.append(*found, decision, answer.set)
        return answer

    def end(self, call: EndCall) -> Answer[int]:
        """EndTxn: an error code; 0 once the decision is in the log, whatever becomes of the markers."""
        found = self._find(call.transactional_id)
        if isinstance(found, int):
            return Answer.of(found)
        decision = end.decide(found[1], call, self._clock.now_ms())
        if isinstance(decision, int):
            return Answer.of(decision)
        answer: Answer[int] = Answer()
        self._prepare(*found, decision, answer.set, soon=self._soon)
        return answer

    def _find(self, transactional_id: str) -> Found | int:
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        shard = self._shards.find(self.partition_for(transactional_id))
        if isinstance(shard, int):
            return shard
        transaction = shard.transactions.get(transactional_id)
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING if transaction is None else (shard, transaction)

    def _prepare(
        self,
        shard: TransactionShard,
        transaction: Transaction,
        move: Move,
        on_done: Callable[[int], None],
        *,
        soon: Soon = at_once,
    ) -> None:
        def appended(error_code: int) -> None:
            if error_code == 0:
                self._markers.start(shard, transaction, soon=soon)
            on_done(error_code)

        self._shards.append(shard, transaction, move, appended)

    # What happens by itself

    def _abort_timed_out(self) -> Steps[None]:
        now_ms = self._clock.now_ms()
        for shard, piece in self._shards.transactions():
            for transaction in timeouts.timed_out(piece, now_ms):
                if not self._is_kept(shard, transaction):
                    break  # the partition has moved since the last step
                self._prepare(shard, transaction, end.fence(transaction, now_ms), partial(_timed_out, transaction))
                yield
            yield

    def _is_kept(self, shard: TransactionShard, transaction: Transaction) -> bool:
        kept = self._shards.find(shard.partition) is shard
        return kept and shard.transactions.get(transaction.transactional_id) is transaction

    def _expire(self) -> Steps[None]:
        now_ms = self._clock.now_ms()
        for shard, piece in self._shards.transactions():
            self._shards.expire(shard, timeouts.expired(piece, now_ms, self.settings.id_expiration_ms))
            yield


def _refused(error_code: int) -> Answer[Initialized]:
    return Answer.of(Initialized(error_code))


def _timed_out(transaction: Transaction, error_code: int) -> None:
    logger.info("Aborted %s, open for too long: error %d", transaction.transactional_id, error_code)
