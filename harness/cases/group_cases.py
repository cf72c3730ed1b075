"""Conversations with a group coordinator in every version of every API, for a broker that has topics ``t`` and ``u``.

``group_answers.json`` holds what Apache Kafka 2.7.2 answered, field by field
(``compat_tests/groups/record_group_answers.py``). Each conversation has a group of its own, called ``G`` there; random
ids are numbered in the order in which they appear.
"""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from harness.wire import Wire
from kafkapy.protocol.message import Message
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkapy.protocol.messages.delete_groups import DeleteGroupsRequest
from kafkapy.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.heartbeat import HeartbeatRequest
from kafkapy.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafkapy.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kafkapy.protocol.messages.list_groups import ListGroupsRequest
from kafkapy.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

RANGE: Final = b"\x00\x00\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff"
JOIN, SYNC, HEARTBEAT, LEAVE, DESCRIBE, LIST, DELETE, FIND = 7, 5, 4, 4, 5, 4, 2, 3
"""The last version of each API in 2.7.2."""
OPERATIONS_FROM = 3
WAITS = "(waits)"
SAID: Final = "(a sentence)"
LONGEST: Final = 100
NOT_AVAILABLE, UNKNOWN_MEMBER = 15, 25
UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
SKIPPED: Final = ("unknown_tagged_fields", "host", "port", "node_id", "throttle_time_ms", "topic_id")


class Talk:
    """One conversation: requests on a first or a second connection, and a transcript of the answers."""

    def __init__(self, first: Wire, second: Wire, group: str, patience_s: float) -> None:
        self.group = group
        self._patience_s = patience_s
        self.transcript: list[Any] = []
        self._connections = (first, second)
        self._drawn: dict[str, str] = {}

    def ask(self, request: Message, version: int, on: int = 0) -> Any:
        self.send(request, version, on)
        return self.receive(on)

    def send(self, request: Message, version: int, on: int = 1) -> None:
        self._connections[on].send(request, version)

    def wait(self, request: Message, version: int, on: int = 1) -> None:
        """Send a request that has to wait; the transcript says whether it did."""
        self.send(request, version, on)
        self.transcript.append([] if self._connections[on].has_answer(self._patience_s) else [WAITS])

    def receive(self, on: int = 1) -> Any:
        response = self._connections[on].receive()
        self.transcript.append([type(response).__name__, self.plain(response)])
        return response

    def plain(self, value: Any) -> Any:
        """A message as JSON values."""
        if isinstance(value, list):
            return [self.plain(each) for each in value]
        if isinstance(value, Message):
            fields = {slot: self.plain(getattr(value, slot)) for slot in value.__slots__ if slot not in SKIPPED}
            said = fields.get("error_message")
            return fields | ({} if said in (None, "NONE") else {"error_message": SAID})
        if isinstance(value, bytes):
            return value.decode("latin-1")
        if isinstance(value, str):
            drawn = UUID.sub(lambda found: self._drawn.setdefault(found[0], f"<{len(self._drawn) + 1}>"), value)
            named = drawn.replace(self.group, "G") if self.group else drawn
            return named if len(named) <= LONGEST else f"{named[0]} … ({len(named)} characters)"
        return value

    # The requests, with the fields of their version

    def join(self, version: int, member_id: str = "", on: int = 0, **fields: Any) -> Any:
        request = self.join_request(version, member_id, **fields)
        return self.ask(request, version, on)

    def join_request(self, version: int, member_id: str = "", **fields: Any) -> JoinGroupRequest:
        names = fields.pop("names", ("range",))
        metadata = fields.pop("metadata", RANGE)
        if version >= 1:
            fields.setdefault("rebalance_timeout_ms", 10_000)
        defaults: dict[str, Any] = {"group_id": self.group, "session_timeout_ms": 10_000, "protocol_type": "consumer"}
        protocols = [JoinGroupRequestProtocol(name, metadata) for name in names]
        return JoinGroupRequest(**(defaults | fields), member_id=member_id, protocols=protocols)

    def member(self, version: int, **fields: Any) -> Any:
        """Join, with the id that the broker assigns if the version requires one."""
        joined = self.join(version, **fields)
        return self.join(version, joined.member_id, **fields) if joined.error_code == 79 else joined

    def sync(self, version: int, generation: int, member_id: str, **fields: Any) -> Any:
        return self.ask(self.sync_request(version, generation, member_id, **fields), version)

    def sync_request(self, version: int, generation: int, member_id: str, **fields: Any) -> SyncGroupRequest:
        parts = [SyncGroupRequestAssignment(each, part) for each, part in fields.pop("parts", {}).items()]
        if version >= 5:
            fields = {"protocol_type": "consumer", "protocol_name": "range"} | fields
        fields.setdefault("group_id", self.group)
        return SyncGroupRequest(
            generation_id=generation, member_id=member_id, assignments=parts, **fields
        )  # fmt: skip

    def heartbeat(self, version: int, generation: int, member_id: str, instance_id: str | None = None) -> Any:
        return self.ask(HeartbeatRequest(self.group, generation, member_id, instance_id), version)

    def leave(self, version: int, *members: MemberIdentity) -> Any:
        if version >= 3:
            return self.ask(LeaveGroupRequest(self.group, members=list(members)), version)
        return self.ask(LeaveGroupRequest(self.group, members[0].member_id), version)

    def describe(self, version: int = DESCRIBE) -> Any:
        asks = version >= OPERATIONS_FROM
        return self.ask(DescribeGroupsRequest([self.group], include_authorized_operations=asks), version)

    def list(self, version: int = LIST, *states: str) -> None:
        """ListGroups; of the answer this conversation's group alone is kept."""
        self._connections[0].send(ListGroupsRequest(list(states)), version)
        response = self._connections[0].receive()
        response.groups = [group for group in response.groups if group.group_id == self.group]
        self.transcript.append([type(response).__name__, self.plain(response)])

    def stable(self, version: int = 3, **fields: Any) -> str:
        """Settle a group of one member; returns its id."""
        joined = self.member(version, **fields)
        mine = {"group_instance_id": fields["group_instance_id"]} if "group_instance_id" in fields else {}
        if min(version, SYNC) < 3:
            mine = {}
        self.sync(min(version, SYNC), joined.generation_id, joined.member_id, parts={joined.member_id: b"part"}, **mine)
        return str(joined.member_id)


