"""A group: its state, generation, members and offsets. Every change of the state is a call of ``transition_to``."""

import uuid
from collections.abc import Callable
from collections.abc import Set as AbstractSet

from kafkapy.clock import TimerHandle
from kafkapy.coordinator.group import states
from kafkapy.coordinator.group.calls import GroupDescription, GroupListing, MemberDescription
from kafkapy.coordinator.group.members import Members
from kafkapy.coordinator.group.metadata_budget import PENDING_BYTES, TOPIC_BYTES, MetadataBudget
from kafkapy.coordinator.group.offsets import Offsets
from kafkapy.coordinator.group.protocols import CONSUMER_PROTOCOL_TYPE, Protocols, subscribed_topics
from kafkapy.coordinator.group.states import GroupState
from kafkapy.text import text_size
from kafkapy.turns import Steps, pieces
from kafkapy.types import NO_TIMESTAMP


class Group:
    """The state of one consumer group (or Connect cluster, or another user of the group protocol), without I/O.

    ``state_timestamp_ms`` is the wall-clock time of the last transition, -1 if a stored group has none.
    ``subscribed`` is the topics that the members consume; ``None`` if they are not known (yet).
    """

    __slots__ = (
        "group_id", "state", "state_timestamp_ms", "generation_id", "protocol_type", "protocol_name", "subscribed",
        "budget", "members", "pending", "offsets", "phase_timer", "is_in_initial_delay", "has_new_member", "_now_ms",
        "_name_size", "_subscription", "_subscription_bytes",
    )  # fmt: skip

    def __init__(self, group_id: str, now_ms: Callable[[], int], budget: MetadataBudget | None = None) -> None:
        self.group_id = group_id
        self._now_ms = now_ms
        self.state = states.EMPTY
        self.state_timestamp_ms = NO_TIMESTAMP
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.subscribed: AbstractSet[str] | None = None
        self._subscription = 0
        self._subscription_bytes = 0
        self.budget = budget or MetadataBudget()
        self._name_size = 0
        self.members = Members(self.budget)
        # ids that were handed out with MEMBER_ID_REQUIRED and have not joined yet, with their time-outs
        self.pending: dict[str, TimerHandle] = {}
        self.offsets = Offsets()
        self.phase_timer: TimerHandle | None = None
        self.is_in_initial_delay = False
        self.has_new_member = False

    def __repr__(self) -> str:
        members = f"{len(self.members)} members"
        return f"Group({self.group_id!r}, {self.state.value}, generation {self.generation_id}, {members})"

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
        """Whether the group was deleted or unloaded: law 5 of ``states.py``."""
        return self.state is states.DEAD

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

    def charge_name(self) -> None:
        """Count the group id, from the first member on: groups that only have offsets are in the log."""
        if not self._name_size:
            self._name_size = text_size(self.group_id)
            self.budget.used_bytes += self._name_size

    def release_name(self) -> None:
        """Release what the group id takes of the budget; the group is no longer known."""
        self.budget.used_bytes -= self._name_size
        self._name_size = 0

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
        """The group's line in ListGroups."""
        return GroupListing(self.group_id, self.protocol_type or "", self.state.value)

    def describe(self) -> Steps[GroupDescription]:
        """The group in DescribeGroups; metadata and assignments of members are shown only while it is Stable.

        State and members are those at the start of the steps.
        """
        protocol = self.protocol_name if self.state is states.STABLE else None
        state, protocol_type = self.state.value, self.protocol_type or ""
        members: list[MemberDescription] = []
        for piece in pieces(self.members.all()):
            if members:
                yield
            members += [member.describe(protocol) for member in piece]
        return GroupDescription(0, self.group_id, state, protocol_type, protocol or "", tuple(members))
