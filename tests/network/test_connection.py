"""Order, back-pressure, slow readers, limits and the end of connections."""

import asyncio
import gc
import logging
import os
import resource
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.client import Client, batch, fetch_request, frame, produce_request, values_of
from kafkapy import turns
from kafkapy.network import errors
from kafkapy.network.pacing import READ_AHEAD_SIZE
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkapy.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkapy.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kafkapy.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkapy.server.handlers import list_offsets
from kafkapy.server.lifecycle.broker import BrokerServer
from kafkapy.testing.clock import ManualClock
from kafkapy.types import TopicPartition
from tests.server.harness import run, running_broker, small_receive_buffer, until


def test_requests_that_arrived_together_are_answered_in_order(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            waiting = frame(fetch_request("t", max_wait_ms=50), 11, correlation_id=7)
            client.send(waiting + b"".join(frame(ApiVersionsRequest(), 0, correlation_id=at) for at in range(100)))
            order = [int.from_bytes((await client.receive())[:4]) for _ in range(101)]
            assert order == [7, *range(100)]

    run(scenario())


class Recording:
    """A transport that records the sizes of its writes."""

    def __init__(self, transport: Any) -> None:
        self.transport = transport
        self.sizes: list[int] = []

    def write(self, data: bytes) -> None:
        self.sizes.append(len(data))
        self.transport.write(data)

    def is_closing(self) -> bool:
        return bool(self.transport.is_closing())


def test_small_replies_to_requests_that_arrived_together_leave_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkapy.network.connection.FIRST_SLICE_S", 10)  # all of them, on a busy machine too

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            (connection,) = broker.listeners[0].connections
            transport = Recording(connection._transport)
            connection._transport = transport  # type: ignore[assignment]  # what _serve needs of one
            client.send(frame(ApiVersionsRequest(), 0) * 50)
            await until(lambda: connection.core.requests == 51)
            assert len(transport.sizes) <= 2
            connection._transport = transport.transport
            assert sum(transport.sizes) == 50 * (4 + len(await client.receive()))

    run(scenario())


def test_earlier_replies_leave_before_invalid_bytes_end_the_connection(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            client.send(frame(ApiVersionsRequest(), 0) * 3 + b"\xff\xff\xff\xff")
            for _ in range(3):
                assert client.decode(18, 0, await client.receive()).error_code == 0
            assert await client.is_closed()

    run(scenario())


def test_a_request_byte_by_byte(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            for byte in frame(ApiVersionsRequest(), 0):
                client.send(bytes([byte]))
                await client.writer.drain()
                await asyncio.sleep(0)
            assert client.decode(18, 0, await client.receive()).error_code == 0

    run(scenario())


def test_unanswered_requests_sent_before_the_peer_closed_are_still_done(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            client.send(b"".join(frame(produce_request("t", batch(b"v"), acks=0), 8) for _ in range(50)))
            await client.close()
            log = broker.services.replica_manager.partitions[TopicPartition("t", 0)].log
            await until(lambda: log.log_end_offset == 50)

    run(scenario())


def test_a_waiting_fetch_ends_with_its_client(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            client.send(frame(fetch_request("t", max_wait_ms=1_000_000), 11))
            purgatory = broker.services.replica_manager.purgatory
            await until(lambda: len(purgatory) == 1)
            await client.close()
            await until(lambda: len(purgatory) == 0 and not broker.listeners[0].connections)

    run(scenario())


ANSWERED_AT_ONCE = frame(ApiVersionsRequest(), 0, correlation_id=9)


async def _answers_before_the_end(client: Client, data: bytes) -> list[tuple[int, int]]:
    """Send ``data``, close our side; the correlation id and size of each answer that comes before the broker's end."""
    client.send(data)
    client.writer.write_eof()
    found = []
    while head := await client.reader.read(4):
        answer = await client.reader.readexactly(int.from_bytes(head))
        found.append((int.from_bytes(answer[:4]), len(answer)))
    return found


@pytest.mark.parametrize("version", [0, 2, 11])
def test_a_client_that_closes_its_side_gets_all_responses(tmp_path: Path, version: int) -> None:
    """An old version of Fetch is answered in steps; a fetch without data ends its waiting."""

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            control = await Client.connect(broker)
            await control.create_topic("t", partitions=2)
            await control.produce("t", batch(b"x" * 1000))
            fetch = frame(fetch_request("t", max_wait_ms=1_000_000), version, correlation_id=3)
            waiting = frame(fetch_request("t", max_wait_ms=1_000_000, partition=1), version, correlation_id=5)
            unanswered = frame(produce_request("t", batch(b"v"), acks=0), 8)
            for data in (fetch, fetch * 3, fetch + ANSWERED_AT_ONCE, waiting * 3 + unanswered + fetch):
                found = await _answers_before_the_end(await Client.connect(broker), data)
                sent = [3] * data.count(fetch) + [9] * data.count(ANSWERED_AT_ONCE)
                assert [each[0] for each in found] == [5] * data.count(waiting) + sent
                assert all(size > 1000 for correlation_id, size in found if correlation_id == 3)
            log = broker.services.replica_manager.partitions[TopicPartition("t", 0)].log
            assert log.log_end_offset == 2
            assert len(broker.services.replica_manager.purgatory) == 0

    run(scenario())


def test_a_half_closed_connection_gets_its_durable_acknowledgement(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            control = await Client.connect(broker)
            await control.create_topic("t", kafkapy__flush="ack")
            data = b"".join(frame(produce_request("t", batch(b"v")), 8, correlation_id=at) for at in range(5))
            found = await _answers_before_the_end(await Client.connect(broker), data)
            assert [each[0] for each in found] == list(range(5))

    run(scenario())


REFUSED_LATER = ProduceRequest(None, 0, 1000, [TopicProduceData("?", partition_data=[
    PartitionProduceData(at, batch(b"v")) for at in range(2)
])])  # fmt: skip


@pytest.mark.parametrize("last", [b"\xff\xff\xff\xff", frame(REFUSED_LATER, 8)], ids=["no frame", "refused later"])
def test_answers_leave_before_the_end_even_when_the_socket_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: bytes
) -> None:
    monkeypatch.setattr(turns, "FIRST_SLICE_S", 0)  # between the partitions of a request

    async def scenario() -> None:
        clock = ManualClock()
        async with running_broker(tmp_path, clock=clock, connections__max__idle__ms="8000") as broker:
            for reads in (True, False):
                slow = small_receive_buffer(broker.port, 2048)
                slow.setblocking(False)
                await until(lambda: len(broker.listeners[0].connections) == 1)
                (connection,) = broker.listeners[0].connections
                await until(lambda made=connection: made._transport is not None)  # type: ignore[misc]
                assert connection._transport is not None
                served = connection._transport.get_extra_info("socket")
                served.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2048)
                slow.send(ANSWERED_AT_ONCE * 150 + last)
                await until(lambda made=connection: made.progress()[1] > 0)  # type: ignore[misc]
                received = b""
                while reads and (piece := await asyncio.get_running_loop().sock_recv(slow, 1000)):
                    received += piece
                if reads:
                    assert len(received) == 150 * (4 + int.from_bytes(received[:4]))
                while broker.listeners[0].connections:  # closed at once, or as idle
                    clock.advance(1000)
                    await asyncio.sleep(0)
                slow.close()

    run(scenario())


def test_a_client_that_reads_nothing_stops_only_its_own_requests(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            for _ in range(8):
                assert (await client.produce("t", batch(b"x" * 1_000_000))).error_code == 0
            slow = small_receive_buffer(broker.port)
            asked = frame(fetch_request("t", partition_max_bytes=8_000_000), 11)
            slow.sendall(asked * 200)
            await until(lambda: len(broker.listeners[0].connections) == 2)
            port = slow.getsockname()[1]
            (connection,) = [found for found in broker.listeners[0].connections if found.session.peer_port == port]
            await until(lambda: connection.core.requests == 1)
            for _ in range(20):
                assert (await client.ask(ApiVersionsRequest(), 0)).error_code == 0
            assert connection.core.requests == 1
            assert sum(connection.progress()[1:2]) < 100_000
            slow.close()
            await until(lambda: connection not in broker.listeners[0].connections)

    run(scenario())


def test_the_bytes_read_ahead_are_bounded(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            client.send(frame(fetch_request("t", max_wait_ms=1_000_000), 11))
            await until(lambda: len(broker.services.replica_manager.purgatory) == 1)
            (connection,) = broker.listeners[0].connections
            more = frame(produce_request("t", batch(b"x" * 10_000)), 8)
            client.send(more * 3000)
            other = await Client.connect(broker)
            for _ in range(100):
                await other.ask(ApiVersionsRequest(), 0)
            assert READ_AHEAD_SIZE <= connection.core.buffered_size < 4 * READ_AHEAD_SIZE
            await other.produce("t", batch(b"wakes the fetch"))
            await client.receive()
            for _ in range(3000):
                assert client.decode(0, 8, await client.receive()).responses[0].partition_responses[0].error_code == 0

    run(scenario())


def test_a_slow_reader_gets_every_byte(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            for at in range(6):
                await client.produce("t", batch(bytes([at]) * 900_000))
            slow = small_receive_buffer(broker.port)
            slow.setblocking(False)
            loop = asyncio.get_running_loop()
            for _ in range(3):
                slow.send(frame(fetch_request("t", partition_max_bytes=8_000_000), 11))
                data = b""
                while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4]):
                    data += await loop.sock_recv(slow, 200_000)
                response = client.decode(1, 11, data[4:])
                values = values_of(response.responses[0].partitions[0].records)
                assert values == [bytes([at]) * 900_000 for at in range(6)]
            slow.close()

    run(scenario())


def test_small_and_large_slices_of_many_partitions_arrive_in_order(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t", partitions=6)
            sizes = [10, 150_000, 20, 50_000, 200_000, 30]
            for index, size in enumerate(sizes):
                await client.produce("t", batch(bytes([index]) * size), partition=index)
            request = fetch_request("t")
            request.topics[0].partitions = [
                fetch_request("t", partition=index).topics[0].partitions[0] for index in range(len(sizes))
            ]
            response = await client.ask(request, 11)
            found = [values_of(partition.records) for partition in response.responses[0].partitions]
            assert found == [[bytes([index]) * size] for index, size in enumerate(sizes)]

    run(scenario())


def test_a_file_that_was_cut_ends_the_connection(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            await client.produce("t", batch(b"x" * 100_000))
            os.truncate(tmp_path / "data" / "t-0" / f"{0:020d}.log", 50_000)
            client.send(frame(fetch_request("t"), 11))
            with pytest.raises(asyncio.IncompleteReadError):
                await client.receive()
            other = await Client.connect(broker)
            assert (await other.ask(ApiVersionsRequest(), 0)).error_code == 0

    run(scenario())


def test_a_handlers_bug_ends_only_its_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            failures: list[dict[str, Any]] = []
            asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
            client = await Client.connect(broker)
            await client.create_topic("t")
            other = await Client.connect(broker)
            monkeypatch.setattr(list_offsets, "_find", None)
            client.send(frame(ListOffsetsRequest(-1, 0, [ListOffsetsTopic("t", [ListOffsetsPartition(0)])]), 4))
            assert await client.is_closed()
            assert isinstance(failures[0]["exception"], TypeError)
            assert (await other.ask(ApiVersionsRequest(), 0)).error_code == 0

    run(scenario())


def test_a_bug_in_a_handler_that_waited_ends_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            failures: list[dict[str, Any]] = []
            asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))

            async def fail() -> int:
                await asyncio.sleep(0)
                raise KeyError("a bug")

            monkeypatch.setattr(broker.services.producer_ids, "next_producer_id", fail)
            client = await Client.connect(broker)
            client.send(frame(InitProducerIdRequest(None), 1))
            assert await client.is_closed()
            assert isinstance(failures[0]["exception"], KeyError)
            await until(lambda: not broker.listeners[0].connections)
            assert len(failures) == 1
            assert "after its client had closed" not in caplog.text

    run(scenario())


def test_idle_connections_are_closed_and_waiting_ones_are_not(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def scenario() -> None:
        clock = ManualClock()
        async with running_broker(tmp_path, clock=clock, connections__max__idle__ms="8000") as broker:
            silent, waiting, stuck = [await Client.connect(broker) for _ in range(3)]
            await waiting.create_topic("t")
            waiting.send(frame(fetch_request("t", max_wait_ms=1_000_000), 11))
            stuck.send(frame(ApiVersionsRequest(), 0)[:-1])
            await until(lambda: len(broker.services.replica_manager.purgatory) == 1)
            for _ in range(10):
                clock.advance(1000)
                await asyncio.sleep(0)
            assert await silent.is_closed()
            assert await stuck.is_closed()
            assert len(broker.listeners[0].connections) == 1
            assert broker.services.metrics.idle_closed == 2
            assert "nothing moved for connections.max.idle.ms" in caplog.text

    run(scenario())


def test_a_connection_with_a_slowly_arriving_request_is_not_idle(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        async with running_broker(tmp_path, clock=clock, connections__max__idle__ms="8000") as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            (connection,) = broker.listeners[0].connections
            data = frame(produce_request("t", batch(b"x" * 100_000)), 8)
            for at in range(0, len(data), 5000):
                client.send(data[at : at + 5000])
                if at + 5000 < len(data):
                    await until(lambda at=at: connection.core.buffered_size == at + 5000)  # type: ignore[misc]
                    clock.advance(1000)
            assert client.decode(0, 8, await client.receive()).responses[0].partition_responses[0].error_code == 0

    run(scenario())


def test_a_client_that_reads_nothing_for_the_idle_time_is_closed(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        async with running_broker(tmp_path, clock=clock, connections__max__idle__ms="8000") as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            for _ in range(8):
                await client.produce("t", batch(b"x" * 1_000_000))
            slow = small_receive_buffer(broker.port)
            slow.sendall(frame(fetch_request("t", partition_max_bytes=8_000_000), 11))
            await until(lambda: broker.services.metrics.requests["fetch"] == 1)
            for _ in range(12):
                clock.advance(1000)
                await client.ask(ApiVersionsRequest(), 0)
            assert len(broker.listeners[0].connections) == 1
            slow.close()

    run(scenario())


def test_large_requests_wait_for_memory(tmp_path: Path) -> None:
    async def scenario() -> None:
        large = frame(produce_request("t", batch(b"x" * 200_000)), 8)
        size = len(large) - 4
        memory = {"queued__max__request__bytes": str(size), "socket__request__max__bytes": str(size)}
        async with running_broker(tmp_path, **memory) as broker:
            clients = [await Client.connect(broker) for _ in range(3)]
            await clients[0].create_topic("t")
            budget = broker.listeners[0].budget
            for each in clients[:2]:
                each.send(large[:-10])
            await until(lambda: budget.available < -60_000)  # the second continues, the third has to wait
            clients[2].send(large)
            other = await Client.connect(broker)
            for _ in range(20):
                await other.ask(ApiVersionsRequest(), 0)
            assert broker.services.metrics.requests["produce"] == 0
            for each in clients[:2]:
                each.send(large[-10:])
            for each in clients:
                assert each.decode(0, 8, await each.receive()).responses[0].partition_responses[0].error_code == 0
            assert budget.available == size

    run(scenario())


async def _half_sent(broker: BrokerServer, count: int, large: bytes) -> list[Client]:
    """Connections that have sent half of a large request, and send nothing more."""
    clients = [await Client.connect(broker) for _ in range(count)]
    for each in clients:
        each.send(large[: len(large) // 2])
    await until(lambda: len(broker.listeners[0].budget._waiting) >= count - 5)
    return clients


@pytest.mark.parametrize("closes", [False, True])
def test_half_sent_requests_do_not_keep_others_waiting(tmp_path: Path, closes: bool) -> None:
    """The connections stall, or their peers close them; the memory stays within its limit and is released."""

    async def scenario() -> None:
        clock = ManualClock()
        large, normal = (frame(produce_request("t", batch(b"x" * size)), 8) for size in (900_000, 400_000))
        limit = 1_500_000
        memory = {"queued__max__request__bytes": str(limit), "socket__request__max__bytes": "1000000"}
        async with running_broker(tmp_path, clock=clock, **memory) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            budget = broker.listeners[0].budget
            stalled = await _half_sent(broker, 20, large)
            assert limit - budget.available <= limit + len(large)
            client.send(normal)
            if closes:
                for each in stalled:
                    await each.close()
            answered = asyncio.ensure_future(client.receive())
            seconds = 0
            while not answered.done():
                clock.advance(1000)
                seconds += 1
                for _ in range(20):
                    await asyncio.sleep(0)
            assert seconds <= 20
            assert Client.decode(0, 8, answered.result()).responses[0].partition_responses[0].error_code == 0
            if closes:
                await until(lambda: clock.advance(1000) is None and len(broker.listeners[0].connections) == 1)
                assert budget.available == limit
            for each in stalled:
                await each.close()

    run(scenario())


def test_clients_that_never_read_large_responses_take_limited_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "FIRST_SLICE_S", 0)

    async def scenario() -> None:
        clock = ManualClock()
        limit = 2_000_000
        memory = {"queued__max__request__bytes": str(limit), "socket__request__max__bytes": str(limit)}
        async with running_broker(tmp_path, clock=clock, **memory) as broker:
            client = await Client.connect(broker)
            names = [OffsetForLeaderTopic(f"{at:0240}", [OffsetForLeaderPartition(0, -1, 0)]) for at in range(3_000)]
            request = OffsetForLeaderEpochRequest(-1, names)
            size = len(frame(request, 2))
            slow = [small_receive_buffer(broker.port) for _ in range(20)]
            connections = broker.listeners[0].connections
            await until(lambda: len(connections) == 21 and all(each._transport for each in connections))
            for connection in connections:
                served = connection._transport.get_extra_info("socket")  # type: ignore[union-attr]  # made, see above
                served.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
            for each in slow:
                each.setblocking(False)
                await asyncio.get_running_loop().sock_sendall(each, frame(request, 2))
            budget = broker.listeners[0].response_budget
            await until(lambda: budget.available <= 0 and len(budget._waiting) > 0)
            assert budget.available > -3 * size
            answered = asyncio.ensure_future(client.ask(request, 2))
            seconds = 0
            while not answered.done():
                clock.advance(1000)
                seconds += 1
                for _ in range(20):
                    await asyncio.sleep(0.001)
            assert len(answered.result().topics) == 3_000
            assert seconds < 100
            for each in slow:
                each.close()

    run(scenario())


@pytest.mark.slow
def test_sendfile_sends_large_slices(tmp_path: Path) -> None:
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed: it shows the system calls")
    program = f"""
import asyncio, pathlib
from harness.client import Client, batch
from tests.server.harness import running_broker
async def main():
    async with running_broker(pathlib.Path({str(tmp_path)!r})) as broker:
        client = await Client.connect(broker)
        await client.create_topic("t")
        await client.produce("t", batch(b"x" * 200_000))
        response = await client.fetch("t")
        assert len(response.responses[0].partitions[0].records) > 200_000
asyncio.run(main())
"""
    traced = subprocess.run(
        [strace, "-f", "-e", "trace=sendfile,sendfile64", sys.executable, "-c", program],
        capture_output=True, text=True, check=False, cwd=Path(__file__).parent.parent.parent,
    )  # fmt: skip
    assert traced.returncode == 0, traced.stderr
    assert any("sendfile" in line and "= 200" in line for line in traced.stderr.splitlines()), traced.stderr


@pytest.mark.slow
def test_5000_idle_connections_take_little_memory(tmp_path: Path) -> None:
    count = 5000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * count + 500
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"needs {wanted} descriptors, this system allows {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            before = memory_bytes()
            sockets = []
            for _ in range(count):
                sock = socket.socket()
                sock.setblocking(False)
                await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", broker.port))
                sockets.append(sock)
            await until(lambda: len(broker.listeners[0].connections) == count)
            client = await Client.connect(broker)
            await client.create_topic("t")
            assert (await client.produce("t", batch(b"v"))).error_code == 0
            gc.collect()
            # both ends are in this process
            assert (memory_bytes() - before) / count < 12_000
            for sock in sockets:
                sock.close()
            await until(lambda: len(broker.listeners[0].connections) == 1)

    try:
        asyncio.run(scenario())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def memory_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_closed_connections_leave_memory_without_a_garbage_collection(tmp_path: Path) -> None:
    def transports() -> int:
        return sum(isinstance(each, asyncio.Transport) for each in gc.get_objects())

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        async with running_broker(tmp_path) as broker:
            before = transports()
            for _ in range(10):
                with socket.socket() as client:
                    client.setblocking(False)
                    await loop.sock_connect(client, ("127.0.0.1", broker.port))
                    await loop.sock_sendall(client, frame(ApiVersionsRequest(), 0))
                    assert await loop.sock_recv(client, 1000)
            await until(lambda: not broker.listeners[0].connections)
            await asyncio.sleep(0)
            assert transports() == before

    gc.disable()
    try:
        run(scenario())
    finally:
        gc.enable()


def test_only_refusals_are_refused_errors() -> None:
    assert issubclass(errors.UnservedRequestError, errors.RefusedError)
    assert issubclass(errors.UnansweredFailureError, errors.RefusedError)
    assert not issubclass(errors.UnencodableResponseError, errors.RefusedError)
