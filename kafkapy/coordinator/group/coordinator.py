"""The group coordinator, the entry of all requests: it finds the group and calls the function that decides.

JoinGroup, SyncGroup, OffsetCommit and TxnOffsetCommit return an ``Answer``, all others a result or the steps to one.
``rebalance.py`` describes the order of the members' requests.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kafkapy.clock import Clock
from kafkapy.coordinator.answer import Answer
from kafkapy.coordinator.group import membership, states
from kafkapy.coordinator.group.calls import (
    COMMITTER,
    CommitCall,
    GroupDescription,
    GroupListing,
    JoinCall,
    JoinResult,
    LeavingMember,
    Producer,
    SyncCall,
    SyncResult,
)
from kafkapy.coordinator.group.group import Group
from kafkapy.coordinator.group.metadata_budget import GROUP_MAX_BYTES
from kafkapy.coordinator.group.offset_requests import OffsetRequests
from kafkapy.coordinator.group.offsets import FetchedOffset
from kafkapy.coordinator.group.rebalance import Rebalancer
from kafkapy.coordinator.group.records import group_record
from kafkapy.coordinator.group.removal import OffsetRemover
from kafkapy.coordinator.group.runtime import GroupRuntime
from kafkapy.coordinator.group.settings import GroupSettings
from kafkapy.coordinator.group.writes import MEMBER_ERRORS, GroupWrite
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
    ) -> None:
        background = background or Background()
        self._run = background.run
        self.settings = GroupSettings.from_config(config)
        self._clock = clock
        self._metadata = metadata
        self._rebalancer = Rebalancer(self.settings, clock, self._store_group, background)
        self._runtime = GroupRuntime(self.settings, clock, replica_manager, metadata, self._rebalancer, background)
        self._remover = OffsetRemover(self._runtime, self._rebalancer, clock)
        self._offsets = OffsetRequests(self._runtime, self._rebalancer)
        self.commit_offsets: Final = self._offsets.commit
        """OffsetCommit: an error code for each partition. An attribute: a method would cost each commit a call."""
        self.commit_pattern: Final = self._offsets.pattern
        """What commits of the same partitions have in common, for ``commit_offsets_again``; None for some calls."""
        self.commit_offsets_again: Final = self._offsets.commit_again
        """OffsetCommit of a pattern with other offsets: 0, or an error code for each partition."""

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

    # Membership

    def join(self, call: JoinCall) -> Answer[JoinResult]:
        """JoinGroup."""
        shard = self._runtime.find_named(call.group_id)
        if isinstance(shard, int):
            return Answer.of(JoinResult(shard, call.member_id))
        timeout_ms = call.session_timeout_ms
        if not self.settings.min_session_timeout_ms <= timeout_ms <= self.settings.max_session_timeout_ms:
            return Answer.of(JoinResult(ErrorCode.INVALID_SESSION_TIMEOUT, call.member_id))
        is_new = call.group_id not in shard.groups
        if is_new and call.member_id != membership.NO_MEMBER_ID:
            return Answer.of(JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, call.member_id))
        group = shard.get_or_create(call.group_id)
        answer = membership.join(self._rebalancer, group, call)
        if is_new:  # a group that was here stays, even without members: an aborted transaction leaves one
            shard.forget_unused(group)
        return answer

    def sync(self, call: SyncCall) -> Answer[SyncResult]:
        """SyncGroup. While loading REBALANCE_IN_PROGRESS: older clients don't expect the error of loading here."""
        group = self._runtime.find_group(call.group_id)
        if isinstance(group, int):
            is_loading = group == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return Answer.of(SyncResult(ErrorCode.REBALANCE_IN_PROGRESS if is_loading else group))
        return membership.sync(self._rebalancer, group, call)

    def heartbeat(self, group_id: str, generation_id: int, member_id: str, instance_id: str | None = None) -> int:
        """Heartbeat: the error code. While loading 0: the sessions start when the group is loaded."""
        group = self._runtime.find_group(group_id)
        if isinstance(group, int):
            return 0 if group == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else group
        return membership.heartbeat(self._rebalancer, group, generation_id, member_id, instance_id)

    def leave(self, group_id: str, leaving: Sequence[LeavingMember]) -> Steps[tuple[int, list[int]]]:
        """LeaveGroup: the error code of the request, and (if that is 0) of each member.

        The group is found again for each member: if it is deleted between two steps, the remaining members are unknown.
        """
        errors: list[int] = []
        for member in leaving:
            group = self._runtime.find_group(group_id)
            if not isinstance(group, int):
                try:
                    errors.append(membership.leave(self._rebalancer, group, member))
                except membership.PendingStaticMemberError as error:
                    return error.error_code, []
            elif group == ErrorCode.UNKNOWN_MEMBER_ID:
                errors.append(group)
            else:
                return group, []
            yield
        if not leaving:
            group = self._runtime.find_group(group_id)
            if isinstance(group, int) and group != ErrorCode.UNKNOWN_MEMBER_ID:
                return group, []
        return 0, errors

    def expire_member(self, group_id: str, member_id: str) -> int:
        """End the member's session now, as its time-out would; returns an error code."""
        group = self._runtime.find_group(group_id)
        if isinstance(group, int):
            return group
        member = group.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        self._rebalancer.remove_member(group, member)
        return 0

    def _store_group(self, group: Group, assignments: Mapping[str, bytes]) -> Answer[int]:
        shard = self._runtime.find(group.group_id)
        if isinstance(shard, int):
            return Answer.of(shard)
        if group.members.record_size(group.protocol_name or "", assignments) > GROUP_MAX_BYTES:
            return Answer.of(MEMBER_ERRORS[ErrorCode.MESSAGE_TOO_LARGE])  # the error of such an append
        record = group_record(group, assignments, self._clock.now_ms(), self.settings.group_value_version)
        return self._runtime.write(GroupWrite(shard, group, [record], self._runtime.encode([record])))

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
            listings += [group.listing() for _, group in piece if not wanted or group.state.value in wanted]
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
            return GroupDescription(0, group_id, states.DEAD.value)
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
