from collections.abc import Iterator
from typing import Any

import pytest

from compat_tests.groups.wire import RANGE, Wire, find_coordinator, join_request, sync_request
from compat_tests.selection.scenarios import IN_KRAFT
from harness.process import Broker
from kafkapy.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkapy.protocol.messages.heartbeat import HeartbeatRequest
from kafkapy.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity

VOTES_IN_JAVAS_MAP = pytest.mark.differs("kafka-4.4.0", reason="of protocols with equally many votes another wins")


@pytest.fixture
def wire(broker: Broker, topic_name: str) -> Iterator[Wire]:
    with Wire(broker.bootstrap) as connection:
        find_coordinator(connection, topic_name)
        yield connection


@pytest.fixture
def second(broker: Broker) -> Iterator[Wire]:
    with Wire(broker.bootstrap) as connection:
        yield connection


@pytest.fixture
def group(topic_name: str) -> str:
    return topic_name


def stable(wire: Wire, group: str, **fields: Any) -> str:
    """A settled group of one member, whose id is returned."""
    joined = wire.ask(join_request(group, **fields), 5 if "group_instance_id" in fields else 1)
    assert joined.error_code == 0
    synced = wire.ask(sync_request(group, 1, joined.member_id, parts={joined.member_id: b"part"}), 0)
    assert (synced.error_code, synced.assignment) == (0, b"part")
    return str(joined.member_id)


def leave(wire: Wire, group: str, *members: MemberIdentity) -> list[int]:
    response = wire.ask(LeaveGroupRequest(group, members=list(members)), 3)
    assert response.error_code == 0
    return [each.error_code for each in response.members]


def heartbeat(wire: Wire, group: str, member_id: str, generation_id: int, instance_id: str | None = None) -> int:
    version = 0 if instance_id is None else 3
    return int(wire.ask(HeartbeatRequest(group, generation_id, member_id, instance_id), version).error_code)


@pytest.mark.parametrize("version", range(8))
def test_join_of_the_first_member(wire: Wire, group: str, version: int) -> None:
    fields: dict[str, Any] = {} if version else {"rebalance_timeout_ms": -1}
    joined = wire.ask(join_request(group, **fields), version)
    if version >= 4:
        assert (joined.error_code, joined.generation_id, joined.leader, joined.members) == (79, -1, "", [])
        assert joined.protocol_name == (None if version >= 7 else "")
        joined = wire.ask(join_request(group, joined.member_id), version)
    assert (joined.error_code, joined.generation_id, joined.protocol_name) == (0, 1, "range")
    assert joined.protocol_type == ("consumer" if version >= 7 else None)
    assert joined.leader == joined.member_id
    assert joined.member_id.startswith("wire-")
    assert len(joined.member_id) == len("wire-") + 36
    assert [(each.member_id, each.metadata) for each in joined.members] == [(joined.member_id, RANGE)]


@pytest.mark.parametrize(
    ("fields", "expected", "member_id"),
    [
        ({"session_timeout_ms": 10}, 26, ""),
        ({"session_timeout_ms": 2_000_000}, 26, ""),
        ({"member_id": "x", "session_timeout_ms": 10}, 26, "x"),
        ({"member_id": "x"}, 25, "x"),
        ({"protocols": ()}, 23, ""),
        ({"protocol_type": ""}, 23, ""),
        ({"group_id": ""}, 24, ""),
        ({"group_id": "", "session_timeout_ms": 10}, 24, ""),
        ({"rebalance_timeout_ms": 0}, 0, None),
        ({"rebalance_timeout_ms": -5}, 0, None),
    ],
)
def test_odd_first_joins(wire: Wire, group: str, fields: dict[str, Any], expected: int, member_id: str | None) -> None:
    joined = wire.ask(join_request(**({"group_id": group} | fields)), 3)
    assert joined.error_code == expected
    if member_id is not None:
        assert (joined.member_id, joined.generation_id, joined.protocol_name) == (member_id, -1, "")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"protocols": ("sticky",)}, 23),
        ({"protocols": ()}, 23),
        ({"protocol_type": "connect"}, 23),
        ({"member_id": "x"}, 25),
        ({"member_id": "x", "group_instance_id": "i"}, 82),
        ({"member_id": "x", "group_instance_id": "other"}, 25),
        ({"member_id": "x", "group_instance_id": "i", "protocols": ("sticky",)}, 23),
    ],
)
def test_odd_joins_of_a_settled_group(wire: Wire, group: str, fields: dict[str, Any], expected: int) -> None:
    stable(wire, group, group_instance_id="i")
    joined = wire.ask(join_request(group, **fields), 5)
    assert (joined.error_code, joined.generation_id, joined.leader) == (expected, -1, "")


