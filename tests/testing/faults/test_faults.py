"""Faults of a running broker, over the wire."""

import asyncio
import gc
import time
from pathlib import Path
from typing import Any

import pytest

from harness.client import Client, batch, fetch_request, frame, produce_request
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.heartbeat import HeartbeatRequest
from kafkapy.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafkapy.protocol.messages.list_groups import ListGroupsRequest
from kafkapy.testing.clock.moving import MovingClock
from kafkapy.testing.faults import Faults
from kafkapy.testing.faults.expired_members import UnknownMemberError
from kafkapy.turns import finish
from tests.server.harness import run, until
from tests.testing.faults.faulty import end_of, faulty, faulty_broker, has_no_answer

UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS = 25, 27


def test_rules_match_by_client_api_and_topic(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with faulty(tmp_path) as (faults, _, client):
            await client.create_topic("a")
            by_client = faults.error("INVALID_REQUEST", api="ListGroups", client_id="other")
            by_topic = faults.delay(1, topic="a")
            by_api = faults.delay(1, api="Produce")
            client.send(frame(ListGroupsRequest(), 2, client_id="test"))
            await client.receive()
            client.send(frame(ListGroupsRequest(), 2, client_id="other"))
            assert Client.decode(16, 2, await client.receive()).error_code == 42
            await client.produce("a", batch(b"x"))
            await client.fetch("a")
            assert [rule.fired for rule in (by_client, by_topic, by_api)] == [1, 2, 1]
            faults.clear()
            assert faults.rules == ()

    run(scenario())


@pytest.mark.parametrize(("when", "end"), [("before", 0), ("after", 1)])
def test_a_dropped_connection(tmp_path: Path, when: str, end: int) -> None:
    async def scenario() -> None:
        faults = Faults()
        async with faulty_broker(tmp_path, faults) as broker:
            client = await Client.connect(broker)
            await client.create_topic("a")
            rule = faults.drop(when=when, api="Produce", count=1)
            client.send(frame(_produce("a"), 8))
            assert await client.is_closed()
            assert (rule.fired, rule.is_over) == (1, True)
            assert end_of(broker, "a") == end
            client = await Client.connect(broker)
            assert (await client.produce("a", batch(b"y"))).base_offset == end
            with faults.drop(when="after", api="Fetch"):
                client.send(frame(fetch_request("a"), 11))
                assert await client.is_closed()

    run(scenario())


@pytest.mark.parametrize("is_gone", [False, True], ids=["waits", "is gone"])
def test_the_kill_of_a_paused_broker_is_no_failure_of_its_requests(
    tmp_path: Path, is_gone: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with faulty(tmp_path) as (faults, broker, client):
            faults.pause()
            client.send(frame(ListGroupsRequest(), 2))
            await until(lambda: len(faults.gate.paused) == 1)
            if is_gone:
                client.writer.write_eof()
                await until(lambda: all(each.core.peer_closed for each in broker.listeners[0].connections))
            await broker.kill()
            assert await client.is_closed()

    run(scenario())
    gc.collect()  # asyncio reports an unread exception when it frees the task
    assert caplog.messages == []


def _produce(topic: str) -> Any:
    return produce_request(topic, batch(b"x"))


@pytest.mark.parametrize(("when", "end"), [("before", 0), ("after", 1)])
def test_a_delay_ends_by_the_brokers_clock(tmp_path: Path, when: str, end: int) -> None:
    async def scenario() -> None:
        faults, clock = Faults(), MovingClock()
        async with faulty_broker(tmp_path, faults, clock=clock) as broker:
            client = await Client.connect(broker)
            await client.create_topic("a")
            faults.delay(60_000, when=when, api="Produce")
            client.send(frame(_produce("a"), 8))
            assert await has_no_answer(client)
            assert end_of(broker, "a") == end
            clock.advance(60_000)
            await client.receive()
            assert end_of(broker, "a") == 1
            await client.close()

    run(scenario())


def test_answers_are_held_until_they_are_released(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with faulty(tmp_path) as (faults, broker, client):
            await client.create_topic("a")
            with faults.hold(api="Produce") as rule:
                client.send(frame(_produce("a"), 8))
                await until(lambda: rule.held == 1)
                assert await has_no_answer(client)
                assert end_of(broker, "a") == 1
                rule.release()
                await client.receive()
                client.send(frame(_produce("a"), 8))
                await until(lambda: rule.held == 1)
            await client.receive()
            client.send(frame(CreateTopicsRequest([CreatableTopic("b", 1, 1)], timeout_ms=5000), 5))
            await client.receive()

    run(scenario())


def test_a_removed_rule_does_not_hold_later_answers(tmp_path: Path) -> None:
    async def scenario() -> None:
        faults = Faults()
        async with faulty_broker(tmp_path, faults) as broker:
            client = await Client.connect(broker)
            await client.create_topic("a")
            rule = faults.hold(api="Fetch")
            client.send(frame(fetch_request("a", max_wait_ms=20_000), 11))
            await until(lambda: rule.fired == 1)
            rule.remove()
            other = await Client.connect(broker)
            await other.produce("a", batch(b"x"))
            await client.receive()
            await client.close()
            await other.close()

    run(scenario())


def test_a_paused_broker_handles_no_requests(tmp_path: Path) -> None:
    async def scenario() -> None:
        faults = Faults()
        async with faulty_broker(tmp_path, faults) as broker:
            client, waiting, newer = [await Client.connect(broker) for _ in range(3)]
            await client.create_topic("a")
            waiting.send(frame(fetch_request("a", max_wait_ms=100), 11))
            await until(lambda: len(broker.services.replica_manager.purgatory) == 1)
            with faults.paused():
                client.send(frame(_produce("a"), 8))
                newer.send(frame(ApiVersionsRequest("x", "1"), 4))
                assert await has_no_answer(client)
                await until(lambda: len(broker.services.replica_manager.purgatory) == 0)
                assert await has_no_answer(waiting)
                assert await has_no_answer(newer)
                assert end_of(broker, "a") == 0
            for each in (client, waiting, newer):
                await each.receive()
            for each in (client, waiting, newer):
                await each.close()

    run(scenario())


def test_a_client_that_disconnects_while_it_waits_leaves_no_waits(tmp_path: Path) -> None:
    async def scenario() -> None:
        faults = Faults()
        async with faulty_broker(tmp_path, faults) as broker:
            client = await Client.connect(broker)
            await client.create_topic("a")
            for pauses in (False, True):
                client.send(frame(fetch_request("a", max_wait_ms=200), 11))
                await until(lambda: len(broker.services.replica_manager.purgatory) == 1)
                if pauses:
                    faults.pause()
                    await until(lambda: len(faults.gate.paused) == 1)
                await (client.reset() if pauses else client.close())
                await until(lambda: not faults.gate.paused and not len(broker.services.replica_manager.purgatory))
                client = await Client.connect(broker)
            faults.resume()
            await client.produce("a", batch(b"x"))
            await client.close()
        assert len(asyncio.all_tasks()) == 2, "this one and its limit"

    run(scenario())


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_broker_stops_although_requests_wait(tmp_path: Path, is_killed: bool) -> None:
    async def scenario() -> None:
        faults = Faults()
        faults.delay(80_000_000, api="ListGroups", when="before")
        hold = faults.hold(api="Produce")
        async with faulty_broker(tmp_path, faults) as broker:
            clients = [await Client.connect(broker) for _ in range(4)]
            await clients[0].create_topic("a")
            clients[0].send(frame(ListGroupsRequest(), 2))
            clients[1].send(frame(_produce("a"), 8))
            await until(lambda: hold.held == 1 and len(faults.gate.delayed) == 1)
            faults.pause()
            clients[2].send(frame(ListGroupsRequest(), 2))
            await until(lambda: len(faults.gate.paused) == 1)
            await clients[3].close()
            if is_killed:
                await broker.kill()
        assert not faults.gate.delayed
        assert not hold.held
        for client in clients:
            await client.close()
        with pytest.raises(RuntimeError, match="the broker does not run"):
            faults.expire_member("g")

    run(scenario())


def _join(group: str, member_id: str = "", instance_id: str | None = None) -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol("range", b"")]
    return JoinGroupRequest(group, 60_000, 60_000, member_id, instance_id, "consumer", protocols)


def test_a_member_expires_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        faults = Faults()
        async with faulty_broker(tmp_path, faults) as broker:
            client = await Client.connect(broker)
            assert (await client.ask(FindCoordinatorRequest("g"), 2)).error_code == 0
            first = (await client.ask(_join("g", instance_id="one"), 5)).member_id
            with pytest.raises(UnknownMemberError, match="'nobody' has no such member; its members: none"):
                faults.expire_member("nobody")
            with pytest.raises(UnknownMemberError, match="has no such member; its members: 'one'"):
                faults.expire_member("g", member_id="two")
            other = await Client.connect(broker)
            other.send(frame(_join("g", instance_id="two"), 5))
            await until(lambda: len(finish(broker.services.group_coordinator.describe_group("g")).members) == 2)
            with pytest.raises(UnknownMemberError, match="has more than one member; its members: 'one', 'two'"):
                faults.expire_member("g")
            assert faults.expire_member("g", instance_id="one") == first
            assert Client.decode(11, 5, await other.receive()).error_code == 0
            answer = await client.ask(HeartbeatRequest("g", 1, first, "one"), 3)
            assert answer.error_code == UNKNOWN_MEMBER_ID
            await client.close()
            await other.close()

    run(scenario())


def test_a_test_in_another_thread_sets_and_releases(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with faulty(tmp_path) as (faults, _, client):
            await client.create_topic("a")

            def in_thread() -> None:
                with faults.hold(api="Produce") as rule:
                    deadline_s = time.monotonic() + 10
                    while not rule.held:
                        assert time.monotonic() < deadline_s
                        time.sleep(0.001)
                faults.pause()
                faults.resume()

            thread = asyncio.ensure_future(asyncio.to_thread(in_thread))
            await until(lambda: len(faults.rules) == 1)
            assert (await client.produce("a", batch(b"x"))).error_code == 0
            await thread

    run(scenario())
