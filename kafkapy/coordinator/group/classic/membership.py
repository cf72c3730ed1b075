"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: the decision about each request of a member.

``ClassicGroups`` has found the group; ``rebalance.py`` has the order of events between these requests.
"""

from collections.abc import Mapping
from typing import Final

from kafkapy.coordinator.answer import Answer
from kafkapy.coordinator.group.classic import states
from kafkapy.coordinator.group.classic.calls import JoinCall, JoinResult, LeavingMember, SyncCall, SyncResult
from kafkapy.coordinator.group.classic.group import ClassicGroup
from kafkapy.coordinator.group.classic.members import Member
from kafkapy.coordinator.group.classic.protocols import Protocols
from kafkapy.coordinator.group.classic.rebalance import NEW_MEMBER_JOIN_TIMEOUT_MS, Rebalancer
from kafkapy.coordinator.group.metadata_budget import MOST_PROTOCOLS
from kafkapy.errors import BrokerError
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.message import MAX_STRING_SIZE

NO_MEMBER_ID: Final = ""


# JoinGroup


def join(rebalancer: Rebalancer, group: ClassicGroup, call: JoinCall) -> Answer[JoinResult]:
    """Decide on a JoinGroup; group, coordinator and session time-out were checked.

    The answer is set at the end of the join phase, at once for a refusal or a repeated request.
    """
    if not _has_room(rebalancer, group, call.member_id):
        _remove_refused(group, call)
        rebalancer.try_complete_join(group)
        return Answer.of(JoinResult(ErrorCode.GROUP_MAX_SIZE_REACHED, NO_MEMBER_ID))
    if group.is_dead:
        return Answer.of(JoinResult(ErrorCode.COORDINATOR_NOT_AVAILABLE, call.member_id))
    if len(call.protocols) > MOST_PROTOCOLS or group.members.lacks_room(call):
        rebalancer.counters.refused_metadata += 1
        return Answer.of(JoinResult(ErrorCode.GROUP_MAX_SIZE_REACHED, NO_MEMBER_ID))
    if not group.supports(call.protocol_type, call.protocols):
        return Answer.of(JoinResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, call.member_id))
    answer = (
        _join_as_new(rebalancer, group, call) if call.member_id == NO_MEMBER_ID else _rejoin(rebalancer, group, call)
    )
    rebalancer.try_complete_join(group)
    return answer


def _has_room(rebalancer: Rebalancer, group: ClassicGroup, member_id: str) -> bool:
    """``group.max.size``: known members stay; while joining only those count that have joined (KIP-389)."""
    max_size = rebalancer.settings.max_size
    member = group.members.find(member_id)
    if group.state is states.PREPARING:
        return (member is not None and member.joining is not None) or group.members.waiting_for_join() < max_size
    if group.state in (states.COMPLETING, states.STABLE):
        return member is not None or len(group.members) < max_size
    return True


def _remove_refused(group: ClassicGroup, call: JoinCall) -> None:
    """Remove a member that is refused because ``group.max.size`` was reduced: the join phase must not wait for it."""
    group.members.remove(call.member_id)
    if call.instance_id is not None:
        group.members.forget_static(call.instance_id)


def _join_as_new(rebalancer: Rebalancer, group: ClassicGroup, call: JoinCall) -> Answer[JoinResult]:
    member_id = group.generate_member_id(call.client_id, call.instance_id)
    if len(member_id.encode("utf-8", "surrogatepass")) > MAX_STRING_SIZE:  # no response or record can have it
        return Answer.of(JoinResult(ErrorCode.UNKNOWN_SERVER_ERROR, NO_MEMBER_ID))
    if call.instance_id is not None and call.instance_id in group.members.static_ids:
        return _replace_static(rebalancer, group, call, member_id)
    if call.requires_known_member_id:
        rebalancer.add_pending(group, member_id, call.session_timeout_ms)
        return Answer.of(JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id))
    return _add(rebalancer, group, call, member_id)


def _rejoin(rebalancer: Rebalancer, group: ClassicGroup, call: JoinCall) -> Answer[JoinResult]:
    if call.member_id in group.pending:
        if call.instance_id is not None:
            # an id is only handed out in advance to members without an instance id
            return Answer.of(JoinResult(ErrorCode.UNKNOWN_SERVER_ERROR, NO_MEMBER_ID))
        return _add(rebalancer, group, call, call.member_id)
    if group.members.is_fenced(call.member_id, call.instance_id):
        return Answer.of(JoinResult(ErrorCode.FENCED_INSTANCE_ID, call.member_id))
    member = group.members.find(call.member_id)
    is_unknown_instance = call.instance_id is not None and call.instance_id not in group.members.static_ids
    if member is None or is_unknown_instance:
        return Answer.of(JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, call.member_id))
    if _is_repeated(group, member, call.protocols):
        return Answer.of(rebalancer.joined(group, member))
    return _update(rebalancer, group, member, call.protocols)


def _is_repeated(group: ClassicGroup, member: Member, protocols: Protocols) -> bool:
    """Whether the present generation answers the request: the member did not get the response, and nothing has changed.

    The leader of a Stable group that joins again requests a new assignment, so its request is no repetition.
    """
    if member.protocols != protocols:
        return False
    if group.state is states.STABLE:
        return group.members.leader_id != member.member_id
    return group.state is states.COMPLETING


def _add(rebalancer: Rebalancer, group: ClassicGroup, call: JoinCall, member_id: str) -> Answer[JoinResult]:
    if group.state is states.PREPARING and group.generation_id == 0:
        group.has_new_member = True
    if not group.members:
        group.protocol_type = call.protocol_type
    member = Member(member_id, call)
    member.is_new = True
    answer = member.wait_for_join()
    group.charge_name()
    group.members.add(member)
    group.remove_pending(member_id)
    rebalancer.start_session(group, member, NEW_MEMBER_JOIN_TIMEOUT_MS)
    rebalancer.maybe_prepare(group)
    return answer


def _update(rebalancer: Rebalancer, group: ClassicGroup, member: Member, protocols: Protocols) -> Answer[JoinResult]:
    group.members.change_protocols(member, protocols)
    answer = member.wait_for_join()
    rebalancer.maybe_prepare(group)
    return answer


def _replace_static(rebalancer: Rebalancer, group: ClassicGroup, call: JoinCall, member_id: str) -> Answer[JoinResult]:
    """A static member joins after a restart, with a new member id: the old one is fenced (KIP-345)."""
    return StaticReplacement(rebalancer, group, call, member_id).start()


class StaticReplacement:
    """The new member id of a restarted static member. A Stable group whose protocol stays needs no rebalance for it."""

    def __init__(self, rebalancer: Rebalancer, group: ClassicGroup, call: JoinCall, new_member_id: str) -> None:
        assert call.instance_id is not None
        self._rebalancer = rebalancer
        self._group = group
        self._call = call
        self._instance_id = call.instance_id
        self._new_member_id = new_member_id
        self._old_member_id = group.members.static_ids[self._instance_id]
        self._old_leader_id = group.members.leader_id or ""
        self._member = group.members[self._old_member_id]
        self._old_protocols = self._member.protocols
        self._answer: Answer[JoinResult] | None = None

    def start(self) -> Answer[JoinResult]:
        """Replace the member id, and decide whether the group must rebalance."""
        group, member = self._group, self._member
        member.answer_join(JoinResult(ErrorCode.FENCED_INSTANCE_ID, self._old_member_id))
        member.answer_sync(SyncResult(ErrorCode.FENCED_INSTANCE_ID))
        group.members.replace_static(self._instance_id, self._new_member_id)
        self._rebalancer.start_session(group, member)
        group.members.change_protocols(member, self._call.protocols)
        self._answer = answer = member.wait_for_join()
        if group.state is states.STABLE and group.members.select_protocol() == group.protocol_name:
            self._rebalancer.run(group.update_subscribed())
            assignments = {each.member_id: each.assignment for each in group.members.values()}
            self._rebalancer.store_group(group, assignments).on_set(self._stored)
        else:
            # the leader may be computing an assignment for the old id at this moment, which would be lost
            self._rebalancer.maybe_prepare(group)
        return answer

    def _stored(self, error_code: int) -> None:
        if self._member.joining is not self._answer:
            return  # the member was answered before, with another generation or because the group is dead
        self._member.answer_join(self._result(error_code))
        if error_code:
            self._revert()
        self._rebalancer.start_session(self._group, self._member)

    def _result(self, error_code: int) -> JoinResult:
        """A restarted leader must not compute an assignment, which would be lost, since the group stays Stable.

        It is told so (KIP-814), or gets the old leader id, in which it does not recognize itself.
        """
        if self._call.can_skip_assignment and not error_code:
            joined = self._rebalancer.joined(self._group, self._member)
            return joined._replace(skips_assignment=self._group.members.leader_id == self._new_member_id)
        return JoinResult(
            error_code,
            NO_MEMBER_ID if error_code else self._new_member_id,
            self._group.generation_id,
            self._group.protocol_type,
            self._group.protocol_name,
            self._old_leader_id,
        )

    def _revert(self) -> None:
        """Restore the old member id: the log refused the new one."""
        self._group.members.change_protocols(self._member, self._old_protocols)
        self._group.members.replace_static(self._instance_id, self._old_member_id)


# SyncGroup


def sync(rebalancer: Rebalancer, group: ClassicGroup, call: SyncCall) -> Answer[SyncResult]:
    """Decide on a SyncGroup; group and coordinator were checked. The answer is set when the log has the assignment."""
    error_code = (
        group.member_error(call.member_id, call.instance_id, call.generation_id)
        or _protocol_error(group, call)
        or states.SYNC[group.state]
    )
    if error_code:
        return Answer.of(SyncResult(error_code))
    member = group.members[call.member_id]
    member.has_synced = True
    if group.state is states.STABLE:
        rebalancer.touch(member)
        return Answer.of(_assigned(group, member))
    answer = member.wait_for_sync()
    if group.members.leader_id == call.member_id:
        _store(rebalancer, group, call.assignments)
    return answer


def _protocol_error(group: ClassicGroup, call: SyncCall) -> int:
    """Check the protocol that requests from version 5 on have (KIP-559)."""
    is_consistent = call.protocol_type in (None, group.protocol_type) and call.protocol_name in (
        None,
        group.protocol_name,
    )
    return 0 if is_consistent else ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def _assigned(group: ClassicGroup, member: Member) -> SyncResult:
    return SyncResult(0, group.protocol_type, group.protocol_name, member.assignment)


def _store(rebalancer: Rebalancer, group: ClassicGroup, assignments: Mapping[str, bytes]) -> None:
    """Append the assignment: empty for members that the leader has left out; unknown member ids are ignored."""
    generation_id = group.generation_id
    complete = {member_id: assignments.get(member_id, b"") for member_id in group.members}

    def stored(error_code: int) -> None:
        if group.generation_id != generation_id:
            return  # a member has joined or left since then: another join phase has ended
        if error_code and group.state is states.COMPLETING:
            rebalancer.reset_assignments(group, error_code)
            rebalancer.prepare(group)
        elif group.state is states.STABLE:
            propagate(rebalancer, group)

    if group.members.lacks_room_for(complete):
        rebalancer.counters.refused_metadata += 1
        stored(ErrorCode.COORDINATOR_NOT_AVAILABLE)  # the members repeat their requests until there is room
        return
    rebalancer.store_group(group, complete).on_set(stored)


def propagate(rebalancer: Rebalancer, group: ClassicGroup) -> None:
    """Answer all waiting SyncGroup requests with their assignments; the sessions start again."""
    for member in group.members.all():
        rebalancer.start_session(group, member)
        member.answer_sync(_assigned(group, member))


# Heartbeat


def heartbeat(
    rebalancer: Rebalancer, group: ClassicGroup, generation_id: int, member_id: str, instance_id: str | None
) -> int:
    """Returns an error code. REBALANCE_IN_PROGRESS tells the member to join again, and its session continues."""
    error_code = group.member_error(member_id, instance_id, generation_id)
    if error_code:
        return error_code
    rebalancer.touch(group.members[member_id])
    return states.HEARTBEAT[group.state]


# LeaveGroup


class PendingStaticMemberError(BrokerError):
    """A LeaveGroup names a group instance id beside a member id that was handed out and has not joined."""


def leave(rebalancer: Rebalancer, group: ClassicGroup, leaving: LeavingMember) -> int:
    """Remove one member; returns that member's error code.

    Raises ``PendingStaticMemberError``: Kafka stops there with UNKNOWN_SERVER_ERROR for the whole request, and the
    members that the request named earlier have left.
    """
    member_id, instance_id = leaving
    members = group.members
    if member_id and members.is_fenced(member_id, instance_id):
        return ErrorCode.FENCED_INSTANCE_ID
    if member_id in group.pending:
        if instance_id is not None:
            raise PendingStaticMemberError("a member that has not joined has no group instance id")
        rebalancer.remove_pending(group, member_id)
        return 0
    if instance_id is not None and instance_id in members.static_ids:
        member_id = members.static_ids[instance_id]
    if member_id not in members:
        return ErrorCode.UNKNOWN_MEMBER_ID
    rebalancer.remove_member(group, members[member_id])
    return 0
