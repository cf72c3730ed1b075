"""A classic group: its state, generation and members. Every change of the state is a call of ``transition_to``."""

import uuid
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Final

from kafkapy.clock import TimerHandle
from kafkapy.coordinator.group.calls import CommitCall, GroupDescription, GroupListing, MemberDescription
from kafkapy.coordinator.group.classic import states
from kafkapy.coordinator.group.classic.members import Members
from kafkapy.coordinator.group.classic.protocols import CONSUMER_PROTOCOL_TYPE, Protocols, subscribed_topics
from kafkapy.coordinator.group.classic.records import group_tombstone
from kafkapy.coordinator.group.classic.states import GroupState
from kafkapy.coordinator.group.group import Group
from kafkapy.coordinator.group.metadata_budget import PENDING_BYTES, TOPIC_BYTES, MetadataBudget
from kafkapy.protocol.errors import ErrorCode
from kafkapy.records.record import Record
from kafkapy.text import text_size
from kafkapy.turns import Steps, pieces
from kafkapy.types import NO_TIMESTAMP

if TYPE_CHECKING:
    from kafkapy.coordinator.group.classic.rebalance import Rebalancer

GROUP_TYPE: Final = "classic"
"""The type of the groups of this package, in ListGroups."""


class ClassicGroup(Group):
    """The state of one consumer group (or Connect cluster, or another user of the classic protocol), without I/O.

    ``state_timestamp_ms`` is the wall-clock time of the last transition, -1 if a stored group has none.
    ``subscribed`` is the topics that the members consume; ``None`` if they are not known (yet).
    """

    __slots__ = (
        "state", "state_timestamp_ms", "generation_id", "protocol_type", "protocol_name", "subscribed", "members",
        "pending", "phase_timer", "is_in_initial_delay", "has_new_member", "_now_ms", "_rebalancer", "_subscription",
        "_subscription_bytes",
    )  # fmt: skip

    def __init__(
        self, group_id: str, now_ms: Callable[[], int], rebalancer: "Rebalancer", budget: MetadataBudget | None = None
    ) -> None:
        super().__init__(group_id, budget or MetadataBudget(), rebalancer.run)
        self._now_ms = now_ms
        self._rebalancer = rebalancer
        self.state = states.EMPTY
        self.state_timestamp_ms = NO_TIMESTAMP
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.subscribed: AbstractSet[str] | None = None
        self._subscription = 0
        self._subscription_bytes = 0
        self.members = Members(self.budget)
        # ids that were handed out with MEMBER_ID_REQUIRED and have not joined yet, with their time-outs
        self.pending: dict[str, TimerHandle] = {}
        self.phase_timer: TimerHandle | None = None
        self.is_in_initial_delay = False
        self.has_new_member = False

    def __repr__(self) -> str:
        members = f"{len(self.members)} members"
        return f"ClassicGroup({self.group_id!r}, {self.state.value}, generation {self.generation_id}, {members})"

    def transition_to(self, state: GroupState) -> None:
        """Change the state, along ``states.TRANSITIONS`` only."""
        states.check_transition(self.state, state)
        self.state = state
        self.state_timestamp_ms = self._now_ms()

    def restore(
        self,
        state: GroupState,
        state_timestamp_ms: int = NO_TIMESTAMP,
        generation_id: int = 0,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
    ) -> None:
        """Set the fields of a group that is loaded, without members; this is no transition."""
        self.state = state
        self.state_timestamp_ms = state_timestamp_ms
        self.generation_id = generation_id
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self._forget_subscribed()
        self.members.release_all()
        self.members = Members(self.budget)

    @property
    def is_dead(self) -> bool:
        """See ``Group``; law 5 of ``states.py``."""
        return self.state is states.DEAD

    @property
    def is_empty(self) -> bool:
        """See ``Group``."""
        return self.state is states.EMPTY

    @property
    def is_unused(self) -> bool:
        """Whether the group is as a refused request has made it: without members, offsets and a record."""
        return self.is_empty and not self.members and not self.pending and self.offsets.is_empty()

    @property
    def has_record(self) -> bool:
        """See ``Group``. Generation 0 has no record."""
        return self.generation_id > 0

    def tombstones(self, timestamp_ms: int) -> list[Record]:
        """See ``Group``."""
        return [group_tombstone(self.group_id, timestamp_ms)] if self.has_record else []

    def loaded(self) -> Steps[None]:
        """See ``Group``."""
        yield from self.update_subscribed()
        self._rebalancer.loaded(self)

    def kill(self, error_code: int) -> None:
        """See ``Group``."""
        self._rebalancer.kill(self, error_code)

    # The checks of requests

    def member_error(self, member_id: str, instance_id: str | None, generation_id: int) -> int:
        """The checks of every member's request, in Kafka's order: 0, or the error code of the first that fails."""
        if self.state is states.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if instance_id is not None and self.members.is_fenced(member_id, instance_id):
            return ErrorCode.FENCED_INSTANCE_ID
        if member_id not in self.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if generation_id != self.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        return 0

    def commit_error(self, call: CommitCall) -> int:
        """See ``Group``."""
        is_without_group = call.generation_id < 0 and self.state is states.EMPTY
        member_id, instance_id = call.member_id, call.instance_id
        if is_without_group and (instance_id is None or not self.members.is_fenced(member_id, instance_id)):
            return 0
        return self.member_error(member_id, instance_id, call.generation_id) or states.COMMIT_BY_MEMBER[self.state]

    def transaction_commit_error(self, call: CommitCall) -> int:
        """See ``Group``."""
        if self.state is states.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if call.instance_id is not None and self.members.is_fenced(call.member_id, call.instance_id):
            return ErrorCode.FENCED_INSTANCE_ID
        if call.member_id and call.member_id not in self.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if call.generation_id >= 0 and call.generation_id != self.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        return 0

    def touch_member(self, member_id: str) -> None:
        """See ``Group``."""
        member = self.members.find(member_id)
        if member is not None:
            self._rebalancer.touch(member)

    def delete_error(self) -> int:
        """See ``Group``."""
        return states.DELETE[self.state]

    def delete_offsets_error(self) -> int:
        """See ``Group``. The subscriptions of other groups than consumer groups can't be read."""
        return 0 if self.is_empty or self.is_consumer_group else ErrorCode.NON_EMPTY_GROUP

    def is_read(self, topic: str) -> bool:
        """See ``Group``."""
        return not self.is_empty and self.is_subscribed_to(topic)

    def retained_since_ms(self, topic: str, committed_ms: int) -> int | None:
        """See ``Group`` (KIP-211).

        * Of consumers without group management: from the commit.
        * Of a group without members: from when it became Empty.
        * Of a Stable consumer group: offsets of topics without a subscriber, from the commit. During a rebalance none,
          since members that have not joined yet may subscribe to any topic (KAFKA-13636).
        * Of any other group with members (its subscriptions can't be read): none.
        """
        if self.protocol_type is None:
            return committed_ms
        if self.state is states.EMPTY:
            return committed_ms if self.state_timestamp_ms == NO_TIMESTAMP else self.state_timestamp_ms
        is_used = self.state is not states.STABLE or self.is_subscribed_to(topic)
        return None if is_used else committed_ms

    # The join phase

    @property
    def is_consumer_group(self) -> bool:
        """Whether the protocol type is the consumers', so that subscriptions can be read."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these protocols may join."""
        if self.state is states.EMPTY:
            return bool(protocol_type) and bool(protocols)
        return self.protocol_type == protocol_type and self.members.common_protocols.accept(protocols)

    def generate_member_id(self, client_id: str, instance_id: str | None) -> str:
        """A new member id in Kafka's form."""
        return f"{client_id if instance_id is None else instance_id}-{uuid.uuid4()}"

    def add_pending(self, member_id: str, timer: TimerHandle) -> None:
        """Keep an id that was handed out, and its time-out."""
        self.charge_name()
        self.pending[member_id] = timer
        self.budget.used_bytes += PENDING_BYTES + text_size(member_id)

    def end(self) -> None:
        """Stop the time-outs of pending ids and release the memory budget; the group is no longer served."""
        for timer in self.pending.values():
            timer.cancel()
        self.budget.used_bytes -= PENDING_BYTES * len(self.pending) + text_size(*self.pending)
        self.pending.clear()
        self.release_name()
        self._forget_subscribed()
        self.members.release_all()

    def remove_pending(self, member_id: str) -> bool:
        """Forget an id that was handed out; False if it is not pending."""
        timer = self.pending.pop(member_id, None)
        if timer is None:
            return False
        timer.cancel()
        self.budget.used_bytes -= PENDING_BYTES + text_size(member_id)
        return True

    def have_all_joined(self) -> bool:
        """Whether every member and every pending id has joined the coming generation."""
        return not self.pending and self.members.waiting_for_join() == len(self.members)

    def start_next_generation(self) -> None:
        """End the join phase: law 2 of ``states.py``."""
        target = states.COMPLETING if self.members else states.EMPTY
        self.transition_to(target)
        self.generation_id += 1
        self.protocol_name = self.members.select_protocol() if self.members else None

    def update_subscribed(self) -> Steps[None]:
        """Read the subscribed topics from the members' metadata again; a later call ends an earlier one."""
        number = self._forget_subscribed()
        protocol = self.protocol_name
        known = [] if protocol is None else [member.metadata(protocol) for member in self.members.values()]
        steps = subscribed_topics(self.protocol_type, protocol, known, self.budget)
        topics = None
        while number == self._subscription:
            try:
                next(steps)
            except StopIteration as end:
                topics = end.value
                break
            yield
        if topics is not None:
            self.subscribed = topics
            self._subscription_bytes = TOPIC_BYTES * len(topics)
            self.budget.used_bytes += self._subscription_bytes

    def _forget_subscribed(self) -> int:
        """Forget the subscribed topics; returns the number of the next attempt to read them."""
        self.subscribed = None
        self.budget.used_bytes -= self._subscription_bytes
        self._subscription_bytes = 0
        self._subscription += 1
        return self._subscription

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member consumes the topic; True if the subscriptions are not known."""
        return self.subscribed is None or topic in self.subscribed

    def listing(self) -> GroupListing:
        """See ``Group``."""
        return GroupListing(self.group_id, self.protocol_type or "", self.state.value, GROUP_TYPE)

    def describe(self) -> Steps[GroupDescription]:
        """See ``Group``. Metadata and assignments of members are shown only while the group is Stable."""
        protocol = self.protocol_name if self.state is states.STABLE else None
        state, protocol_type = self.state.value, self.protocol_type or ""
        members: list[MemberDescription] = []
        for piece in pieces(self.members.all()):
            if members:
                yield
            members += [member.describe(protocol) for member in piece]
        return GroupDescription(0, self.group_id, state, protocol_type, protocol or "", tuple(members))


def as_classic(group: Group) -> ClassicGroup:
    """The group, which must be a classic one, as all groups are so far."""
    assert isinstance(group, ClassicGroup)
    return group
