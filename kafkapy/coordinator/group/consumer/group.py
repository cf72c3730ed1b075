"""A consumer group of KIP-848: epochs, members, target assignment, and the owners of partitions.

Laws
    1. Only replay changes what the records hold; decisions read it (``heartbeats.py``).
    2. The group epoch grows when members, subscriptions or subscribed topics change. The assignment epoch follows it
       when a target assignment was computed for it, and a member's epoch when the member has nothing left to revoke.
    3. A partition has one owner at most: the member that has it assigned, or that has not revoked it yet.
    4. One decision on the group is made at a time: while its records are computed, appended and replayed, all of which
       may take many steps, further decisions on the group wait (``when_idle``).
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final
from uuid import UUID

from kafkapy.coordinator.group.calls import DEAD, CommitCall, GroupDescription, GroupListing
from kafkapy.coordinator.group.consumer.calls import JOIN_EPOCH, Partitions
from kafkapy.coordinator.group.consumer.expressions import NO_TOPICS, GroupExpressions
from kafkapy.coordinator.group.consumer.members import ConsumerMember, CurrentAssignment, MemberMetadata, MemberState
from kafkapy.coordinator.group.consumer.records import group_tombstones
from kafkapy.coordinator.group.consumer.topics import NO_TOPICS_HASH, KnownTopics
from kafkapy.coordinator.group.group import Group
from kafkapy.coordinator.group.metadata_budget import TOPIC_BYTES, MetadataBudget
from kafkapy.coordinator.runtime import Run
from kafkapy.protocol.errors import ErrorCode
from kafkapy.records.record import Record
from kafkapy.text import text_size
from kafkapy.turns import Steps
from kafkapy.types import TopicPartition

if TYPE_CHECKING:
    from kafkapy.coordinator.group.consumer.sessions import Sessions

FIRST_EPOCH: Final = 1
"""The epoch of a group, and of its target assignment, before its first change; it has no record."""
PROTOCOL_TYPE: Final = "consumer"
GROUP_TYPE: Final = "consumer"
"""The type of the groups of this package, in ListGroups."""
EMPTY, ASSIGNING, RECONCILING, STABLE = STATES = "Empty", "Assigning", "Reconciling", "Stable"
"""The states of a group that exists, as ListGroups names them."""
PARTITION_BYTES: Final = 256
"""The approximate size of a partition in the target and the current assignment of its member."""


class ConsumerGroup(Group):
    """The state of a group whose members leave the assignment to the broker."""

    __slots__ = (
        "epoch", "metadata_hash", "assignment_epoch", "assigned_ms", "members", "static_ids", "targets", "subscribed",
        "preferred_assignors", "expressions", "_has_record", "checked_topics", "known_topics", "_owners", "_sessions",
        "_topic_name", "_run", "_is_dead", "_is_writing", "_is_deciding", "_waiting", "is_unacknowledged",
    )  # fmt: skip

    def __init__(
        self,
        group_id: str,
        sessions: "Sessions",
        topic_name: Callable[[UUID], str | None],
        budget: MetadataBudget,
        run: Run,
    ) -> None:
        super().__init__(group_id, budget)
        self.epoch = FIRST_EPOCH
        self.metadata_hash = NO_TOPICS_HASH
        self.assignment_epoch = FIRST_EPOCH
        self.assigned_ms = 0
        self.members: dict[str, ConsumerMember] = {}
        self.static_ids: dict[str, str] = {}
        """The member ids of static members, by group instance id."""
        self.targets: dict[str, Partitions] = {}
        self.subscribed: Counter[str] = Counter()
        """The topics that members name or expressions select, each with the number of these."""
        self.preferred_assignors: Counter[str] = Counter()
        """The assignors that members prefer, each with their number."""
        self.expressions = GroupExpressions()
        self._has_record = False
        self.checked_topics: object = None
        """The topics of the cluster with which ``metadata_hash`` was last compared."""
        self.known_topics: KnownTopics | None = None
        """Those of ``subscribed`` that exist, if they were read since the names changed."""
        self._owners: dict[tuple[UUID, int], str] = {}
        self._sessions = sessions
        self._topic_name = topic_name
        self._run = run
        self._is_dead = False
        self._is_writing = False
        self._is_deciding = False
        self._waiting: deque[Callable[[], None]] | None = None
        """The decisions that wait; None for none, since an empty deque takes 760 bytes in each of very many groups."""
        self.is_unacknowledged = False
        """Whether the state has records that other replicas may not have: their acknowledgement took too long."""

    def __repr__(self) -> str:
        return f"ConsumerGroup({self.group_id!r}, {self.state}, epoch {self.epoch}, {len(self.members)} members)"

    # State

    @property
    def is_dead(self) -> bool:
        """See ``Group``."""
        return self._is_dead

    @property
    def is_empty(self) -> bool:
        """See ``Group``. A group on which a decision is being made, maybe to add its first member, is not empty."""
        return not self.members and not self._is_dead and not self._is_writing

    @property
    def has_record(self) -> bool:
        """See ``Group``."""
        return self._has_record

    @property
    def state(self) -> str:
        """The state, as ListGroups names it."""
        if self._is_dead:
            return DEAD
        if not self.members:
            return EMPTY
        if self.epoch > self.assignment_epoch:
            return ASSIGNING
        return STABLE if all(map(self._is_reconciled, self.members.values())) else RECONCILING

    def _is_reconciled(self, member: ConsumerMember) -> bool:
        current = member.current
        return current.state is MemberState.STABLE and current.member_epoch == self.assignment_epoch

    def is_free(self, member_id: str, topic_id: UUID, partition: int) -> bool:
        """Whether no other member owns the partition: law 3."""
        return self._owners.get((topic_id, partition), member_id) == member_id

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        """The member with this group instance id."""
        member_id = self.static_ids.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def loaded(self) -> Steps[None]:
        """See ``Group``."""
        return self._sessions.start_all(self)

    def kill(self, error_code: int) -> None:  # noqa: ARG002 - of requests that wait in the group: none does
        """See ``Group``. Requests that wait look for the group again, and get the error from there."""
        self._is_dead = True
        for member in list(self.members.values()):
            self._drop_assigned(member)
            member.stop_timers()
            self._charge(member, -1)
        for target in self.targets.values():
            self._charge_target(target, -1)
        for pattern in list(self.expressions.topics):
            self.replay_expression(pattern, None)
        self.members.clear()
        self.targets.clear()
        self.release_name()

    def tombstones(self, timestamp_ms: int) -> list[Record]:
        """See ``Group``; the group has no members."""
        return group_tombstones(self.group_id, timestamp_ms) if self.has_record else []

    # One decision at a time: law 4

    def when_idle(self, decide: Callable[[], None]) -> None:
        """Call ``decide`` now, or when the decisions before it have ended."""
        if self._waiting is None:
            self._waiting = deque()
        self._waiting.append(decide)
        self._decide_waiting()

    def decide_next(self, decide: Callable[[], None]) -> None:
        """Call ``decide`` before the decisions that wait: it is the second part of the one that is ending."""
        self._waiting = deque((decide, *(self._waiting or ())))

    def write_started(self) -> None:
        """The records of a decision are going to be computed and appended."""
        self._is_writing = True

    def write_ended(self) -> None:
        """The records were replayed, or refused by the log: make the decisions that wait."""
        self._is_writing = False
        self._decide_waiting()

    def _decide_waiting(self) -> None:
        if not self._is_deciding and not self._is_writing:
            self._run(self._decide_in_steps())

    def _decide_in_steps(self) -> Steps[None]:
        """Make the decisions that wait, up to one whose records take longer; there may be one for each member."""
        self._is_deciding = True
        while self._waiting and not self._is_writing:
            self._waiting.popleft()()
            yield
        self._waiting = self._waiting or None
        self._is_deciding = False

    # Replay

    def replay_group(self, epoch: int, metadata_hash: int) -> None:
        """The group has an epoch."""
        self._has_record = True
        self.epoch = epoch
        self.metadata_hash = metadata_hash
        self.checked_topics = None

    def replay_assignment_epoch(self, epoch: int, assigned_ms: int) -> None:
        """The target assignment is of an epoch."""
        self._has_record = True
        self.assignment_epoch = epoch
        self.assigned_ms = assigned_ms

    def replay_member(self, member_id: str, metadata: MemberMetadata) -> None:
        """A member has joined, or has another subscription."""
        member = self._member(member_id)
        self._forget_metadata(member)
        member.metadata = metadata
        self._charge(member, 1)
        self._count_topics(metadata.topic_names, 1)
        self._count_assignor(metadata.server_assignor, 1)
        self.expressions.replay_member(metadata.topic_regex, 1)
        if metadata.instance_id is not None:
            self.static_ids[metadata.instance_id] = member_id

    def replay_leave(self, member_id: str) -> None:
        """A member has left."""
        member = self.members.pop(member_id, None)
        if member is not None:
            member.stop_timers()
            self._drop_assigned(member)
            self._forget_metadata(member)

    def replay_target(self, member_id: str, target: Partitions | None) -> None:
        """A member has a target assignment, or has left."""
        former = self.targets.pop(member_id, None)
        if former is not None:
            self._charge_target(former, -1)
        if target is not None:
            self.targets[member_id] = target
            self._charge_target(target, 1)

    def replay_current(self, member_id: str, current: CurrentAssignment) -> None:
        """A member has a current assignment."""
        member = self._member(member_id)
        former_epoch = member.current.member_epoch
        self._drop_assigned(member)
        member.current = current
        for each in _partitions_of(current):
            self._owners[each] = member_id
        if current.state is not MemberState.UNREVOKED_PARTITIONS or current.member_epoch != former_epoch:
            member.stop_revocation()

    def replay_no_current(self, member_id: str) -> None:
        """A member has no partitions any more."""
        member = self.members.get(member_id)
        if member is not None:
            self._drop_assigned(member)

    def replay_expression(self, pattern: str, topics: frozenset[str] | None, resolved_ms: int = 0) -> None:
        """A regular expression selects the topics, or is not used any more."""
        former = self.expressions.selected(pattern)
        self.expressions.replay_topics(pattern, topics, resolved_ms)
        self._count_topics(topics or NO_TOPICS, 1)
        self._count_topics(former, -1)
        self.budget.used_bytes += TOPIC_BYTES * (len(topics or NO_TOPICS) - len(former))

    def _member(self, member_id: str) -> ConsumerMember:
        member = self.members.get(member_id)
        if member is None:
            self._has_record = True
            self.charge_name()
            member = self.members[member_id] = ConsumerMember(member_id)
            self._charge(member, 1)
        return member

    def _drop_assigned(self, member: ConsumerMember) -> None:
        for each in _partitions_of(member.current):
            if self._owners.get(each) == member.member_id:
                del self._owners[each]
        member.current = CurrentAssignment()

    def _forget_metadata(self, member: ConsumerMember) -> None:
        self._charge(member, -1)
        self._count_topics(member.metadata.topic_names, -1)
        self._count_assignor(member.metadata.server_assignor, -1)
        self.expressions.replay_member(member.metadata.topic_regex, -1)
        instance_id = member.metadata.instance_id
        if instance_id is not None and self.static_ids.get(instance_id) == member.member_id:
            del self.static_ids[instance_id]

    def _count_topics(self, names: Iterable[str], change: int) -> None:
        """Drop names that are not subscribed any more."""
        subscribed = self.subscribed
        for name in names:
            count = subscribed[name] + change
            if count in (0, change):  # it was the last one, or is the first one
                self.known_topics = None
            if count:
                subscribed[name] = count
            else:
                del subscribed[name]

    def _count_assignor(self, name: str | None, change: int) -> None:
        if name is not None:
            self.preferred_assignors[name] += change
            if not self.preferred_assignors[name]:
                del self.preferred_assignors[name]

    def _charge(self, member: ConsumerMember, sign: int) -> None:
        self.budget.used_bytes += sign * (member.metadata.size() + text_size(member.member_id))

    def _charge_target(self, target: Partitions, sign: int) -> None:
        self.budget.used_bytes += sign * PARTITION_BYTES * sum(map(len, target.values()))

    # Offsets

    def commit_error(self, call: CommitCall) -> int:
        """See ``Group``. Without a member's epoch, only a group without members takes commits."""
        if self._is_dead:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if call.generation_id < 0 and not self.members:
            return 0
        member = self.members.get(call.member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not call.has_member_epoch:
            return ErrorCode.UNSUPPORTED_VERSION
        return 0 if self._may_commit(member, call) else ErrorCode.STALE_MEMBER_EPOCH

    def _may_commit(self, member: ConsumerMember, call: CommitCall) -> bool:
        """Whether the epoch is the member's, or an earlier one at which it had all these partitions already."""
        current, epoch = member.current, call.generation_id
        if epoch == current.member_epoch:
            return True
        if not JOIN_EPOCH < epoch < current.member_epoch:
            return False
        since = {
            TopicPartition(self._topic_name(topic_id) or "", partition): assigned_epoch
            for topic_id, partitions in current.assigned.items()
            for partition, assigned_epoch in partitions.items()
        }
        return all(since.get(each, epoch + 1) <= epoch for each in call.offsets)

    def transaction_commit_error(self, call: CommitCall) -> int:
        """See ``Group``."""
        return 0 if call.generation_id < 0 and not call.member_id and not self._is_dead else self.commit_error(call)

    def fetch_error(self, member_id: str | None, member_epoch: int) -> int:
        """The error code of an OffsetFetch that names a member; 0 without one."""
        if member_id is None and member_epoch < 0:
            return 0
        member = self.members.get(member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return 0 if member_epoch == member.current.member_epoch else ErrorCode.STALE_MEMBER_EPOCH

    def touch_member(self, member_id: str) -> None:
        """See ``Group``. Members of consumer groups send heartbeats beside their commits."""

    def retained_since_ms(self, topic: str, committed_ms: int) -> int | None:
        """See ``Group``: from the commit, once no member subscribes to the topic."""
        return None if topic in self.subscribed else committed_ms

    # Administration

    def listing(self) -> GroupListing:
        """See ``Group``."""
        return GroupListing(self.group_id, PROTOCOL_TYPE, self.state, GROUP_TYPE)

    def describe(self) -> Steps[GroupDescription]:
        """See ``Group``. DescribeGroups shows classic groups only; any other is one that does not exist."""
        yield from ()
        return GroupDescription(0, self.group_id, DEAD)

    def delete_error(self) -> int:
        """See ``Group``."""
        if self._is_dead:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return 0 if self.is_empty else ErrorCode.NON_EMPTY_GROUP

    def delete_offsets_error(self) -> int:
        """See ``Group``."""
        return 0

    def is_read(self, topic: str) -> bool:
        """See ``Group``."""
        return topic in self.subscribed


def _partitions_of(current: CurrentAssignment) -> Iterator[tuple[UUID, int]]:
    for assigned in (current.assigned, current.revoking):
        for topic_id, partitions in assigned.items():
            for partition in partitions:
                yield topic_id, partition
