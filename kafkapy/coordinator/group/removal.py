"""The removal of offsets and groups: DeleteGroups, OffsetDelete, retention, deleted topics.

Each appends tombstones without waiting for other replicas: one that is lost with this broker is written again by the
next check of the retention.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Final

from kafkapy.clock import Clock
from kafkapy.coordinator.group.group import Group
from kafkapy.coordinator.group.offsets import NO_EXPIRY
from kafkapy.coordinator.group.records import offset_record
from kafkapy.coordinator.group.runtime import GroupRuntime
from kafkapy.coordinator.group.shard import GroupShard
from kafkapy.coordinator.group.writes import RemovalWrite
from kafkapy.metadata.topic_rules import MAX_NAME_LENGTH
from kafkapy.protocol.errors import ErrorCode
from kafkapy.text import text_size
from kafkapy.turns import Steps, pieces
from kafkapy.types import TopicPartition, as_long

Choose = Callable[[GroupShard, Group, Sequence[TopicPartition]], list[TopicPartition]]
"""Returns the partitions of a group whose offsets are removed, out of some of them."""


def expired_offsets(
    group: Group, partitions: Iterable[TopicPartition], now_ms: int, retention_ms: int
) -> list[TopicPartition]:
    """Return the ``partitions`` whose offsets have expired (``offsets.retention.minutes``, KIP-211).

    A commit with a retention time expires at the end of it; both only while the offset is not in use. An offset that is
    being committed, also in a transaction, stays: its tombstone would delete the commit too.
    """
    return [each for each in partitions if _is_expired(group, each, now_ms, retention_ms)]


def _is_expired(group: Group, topic_partition: TopicPartition, now_ms: int, retention_ms: int) -> bool:
    offsets = group.offsets
    committed = offsets.committed.get(topic_partition)
    if committed is None or offsets.is_appending(topic_partition) or offsets.is_unstable(topic_partition):
        return False
    since_ms = group.retained_since_ms(topic_partition.topic, committed.commit_timestamp_ms)
    if since_ms is None:
        return False
    if committed.expire_timestamp_ms != NO_EXPIRY:
        return now_ms >= committed.expire_timestamp_ms
    return as_long(now_ms - since_ms) >= retention_ms


OFFSETS_IN_A_BATCH: Final = 128
"""Tombstones in one batch, which is one step."""
BATCH_BYTES: Final = 65_536
"""The bound on such a batch, where group ids are long."""
TOMBSTONE_BYTES: Final = MAX_NAME_LENGTH + 96
"""The most bytes of a tombstone beside the group id, in each record format, with its share of the batch's header."""


