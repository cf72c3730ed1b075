"""The classic type of groups: the entry of JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

``rebalance.py`` describes the order of the members' requests.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol, TypeAlias, TypeVar

from kafkapy.clock import Clock
from kafkapy.coordinator.answer import Answer, future_of
from kafkapy.coordinator.group.classic import membership
from kafkapy.coordinator.group.classic.calls import JoinCall, JoinResult, LeavingMember, SyncCall, SyncResult
from kafkapy.coordinator.group.classic.group import ClassicGroup, as_classic
from kafkapy.coordinator.group.classic.rebalance import Rebalancer
from kafkapy.coordinator.group.classic.records import group_record
from kafkapy.coordinator.group.classic.replay import replay
from kafkapy.coordinator.group.group import Group, GroupType
from kafkapy.coordinator.group.metadata_budget import GROUP_MAX_BYTES
from kafkapy.coordinator.group.records import RecordKey
from kafkapy.coordinator.group.runtime import GroupRuntime
from kafkapy.coordinator.group.shard import GroupShard
from kafkapy.coordinator.group.writes import MEMBER_ERRORS, GroupWrite, RemovalWrite
from kafkapy.coordinator.runtime import Background
from kafkapy.protocol.errors import ErrorCode
from kafkapy.turns import Steps, turns

T = TypeVar("T")
LeaveResult: TypeAlias = tuple[int, list[int]]
"""The error code of a LeaveGroup request, and (if that is 0) of each member."""


class ClassicRequests(Protocol):
    """The requests of members of the classic protocol to groups of another type."""

    def join(self, shard: GroupShard, group: Group, call: JoinCall) -> Answer[JoinResult]:
        """JoinGroup."""
        ...

    def sync(self, group: Group, call: SyncCall) -> SyncResult:
        """SyncGroup."""
        ...

    def heartbeat(self, group: Group, generation_id: int, member_id: str, instance_id: str | None) -> int:
        """Heartbeat: the error code."""
        ...

    def leave(
        self, shard: GroupShard, group: Group, leaving: Sequence[LeavingMember]
    ) -> "Steps[Answer[LeaveResult | None]]":
        """LeaveGroup; None if another group has taken the place of this one between two steps."""
        ...


class ClassicGroups(GroupType):
    """Groups whose members choose a leader, which assigns the partitions (KIP-62)."""

    def __init__(self, runtime: GroupRuntime, clock: Clock, background: Background) -> None:
        self.settings = runtime.settings
        self._runtime = runtime
        self._now_ms = clock.now_ms
        self._rebalancer = Rebalancer(runtime.settings, clock, self._store, background)
        self.others: Final[dict[type[Group], ClassicRequests]] = {}
        """The requests of members of this protocol to groups of the other types."""

    def new_group(self, group_id: str) -> ClassicGroup:
        """See ``GroupType``."""
        return ClassicGroup(group_id, self._now_ms, self._rebalancer, self._runtime.budget)

    def replay(self, shard: GroupShard, key: RecordKey, value: bytes | None) -> None:
        """See ``GroupType``."""
        replay(shard, key.group_id, value)

    # The requests of members

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
        if group.is_writing:
            return _when_idle(group, partial(self.join, call))
        if not isinstance(group, ClassicGroup):
            other = self.others.get(type(group))
            if other is not None and not group.is_empty:
                return other.join(shard, group, call)
            if error_code := self._replace(shard, group):
                return Answer.of(JoinResult(error_code, call.member_id))
            group = as_classic(shard.groups[call.group_id])
        answer = membership.join(self._rebalancer, group, call)
        if is_new and group.is_unused:  # a group that was here stays: an aborted transaction leaves one without members
            shard.remove(group)
            group.release_name()
        return answer

    def _replace(self, shard: GroupShard, group: Group) -> int:
        """Put a classic group in place of one of another type without members; returns an error code."""
        if not group.is_empty:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        tombstones = group.tombstones(self._now_ms())
        write = RemovalWrite(shard, group, tombstones, self._runtime.encode(tombstones))
        error_code = self._runtime.write(write).value
        if not error_code:
            group.kill(ErrorCode.NOT_COORDINATOR)
        return error_code

    def sync(self, call: SyncCall) -> Answer[SyncResult]:
        """SyncGroup. While loading REBALANCE_IN_PROGRESS: older clients don't expect the error of loading here."""
        group = self._runtime.find_group(call.group_id)
        if isinstance(group, int):
            is_loading = group == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return Answer.of(SyncResult(ErrorCode.REBALANCE_IN_PROGRESS if is_loading else group))
        if group.is_writing:
            return _when_idle(group, partial(self.sync, call))
        if isinstance(group, ClassicGroup):
            return membership.sync(self._rebalancer, group, call)
        other = self.others.get(type(group))
        return Answer.of(SyncResult(ErrorCode.UNKNOWN_MEMBER_ID) if other is None else other.sync(group, call))

    def heartbeat(self, group_id: str, generation_id: int, member_id: str, instance_id: str | None = None) -> int:
        """Heartbeat: the error code. While loading 0: the sessions start when the group is loaded."""
        group = self._runtime.find_group(group_id)
        if isinstance(group, int):
            return 0 if group == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else group
        if isinstance(group, ClassicGroup):
            return membership.heartbeat(self._rebalancer, group, generation_id, member_id, instance_id)
        other = self.others.get(type(group))
        if other is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return other.heartbeat(group, generation_id, member_id, instance_id)

    def leave(self, group_id: str, leaving: Sequence[LeavingMember]) -> Steps[LeaveResult]:
        """LeaveGroup: the error code of the request, and (if that is 0) of each member."""
        while True:
            shard = self._runtime.find_named(group_id)
            group = None if isinstance(shard, int) else shard.groups.get(group_id)
            if group is not None and group.is_writing:
                yield from _wait(_when_idle(group, lambda: Answer.of(None)))
                continue
            other = None if group is None else self.others.get(type(group))
            if isinstance(shard, int) or group is None or other is None:
                return (yield from self._leave(group_id, leaving))
            result = yield from _wait((yield from other.leave(shard, group, leaving)))
            if result is not None:
                return result

    def _leave(self, group_id: str, leaving: Sequence[LeavingMember]) -> Steps[LeaveResult]:
        """Members leave a classic group, or one that does not exist.

        The group is found again for each member: if it is deleted between two steps, the remaining members are unknown.
        """
        errors: list[int] = []
        for member in leaving:
            group = self._find(group_id)
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
            group = self._find(group_id)
            if isinstance(group, int) and group != ErrorCode.UNKNOWN_MEMBER_ID:
                return group, []
        return 0, errors

    def expire_member(self, group_id: str, member_id: str) -> int:
        """End the member's session now, as its time-out would; returns an error code."""
        group = self._find(group_id)
        if isinstance(group, int):
            return group
        member = group.members.find(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        self._rebalancer.remove_member(group, member)
        return 0

    # The change of a group to another type and back (``consumer/conversion.py``)

    def suspend(self, group: ClassicGroup) -> None:
        """Records are being written that make the group one of another type."""
        self._rebalancer.suspend(group)

    def resume(self, group: ClassicGroup) -> None:
        """The log has refused these records; a group that was unloaded meanwhile stays so."""
        if not group.is_dead:
            self._rebalancer.resume(group)

    def took_over(self, group: ClassicGroup, *, rebalances: bool) -> None:
        """The group has just become a classic one: start the sessions of its members."""
        self._rebalancer.run(group.update_subscribed())
        self._rebalancer.loaded(group)
        if rebalances:
            self._rebalancer.maybe_prepare(group)

    def _store(self, group: ClassicGroup, assignments: Mapping[str, bytes]) -> Answer[int]:
        shard = self._runtime.find(group.group_id)
        if isinstance(shard, int):
            return Answer.of(shard)
        if group.members.record_size(group.protocol_name or "", assignments) > GROUP_MAX_BYTES:
            return Answer.of(MEMBER_ERRORS[ErrorCode.MESSAGE_TOO_LARGE])  # the error of such an append
        record = group_record(group, assignments, self._runtime.now_ms(), self.settings.group_value_version)
        return self._runtime.write(GroupWrite(shard, group, [record], self._runtime.encode([record])))

    def _find(self, group_id: str) -> ClassicGroup | int:
        """The group of a member's request, or an error code; see ``GroupRuntime.find_group``.

        A group of another type has no members of this one.
        """
        group = self._runtime.find_group(group_id)
        if isinstance(group, ClassicGroup):
            return group
        return group if isinstance(group, int) else ErrorCode.UNKNOWN_MEMBER_ID


def _when_idle(group: Group, ask: Callable[[], Answer[T]]) -> Answer[T]:
    """The answer of a request that is decided when the records of the group are acknowledged or refused."""
    answer: Answer[T] = Answer()
    group.decisions.when_idle(lambda: ask().on_set(answer.set))
    return answer


def _wait(answer: Answer[T]) -> Steps[T]:
    """Wait for an answer, between two steps."""
    if not answer.is_set:
        turns().wait_for(future_of(answer))
        yield
    return answer.value
