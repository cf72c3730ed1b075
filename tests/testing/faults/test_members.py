"""Rules that pause the broker or end a member's session, and rules for groups, over the wire."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from harness.client import Client, batch, frame, produce_request
from kafkapy.protocol.messages.delete_groups import DeleteGroupsRequest
from kafkapy.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.heartbeat import HeartbeatRequest
from kafkapy.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafkapy.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kafkapy.protocol.messages.list_groups import ListGroupsRequest
from kafkapy.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafkapy.testing.clock.moving import MovingClock
from kafkapy.testing.faults import Faults
from kafkapy.testing.faults.rules import InvalidFaultError
from kafkapy.turns import finish
from tests.server.harness import run, until
from tests.testing.faults.faulty import end_of, faulty, faulty_broker, has_no_answer

COORDINATOR_NOT_AVAILABLE, UNKNOWN_MEMBER_ID = 15, 25


@pytest.mark.parametrize(("when", "end"), [("before", 1), ("after", 2)])
def test_the_second_produce_pauses_the_broker_for_a_time(tmp_path: Path, when: str, end: int) -> None:
    async def scenario() -> None:
        faults, clock = Faults(), MovingClock()
        async with faulty_broker(tmp_path, faults, clock=clock) as broker:
            client, other = [await Client.connect(broker) for _ in range(2)]
            await client.create_topic("a")
            rule = faults.pause_on(60_000, when=when, api="Produce", nth=2)
            await client.produce("a", batch(b"x"))
            assert not faults.is_paused
            client.send(frame(produce_request("a", batch(b"y")), 8))
            await until(lambda: faults.is_paused)
            other.send(frame(ListGroupsRequest(), 2))
            assert await has_no_answer(client)
            assert await has_no_answer(other)
            assert end_of(broker, "a") == end
            clock.advance(60_000)
            for each in (client, other):
                await each.receive()
                await each.close()
            assert end_of(broker, "a") == 2
            assert (rule.fired, rule.matched, faults.is_paused) == (1, 2, False)

    run(scenario())


@pytest.mark.parametrize("how", ["resume", "release", "remove", "stop"])
def test_a_pause_without_a_duration_lasts_until_it_is_ended(tmp_path: Path, how: str) -> None:
    async def scenario() -> None:
        faults = Faults()
        async with faulty_broker(tmp_path, faults) as broker:
            client = await Client.connect(broker)
            rule = faults.pause_on(api="ListGroups", count=1)
            client.send(frame(ListGroupsRequest(), 2))
            await until(lambda: len(faults.gate.paused) == 1)
            if how != "stop":
                getattr(faults if how == "resume" else rule, how)()
                await client.receive()
                await client.ask(ListGroupsRequest(), 2)
                assert not faults.is_paused
        await client.close()
        faults.resume()
        assert not faults.is_paused

    run(scenario())


def test_a_removed_rule_does_not_pause_the_broker_later(tmp_path: Path) -> None:
    async def scenario() -> None:
        faults, clock = Faults(), MovingClock()
        async with faulty_broker(tmp_path, faults, clock=clock) as broker:
            client = await Client.connect(broker)
            faults.delay(1000, when="before", api="ListGroups")
            rule = faults.pause_on(api="ListGroups")
            client.send(frame(ListGroupsRequest(), 2))
            await until(lambda: rule.fired == 1)
            rule.remove()
            clock.advance(1000)
            await client.receive()
            await client.close()

    run(scenario())


def _join(group: str, member_id: str = "", instance_id: str | None = None) -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol("range", b"")]
    return JoinGroupRequest(group, 60_000, 60_000, member_id, instance_id, "consumer", protocols)


async def _member(client: Client, group: str, instance_id: str | None = None, version: int = 5) -> str:
    """Join a group of one."""
    answer = await client.ask(FindCoordinatorRequest(group), 2)
    assert answer.error_code == 0
    member_id: str = (await client.ask(_join(group, "", instance_id), version)).member_id
    return member_id


async def _beat(client: Client, group: str, member_id: str, generation: int = 1) -> int:
    code: int = (await client.ask(HeartbeatRequest(group, generation, member_id), 3)).error_code
    return code


@pytest.mark.parametrize(("when", "codes"), [("before", [0, 25, 25]), ("after", [0, 0, 25])])
def test_a_members_session_ends_at_its_second_heartbeat(tmp_path: Path, when: str, codes: list[int]) -> None:
    async def scenario() -> None:
        async with faulty(tmp_path) as (faults, _, client):
            mine, others = await _member(client, "g", "one"), await _member(client, "h", "one")
            await client.ask(_sync("g", mine), 3)
            await client.ask(_sync("h", others), 3)
            rule = faults.expire_member_on(when=when, api="Heartbeat", group="g", nth=2)
            assert await _beat(client, "h", others) == 0
            assert [await _beat(client, "g", mine) for _ in range(3)] == codes
            assert await _beat(client, "h", others) == 0
            assert (rule.fired, rule.matched) == (1, 2), "the third says a member that is none any more"

    run(scenario())


def _sync(group: str, member_id: str) -> Any:
    return SyncGroupRequest(group, 1, member_id, assignments=[SyncGroupRequestAssignment(member_id, b"")])


def test_a_produce_ends_the_sessions_of_a_group(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with faulty(tmp_path) as (faults, broker, client):
            await client.create_topic("a")
            rules = [
                faults.expire_member_on("g", api="Produce", count=1),
                faults.expire_member_on("h", instance_id="two", api="Produce"),
                faults.expire_member_on("h", instance_id="one", api="Produce", nth=2),
            ]
            await client.produce("a", batch(b"x"))
            assert [rule.matched for rule in rules] == [0, 0, 0], "nobody is there whose session could end"
            members = [await _member(client, "g", "one"), await _member(client, "h", "one")]
            for at in (1, 2):
                await client.produce("a", batch(b"x"))
                there = [finish(broker.services.group_coordinator.describe_group(group)).members for group in "gh"]
                assert [len(each) for each in there] == [0, 2 - at]
            assert [rule.fired for rule in rules] == [1, 0, 1]
            assert [await _beat(client, "gh"[at], members[at]) for at in range(2)] == [UNKNOWN_MEMBER_ID] * 2

    run(scenario())


def test_the_session_of_a_member_ends_right_after_its_join(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with faulty(tmp_path) as (faults, _, client):
            rule = faults.expire_member_on(when="after", api="JoinGroup", group="g", nth=1)
            member_id = await _member(client, "g")
            assert rule.matched == 0, "it was given an id, and is no member yet"
            assert (await client.ask(_join("g", member_id), 5)).error_code == 0
            assert (rule.fired, rule.is_over) == (1, True)
            assert await _beat(client, "g", member_id) == UNKNOWN_MEMBER_ID

    run(scenario())


def test_a_rule_does_not_count_a_session_that_the_request_has_ended(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with faulty(tmp_path) as (faults, _, client):
            member_id = await _member(client, "g", "one")
            rule = faults.expire_member_on("g", instance_id="one", when="after", api="LeaveGroup")
            left = await client.ask(LeaveGroupRequest("g", members=[MemberIdentity(member_id, "one")]), 4)
            assert left.members[0].error_code == 0
            assert (rule.matched, rule.fired) == (1, 0)

    run(scenario())


def test_an_error_for_a_group_does_not_affect_other_groups(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with faulty(tmp_path) as (faults, _, client):
            one = faults.error("COORDINATOR_NOT_AVAILABLE", api="FindCoordinator", group="g")
            two = faults.error("GROUP_AUTHORIZATION_FAILED", api="DescribeGroups", group="g")
            three = faults.error("NON_EMPTY_GROUP", api="DeleteGroups", group="g", when="after")
            codes = [(await client.ask(FindCoordinatorRequest(group), 2)).error_code for group in "gh"]
            assert codes == [COORDINATOR_NOT_AVAILABLE, 0]
            assert (await client.ask(FindCoordinatorRequest("g", 1), 2)).error_code != COORDINATOR_NOT_AVAILABLE
            for _ in range(2):
                described = await client.ask(DescribeGroupsRequest(["g", "h"]), 5)
                assert {each.group_id: each.error_code for each in described.groups} == {"g": 30, "h": 0}
            deleted = await client.ask(DeleteGroupsRequest(["g", "h"]), 2)
            assert {each.group_id: each.error_code for each in deleted.results} == {"g": 68, "h": 69}
            assert (await client.ask(DescribeGroupsRequest(["h"]), 5)).groups[0].error_code == 0
            assert [rule.fired for rule in (one, two, three)] == [1, 2, 1]

    run(scenario())


def test_rules_about_members_that_could_never_fire_are_refused() -> None:
    faults = Faults()
    with pytest.raises(InvalidFaultError, match="requests of Fetch name no members: give their group as member_of"):
        faults.expire_member_on(api="Fetch")
    with pytest.raises(InvalidFaultError, match="requests of Fetch name no groups: the rule could never match"):
        faults.expire_member_on("g", api="Fetch", group="h")
    with pytest.raises(InvalidFaultError, match="a pause takes more than 0"):
        faults.pause_on(0, api="Fetch")
    assert faults.rules == ()


def test_one_thread_pauses_and_another_resumes(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with faulty(tmp_path) as (faults, _, client):
            await asyncio.to_thread(faults.pause)
            client.send(frame(ListGroupsRequest(), 2))
            assert await has_no_answer(client)
            await asyncio.to_thread(faults.resume)
            await client.receive()

    run(scenario())
