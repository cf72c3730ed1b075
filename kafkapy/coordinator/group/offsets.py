"""The committed offsets of a group, and commits that are not yet in the log or belong to open transactions."""

from collections.abc import Iterator
from itertools import chain
from typing import Final, NamedTuple

from kafkapy.protocol.errors import ErrorCode
from kafkapy.turns import PIECE, Steps
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


class OpenTransaction:
    """A producer's commits in a transaction that has not ended, each with its position in the log.

    They become visible with the commit marker, and an abort drops them. A commit that a tombstone has dropped remains
    in ``commits``; it counts only if ``Offsets._transactions`` has this transaction for its partition.
    """

    __slots__ = ("commits",)

    def __init__(self) -> None:
        self.commits: dict[TopicPartition, tuple[int, CommittedOffset]] = {}


class Offsets:
    """The offsets of one group: replayed ones, and by partition the number of commits that the log does not have yet.

    ``_in_transactions`` holds, by producer id, the pending transactions; ``_transactions`` holds, by partition, the
    pending transactions that have committed an offset of the partition, since very many transactions may be open.
    ``_unsettled`` counts, by partition, the commits in transactions that are being appended.
    ``_under_way`` holds the partitions with a commit, in a transaction or not, that is being appended and that no
    tombstone follows; with the log's end after the last such append.
    """

    __slots__ = (
        "_committed", "_position", "_appending", "_in_transactions", "_transactions", "_unsettled", "_under_way",
    )  # fmt: skip

    def __init__(self) -> None:
        self._committed: dict[TopicPartition, CommittedOffset] = {}
        self._position: dict[TopicPartition, int] = {}
        self._appending: dict[TopicPartition, int] = {}
        self._in_transactions: dict[int, OpenTransaction] = {}
        self._transactions: dict[TopicPartition, dict[OpenTransaction, int]] = {}
        """With the positions of the commits, in ascending order."""
        self._unsettled: dict[TopicPartition, int] = {}
        self._under_way: dict[TopicPartition, int] = {}

    @property
    def committed(self) -> dict[TopicPartition, CommittedOffset]:
        """The offsets that consumers see."""
        return self._committed

    def partitions(self) -> Iterator[TopicPartition]:
        """The partitions with an offset, also one that may become visible later; some of them several times.

        A tombstone of such a partition removes it from these (``replay``).
        """
        return chain(self._committed, self._transactions, self._under_way)

    def has(self, topic_partition: TopicPartition) -> bool:
        """Whether the partition is one of ``partitions``."""
        return (
            topic_partition in self._committed
            or topic_partition in self._transactions
            or topic_partition in self._under_way
        )

    def _is_idle(self) -> bool:
        """Whether nothing is being committed."""
        return not (self._appending or self._in_transactions or self._transactions or self._unsettled)

    def is_empty(self) -> bool:
        """Whether nothing is committed or being committed."""
        return not self._committed and self._is_idle()

    def has_only(self, partitions: list[TopicPartition]) -> bool:
        """Whether the group has committed and pending offsets only of ``partitions``."""
        return self._is_idle() and self._committed.keys() <= set(partitions)

    def is_committed_since(self, topic_partition: TopicPartition, end_offset: int) -> bool:
        """Whether the partition has a commit, visible or not, at or behind an offset that was the log's end."""
        transactions = self._transactions.get(topic_partition)
        newest = next(reversed(transactions.values())) if transactions else -1
        newest = max(newest, self._position.get(topic_partition, -1))
        return newest >= end_offset or self._under_way.get(topic_partition, -1) > end_offset

    def drop_before(self, topic_partition: TopicPartition, end_offset: int) -> None:
        """Drop the partition's commits below an offset that was the log's end, visible or not; later ones stay."""
        if self._position.get(topic_partition, -1) < end_offset:
            self._committed.pop(topic_partition, None)
            self._position.pop(topic_partition, None)
            if topic_partition in self._appending or topic_partition in self._unsettled:
                self._position[topic_partition] = end_offset - 1  # a commit below it may be acknowledged later
        transactions = self._transactions.get(topic_partition, {})
        for transaction in [each for each, position in transactions.items() if position < end_offset]:
            self._forget_in_transaction(transaction, topic_partition)

    def is_appending(self, topic_partition: TopicPartition) -> bool:
        """Whether a commit of the partition is being appended."""
        return topic_partition in self._appending

    def append_started(self, partitions: list[TopicPartition], end_offset: int) -> None:
        """Count a commit of these partitions that is being appended; ``end_offset`` is the log's end behind it."""
        self._count_started(self._appending, partitions, end_offset)

    def append_ended(self, partitions: list[TopicPartition]) -> None:
        """The log has the commit, or refused it."""
        self._count_ended(self._appending, partitions)

    def append_in_transaction_started(self, partitions: list[TopicPartition], end_offset: int) -> None:
        """As ``append_started``, for a transaction's commit."""
        self._count_started(self._unsettled, partitions, end_offset)

    def append_in_transaction_ended(self, partitions: list[TopicPartition]) -> None:
        """The log has the commit, or refused it."""
        self._count_ended(self._unsettled, partitions)

    def _count_started(
        self, counts: dict[TopicPartition, int], partitions: list[TopicPartition], end_offset: int
    ) -> None:
        for topic_partition in partitions:
            self._under_way[topic_partition] = end_offset
            counts[topic_partition] = counts.get(topic_partition, 0) + 1

    def _count_ended(self, counts: dict[TopicPartition, int], partitions: list[TopicPartition]) -> None:
        for topic_partition in partitions:
            remaining = counts[topic_partition] - 1
            if remaining:
                counts[topic_partition] = remaining
            else:
                del counts[topic_partition]
                self._settle(topic_partition)

    def _settle(self, topic_partition: TopicPartition) -> None:
        """If no append is pending any more: drop the last end offset, and the position of a tombstone behind it."""
        if topic_partition not in self._appending and topic_partition not in self._unsettled:
            self._under_way.pop(topic_partition, None)
            if topic_partition not in self._committed:
                self._position.pop(topic_partition, None)

    def replay(self, topic_partition: TopicPartition, position: int, committed: CommittedOffset | None) -> None:
        """Replay the record at ``position`` of the log, None if it is a tombstone; an older record changes nothing.

        A tombstone also drops the commits of open transactions before it: the offset was deleted, or the topic, and the
        next topic of the same name must not begin at it. Very many transactions may have one.
        """
        if self._position.get(topic_partition, -1) >= position:
            return
        if committed is None:
            self._committed.pop(topic_partition, None)
            self._position.pop(topic_partition, None)
            self._transactions.pop(topic_partition, None)
            self._under_way.pop(topic_partition, None)
            if topic_partition in self._appending or topic_partition in self._unsettled:
                # a commit that the log had before this tombstone may be acknowledged after it
                self._position[topic_partition] = position
        else:
            self._committed[topic_partition] = committed
            self._position[topic_partition] = position

    def replay_in_transaction(
        self, producer_id: int, topic_partition: TopicPartition, position: int, committed: CommittedOffset | None
    ) -> None:
        """Replay a record of a transaction: it is kept until the marker."""
        transaction = self._in_transactions.get(producer_id)
        if transaction is None:
            transaction = self._in_transactions[producer_id] = OpenTransaction()
        if committed is None:
            self._forget_in_transaction(transaction, topic_partition)
        elif topic_partition in self._committed or self._position.get(topic_partition, -1) < position:
            # else a tombstone behind it, replayed before this commit was acknowledged, has dropped it
            transaction.commits[topic_partition] = (position, committed)
            transactions = self._transactions.setdefault(topic_partition, {})
            transactions.pop(transaction, None)  # a position is added behind the others
            transactions[transaction] = position

    def _forget_in_transaction(self, transaction: OpenTransaction, topic_partition: TopicPartition) -> bool:
        """Forget the transaction's commit of the partition; False if there is none that a tombstone has not dropped."""
        transactions = self._transactions.get(topic_partition, {})
        if transactions.pop(transaction, None) is None:
            return False
        if not transactions:
            del self._transactions[topic_partition]
        return True

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> Steps[None]:
        """Replay the marker of the producer's transaction, in steps.

        Commits of the producer after this call belong to its next transaction, also before the first of the steps.
        """
        return self._end_transaction(self._in_transactions.pop(producer_id, OpenTransaction()), is_commit)

    def _end_transaction(self, transaction: OpenTransaction, is_commit: bool) -> Steps[None]:
        commits = transaction.commits
        while commits:
            for _ in range(min(len(commits), PIECE)):
                topic_partition, commit = commits.popitem()
                if self._forget_in_transaction(transaction, topic_partition) and is_commit:
                    self.replay(topic_partition, *commit)
            yield

    def is_unstable(self, topic_partition: TopicPartition) -> bool:
        """Whether an open transaction commits an offset of the partition (KIP-447)."""
        return topic_partition in self._transactions or topic_partition in self._unsettled

    def fetch(self, topic_partition: TopicPartition, *, require_stable: bool = False) -> FetchedOffset:
        """The result of OffsetFetch for the partition; one that is being committed is unstable too."""
        if require_stable and (self.is_unstable(topic_partition) or self.is_appending(topic_partition)):
            return FetchedOffset(error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT)
        committed = self._committed.get(topic_partition)
        if committed is None:
            return FetchedOffset()
        return FetchedOffset(committed.offset, committed.leader_epoch, committed.metadata)
