"""The consumer type of groups: the entry of ConsumerGroupHeartbeat and ConsumerGroupDescribe."""

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final
from uuid import UUID

from kafkapy.clock import Clock
from kafkapy.config.group_keys import ASSIGNMENT_INTERVAL, HEARTBEAT_INTERVAL, SESSION_TIMEOUT
from kafkapy.coordinator.answer import Answer
from kafkapy.coordinator.group.classic.group import ClassicGroup
from kafkapy.coordinator.group.consumer.assignors import Assignor
from kafkapy.coordinator.group.consumer.calls import (
    JOIN_EPOCH,
    ConsumerGroupDescription,
    ConsumerMemberDescription,
    HeartbeatCall,
    HeartbeatResult,
    NamedPartitions,
    Partitions,
)
from kafkapy.coordinator.group.consumer.expressions import select_topics
from kafkapy.coordinator.group.consumer.group import ConsumerGroup
from kafkapy.coordinator.group.consumer.heartbeats import (
    NO_PARTITIONS,
    GroupChange,
    GroupRules,
    HeartbeatRefusedError,
    check,
    preferred_assignor,
)
from kafkapy.coordinator.group.consumer.members import ConsumerMember
from kafkapy.coordinator.group.consumer.replay import replay_tombstone, replay_value
from kafkapy.coordinator.group.consumer.sessions import Sessions
from kafkapy.coordinator.group.consumer.topics import TopicImages
from kafkapy.coordinator.group.group import Group, GroupType
from kafkapy.coordinator.group.metadata_budget import MEMBER_BYTES, TOPIC_BYTES
from kafkapy.coordinator.group.records import ConsumerGroupKey, GroupKey, OffsetKey, RecordKey
from kafkapy.coordinator.group.runtime import GroupRuntime
from kafkapy.coordinator.group.shard import GroupShard
from kafkapy.coordinator.group.writes import FollowedWrite
from kafkapy.coordinator.runtime import Background, Metadata
from kafkapy.protocol.errors import ErrorCode
from kafkapy.text import text_size
from kafkapy.turns import Steps, pieces, while_true

GroupValue = Callable[[str, str], int]
"""The value of a key of ``kafkapy/config/group_keys.py`` for a group."""
IS_LEAVING: Final = range(-2, 0)
"""The member epochs of requests that leave the group."""


