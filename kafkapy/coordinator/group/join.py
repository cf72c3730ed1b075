"""JoinGroup: who may come in, and whether that makes everybody join again."""

from kafkapy.coordinator.answer import Answer
from kafkapy.coordinator.group import states
from kafkapy.coordinator.group.group import Group
from kafkapy.coordinator.group.members import Member, Protocols
from kafkapy.coordinator.group.metadata_budget import MOST_PROTOCOLS
from kafkapy.coordinator.group.rebalance import NEW_MEMBER_JOIN_TIMEOUT_MS, Rebalancer
from kafkapy.coordinator.group.results import JoinCall, JoinResult, SyncResult
from kafkapy.protocol.errors import ErrorCode

NO_MEMBER_ID = ""


def join(rebalancer: Rebalancer, group: Group, call: JoinCall) -> Answer[JoinResult]:
    """Serve a JoinGroup whose group, coordinator and session time-out were checked."""
    if not _has_room(rebalancer, group, call.member_id):
        _drop_refused(group, call)
        rebalancer.try_complete_join(group)
        return Answer.of(JoinResult(ErrorCode.GROUP_MAX_SIZE_REACHED, NO_MEMBER_ID))
    if group.is_dead:
        return Answer.of(JoinResult(ErrorCode.COORDINATOR_NOT_AVAILABLE, call.member_id))
    if len(call.protocols) > MOST_PROTOCOLS or group.members.lacks_room(call.protocols, call.member_id):
        rebalancer.counters.refused_metadata += 1
        return Answer.of(JoinResult(ErrorCode.GROUP_MAX_SIZE_REACHED, NO_MEMBER_ID))
    if not group.supports(call.protocol_type, call.protocols):
        return Answer.of(JoinResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, call.member_id))
    answer = (
        _join_as_new(rebalancer, group, call) if call.member_id == NO_MEMBER_ID else _rejoin(rebalancer, group, call)
    )
    rebalancer.try_complete_join(group)
    return answer


def _has_room(rebalancer: Rebalancer, group: Group, member_id: str) -> bool:
    """``group.max.size``: known members stay; while joining only those count that have joined (KIP-389)."""
    max_size = rebalancer.settings.max_size
    member = group.members.get(member_id)
    if group.state is states.PREPARING:
        return (member is not None and member.joining is not None) or group.members.waiting_for_join() < max_size
    if group.state in (states.COMPLETING, states.STABLE):
        return member is not None or len(group.members) < max_size
    return True


def _drop_refused(group: Group, call: JoinCall) -> None:
    """One that is refused in a shrunken group must not be waited for."""
    group.members.remove(call.member_id)
    if call.instance_id is not None:
        group.members.static_ids.pop(call.instance_id, None)


def _join_as_new(rebalancer: Rebalancer, group: Group, call: JoinCall) -> Answer[JoinResult]:
    member_id = group.generate_member_id(call.client_id, call.instance_id)
    if call.instance_id is not None and call.instance_id in group.members.static_ids:
        return _replace_static(rebalancer, group, call, member_id)
    if call.requires_known_member_id:
        rebalancer.add_pending(group, member_id, call.session_timeout_ms)
        return Answer.of(JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id))
    return _add(rebalancer, group, call, member_id)


def _rejoin(rebalancer: Rebalancer, group: Group, call: JoinCall) -> Answer[JoinResult]:
    if call.member_id in group.pending:
        if call.instance_id is not None:
            # an id is only given out beforehand to members without an instance id
            return Answer.of(JoinResult(ErrorCode.UNKNOWN_SERVER_ERROR, NO_MEMBER_ID))
        return _add(rebalancer, group, call, call.member_id)
    if group.members.is_fenced(call.member_id, call.instance_id):
        return Answer.of(JoinResult(ErrorCode.FENCED_INSTANCE_ID, call.member_id))
    member = group.members.get(call.member_id)
    is_unknown_instance = call.instance_id is not None and call.instance_id not in group.members.static_ids
    if member is None or is_unknown_instance:
        return Answer.of(JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, call.member_id))
    if _is_repeated(group, member, call.protocols):
        return Answer.of(rebalancer.joined(group, member))
    return _update(rebalancer, group, member, call.protocols)


def _is_repeated(group: Group, member: Member, protocols: Protocols) -> bool:
    """Whether the present generation is the answer: the member did not get it, or lost it, and nothing has changed.

    A leader that joins a settled group wants its assignment computed again.
    """
    if member.protocols != protocols:
        return False
    if group.state is states.STABLE:
        return group.members.leader_id != member.member_id
    return group.state is states.COMPLETING


def _add(rebalancer: Rebalancer, group: Group, call: JoinCall, member_id: str) -> Answer[JoinResult]:
    if group.state is states.PREPARING and group.generation_id == 0:
        group.has_new_member = True
    if not group.members:
        group.protocol_type = call.protocol_type
    member = Member(member_id, call)
    member.is_new = True
    answer = member.wait_for_join()
    group.members.add(member)
    group.remove_pending(member_id)
    rebalancer.start_session(group, member, NEW_MEMBER_JOIN_TIMEOUT_MS)
    rebalancer.maybe_prepare(group)
    return answer


def _update(rebalancer: Rebalancer, group: Group, member: Member, protocols: Protocols) -> Answer[JoinResult]:
    group.members.change_protocols(member, protocols)
    answer = member.wait_for_join()
    rebalancer.maybe_prepare(group)
    return answer


def _replace_static(rebalancer: Rebalancer, group: Group, call: JoinCall, member_id: str) -> Answer[JoinResult]:
    """A static member is back after a restart, under a new member id: its old one is fenced (KIP-345)."""
    return StaticReplacement(rebalancer, group, call, member_id).start()


class StaticReplacement:
    """A static member's return. In a stable group whose protocol stays, nobody else notices: no rebalance."""

    def __init__(self, rebalancer: Rebalancer, group: Group, call: JoinCall, new_member_id: str) -> None:
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
        """Take the place over, and decide whether the group must rebalance."""
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
            self._rebalancer.store_group(group, assignments, self._stored)
        else:
            # the leader may be assigning to the old id at this moment: that assignment would get lost
            self._rebalancer.maybe_prepare(group)
        return answer

    def _stored(self, error_code: int) -> None:
        if self._member.joining is not self._answer:
            return  # answered meanwhile, with another generation or because the group went away
        self._member.answer_join(self._result(error_code))
        if error_code:
            self._revert()
        self._rebalancer.start_session(self._group, self._member)

    def _result(self, error_code: int) -> JoinResult:
        """The old leader is named on purpose: a returned leader must not assign, a settled group would not listen."""
        return JoinResult(
            error_code,
            NO_MEMBER_ID if error_code else self._new_member_id,
            self._group.generation_id,
            self._group.protocol_type,
            self._group.protocol_name,
            self._old_leader_id,
        )

    def _revert(self) -> None:
        """The log refused the new id, so the old one stays."""
        self._group.members.change_protocols(self._member, self._old_protocols)
        self._group.members.replace_static(self._instance_id, self._old_member_id)