class OffsetRemover:
    """Removes offsets of groups, and groups without members and offsets."""

    def __init__(self, runtime: GroupRuntime, clock: Clock) -> None:
        self._runtime = runtime
        self._clock = clock

    def delete_group(self, shard: GroupShard, group_id: str) -> Steps[int]:
        """DeleteGroups of one group: the error code.

        The group is deleted with its last offsets. If a member joins or commits before that, the group stays, with the
        remaining offsets.
        """
        while True:
            group = shard.groups.get(group_id)
            if group is None or not shard.is_current:
                return ErrorCode.GROUP_ID_NOT_FOUND if shard.is_current else ErrorCode.NOT_COORDINATOR
            count = self._offsets_in_a_batch(shard, group_id)
            some = list(islice(group.offsets.partitions(), count + 1))
            is_last = len(some) <= count
            error_code = group.delete_error() or self._remove(shard, group, some[:count], is_deleted=is_last)
            if error_code or is_last:
                return error_code
            yield

    def delete_offsets(
        self, shard: GroupShard, group_id: str, partitions: list[TopicPartition]
    ) -> Steps[tuple[int, dict[TopicPartition, int]]]:
        """OffsetDelete: the group's error code, and those of the partitions.

        An Empty group is deleted with its last offset, or if it has none; as in Kafka not if no offset may be deleted.
        The remaining partitions of a group that is deleted between two steps have no offset to delete.
        """
        group = shard.groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND, {}
        if error_code := group.delete_offsets_error():
            return error_code, {}
        errors: dict[TopicPartition, int] = {}
        for piece in pieces(partitions, self._offsets_in_a_batch(shard, group_id)):
            if errors:
                yield
            if group.is_dead or not shard.is_current:
                errors.update(dict.fromkeys(piece, 0 if shard.is_current else ErrorCode.NOT_COORDINATOR))
                continue
            removed = [each for each in piece if not group.is_read(each.topic)]
            error_code = self._remove(shard, group, removed) if removed else 0
            errors.update(dict.fromkeys(piece, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC))
            errors.update(dict.fromkeys(removed, error_code))
        return 0, errors

    def expire(self, retention_ms: int) -> Steps[None]:
        """Remove expired offsets, and groups without members and offsets."""
        now_ms = self._clock.now_ms()
        return self._remove_all(lambda _, group, some: expired_offsets(group, some, now_ms, retention_ms))

    def topics_deleted(self, deleted: set[TopicPartition]) -> Steps[None]:
        """Remove the offsets of deleted partitions and, as in Kafka, groups that have no members and offsets then.

        Commits from now on are of new topics of these names, and stay. A partition that has one gets no tombstone, as
        that would drop it too; its older commits are dropped in memory. (If the new one fails or is aborted, and the
        broker is restarted before another commit, the older one is back.)
        """
        end_offsets = {
            shard: self._runtime.end_offset(shard.topic_partition) for shard in self._runtime.shards.values()
        }

        def choose(shard: GroupShard, group: Group, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
            end_offset, offsets = end_offsets.get(shard, 0), group.offsets
            chosen = []
            for each in partitions:
                if each not in deleted:
                    continue
                if offsets.is_committed_since(each, end_offset):
                    offsets.drop_before(each, end_offset)
                else:
                    chosen.append(each)
            return chosen

        return self._remove_all(choose)

    def _remove_all(self, choose: Choose) -> Steps[None]:
        """Remove the offsets that ``choose`` returns for each piece of each group's partitions."""
        for groups in self._runtime.groups():
            for shard, group in groups:
                known = list(group.offsets.partitions())
                for piece in pieces(known, self._offsets_in_a_batch(shard, group.group_id)) if known else ((),):
                    if group.is_dead or not shard.is_current:
                        break
                    self._remove(shard, group, choose(shard, group, piece))
                    yield

    def _offsets_in_a_batch(self, shard: GroupShard, group_id: str) -> int:
        """The number of tombstones that one batch holds, with that of the group beside them."""
        size = min(BATCH_BYTES, self._runtime.largest_batch(shard))
        return min(max(size // (text_size(group_id) + TOMBSTONE_BYTES) - 1, 1), OFFSETS_IN_A_BATCH)

    def _remove(
        self, shard: GroupShard, group: Group, partitions: list[TopicPartition], *, is_deleted: bool = False
    ) -> int:
        """Append the tombstones of offsets, and of the group if it is empty then; returns the client's error code."""
        now_ms = self._clock.now_ms()
        known = [each for each in dict.fromkeys(partitions) if group.offsets.has(each)]
        is_deleted = is_deleted or (group.is_empty and group.offsets.has_only(known))
        tombstones = [offset_record(group.group_id, each, None, now_ms) for each in known]
        if is_deleted:
            tombstones += group.tombstones(now_ms)
        error_code = 0
        if tombstones:
            batch = self._runtime.encode(tombstones)
            error_code = self._runtime.write(RemovalWrite(shard, group, tombstones, batch)).value
        if error_code == 0 and is_deleted:
            shard.remove(group)
            group.kill(ErrorCode.NOT_COORDINATOR)
        return error_code
