"""The decisions of the group coordinator with their records, as ``Runtime.write`` takes them."""

from collections.abc import Mapping, Sequence
from typing import Final

from kafkapy.coordinator.decision import Decision
from kafkapy.coordinator.group.calls import COMMITTER, Producer
from kafkapy.coordinator.group.group import Group
from kafkapy.coordinator.group.offsets import CommittedOffset
from kafkapy.coordinator.group.shard import GroupShard
from kafkapy.protocol.errors import ErrorCode
from kafkapy.records.record import Record
from kafkapy.records.validate import ValidatedBatch
from kafkapy.turns import Steps, while_true
from kafkapy.types import TopicPartition

COMMIT_ERRORS: Final[Mapping[int, int]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
}
"""The log's error → the error for the client whose offsets could not be written, or removed; others stay as they are.

The client then looks up the coordinator, retries, or sends a smaller request."""

MEMBER_ERRORS: Final[Mapping[int, int]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""The log's error → the error for members, if the group could not be written; other errors stay as they are."""


class GroupWrite(Decision[int]):
    """The record of a group; the response is 0, or the error for its members."""

    __slots__ = ("_shard", "_group", "_records")

    errors = MEMBER_ERRORS

    def __init__(self, shard: GroupShard, group: Group, records: Sequence[Record], batch: bytearray) -> None:
        self.topic_partition = shard.topic_partition
        self.batch = batch
        self.response = 0
        self._shard = shard
        self._group = group
        self._records = records

    @property
    def is_current(self) -> bool:
        """False if the group was deleted: its tombstones follow, and a new group of its id does not get the records."""
        return self._shard.is_current and not self._group.is_dead

    def replay(self, first_offset: int, /) -> None:
        """Replay the records as a load does."""
        self._shard.replay_records(self._records, first_offset)

    def refuse(self, error_code: int, /) -> int:
        """The error code for the clients."""
        return self.errors.get(error_code, error_code)


class FollowedWrite(GroupWrite):
    """Records of a group, maybe very many, that its type replays in steps after the response.

    They are replayed even if the wait for the replicas has ended without them: the log keeps the records then, so a
    broker that loads it replays them. The state has to follow the log, not the answer. ``is_in_log`` is true if other
    replicas may not have them.

    Records of a conversion make the group one of another type. It is replaced at once, when all are replayed.
    """

    __slots__ = ("_is_conversion", "_end_offset", "_first_offset")

    def __init__(
        self,
        shard: GroupShard,
        group: Group,
        records: Sequence[Record],
        batch: bytearray,
        *,
        is_conversion: bool = False,
    ) -> None:
        super().__init__(shard, group, records, batch)
        self._is_conversion = is_conversion
        self._end_offset: int | None = None
        self._first_offset: int | None = None

    @property
    def is_in_log(self) -> bool:
        """Whether the records were appended, and had to wait for other replicas."""
        return self._end_offset is not None

    def wait_started(self, end_offset: int, /) -> None:
        """Remember where the log has the records."""
        self._end_offset = end_offset

    def refuse(self, error_code: int, /) -> int:
        """The error code for the client; records in the log are replayed all the same."""
        if self._end_offset is not None:
            self._first_offset = self._end_offset - len(self._records)
        return super().refuse(error_code)

    def replay(self, first_offset: int, /) -> None:
        """Note the offset for ``replay_in_steps``."""
        self._first_offset = first_offset

    def replay_in_steps(self) -> Steps[None]:
        """Replay the records that the log has, as a load does, as long as the group is served."""
        if self._first_offset is None or not self.is_current:
            return
        shard = self._shard.apart() if self._is_conversion else self._shard
        steps = shard.replay_in_steps(self._records, self._first_offset)
        yield from while_true(lambda: self.is_current, steps)
        if self._is_conversion:
            self._replace(shard)

    def _replace(self, apart: GroupShard) -> None:
        """All records were replayed apart, unless the group was unloaded before the last step."""
        if self.is_current:
            self._shard.replace(self._group, apart.groups[self._group.group_id])
            return
        for made in apart.groups.values():
            made.kill(ErrorCode.NOT_COORDINATOR)


class RemovalWrite(GroupWrite):
    """The tombstones of offsets, and of a group: if they are lost, the next retention check writes them again."""

    __slots__ = ()

    errors = COMMIT_ERRORS
    waits_for_replicas = False


class CommitWrite(Decision[dict[TopicPartition, int]]):
    """The offsets of a commit; the response has an error code for each partition."""

    __slots__ = ("_shard", "_group", "_offsets", "_producer", "_waits")

    def __init__(
        self,
        shard: GroupShard,
        group: Group,
        offsets: Mapping[TopicPartition, CommittedOffset],
        producer: Producer,
        batch: bytearray | ValidatedBatch,
        response: dict[TopicPartition, int],
    ) -> None:
        self.topic_partition = shard.topic_partition
        self.batch = batch
        self.response = response
        self._shard = shard
        self._group = group
        self._offsets = offsets
        self._producer = producer
        self._waits = False

    @property
    def is_current(self) -> bool:
        """False if the offsets were deleted; a group that took the place of this one has them too."""
        found = self._shard.groups.get(self._group.group_id)
        return self._shard.is_current and found is not None and found.offsets is self._group.offsets

    def wait_started(self, end_offset: int, /) -> None:
        """Count the commit as one that is being appended."""
        self._waits = True
        kept = self._group.offsets
        start = kept.append_started if self._producer is COMMITTER else kept.append_in_transaction_started
        start(list(self._offsets), end_offset)

    def _wait_ended(self) -> None:
        kept = self._group.offsets
        end = kept.append_ended if self._producer is COMMITTER else kept.append_in_transaction_ended
        end(list(self._offsets))

    def replay(self, first_offset: int, /) -> None:
        """Replay the commits without decoding them."""
        self._shard.replay_commits(self._group, self._offsets, first_offset, self._producer.producer_id)
        if self._waits:
            self._wait_ended()

    def refuse(self, error_code: int, /) -> dict[TopicPartition, int]:
        """The error code for the partitions that were written."""
        if self._waits:
            self._wait_ended()
        return self.response | dict.fromkeys(self._offsets, COMMIT_ERRORS.get(error_code, error_code))


class DecodedCommitWrite(CommitWrite):
    """A commit whose ``records`` are decoded to be replayed: their format may not hold all fields of the offsets."""

    __slots__ = ("records",)

    records: Sequence[Record]

    def replay(self, first_offset: int, /) -> None:
        """Replay the records as a load does."""
        self._shard.replay_records(self.records, first_offset, self._producer.producer_id)
        if self._waits:
            self._wait_ended()
