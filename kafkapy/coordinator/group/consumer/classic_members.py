"""Members of the classic protocol in a consumer group: the decisions on their requests (KIP-848, migration).

While a group of clients is upgraded or downgraded it has members of both protocols. A classic member does what it did
before, and the coordinator translates:

    JoinGroup   the step of a heartbeat: subscription and owned partitions are those of the member's metadata. The
                generation is the member epoch. There is no leader, so that no member computes an assignment.
    SyncGroup   returns the member's current assignment
    Heartbeat   tells the member to join again (27) if its next step is possible: the target assignment has a later
                epoch, the member has partitions to revoke, or partitions that it waits for are free
    LeaveGroup  removes the member

A member that does not join in time after a 27, or does not synchronize in time after its join, is removed
(``sessions.py``).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import uuid4

from kafkapy.coordinator.answer import Answer
from kafkapy.coordinator.group.classic.calls import JoinCall, JoinResult, LeavingMember, SyncCall, SyncResult
from kafkapy.coordinator.group.classic.groups import LeaveResult
from kafkapy.coordinator.group.consumer.embedded_protocol import (
    ClassicSubscription,
    read_subscription,
    write_assignment,
)
from kafkapy.coordinator.group.consumer.group import PROTOCOL_TYPE, ConsumerGroup
from kafkapy.coordinator.group.consumer.heartbeats import HeartbeatRefusedError
from kafkapy.coordinator.group.consumer.members import (
    NOTHING,
    ClassicMetadata,
    ConsumerMember,
    MemberMetadata,
    MemberState,
)
from kafkapy.coordinator.group.group import Group
from kafkapy.coordinator.group.metadata_budget import MOST_PROTOCOLS, TOPIC_BYTES, size_of
from kafkapy.coordinator.group.settings import MigrationPolicy
from kafkapy.coordinator.group.shard import GroupShard
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.primitives import ProtocolError
from kafkapy.text import text_size
from kafkapy.turns import Steps, pieces

if TYPE_CHECKING:
    from kafkapy.coordinator.group.consumer.groups import ConsumerGroups


class ClassicMembers:
    """The requests of members of the classic protocol to consumer groups; see ``ClassicRequests``."""

    def __init__(self, groups: "ConsumerGroups") -> None:
        self._groups = groups

    # JoinGroup

    def join(self, shard: GroupShard, group: Group, call: JoinCall) -> Answer[JoinResult]:
        """JoinGroup; no records of the group are being appended."""
        assert isinstance(group, ConsumerGroup)
        answer: Answer[JoinResult] = Answer()
        is_new = not call.member_id
        member_id = str(uuid4()) if is_new else call.member_id
        try:
            self._check(group, call, member_id)
            if is_new and call.requires_known_member_id:
                return Answer.of(JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id))
            former = None if call.instance_id is None else group.static_member(call.instance_id)
            if former is not None and is_new:
                self._replace(shard, former, (group, call._replace(member_id=member_id)), answer)
            else:
                self._join(shard, group, call._replace(member_id=member_id), answer, is_new=is_new)
        except HeartbeatRefusedError as error:
            return Answer.of(JoinResult(error.error_code, ""))
        return answer

    def _check(self, group: ConsumerGroup, call: JoinCall, member_id: str) -> None:
        """Raise ``HeartbeatRefusedError`` for a request that the group does not take from any member."""
        settings = self._groups.settings
        if settings.migration is MigrationPolicy.DISABLED:
            raise HeartbeatRefusedError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "The group migration is disabled.")
        is_known = member_id in group.members or (call.instance_id or "") in group.static_ids
        if not is_known and len(group.members) >= settings.max_size:
            raise HeartbeatRefusedError(ErrorCode.GROUP_MAX_SIZE_REACHED, "The consumer group is full.")
        if len(call.protocols) > MOST_PROTOCOLS:
            raise HeartbeatRefusedError(ErrorCode.GROUP_MAX_SIZE_REACHED, "The member has too many protocols.")
        if call.protocol_type != PROTOCOL_TYPE or not group.supports(call.protocols):
            raise HeartbeatRefusedError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"Member {member_id}'s protocols are not supported."
            )

    def _replace(
        self,
        shard: GroupShard,
        former: ConsumerMember,
        joining: tuple[ConsumerGroup, JoinCall],
        answer: Answer[JoinResult],
    ) -> None:
        """A static member returns with a new id, whichever protocol it used before; then it joins with that id."""
        group, call = joining
        change = self._groups.change_of(group)
        steps = change.replace_static(former, call.member_id, is_classic=True)

        def then(error_code: int) -> None:
            self._touch(group, call.member_id)
            if error_code:
                answer.set(JoinResult(error_code, ""))
            else:
                group.decisions.decide_next(lambda: self._groups.classic.join(call).on_set(answer.set))

        self._groups.carry_out(shard, change, steps, then)

    def _touch(self, group: ConsumerGroup, member_id: str) -> None:
        member = group.members.get(member_id)
        if member is not None:  # else the group is a classic one now, or was unloaded, or the log refused the records
            self._groups.sessions.touch(group, member)

    def _join(
        self, shard: GroupShard, group: ConsumerGroup, call: JoinCall, answer: Answer[JoinResult], *, is_new: bool
    ) -> None:
        member = self._member_of(group, call, is_new=is_new)
        self._groups.check_batch(shard, [call.protocols])
        subscription = self._subscription(call)
        self._groups.check_memory(_size(call, subscription) - (member.metadata.size() if member.is_classic else 0))
        change = self._groups.change_of(group)
        steps = change.join_classic(member, _metadata(member.metadata, call, subscription), subscription.owned)

        def then(error_code: int) -> None:
            if error_code:
                self._touch(group, call.member_id)
                answer.set(JoinResult(error_code, ""))
            else:
                self._joined(group, call, change.result.member_epoch, answer)

        self._groups.carry_out(shard, change, steps, then)

    def _subscription(self, call: JoinCall) -> ClassicSubscription:
        try:
            return read_subscription(call.protocols[0][1], self._groups.image)
        except ProtocolError as error:
            message = "Malformed embedded consumer protocol in subscription deserialization."
            raise HeartbeatRefusedError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message) from error

    def _joined(self, group: ConsumerGroup, call: JoinCall, member_epoch: int, answer: Answer[JoinResult]) -> None:
        member = group.members.get(call.member_id)
        if member is not None:  # else the group is a classic one now
            self._groups.sessions.joined(group, member)
        protocol = call.protocols[0][0]
        answer.set(JoinResult(0, call.member_id, member_epoch, PROTOCOL_TYPE, protocol))

    @staticmethod
    def _member_of(group: ConsumerGroup, call: JoinCall, *, is_new: bool) -> ConsumerMember:
        """The member that joins; a dynamic one may bring any id, as that was handed out without being kept."""
        if call.instance_id is None or is_new:
            return group.members.get(call.member_id) or ConsumerMember(call.member_id)
        known = group.static_member(call.instance_id)
        if known is None:
            raise HeartbeatRefusedError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {call.instance_id} is unknown.")
        if known.member_id != call.member_id:
            raise HeartbeatRefusedError(ErrorCode.FENCED_INSTANCE_ID, f"Member {call.member_id} was fenced.")
        return known

    # SyncGroup and Heartbeat

    def sync(self, group: Group, call: SyncCall) -> SyncResult:
        """SyncGroup."""
        assert isinstance(group, ConsumerGroup)
        found = _find(group, call.member_id, call.instance_id, call.generation_id)
        if isinstance(found, int):
            return SyncResult(found)
        member, classic = found
        name, metadata = classic.protocols[0]
        if call.protocol_type not in (None, PROTOCOL_TYPE) or call.protocol_name not in (None, name):
            return SyncResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        is_behind = member.current.member_epoch < group.assignment_epoch
        if is_behind and member.current.state is not MemberState.UNREVOKED_PARTITIONS:
            self._groups.sessions.expect_join(group, member)
            return SyncResult(ErrorCode.REBALANCE_IN_PROGRESS)
        self._groups.sessions.synced(group, member)
        current = member.current._replace(revoking=NOTHING)
        assignment = write_assignment(current.held, self._groups.topic_name, metadata)
        return SyncResult(0, call.protocol_type, call.protocol_name, assignment)

    def heartbeat(self, group: Group, generation_id: int, member_id: str, instance_id: str | None) -> int:
        """Heartbeat: the error code."""
        assert isinstance(group, ConsumerGroup)
        found = _find(group, member_id, instance_id, generation_id)
        if isinstance(found, int):
            return found
        member, _ = found
        self._groups.sessions.touch(group, member)
        state = member.current.state
        is_free = state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_others(member)
        is_behind = member.current.member_epoch < _next_epoch(group)
        if is_behind or state is MemberState.UNREVOKED_PARTITIONS or is_free:
            self._groups.sessions.expect_join(group, member)
            return ErrorCode.REBALANCE_IN_PROGRESS
        return 0

    # LeaveGroup

    def leave(
        self, shard: GroupShard, group: Group, leaving: Sequence[LeavingMember]
    ) -> "Steps[Answer[LeaveResult | None]]":
        """LeaveGroup, of members of both protocols: the error code of the request, and of each member.

        All leave by one decision. None if another group has taken the place of this one between two steps.
        """
        assert isinstance(group, ConsumerGroup)
        errors: list[int] = []
        members: dict[str, ConsumerMember] = {}
        for piece in pieces(leaving):
            for each in piece:
                found = _leaving(group, each)
                errors.append(found if isinstance(found, int) else 0)
                if not isinstance(found, int):
                    members[found.member_id] = found
            yield
        answer: Answer[LeaveResult | None] = Answer()
        group.decisions.when_idle(lambda: self._remove(shard, group, list(members.values()), (answer, errors)))
        return answer

    def _remove(
        self,
        shard: GroupShard,
        group: ConsumerGroup,
        members: Sequence[ConsumerMember],
        result: "tuple[Answer[LeaveResult | None], list[int]]",
    ) -> None:
        answer, errors = result
        if group.is_dead:
            answer.set(None)
            return
        present = [each for each in members if group.members.get(each.member_id) is each]
        if not present:
            answer.set((0, errors))
            return
        change = self._groups.change_of(group)

        def then(error_code: int) -> None:
            answer.set((error_code, []) if error_code else (0, errors))

        self._groups.carry_out(shard, change, change.remove(present), then)


def _metadata(before: MemberMetadata, call: JoinCall, subscription: ClassicSubscription) -> MemberMetadata:
    return before._replace(
        instance_id=before.instance_id if call.instance_id is None else call.instance_id,
        rack_id=before.rack_id if subscription.rack_id is None else subscription.rack_id,
        client_id=call.client_id,
        client_host=call.client_host,
        topic_names=subscription.topic_names,
        topic_regex="",
        rebalance_timeout_ms=call.rebalance_timeout_ms,
        classic=ClassicMetadata(call.session_timeout_ms, call.protocols),
    )


def _size(call: JoinCall, subscription: ClassicSubscription) -> int:
    """The approximate bytes of the member in memory."""
    return size_of(call.protocols) + text_size(*subscription.topic_names) + TOPIC_BYTES * len(subscription.topic_names)


def _next_epoch(group: ConsumerGroup) -> int:
    """The epoch that a member gets by its next join.

    The heartbeats of the consumer protocol compute the target assignment of a later group epoch. In a group without
    them, which the policy does not let become a classic one, the joins do: in Apache Kafka 4.4 the partitions of a
    member that has left remain without an owner there.
    """
    return group.epoch if group.classic_count == len(group.members) else group.assignment_epoch


def _find(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation_id: int
) -> tuple[ConsumerMember, ClassicMetadata] | int:
    """The member of a request and its classic part, or the error code of the first check that fails."""
    member = group.members.get(member_id) if instance_id is None else group.static_member(instance_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if member.member_id != member_id:
        return ErrorCode.FENCED_INSTANCE_ID
    if member.metadata.classic is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if generation_id != member.current.member_epoch:
        return ErrorCode.ILLEGAL_GENERATION
    return member, member.metadata.classic


def _leaving(group: ConsumerGroup, named: LeavingMember) -> ConsumerMember | int:
    """The member that leaves, or its error code. An administrator may name a static one by its instance id alone."""
    if named.instance_id is None:
        return group.members.get(named.member_id) or int(ErrorCode.UNKNOWN_MEMBER_ID)
    member = group.static_member(named.instance_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.FENCED_INSTANCE_ID if named.member_id not in ("", member.member_id) else member
