"""Clients that announce large frames, send slowly, or never read: their memory, and the effect on other clients."""

import asyncio
import logging
import os
import socket
import struct
from pathlib import Path
from typing import Any

import pytest

from harness.client import Client, batch, fetch_request, frame, produce_request
from kafkapy.network.budget import CHECK_MS
from kafkapy.network.connection import Connection
from kafkapy.network.sender import PIECE_SIZE
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
from kafkapy.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from kafkapy.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafkapy.testing.clock import ManualClock
from tests.server.harness import run, running_broker, small_receive_buffer, until

REQUESTS = 8
PARTITIONS = 60
SLICE_SIZE = 30_000
"""Smaller than slices that are sent by ``sendfile`` among others."""


def _memory(size: int) -> dict[str, str]:
    """The smallest possible limit: the memory of one request of the largest size for all requests together."""
    return {"queued__max__request__bytes": str(size), "socket__request__max__bytes": str(size)}


def _announcement(size: int, sent: int) -> bytes:
    return struct.pack(">i", size) + bytes(sent)


def test_announced_frames_take_no_memory(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, **_memory(1_000_000)) as broker:
            slow = [await Client.connect(broker) for _ in range(50)]
            for each in slow:
                each.send(_announcement(990_000, 100))
            client = await Client.connect(broker)
            await client.create_topic("t")
            assert (await client.produce("t", batch(b"x" * 900_000))).error_code == 0
            assert broker.listeners[0].budget.available == 1_000_000

    run(scenario())


def test_without_free_memory_frames_are_completed_one_after_the_other(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, **_memory(1_000_000)) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            large = frame(produce_request("t", batch(b"x" * 900_000)), 8)
            clients = [await Client.connect(broker) for _ in range(30)]
            for each in clients:
                each.send(large[:-10])
            budget = broker.listeners[0].budget
            await until(lambda: budget.available < 0)
            assert budget.available > -2_000_000
            gone = clients[::3]
            for each in gone:
                each.writer.transport.abort()
            stay = [each for each in clients if each not in gone]
            for each in stay:
                each.send(large[-10:])
            for each in stay:
                response = each.decode(0, 8, await each.receive())
                assert response.responses[0].partition_responses[0].error_code == 0
            await until(lambda: len(broker.listeners[0].connections) == 1 + len(stay))
            assert budget.available == 1_000_000

    run(scenario())


async def _small_slices(client: Client) -> bytes:
    """Fill many partitions with one small batch each; return a request for all of them."""
    await client.create_topic("t", partitions=PARTITIONS)
    for index in range(PARTITIONS):
        assert (await client.produce("t", batch(b"x" * SLICE_SIZE), partition=index)).error_code == 0
    request = fetch_request("t", max_bytes=50_000_000)
    request.topics[0].partitions = [
        fetch_request("t", partition=index).topics[0].partitions[0] for index in range(PARTITIONS)
    ]
    return frame(request, 11)


async def _never_reading(broker: Any, request: bytes) -> tuple[Any, Connection]:
    """Return a client that requests more than sockets take and does not read, and its blocked connection."""
    sock = small_receive_buffer(broker.port)
    sock.sendall(request * REQUESTS)
    port = sock.getsockname()[1]
    await until(lambda: any(found.session.peer_port == port for found in broker.listeners[0].connections))
    (connection,) = [found for found in broker.listeners[0].connections if found.session.peer_port == port]
    await until(lambda: connection.progress()[1] > 0)
    return sock, connection


