"""Writes commit and abort markers into partitions that this broker leads (WriteTxnMarkers, KIP-98).

The partition checks the producer's epoch and the coordinator's (47, 52). A marker in ``__consumer_offsets`` also
settles the offsets that the transaction committed there.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

from kafkapy.clock import Clock
from kafkapy.coordinator.group.shard import GROUP_TOPIC
from kafkapy.coordinator.partition_log import BrokerLog, append_safely
from kafkapy.errors import BrokerError
from kafkapy.records.batch import MAGIC
from kafkapy.records.control import ControlType, Marker, encode_marker
from kafkapy.storage.log import AppendResult
from kafkapy.types import TopicPartition

_UNKNOWN_TOPIC_OR_PARTITION: Final = 3
_NOT_LEADER_OR_FOLLOWER: Final = 6
_UNSUPPORTED_FOR_MESSAGE_FORMAT: Final = 43


class Ending(NamedTuple):
    """What the markers of a transaction say."""

    marker: Marker
    is_commit: bool


class SettlesOffsets(Protocol):
    """The group coordinator, told of markers in its topic."""

    def transaction_ended(self, partition: int, producer_id: int, *, is_commit: bool) -> None:
        """The end of a producer's transaction stands in this partition of ``__consumer_offsets`` now."""
        ...


class MarkerWriter:
    """The broker's own partitions."""

    def __init__(self, log: BrokerLog, groups: SettlesOffsets, clock: Clock, timeout_ms: int) -> None:
        self._log = log
        self._groups = groups
        self._clock = clock
        self._timeout_ms = timeout_ms

    def leads(self, tp: TopicPartition) -> bool:
        """Whether this broker leads the partition."""
        partition = self._partition(tp)
        return not isinstance(partition, int) and bool(partition.is_leader)

    def refusal(self, tp: TopicPartition) -> int:
        """Why nobody's marker can be written into the partition, or 0."""
        partition = self._partition(tp)
        if isinstance(partition, int):
            return partition
        return _UNSUPPORTED_FOR_MESSAGE_FORMAT if partition.log.config.message_format < MAGIC else 0

    def write(self, tp: TopicPartition, ending: Ending, on_done: Callable[[int], None]) -> None:
        """Append the marker; ``on_done`` gets 0 once all in-sync replicas have it, or an error code.

        With one replica that is before this returns.
        """
        if refusal := self.refusal(tp):
            on_done(refusal)
            return

        def finish(error_code: int, appended: AppendResult | None) -> None:
            if appended is not None and tp.topic == GROUP_TOPIC:
                self._groups.transaction_ended(tp.partition, ending.marker.producer_id, is_commit=ending.is_commit)
            on_done(error_code)

        control_type = ControlType.COMMIT if ending.is_commit else ControlType.ABORT
        batch = encode_marker(control_type, ending.marker, self._clock.now_ms())
        append_safely(self._log, tp, batch, self._timeout_ms, finish)

    def _partition(self, tp: TopicPartition) -> Any:
        """The partition, or an error code; one that lies on other brokers is as unknown as one that does not exist."""
        try:
            return self._log.partition(tp)
        except BrokerError as error:
            is_elsewhere = error.error_code == _NOT_LEADER_OR_FOLLOWER
            return _UNKNOWN_TOPIC_OR_PARTITION if is_elsewhere else error.error_code
