"""The members of a group: their sessions, protocols and assignments, the leader, and the requests that wait."""

from collections.abc import Iterator, Mapping

from kafkapy.clock import TimerHandle
from kafkapy.coordinator.answer import Answer
from kafkapy.coordinator.group.calls import MemberDescription
from kafkapy.coordinator.group.classic.calls import JoinCall, JoinedMember, JoinResult, SyncResult
from kafkapy.coordinator.group.classic.protocols import CommonProtocols, Protocols
from kafkapy.coordinator.group.metadata_budget import GROUP_MAX_BYTES, MetadataBudget, size_of
from kafkapy.protocol.errors import ErrorCode
from kafkapy.text import text_size


class Member:
    """One member. ``session_deadline_ms`` is on the monotonic clock; the timer may fire earlier (``rebalance.py``).

    ``has_synced`` tells whether a SyncGroup has come since the last join phase, or is not expected.
    """

    __slots__ = (
        "member_id", "instance_id", "client_id", "client_host", "rebalance_timeout_ms", "session_timeout_ms",
        "protocols", "assignment", "charged_bytes", "joining", "syncing", "is_new", "has_synced",
        "session_deadline_ms", "session_timer",
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
        self.has_synced = False
        self.session_deadline_ms = 0.0
        self.session_timer: TimerHandle | None = None

    @property
    def ids_size(self) -> int:
        """The bytes of the member's ids and its host."""
        return text_size(self.member_id, self.instance_id, self.client_id, self.client_host)

    @property
    def is_waiting(self) -> bool:
        """Whether a request of the member waits, so that its client sends no heartbeats."""
        return self.joining is not None or self.syncing is not None

    def metadata(self, protocol: str) -> bytes:
        """The metadata that the member sent for ``protocol``."""
        return next(metadata for name, metadata in self.protocols if name == protocol)

    def describe(self, protocol: str | None) -> MemberDescription:
        """The member in DescribeGroups; metadata and assignment are shown only with the group's ``protocol``."""
        metadata, assignment = b"", b""
        if protocol is not None:
            # the description is made in steps: the member may have joined again with other protocols
            metadata = next((metadata for name, metadata in self.protocols if name == protocol), b"")
            assignment = self.assignment
        return MemberDescription(
            self.member_id, self.instance_id, self.client_id, self.client_host, metadata, assignment
        )

    def answer_join(self, result: JoinResult) -> None:
        """Answer the JoinGroup that waits, if any."""
        if self.joining is not None:
            joining, self.joining = self.joining, None
            joining.set(result)

    def answer_sync(self, result: SyncResult) -> bool:
        """Answer the SyncGroup that waits; False if there is none."""
        if self.syncing is None:
            return False
        syncing, self.syncing = self.syncing, None
        syncing.set(result)
        return True

    def wait_for_join(self) -> Answer[JoinResult]:
        """Let a JoinGroup wait; an older one of the same member is answered with REBALANCE_IN_PROGRESS."""
        self.answer_join(JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, self.member_id))
        self.joining = Answer()
        return self.joining

    def wait_for_sync(self) -> Answer[SyncResult]:
        """Let a SyncGroup wait; an older one of the same member is answered with REBALANCE_IN_PROGRESS."""
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
        """The bytes of the budget that the members use."""
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

    def find(self, member_id: str) -> Member | None:
        """The member with this id, if there is one: a third of the time of ``get``."""
        return self._by_id.get(member_id)

    def all(self) -> list[Member]:
        """A copy, for loops that add or remove members."""
        return list(self._by_id.values())

    def add(self, member: Member) -> None:
        """Add a member; the first one is the leader."""
        assert member.member_id not in self._by_id
        self._by_id[member.member_id] = member
        self.common_protocols.add(member.protocols)
        self._charge_all(member)
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id

    def restore_leader(self, member_id: str | None) -> None:
        """Make the stored leader the leader again; if it is not a member, the first member stays the leader."""
        if member_id in self._by_id:
            self.leader_id = member_id

    def remove(self, member_id: str) -> None:
        """Remove the member with this id, if there is one; the member that joined after a removed leader leads."""
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
        """Give a static member that has restarted its new member id; the old id is fenced from now on."""
        old_member_id = self.static_ids[instance_id]
        member = self._by_id[old_member_id]
        # the order of joining is kept: a restart does not change the next leader
        self._by_id = {
            new_member_id if member_id == old_member_id else member_id: each for member_id, each in self._by_id.items()
        }
        member.member_id = new_member_id
        self._charge_all(member)
        self.static_ids[instance_id] = new_member_id
        if self.leader_id == old_member_id:
            self.leader_id = new_member_id
        return member

    def forget_static(self, instance_id: str) -> None:
        """Forget a group instance id, whose member was removed or has another id."""
        self.static_ids.pop(instance_id, None)

    def is_fenced(self, member_id: str, instance_id: str | None) -> bool:
        """Whether ``instance_id`` belongs to another member id."""
        if instance_id is None:
            return False
        known = self.static_ids.get(instance_id)
        return known is not None and known != member_id

    def waiting_for_join(self) -> int:
        """The number of members that have joined the coming generation."""
        return sum(member.joining is not None for member in self._by_id.values())

    def elect_joined_leader(self) -> bool:
        """Make a member that has joined the coming generation the leader; False if none has joined."""
        if self.leader_id is None or self._by_id[self.leader_id].joining is not None:
            return True
        for member_id, member in self._by_id.items():
            if member.joining is not None:
                self.leader_id = member_id
                return True
        return False

    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance time-out of any member."""
        return max((member.rebalance_timeout_ms for member in self._by_id.values()), default=0)

    def change_protocols(self, member: Member, protocols: Protocols) -> None:
        """Replace the protocols of a member, and count them."""
        self.common_protocols.remove(member.protocols)
        member.protocols = protocols
        self.common_protocols.add(protocols)
        self._charge_all(member)

    def assign(self, member: Member, assignment: bytes) -> None:
        """Set the assignment of a member, and charge its size to the budget."""
        self._charge(member, len(assignment) - len(member.assignment))
        member.assignment = assignment

    def lacks_room(self, call: JoinCall) -> bool:
        """Whether the budget has no room for a new member, or for the protocols of one that joins again."""
        member_id = call.member_id or self.static_ids.get(call.instance_id or "", "")
        member = self._by_id.get(member_id)
        if member is not None:
            known_size = member.charged_bytes - len(member.assignment) - member.ids_size
            return not self._has_room(size_of(call.protocols) - known_size)
        member_id = member_id or call.instance_id or call.client_id  # the new id is this and a UUID, which is left out
        ids_size = text_size(member_id, call.instance_id, call.client_id, call.client_host, call.group_id)
        return not self._has_room(size_of(call.protocols) + ids_size)

    def lacks_room_for(self, assignments: Mapping[str, bytes]) -> bool:
        """Whether the budget has no room for these assignments in place of the present ones."""
        known_bytes = sum(len(member.assignment) for member in self._by_id.values())
        return not self._budget.has_room(sum(map(len, assignments.values())) - known_bytes)

    def record_size(self, protocol: str, assignments: Mapping[str, bytes]) -> int:
        """The bytes of all ids, metadata for ``protocol`` and assignments, which one record must hold."""
        subscriptions = sum(member.ids_size + len(member.metadata(protocol)) for member in self._by_id.values())
        return subscriptions + sum(map(len, assignments.values()))

    def _has_room(self, size: int) -> bool:
        return self._budget.has_room(size) and (size <= 0 or self.used_bytes + size <= GROUP_MAX_BYTES)

    def release_all(self) -> None:
        """Release the budget of all members; the group is no longer served."""
        for member in self._by_id.values():
            self._release(member)

    def _charge(self, member: Member, size: int) -> None:
        """Count ``size`` bytes more for the member, or fewer."""
        member.charged_bytes += size
        self.used_bytes += size
        self._budget.used_bytes += size

    def _charge_all(self, member: Member) -> None:
        size = size_of(member.protocols) + member.ids_size + len(member.assignment)
        self._charge(member, size - member.charged_bytes)

    def _release(self, member: Member) -> None:
        self._charge(member, -member.charged_bytes)

    def select_protocol(self) -> str:
        """The protocol that all members support and most of them prefer."""
        return self.common_protocols.select([member.protocols for member in self._by_id.values()])

    def joined(self, protocol: str) -> tuple[JoinedMember, ...]:
        """The members as the leader's JoinGroup response has them."""
        return tuple(
            JoinedMember(member.member_id, member.instance_id, member.metadata(protocol))
            for member in self._by_id.values()
        )
