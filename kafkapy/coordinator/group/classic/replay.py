"""The replay of a classic group's records.

While loading, a record makes the members of its group. When the group is served the members exist already (they hold
waiting requests and timers), and the record settles their assignment. A group that was one of another type until now
has no members yet (``consumer/conversion.py``): the record makes them too.
"""

from kafkapy.coordinator.group.classic import states
from kafkapy.coordinator.group.classic.calls import JoinCall
from kafkapy.coordinator.group.classic.group import ClassicGroup, as_classic
from kafkapy.coordinator.group.classic.members import Member
from kafkapy.coordinator.group.classic.records import decode_group
from kafkapy.coordinator.group.shard import GroupShard
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.stored.group_metadata import GroupMetadataValue
from kafkapy.records.errors import InvalidRecordError


def replay(shard: GroupShard, group_id: str, value: bytes | None) -> None:
    """Replay a record; see ``GroupType.replay``."""
    stored = None if value is None else decode_group(value)
    group = shard.groups.get(group_id)
    if not shard.is_loading:
        if stored is not None and isinstance(group, ClassicGroup):  # a tombstone deletes the group
            if stored.generation > group.generation_id:
                _restore(group, stored)
            else:
                _settle(group, stored)
    elif stored is None:
        if group is None or isinstance(group, ClassicGroup):
            _restore_deleted(as_classic(shard.get_or_create(group_id)))
    elif len({each.member_id for each in stored.members}) < len(stored.members):
        raise InvalidRecordError("the group has several members of one id")
    else:
        if group is not None and not isinstance(group, ClassicGroup):
            shard.forget(group)
            group.kill(ErrorCode.NOT_COORDINATOR)
        _restore(as_classic(shard.get_or_create(group_id)), stored)


def _restore_deleted(group: ClassicGroup) -> None:
    """Replay a tombstone: later offsets in the log belong to a group that has no members, only offsets."""
    group.restore(states.EMPTY)


def _restore(group: ClassicGroup, stored: GroupMetadataValue) -> None:
    """Replay a group's record that makes the members."""
    group.restore(
        states.STABLE if stored.members else states.EMPTY,
        stored.current_state_timestamp,
        stored.generation,
        stored.protocol_type or None,
        stored.protocol,
    )
    if stored.members:
        group.charge_name()
    for each in stored.members:
        call = JoinCall(
            group_id=group.group_id,
            member_id=each.member_id,
            instance_id=each.group_instance_id,
            client_id=each.client_id,
            client_host=each.client_host,
            rebalance_timeout_ms=each.rebalance_timeout,
            session_timeout_ms=each.session_timeout,
            protocol_type=stored.protocol_type,
            protocols=((stored.protocol or "", each.subscription),),
        )
        member = Member(each.member_id, call)
        member.assignment = each.assignment
        group.members.add(member)
    group.members.restore_leader(stored.leader)


def _settle(group: ClassicGroup, stored: GroupMetadataValue) -> None:
    """Replay a group's record when the group is served: its members have their assignments, it is Stable."""
    if stored.generation != group.generation_id or group.state not in (states.COMPLETING, states.STABLE):
        return  # a member joined or left before the log had the record: another join phase has begun
    for each in stored.members:
        member = group.members.find(each.member_id)
        if member is not None:
            group.members.assign(member, each.assignment)
    if group.state is states.COMPLETING:
        group.transition_to(states.STABLE)
