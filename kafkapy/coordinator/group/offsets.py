"""The committed offsets of a group, and commits that are not yet in the log or belong to open transactions."""

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import Final, NamedTuple

from kafkapy.protocol.errors import ErrorCode
from kafkapy.types import NO_EPOCH, NO_OFFSET, NO_TIMESTAMP, TopicPartition, maker

NO_EXPIRY: Final = -1


class CommittedOffset(NamedTuple):
    """An offset of a partition. ``expire_timestamp_ms`` is set only if the client named a retention time."""

    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    commit_timestamp_ms: int = NO_TIMESTAMP
    expire_timestamp_ms: int = NO_EXPIRY


committed_offset_of = maker(CommittedOffset)
"""Make a ``CommittedOffset`` from a tuple of all five fields."""


class FetchedOffset(NamedTuple):
    """The result of OffsetFetch for a partition: offset -1 if there is none."""

    offset: int = NO_OFFSET
    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    error_code: int = 0


class Offsets:
    """The offsets of one group: replayed ones, and by partition the number of commits that the log does not have yet.

    ``_in_transactions`` holds, by producer id, the commits of transactions that have not ended: they become visible
    with the commit marker, and an abort drops them. ``_producers`` holds the producer ids of these by partition: very
    many transactions may be open. ``_unsettled`` counts those commits that the log does not have yet.
    """

    __slots__ = ("_committed", "_position", "_appending", "_in_transactions", "_producers", "_unsettled")

    def __init__(self) -> None:
        self._committed: dict[TopicPartition, CommittedOffset] = {}
        self._position: dict[TopicPartition, int] = {}
        self._appending: dict[TopicPartition, int] = {}
        self._in_transactions: dict[int, dict[TopicPartition, tuple[int, CommittedOffset]]] = {}
        self._producers: dict[TopicPartition, set[int]] = {}
        self._unsettled: Counter[TopicPartition] = Counter()

    @property
    def committed(self) -> dict[TopicPartition, CommittedOffset]:
        """The offsets that consumers see."""
        return self._committed

    def partitions(self) -> Iterator[TopicPartition]:
        """The partitions with an offset that is visible, or may be when a transaction ends, some of them twice."""
        return chain(self._committed, self._producers)

    def all_partitions(self) -> Iterator[TopicPartition]:
        """Also those with a commit that is being appended: a tombstone drops it too (``replay``)."""
        return chain(self._committed, self._producers, self._appending, self._unsettled)

    def has(self, topic_partition: TopicPartition) -> bool:
        """Whether the partition has an offset, or is getting one."""
        return (
            topic_partition in self._committed
            or self.is_unstable(topic_partition)
            or self.is_appending(topic_partition)
        )

    def is_empty(self) -> bool:
        """Whether nothing is committed or being committed."""
        return not (self._committed or self._appending or self._in_transactions or self._unsettled)

    def has_only(self, partitions: list[TopicPartition]) -> bool:
        """Whether the group has, and is committing, no other offsets than those of ``partitions``."""
        is_idle = not (self._appending or self._in_transactions or self._unsettled)
        return is_idle and self._committed.keys() <= set(partitions)

    def is_appending(self, topic_partition: TopicPartition) -> bool:
        """Whether a commit of the partition is being appended."""
        return topic_partition in self._appending

    def append_started(self, partitions: list[TopicPartition]) -> None:
        """Count a commit of these partitions that is being appended."""
        for topic_partition in partitions:
            self._appending[topic_partition] = self._appending.get(topic_partition, 0) + 1

    def append_ended(self, partitions: list[TopicPartition]) -> None:
        """The log has the commit, or refused it."""
        for topic_partition in partitions:
            remaining = self._appending[topic_partition] - 1
            if remaining:
                self._appending[topic_partition] = remaining
            else:
                del self._appending[topic_partition]
                self._forget_position(topic_partition)

    def _forget_position(self, topic_partition: TopicPartition) -> None:
        """Forget the position of a tombstone when no earlier commit can be acknowledged any more."""
        is_appending = topic_partition in self._appending or topic_partition in self._unsettled
        if topic_partition not in self._committed and not is_appending:
            self._position.pop(topic_partition, None)

    def append_in_transaction_started(self, partitions: list[TopicPartition]) -> None:
        """Count a transaction's commit of these partitions that is being appended."""
        self._unsettled.update(partitions)

    def append_in_transaction_ended(self, partitions: list[TopicPartition]) -> None:
        """The log has the commit, or refused it."""
        self._unsettled -= Counter(partitions)
        for topic_partition in partitions:
            self._forget_position(topic_partition)

    def replay(self, topic_partition: TopicPartition, position: int, committed: CommittedOffset | None) -> None:
        """Replay the record at ``position`` of the log, None if it is a tombstone; an older record changes nothing.

        A tombstone also drops the commits of open transactions before it: the offset was deleted, or the topic, and the
        next topic of the same name must not begin at it.
        """
        if self._position.get(topic_partition, -1) > position:
            return
        if committed is None:
            self._committed.pop(topic_partition, None)
            self._position.pop(topic_partition, None)
            if topic_partition in self._appending or topic_partition in self._unsettled:
                # a commit that the log had before this tombstone may be acknowledged after it
                self._position[topic_partition] = position
            for producer_id in tuple(self._producers.get(topic_partition, ())):
                if self._in_transactions[producer_id][topic_partition][0] < position:
                    self._forget_in_transaction(producer_id, topic_partition)
        else:
            self._committed[topic_partition] = committed
            self._position[topic_partition] = position

    def replay_in_transaction(
        self, producer_id: int, topic_partition: TopicPartition, position: int, committed: CommittedOffset | None
    ) -> None:
        """Replay a record of a transaction: it is kept until the marker."""
        pending = self._in_transactions.setdefault(producer_id, {})
        if committed is None:
            self._forget_in_transaction(producer_id, topic_partition)
        elif topic_partition in self._committed or self._position.get(topic_partition, -1) < position:
            # else a tombstone behind it, replayed before this commit was acknowledged, has dropped it
            pending[topic_partition] = (position, committed)
            self._producers.setdefault(topic_partition, set()).add(producer_id)

    def _forget_in_transaction(self, producer_id: int, topic_partition: TopicPartition) -> None:
        if self._in_transactions[producer_id].pop(topic_partition, None) is not None:
            producers = self._producers[topic_partition]
            producers.discard(producer_id)
            if not producers:
                del self._producers[topic_partition]

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Replay the marker of the producer's transaction."""
        pending = self._in_transactions.get(producer_id, {})
        for topic_partition, (position, committed) in tuple(pending.items()):
            self._forget_in_transaction(producer_id, topic_partition)
            if is_commit:
                self.replay(topic_partition, position, committed)
        self._in_transactions.pop(producer_id, None)

    def is_unstable(self, topic_partition: TopicPartition) -> bool:
        """Whether an open transaction commits an offset of the partition (KIP-447)."""
        return topic_partition in self._producers or topic_partition in self._unsettled

    def fetch(self, topic_partition: TopicPartition, *, require_stable: bool = False) -> FetchedOffset:
        """The result of OffsetFetch for the partition; one that is being committed is unstable too."""
        if require_stable and (self.is_unstable(topic_partition) or self.is_appending(topic_partition)):
            return FetchedOffset(error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT)
        committed = self._committed.get(topic_partition)
        if committed is None:
            return FetchedOffset()
        return FetchedOffset(committed.offset, committed.leader_epoch, committed.metadata)
