"""The decision about a ConsumerGroupHeartbeat: the records that follow from it, and the response.

A heartbeat runs through the parts in this order; only what differs from the group's state becomes a record:

    member       join, return of a static member, or the check of the member's epoch
    group epoch  one more if the subscription of the member, or a topic of the group, has changed
    target       a new target assignment for all members, if that of the group epoch is not computed yet
    member epoch a step of the member towards its target assignment (``reconciliation.py``)

A request is refused at once. The rest takes steps, since a group may have very many members and partitions; the group
does not change between them (``decision_queue.py``).
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple
from uuid import UUID

from kafkapy.coordinator.group.consumer import records as stored
from kafkapy.coordinator.group.consumer.assignors import Assignor
from kafkapy.coordinator.group.consumer.calls import (
    JOIN_EPOCH,
    LEAVE_FOR_A_WHILE_EPOCH,
    UNCHANGED_MS,
    HeartbeatCall,
    HeartbeatResult,
    Partitions,
)
from kafkapy.coordinator.group.consumer.conversion import Downgrade, Upgrade, downgrade, upgrade_records
from kafkapy.coordinator.group.consumer.expressions import NO_TOPICS
from kafkapy.coordinator.group.consumer.group import ConsumerGroup
from kafkapy.coordinator.group.consumer.members import (
    NOTHING,
    ConsumerMember,
    CurrentAssignment,
    MemberMetadata,
    MemberState,
)
from kafkapy.coordinator.group.consumer.reconciliation import MemberRequest, MemberTarget, is_subset, reconcile
from kafkapy.coordinator.group.consumer.subscriptions import Assignment, MemberSubscription
from kafkapy.coordinator.group.consumer.topics import KnownTopics, TopicImages, read_topics
from kafkapy.coordinator.group.group import Group
from kafkapy.coordinator.group.settings import MigrationPolicy
from kafkapy.coordinator.regular_expressions import (
    InvalidRegularExpressionError,
    RegularExpression,
    RegularExpressionLibraryError,
)
from kafkapy.java_hashing import hash_code, in_set_order
from kafkapy.protocol.errors import ErrorCode
from kafkapy.records.record import Record
from kafkapy.turns import Steps

NO_PARTITIONS: Final[Partitions] = {}
REJOIN: Final = "The member must abandon all its partitions and rejoin."
NO_METADATA: Final = MemberMetadata()
"""The subscription of a member that leaves."""


class HeartbeatRefusedError(Exception):
    """The group does not take the request."""

    def __init__(self, error_code: int, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code


def check(call: HeartbeatCall, assignors: Mapping[str, Assignor]) -> None:
    """Raise ``HeartbeatRefusedError`` for a request that no group takes."""
    _refuse_blank("GroupId", call.group_id)
    _refuse_blank("MemberId", call.member_id)
    for name, value in (("InstanceId", call.instance_id), ("RackId", call.rack_id)):
        if value is not None:
            _refuse_blank(name, value)
    if call.member_epoch == JOIN_EPOCH:
        _check_join(call)
    elif call.member_epoch == LEAVE_FOR_A_WHILE_EPOCH and call.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif call.member_epoch < LEAVE_FOR_A_WHILE_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    if call.server_assignor is not None and call.server_assignor not in assignors:
        message = (
            f"ServerAssignor {call.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}."
        )
        raise HeartbeatRefusedError(ErrorCode.UNSUPPORTED_ASSIGNOR, message)


def _check_join(call: HeartbeatCall) -> None:
    if call.rebalance_timeout_ms == UNCHANGED_MS:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if call.owned is None or call.owned:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if call.topic_names is None and call.topic_regex is None:
        raise _invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")


def _check_expression(pattern: str) -> None:
    try:
        RegularExpression(pattern)
    except RegularExpressionLibraryError as error:
        raise HeartbeatRefusedError(error.error_code, str(error)) from error
    except InvalidRegularExpressionError as error:
        raise HeartbeatRefusedError(error.error_code, f"SubscribedTopicRegex {error}") from error


def _refuse_blank(name: str, value: str) -> None:
    if not value.strip():
        raise _invalid(f"{name} can't be empty.")


def _invalid(message: str) -> HeartbeatRefusedError:
    return HeartbeatRefusedError(ErrorCode.INVALID_REQUEST, message)


class GroupRules(NamedTuple):
    """The settings that a decision needs."""

    max_size: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int
    assignors: Mapping[str, Assignor]
    """By name; the first one is used if no member prefers another."""
    migration: MigrationPolicy
    classic_max_size: int
    """The largest number of members of a classic group."""
    classic_value_version: int
    """The version of a classic group's record."""


