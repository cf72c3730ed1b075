"""Takes offsets and whole groups away: DeleteGroups, OffsetDelete, retention, deleted topics.

Each ends in tombstones, appended without waiting for other brokers: one that gets lost is written again by the next
check of the retention.
"""

from kafkapy.clock import Clock
from kafkapy.coordinator.errors import (
    GroupIdNotFoundError,
    GroupSubscribedToTopicError,
    NonEmptyGroupError,
    NotCoordinatorError,
)
from kafkapy.coordinator.group import states
from kafkapy.coordinator.group.commit import log_error
from kafkapy.coordinator.group.expiry import expired_offsets
from kafkapy.coordinator.group.group import Group
from kafkapy.coordinator.group.rebalance import Rebalancer
from kafkapy.coordinator.group.records import group_tombstone, offset_record
from kafkapy.coordinator.group.shard import Shard
from kafkapy.coordinator.runtime import Runtime
from kafkapy.types import TopicPartition


class Removal:
    """Removes offsets of groups, and the groups that have nothing left."""

    def __init__(self, runtime: Runtime, rebalancer: Rebalancer, clock: Clock) -> None:
        self._runtime = runtime
        self._rebalancer = rebalancer
        self._clock = clock

    def delete_group(self, shard: Shard, group_id: str) -> int:
        """DeleteGroups of one group: the error code."""
        group = shard.groups.get(group_id)
        if group is None:
            return GroupIdNotFoundError.error_code
        error_code = states.DELETE[group.state]
        return error_code or self._remove(shard, group, list(group.offsets.committed), is_deleted=True)

    def delete_offsets(
        self, shard: Shard, group_id: str, partitions: list[TopicPartition]
    ) -> tuple[int, dict[TopicPartition, int]]:
        """OffsetDelete: the group's error code, and those of the partitions.

        An empty group goes with its last offset, or if it has none; as in Kafka not where nothing may be deleted.
        """
        group = shard.groups.get(group_id)
        if group is None:
            return GroupIdNotFoundError.error_code, {}
        if group.state is states.EMPTY:
            consumed: set[TopicPartition] = set()
        elif group.is_consumer_group:
            consumed = {partition for partition in partitions if group.is_subscribed_to(partition.topic)}
        else:
            return NonEmptyGroupError.error_code, {}
        removed = [partition for partition in partitions if partition not in consumed]
        error_code = self._remove(shard, group, removed) if removed else 0
        return 0, {
            partition: GroupSubscribedToTopicError.error_code if partition in consumed else error_code
            for partition in partitions
        }

    def expire(self, retention_ms: int) -> int:
        """Remove what has outlived its retention, and groups without members and offsets; returns how many offsets."""
        now_ms = self._clock.now_ms()
        removed = 0
        for shard, group in self._runtime.groups():
            expired = expired_offsets(group, now_ms, retention_ms)
            if self._remove(shard, group, expired) == 0:
                removed += len(expired)
        return removed

    def topics_deleted(self, partitions: set[TopicPartition]) -> None:
        """Remove the offsets of partitions that are no more; as in Kafka, every group goes that keeps nothing."""
        for shard, group in self._runtime.groups():
            self._remove(shard, group, [partition for partition in group.offsets.committed if partition in partitions])

    def _remove(self, shard: Shard, group: Group, partitions: list[TopicPartition], *, is_deleted: bool = False) -> int:
        """Write the tombstones and forget what they are about; returns 0 or the error of the log."""
        now_ms = self._clock.now_ms()
        known = [partition for partition in partitions if partition in group.offsets.committed]
        goes = is_deleted or (group.state is states.EMPTY and group.offsets.has_only(known))
        tombstones = [offset_record(group.group_id, partition, None, now_ms) for partition in known]
        if goes and group.generation_id > 0:
            # a group of generation 0 was never written: it only keeps offsets
            tombstones.append(group_tombstone(group.group_id, now_ms))
        error_code = self._runtime.append_locally(shard, tombstones) if tombstones else 0
        if error_code == 0 and goes:
            del shard.groups[group.group_id]
            self._rebalancer.kill(group, NotCoordinatorError.error_code)
        return log_error(error_code)