def test_a_handed_out_member_id_with_an_instance_id(wire: Wire, group: str) -> None:
    given = wire.ask(join_request(group), 5).member_id
    joined = wire.ask(join_request(group, given, group_instance_id="i"), 5)
    assert (joined.error_code, joined.member_id) == (-1, "")


@pytest.mark.parametrize(
    ("member", "generation_id", "instance_id", "expected"),
    [
        ("known", 1, None, 0),
        ("known", 1, "i", 0),
        pytest.param(
            *("known", 1, "other", 0),
            marks=pytest.mark.differs(
                *IN_KRAFT, reason="an instance id that is not the member's: UNKNOWN_MEMBER_ID (25)"
            ),
        ),
        ("known", 0, None, 22),
        ("known", 0, "i", 22),
        ("x", 1, None, 25),
        ("x", 0, None, 25),
        ("x", 0, "i", 82),
        ("x", 1, "other", 25),
        ("", 1, None, 25),
    ],
)
def test_heartbeat_and_sync_of_a_settled_group(
    wire: Wire, group: str, member: str, generation_id: int, instance_id: str | None, expected: int
) -> None:
    known = stable(wire, group, group_instance_id="i")
    member_id = known if member == "known" else member
    assert heartbeat(wire, group, member_id, generation_id, instance_id) == expected
    request = sync_request(group, generation_id, member_id, group_instance_id=instance_id)
    synced = wire.ask(request, 3)
    assert (synced.error_code, synced.assignment) == (expected, b"" if expected else b"part")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, 23),
        ({"protocol_type": "consumer"}, 23),
        ({"protocol_type": "consumer", "protocol_name": "sticky"}, 23),
        ({"protocol_type": "connect", "protocol_name": "range"}, 23),
        ({"protocol_type": "consumer", "protocol_name": "range"}, 0),
    ],
)
def test_sync_names_the_protocol(wire: Wire, group: str, fields: dict[str, str], expected: int) -> None:
    member_id = stable(wire, group)
    synced = wire.ask(sync_request(group, 1, member_id, **fields), 5)
    name = ("consumer", "range") if expected == 0 else (None, None)
    assert (synced.error_code, synced.protocol_type, synced.protocol_name) == (expected, *name)


def test_requests_for_groups_that_do_not_exist(wire: Wire, group: str) -> None:
    assert heartbeat(wire, group, "x", 1) == 25
    assert wire.ask(sync_request(group, 1, "x"), 0).error_code == 25
    assert leave(wire, group, MemberIdentity("x"), MemberIdentity("", "i")) == [25, 25]
    assert wire.ask(LeaveGroupRequest(group, "x"), 1).error_code == 25
    assert heartbeat(wire, "", "x", 1) == 24
    assert wire.ask(sync_request("", 1, "x"), 0).error_code == 24
    assert wire.ask(LeaveGroupRequest("", "x"), 1).error_code == 24


def test_requests_during_the_join_phase(wire: Wire, second: Wire, group: str) -> None:
    leader = stable(wire, group)
    second.send(join_request(group), 1)
    assert not second.has_answer()
    assert heartbeat(wire, group, leader, 1) == 27
    assert wire.ask(sync_request(group, 1, leader), 0).error_code == 27
    again = wire.ask(join_request(group, leader), 1)
    joined = second.receive()
    assert (again.generation_id, joined.generation_id, joined.leader) == (2, 2, leader)
    assert (len(again.members), joined.members) == (2, [])
    second.send(sync_request(group, 2, joined.member_id), 0)
    assert not second.has_answer()
    assert heartbeat(wire, group, leader, 2) == 0
    done = wire.ask(sync_request(group, 2, leader, parts={joined.member_id: b"2", "stranger": b"3"}), 0)
    assert (done.error_code, done.assignment) == (0, b"")
    assert second.receive().assignment == b"2"


def test_a_member_that_leaves_while_the_leader_assigns(wire: Wire, second: Wire, group: str) -> None:
    leader = stable(wire, group)
    second.send(join_request(group), 1)
    assert not second.has_answer()
    assert wire.ask(join_request(group, leader), 1).generation_id == 2
    joined = second.receive()
    second.send(sync_request(group, 2, joined.member_id), 0)
    assert not second.has_answer()
    assert leave(wire, group, MemberIdentity(leader)) == [0]
    assert second.receive().error_code == 27
    alone = second.ask(join_request(group, joined.member_id), 1)
    assert (alone.error_code, alone.generation_id, alone.leader) == (0, 3, joined.member_id)


