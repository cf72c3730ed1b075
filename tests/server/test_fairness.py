"""No connection blocks the event loop: pipelined and large requests are served in slices, others between them."""

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

from harness.client import Client, batch, frame, values_of
from kafkapy import turns
from kafkapy.network import connection as connection_module
from kafkapy.network.budget import RequestMemory
from kafkapy.network.dispatcher import Waiting
from kafkapy.network.session import Session
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
from kafkapy.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkapy.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafkapy.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkapy.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kafkapy.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkapy.server.dispatch import dispatcher as dispatch_module
from kafkapy.server.dispatch.context import RequestContext, Services
from kafkapy.server.dispatch.interception import Hooks
from kafkapy.server.dispatch.result import Handle, Result
from kafkapy.server.handlers import CLIENT_APIS
from kafkapy.server.lifecycle.broker import BrokerServer
from kafkapy.types import TopicPartition
from tests.server.harness import run, running_broker

SMALL = ApiVersionsRequest()
MANY = 3_000


@pytest.fixture
def short_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make each slice one step long."""
    for module in (turns, connection_module):
        monkeypatch.setattr(module, "FIRST_SLICE_S", 0)
        monkeypatch.setattr(module, "SLICE_S", 0)


def _epochs(count: int) -> OffsetForLeaderEpochRequest:
    asked = [OffsetForLeaderPartition(at, -1, 0) for at in range(count)]
    return OffsetForLeaderEpochRequest(-1, [OffsetForLeaderTopic("t", asked)])


async def _answered_meanwhile(broker: BrokerServer, busy: Awaitable[Any]) -> int:
    """Return how many small requests of a second client were answered until ``busy`` is done."""
    other = await Client.connect(broker)
    await other.ask(SMALL, 0)
    running = asyncio.ensure_future(busy)
    answered = 0
    while not running.done():
        await other.ask(SMALL, 0)
        answered += 1
    await running
    return answered


def test_others_are_served_between_pipelined_requests(tmp_path: Path, short_slices: None) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            client.send(b"".join(frame(SMALL, 0, correlation_id=at) for at in range(MANY)))

            async def receive_all() -> list[int]:
                return [int.from_bytes((await client.receive())[:4]) for _ in range(MANY)]

            received = asyncio.ensure_future(receive_all())
            assert await _answered_meanwhile(broker, received) > 10
            assert received.result() == list(range(MANY))

    run(scenario())


@pytest.mark.parametrize("version", [2, 3])
def test_large_messages_are_decoded_and_encoded_beside_the_loop(tmp_path: Path, version: int) -> None:
    request = _epochs(MANY)
    assert MANY * 3 > dispatch_module.INLINE_STRUCTS

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t", partitions=2)
            for size in (MANY, 10 * MANY):
                request.topics[0].partitions = _epochs(size).topics[0].partitions
                answer = await client.ask(request, version)
                assert [each.partition for each in answer.topics[0].partitions] == list(range(size))
                assert [each.error_code for each in answer.topics[0].partitions[:4]] == [0, 0, 3, 3]

    run(scenario())


@pytest.mark.parametrize("size", [10, 200_000])
def test_a_response_of_many_bytes_waits_while_unread_responses_use_up_the_memory(tmp_path: Path, size: int) -> None:
    """A JoinGroup response has two structs and, for the leader, the metadata of all members."""
    request = JoinGroupRequest("g", 30_000, 30_000, protocol_type="consumer")
    request.protocols = [JoinGroupRequestProtocol("range", bytes(size))]

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            services = broker.services
            client, other = await Client.connect(broker), await Client.connect(broker)
            find = FindCoordinatorRequest("g")
            while (await client.ask(find, 0)).error_code:
                await other.ask(SMALL, 0)
            assert (await client.ask(request, 2)).error_code == 0
            computed = services.compute.run_count
            request.member_id = await _leader_of_one(broker)
            with RequestMemory(services.memory) as unread:
                unread.charge(services.memory.available)
                client.send(frame(request, 2))
                for _ in range(50):
                    await other.ask(SMALL, 0)
                assert services.compute.run_count == computed
                if size > 1000:
                    assert not client.reader._buffer  # type: ignore[attr-defined]  # nothing was sent
            answer = Client.decode(request.API_KEY, 2, await client.receive())
            assert [len(each.metadata) for each in answer.members] == [size]
            assert services.compute.run_count == computed + (size > 1000)

    run(scenario())


def test_the_encoding_of_a_large_response_needs_no_frame_and_ends_with_its_connection(tmp_path: Path) -> None:
    """A connection takes a task for one that needs its request's frame: it would release that of a later request."""
    request = JoinGroupRequest("g", 30_000, 30_000, protocol_type="consumer")
    request.protocols = [JoinGroupRequestProtocol("range", bytes(200_000))]

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            services = broker.services
            client, other = await Client.connect(broker), await Client.connect(broker)
            while (await client.ask(FindCoordinatorRequest("g"), 0)).error_code:
                await other.ask(SMALL, 0)
            assert (await client.ask(request, 2)).error_code == 0
            request.member_id = await _leader_of_one(broker)
            computed = services.compute.run_count
            with RequestMemory(services.memory) as unread:
                unread.charge(services.memory.available)
                content = memoryview(bytearray(frame(request, 2)))[4:]
                reply = dispatch_module.Dispatcher(services, CLIENT_APIS).dispatch(content, Session.local("PLAINTEXT"))
                assert isinstance(reply, Waiting)
                assert not isinstance(reply.future, asyncio.Task)
                reply.future.cancel()
                client.send(frame(request, 2))
                for _ in range(50):
                    await other.ask(SMALL, 0)
                await client.reset()
                for _ in range(50):
                    await other.ask(SMALL, 0)
            for _ in range(50):
                await other.ask(SMALL, 0)
            assert services.compute.run_count == computed

    run(scenario())