def test_a_client_that_is_lost_while_responses_are_sent_is_no_failure(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            assert (await client.produce("t", batch(bytes(60_000)))).error_code == 0
            request = frame(fetch_request("t", partition_max_bytes=100_000), 11)
            sock = socket.create_connection(("127.0.0.1", broker.port))
            await until(lambda: len(broker.listeners[0].connections) == 2)
            sock.sendall(request)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.close()  # by a reset, which the broker meets when it sends
            await until(lambda: len(broker.listeners[0].connections) == 1)
        assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == []

    run(scenario())


def test_small_slices_are_read_as_the_client_takes_them(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            request = await _small_slices(client)
            sock, connection = await _never_reading(broker, request)
            assert connection.progress()[1] < PIECE_SIZE + 2 * SLICE_SIZE
            assert connection.core.requests < REQUESTS
            sock.setblocking(False)
            size = 0
            while size < REQUESTS * PARTITIONS * SLICE_SIZE:
                size += len(await asyncio.get_running_loop().sock_recv(sock, 1 << 20))
            assert connection.core.requests == REQUESTS
            sock.close()

    run(scenario())


def test_a_file_cut_while_the_client_does_not_read_is_logged_in_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            failures: list[dict[str, Any]] = []
            asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
            client = await Client.connect(broker)
            sock, connection = await _never_reading(broker, await _small_slices(client))
            for index in range(PARTITIONS):
                os.truncate(tmp_path / "data" / f"t-{index}" / f"{0:020d}.log", 100)
            sock.setblocking(False)
            while connection in broker.listeners[0].connections:
                try:
                    await asyncio.get_running_loop().sock_recv(sock, 1 << 16)
                except ConnectionError:
                    break
            await until(lambda: connection not in broker.listeners[0].connections)
            assert failures == []
            assert "sending failed" in caplog.text
            assert (await client.ask(ApiVersionsRequest(), 0)).error_code == 0
            sock.close()

    run(scenario())


def test_an_idle_connection_holds_no_receive_buffer(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        async with running_broker(tmp_path, clock=clock, connections__max__idle__ms="8000") as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            await client.produce("t", batch(b"x" * 500_000))
            (connection,) = broker.listeners[0].connections
            assert len(connection.core._view) > 100_000
            clock.advance(1000)
            assert len(connection.core._view) > 100_000
            clock.advance(1000)
            assert len(connection.core._view) == 0
            assert (await client.produce("t", batch(b"y" * 500_000))).error_code == 0

    run(scenario())


def _large_fetch(topic: str, count: int = 4000, **fields: Any) -> bytes:
    """A fetch that names one partition many times: large when decoded, without any records in the response."""
    request = fetch_request(topic, max_wait_ms=2**31 - 1, session_epoch=-1, **fields)
    request.topics[0].partitions *= count
    return frame(request, 11)


def test_large_fetches_that_wait_are_answered_when_others_need_their_memory(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock, limit = ManualClock(), 5_000_000
        async with running_broker(tmp_path, clock=clock, **_memory(limit)) as broker:
            memory = broker.listeners[0].response_budget
            client = await Client.connect(broker)
            await client.create_topic("t")
            waiting = [await Client.connect(broker) for _ in range(2)]
            for each in waiting:
                before = memory.available
                each.send(_large_fetch("t"))
                await until(lambda before=before: memory.available < before - 2_000_000)
            assert memory.available <= 0
            clock.advance(10 * CHECK_MS)
            assert sum(each.progress()[-1] for each in broker.listeners[0].connections) == 2
            late = await Client.connect(broker)
            late.send(_large_fetch("t", min_bytes=0))
            await until(lambda: len(broker.listeners[0].connections) == 4)
            assert (await client.produce("t", batch(), partition=7)).error_code == 3, "small requests need no memory"
            answered = asyncio.ensure_future(asyncio.gather(*(each.receive() for each in [*waiting, late])))
            while not answered.done():
                clock.advance(CHECK_MS)
                await asyncio.sleep(0.001)
            for data in await answered:
                (topic,) = Client.decode(1, 11, data).responses
                assert [partition.error_code for partition in topic.partitions] == [0]
            await until(lambda: memory.available == limit)

    run(scenario())


def test_a_large_fetch_releases_its_memory_when_it_ends(tmp_path: Path) -> None:
    async def scenario() -> None:
        limit = 50_000_000
        async with running_broker(tmp_path, **_memory(limit)) as broker:
            memory = broker.listeners[0].response_budget
            client = await Client.connect(broker)
            await client.create_topic("t")
            leaving, served = [await Client.connect(broker) for _ in range(2)]
            for each in (leaving, served):
                each.send(_large_fetch("t"))
            await until(lambda: memory.available < limit - 5_000_000)
            leaving.writer.transport.abort()
            await until(lambda: memory.available > limit - 5_000_000)
            assert memory.available < limit
            await client.produce("t", batch(b"x"))
            assert Client.decode(1, 11, await served.receive()).responses[0].partitions[0].records
            await until(lambda: memory.available == limit)

    run(scenario())


def test_a_small_fetch_is_charged_for_the_partitions_of_its_session(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock, limit, count = ManualClock(), 150_000, 120
        async with running_broker(tmp_path, clock=clock, **_memory(limit)) as broker:
            memory = broker.listeners[0].response_budget
            client, other = [await Client.connect(broker) for _ in range(2)]
            await client.create_topic("t", partitions=count)
            requests = []
            for each in (client, other):
                full = fetch_request("t", min_bytes=0, session_epoch=0)
                full.topics[0].partitions = [
                    fetch_request("t", partition=index).topics[0].partitions[0] for index in range(count)
                ]
                opened = await each.ask(full, 11)
                requests.append(
                    fetch_request("t", max_wait_ms=2**31 - 1, session_id=opened.session_id, session_epoch=1)
                )
                requests[-1].topics = []
            await until(lambda: memory.available == limit)
            client.send(frame(requests[0], 11))
            await until(lambda: memory.available == limit - 1000 * count)
            third = await Client.connect(broker)
            third.send(frame(requests[1], 11))
            await until(lambda: memory.available == limit - 2000 * count)
            late = await Client.connect(broker)
            requests[1].session_epoch = 2
            late.send(frame(requests[1], 11))
            answered = asyncio.ensure_future(asyncio.gather(client.receive(), third.receive()))
            while not answered.done():
                clock.advance(CHECK_MS)
                await asyncio.sleep(0.001)
            for data in await answered:
                assert Client.decode(1, 11, data).responses == []
            late.writer.transport.abort()
            await until(lambda: memory.available == limit)

    run(scenario())


def test_creations_that_wait_for_their_topics_are_answered_when_others_need_their_memory(tmp_path: Path) -> None:
    """Topics on a broker that does not exist never get a leader."""

    async def scenario() -> None:
        clock, limit = ManualClock(), 5_000_000
        async with running_broker(tmp_path, clock=clock, **_memory(limit)) as broker:
            memory = broker.listeners[0].response_budget
            refused = [CreatableTopic(name="no/" + "n" * 60, num_partitions=1, replication_factor=1)] * 4000
            answers = []
            for number in range(3):
                assigned = CreatableReplicaAssignment(0, [77])
                topics = [
                    CreatableTopic(f"t{number}{name}", num_partitions=-1, replication_factor=-1, assignments=[assigned])
                    for name in "ab"
                ]
                request = CreateTopicsRequest(topics=[*topics, *refused], timeout_ms=2**31 - 1)
                client = await Client.connect(broker)
                client.send(frame(request, 4))
                answers.append(asyncio.ensure_future(client.receive()))
                if number < 2:
                    await until(lambda number=number: memory.available < limit - 2_500_000 * (number + 1))
            assert memory.available <= 0
            while not any(answer.done() for answer in answers):
                clock.advance(CHECK_MS)
                await asyncio.sleep(0.001)
            while not all(answer.done() for answer in answers):
                broker.services.topic_admin.end_waits()
                await asyncio.sleep(0.001)
            for data in [each.result() for each in answers]:
                results = Client.decode(19, 4, data).topics
                assert [result.error_code for result in results] == [7, 7] + [42] * 4000
            await until(lambda: memory.available == limit)

    run(scenario())


def test_a_waiting_creation_does_not_delay_the_stop(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            topic = CreatableTopic("t", num_partitions=-1, replication_factor=-1)
            topic.assignments = [CreatableReplicaAssignment(0, [77])]
            client = await Client.connect(broker)
            client.send(frame(CreateTopicsRequest(topics=[topic], timeout_ms=2**31 - 1), 4))
            await until(lambda: "Partition t-0 has no leader" in caplog.text)

    run(scenario())


@pytest.mark.parametrize("is_read", [True, False])
def test_the_parts_of_an_unread_response_count_until_the_last_is_sent(is_read: bool, tmp_path: Path) -> None:
    """Only a piece of 256 KiB of them counted. Bytes that several parts share count once."""
    count, name = 4_000, "t" * 249

    async def scenario() -> None:
        limit = 50_000_000
        async with running_broker(tmp_path, **_memory(limit)) as broker:
            memory = broker.listeners[0].response_budget
            client = await Client.connect(broker)
            await client.create_topic(name)
            slow = small_receive_buffer(broker.port)
            slow.setblocking(False)
            connections = broker.listeners[0].connections
            await until(lambda: len(connections) == 2 and all(each._transport for each in connections))
            for each in connections:
                served = each._transport.get_extra_info("socket")  # type: ignore[union-attr]  # made, see above
                served.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
            request = DescribeConfigsRequest([DescribeConfigsResource(2, name, None)] * count, include_synonyms=True)
            loop = asyncio.get_running_loop()
            await loop.sock_sendall(slow, frame(request, 3))
            (size,) = struct.unpack(">i", await loop.sock_recv(slow, 4))
            assert size > 6_000_000
            await until(lambda: memory.available < limit - 900_000)
            assert memory.available > limit - 1_500_000
            (connection,) = (each for each in connections if each.unsent_size)
            assert size - 1_000_000 < connection.unsent_size + connection.waiting_size < size
            while is_read and size:
                size -= len(await loop.sock_recv(slow, 1_000_000))
            slow.close()
            await until(lambda: memory.available == limit)

    run(scenario())
