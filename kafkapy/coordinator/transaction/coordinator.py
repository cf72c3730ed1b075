"""The transaction coordinator, the entry of all requests: it finds the transactional id and the decision on the request
(``decisions.py``), and writes the transition.

Each request gets an ``Answer``, which is set at once unless other replicas have to acknowledge a record first.
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from kafkapy.clock import Clock
from kafkapy.coordinator.answer import Answer
from kafkapy.coordinator.runtime import Background, Config, LeadershipSource, Metadata, Soon, at_once
from kafkapy.coordinator.transaction import decisions
from kafkapy.coordinator.transaction.decisions import Prerequisite
from kafkapy.coordinator.transaction.markers import MarkerChannel, MarkerSender
from kafkapy.coordinator.transaction.runtime import TransactionRuntime, TransactionSettings
from kafkapy.coordinator.transaction.shard import TransactionShard
from kafkapy.coordinator.transaction.transaction import (
    AddCall,
    EndCall,
    InitializeCall,
    Initialized,
    Transaction,
    Transition,
)
from kafkapy.protocol.errors import ErrorCode
from kafkapy.turns import Steps

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
        self._metadata = metadata
        self._markers = MarkerSender(self._append, channel, clock, background.run)
        self._runtime = TransactionRuntime(self.settings, clock, replica_manager, metadata, self._markers, background)
        self._soon = background.soon

    # Start and stop

    def startup(self) -> None:
        """Serve requests; call it before the broker learns which partitions it leads."""
        self._runtime.startup()
        self._metadata.add_listener(self._metadata_changed)
        self._runtime.repeat(self._abort_timed_out, self.settings.abort_check_interval_ms)
        self._runtime.repeat(self._expire, self.settings.expiration_check_interval_ms)

    def shutdown(self) -> None:
        """Stop the timers; the log has everything that was acknowledged, and the next start ends what is prepared."""
        self._markers.stop()
        self._runtime.shutdown()

    def _metadata_changed(self, _image: Any, _deleted: Any) -> None:
        """Send the missing markers again: their partitions may have leaders now."""
        self._markers.try_again()

    def _append(
        self, shard: TransactionShard, transaction: Transaction, transition: Transition, on_done: Callable[[int], None]
    ) -> None:
        self._runtime.append(shard, transaction, transition, on_done)

    def partition_for(self, transactional_id: str) -> int:
        """The partition of ``__transaction_state`` that keeps the transactional id."""
        return self._runtime.partition_for(transactional_id)

    # Requests

    def initialize(self, call: InitializeCall, new_id: int | None = None) -> Answer[Initialized] | None:
        """InitProducerId. None means: call it again with ``new_id``, a producer id that has not been used yet."""
        if not call.transactional_id:
            return _refused(ErrorCode.INVALID_REQUEST)
        if not 0 < call.timeout_ms <= self.settings.max_timeout_ms:
            return _refused(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        shard = self._runtime.find(call.transactional_id)
        if isinstance(shard, int):
            return _refused(shard)
        now_ms = self._clock.now_ms()
        transaction = shard.transactions.get(call.transactional_id)
        if transaction is None:
            if new_id is None:
                return None
            transaction = decisions.new_transaction(call, new_id, now_ms)
            shard.add(transaction)
        decision = decisions.initialize(transaction, call, now_ms, new_id)
        if decision is Prerequisite.PRODUCER_ID:
            return None
        if decision is Prerequisite.ABORT:
            return self._abort_first(shard, transaction)
        if isinstance(decision, int):
            return _refused(decision)
        return self._write_producer(shard, transaction, decision)

    def _write_producer(
        self, shard: TransactionShard, transaction: Transaction, transition: Transition
    ) -> Answer[Initialized]:
        answer: Answer[Initialized] = Answer()
        initialized = Initialized(0, transition.data.producer_id, transition.data.producer_epoch)

        def written(error_code: int) -> None:
            answer.set(Initialized(error_code) if error_code else initialized)

        self._runtime.append(shard, transaction, transition, written)
        return answer

    def _abort_first(self, shard: TransactionShard, transaction: Transaction) -> Answer[Initialized]:
        answer: Answer[Initialized] = Answer()

        def prepared(error_code: int) -> None:
            answer.set(Initialized(error_code or ErrorCode.CONCURRENT_TRANSACTIONS))

        self._prepare(shard, transaction, decisions.fence(transaction, self._clock.now_ms()), prepared)
        return answer

    def add_partitions(self, call: AddCall) -> Answer[int]:
        """AddPartitionsToTxn and AddOffsetsToTxn: an error code."""
        found = self._find(call.transactional_id)
        if isinstance(found, int):
            return Answer.of(found)
        decision = decisions.add_partitions(found[1], call, self._clock.now_ms())
        if isinstance(decision, int):
            return Answer.of(decision)
        answer: Answer[int] = Answer()
        self._runtime.append(*found, decision, answer.set)
        return answer

    def end(self, call: EndCall) -> Answer[int]:
        """EndTxn: an error code; 0 once the decision is in the log. The markers are written afterwards."""
        found = self._find(call.transactional_id)
        if isinstance(found, int):
            return Answer.of(found)
        decision = decisions.end(found[1], call, self._clock.now_ms())
        if isinstance(decision, int):
            return Answer.of(decision)
        answer: Answer[int] = Answer()
        self._prepare(*found, decision, answer.set, soon=self._soon)
        return answer

    def _find(self, transactional_id: str) -> Found | int:
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        shard = self._runtime.find(transactional_id)
        if isinstance(shard, int):
            return shard
        transaction = shard.transactions.get(transactional_id)
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING if transaction is None else (shard, transaction)

    def _prepare(
        self,
        shard: TransactionShard,
        transaction: Transaction,
        transition: Transition,
        on_done: Callable[[int], None],
        *,
        soon: Soon = at_once,
    ) -> None:
        """Write a transition to PrepareCommit or PrepareAbort, then start to write the markers."""

        def written(error_code: int) -> None:
            if error_code == 0:
                self._markers.start(shard, transaction, soon=soon)
            on_done(error_code)

        self._runtime.append(shard, transaction, transition, written)

    # Time-outs

    def _abort_timed_out(self) -> Steps[None]:
        now_ms = self._clock.now_ms()
        for shard, piece in self._runtime.transactions():
            for transaction in decisions.timed_out(piece, now_ms):
                # since the last step the shard may have been unloaded, or the producer may have ended its transaction
                if not self._is_current(shard, transaction) or not decisions.timed_out([transaction], now_ms):
                    continue
                transition = decisions.fence(transaction, now_ms)
                self._prepare(shard, transaction, transition, partial(_log_abort, transaction))
                yield
            yield

    def _is_current(self, shard: TransactionShard, transaction: Transaction) -> bool:
        is_known = shard.transactions.get(transaction.transactional_id) is transaction
        return is_known and self._runtime.is_current(shard)

    def _expire(self) -> Steps[None]:
        now_ms = self._clock.now_ms()
        for shard, piece in self._runtime.transactions():
            self._runtime.expire(shard, decisions.expired(piece, now_ms, self.settings.id_expiration_ms))
            yield


def _refused(error_code: int) -> Answer[Initialized]:
    return Answer.of(Initialized(error_code))


def _log_abort(transaction: Transaction, error_code: int) -> None:
    logger.info("Aborted the transaction of %s after its time-out: error %d", transaction.transactional_id, error_code)
