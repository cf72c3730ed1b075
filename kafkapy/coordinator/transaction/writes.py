"""The decisions of the transaction coordinator with their records, as ``Runtime.write`` takes them.

A transactional id whose record is written has a pending transition, so that other requests are refused; replay and
refusal end it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from kafkapy.coordinator.decision import Decision
from kafkapy.coordinator.transaction.records import batch_of, transaction_record
from kafkapy.coordinator.transaction.shard import TransactionShard
from kafkapy.coordinator.transaction.transaction import Transaction, Transition
from kafkapy.protocol.errors import ErrorCode

R = TypeVar("R")

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
