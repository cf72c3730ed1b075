"""The consumer type of groups: the entry of ConsumerGroupHeartbeat and ConsumerGroupDescribe."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final
from uuid import UUID

from kafkapy.clock import Clock
from kafkapy.config.group_keys import ASSIGNMENT_INTERVAL, HEARTBEAT_INTERVAL, SESSION_TIMEOUT
from kafkapy.coordinator.answer import Answer
from kafkapy.coordinator.group.classic.group import ClassicGroup
from kafkapy.coordinator.group.classic.groups import ClassicGroups
from kafkapy.coordinator.group.classic.protocols import Protocols
from kafkapy.coordinator.group.consumer.assignors import ASSIGNORS
from kafkapy.coordinator.group.consumer.calls import (
    JOIN_EPOCH,
    ConsumerGroupDescription,
    ConsumerMemberDescription,
    HeartbeatCall,
    HeartbeatResult,
    NamedPartitions,
    Partitions,
)
from kafkapy.coordinator.group.consumer.conversion import (
    Upgrade,
    UpgradeRefusedError,
    read_upgrade,
    restore_protocols,
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
from kafkapy.coordinator.group.metadata_budget import MEMBER_BYTES, TOPIC_BYTES, MetadataBudget
from kafkapy.coordinator.group.records import ConsumerGroupKey, GroupKey, OffsetKey, RecordKey
from kafkapy.coordinator.group.runtime import GroupRuntime
from kafkapy.coordinator.group.settings import ConsumerGroupSettings
from kafkapy.coordinator.group.shard import GroupShard
from kafkapy.coordinator.group.writes import MEMBER_ERRORS, FollowedWrite
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
        classic: ClassicGroups,
        value_of: GroupValue,
    ) -> None:
        self.settings: Final = runtime.settings.consumer
        self._value_of = value_of
        self._runtime = runtime
        self.classic: Final = classic
        self._metadata = metadata
        self._counters = background.counters
        self._run = background.run
        self._soon = background.soon
        self._overdue: deque[tuple[ConsumerGroup, ConsumerMember, Callable[[], bool]]] = deque()
        self.sessions: Final = Sessions(clock, self._session_timeout_ms, self._fence)
        self._assignors = {name: ASSIGNORS[name] for name in self.settings.assignors}

    def new_group(self, group_id: str) -> ConsumerGroup:
        """See ``GroupType``."""
        return ConsumerGroup(group_id, self.sessions, self.topic_name, self._runtime.budget, self._run)

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
            group.kill(ErrorCode.NOT_COORDINATOR)

    def _replayed_group(self, shard: GroupShard, group_id: str) -> ConsumerGroup:
        group = shard.groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else self._put(shard, self.new_group(group_id))

    def _put(self, shard: GroupShard, group: ConsumerGroup) -> ConsumerGroup:
        """Keep a new group, in place of a classic group without members if there is one."""
        former = shard.groups.get(group.group_id)
        if former is None:
            shard.put(group)
        else:
            shard.replace(former, group)
        return group

    # Requests

    def heartbeat(self, call: HeartbeatCall) -> Answer[HeartbeatResult]:
        """ConsumerGroupHeartbeat."""
        if not self.settings.is_served:
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
        if group is None:
            self._decide_now(call, answer)
        else:
            group.decisions.when_idle(partial(self._decide_now, call, answer))

    def _decide_now(self, call: HeartbeatCall, answer: Answer[HeartbeatResult]) -> None:
        """No decision on the group is being made, but it may have changed since the request arrived."""
        shard = self._runtime.find_named(call.group_id)
        if isinstance(shard, int):
            answer.set(HeartbeatResult(shard))
            return
        found = shard.groups.get(call.group_id)
        if found is not None and found.is_writing:
            self._decide(call, answer)  # it was loaded again, and has its own order of decisions
            return
        try:
            self._decide_on(shard, found, call, answer)
        except HeartbeatRefusedError as error:
            answer.set(HeartbeatResult(error.error_code, str(error)))

    def _decide_on(
        self, shard: GroupShard, found: Group | None, call: HeartbeatCall, answer: Answer[HeartbeatResult]
    ) -> None:
        change = self._change_for(shard, found, call)
        group = change.group
        former = None if call.instance_id is None else group.static_member(call.instance_id)
        then = partial(self._decided, shard, change, call, answer)
        if call.member_epoch in IS_LEAVING:
            steps = change.leave(call)
        elif former is not None and former.member_id != call.member_id and call.member_epoch == JOIN_EPOCH:
            steps = change.replace_static(former, call.member_id)
            then = partial(self._replaced, shard, call, answer)
        else:
            self._check_room(group, call)
            steps = change.heartbeat(call)
        if change.upgrade is None and group is not found:
            self._put(shard, group)
        self.carry_out(shard, change, steps, then)

    def change_of(self, group: ConsumerGroup, upgrade: Upgrade | None = None) -> GroupChange:
        """A decision on the group that begins now."""
        rules = GroupRules(
            self.settings.max_size,
            self._value_of(group.group_id, HEARTBEAT_INTERVAL),
            self._value_of(group.group_id, ASSIGNMENT_INTERVAL),
            self._assignors,
            self.settings.migration,
            self._runtime.settings.max_size,
            self._runtime.settings.group_value_version,
        )
        return GroupChange(group, self.image, rules, self._runtime.now_ms, upgrade)

    def _change_for(self, shard: GroupShard, found: Group | None, call: HeartbeatCall) -> GroupChange:
        """The decision on a request to the group that was found.

        Only a member that joins makes a consumer group, in place of none, of a group without members, or of a classic
        group of consumers. Raises ``HeartbeatRefusedError``.
        """
        if isinstance(found, ConsumerGroup):
            return self.change_of(found)
        group_id = call.group_id
        if found is None and call.member_epoch != JOIN_EPOCH:
            name = "Group" if call.member_epoch in IS_LEAVING else "Consumer group"
            raise HeartbeatRefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"{name} {group_id} not found.")
        if call.member_epoch == JOIN_EPOCH and (found is None or found.is_empty):
            change = self.change_of(self.new_group(group_id))
            change.records += [] if found is None else found.tombstones(self._runtime.now_ms())
            return change
        if call.member_epoch != JOIN_EPOCH or not isinstance(found, ClassicGroup):
            raise HeartbeatRefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        return self._upgrading(shard, found)

    def _upgrading(self, shard: GroupShard, found: ClassicGroup) -> GroupChange:
        """A decision that upgrades a classic group with members."""
        self.check_memory(found.members.used_bytes)
        self.check_batch(shard, (each.protocols for each in found.members.values()))
        try:
            check_upgrade(found, self.settings)
            upgrade = read_upgrade(found, self.image)
        except UpgradeRefusedError as error:
            raise HeartbeatRefusedError(ErrorCode.GROUP_ID_NOT_FOUND, str(error)) from error
        # the decision is made on this group; the shard gets its own by the replay of the records
        group = ConsumerGroup(found.group_id, self.sessions, self.topic_name, MetadataBudget(), self._run)
        upgrade.apply_to(group)
        return self.change_of(group, upgrade)

    def _check_room(self, group: ConsumerGroup, call: HeartbeatCall) -> None:
        """Refuse a subscription that exceeds the bound on the memory of all members."""
        size = 0 if call.member_id in group.members else MEMBER_BYTES
        if call.topic_names is not None:
            size += text_size(*call.topic_names) + TOPIC_BYTES * len(call.topic_names)
        size += text_size(call.topic_regex or "")
        if size:
            self.check_memory(size)

    def check_memory(self, size: int) -> None:
        """Raise ``HeartbeatRefusedError`` if the members of all groups may not take so many bytes more."""
        if not self._runtime.budget.has_room(size):
            self._counters.refused_metadata += 1
            raise HeartbeatRefusedError(
                ErrorCode.GROUP_MAX_SIZE_REACHED, "The members of all groups take too much memory."
            )

    def check_batch(self, shard: GroupShard, members: Iterable[Protocols]) -> None:
        """Raise ``HeartbeatRefusedError`` if the log can't take the metadata, before time is spent on reading them."""
        size = sum(len(metadata) for protocols in members for _, metadata in protocols)
        if size > self._runtime.largest_batch(shard):
            error_code = MEMBER_ERRORS[ErrorCode.MESSAGE_TOO_LARGE]
            raise HeartbeatRefusedError(error_code, "The metadata of the members exceed the largest batch.")

    def _decided(
        self,
        shard: GroupShard,
        change: GroupChange,
        call: HeartbeatCall,
        answer: Answer[HeartbeatResult],
        error_code: int,
    ) -> None:
        """Answer the request. The session of a member that stays starts again."""
        group = self._touch(shard, call)
        answer.set(HeartbeatResult(error_code) if error_code else change.result)
        if not error_code and group is not None and call.member_id in group.members:
            self._search(group, call)

    def _touch(self, shard: GroupShard, call: HeartbeatCall) -> ConsumerGroup | None:
        """The session of a member that stays starts again; its rebalance time-out starts if it has to revoke.

        Returns the group; None if it is a classic one now.
        """
        group = shard.groups.get(call.group_id)
        if not isinstance(group, ConsumerGroup):
            return None
        member = group.members.get(call.member_id)
        if member is not None and call.member_epoch not in IS_LEAVING:
            self.sessions.touch(group, member)
            self.sessions.follow(group, member)
        return group

    def _replaced(
        self, shard: GroupShard, call: HeartbeatCall, answer: Answer[HeartbeatResult], error_code: int
    ) -> None:
        """The static member has its new id: it joins with it."""
        group = self._touch(shard, call)
        if error_code or group is None:
            answer.set(HeartbeatResult(error_code))
        else:
            group.decisions.decide_next(partial(self._decide_now, call, answer))

    def carry_out(
        self, shard: GroupShard, change: GroupChange, steps: Steps[None], then: Callable[[int], None]
    ) -> None:
        """Compute the records of a change in its ``steps``, and append them; then call ``then`` with an error code.

        Other decisions on the group wait for it.
        """
        change.held.decisions.write_started()
        if change.upgrade is not None:
            self.classic.suspend(change.upgrade.former)
        self._run(self._append(shard, change, steps, partial(self._ended, shard, change, then)))

    def _append(
        self, shard: GroupShard, change: GroupChange, steps: Steps[None], ended: Callable[[int], None]
    ) -> Steps[None]:
        held, records = change.held, change.records

        def is_served() -> bool:
            return shard.is_current and not held.is_dead

        yield from while_true(is_served, change.convert())
        yield from while_true(is_served, steps)
        if change.group.is_unacknowledged and not records:
            change.repeat()
        batch = self._runtime.encode(records) if records else bytearray()
        yield
        if not is_served():
            ended(ErrorCode.NOT_COORDINATOR)
        elif not records:
            ended(0)
        else:
            write = FollowedWrite(shard, held, records, batch, is_conversion=change.is_conversion)
            self._runtime.write(write).on_set(partial(self._appended, change, write, ended))

    def _appended(
        self, change: GroupChange, write: FollowedWrite, ended: Callable[[int], None], error_code: int
    ) -> None:
        group = change.group
        group.is_unacknowledged = error_code != 0 and (write.is_in_log or group.is_unacknowledged)
        self._run(self._replay(write, ended, error_code))

    def _replay(self, write: FollowedWrite, ended: Callable[[int], None], error_code: int) -> Steps[None]:
        yield from write.replay_in_steps()
        ended(error_code)

    def _ended(self, shard: GroupShard, change: GroupChange, then: Callable[[int], None], error_code: int) -> None:
        """The records were replayed, or there are none, or the log has refused them."""
        held = change.held
        found = shard.groups.get(held.group_id)
        if change.upgrade is not None:
            self._upgrade_ended(change, change.upgrade.former, found)
        elif change.downgrade is not None and isinstance(found, ClassicGroup):
            restore_protocols(found, change.downgrade.members)
            self.classic.took_over(found, rebalances=change.downgrade.rebalances)
        elif error_code and not held.has_record and found is held:
            shard.forget(held)  # its first records were refused
        then(error_code)
        held.decisions.write_ended()

    def _upgrade_ended(self, change: GroupChange, former: ClassicGroup, found: Group | None) -> None:
        if isinstance(found, ConsumerGroup):
            found.is_unacknowledged = change.group.is_unacknowledged
            self._run(self.sessions.start_all(found))
        else:
            self.classic.resume(former)

    # Regular expressions

    def _search(self, group: ConsumerGroup, call: HeartbeatCall) -> None:
        """Search the topics for the group's expressions, if that is due after the member's request."""
        interval_ms = self.settings.regex_refresh_interval_ms
        if group.expressions.start_search(self.image.topics, self._runtime.now_ms(), interval_ms):
            self._run(self._search_in_steps(group, call))

    def _search_in_steps(self, group: ConsumerGroup, call: HeartbeatCall) -> Steps[None]:
        topics = self.image.topics
        found = yield from select_topics(list(group.expressions.members), list(topics), call.may_describe)
        group.decisions.when_idle(partial(self._resolve, group, topics, found))

    def _resolve(self, group: ConsumerGroup, topics: Mapping[str, object], found: Mapping[str, frozenset[str]]) -> None:
        """Write what was found among the topics."""
        shard = self._runtime.find(group.group_id)
        if isinstance(shard, int) or group.is_dead:
            return
        if not self._has_room_for(group, found):
            self._counters.refused_metadata += 1
            group.expressions.end_search(None)
            return
        change = self.change_of(group)

        def then(error_code: int) -> None:
            group.expressions.end_search(None if error_code else topics)

        self.carry_out(shard, change, change.resolve(found), then)

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
            group.decisions.when_idle(partial(self._fence_now, group, member, is_due))
            self._overdue.popleft()
            yield

    def _fence_now(self, group: ConsumerGroup, member: ConsumerMember, is_due: Callable[[], bool]) -> None:
        shard = self._runtime.find(group.group_id)
        is_member = not group.is_dead and group.members.get(member.member_id) is member
        if isinstance(shard, int) or not is_member or not is_due():
            return
        change = self.change_of(group)

        def then(error_code: int) -> None:
            if error_code and group.members.get(member.member_id) is member:
                self.sessions.remove_later(group, member)

        self.carry_out(shard, change, change.remove([member]), then)

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
        if not self.settings.is_served:
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
            named(member.current.held, self.topic_name),
            named(group.targets.get(member.member_id, NO_PARTITIONS), self.topic_name),
            member.is_classic,
        )

    # Topics

    @property
    def image(self) -> TopicImages:
        """The topics of the cluster now."""
        image: TopicImages = self._metadata.image
        return image

    def topic_name(self, topic_id: UUID) -> str | None:
        """The name of the topic with this id, None if there is none."""
        return self.image.topic_name(topic_id)


def check_upgrade(group: ClassicGroup, settings: ConsumerGroupSettings) -> None:
    """Raise ``UpgradeRefusedError`` unless the policy and the kind and size of a classic group allow its upgrade."""
    reason = None
    if not settings.migration.upgrades:
        reason = "online upgrade is disabled"
    elif not group.is_consumer_group:
        reason = "the group does not use the consumer embedded protocol"
    elif len(group.members) > settings.max_size:
        reason = "the group size exceeds the consumer group maximum size"
    if reason is not None:
        raise UpgradeRefusedError(f"Cannot upgrade classic group {group.group_id} to consumer group because {reason}.")


def named(assigned: Partitions, topic_name: Callable[[UUID], str | None]) -> tuple[NamedPartitions, ...]:
    """The partitions with the names of their topics; topics that were deleted are left out."""
    names = ((topic_id, topic_name(topic_id), partitions) for topic_id, partitions in assigned.items())
    return tuple(
        NamedPartitions(topic_id, name, tuple(sorted(partitions))) for topic_id, name, partitions in names if name
    )