class ConsumerGroups(GroupType):
    """Groups whose partitions the broker assigns (KIP-848)."""

    def __init__(
        self,
        runtime: GroupRuntime,
        clock: Clock,
        metadata: Metadata,
        background: Background,
        assignors: Mapping[str, Assignor],
        value_of: GroupValue,
    ) -> None:
        self._settings = runtime.settings.consumer
        self._value_of = value_of
        self._runtime = runtime
        self._metadata = metadata
        self._counters = background.counters
        self._run = background.run
        self._soon = background.soon
        self._overdue: deque[tuple[ConsumerGroup, ConsumerMember, Callable[[], bool]]] = deque()
        self._sessions = Sessions(clock, self._session_timeout_ms, self._fence)
        self._assignors = {name: assignors[name] for name in self._settings.assignors}

    def new_group(self, group_id: str) -> ConsumerGroup:
        """See ``GroupType``."""
        return ConsumerGroup(group_id, self._sessions, self._topic_name, self._runtime.budget, self._run)

    def replay(self, shard: GroupShard, key: RecordKey, value: bytes | None) -> None:
        """See ``GroupType``. A group without members of the classic type becomes one of this type."""
        assert not isinstance(key, OffsetKey | GroupKey)
        if value is not None:
            replay_value(partial(self._replayed_group, shard), key, value)
            return
        group = shard.groups.get(key.group_id)
        if not isinstance(group, ConsumerGroup):
            return  # the group was never of this type, or is not any more
        replay_tombstone(group, key)
        if isinstance(key, ConsumerGroupKey):
            shard.forget(group)

    def _replayed_group(self, shard: GroupShard, group_id: str) -> ConsumerGroup:
        group = shard.groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else self._put(shard, self.new_group(group_id))

    def _put(self, shard: GroupShard, group: ConsumerGroup) -> ConsumerGroup:
        """Keep a new group, in place of a classic group without members if there is one."""
        former = shard.groups.get(group.group_id)
        if isinstance(former, ClassicGroup):
            former.end()
        shard.put(group)
        return group

    # Requests

    def heartbeat(self, call: HeartbeatCall) -> Answer[HeartbeatResult]:
        """ConsumerGroupHeartbeat."""
        if not self._settings.is_served:
            return Answer.of(HeartbeatResult(ErrorCode.UNSUPPORTED_VERSION))
        try:
            check(call, self._assignors)
        except HeartbeatRefusedError as error:
            return Answer.of(HeartbeatResult(error.error_code, str(error)))
        answer: Answer[HeartbeatResult] = Answer()
        self._decide(call, answer)
        return answer

    def _decide(self, call: HeartbeatCall, answer: Answer[HeartbeatResult]) -> None:
        shard = self._runtime.find_named(call.group_id)
        group = None if isinstance(shard, int) else shard.groups.get(call.group_id)
        if isinstance(group, ConsumerGroup):
            group.when_idle(partial(self._decide_now, call, answer))
        else:
            self._decide_now(call, answer)

    def _decide_now(self, call: HeartbeatCall, answer: Answer[HeartbeatResult]) -> None:
        """No decision on the group is being made, but it may have changed since the request arrived."""
        shard = self._runtime.find_named(call.group_id)
        if isinstance(shard, int):
            answer.set(HeartbeatResult(shard))
            return
        try:
            self._decide_on(shard, shard.groups.get(call.group_id), call, answer)
        except HeartbeatRefusedError as error:
            answer.set(HeartbeatResult(error.error_code, str(error)))

    def _decide_on(
        self, shard: GroupShard, found: Group | None, call: HeartbeatCall, answer: Answer[HeartbeatResult]
    ) -> None:
        if isinstance(found, ConsumerGroup):
            group = found
        else:
            self._check_convertible(found, call)
            group = self.new_group(call.group_id)
        change = self._change(group)
        former = None if call.instance_id is None else group.static_member(call.instance_id)
        if call.member_epoch in IS_LEAVING:
            steps = change.leave(call)
        elif former is not None and former.member_id != call.member_id and call.member_epoch == JOIN_EPOCH:
            steps = change.replace_static(former, call.member_id)
            self._carry_out(shard, change, steps, lambda error_code: self._replaced(group, error_code, call, answer))
            return
        else:
            self._check_room(group, call)
            steps = change.heartbeat(call)
        if group is not found:
            change.records += [] if found is None else found.tombstones(self._runtime.now_ms())
            self._put(shard, group)
        self._carry_out(shard, change, steps, lambda error_code: self._decided(change, call, error_code, answer))

    def _change(self, group: ConsumerGroup) -> GroupChange:
        rules = GroupRules(
            self._settings.max_size,
            self._value_of(group.group_id, HEARTBEAT_INTERVAL),
            self._value_of(group.group_id, ASSIGNMENT_INTERVAL),
            self._assignors,
        )
        return GroupChange(group, self._image, rules, self._runtime.now_ms)

    def _check_convertible(self, found: Group | None, call: HeartbeatCall) -> None:
        """Only a member that joins makes a group, in place of none or of a group without members."""
        if call.member_epoch == JOIN_EPOCH and (found is None or found.is_empty):
            return
        reason = "not found" if found is None or found.is_empty else "is not a consumer group"
        name = f"Group {call.group_id}" if call.member_epoch in IS_LEAVING else f"Consumer group {call.group_id}"
        raise HeartbeatRefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"{name} {reason}.")

    def _check_room(self, group: ConsumerGroup, call: HeartbeatCall) -> None:
        """Refuse a subscription that exceeds the bound on the memory of all members."""
        size = 0 if call.member_id in group.members else MEMBER_BYTES
        if call.topic_names is not None:
            size += text_size(*call.topic_names) + TOPIC_BYTES * len(call.topic_names)
        size += text_size(call.topic_regex or "")
        if size and not self._runtime.budget.has_room(size):
            self._counters.refused_metadata += 1
            raise HeartbeatRefusedError(
                ErrorCode.GROUP_MAX_SIZE_REACHED, "The members of all groups take too much memory."
            )

    def _decided(
        self, change: GroupChange, call: HeartbeatCall, error_code: int, answer: Answer[HeartbeatResult]
    ) -> None:
        """Answer the request. The session of a member that stays starts again."""
        self._touch(change.group, call)
        answer.set(HeartbeatResult(error_code) if error_code else change.result)
        if not error_code and call.member_id in change.group.members:
            self._search(change.group, call)

    def _touch(self, group: ConsumerGroup, call: HeartbeatCall) -> None:
        """The session of a member that stays starts again; its rebalance time-out starts if it has to revoke."""
        member = group.members.get(call.member_id)
        if member is not None and call.member_epoch not in IS_LEAVING:
            self._sessions.touch(group, member)
            self._sessions.follow(group, member)

    def _replaced(
        self, group: ConsumerGroup, error_code: int, call: HeartbeatCall, answer: Answer[HeartbeatResult]
    ) -> None:
        """The static member has its new id: it joins with it."""
        if error_code:
            self._touch(group, call)
            answer.set(HeartbeatResult(error_code))
        else:
            group.decide_next(partial(self._decide_now, call, answer))

    def _carry_out(
        self, shard: GroupShard, change: GroupChange, steps: Steps[None], then: Callable[[int], None]
    ) -> None:
        """Compute the records of a change in its ``steps``, and append them; then call ``then`` with an error code.

        Other decisions on the group wait for it.
        """
        change.group.write_started()
        self._run(self._append(shard, change, steps, partial(self._ended, shard, change.group, then)))

    def _append(
        self, shard: GroupShard, change: GroupChange, steps: Steps[None], ended: Callable[[int], None]
    ) -> Steps[None]:
        group, records = change.group, change.records
        yield from while_true(lambda: shard.is_current and not group.is_dead, steps)
        if group.is_unacknowledged and not records:
            change.repeat()
        batch = self._runtime.encode(records) if records else bytearray()
        yield
        if group.is_dead or not shard.is_current:
            ended(ErrorCode.NOT_COORDINATOR)
        elif not records:
            ended(0)
        else:
            write = FollowedWrite(shard, group, records, batch)
            self._runtime.write(write).on_set(partial(self._appended, group, write, ended))

    def _appended(
        self, group: ConsumerGroup, write: FollowedWrite, ended: Callable[[int], None], error_code: int
    ) -> None:
        group.is_unacknowledged = error_code != 0 and (write.is_in_log or group.is_unacknowledged)
        self._run(self._replay(write, ended, error_code))

    def _replay(self, write: FollowedWrite, ended: Callable[[int], None], error_code: int) -> Steps[None]:
        yield from write.replay_in_steps()
        ended(error_code)

    def _ended(self, shard: GroupShard, group: ConsumerGroup, then: Callable[[int], None], error_code: int) -> None:
        """The records were replayed, or there are none, or the log has refused them."""
        if error_code and not group.has_record and shard.groups.get(group.group_id) is group:
            shard.forget(group)  # its first records were refused
        then(error_code)
        group.write_ended()

    # Regular expressions

    def _search(self, group: ConsumerGroup, call: HeartbeatCall) -> None:
        """Search the topics for the group's expressions, if that is due after the member's request."""
        interval_ms = self._settings.regex_refresh_interval_ms
        if group.expressions.start_search(self._image.topics, self._runtime.now_ms(), interval_ms):
            self._run(self._search_in_steps(group, call))

    def _search_in_steps(self, group: ConsumerGroup, call: HeartbeatCall) -> Steps[None]:
        topics = self._image.topics
        found = yield from select_topics(list(group.expressions.members), list(topics), call.may_describe)
        group.when_idle(partial(self._resolve, group, topics, found))

    def _resolve(self, group: ConsumerGroup, topics: Mapping[str, object], found: Mapping[str, frozenset[str]]) -> None:
        """Write what was found among the topics."""
        shard = self._runtime.find(group.group_id)
        if isinstance(shard, int) or group.is_dead:
            return
        if not self._has_room_for(group, found):
            self._counters.refused_metadata += 1
            group.expressions.end_search(None)
            return
        change = self._change(group)

        def then(error_code: int) -> None:
            group.expressions.end_search(None if error_code else topics)

        self._carry_out(shard, change, change.resolve(found), then)

    def _has_room_for(self, group: ConsumerGroup, found: Mapping[str, frozenset[str]]) -> bool:
        added = sum(len(topics) - len(group.expressions.selected(pattern)) for pattern, topics in found.items())
        return self._runtime.budget.has_room(TOPIC_BYTES * added)

    # Time-outs

    def _session_timeout_ms(self, group_id: str) -> int:
        return self._value_of(group_id, SESSION_TIMEOUT)

    def _fence(self, group: ConsumerGroup, member: ConsumerMember, is_due: Callable[[], bool]) -> None:
        """Remove a member whose session or rebalance time-out has ended.

        It is removed in turns: the time-outs of all members of a group that was loaded end at nearly the same time.
        A request of the member may have come while other records were being appended: ``is_due`` is false then.
        """
        self._overdue.append((group, member, is_due))
        if len(self._overdue) == 1:
            self._soon(self._fence_overdue)

    def _fence_overdue(self) -> None:
        self._run(self._fence_in_steps())

    def _fence_in_steps(self) -> Steps[None]:
        while self._overdue:
            group, member, is_due = self._overdue[0]
            group.when_idle(partial(self._fence_now, group, member, is_due))
            self._overdue.popleft()
            yield

    def _fence_now(self, group: ConsumerGroup, member: ConsumerMember, is_due: Callable[[], bool]) -> None:
        shard = self._runtime.find(group.group_id)
        is_member = not group.is_dead and group.members.get(member.member_id) is member
        if isinstance(shard, int) or not is_member or not is_due():
            return
        change = self._change(group)

        def then(error_code: int) -> None:
            if error_code and group.members.get(member.member_id) is member:
                self._sessions.touch(group, member)  # try again when another session has ended

        self._carry_out(shard, change, change.remove(member), then)

    def expire_member(self, group_id: str, member_id: str) -> int:
        """End the member's session now, as its time-out would; returns an error code."""
        shard = self._runtime.find_named(group_id)
        if isinstance(shard, int):
            return shard
        group = shard.groups.get(group_id)
        member = group.members.get(member_id) if isinstance(group, ConsumerGroup) else None
        if member is None or not isinstance(group, ConsumerGroup):
            return ErrorCode.UNKNOWN_MEMBER_ID
        self._fence(group, member, lambda: True)
        return 0

    def fetch_error(self, group_id: str, member_id: str | None, member_epoch: int) -> int:
        """The error code of an OffsetFetch that names a member of a consumer group; 0 for any other."""
        shard = self._runtime.find(group_id)
        group = None if isinstance(shard, int) else shard.groups.get(group_id)
        return group.fetch_error(member_id, member_epoch) if isinstance(group, ConsumerGroup) else 0

    # ConsumerGroupDescribe

    def describe(self, group_id: str) -> Steps[ConsumerGroupDescription]:
        """ConsumerGroupDescribe of one group; state and members are those at the start of the steps."""
        if not self._settings.is_served:
            return ConsumerGroupDescription(ErrorCode.UNSUPPORTED_VERSION, group_id)
        shard = self._runtime.find_named(group_id)
        if isinstance(shard, int):
            return ConsumerGroupDescription(shard, group_id)
        group = shard.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            message = f"Group {group_id} {'not found' if group is None else 'is not a consumer group'}."
            return ConsumerGroupDescription(ErrorCode.GROUP_ID_NOT_FOUND, group_id, message)
        assignor = preferred_assignor(group.preferred_assignors, self._assignors)
        described = ConsumerGroupDescription(
            0, group_id, None, group.state, group.epoch, group.assignment_epoch, assignor
        )
        members: list[ConsumerMemberDescription] = []
        for piece in pieces(list(group.members.values())):
            members += [self._describe(group, member) for member in piece]
            yield
        return described._replace(members=tuple(members))

    def _describe(self, group: ConsumerGroup, member: ConsumerMember) -> ConsumerMemberDescription:
        metadata = member.metadata
        return ConsumerMemberDescription(
            member.member_id,
            metadata.instance_id,
            metadata.rack_id,
            member.current.member_epoch,
            metadata.client_id,
            metadata.client_host,
            metadata.topic_names,
            metadata.topic_regex,
            named(member.current.held, self._topic_name),
            named(group.targets.get(member.member_id, NO_PARTITIONS), self._topic_name),
        )

    # Topics

    @property
    def _image(self) -> TopicImages:
        image: TopicImages = self._metadata.image
        return image

    def _topic_name(self, topic_id: UUID) -> str | None:
        return self._image.topic_name(topic_id)


def named(assigned: Partitions, topic_name: Callable[[UUID], str | None]) -> tuple[NamedPartitions, ...]:
    """The partitions with the names of their topics; topics that were deleted are left out."""
    names = ((topic_id, topic_name(topic_id), partitions) for topic_id, partitions in assigned.items())
    return tuple(
        NamedPartitions(topic_id, name, tuple(sorted(partitions))) for topic_id, name, partitions in names if name
    )
