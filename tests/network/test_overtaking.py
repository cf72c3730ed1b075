"""Produce requests that are served while earlier ones of their connection wait for other replicas."""

import asyncio
import os
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from harness.client import Client, batch, frame, produce_request
from kafkapy.network.core import CLOSED
from kafkapy.network.dispatcher import Waiting
from kafkapy.network.pacing import MOST_WAITS
from kafkapy.protocol.headers import RequestHeader
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
from kafkapy.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkapy.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkapy.protocol.writer import Part
from kafkapy.records.compression import GZIP
from kafkapy.replication.partition import Partition, RemoteReplica
from kafkapy.server.lifecycle.broker import BrokerServer
from kafkapy.types import TopicPartition
from tests.server.harness import run, running_broker, until

FOLLOWER = 9


class Replicated:
    """A broker whose topic ``t`` has a follower, and a client."""

    def __init__(self, broker: BrokerServer, client: Client) -> None:
        self.broker = broker
        self.client = client
        self.replicas = broker.services.replica_manager
        self.partition: Partition = self.replicas.partitions[TopicPartition("t", 0)]
        self.partition.remotes[FOLLOWER] = RemoteReplica(FOLLOWER, broker.clock.now_ms())

    def follower_has(self, offset: int) -> None:
        """The follower fetches at ``offset``."""
        self.partition.follower_fetched(FOLLOWER, offset, 0)
        self.replicas.purgatory.check(self.partition.topic_partition)

    async def send_first(self, timeout_ms: int = 15_000) -> None:
        """Send a request that waits for the follower; a slow machine must not end the wait."""
        end_offset = self.partition.log.log_end_offset
        request = produce_request("t", batch(b"v"), acks=-1)
        request.timeout_ms = timeout_ms
        self.client.send(frame(request, 8))
        await until(lambda: self.partition.log.log_end_offset == end_offset + 1)

    async def base_offset(self) -> int:
        """The base offset of the next response, or its error code below 0."""
        response = self.client.decode(0, 8, await self.client.receive())
        (found,) = response.responses[0].partition_responses
        return -found.error_code or int(found.base_offset)


@asynccontextmanager
async def replicated(path: Path, **config: str) -> AsyncIterator[Replicated]:
    async with running_broker(path, **config) as broker:
        client = await Client.connect(broker)
        await client.create_topic("t")
        yield Replicated(broker, client)


def test_requests_are_served_while_earlier_ones_wait(tmp_path: Path) -> None:
    """A bounded number of them; replies keep the order, and requests of other APIs wait for all before them."""

    async def scenario() -> None:
        async with replicated(tmp_path) as at:
            requests = [produce_request("t", batch(b"v"), acks=-1) for _ in range(MOST_WAITS + 1)]
            requests.insert(2, produce_request("unknown", batch(b"v"), acks=1))
            requests.insert(1, produce_request("t", batch(b"v" * 100_000), acks=1))
            at.client.send(b"".join(frame(request, 8) for request in requests) + frame(ApiVersionsRequest(), 0))
            log, counts = at.partition.log, at.broker.services.metrics.requests
            before = counts["api_versions"]
            await until(lambda: log.log_end_offset == MOST_WAITS - 1)
            await asyncio.sleep(0)
            assert log.log_end_offset == MOST_WAITS - 1, "one of those that are waited for is answered with an error"
            for offset, answered in ((1, [0, 1]), (3, [2, -3]), (MOST_WAITS + 2, [*range(3, MOST_WAITS + 2)])):
                at.follower_has(offset)
                assert [await at.base_offset() for _ in answered] == answered
                await until(lambda: log.log_end_offset == min(offset + MOST_WAITS, MOST_WAITS + 2))  # noqa: B023
                if offset < MOST_WAITS:
                    assert counts["api_versions"] == before
            assert at.client.decode(18, 0, await at.client.receive()).error_code == 0

    run(scenario())


def test_a_request_for_many_partitions_is_not_overtaken(tmp_path: Path) -> None:
    """The memory of the requests of a connection that wait together is bounded."""

    async def scenario() -> None:
        async with replicated(tmp_path) as at:
            content = batch(b"v")
            named = [
                TopicProduceData("t", partition_data=[PartitionProduceData(0, content)]),
                TopicProduceData("x", partition_data=[PartitionProduceData(index, content) for index in range(1_000)]),
            ]
            at.client.send(frame(ProduceRequest(None, -1, 15_000, named), 8))
            await until(lambda: at.partition.log.log_end_offset == 1 and len(at.replicas.purgatory) == 1)
            at.client.send(frame(produce_request("t", content, acks=1), 8))
            (connection,) = at.broker.listeners[0].connections
            await until(lambda: connection.core.buffered_size > 0)
            assert at.partition.log.log_end_offset == 1
            at.follower_has(1)
            await until(lambda: at.partition.log.log_end_offset == 2)

    run(scenario())


