"""The transaction coordinator, the entry of all requests: it finds the transactional id and the decision on the request
(``decisions.py``), and writes the transition.

Each request gets an ``Answer``, which is set at once unless other replicas have to acknowledge a record first.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, Final, TypeVar

from kafkapy.clock import Clock
from kafkapy.coordinator.answer import Answer
from kafkapy.coordinator.runtime import Background, Config, LeadershipSource, Metadata, Soon, at_once
from kafkapy.coordinator.transaction import decisions
from kafkapy.coordinator.transaction.marker_sender import MarkerPaths
from kafkapy.coordinator.transaction.runtime import TransactionRuntime, TransactionSettings
from kafkapy.coordinator.transaction.shard import TransactionShard
from kafkapy.coordinator.transaction.states import STATE_NAMES
from kafkapy.coordinator.transaction.transaction import (
    AddCall,
    EndCall,
    Ended,
    InitializeCall,
    Initialized,
    Transaction,
    TransactionData,
    Transition,
)
from kafkapy.protocol.errors import ErrorCode
from kafkapy.turns import Steps

logger: Final = logging.getLogger(__name__)

MAX_TIMESTAMP: Final = 2**63 - 1

R = TypeVar("R")

Found = tuple[TransactionShard, Transaction]


class TransactionCoordinator:
    """Transactional ids on the partitions of ``__transaction_state`` that this broker leads."""

    def __init__(
        self,
        config: Config | Mapping[str, Any],
        clock: Clock,
        replica_manager: LeadershipSource,
        metadata: Metadata,
        paths: MarkerPaths,
        background: Background | None = None,
    ) -> None:
        background = background or Background()
        self.settings = TransactionSettings.from_config(config)
        self._clock = clock
        self._metadata = metadata
        self._runtime = TransactionRuntime(self.settings, clock, replica_manager, metadata, paths, background)
        self._soon = background.soon

    # Start and stop

    def startup(self) -> None:
        """Serve requests; call it before the broker learns which partitions it leads."""
        self._runtime.startup()
        self._metadata.add_listener(self._metadata_changed)
        self._runtime.repeat(self._abort_timed_out, self.settings.abort_check_interval_ms)
        self._runtime.repeat(self._expire, self.settings.expiration_check_interval_ms)

    def shutdown(self) -> None:
        """Stop the timers; the next start completes the prepared transactions, which the log has."""
        self._runtime.markers.stop()
        self._runtime.shutdown()

    def _metadata_changed(self, _image: Any, _deleted: Any) -> None:
        """Send the missing markers again: their partitions may have leaders now."""
        self._runtime.markers.try_again()

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
        decided = decisions.initialize(transaction, call, now_ms, new_id)
        return None if decided is None else self._write((shard, transaction), decided, Initialized)

    def add_partitions(self, call: AddCall) -> Answer[int]:
        """AddPartitionsToTxn and AddOffsetsToTxn: an error code."""
        found = self._find(call.transactional_id)
        if isinstance(found, int):
            return Answer.of(found)
        return self._write(found, decisions.add_partitions(found[1], call, self._clock.now_ms()), int)

    def verify(self, call: AddCall) -> int:
        """An error code if the partitions are not part of the open transaction, else 0; nothing is written."""
        found = self._find(call.transactional_id)
        return found if isinstance(found, int) else decisions.verify(found[1], call)

    def end(self, call: EndCall, new_id: int | None = None) -> Answer[Ended] | None:
        """EndTxn: answered once the decision is in the log; the markers are written afterwards.

        None means: call it again with ``new_id``, a producer id that has not been used yet.
        """
        found = self._find(call.transactional_id)
        if isinstance(found, int):
            return Answer.of(Ended(found))
        decided = decisions.end(found[1], call, self._clock.now_ms(), new_id)
        return None if decided is None else self._write(found, decided, Ended, soon=self._soon)

    def describe(self, transactional_id: str) -> TransactionData | int:
        """DescribeTransactions: the state of a transactional id, or an error code."""
        found = self._find(transactional_id)
        if isinstance(found, int):
            is_missing = found == ErrorCode.INVALID_PRODUCER_ID_MAPPING
            return ErrorCode.TRANSACTIONAL_ID_NOT_FOUND if is_missing else found
        return found[1].data

    def list(
        self, states: AbstractSet[str], producer_ids: AbstractSet[int], duration_ms: int
    ) -> Steps[tuple[int, Sequence[Transaction]]]:
        """ListTransactions: an error code, and the transactional ids that pass all filters.

        An empty filter lets all pass. ``duration_ms`` is how long ago at least a transaction was begun; one of an id
        that has none was begun before all others, as in Apache Kafka.
        """
        if not self._runtime.is_running:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, []
        if self._runtime.is_loading():
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, []
        latest_start_ms = self._clock.now_ms() - duration_ms if duration_ms > 0 else MAX_TIMESTAMP
        found: list[Transaction] = []
        for _, piece in self._runtime.transactions():
            found += [
                each
                for each in piece
                if (not states or STATE_NAMES[each.data.state] in states)
                and (not producer_ids or each.data.producer_id in producer_ids)
                and each.data.start_ms < latest_start_ms
            ]
            yield
        return 0, found

    def _write(
        self,
        found: Found,
        decided: tuple[Transition | None, R],
        refused: Callable[[int], R],
        *,
        soon: Soon = at_once,
    ) -> Answer[R]:
        """Write the transition that was decided, if any; ``refused`` makes the response if the log refuses it."""
        transition, response = decided
        if transition is None:
            return Answer.of(response)
        return self._runtime.write_transition(*found, transition, response, refused, soon=soon)

    def _find(self, transactional_id: str) -> Found | int:
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        shard = self._runtime.find(transactional_id)
        if isinstance(shard, int):
            return shard
        transaction = shard.transactions.get(transactional_id)
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING if transaction is None else (shard, transaction)

    # Time-outs

    def _abort_timed_out(self) -> Steps[None]:
        now_ms = self._clock.now_ms()
        for shard, piece in self._runtime.transactions():
            for transaction in decisions.timed_out(piece, now_ms):
                # since the last step the shard may have been unloaded, or the producer may have ended its transaction
                if not self._is_current(shard, transaction) or not decisions.timed_out([transaction], now_ms):
                    continue
                decided = decisions.fence(transaction, now_ms), 0
                self._write((shard, transaction), decided, int).on_set(partial(_log_abort, transaction))
                yield
            yield

    def _is_current(self, shard: TransactionShard, transaction: Transaction) -> bool:
        is_known = shard.transactions.get(transaction.transactional_id) is transaction
        return is_known and shard.is_current

    def _expire(self) -> Steps[None]:
        now_ms = self._clock.now_ms()
        for shard, piece in self._runtime.transactions():
            self._runtime.expire(shard, decisions.expired(piece, now_ms, self.settings.id_expiration_ms))
            yield


def _refused(error_code: int) -> Answer[Initialized]:
    return Answer.of(Initialized(error_code))


def _log_abort(transaction: Transaction, error_code: int) -> None:
    logger.info("Aborted the transaction of %s after its time-out: error %d", transaction.transactional_id, error_code)
