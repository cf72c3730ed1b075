"""SyncGroup: the leader hands in the assignment, the log keeps it, everybody gets their part."""

from collections.abc import Mapping

from kafkapy.coordinator.answer import Answer
from kafkapy.coordinator.group import states
from kafkapy.coordinator.group.checks import member_error
from kafkapy.coordinator.group.group import Group
from kafkapy.coordinator.group.members import Member
from kafkapy.coordinator.group.rebalance import Rebalancer
from kafkapy.coordinator.group.results import SyncCall, SyncResult
from kafkapy.protocol.errors import ErrorCode


def sync(rebalancer: Rebalancer, group: Group, call: SyncCall) -> Answer[SyncResult]:
    """Serve a SyncGroup whose group and coordinator were checked."""
    error_code = (
        member_error(group, call.member_id, call.instance_id, call.generation_id)
        or _protocol_error(group, call)
        or states.SYNC[group.state]
    )
    if error_code:
        return Answer.of(SyncResult(error_code))
    member = group.members[call.member_id]
    if group.state is states.STABLE:
        rebalancer.touch(member)
        return Answer.of(_assigned(group, member))
    answer = member.wait_for_sync()
    if group.members.leader_id == call.member_id:
        _store(rebalancer, group, call.assignments)
    return answer


def _protocol_error(group: Group, call: SyncCall) -> int:
    """Versions from 5 name the protocol that the member believes to be chosen (KIP-559)."""
    is_consistent = call.protocol_type in (None, group.protocol_type) and call.protocol_name in (
        None,
        group.protocol_name,
    )
    return 0 if is_consistent else ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def _assigned(group: Group, member: Member) -> SyncResult:
    return SyncResult(0, group.protocol_type, group.protocol_name, member.assignment)


def _store(rebalancer: Rebalancer, group: Group, assignments: Mapping[str, bytes]) -> None:
    """Write the assignment; members that the leader left out get an empty one, strangers are dropped."""
    generation_id = group.generation_id
    parts = {member_id: assignments.get(member_id, b"") for member_id in group.members}

    def stored(error_code: int) -> None:
        if group.generation_id != generation_id:
            return  # somebody came or went meanwhile: another join phase has run
        if error_code and group.state is states.COMPLETING:
            rebalancer.reset_assignments(group, error_code)
            rebalancer.prepare(group)
        elif group.state is states.STABLE:
            propagate(rebalancer, group)

    if group.members.lacks_room_for(parts):
        rebalancer.counters.refused_metadata += 1
        stored(ErrorCode.COORDINATOR_NOT_AVAILABLE)  # the members try again until there is room
        return
    rebalancer.store_group(group, parts, stored)


def propagate(rebalancer: Rebalancer, group: Group) -> None:
    """Give everybody who waits their part; a session starts again with the answer."""
    for member in group.members.all():
        rebalancer.start_session(group, member)
        member.answer_sync(_assigned(group, member))
