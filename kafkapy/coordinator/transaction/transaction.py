"""A transactional id: its state in the log, the state that only its coordinator has, and the requests of producers."""

from typing import Final, NamedTuple

from kafkapy.coordinator.transaction.states import EMPTY, TransactionState
from kafkapy.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP, TopicPartition

MAX_EPOCH: Final = 32_767
"""The largest int16. Producers get epochs up to ``MAX_EPOCH - 1``; ``MAX_EPOCH`` only fences the last of them."""


EPOCH_PER_TRANSACTION: Final = 2
"""The transaction version in which each transaction has an epoch of its own (KIP-890)."""


class TransactionData(NamedTuple):
    """One record of ``__transaction_state``. ``start_ms`` is when the first partition was added, -1 before.

    ``client_version`` is the transaction version of the client's last request (0: below 2). ``next_producer_id`` is the
    id that the producer gets when a transaction is completed in which its id used up the last epoch.
    ``previous_producer_id`` is the id of the record before.
    """

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState = EMPTY
    partitions: tuple[TopicPartition, ...] = ()
    last_update_ms: int = NO_TIMESTAMP
    start_ms: int = NO_TIMESTAMP
    client_version: int = 0
    next_producer_id: int = NO_PRODUCER_ID
    previous_producer_id: int = NO_PRODUCER_ID

    @property
    def is_epoch_exhausted(self) -> bool:
        """Whether the producer id has no epoch left: the next producer gets another id."""
        return self.producer_epoch >= MAX_EPOCH - 1


class ProducerIdAndEpoch(NamedTuple):
    """A producer: each call of ``initTransactions`` gives a new epoch, sometimes a new id."""

    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH


NO_ID_AND_EPOCH: Final = ProducerIdAndEpoch()


class Transaction:
    """The state of a transactional id and of its open or last transaction, without I/O.

    ``has_pending_transition`` is set from a decision until the log has its record, and until all markers are written.
    ``previous`` is the producer before the current one (KIP-360): a client that did not get the response to its
    InitProducerId repeats it with these values. ``fenced_at`` is the epoch that fences the producer, until the log has
    a record of it; it stays if the log refuses the record. These three fields are not stored in the log and are lost
    when the partition is unloaded, as in Kafka.
    """

    __slots__ = ("transactional_id", "data", "previous", "has_pending_transition", "fenced_at")

    def __init__(self, transactional_id: str, data: TransactionData) -> None:
        self.transactional_id = transactional_id
        self.data = data
        self.previous = NO_ID_AND_EPOCH
        self.has_pending_transition = False
        self.fenced_at: int | None = None

    def __repr__(self) -> str:
        return f"Transaction({self.transactional_id!r}, {self.data})"

    def replay(self, data: TransactionData) -> None:
        """Replay a record."""
        self.data = data
        self.fenced_at = None

    def fence(self) -> int:
        """Raise the epoch, so that requests of the producer are refused from now on; returns the new epoch.

        An epoch whose record the log has refused is returned again.
        """
        if self.fenced_at is None:
            self.fenced_at = min(self.data.producer_epoch + 1, MAX_EPOCH)
        return self.fenced_at

    @property
    def producer_epoch(self) -> int:
        """The epoch that a producer's requests must have."""
        return self.data.producer_epoch if self.fenced_at is None else self.fenced_at


# The requests of producers, their results, and the decisions on them


class InitializeCall(NamedTuple):
    """InitProducerId; ``expected`` is the producer that the client has been so far (KIP-360)."""

    transactional_id: str
    timeout_ms: int
    expected: ProducerIdAndEpoch = NO_ID_AND_EPOCH


class Initialized(NamedTuple):
    """The result of an InitProducerId."""

    error_code: int
    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH


class AddCall(NamedTuple):
    """AddPartitionsToTxn, or AddOffsetsToTxn with the partition of ``__consumer_offsets`` that keeps the group."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    partitions: tuple[TopicPartition, ...]
    client_version: int = 0


class EndCall(NamedTuple):
    """EndTxn."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    is_commit: bool
    client_version: int = 0


class Ended(NamedTuple):
    """The result of an EndTxn, with the producer's next id and epoch in transaction version 2."""

    error_code: int
    producer: ProducerIdAndEpoch = NO_ID_AND_EPOCH


class Transition(NamedTuple):
    """The record to write. ``previous`` is set for a new producer, or a new epoch, only."""

    data: TransactionData
    previous: ProducerIdAndEpoch | None = None
