"""The members of a group: who they are, what they support, who leads, who waits."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from kafkapy.clock import TimerHandle
from kafkapy.coordinator.answer import Answer
from kafkapy.coordinator.group.hash_order import in_hash_order
from kafkapy.coordinator.group.metadata_budget import GROUP_MAX_BYTES, TOPIC_BYTES, MetadataBudget, size_of
from kafkapy.coordinator.group.results import JoinCall, JoinedMember, JoinResult, MemberDescription, SyncResult
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.primitives import ProtocolError, Reader
from kafkapy.turns import Steps, finish

# The assignment protocols that the members of a group name, and which of them all can use.
#
# Kafka counts how often its members name a protocol, and takes it for common when that is as often as there are
# members. So one that a member names twice counts for one member too many: the next one that has only that is
# refused.


Protocols = tuple[tuple[str, bytes], ...]
"""What one member names, the most wanted first, and what it says beside each."""


def names_of(protocols: Protocols) -> list[str]:
    """Each as often as it is named."""
    return [name for name, _ in protocols]


class CommonProtocols:
    """Counts of what the members name: ``_mentions`` as Kafka counts, ``_supporters`` each member once."""

    __slots__ = ("_members", "_mentions", "_supporters")

    def __init__(self) -> None:
        self._members = 0
        self._mentions: Counter[str] = Counter()
        self._supporters: Counter[str] = Counter()

    def add(self, protocols: Protocols) -> None:
        """Count what one more member names."""
        names = names_of(protocols)
        self._members += 1
        self._mentions.update(names)
        self._supporters.update(set(names))

    def remove(self, protocols: Protocols) -> None:
        """Take back what was counted for a member."""
        names = names_of(protocols)
        self._members -= 1
        self._mentions.subtract(names)
        self._supporters.subtract(set(names))

    def all_support(self, protocol: str) -> bool:
        """Whether every member names ``protocol``."""
        return self._supporters[protocol] == self._members

    def accept(self, protocols: Protocols) -> bool:
        """Whether a member with these fits in: one of them counts as common, and one is, so that all can meet."""
        names = names_of(protocols)
        return any(map(self._counts_as_common, names)) and any(map(self.all_support, names))

    def select(self, preferences: Sequence[Protocols]) -> str:
        """The common protocol with the most votes; each of the members votes for the first of its list that is common.

        Of equally many votes those win that come first in Kafka's map of them. Where Kafka counts none as common, or
        takes one that is not, it fails and its group is stuck for good. Here all that are common stand then.
        """
        common = set(filter(self.all_support, names_of(preferences[0])))
        candidates = set(filter(self._counts_as_common, common)) or common
        votes = Counter(next(name for name, _ in protocols if name in candidates) for protocols in preferences)
        return max(in_hash_order(votes), key=votes.__getitem__)

    def _counts_as_common(self, protocol: str) -> bool:
        return self._mentions[protocol] == self._members


class Member:
    """One member. ``session_deadline_ms`` counts on the monotonic clock; the timer may lag behind it."""

    __slots__ = (
        "member_id", "instance_id", "client_id", "client_host", "rebalance_timeout_ms", "session_timeout_ms",
        "protocols", "assignment", "charged_bytes", "joining", "syncing", "is_new", "session_deadline_ms",
        "session_timer",
    )  # fmt: skip

    def __init__(self, member_id: str, call: JoinCall) -> None:
        self.member_id = member_id
        self.instance_id = call.instance_id
        self.client_id = call.client_id
        self.client_host = call.client_host
        self.rebalance_timeout_ms = call.rebalance_timeout_ms
        self.session_timeout_ms = call.session_timeout_ms
        self.protocols: Protocols = call.protocols
        self.assignment = b""
        self.charged_bytes = 0
        self.joining: Answer[JoinResult] | None = None
        self.syncing: Answer[SyncResult] | None = None
        self.is_new = False
        self.session_deadline_ms = 0.0
        self.session_timer: TimerHandle | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for an answer, so that it can't send heartbeats."""
        return self.joining is not None or self.syncing is not None

    def metadata(self, protocol: str) -> bytes:
        """What it sent beside ``protocol``."""
        return next(metadata for name, metadata in self.protocols if name == protocol)

    def describe(self, protocol: str | None) -> MemberDescription:
        """Return its row in DescribeGroups; what it assigns and knows is shown only with the group's ``protocol``."""
        metadata, assignment = b"", b""
        if protocol is not None:
            # it may have named other protocols since the group was found: descriptions are made in steps
            metadata = next((metadata for name, metadata in self.protocols if name == protocol), b"")
            assignment = self.assignment
        return MemberDescription(
            self.member_id, self.instance_id, self.client_id, self.client_host, metadata, assignment
        )

    def answer_join(self, result: JoinResult) -> None:
        """Answer its JoinGroup, if one waits."""
        if self.joining is not None:
            joining, self.joining = self.joining, None
            joining.set(result)

    def answer_sync(self, result: SyncResult) -> bool:
        """Answer its SyncGroup; False when none waits."""
        if self.syncing is None:
            return False
        syncing, self.syncing = self.syncing, None
        syncing.set(result)
        return True

    def wait_for_join(self) -> Answer[JoinResult]:
        """Keep a JoinGroup for later; an older one of the same member is sent off, since one answer is enough."""
        self.answer_join(JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, self.member_id))
        self.joining = Answer()
        return self.joining

    def wait_for_sync(self) -> Answer[SyncResult]:
        """Keep a SyncGroup for later; an older one of the same member is sent off."""
        self.answer_sync(SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
        self.syncing = Answer()
        return self.syncing


class Members(Mapping[str, Member]):
    """Members by id, in the order in which they joined. Law 4 of ``states.py`` is kept here."""

    __slots__ = ("_by_id", "_budget", "common_protocols", "static_ids", "leader_id", "used_bytes")

    def __init__(self, budget: MetadataBudget | None = None) -> None:
        self._budget = budget or MetadataBudget()
        self._by_id: dict[str, Member] = {}
        self.used_bytes = 0
        """What the members take of the budget."""
        self.common_protocols = CommonProtocols()
        self.static_ids: dict[str, str] = {}
        self.leader_id: str | None = None

    def __getitem__(self, member_id: str) -> Member:
        return self._by_id[member_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_id)

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, member_id: object) -> bool:
        return member_id in self._by_id

    def all(self) -> list[Member]:
        """A list that stays as it is while members come and go."""
        return list(self._by_id.values())

    def add(self, member: Member) -> None:
        """Take a member in; the first one leads."""
        assert member.member_id not in self._by_id
        self._by_id[member.member_id] = member
        self.common_protocols.add(member.protocols)
        self._charge_all(member)
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id

    def remove(self, member_id: str) -> None:
        """Forget a member, if it is one; the next in line leads."""
        member = self._by_id.pop(member_id, None)
        if member is None:
            return
        self.common_protocols.remove(member.protocols)
        self._release(member)
        if member.session_timer is not None:
            member.session_timer.cancel()
            member.session_timer = None
        if member.instance_id is not None and self.static_ids.get(member.instance_id) == member_id:
            del self.static_ids[member.instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self._by_id), None)

    def replace_static(self, instance_id: str, new_member_id: str) -> Member:
        """Hand the place of a static member to its new incarnation; whoever held it loses it."""
        old_member_id = self.static_ids[instance_id]
        member = self._by_id[old_member_id]
        # the order of joining is kept: a restart does not change who comes next as leader
        self._by_id = {
            new_member_id if member_id == old_member_id else member_id: each for member_id, each in self._by_id.items()
        }
        member.member_id = new_member_id
        self.static_ids[instance_id] = new_member_id
        if self.leader_id == old_member_id:
            self.leader_id = new_member_id
        return member

    def is_fenced(self, member_id: str, instance_id: str | None) -> bool:
        """Whether another member id stands behind ``instance_id``."""
        if instance_id is None:
            return False
        known = self.static_ids.get(instance_id)
        return known is not None and known != member_id

    def waiting_for_join(self) -> int:
        """How many have joined the coming generation."""
        return sum(member.joining is not None for member in self._by_id.values())

    def elect_joined_leader(self) -> bool:
        """Let a member lead that has joined the coming generation; False when none has."""
        if self.leader_id is None or self._by_id[self.leader_id].joining is not None:
            return True
        for member_id, member in self._by_id.items():
            if member.joining is not None:
                self.leader_id = member_id
                return True
        return False

    def rebalance_timeout_ms(self) -> int:
        """The longest that any member may take to join again."""
        return max((member.rebalance_timeout_ms for member in self._by_id.values()), default=0)

    def change_protocols(self, member: Member, protocols: Protocols) -> None:
        """Take over what a member supports now."""
        self.common_protocols.remove(member.protocols)
        member.protocols = protocols
        self.common_protocols.add(protocols)
        self._charge_all(member)

    def assign(self, member: Member, assignment: bytes) -> None:
        """Take over the part of the group's work that a member has."""
        self._charge(member, len(assignment) - len(member.assignment))
        member.assignment = assignment

    def lacks_room(self, protocols: Protocols, member_id: str) -> bool:
        """Whether the budget has no room for a member with these protocols, be it new or one that joins again."""
        member = self._by_id.get(member_id)
        known_bytes = 0 if member is None else member.charged_bytes - len(member.assignment)
        return not self._has_room(size_of(protocols) - known_bytes)

    def lacks_room_for(self, assignments: Mapping[str, bytes]) -> bool:
        """Whether the budget has no room for an assignment of these parts, in the place of the present one."""
        known_bytes = sum(len(member.assignment) for member in self._by_id.values())
        return not self._budget.has_room(sum(map(len, assignments.values())) - known_bytes)

    def record_size(self, protocol: str, assignments: Mapping[str, bytes]) -> int:
        """Return the bytes of what all say beside ``protocol``, and of their assignments: what one record must hold."""
        subscriptions = sum(len(member.metadata(protocol)) for member in self._by_id.values())
        return subscriptions + sum(map(len, assignments.values()))

    def _has_room(self, size: int) -> bool:
        return self._budget.has_room(size) and (size <= 0 or self.used_bytes + size <= GROUP_MAX_BYTES)

    def release_all(self) -> None:
        """The group is gone: its members count no more."""
        for member in self._by_id.values():
            self._release(member)

    def _charge(self, member: Member, size: int) -> None:
        """Count ``size`` bytes more for the member, or fewer."""
        member.charged_bytes += size
        self.used_bytes += size
        self._budget.used_bytes += size

    def _charge_all(self, member: Member) -> None:
        self._charge(member, size_of(member.protocols) + len(member.assignment) - member.charged_bytes)

    def _release(self, member: Member) -> None:
        self._charge(member, -member.charged_bytes)

    def select_protocol(self) -> str:
        """What all support and most want."""
        return self.common_protocols.select([member.protocols for member in self._by_id.values()])

    def joined(self, protocol: str) -> tuple[JoinedMember, ...]:
        """What the leader is told."""
        return tuple(
            JoinedMember(member.member_id, member.instance_id, member.metadata(protocol))
            for member in self._by_id.values()
        )


