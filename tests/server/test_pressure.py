"""Clients that announce, send slowly, or never read: what they cost, and what the others notice."""

import asyncio
import logging
import os
import struct
from pathlib import Path
from typing import Any

import pytest

from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
from kafkapy.server.connection import Connection
from kafkapy.server.sender import PIECE_SIZE
from kafkapy.testing.clock import ManualClock
from tests.server.harness import (
    Client,
    batch,
    fetch_request,
    frame,
    produce_request,
    run,
    running_broker,
    small_receive_buffer,
    until,
)

REQUESTS = 8
PARTITIONS = 60
SLICE_SIZE = 30_000
"""Below what is sent by ``sendfile``."""


def _memory(size: int) -> dict[str, str]:
    """As little as one largest request takes, for all requests together."""
    return {"queued__max__request__bytes": str(size), "socket__request__max__bytes": str(size)}


def _announcement(size: int, sent: int) -> bytes:
    return struct.pack(">i", size) + bytes(sent)


def test_who_only_announces_keeps_nobody_out(tmp_path: Path) -> None:
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


def test_when_nothing_is_left_one_frame_after_the_other_gets_done(tmp_path: Path) -> None:
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
    """A client that asks more than sockets take, and doesn't read; its connection, blocked."""
    sock = small_receive_buffer(broker.port)
    sock.sendall(request * REQUESTS)
    port = sock.getsockname()[1]
    await until(lambda: any(found.peer_port == port for found in broker.listeners[0].connections))
    (connection,) = [found for found in broker.listeners[0].connections if found.peer_port == port]
    await until(lambda: connection.progress()[1] > 0)
    return sock, connection


def test_small_slices_are_read_as_the_client_takes_them(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            request = await _small_slices(client)
            sock, connection = await _never_reading(broker, request)
            assert connection.progress()[1] < PIECE_SIZE + 2 * SLICE_SIZE
            assert connection.requests < REQUESTS
            sock.setblocking(False)
            size = 0
            while size < REQUESTS * PARTITIONS * SLICE_SIZE:
                size += len(await asyncio.get_running_loop().sock_recv(sock, 1 << 20))
            assert connection.requests == REQUESTS
            sock.close()

    run(scenario())


def test_a_file_cut_while_the_client_does_not_read_is_one_line_in_the_log(
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


def test_a_connection_at_rest_holds_no_buffer(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        async with running_broker(tmp_path, clock=clock, connections__max__idle__ms="8000") as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            await client.produce("t", batch(b"x" * 500_000))
            (connection,) = broker.listeners[0].connections
            assert len(connection._decoder._view) > 100_000
            clock.advance(1000)
            assert len(connection._decoder._view) > 100_000
            clock.advance(1000)
            assert len(connection._decoder._view) == 0
            assert (await client.produce("t", batch(b"y" * 500_000))).error_code == 0

    run(scenario())