async def _leader_of_one(broker: BrokerServer) -> str:
    client = await Client.connect(broker)
    (group,) = (await client.ask(DescribeGroupsRequest(["g"]), 4)).groups
    return str(group.members[0].member_id)


def test_requests_behind_a_large_one_are_answered_after_it(tmp_path: Path, short_slices: None) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            large, small = frame(_epochs(10 * MANY), 2, correlation_id=1), frame(SMALL, 0, correlation_id=2)
            client.send(small + large + small + large)
            sizes = [len(await client.receive()) for _ in range(4)]
            assert [size > 100_000 for size in sizes] == [False, True, False, True]

    run(scenario())


def test_an_invalid_large_request_ends_its_own_connection_only(tmp_path: Path) -> None:
    data = bytearray(frame(_epochs(10 * MANY), 2))
    truncated = (len(data) - 14).to_bytes(4) + data[4:-10]

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client, other = await Client.connect(broker), await Client.connect(broker)
            client.send(truncated)
            assert await client.is_closed()
            assert broker.services.metrics.connections_failed == 1
            await other.ask(SMALL, 0)

    run(scenario())


def test_a_message_beyond_the_budget_ends_its_connection(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            client.send(frame(_epochs(400_000), 2))
            assert await client.is_closed()

    run(scenario())


def test_a_few_large_requests_are_served_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []
    most: list[int] = []

    async def counted(steps: Any) -> Any:
        decoded.append(1)
        most.append(len(decoded))
        try:
            return await turns.in_turns(steps)
        finally:
            decoded.pop()

    monkeypatch.setattr(dispatch_module, "in_turns", counted)

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            clients = [await Client.connect(broker) for _ in range(6)]
            for client in clients:
                client.send(frame(_epochs(10 * MANY), 2))
            for client in clients:
                assert len(await client.receive()) > 100_000
            assert max(most) <= dispatch_module.LARGE_AT_ONCE
            assert len(most) == len(clients)

    run(scenario())


class _Admitting:
    """Lets every request through."""

    def start(self, services: Services) -> None: ...

    def handle(self, context: RequestContext, request: Any, handle: Handle) -> Result:
        return handle(context, request)

    def stop(self) -> None: ...


@pytest.mark.parametrize("hooks", [Hooks(), Hooks(_Admitting())], ids=["plain", "intercepted"])
def test_further_slices_wait_for_admission(
    tmp_path: Path, short_slices: None, monkeypatch: pytest.MonkeyPatch, hooks: Hooks
) -> None:
    running: list[int] = []
    most: list[int] = []

    async def counted(awaited: Any, steps: Any) -> Any:
        running.append(1)
        most.append(len(running))
        try:
            return await turns.other_slices(awaited, steps)
        finally:
            running.pop()

    monkeypatch.setattr(dispatch_module, "other_slices", counted)

    async def scenario() -> None:
        async with running_broker(tmp_path, hooks=hooks) as broker:
            clients = [await Client.connect(broker) for _ in range(4)]
            for client in clients:
                client.send(frame(_epochs(100), 2))
            for client in clients:
                assert len(await client.receive()) > 1_000
            assert most
            assert max(most) <= dispatch_module.LARGE_AT_ONCE

    run(scenario())


def test_others_are_served_after_a_client_leaves_during_its_large_request(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            other = await Client.connect(broker)
            for _ in range(3):
                client = await Client.connect(broker)
                client.send(frame(_epochs(10 * MANY), 2))
                await other.ask(SMALL, 0)
                await client.reset()
            await other.ask(_epochs(10 * MANY), 2)

    run(scenario())


def test_a_large_produce_request_keeps_its_records(tmp_path: Path, short_slices: None) -> None:
    """Its records are views into the receive buffer, which later requests must not overwrite."""
    count = 2_600

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t", partitions=2)
            data = [PartitionProduceData(at, batch(b"%d" % at)) for at in range(count)]
            request = ProduceRequest(None, 1, 1000, [TopicProduceData("t", partition_data=data)])
            client.send(frame(request, 8) + frame(SMALL, 0) * 100)
            answer = Client.decode(0, 8, await client.receive()).responses[0].partition_responses
            assert [each.error_code for each in answer] == [0, 0] + [3] * (count - 2)
            for _ in range(100):
                await client.receive()
            log = broker.services.replica_manager.partitions[TopicPartition("t", 1)].log
            assert log.log_end_offset == 1
            fetched = await client.fetch("t", partition=1)
            assert values_of(fetched.responses[0].partitions[0].records) == [b"1"]

    run(scenario())


LIST_OFFSETS = ListOffsetsRequest(
    -1, 0, [ListOffsetsTopic("t", [ListOffsetsPartition(at, timestamp=-1) for at in range(99)])]
)


@pytest.mark.parametrize(
    ("request_", "version"),
    [(_epochs(99), 2), (LIST_OFFSETS, 2), (DescribeLogDirsRequest(None), 1)],
    ids=["epochs", "offsets", "directories"],
)
def test_others_are_served_between_the_partitions_of_a_request(
    tmp_path: Path, short_slices: None, request_: Any, version: int
) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t", partitions=99)
            assert await _answered_meanwhile(broker, client.ask(request_, version)) > 10

    run(scenario())
