"""The decision about a ConsumerGroupHeartbeat: the records that follow from it, and the response.

A heartbeat runs through the parts in this order; only what differs from the group's state becomes a record:

    member       join, return of a static member, or the check of the member's epoch
    group epoch  one more if the subscription of the member, or a topic of the group, has changed
    target       a new target assignment for all members, if that of the group epoch is not computed yet
    member epoch a step of the member towards its target assignment (``reconciliation.py``)
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
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
from kafkapy.coordinator.group.consumer.conversion import Downgrade, downgrade
from kafkapy.coordinator.group.consumer.expressions import NO_TOPICS
from kafkapy.coordinator.group.consumer.group import ConsumerGroup
from kafkapy.coordinator.group.consumer.members import (
    NOTHING,
    ConsumerMember,
    CurrentAssignment,
    MemberMetadata,
    MemberState,
)
from kafkapy.coordinator.group.consumer.reconciliation import MemberTarget, is_subset, reconcile
from kafkapy.coordinator.group.consumer.regular_expressions import InvalidRegularExpressionError, TopicExpression
from kafkapy.coordinator.group.consumer.subscriptions import MemberSubscription, TopicMetadata
from kafkapy.coordinator.group.consumer.topics import TopicImages, existing_topics, metadata_hash
from kafkapy.coordinator.group.settings import MigrationPolicy
from kafkapy.protocol.errors import ErrorCode
from kafkapy.records.record import Record

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
        TopicExpression(pattern)
    except InvalidRegularExpressionError as error:
        raise HeartbeatRefusedError(error.error_code, str(error)) from error


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

    def __init__(self, group: ConsumerGroup, image: TopicImages, rules: GroupRules, now_ms: int) -> None:
        self.records: list[Record] = []
        self.downgrade: Downgrade | None = None
        """The classic group that the group becomes by the records."""
        self._selected: dict[str, frozenset[str]] = {}
        """The expressions that select other topics after the records."""
        self.group = group
        self._image = image
        self._rules = rules
        self._now_ms = now_ms

    # Requests

    def heartbeat(self, call: HeartbeatCall) -> HeartbeatResult:
        """Decide on a heartbeat of a member that joins or stays; raises ``HeartbeatRefusedError``."""
        member = self._member_of(call)
        following = self._update(member, member.metadata.updated(call), call.owned)
        is_shown = call.is_full or following.assigned != member.current.assigned
        assignment = {topic_id: frozenset(each) for topic_id, each in following.assigned.items()} if is_shown else None
        interval_ms = self._rules.heartbeat_interval_ms
        return HeartbeatResult(ErrorCode.NONE, None, call.member_id, following.member_epoch, interval_ms, assignment)

    def join_classic(self, member: ConsumerMember, after: MemberMetadata, owned: Partitions) -> CurrentAssignment:
        """Decide on a JoinGroup of a member of the classic protocol; returns its assignment.

        It may be the last member that used the consumer protocol: a static one that was restarted. ``downgrade`` is set
        then.
        """
        is_replaced = after.instance_id is not None and member.member_id in self.group.members
        if is_replaced and not member.is_classic and self._may_downgrade([member], returning=1):
            return self._downgrade_by(member, after, owned)
        return self._update(member, after, owned)

    def _downgrade_by(self, member: ConsumerMember, after: MemberMetadata, owned: Partitions) -> CurrentAssignment:
        group, following = self.group, member.current
        epoch, _, _ = self._subscribe(member, after)
        is_current = epoch == group.assignment_epoch
        if is_current:
            target = MemberTarget(epoch, group.targets.get(member.member_id, NO_PARTITIONS))
            following = self._proceed(member, target, owned)
        others = {each: known.metadata for each, known in group.members.items() if known is not member}
        self._become_classic(others | {member.member_id: after}, rebalances=not is_current)
        return following

    def _update(self, member: ConsumerMember, after: MemberMetadata, owned: Partitions | None) -> CurrentAssignment:
        """The member says ``after`` about itself, and to own ``owned``, None if it does not say; returns its step."""
        is_new = member.member_id not in self.group.members
        epoch, topics, is_changed = self._subscribe(member, after)
        target = self._target(member.member_id, after, epoch, topics, is_urgent=is_changed and not is_new)
        return self._proceed(member, target, owned)

    def _subscribe(
        self, member: ConsumerMember, after: MemberMetadata
    ) -> tuple[int, Mapping[UUID, TopicMetadata] | None, bool]:
        """The group epoch and topics as ``_next_epoch`` returns them, and whether the member changes the assignment."""
        group, member_id, before = self.group, member.member_id, member.metadata
        if member_id not in group.members or after != before:
            self.records.append(stored.member_record(group.group_id, member_id, after, self._now_ms))
        is_changed = self._has_other_expression(before.topic_regex, after.topic_regex)
        is_changed |= after.topic_names != before.topic_names or self._has_other_assignor(member_id, before, after)
        return *self._next_epoch({member_id: after}, is_changed=is_changed), is_changed

    def _proceed(self, member: ConsumerMember, target: MemberTarget, owned: Partitions | None) -> CurrentAssignment:
        """One step of the member towards its target assignment."""
        group, member_id, current = self.group, member.member_id, member.current
        following = reconcile(
            current, target, owned, lambda topic_id, partition: group.is_free(member_id, topic_id, partition)
        )
        if member_id not in group.members or following != current:
            self.records.append(stored.current_record(group.group_id, member_id, following, self._now_ms))
        return following

    def replace_static(self, former: ConsumerMember, member_id: str, *, is_classic: bool = False) -> None:
        """A static member returns with another member id: it gets the assignment of its former id.

        A member that changes the protocol may still be there. Raises ``HeartbeatRefusedError`` if both use the consumer
        protocol, unless the former id has left for a while.
        """
        group_id, metadata = self.group.group_id, former.metadata
        if not (is_classic or former.is_classic or former.is_away):
            message = (
                f"Static member {member_id} with instance id {metadata.instance_id} cannot join the group because the "
                f"instance id is owned by {former.member_id} member."
            )
            raise HeartbeatRefusedError(ErrorCode.UNRELEASED_INSTANCE_ID, message)
        target = self.group.targets.get(former.member_id, NO_PARTITIONS)
        current = former.current._replace(member_epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
        self.records += [
            *stored.member_tombstones(group_id, former.member_id, self._now_ms),
            stored.member_record(group_id, member_id, metadata, self._now_ms),
            stored.target_record(group_id, member_id, target, self._now_ms),
            stored.current_record(group_id, member_id, current, self._now_ms),
        ]

    def leave(self, call: HeartbeatCall) -> HeartbeatResult:
        """A member leaves, a static one maybe for a while; raises ``HeartbeatRefusedError``."""
        member = self._leaving(call)
        if call.member_epoch == LEAVE_FOR_A_WHILE_EPOCH:
            away = member.current._replace(member_epoch=LEAVE_FOR_A_WHILE_EPOCH, revoking=NOTHING)
            away = away._replace(state=MemberState.STABLE)
            self.records.append(stored.current_record(self.group.group_id, member.member_id, away, self._now_ms))
        else:
            self.remove([member])
        return HeartbeatResult(ErrorCode.NONE, None, call.member_id, call.member_epoch)

    def remove(self, members: Sequence[ConsumerMember]) -> None:
        """Members leave, or a session has ended: the group epoch grows, and others get their partitions.

        If only members of the classic protocol remain, ``downgrade`` may be set.
        """
        group = self.group
        if self._may_downgrade(members):
            leaving = {each.member_id for each in members}
            self._become_classic({each: known.metadata for each, known in group.members.items() if each not in leaving})
            return
        for member in members:
            self.records += stored.member_tombstones(group.group_id, member.member_id, self._now_ms)
        for pattern, count in Counter(each.metadata.topic_regex for each in members).items():
            self._leave_expression(pattern, count)
        epoch = group.epoch + 1
        topics = self._topics({each.member_id: NO_METADATA for each in members})
        self.records.append(stored.group_record(group.group_id, epoch, metadata_hash(topics), self._now_ms))
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

    def _become_classic(self, remaining: Mapping[str, MemberMetadata], *, rebalances: bool = True) -> None:
        version = self._rules.classic_value_version
        made = downgrade(self.group, remaining, self._image, self._now_ms, version, rebalances=rebalances)
        self.downgrade = made
        self.records += made.records

    def resolve(self, found: Mapping[str, frozenset[str]]) -> None:
        """The cluster's topics were searched: keep what was found for expressions that members still have."""
        group, expressions = self.group, self.group.expressions
        self._selected = {pattern: topics for pattern, topics in found.items() if pattern in expressions.members}
        for pattern, selected in self._selected.items():
            self.records.append(stored.expression_record(group.group_id, pattern, selected, self._now_ms))
        is_changed = any(topics != expressions.selected(each) for each, topics in self._selected.items())
        hashed = metadata_hash(self._topics({}))
        if is_changed or hashed != group.metadata_hash:
            self.records.append(stored.group_record(group.group_id, group.epoch + 1, hashed, self._now_ms))

    def _has_other_expression(self, before: str, after: str) -> bool:
        """Whether the member selects other topics at once, since it has another expression or none any more.

        A new expression is resolved later. Raises ``HeartbeatRefusedError`` if it is not valid.
        """
        if before == after:
            return False
        self._leave_expression(before)
        expressions = self.group.expressions
        if after and after not in expressions.members:
            _check_expression(after)
        return not after or after in expressions.topics

    def _leave_expression(self, pattern: str, count: int = 1) -> None:
        """Members do not have the expression any more; that of the last one is deleted."""
        if self.group.expressions.members[pattern] == count:
            self._selected[pattern] = NO_TOPICS
            self.records.append(stored.expression_record(self.group.group_id, pattern, None, self._now_ms))

    def _has_other_assignor(self, member_id: str, before: MemberMetadata, after: MemberMetadata) -> bool:
        """Whether the group has another assignor if the member prefers another one."""
        if before.server_assignor == after.server_assignor:
            return False
        known = {each: member.metadata for each, member in self.group.members.items()}
        assignors = self._rules.assignors
        wanted = preferred_assignor((known | {member_id: after}).values(), assignors)
        return wanted != preferred_assignor(known.values(), assignors)

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

    def _next_epoch(
        self, changed: Mapping[str, MemberMetadata], *, is_changed: bool
    ) -> tuple[int, Mapping[UUID, TopicMetadata] | None]:
        """The group epoch after the request, and the subscribed topics if they were read.

        A heartbeat that changes nothing reads the topics once after each change of the cluster's topics.
        """
        group = self.group
        if not is_changed and group.checked_topics is self._image.topics:
            return group.epoch, None
        topics = self._topics(changed)
        hashed = metadata_hash(topics)
        if not is_changed and hashed == group.metadata_hash:
            group.checked_topics = self._image.topics
            return group.epoch, topics
        epoch = group.epoch + 1
        self.records.append(stored.group_record(group.group_id, epoch, hashed, self._now_ms))
        return epoch, topics

    def _topics(self, changed: Mapping[str, MemberMetadata]) -> dict[UUID, TopicMetadata]:
        """The subscribed topics that exist, if some members have other subscriptions."""
        names = self.group.subscribed.copy()
        for member_id, metadata in changed.items():
            member = self.group.members.get(member_id)
            names.subtract(() if member is None else member.metadata.topic_names)
            names.update(metadata.topic_names)
        for pattern, topics in self._selected.items():
            names.subtract(self.group.expressions.selected(pattern))
            names.update(topics)
        return existing_topics(self._image, (name for name, count in names.items() if count > 0))

    def _target(
        self,
        member_id: str,
        metadata: MemberMetadata,
        epoch: int,
        topics: Mapping[UUID, TopicMetadata] | None,
        *,
        is_urgent: bool,
    ) -> MemberTarget:
        """The target assignment of the member: the group's, or a new one if the group epoch has none yet.

        Joins that follow each other share one: it is computed once in an interval, unless a member has changed its
        subscription.
        """
        group = self.group
        is_due = self._now_ms - group.assigned_ms >= self._rules.assignment_interval_ms
        if epoch == group.assignment_epoch or not (is_due or is_urgent):
            return MemberTarget(group.assignment_epoch, group.targets.get(member_id, NO_PARTITIONS))
        targets = self._assign({member_id: metadata}, self._topics({member_id: metadata}) if topics is None else topics)
        for each, partitions in targets.items():
            if partitions != group.targets.get(each):
                self.records.append(stored.target_record(group.group_id, each, partitions, self._now_ms))
        self.records.append(stored.assignment_epoch_record(group.group_id, epoch, self._now_ms, self._now_ms))
        return MemberTarget(epoch, targets[member_id])

    def _assign(
        self, changed: Mapping[str, MemberMetadata], topics: Mapping[UUID, TopicMetadata]
    ) -> dict[str, Partitions]:
        members = {member_id: member.metadata for member_id, member in self.group.members.items()} | dict(changed)
        ids = {topic.name: topic_id for topic_id, topic in topics.items()}
        subscriptions = {
            member_id: MemberSubscription(
                metadata.instance_id,
                metadata.rack_id,
                frozenset(ids[name] for name in self._names_of(metadata) if name in ids),
                {key: set(each) for key, each in self.group.targets.get(member_id, NO_PARTITIONS).items()},
            )
            for member_id, metadata in members.items()
        }
        assignor = self._rules.assignors[preferred_assignor(members.values(), self._rules.assignors)]
        is_homogeneous = len({(each.topic_names, each.topic_regex) for each in members.values()}) == 1
        assigned = assignor.assign(subscriptions, topics, is_homogeneous=is_homogeneous)
        return {
            member_id: {topic_id: frozenset(each) for topic_id, each in assigned.get(member_id, {}).items() if each}
            for member_id in members
        }

    def _names_of(self, metadata: MemberMetadata) -> Iterable[str]:
        """The topics that a member names, and those that its expression selects."""
        selected = self.group.expressions.selected(metadata.topic_regex)
        return {*metadata.topic_names, *selected} if selected else metadata.topic_names


def preferred_assignor(members: Iterable[MemberMetadata], assignors: Mapping[str, Assignor]) -> str:
    """The assignor that most members prefer; the first one if no member has a preference."""
    preferred = Counter(each.server_assignor for each in members if each.server_assignor in assignors)
    return preferred.most_common(1)[0][0] or "" if preferred else next(iter(assignors))