@contextmanager
def connected(bootstrap: str, group: str, *, patience_s: float = 0.1) -> Iterator[Talk]:
    """A conversation with the broker there, once it coordinates the group.

    For a request that must wait the transcript says whether it was answered within ``patience_s``.
    """
    with Wire(bootstrap) as first, Wire(bootstrap) as second:
        find = FindCoordinatorRequest(group)
        nobody = JoinGroupRequest(group, 10_000, 10_000, "nobody", protocol_type="consumer")
        while first.ask(find, 0).error_code == NOT_AVAILABLE or first.ask(nobody, 1).error_code != UNKNOWN_MEMBER:
            first.has_answer(0.1)
        yield Talk(first, second, group, patience_s)


def make_topics(wire: Wire) -> None:
    """Create the topics ``t`` and ``u``; a broker that has just started does not count itself yet (38)."""
    topics = [CreatableTopic(name, num_partitions=2, replication_factor=1) for name in ("t", "u")]
    while 38 in {each.error_code for each in wire.ask(CreateTopicsRequest(topics, timeout_ms=10_000), 4).topics}:
        wire.has_answer(0.1)
    wire.has_answer(0.1)


def comparable(answer: Any) -> Any:
    """A transcript without the order of the lists in its answers, which are sets."""
    if isinstance(answer, list):
        items = [comparable(each) for each in answer]
        is_transcript = any(isinstance(each, list) for each in answer)
        return items if is_transcript else sorted(items, key=json.dumps)
    if isinstance(answer, dict):
        fields = answer.items()  # a recorded answer has no text of errors where only later versions have one
        return {key: comparable(value) for key, value in fields if (key, value) != ("error_message", None)}
    return answer


