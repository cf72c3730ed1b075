"""The offsets that a group has committed, and those that are on their way."""

from collections import Counter
from typing import NamedTuple

from kafkapy.protocol.errors import ErrorCode
from kafkapy.types import NO_EPOCH, NO_OFFSET, TopicPartition, maker

NO_EXPIRY = -1


class CommittedOffset(NamedTuple):
    """An offset of a partition. ``expire_timestamp_ms`` is set only by clients that ask for their own retention."""

    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    commit_timestamp_ms: int = -1
    expire_timestamp_ms: int = NO_EXPIRY


committed_offset_of = maker(CommittedOffset)
"""Of a tuple of all five."""


class FetchedOffset(NamedTuple):
    """What OffsetFetch tells of a partition: offset -1 when there is none."""

    offset: int = NO_OFFSET
    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    error_code: int = 0


class Offsets:
    """The offsets of one group: replayed ones, and for each partition how many commits the log does not have yet.

    ``_in_transactions`` holds, by producer id, the commits of transactions that have not ended: nobody sees them
    before the commit marker, and an abort drops them. ``_unsettled`` counts those that the log does not have yet.
    """

    __slots__ = ("_committed", "_position", "_appending", "_in_transactions", "_unsettled")

    def __init__(self) -> None:
        self._committed: dict[TopicPartition, CommittedOffset] = {}
        self._position: dict[TopicPartition, int] = {}
        self._appending: dict[TopicPartition, int] = {}
        self._in_transactions: dict[int, dict[TopicPartition, tuple[int, CommittedOffset]]] = {}
        self._unsettled: Counter[TopicPartition] = Counter()

    @property
    def committed(self) -> dict[TopicPartition, CommittedOffset]:
        """What consumers see."""
        return self._committed

    def is_empty(self) -> bool:
        """Whether nothing is committed and nothing is on its way."""
        return not (self._committed or self._appending or self._in_transactions or self._unsettled)

    def has_only(self, partitions: list[TopicPartition]) -> bool:
        """Whether nothing would be left, committed or on its way, without the offsets of ``partitions``."""
        is_idle = not (self._appending or self._in_transactions or self._unsettled)
        return is_idle and self._committed.keys() <= set(partitions)

    def is_appending(self, partition: TopicPartition) -> bool:
        """Whether a commit for the partition is on its way to the log."""
        return partition in self._appending

    def append_started(self, partitions: list[TopicPartition]) -> None:
        """A commit of these partitions goes to the log."""
        for partition in partitions:
            self._appending[partition] = self._appending.get(partition, 0) + 1

    def append_ended(self, partitions: list[TopicPartition]) -> None:
        """The log has it, or refused it."""
        for partition in partitions:
            remaining = self._appending[partition] - 1
            if remaining:
                self._appending[partition] = remaining
            else:
                del self._appending[partition]
                if partition not in self._committed:
                    self._position.pop(partition, None)

    def append_in_transaction_started(self, partitions: list[TopicPartition]) -> None:
        """A transaction's commit of these partitions goes to the log."""
        self._unsettled.update(partitions)

    def append_in_transaction_ended(self, partitions: list[TopicPartition]) -> None:
        """The log has it, or refused it."""
        self._unsettled -= Counter(partitions)

    def replay(self, partition: TopicPartition, position: int, committed: CommittedOffset | None) -> None:
        """Take over the record at ``position`` of the log; ``None`` is a tombstone. An older record changes nothing."""
        if self._position.get(partition, -1) > position:
            return
        if committed is None:
            self._committed.pop(partition, None)
            self._position.pop(partition, None)
            if partition in self._appending:
                # a commit that the log had before this tombstone may be acknowledged after it
                self._position[partition] = position
        else:
            self._committed[partition] = committed
            self._position[partition] = position

    def replay_in_transaction(
        self, producer_id: int, partition: TopicPartition, position: int, committed: CommittedOffset | None
    ) -> None:
        """Keep a record of a transaction until its marker comes."""
        pending = self._in_transactions.setdefault(producer_id, {})
        if committed is None:
            pending.pop(partition, None)
        else:
            pending[partition] = (position, committed)

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """The marker of the producer's transaction was read."""
        pending = self._in_transactions.pop(producer_id, {})
        if is_commit:
            for partition, (position, committed) in pending.items():
                self.replay(partition, position, committed)

    def is_unstable(self, partition: TopicPartition) -> bool:
        """Whether an open transaction commits an offset of the partition (KIP-447)."""
        is_pending = any(partition in pending for pending in self._in_transactions.values())
        return is_pending or partition in self._unsettled

    def fetch(self, partition: TopicPartition, *, require_stable: bool = False) -> FetchedOffset:
        """What OffsetFetch answers for the partition; unstable is also what is on its way to the log."""
        if require_stable and (self.is_unstable(partition) or self.is_appending(partition)):
            return FetchedOffset(error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT)
        committed = self._committed.get(partition)
        if committed is None:
            return FetchedOffset()
        return FetchedOffset(committed.offset, committed.leader_epoch, committed.metadata)
