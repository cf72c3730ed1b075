"""What a transaction coordinator is asked and what it answers, without the wire's versions."""

from typing import NamedTuple

from kafkapy.coordinator.transaction.transaction import NOBODY, Incarnation, TransactionData
from kafkapy.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition


class InitializeCall(NamedTuple):
    """InitProducerId; ``expected`` is whom the producer says it is (KIP-360)."""

    transactional_id: str
    timeout_ms: int
    expected: Incarnation = NOBODY


class Initialized(NamedTuple):
    """The answer to it."""

    error_code: int
    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH


class AddCall(NamedTuple):
    """AddPartitionsToTxn, or AddOffsetsToTxn with the partition of ``__consumer_offsets`` that keeps the group."""

    transactional_id: str
    producer: Incarnation
    partitions: tuple[TopicPartition, ...]


class EndCall(NamedTuple):
    """EndTxn."""

    transactional_id: str
    producer: Incarnation
    is_commit: bool


class Move(NamedTuple):
    """A decision: what the log is to say. ``previous`` is given with a new producer only."""

    data: TransactionData
    previous: Incarnation | None = None