def test_a_follower_may_repeat_its_join(wire: Wire, second: Wire, group: str) -> None:
    leader = stable(wire, group)
    second.send(join_request(group), 1)
    assert not second.has_answer()
    wire.ask(join_request(group, leader), 1)
    follower = second.receive().member_id
    again = second.ask(join_request(group, follower), 1)
    assert (again.error_code, again.generation_id, again.leader, again.members) == (0, 2, leader, [])
    again = wire.ask(join_request(group, leader), 1)
    assert (again.generation_id, len(again.members)) == (2, 2)


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [
        pytest.param(("range", "roundrobin"), "roundrobin", marks=VOTES_IN_JAVAS_MAP),
        pytest.param(("roundrobin", "range"), "roundrobin", marks=VOTES_IN_JAVAS_MAP),
        pytest.param(("sticky", "range"), "range", marks=VOTES_IN_JAVAS_MAP),
        (("b", "a"), "a"),
    ],
)
def test_members_with_different_protocols(
    wire: Wire, second: Wire, group: str, wanted: tuple[str, str], chosen: str
) -> None:
    """Each protocol has one vote: the first one in Kafka's map of the votes is chosen."""
    leader = stable(wire, group, protocols=wanted)
    second.send(join_request(group, protocols=wanted[::-1]), 1)
    assert not second.has_answer()
    assert wire.ask(join_request(group, leader, protocols=wanted), 1).protocol_name == chosen
    assert second.receive().protocol_name == chosen


def test_leaving(wire: Wire, group: str) -> None:
    member_id = stable(wire, group, group_instance_id="i")
    given = wire.ask(join_request(group), 5).member_id
    leaving = [
        MemberIdentity("x"),
        MemberIdentity("x", "i"),
        MemberIdentity("x", "other"),
        MemberIdentity(given),
        MemberIdentity("", "i"),
        MemberIdentity(member_id),
    ]
    assert leave(wire, group, *leaving) == [25, 82, 25, 0, 0, 25]
    described = wire.ask(DescribeGroupsRequest([group]), 5).groups[0]
    assert (described.group_state, described.protocol_type, described.members) == ("Empty", "consumer", [])
    joined = wire.ask(join_request(group), 1)
    assert joined.generation_id == 3  # 2 was the empty one


class TestStaticMembers:
    def test_a_restarted_static_member_causes_no_rebalance(self, wire: Wire, group: str) -> None:
        old = stable(wire, group, group_instance_id="i")
        back = wire.ask(join_request(group, group_instance_id="i"), 5)
        assert (back.error_code, back.generation_id, back.leader, back.members) == (0, 1, old, [])
        assert back.member_id.startswith("i-")
        assert wire.ask(sync_request(group, 1, back.member_id, group_instance_id="i"), 3).assignment == b"part"
        assert heartbeat(wire, group, old, 1, "i") == 82
        assert heartbeat(wire, group, old, 1) == 25
        assert wire.ask(join_request(group, old, group_instance_id="i"), 5).error_code == 82

    def test_a_restarted_static_member_with_another_protocol_causes_a_rebalance(self, wire: Wire, group: str) -> None:
        stable(wire, group, group_instance_id="i", protocols=("range", "sticky"))
        back = wire.ask(join_request(group, group_instance_id="i", protocols=("sticky", "range")), 5)
        assert (back.generation_id, back.protocol_name, back.leader) == (2, "sticky", back.member_id)

    def test_a_static_member_that_restarts_in_completing_causes_a_rebalance(self, wire: Wire, group: str) -> None:
        assert wire.ask(join_request(group, group_instance_id="i"), 5).generation_id == 1
        assert wire.ask(join_request(group, group_instance_id="i"), 5).generation_id == 2

    def test_a_waiting_request_of_a_replaced_static_member_is_fenced(
        self, wire: Wire, second: Wire, group: str
    ) -> None:
        stable(wire, group, group_instance_id="i")
        second.send(join_request(group, group_instance_id="j"), 5)
        assert not second.has_answer()
        wire.send(join_request(group, group_instance_id="j"), 5)
        fenced = second.receive()
        assert (fenced.error_code, fenced.generation_id) == (82, -1)
