"""The partitions of a follower's fetch session that its leader need not look at: those are most of them.

A follower fetches all partitions that it follows from one leader with a single request, several times a second. To look
at each of them each time takes the leader a quarter of a millisecond for ten partitions, so that some thousand idle
ones would take all of its processor. Apache Kafka reads all of them.

A partition is *quiet* while the follower has all of its records, has received its high watermark and its log start, and
is in sync: there is nothing to read and nothing to send. It is left out of the session's fetches until

- something about it changes: ``Purgatory.check`` is called for each append, and for each change of the high watermark,
  of the in-sync replicas and of the leader;
- a request of the session names it;
- it is its turn: twice a second a fetch looks at some quiet partitions, those first that were not looked at for
  longest. So what changes without a call, as a log start that retention moves, is told after a while.

A follower of a quiet partition fetches all the same, and has caught up at each fetch of the session. The time is noted
when the partition stops being quiet: until then the follower counts as caught up, since its end is the leader's.
"""

from collections.abc import Callable
from itertools import islice
from typing import Final

from kafkapy.replication.replica_manager import ReplicaManager
from kafkapy.types import TopicPartition

LOOKED_AT_IN_TURN: Final = 20
"""Quiet partitions that a fetch reads in their turn: less than a millisecond, and 10,000 within four minutes."""
TURN_MS: Final = 500
"""Between two turns: a busy session has hundreds of fetches in this time."""


class QuietPartitions:
    """Those of one session of the broker ``replica_id``; ``wake`` is called with each that something happens to.

    It is also told whether the follower can wait for that a little: there are no records for it.
    """

    __slots__ = ("_replicas", "_replica_id", "_wake", "_partitions", "_fetched_ms", "_turn_ms")

    def __init__(self, replicas: ReplicaManager, replica_id: int, wake: Callable[[TopicPartition, bool], None]) -> None:
        self._replicas = replicas
        self._replica_id = replica_id
        self._wake = wake
        self._partitions: dict[TopicPartition, None] = {}
        self._fetched_ms = 0
        self._turn_ms = 0
        """When the next turn is."""

    def __len__(self) -> int:
        return len(self._partitions)

    def add_if_quiet(
        self, topic_partition: TopicPartition, fetch_offset: int, high_watermark: int, log_start_offset: int
    ) -> bool:
        """Add a partition if its follower, which knows these offsets, lacks nothing; tell whether it was added."""
        if not self._replicas.has_all(
            topic_partition, self._replica_id, fetch_offset, high_watermark, log_start_offset
        ):
            return False
        self._partitions[topic_partition] = None
        self._replicas.purgatory.watch(topic_partition, self._changed)
        return True

    def fetched(self, now_ms: int) -> None:
        """The follower has sent a fetch of the session."""
        self._fetched_ms = now_ms

    def remove(self, topic_partition: TopicPartition) -> None:
        """Look at a partition again, if it is a quiet one, from the next fetch on."""
        if topic_partition in self._partitions:
            del self._partitions[topic_partition]
            self._replicas.purgatory.unwatch(topic_partition, self._changed)
            self._replicas.was_caught_up(topic_partition, self._replica_id, self._fetched_ms)

    def take_some(self) -> list[TopicPartition]:
        """Remove the next ones whose turn it is, if it is time for that, and return them."""
        if self._fetched_ms < self._turn_ms:
            return []
        self._turn_ms = self._fetched_ms + TURN_MS
        some = list(islice(self._partitions, LOOKED_AT_IN_TURN))
        for topic_partition in some:
            self.remove(topic_partition)
        return some

    def clear(self) -> None:
        """Watch nothing more: the session is closed."""
        for topic_partition in tuple(self._partitions):
            self.remove(topic_partition)

    def _changed(self, topic_partition: TopicPartition) -> None:
        self.remove(topic_partition)
        self._wake(topic_partition, not self._replicas.has_records_for(topic_partition, self._replica_id))
