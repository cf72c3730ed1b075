"""Appends transaction markers to partitions that this broker leads (WriteTxnMarkers, KIP-98)."""

from typing import Any, NamedTuple, Protocol

from kafkapy.clock import Clock
from kafkapy.coordinator.answer import Answer
from kafkapy.coordinator.decision import BrokerLog, Decision, DecisionWriter
from kafkapy.errors import BrokerError
from kafkapy.metadata.topic_rules import GROUP_METADATA_TOPIC
from kafkapy.protocol.errors import ErrorCode
from kafkapy.records.batch import MAGIC
from kafkapy.records.control import ControlType, Marker, marker_batch
from kafkapy.types import TopicPartition


class Ending(NamedTuple):
    """The content of the markers of a transaction."""

    marker: Marker
    is_commit: bool


class TransactionEndListener(Protocol):
    """The group coordinator, which applies markers in its topic."""

    def transaction_ended(self, partition: int, producer_id: int, *, is_commit: bool) -> None:
        """A marker of a producer's transaction was written to this partition of ``__consumer_offsets``."""
        ...


class MarkerWriter(DecisionWriter):
    """Appends markers to partitions of this broker, which check the epochs of producer and coordinator.

    A marker in ``__consumer_offsets`` also commits or drops the offsets of the transaction there.
    """

    def __init__(self, log: BrokerLog, groups: TransactionEndListener, clock: Clock, timeout_ms: int) -> None:
        super().__init__(log, timeout_ms)
        self._groups = groups
        self._clock = clock

    def leads(self, topic_partition: TopicPartition) -> bool:
        """Whether this broker leads the partition."""
        partition = self._partition(topic_partition)
        return not isinstance(partition, int) and bool(partition.is_leader)

    def refusal(self, topic_partition: TopicPartition) -> int:
        """The error code for every marker of the partition, 0 if it takes markers."""
        partition = self._partition(topic_partition)
        if isinstance(partition, int):
            return partition
        return ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT if partition.log.policy.magic < MAGIC else 0

    def write_marker(self, topic_partition: TopicPartition, ending: Ending) -> Answer[int]:
        """Append the marker; the answer is 0 once all in-sync replicas have it, or an error code.

        With one replica the answer is set when this returns.
        """
        if refusal := self.refusal(topic_partition):
            return Answer.of(refusal)
        return self.write(_MarkerWrite(topic_partition, ending, self._clock.now_ms(), self._groups))

    def _partition(self, topic_partition: TopicPartition) -> Any:
        """The partition, or an error code: a partition of other brokers is unknown too."""
        try:
            return self._log.partition(topic_partition)
        except BrokerError as error:
            is_elsewhere = error.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_elsewhere else error.error_code


class _MarkerWrite(Decision[int]):
    """One marker; the response is 0."""

    __slots__ = ("_ending", "_groups")

    def __init__(
        self, topic_partition: TopicPartition, ending: Ending, now_ms: int, groups: TransactionEndListener
    ) -> None:
        self.topic_partition = topic_partition
        self.batch = marker_batch(ControlType.COMMIT if ending.is_commit else ControlType.ABORT, ending.marker, now_ms)
        self.response = 0
        self._ending = ending
        self._groups = groups

    def replay(self, _first_offset: int, /) -> None:
        """Settle the offsets of the transaction, if the partition is one of ``__consumer_offsets``."""
        topic, partition = self.topic_partition
        if topic == GROUP_METADATA_TOPIC:
            marker, is_commit = self._ending
            self._groups.transaction_ended(partition, marker.producer_id, is_commit=is_commit)

    def refuse(self, error_code: int, /) -> int:
        """The log's error code: the sender of the marker decides whether it is sent again."""
        return error_code