class GroupChange:
    """The records of one decision on a group. The group itself changes when they are replayed."""

    def __init__(
        self,
        group: ConsumerGroup,
        image: TopicImages,
        rules: GroupRules,
        now: Callable[[], int],
        upgrade: Upgrade | None = None,
    ) -> None:
        """``now`` returns the time in milliseconds.

        With an ``upgrade`` the decision is made on a group that no shard has: the records make a classic group one like
        it, and then change that.
        """
        self.records: list[Record] = []
        self.result = HeartbeatResult(ErrorCode.NONE)
        """The response to the request, once its steps have ended."""
        self.upgrade: Final = upgrade
        self.downgrade: Downgrade | None = None
        """The classic group that the group becomes by the records, once the steps have ended."""
        self._selected: dict[str, frozenset[str]] = {}
        """The expressions that select other topics after the records."""
        self.group = group
        self._image = image
        self._rules = rules
        self._now = now
        self._now_ms = now()

    @property
    def held(self) -> Group:
        """The group that the shard has until the records are replayed: further decisions on it wait."""
        return self.group if self.upgrade is None else self.upgrade.former

    @property
    def is_conversion(self) -> bool:
        """Whether the records make the group one of another type."""
        return self.upgrade is not None or self.downgrade is not None

    def convert(self) -> Steps[None]:
        """The first steps of every decision: the records of the upgrade, if it is one."""
        if self.upgrade is not None:
            records = yield from upgrade_records(self.upgrade, self.group, self._image, self._now_ms)
            self.records += records

    # Requests

    def heartbeat(self, call: HeartbeatCall) -> Steps[None]:
        """Decide on a heartbeat of a member that joins or stays; raises ``HeartbeatRefusedError`` before the steps."""
        member = self._member_of(call)
        after = member.metadata.updated(call)
        if after.topic_regex != member.metadata.topic_regex and after.topic_regex not in self.group.expressions.members:
            _check_expression(after.topic_regex)
        return self._heartbeat(call, member, after)

    def _heartbeat(self, call: HeartbeatCall, member: ConsumerMember, after: MemberMetadata) -> Steps[None]:
        following = yield from self._update(member, after, call.owned)
        is_shown = call.is_full or following.assigned != member.current.assigned
        assignment = {topic_id: frozenset(each) for topic_id, each in following.assigned.items()} if is_shown else None
        interval_ms = self._rules.heartbeat_interval_ms
        self.result = HeartbeatResult(
            ErrorCode.NONE, None, call.member_id, following.member_epoch, interval_ms, assignment
        )

    def join_classic(self, member: ConsumerMember, after: MemberMetadata, owned: Partitions) -> Steps[None]:
        """Decide on a JoinGroup of a member of the classic protocol; ``result`` has its epoch.

        It may be the last member that used the consumer protocol: a static one that was restarted. ``downgrade`` is set
        then.
        """
        is_replaced = after.instance_id is not None and member.member_id in self.group.members
        if is_replaced and not member.is_classic and self._may_downgrade([member], returning=1):
            following = yield from self._downgrade_by(member, after, owned)
        else:
            following = yield from self._update(member, after, owned)
        self.result = HeartbeatResult(ErrorCode.NONE, None, member.member_id, following.member_epoch)

    def _downgrade_by(
        self, member: ConsumerMember, after: MemberMetadata, owned: Partitions
    ) -> Steps[CurrentAssignment]:
        group, following = self.group, member.current
        epoch = yield from self._subscribe(member, after)
        is_current = epoch == group.assignment_epoch
        if is_current:
            target = MemberTarget(epoch, group.targets.get(member.member_id, NO_PARTITIONS))
            following = yield from self._proceed(member, after, target, owned)
        others = {each: known.metadata for each, known in group.members.items() if known is not member}
        yield from self._become_classic(others | {member.member_id: after}, rebalances=not is_current)
        return following

    def _update(
        self, member: ConsumerMember, after: MemberMetadata, owned: Partitions | None
    ) -> Steps[CurrentAssignment]:
        """The member says ``after`` about itself, and to own ``owned``, None if it does not say; returns its step."""
        epoch = yield from self._subscribe(member, after)
        target = yield from self._target(member.member_id, after, epoch)
        return (yield from self._proceed(member, after, target, owned))

    def _subscribe(self, member: ConsumerMember, after: MemberMetadata) -> Steps[int]:
        """The group epoch when the member says ``after`` about itself."""
        group, member_id, before = self.group, member.member_id, member.metadata
        if member_id not in group.members or after != before:
            self.records.append(stored.member_record(group.group_id, member_id, after, self._now_ms))
        is_changed = self._has_other_expression(before.topic_regex, after.topic_regex)
        is_changed |= after.topic_names != before.topic_names or self._has_other_assignor(before, after)
        return (yield from self._next_epoch({member_id: after}, is_changed=is_changed))

    def _proceed(
        self, member: ConsumerMember, after: MemberMetadata, target: MemberTarget, owned: Partitions | None
    ) -> Steps[CurrentAssignment]:
        """One step of the member towards its target assignment."""
        group, member_id, before = self.group, member.member_id, member.metadata
        is_subscription_changed = (after.topic_names, after.topic_regex) != (before.topic_names, before.topic_regex)
        request = MemberRequest(owned, partial(self._subscribes, after), is_subscription_changed)
        following = yield from reconcile(member.current, target, request, partial(group.is_free, member_id))
        yield
        if member_id not in group.members or following != member.current:
            self.records.append(stored.current_record(group.group_id, member_id, following, self._now_ms))
        return following

    def replace_static(self, former: ConsumerMember, member_id: str, *, is_classic: bool = False) -> Steps[None]:
        """A static member returns with another member id: it gets the assignment of its former id.

        A member that changes the protocol may still be there. Raises ``HeartbeatRefusedError`` before the steps if both
        use the consumer protocol, unless the former id has left for a while.
        """
        if not (is_classic or former.is_classic or former.is_away):
            instance_id = former.metadata.instance_id
            message = (
                f"Static member {member_id} with instance id {instance_id} cannot join the group because the "
                f"instance id is owned by {former.member_id} member."
            )
            raise HeartbeatRefusedError(ErrorCode.UNRELEASED_INSTANCE_ID, message)
        return self._replace_static(former, member_id)

    def _replace_static(self, former: ConsumerMember, member_id: str) -> Steps[None]:
        yield from ()
        group_id, metadata = self.group.group_id, former.metadata
        target = self.group.targets.get(former.member_id, NO_PARTITIONS)
        current = former.current._replace(member_epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
        self.records += [
            *stored.member_tombstones(group_id, former.member_id, self._now_ms),
            stored.member_record(group_id, member_id, metadata, self._now_ms),
            stored.target_record(group_id, member_id, target, self._now_ms),
            stored.current_record(group_id, member_id, current, self._now_ms),
        ]

    def repeat(self) -> None:
        """Write the current assignment of the response's member again, if there is one.

        The acknowledgement of a record is that of all before it, on which the response depends.
        """
        member = self.group.members.get(self.result.member_id or "")
        if member is not None:
            group_id, member_id = self.group.group_id, member.member_id
            self.records.append(stored.current_record(group_id, member_id, member.current, self._now_ms))

    def leave(self, call: HeartbeatCall) -> Steps[None]:
        """A member leaves, a static one maybe for a while; raises ``HeartbeatRefusedError`` before the steps."""
        member = self._leaving(call)
        self.result = HeartbeatResult(ErrorCode.NONE, None, call.member_id, call.member_epoch)
        if call.member_epoch == LEAVE_FOR_A_WHILE_EPOCH:
            return self._leave_for_a_while(member)
        return self.remove([member])

    def _leave_for_a_while(self, member: ConsumerMember) -> Steps[None]:
        yield from ()
        away = member.current._replace(member_epoch=LEAVE_FOR_A_WHILE_EPOCH, revoking=NOTHING)
        away = away._replace(state=MemberState.STABLE)
        self.records.append(stored.current_record(self.group.group_id, member.member_id, away, self._now_ms))

    def remove(self, members: Sequence[ConsumerMember]) -> Steps[None]:
        """Members leave, or a session has ended: the group epoch grows, and others get their partitions.

        If only members of the classic protocol remain, ``downgrade`` may be set.
        """
        group = self.group
        if self._may_downgrade(members):
            leaving = {each.member_id for each in members}
            remaining = {each: known.metadata for each, known in group.members.items() if each not in leaving}
            yield from self._become_classic(remaining)
            return
        for member in members:
            yield
            self.records += stored.member_tombstones(group.group_id, member.member_id, self._now_ms)
        for pattern, count in Counter(each.metadata.topic_regex for each in members).items():
            self._leave_expression(pattern, count)
        epoch = group.epoch + 1
        known = yield from self._topics({each.member_id: NO_METADATA for each in members})
        self.records.append(stored.group_record(group.group_id, epoch, known.metadata_hash, self._now_ms))
        if len(group.members) == len(members):  # nothing is left to assign
            self.records.append(stored.assignment_epoch_record(group.group_id, epoch, 0, self._now_ms))

    def _may_downgrade(self, leaving: Sequence[ConsumerMember], *, returning: int = 0) -> bool:
        """Whether only members of the classic protocol remain, and the group becomes a classic one.

        ``returning`` is the number of leaving members that return as such.
        """
        group, rules = self.group, self._rules
        leaving_classic = sum(each.is_classic for each in leaving)
        remaining = len(group.members) - len(leaving)
        if group.classic_count - leaving_classic != remaining:
            return False
        size = remaining + returning
        return 0 < size <= rules.classic_max_size and rules.migration.downgrades

    def _become_classic(self, remaining: Mapping[str, MemberMetadata], *, rebalances: bool = True) -> Steps[None]:
        version = self._rules.classic_value_version
        made = yield from downgrade(self.group, remaining, self._image, self._now_ms, version, rebalances=rebalances)
        self.downgrade = made
        self.records += made.records

    def resolve(self, found: Mapping[str, frozenset[str]]) -> Steps[None]:
        """The cluster's topics were searched: keep what was found for expressions that members still have."""
        group, expressions = self.group, self.group.expressions
        self._selected = {pattern: topics for pattern, topics in found.items() if pattern in expressions.members}
        for pattern, selected in self._selected.items():
            yield
            self.records.append(stored.expression_record(group.group_id, pattern, selected, self._now_ms))
        is_changed = any(topics != expressions.selected(each) for each, topics in self._selected.items())
        known = yield from self._topics({})
        if is_changed or known.metadata_hash != group.metadata_hash:
            self.records.append(stored.group_record(group.group_id, group.epoch + 1, known.metadata_hash, self._now_ms))

    def _has_other_expression(self, before: str, after: str) -> bool:
        """Whether the member selects other topics at once, since it has another expression or none any more.

        A new expression is resolved later.
        """
        if before == after:
            return False
        self._leave_expression(before)
        return not after or after in self.group.expressions.topics

    def _leave_expression(self, pattern: str, count: int = 1) -> None:
        """Members do not have the expression any more; that of the last one is deleted."""
        if self.group.expressions.members[pattern] == count:
            self._selected[pattern] = NO_TOPICS
            self.records.append(stored.expression_record(self.group.group_id, pattern, None, self._now_ms))

    def _has_other_assignor(self, before: MemberMetadata, after: MemberMetadata) -> bool:
        """Whether the group has another assignor if the member prefers another one."""
        if before.server_assignor == after.server_assignor:
            return False
        known, assignors = self.group.preferred_assignors, self._rules.assignors
        wanted = preferred_assignor(_after_change(known, before, after), assignors)
        return wanted != preferred_assignor(known, assignors)

    def _subscribes(self, metadata: MemberMetadata, topic_id: UUID) -> bool:
        """Whether a member with this subscription subscribes to the topic."""
        name = self._image.topic_name(topic_id)
        if name is None:
            return False
        place = bisect_left(metadata.topic_names, name)
        return metadata.topic_names[place : place + 1] == (name,) or name in self.group.expressions.selected(
            metadata.topic_regex
        )

    # The member

    def _member_of(self, call: HeartbeatCall) -> ConsumerMember:
        """The member that sends the request; one that is not in the group yet if it joins."""
        group, instance_id = self.group, call.instance_id
        known = group.members.get(call.member_id)
        if call.member_epoch == JOIN_EPOCH:
            if known is None and len(group.members) >= self._rules.max_size:
                message = f"The consumer group has reached its maximum capacity of {self._rules.max_size} members."
                raise HeartbeatRefusedError(ErrorCode.GROUP_MAX_SIZE_REACHED, message)
            return known or ConsumerMember(call.member_id)
        if instance_id is not None:
            known = self._static(instance_id, call.member_id)
        if known is None:
            raise self._unknown(call.member_id)
        self._check_epoch(known, call)
        return known

    def _leaving(self, call: HeartbeatCall) -> ConsumerMember:
        if call.instance_id is not None:
            return self._static(call.instance_id, call.member_id)
        known = self.group.members.get(call.member_id)
        if known is None:
            raise self._unknown(call.member_id)
        return known

    def _static(self, instance_id: str, member_id: str) -> ConsumerMember:
        """The member with the instance id, which must have this member id."""
        known = self.group.static_member(instance_id)
        if known is None:
            raise HeartbeatRefusedError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
        if known.member_id != member_id:
            message = (
                f"Static member {member_id} with instance id {instance_id} was fenced by member {known.member_id}."
            )
            raise HeartbeatRefusedError(ErrorCode.FENCED_INSTANCE_ID, message)
        return known

    def _unknown(self, member_id: str) -> HeartbeatRefusedError:
        message = f"Member {member_id} is not a member of group {self.group.group_id}."
        return HeartbeatRefusedError(ErrorCode.UNKNOWN_MEMBER_ID, message)

    def _check_epoch(self, member: ConsumerMember, call: HeartbeatCall) -> None:
        """Refuse an epoch that is not the member's, unless the response with its present one was lost."""
        current, epoch = member.current, call.member_epoch
        if current.state is MemberState.UNKNOWN and (call.owned is None or call.owned):
            message = f"The consumer group member is in a unknown state. {REJOIN}"
            raise HeartbeatRefusedError(ErrorCode.FENCED_MEMBER_EPOCH, message)
        if epoch == current.member_epoch:
            return
        is_repeated = epoch == current.previous_epoch and is_subset(call.owned, current.assigned)
        if epoch < current.member_epoch and is_repeated:
            return
        size = "greater" if epoch > current.member_epoch else "smaller"
        message = (
            f"The consumer group member has a {size} member epoch ({epoch}) than the one known by the group "
            f"coordinator ({current.member_epoch}). {REJOIN}"
        )
        raise HeartbeatRefusedError(ErrorCode.FENCED_MEMBER_EPOCH, message)

    # Group epoch and target assignment

    def _next_epoch(self, changed: Mapping[str, MemberMetadata], *, is_changed: bool) -> Steps[int]:
        """The group epoch after the request.

        A heartbeat that changes nothing reads the topics once after each change of the cluster's topics.
        """
        group = self.group
        if not is_changed and group.checked_topics is self._image.topics:
            return group.epoch
        known = yield from self._topics(changed)
        if not is_changed and known.metadata_hash == group.metadata_hash:
            group.checked_topics = self._image.topics
            return group.epoch
        epoch = group.epoch + 1
        self.records.append(stored.group_record(group.group_id, epoch, known.metadata_hash, self._now_ms))
        return epoch

    def _topics(self, changed: Mapping[str, MemberMetadata]) -> Steps[KnownTopics]:
        """The subscribed topics that exist, if some members have other subscriptions."""
        group, counts = self.group, self.group.subscribed
        change: Counter[str] = Counter()
        for member_id, metadata in changed.items():
            yield
            member = group.members.get(member_id)
            change.subtract(() if member is None else member.metadata.topic_names)
            change.update(metadata.topic_names)
        for pattern, topics in self._selected.items():
            yield
            change.subtract(group.expressions.selected(pattern))
            change.update(topics)
        gained = {name for name, count in change.items() if count > 0 and name not in counts}
        lost = {name for name, count in change.items() if count < 0 and counts[name] + count <= 0}
        known = group.known_topics
        if not gained and not lost and known is not None and known.cluster_topics is self._image.topics:
            return known
        known = yield from read_topics(self._image, [*(counts.keys() - lost), *gained])
        if not gained and not lost:
            group.known_topics = known
        return known

    def _target(self, member_id: str, metadata: MemberMetadata, epoch: int) -> Steps[MemberTarget]:
        """The target assignment of the member: the group's, or a new one if the group epoch has none yet.

        It is computed once in an interval: members that join after each other, or change their subscriptions, share it.
        """
        group = self.group
        is_due = self._now_ms - group.assigned_ms >= self._rules.assignment_interval_ms
        if epoch == group.assignment_epoch or not is_due:
            return MemberTarget(group.assignment_epoch, group.targets.get(member_id, NO_PARTITIONS))
        assigned = yield from self._assign(member_id, metadata)
        target: Partitions = NO_PARTITIONS
        for each, assignment in assigned.items():
            yield
            partitions = {topic_id: frozenset(numbers) for topic_id, numbers in assignment.items() if numbers}
            if partitions != group.targets.get(each):
                self.records.append(stored.target_record(group.group_id, each, partitions, self._now_ms))
            if each == member_id:
                target = partitions
        yield
        self.records.append(stored.assignment_epoch_record(group.group_id, epoch, self._now(), self._now_ms))
        return MemberTarget(epoch, target)

    def _assign(self, member_id: str, metadata: MemberMetadata) -> Steps[dict[str, Assignment]]:
        """The partitions of every member, if one of them has this subscription."""
        group = self.group
        members = {each: member.metadata for each, member in group.members.items()}
        counts = _after_change(group.preferred_assignors, members.get(member_id, NO_METADATA), metadata)
        members[member_id] = metadata
        known = yield from self._topics({member_id: metadata})
        ids = {topic.name: topic_id for topic_id, topic in known.topics.items()}
        topic_ids: dict[tuple[tuple[str, ...], str], frozenset[UUID]] = {}
        subscriptions: dict[str, MemberSubscription] = {}
        for each, about in members.items():
            yield
            subscription = about.topic_names, about.topic_regex
            if subscription not in topic_ids:
                names = {*about.topic_names, *group.expressions.selected(about.topic_regex)}
                topic_ids[subscription] = frozenset(ids[name] for name in names if name in ids)
            owned = group.targets.get(each, NO_PARTITIONS)
            subscriptions[each] = MemberSubscription(about.instance_id, about.rack_id, topic_ids[subscription], owned)
        assignor = self._rules.assignors[preferred_assignor(counts, self._rules.assignors)]
        return (yield from assignor.assign_in_steps(subscriptions, known.topics, is_homogeneous=len(topic_ids) == 1))


def preferred_assignor(counts: Mapping[str, int], assignors: Mapping[str, Assignor]) -> str:
    """The assignor that most members prefer; the first one if no member has a preference.

    ``counts`` has the number of members that prefer each. Of equals it is the first in the order of Kafka's hash map.
    """
    preferred = in_set_order([each for each in counts if each in assignors], hash_code)
    return max(preferred, key=counts.__getitem__) if preferred else next(iter(assignors))


def _after_change(counts: Counter[str], before: MemberMetadata, after: MemberMetadata) -> Counter[str]:
    """The preferred assignors of the group when a member has other metadata."""
    changed = counts.copy()
    changed.subtract([] if before.server_assignor is None else [before.server_assignor])
    changed.update([] if after.server_assignor is None else [after.server_assignor])
    return +changed
