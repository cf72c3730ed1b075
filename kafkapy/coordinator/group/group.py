"""A group: its state, generation, members and offsets. All its moves go through ``move_to``."""

import uuid
from collections.abc import Callable

from kafkapy.clock import TimerHandle
from kafkapy.coordinator.group import states
from kafkapy.coordinator.group.members import Members
from kafkapy.coordinator.group.offsets import Offsets
from kafkapy.coordinator.group.protocols import Protocols
from kafkapy.coordinator.group.results import GroupDescription, GroupListing, MemberDescription
from kafkapy.coordinator.group.states import GroupState
from kafkapy.coordinator.group.subscription import CONSUMER_PROTOCOL_TYPE, subscribed_topics

NO_TIMESTAMP = -1


class Group:
    """One consumer group (or Connect cluster, or whatever uses the protocol), pure state.

    ``state_timestamp_ms`` is the wall-clock time of the last move, -1 when a stored group did not say.
    ``subscribed`` is the topics that the members consume, ``None`` when that can't be known.
    """

    __slots__ = (
        "group_id", "state", "state_timestamp_ms", "generation_id", "protocol_type", "protocol_name", "subscribed",
        "members", "pending", "offsets", "join_timer", "is_in_initial_delay", "has_new_member", "_now_ms",
    )  # fmt: skip

    def __init__(self, group_id: str, now_ms: Callable[[], int]) -> None:
        self.group_id = group_id
        self._now_ms = now_ms
        self.state = states.EMPTY
        self.state_timestamp_ms = NO_TIMESTAMP
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.subscribed: frozenset[str] | None = None
        self.members = Members()
        # ids that were given out with MEMBER_ID_REQUIRED and have not joined yet, with their time-outs
        self.pending: dict[str, TimerHandle] = {}
        self.offsets = Offsets()
        self.join_timer: TimerHandle | None = None
        self.is_in_initial_delay = False
        self.has_new_member = False

    def __repr__(self) -> str:
        members = f"{len(self.members)} members"
        return f"Group({self.group_id!r}, {self.state.value}, generation {self.generation_id}, {members})"

    def move_to(self, state: GroupState) -> None:
        """Change the state, along ``states.MOVES`` only."""
        states.check_move(self.state, state)
        self.state = state
        self.state_timestamp_ms = self._now_ms()

    def restore(self, state: GroupState, state_timestamp_ms: int) -> None:
        """Set the state that the log tells, while it is being read: no move, so no law of moves."""
        self.state = state
        self.state_timestamp_ms = state_timestamp_ms

    @property
    def is_dead(self) -> bool:
        """Whether the group is gone: law 5 of ``states.py``."""
        return self.state is states.DEAD

    @property
    def is_consumer_group(self) -> bool:
        """Whether its members speak the consumer's protocol, so that their subscriptions can be read."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these protocols fits in."""
        if self.state is states.EMPTY:
            return bool(protocol_type) and bool(protocols)
        return self.protocol_type == protocol_type and self.members.common_protocols.accept(protocols)

    def generate_member_id(self, client_id: str, instance_id: str | None) -> str:
        """A new member id in Kafka's form."""
        return f"{client_id if instance_id is None else instance_id}-{uuid.uuid4()}"

    def remove_pending(self, member_id: str) -> bool:
        """Forget an id that was given out; False when it was not."""
        timer = self.pending.pop(member_id, None)
        if timer is None:
            return False
        timer.cancel()
        return True

    def have_all_joined(self) -> bool:
        """Whether the join phase has nobody left to wait for."""
        return not self.pending and self.members.waiting_for_join() == len(self.members)

    def start_next_generation(self) -> None:
        """End the join phase: law 2 of ``states.py``."""
        target = states.COMPLETING if self.members else states.EMPTY
        self.move_to(target)
        self.generation_id += 1
        self.protocol_name = self.members.select_protocol() if self.members else None
        self.update_subscribed()

    def update_subscribed(self) -> None:
        """Work out anew which topics the members consume."""
        self.subscribed = subscribed_topics(self.protocol_type, self.protocol_name, self.members.all())

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member consumes the topic; yes when that can't be known."""
        return self.subscribed is None or topic in self.subscribed

    def listing(self) -> GroupListing:
        """The group's line in ListGroups."""
        return GroupListing(self.group_id, self.protocol_type or "", self.state.value)

    def describe(self) -> GroupDescription:
        """The group in DescribeGroups: what members assign and know is shown only while it is settled."""
        protocol = self.protocol_name if self.state is states.STABLE else None
        members = tuple(
            MemberDescription(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.metadata(protocol) if protocol is not None else b"",
                member.assignment if protocol is not None else b"",
            )
            for member in self.members.values()
        )
        return GroupDescription(0, self.group_id, self.state.value, self.protocol_type or "", protocol or "", members)