def whole_life(talk: Talk, version: int) -> None:
    """A group of one from its first join to its deletion, described and listed in every state."""
    described = min(version, DESCRIBE)
    talk.describe(described)
    joined = talk.member(version)
    member_id = joined.member_id
    talk.describe(described)
    talk.list(min(version, LIST))
    talk.heartbeat(min(version, HEARTBEAT), 1, member_id)
    talk.sync(min(version, SYNC), 1, member_id, parts={member_id: b"part", "stranger": b"other"})
    talk.sync(min(version, SYNC), 1, member_id)
    talk.heartbeat(min(version, HEARTBEAT), 1, member_id)
    talk.describe(described)
    talk.list(min(version, LIST))
    talk.join(version, member_id)
    talk.describe(described)
    talk.leave(min(version, LEAVE), MemberIdentity(member_id))
    talk.describe(described)
    talk.list(min(version, LIST))
    talk.ask(DeleteGroupsRequest([talk.group]), min(version, DELETE))
    talk.describe(described)
    talk.list(min(version, LIST))


def two_members(talk: Talk, version: int) -> None:
    """A second member joins, the first rejoins, both are assigned; the follower leaves; the leader is alone again."""
    described, synced, beaten = min(version, DESCRIBE), min(version, SYNC), min(version, HEARTBEAT)
    leader = talk.stable(version)
    given = talk.join(version, on=1).member_id if version >= 4 else ""
    talk.describe(described)
    talk.wait(talk.join_request(version, given), version)
    talk.describe(described)
    talk.heartbeat(beaten, 1, leader)
    talk.sync(synced, 1, leader)
    talk.list(min(version, LIST))
    talk.join(version, leader)
    follower = talk.receive().member_id
    talk.describe(described)
    talk.wait(talk.sync_request(synced, 2, follower), synced)
    talk.sync(synced, 2, leader, parts={leader: b"1", follower: b"2"})
    talk.receive()
    talk.describe(described)
    talk.join(version, follower, on=1)
    talk.wait(talk.join_request(version, follower, metadata=RANGE + b"more"), version)
    talk.heartbeat(beaten, 2, leader)
    talk.leave(min(version, LEAVE), MemberIdentity(leader))
    talk.receive()
    talk.leave(min(version, LEAVE), MemberIdentity(follower))
    talk.describe(described)


def odd_joins(talk: Talk, version: int) -> None:
    """Joins that are refused, in an empty and in a stable group."""
    first: tuple[dict[str, Any], ...] = (
        {"session_timeout_ms": 5_999},
        {"session_timeout_ms": 1_800_001},
        {"member_id": "x", "session_timeout_ms": 10},
        {"member_id": "x"},
        {"names": ()},
        {"protocol_type": ""},
        {"group_id": ""},
        {"group_id": "", "session_timeout_ms": 10},
    )
    for fields in first:
        talk.join(version, **fields)
    talk.stable(version, names=("range", "sticky"))
    later: tuple[dict[str, Any], ...] = (
        {"names": ("other",)},
        {"names": ()},
        {"protocol_type": "connect"},
        {"protocol_type": ""},
        {"member_id": "x"},
        {"member_id": "x", "names": ("other",)},
    )
    for fields in later:
        talk.join(version, **fields)
    talk.describe()


def odd_members(talk: Talk, version: int) -> None:
    """Heartbeats, syncs and leaves of unknown members, or with another generation."""
    beaten, synced, left = min(version, HEARTBEAT), version, min(version, LEAVE)
    talk.heartbeat(beaten, 1, "x")
    talk.sync(synced, 1, "x")
    talk.leave(left, MemberIdentity("x"))
    member_id = talk.stable(version)
    for generation, who in ((0, member_id), (2, member_id), (-1, member_id), (1, "x"), (0, "x"), (1, ""), (-1, "")):
        talk.heartbeat(beaten, generation, who)
        talk.sync(synced, generation, who)
    if version >= 5:
        names: tuple[dict[str, Any], ...] = (
            {"protocol_type": None},
            {"protocol_name": None},
            {"protocol_name": "sticky"},
            {"protocol_type": "connect"},
            {"protocol_type": None, "protocol_name": None},
        )
        for named in names:
            talk.sync(synced, 1, member_id, **named)
            talk.sync(synced, 1, "x", **named)
    talk.leave(left, MemberIdentity("x"))
    talk.leave(left, MemberIdentity(""))
    talk.leave(left, MemberIdentity(member_id))
    talk.heartbeat(beaten, 1, member_id)
    talk.sync(synced, 1, member_id)
    talk.leave(left, MemberIdentity(member_id))