def test_a_client_that_leaves_leaves_no_request_waiting(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with replicated(tmp_path) as at:
            for _ in range(3):
                await at.send_first(timeout_ms=1_000)  # the requests wait until then
            at.client.writer.transport.abort()
            await until(lambda: len(at.replicas.purgatory) == 0)
            assert at.partition.log.log_end_offset == 3

    run(scenario())


@pytest.mark.parametrize(
    "refused",
    [
        frame(produce_request("unknown", batch(b"v"), acks=0), 8),
        frame(produce_request("t", b"no batch", acks=-1), 2),
        struct.pack(">ihh", 300_000, 0, 8),
        struct.pack(">ih", -1, 0),
        struct.pack(">ihhih", 10, 0, 99, 1, -1),
    ],
    ids=["acks=0 to an unknown topic", "records that are no batch", "a large frame", "a negative size", "a version"],
)
def test_a_refused_request_ends_the_connection_when_those_before_it_are_answered(
    tmp_path: Path, refused: bytes
) -> None:
    async def scenario() -> None:
        async with replicated(tmp_path, socket__request__max__bytes="200000") as at:
            await at.send_first()
            at.client.send(refused + frame(produce_request("t", batch(b"never"), acks=1), 8))
            (connection,) = at.broker.listeners[0].connections
            await until(lambda: connection.core.busy & CLOSED != 0)
            at.follower_has(1)
            assert await at.base_offset() == 0
            assert await at.client.is_closed()
            assert at.partition.log.log_end_offset == 1
            assert at.broker.services.metrics.connections_failed == 1

    run(scenario())


def test_a_waiting_request_holds_no_memory_that_others_wait_for(tmp_path: Path) -> None:
    many = 6_000

    async def scenario() -> None:
        async with replicated(
            tmp_path, queued__max__request__bytes="1000000", socket__request__max__bytes="900000"
        ) as at:
            content = batch(b"v")
            named = [
                TopicProduceData("t", partition_data=[PartitionProduceData(0, content)]),
                TopicProduceData("x", partition_data=[PartitionProduceData(index, content) for index in range(many)]),
            ]
            memory = at.broker.services.memory
            before = memory.available
            at.client.send(frame(ProduceRequest(None, -1, 15_000, named), 8))
            await until(lambda: len(at.replicas.purgatory) == 1 and memory.available == before)
            other = await Client.connect(at.broker)
            asked = ListOffsetsTopic("x", [ListOffsetsPartition(index, -1, -1) for index in range(many)])
            other.send(frame(ListOffsetsRequest(-1, 0, [asked]), 5))
            await other.receive()
            at.follower_has(1)
            await at.client.receive()

    run(scenario())


def test_a_large_batch_that_is_stored_gives_its_memory_back_before_it_is_its_turn(tmp_path: Path) -> None:
    limits = {"queued__max__request__bytes": "7000000", "socket__request__max__bytes": "7000000"}

    async def scenario() -> None:
        async with replicated(tmp_path, **limits) as at:
            await at.client.create_topic("large", max__message__bytes="20000000")
            await at.send_first()
            (connection,) = at.broker.listeners[0].connections
            budget = at.broker.listeners[0].budget
            content = batch(os.urandom(6_000_000), compression=GZIP)
            at.client.send(frame(produce_request("large", content, acks=1), 8))
            log = at.replicas.partitions[TopicPartition("large", 0)].log
            await until(lambda: log.log_end_offset == 1 and budget.available == 7_000_000)
            assert not connection.core.holds_frame
            at.follower_has(1)
            assert [await at.base_offset(), await at.base_offset()] == [0, 0]

    run(scenario())


class TasksBehindAFuture:
    """A dispatcher: request 0 waits for a future, which the task of request 1 fulfils; request 2 has a task too."""

    def __init__(self) -> None:
        self.first: asyncio.Future[list[Part]] = asyncio.get_running_loop().create_future()
        self.may_end = asyncio.Event()
        self.frame = memoryview(b"")

    def dispatch(self, frame: memoryview, _session: object) -> Waiting[None]:
        header = RequestHeader(0, 0, 0, None)
        if frame[2] == 0:
            return Waiting(None, header, self.first, overtaken_by=0)
        task = self._fulfil() if frame[2] == 1 else self._keep(frame)
        return Waiting(None, header, asyncio.ensure_future(task))

    async def _fulfil(self) -> list[Part]:
        self.first.set_result([bytearray(b"0")])
        return [bytearray(b"1")]

    async def _keep(self, frame: memoryview) -> list[Part]:
        self.frame = frame
        await self.may_end.wait()
        return [bytearray(b"2")]

    def answer(self, waiting: Waiting[None]) -> list[Part]:
        parts: list[Part] = waiting.future.result()
        return parts

    def dropped(self, _waiting: object) -> None:
        """All are sent."""


def test_a_task_that_was_answered_with_the_one_before_it_releases_no_later_frame(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            dispatcher = TasksBehindAFuture()
            broker.listeners[0]._dispatcher = dispatcher  # type: ignore[assignment]  # what a connection needs of one
            client = await Client.connect(broker)
            client.send(b"".join(struct.pack(">ihB", 3, 0, number) for number in range(3)))
            assert await client.reader.readexactly(2) == b"01"
            (connection,) = broker.listeners[0].connections
            await until(lambda: len(dispatcher.frame) > 0)
            await asyncio.sleep(0)
            assert connection.core.holds_frame
            dispatcher.may_end.set()
            assert await client.reader.readexactly(1) == b"2"
            assert not connection.core.holds_frame

    run(scenario())