# Reads which topics consumers subscribe to, out of the metadata with which they join.
#
# The metadata of protocol type ``consumer`` is ConsumerProtocolSubscription: an int16 version, then the fields of that
# version, of which version 0 (an array of topics, then bytes) is the prefix of all. Only that prefix is read, so that
# clients of any future version are understood.


CONSUMER_PROTOCOL_TYPE = "consumer"
TOPICS_IN_A_STEP: Final = 512


def read_topics(metadata: bytes, topics: set[str]) -> Steps[None]:
    """Add the topics of one member's metadata to ``topics``; raise ``ProtocolError`` when it is something else."""
    reader = Reader(memoryview(metadata))
    reader.read_int16()  # any version, negative ones too
    remaining = reader.read_count()
    while remaining:
        count = min(remaining, TOPICS_IN_A_STEP)
        topics.update(reader.read_strings(count))
        remaining -= count
        yield
    reader.read_nullable_bytes()


def topics_of(metadata: bytes) -> set[str]:
    """Return the topics of one member's metadata; raise ``ProtocolError`` when it is something else."""
    topics: set[str] = set()
    finish(read_topics(metadata, topics))
    return topics


def subscribed_topics(
    protocol_type: str | None, protocol_name: str | None, subscriptions: Sequence[bytes], budget: MetadataBudget
) -> Steps[AbstractSet[str] | None]:
    """Return the topics of all ``subscriptions``, which are the members' metadata of the chosen protocol.

    None when that can't be known, also because ``budget`` has no room for so many.
    """
    if protocol_type != CONSUMER_PROTOCOL_TYPE:
        return None
    topics: set[str] = set()
    if protocol_name is not None:
        try:
            for metadata in subscriptions:
                for _ in read_topics(metadata, topics):
                    if not budget.has_room(TOPIC_BYTES * len(topics)):
                        return None
                    yield
        except ProtocolError:
            return None
    return topics
