"""The group coordinator, the entry of all requests: it finds the group and calls the function that decides.

``classic`` has the requests of members. OffsetCommit and TxnOffsetCommit return an ``Answer``, all others a result or
the steps to one.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from kafkapy.clock import Clock
from kafkapy.config.group_keys import group_value
from kafkapy.coordinator.answer import Answer
from kafkapy.coordinator.group.calls import COMMITTER, DEAD, CommitCall, GroupDescription, GroupListing, Producer
from kafkapy.coordinator.group.classic.groups import ClassicGroups
from kafkapy.coordinator.group.consumer.classic_members import ClassicMembers
from kafkapy.coordinator.group.consumer.group import ConsumerGroup
from kafkapy.coordinator.group.consumer.groups import ConsumerGroups
from kafkapy.coordinator.group.group import GroupType
from kafkapy.coordinator.group.offset_requests import OffsetRequests
from kafkapy.coordinator.group.offsets import FetchedOffset
from kafkapy.coordinator.group.records import CONSUMER_KEYS, GroupKey, OffsetKey, RecordKey
from kafkapy.coordinator.group.removal import OffsetRemover
from kafkapy.coordinator.group.runtime import GroupRuntime
from kafkapy.coordinator.group.settings import GroupSettings
from kafkapy.coordinator.runtime import Background, Config, LeadershipSource, Metadata
from kafkapy.protocol.errors import ErrorCode
from kafkapy.turns import Steps
from kafkapy.types import TopicPartition


class GroupCoordinator:
    """Groups and their offsets, on the partitions of ``__consumer_offsets`` that this broker leads."""

    def __init__(
        self,
        config: Config | Mapping[str, Any],
        clock: Clock,
        replica_manager: LeadershipSource,
        metadata: Metadata,
        background: Background | None = None,
        *,
        overrides_of: Callable[[str], Mapping[str, str]],
    ) -> None:
        """``overrides_of`` returns the configuration of a group."""
        background = background or Background()
        self._run = background.run
        self.settings = GroupSettings.from_config(config)
        self._metadata = metadata
        self._runtime = GroupRuntime(self.settings, clock, replica_manager, metadata, background)
        self.classic: Final = ClassicGroups(self._runtime, clock, background)
        """The requests of members of classic groups."""

        def value_of(group_id: str, name: str) -> int:
            return group_value(config, overrides_of(group_id), name)

        self.consumer: Final = ConsumerGroups(self._runtime, clock, metadata, background, self.classic, value_of)
        """The requests of members of consumer groups."""
        self.classic.others[ConsumerGroup] = ClassicMembers(self.consumer)
        types: dict[type[RecordKey], GroupType] = {OffsetKey: self.classic, GroupKey: self.classic}
        self._runtime.types.update(types | dict.fromkeys(CONSUMER_KEYS, self.consumer))
        self._remover = OffsetRemover(self._runtime, clock)
        self._offsets = OffsetRequests(self._runtime)
        self.commit_offsets: Final = self._offsets.commit
        """OffsetCommit: an error code for each partition. An attribute: a method would cost each commit a call."""

    # Start and stop

    def startup(self) -> None:
        """Serve requests; call it before the broker learns which partitions it leads."""
        self._runtime.startup()
        self._metadata.add_listener(self._metadata_changed)
        self._runtime.repeat(self._expire, self.settings.offsets_retention_check_interval_ms)

    def shutdown(self) -> None:
        """Stop the timers and answer waiting requests; the log has everything that was acknowledged."""
        self._runtime.shutdown()

    def _expire(self) -> Steps[None]:
        return self._remover.expire(self.settings.offsets_retention_ms)

    def _metadata_changed(self, _image: Any, deleted: Iterable[TopicPartition]) -> None:
        """Remove the offsets of deleted partitions."""
        partitions = set(deleted)
        if partitions:
            self._run(self._remover.topics_deleted(partitions))

    def partition_for(self, group_id: str) -> int:
        """The partition of ``__consumer_offsets`` that keeps the group."""
        return self._runtime.partition_for(group_id)

    # Offsets

    def commit_offsets_in_transaction(self, call: CommitCall, producer: Producer) -> Answer[dict[TopicPartition, int]]:
        """TxnOffsetCommit: an error code for each partition."""
        return self._offsets.commit_in_transaction(call, producer)

    def commit_many_offsets(
        self, call: CommitCall, producer: Producer = COMMITTER
    ) -> Steps[Answer[dict[TopicPartition, int]]]:
        """OffsetCommit, or with another ``producer`` TxnOffsetCommit, of many partitions, in steps."""
        return self._offsets.commit_large(call, producer)

    def transaction_ended(self, partition: int, producer_id: int, *, is_commit: bool) -> None:
        """A marker of a producer's transaction was written to this partition of ``__consumer_offsets``."""
        self._runtime.end_transaction(partition, producer_id, is_commit=is_commit)

    def fetch_few_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], *, require_stable: bool = False
    ) -> tuple[int, dict[TopicPartition, FetchedOffset]]:
        """OffsetFetch of few partitions, at once: an error code, and their offsets."""
        return self._offsets.fetch(group_id, partitions, require_stable=require_stable)

    def fetch_offsets(
        self, group_id: str, partitions: Sequence[TopicPartition] | None, *, require_stable: bool = False
    ) -> Steps[tuple[int, dict[TopicPartition, FetchedOffset]]]:
        """OffsetFetch: an error code, and the offsets of ``partitions`` (None: of all that have one)."""
        return self._offsets.fetch_many(group_id, partitions, require_stable=require_stable)

    # Administration

    def list_groups(self, states_filter: Iterable[str] = ()) -> Steps[tuple[int, list[GroupListing]]]:
        """ListGroups: an error code (14 while some are still loading) and the groups in one of the states, or all."""
        if not self._runtime.is_running:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, []
        wanted = set(states_filter)
        is_loading = self._runtime.is_loading()
        listings: list[GroupListing] = []
        for piece in self._runtime.groups():
            listed = [group.listing() for _, group in piece]
            listings += [each for each in listed if not wanted or each.state in wanted]
            yield
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if is_loading else 0, listings

    @property
    def groups_max_size(self) -> int:
        """The most bytes that the members of all groups may take, or take now if that is more."""
        budget = self._runtime.budget
        return max(budget.max_bytes, budget.used_bytes)

    def describe_group(self, group_id: str) -> Steps[GroupDescription]:
        """DescribeGroups of one group; a group that does not exist is Dead."""
        shard = self._runtime.find(group_id)
        if isinstance(shard, int):
            return GroupDescription(shard, group_id)
        group = shard.groups.get(group_id)
        if group is None:
            return GroupDescription(0, group_id, DEAD)
        return (yield from group.describe())

    def delete_group(self, group_id: str) -> Steps[int]:
        """DeleteGroups of one group: the error code."""
        shard = self._runtime.find(group_id)
        return shard if isinstance(shard, int) else (yield from self._remover.delete_group(shard, group_id))

    def delete_offsets(
        self, group_id: str, partitions: list[TopicPartition]
    ) -> Steps[tuple[int, dict[TopicPartition, int]]]:
        """OffsetDelete: the group's error code, and (if that is 0) one for each partition."""
        shard = self._runtime.find_named(group_id)
        if isinstance(shard, int):
            return shard, {}
        return (yield from self._remover.delete_offsets(shard, group_id, partitions))