def no_group(talk: Talk, version: int) -> None:
    """Requests without the name of a group."""
    talk.group = ""
    talk.ask(talk.join_request(version), version)
    talk.heartbeat(min(version, HEARTBEAT), 1, "x")
    talk.sync(min(version, SYNC), 1, "x")
    talk.leave(min(version, LEAVE), MemberIdentity("x"))
    talk.ask(DeleteGroupsRequest([""]), min(version, DELETE))
    talk.ask(DescribeGroupsRequest(["x-unknown"]), min(version, DESCRIBE))
    talk.ask(DescribeGroupsRequest([]), min(version, DESCRIBE))


def deletions(talk: Talk, version: int) -> None:
    """Groups with members, groups without, unknown groups; one named twice."""
    member_id = talk.stable()
    talk.ask(DeleteGroupsRequest([talk.group]), version)
    talk.ask(DeleteGroupsRequest([]), version)
    talk.leave(1, MemberIdentity(member_id))
    talk.ask(DeleteGroupsRequest([talk.group, talk.group]), version)
    talk.ask(DeleteGroupsRequest([talk.group]), version)
    talk.stable()


def states_filter(talk: Talk) -> None:
    """ListGroups by state, in each state of a group."""
    wanted: tuple[tuple[str, ...], ...] = (
        (), ("Empty",), ("Stable",), ("PreparingRebalance",), ("CompletingRebalance",), ("Dead",),
        ("stable",), ("Empty", "Stable"), ("Bogus",), ("",),
    )  # fmt: skip

    def all_of_them() -> None:
        for states in wanted:
            talk.list(LIST, *states)

    all_of_them()
    member_id = talk.member(3).member_id
    all_of_them()
    talk.sync(3, 1, member_id)
    talk.heartbeat(3, 1, member_id)  # 2.7.2 answers a moment before it changes the state that lists show
    all_of_them()
    talk.wait(talk.join_request(3), 3)
    all_of_them()
    talk.leave(3, MemberIdentity(member_id))
    other = talk.receive().member_id
    talk.leave(3, MemberIdentity(other))
    all_of_them()


def coordinators(talk: Talk, version: int) -> None:
    """FindCoordinator of groups, and of kinds that don't exist."""
    kinds = (0, 2, -1, 127) if version >= 1 else (0,)
    for kind in kinds:
        talk.ask(FindCoordinatorRequest(talk.group, kind), version)
        talk.ask(FindCoordinatorRequest("", kind), version)


def every_version(name: str, hold: Callable[[Talk, int], None], versions: range) -> dict[str, Callable[[Talk], None]]:
    """The same conversation in each of the versions."""

    def in_version(version: int) -> Callable[[Talk], None]:
        return lambda talk: hold(talk, version)

    return {f"{name} v{version}": in_version(version) for version in versions}


CONVERSATIONS: dict[str, Callable[[Talk], None]] = {
    **every_version("whole life", whole_life, range(JOIN + 1)),
    **every_version("two members", two_members, range(JOIN + 1)),
    **every_version("odd joins", odd_joins, range(JOIN + 1)),
    **every_version("odd members", odd_members, range(SYNC + 1)),
    **every_version("no group", no_group, range(JOIN + 1)),
    **every_version("deletions", deletions, range(DELETE + 1)),
    **every_version("coordinators", coordinators, range(FIND + 1)),
    "states filter": states_filter,
}
