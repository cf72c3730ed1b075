"""A transactional id: what the log says of it, and the little that only its coordinator remembers."""

from typing import NamedTuple

from kafkapy.coordinator.transaction.states import EMPTY, TransactionState
from kafkapy.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP, TopicPartition

MAX_EPOCH = 32_767
"""Of an int16. The last but one is the last that a producer gets: one is kept for fencing it."""


class TransactionData(NamedTuple):
    """One record of ``__transaction_state``. ``start_ms`` is when the first partition was added, -1 before."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState = EMPTY
    partitions: tuple[TopicPartition, ...] = ()
    last_update_ms: int = NO_TIMESTAMP
    start_ms: int = NO_TIMESTAMP

    @property
    def is_epoch_exhausted(self) -> bool:
        """Whether the producer id has no epoch left to give: the next producer gets another id."""
        return self.producer_epoch >= MAX_EPOCH - 1


class Incarnation(NamedTuple):
    """A producer id with an epoch: one life of a producer."""

    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH


NOBODY = Incarnation()


class Transaction:
    """A transactional id and its present or last transaction, pure state.

    ``previous`` is whom the present producer says it was before (KIP-360): if the answer to its InitProducerId got
    lost, it asks again in that name. ``fenced_at`` is an epoch to which the producer's was raised so as to fence it,
    while the log does not have it yet (or has refused it). Both last as long as this coordinator does, as in Kafka.
    """

    __slots__ = ("transactional_id", "data", "previous", "is_moving", "fenced_at")

    def __init__(self, transactional_id: str, data: TransactionData) -> None:
        self.transactional_id = transactional_id
        self.data = data
        self.previous = NOBODY
        self.is_moving = False
        self.fenced_at: int | None = None

    def __repr__(self) -> str:
        return f"Transaction({self.transactional_id!r}, {self.data})"

    @property
    def producer_epoch(self) -> int:
        """The epoch that a producer must have to be served."""
        return self.data.producer_epoch if self.fenced_at is None else self.fenced_at
