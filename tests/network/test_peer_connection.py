"""Requests to other brokers: a running broker answers them, and a misbehaving peer never delays another one."""

import asyncio
import random
import struct
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from harness.client import Client
from kafkapy.controller.requests import Outgoing, PeerQueues
from kafkapy.network.peer import LocalChannel, PeerUnreachableError
from kafkapy.network.peer_connection import BACKOFF_JITTER, INLINE_STRUCTS, PeerSettings, PeerTimes, RemoteBrokers
from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.client_core import Handshake
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.headers import RequestHeader, read_request_header, write_response_header
from kafkapy.protocol.message import Message, ProtocolError
from kafkapy.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkapy.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kafkapy.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from kafkapy.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kafkapy.protocol.primitives import Reader, Writer
from kafkapy.testing.clock import ManualClock
from tests.server.harness import run, running_broker, until

TIMES = PeerTimes(request_ms=1000, connect_ms=500, backoff_ms=50, backoff_max_ms=400)
SETTINGS = PeerSettings("7", TIMES)
REQUEST = ListGroupsRequest()

Serve = Callable[["Served"], Awaitable[None]]


class Served:
    """The peer's end of a connection."""

    def __init__(self, peers: "Peers", reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.peers = peers
        self.reader = reader
        self.writer = writer

    async def request(self) -> RequestHeader:
        (size,) = struct.unpack(">i", await self.reader.readexactly(4))
        header = read_request_header(Reader(await self.reader.readexactly(size)))
        self.peers.requests += 1
        return header

    def frame(self, header: RequestHeader, response: Message) -> bytes:
        writer = Writer()
        write_response_header(writer, header.api_key, header.api_version, header.correlation_id)
        response.write(writer, header.api_version)
        body = writer.getvalue()
        return struct.pack(">i", len(body)) + body

    async def answer(self, response: Message) -> None:
        self.writer.write(self.frame(await self.request(), response))


class Peers:
    """Scripted brokers and the channel to them; a broker's id is its place in the list."""

    def __init__(self, clock: ManualClock, settings: PeerSettings) -> None:
        self.clock = clock
        self.addresses: dict[int, tuple[str, int]] = {}
        self.connections = 0
        self.requests = 0
        self.channel = RemoteBrokers(self.addresses.get, clock, settings, random.Random(1))

    def send(self, broker: int, request: Message = REQUEST, version: int = 4) -> "asyncio.Task[Message]":
        return asyncio.ensure_future(self.channel.send(broker, request, version))

    async def fails(self, sending: "asyncio.Task[Message]", match: str) -> None:
        with pytest.raises(PeerUnreachableError, match=match):
            await asyncio.wait_for(sending, 5)

    async def works(self, broker: int) -> None:
        """The broker answers, once the back-off after its failures is over."""
        sending = self.send(broker)
        while not sending.done():
            self.clock.advance(TIMES.backoff_max_ms / 10)
            await asyncio.sleep(0.001)
        assert sending.result() == ListGroupsResponse()


@asynccontextmanager
async def peers(*serving: Serve, settings: PeerSettings = SETTINGS) -> AsyncIterator[Peers]:
    found = Peers(ManualClock(), settings)
    servers = []

    async def listen(serve: Serve) -> asyncio.Server:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            found.connections += 1
            try:
                await serve(Served(found, reader, writer))
            except (asyncio.IncompleteReadError, ConnectionError):
                return
            finally:
                writer.close()

        return await asyncio.start_server(accept, "127.0.0.1", 0)

    for broker, serve in enumerate(serving):
        servers.append(await listen(serve))
        found.addresses[broker] = ("127.0.0.1", servers[-1].sockets[0].getsockname()[1])
    try:
        yield found
    finally:
        found.channel.close()
        for server in servers:
            server.close()


async def healthy(served: Served) -> None:
    while True:
        await served.answer(ListGroupsResponse())


async def silent(served: Served) -> None:
    await served.request()
    await served.reader.read()


async def reads_on(served: Served) -> None:
    await served.reader.read()


def once(misbehave: Serve) -> Serve:
    """A peer that misbehaves on its first connection and is healthy on all others."""
    pending = [misbehave]

    async def serve(served: Served) -> None:
        await (pending.pop() if pending else healthy)(served)

    return serve


def test_a_running_broker_answers_one_request_after_the_other_on_one_connection(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            settings = PeerSettings("1")
            channel = RemoteBrokers(lambda _: ("127.0.0.1", broker.port), broker.clock, settings, random.Random(1))
            markers = [WritableTxnMarker(5, 0, True, [WritableTxnMarkerTopic("none", [0])])]
            for _ in range(3):
                described, listed, marked = await asyncio.gather(
                    channel.send(0, MetadataRequest(None), 9),
                    channel.send(0, ListGroupsRequest(), 3),
                    channel.send(0, WriteTxnMarkersRequest(markers), 0),
                )
                assert isinstance(described, MetadataResponse)
                assert [topic.name for topic in described.topics] == ["t"]
                assert listed == ListGroupsResponse()
                assert isinstance(marked, WriteTxnMarkersResponse)
                assert marked.markers[0].topics[0].partitions[0].error_code == 3
            assert len(broker.listeners[0].connections) == 2
            local = LocalChannel({}, lambda: channel)
            assert await local.send(0, ListGroupsRequest(), 3) == ListGroupsResponse()
            channel.close()
            with pytest.raises(PeerUnreachableError, match="this broker stops"):
                await channel.send(0, ListGroupsRequest(), 3)

    run(scenario())


def test_a_broker_that_restarts_at_another_port_is_connected_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        port = 0
        times = PeerTimes(backoff_ms=1, backoff_max_ms=1)
        async with running_broker(tmp_path, in_memory_metadata=False) as broker:
            clock = broker.clock
            channel = RemoteBrokers(lambda _: ("127.0.0.1", port), clock, PeerSettings("1", times), random.Random(1))
            port = broker.port
            await channel.send(0, ListGroupsRequest(), 3)
        with pytest.raises(PeerUnreachableError, match=f"broker 0 at 127.0.0.1:{port}: "):
            await channel.send(0, ListGroupsRequest(), 3)
        async with running_broker(tmp_path, in_memory_metadata=False) as broker:
            port = broker.port
            await channel.send(0, ListGroupsRequest(), 3)
            channel.close()

    run(scenario())


async def stops_in_the_middle(served: Served) -> None:
    frame = served.frame(await served.request(), ListGroupsResponse())
    served.writer.write(frame[: len(frame) // 2])
    await reads_on(served)


async def closes_in_the_middle(served: Served) -> None:
    frame = served.frame(await served.request(), ListGroupsResponse())
    served.writer.write(frame[: len(frame) // 2])


async def closes_at_once(served: Served) -> None:
    await served.request()


async def answers_another_request(served: Served) -> None:
    header = await served.request()
    served.writer.write(served.frame(header._replace(correlation_id=99), ListGroupsResponse()))
    await reads_on(served)


async def speaks_another_protocol(served: Served) -> None:
    await served.request()
    served.writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    await reads_on(served)


async def speaks_first(served: Served) -> None:
    served.writer.write(served.frame(RequestHeader(ApiKey.LIST_GROUPS, 4, 1), ListGroupsResponse()))
    await reads_on(served)


@pytest.mark.parametrize(
    ("misbehave", "message"),
    [
        (closes_in_the_middle, "closed"),
        (closes_at_once, "closed"),
        (answers_another_request, "no response of a Kafka broker: .*correlation id"),
        (speaks_another_protocol, "no response of a Kafka broker: .*it speaks HTTP"),
    ],
)
def test_a_broken_connection_fails_the_request_and_is_made_again(misbehave: Serve, message: str) -> None:
    async def scenario() -> None:
        async with peers(once(misbehave)) as found:
            await found.fails(found.send(0), f"broker 0 at .*{message}")
            await found.works(0)
            await found.works(0)
            assert found.connections == 2

    run(scenario())


@pytest.mark.parametrize("misbehave", [silent, stops_in_the_middle])
def test_a_peer_that_stops_answering_fails_in_time_and_delays_no_other_peer(misbehave: Serve) -> None:
    async def scenario() -> None:
        async with peers(once(misbehave), healthy) as found:
            stuck, behind = found.send(0), found.send(0)
            await until(lambda: found.requests == 1)
            for _ in range(3):
                assert await found.send(1) == ListGroupsResponse()
            found.clock.advance(TIMES.request_ms - 1)
            await asyncio.sleep(0)
            assert not stuck.done()
            found.clock.advance(1)
            await found.fails(stuck, "no response within 1000 ms")
            await found.works(0)
            assert await behind == ListGroupsResponse()

    run(scenario())


def test_a_late_response_is_not_taken_for_that_of_the_next_request() -> None:
    late = asyncio.Event()

    async def answers_late(served: Served) -> None:
        header = await served.request()
        await late.wait()
        served.writer.write(served.frame(header, HeartbeatResponse(error_code=27)))
        await healthy(served)

    async def scenario() -> None:
        async with peers(once(answers_late)) as found:
            first = found.send(0, HeartbeatRequest(), 4)
            await until(lambda: found.requests == 1)
            found.clock.advance(TIMES.request_ms)
            await found.fails(first, "no response within")
            late.set()
            await found.works(0)

    run(scenario())


def test_bytes_without_a_request_end_the_connection() -> None:
    async def scenario() -> None:
        async with peers(once(speaks_first)) as found:
            sending = found.send(0)
            with pytest.raises(PeerUnreachableError):
                assert (await sending) is None
            await found.works(0)

    run(scenario())


def test_a_request_that_is_cancelled_ends_its_connection() -> None:
    async def scenario() -> None:
        async with peers(once(silent)) as found:
            sending = found.send(0)
            await until(lambda: found.requests == 1)
            sending.cancel()
            await found.works(0)
            assert found.connections == 2
            assert found.clock.pending_timers() == 0

    run(scenario())


def test_requests_to_unreachable_brokers_fail() -> None:
    async def scenario() -> None:
        async with peers(healthy) as found:
            await found.fails(found.send(5), "broker 5 is not registered")
            found.addresses[1] = ("127.0.0.1", 1)
            await found.fails(found.send(1), "broker 1 at 127.0.0.1:1: no connection")
            found.addresses[2] = ("a" * 70 + ".invalid", 9092)
            await found.fails(found.send(2), "no connection")
            assert await found.send(0) == ListGroupsResponse()

    run(scenario())


def test_the_pause_between_connections_doubles_up_to_a_maximum() -> None:
    async def scenario() -> None:
        async with peers(healthy) as found:
            found.addresses[1] = ("127.0.0.1", 1)
            await found.fails(found.send(1), "no connection")
            for expected_ms in (50, 100, 200, 400, 400):
                sending = found.send(1)
                await until(lambda: found.clock.pending_timers() == 1)
                found.clock.advance(expected_ms * (1 - BACKOFF_JITTER) - 1)
                await asyncio.sleep(0.005)
                assert not sending.done()
                found.clock.advance(expected_ms * 2 * BACKOFF_JITTER + 2)
                await found.fails(sending, "no connection")
            found.addresses[1] = found.addresses[0]
            await found.works(1)
            found.addresses[1] = ("127.0.0.1", 1)
            await found.fails(found.send(1), "no connection")
            sending = found.send(1)
            await until(lambda: found.clock.pending_timers() == 1)
            found.clock.advance(50 * (1 + BACKOFF_JITTER))
            await found.fails(sending, "no connection")

    run(scenario())


def test_a_handshake_comes_before_the_first_request_of_each_connection() -> None:
    def authenticate(host: str) -> Handshake:
        assert host == "127.0.0.1"
        response = yield HeartbeatRequest("PLAIN"), 0
        if response != HeartbeatResponse(error_code=int(ErrorCode.NONE)):
            raise ProtocolError("the mechanism is not enabled")

    def answers(error_code: int) -> Serve:
        async def serve(served: Served) -> None:
            await served.answer(HeartbeatResponse(error_code=error_code))
            await healthy(served)

        return serve

    async def scenario() -> None:
        settings = PeerSettings("7", TIMES, authenticate=authenticate)
        async with peers(
            answers(ErrorCode.NONE), answers(ErrorCode.SASL_AUTHENTICATION_FAILED), silent, settings=settings
        ) as found:
            await found.works(0)
            await found.works(0)
            assert found.connections == 1
            await found.fails(found.send(1), "the handshake failed: the mechanism is not enabled")
            stuck = found.send(2)
            await until(lambda: found.connections == 3)
            found.clock.advance(TIMES.connect_ms)
            await found.fails(stuck, "no connection within 500 ms")

    run(scenario())


def test_a_handshake_is_made_again_before_it_ends() -> None:
    made: list[int] = []

    def authenticate(_host: str) -> Handshake:
        made.append(len(made))
        response = yield HeartbeatRequest(str(len(made))), 0
        if response != HeartbeatResponse():
            raise ProtocolError("the password has changed")
        return 10_000

    async def serve(served: Served) -> None:
        for error_code in (ErrorCode.NONE, ErrorCode.NONE, ErrorCode.SASL_AUTHENTICATION_FAILED):
            await served.answer(HeartbeatResponse(error_code=error_code))
            await served.answer(ListGroupsResponse())
        await healthy(served)

    async def scenario() -> None:
        async with peers(serve, settings=PeerSettings("7", TIMES, authenticate=authenticate)) as found:
            await found.send(0)
            found.clock.advance(8_499)
            assert made == [0]
            found.clock.advance(1)
            await found.send(0)
            assert made == [0, 1]
            assert found.connections == 1
            found.clock.advance(8_500)
            await found.fails(found.send(0), "the handshake failed: the password has changed")
            await found.works(0)
            assert found.connections == 2

    run(scenario())


def test_a_step_of_a_handshake_that_blocks_does_not_block_the_event_loop() -> None:
    is_released = threading.Event()

    def authenticate(_host: str) -> Handshake:
        assert is_released.wait(10), "the event loop goes on"
        yield HeartbeatRequest("GSSAPI"), 0

    async def serve(served: Served) -> None:
        await served.answer(HeartbeatResponse())
        await healthy(served)

    async def scenario() -> None:
        async with peers(serve, settings=PeerSettings("7", TIMES, authenticate=authenticate)) as found:
            sending = asyncio.ensure_future(found.works(0))
            await until(lambda: found.connections == 1)
            is_released.set()
            await sending

    run(scenario())


def test_a_throttled_client_waits_before_its_next_request_but_no_longer_than_for_a_response() -> None:
    async def throttles(served: Served) -> None:
        for throttle_ms in (300, 10_000_000):
            await served.answer(ListGroupsResponse(throttle_time_ms=throttle_ms))
        await healthy(served)

    async def scenario() -> None:
        async with peers(throttles) as found:
            await found.send(0)
            for pause_ms in (300, TIMES.request_ms):
                waiting = found.send(0)
                await until(lambda: found.clock.pending_timers() == 1)
                found.clock.advance(pause_ms - 1)
                await asyncio.sleep(0.005)
                assert not waiting.done()
                found.clock.advance(1)
                await waiting
            assert found.connections == 1

    run(scenario())


def test_closing_fails_requests_in_flight_and_waiting_ones() -> None:
    async def scenario() -> None:
        async with peers(silent) as found:
            sending = [found.send(0), found.send(0)]
            await until(lambda: found.requests == 1)
            found.channel.close()
            await found.fails(sending[0], "this broker has closed the connection")
            found.clock.advance(TIMES.backoff_max_ms)
            waiting = sending[1]
            await until(lambda: waiting.done() or found.clock.pending_timers() == 1)
            found.clock.advance(TIMES.backoff_max_ms)
            await found.fails(waiting, "this broker stops")
            assert found.connections == 1

    run(scenario())


def test_a_request_that_its_version_can_not_express_raises_protocol_error() -> None:
    async def scenario() -> None:
        async with peers(healthy) as found:
            with pytest.raises(ProtocolError):
                await found.send(0, HeartbeatRequest(group_instance_id="i"), 0)
            await found.works(0)

    run(scenario())


def test_the_controllers_queue_to_one_broker_is_not_delayed_by_another() -> None:
    async def updates(served: Served) -> None:
        while True:
            await served.answer(UpdateMetadataResponse())

    async def scenario() -> None:
        async with peers(silent, updates, closes_at_once) as found:
            answered: list[int] = []
            queues = PeerQueues(found.channel, found.clock, lambda outgoing, _: answered.append(outgoing.broker))
            for broker in (0, 2, 1, 0, 1, 2, 1):
                queues.send(Outgoing(broker, UpdateMetadataRequest(), 6))
            await until(lambda: answered == [1, 1, 1])
            queues.remove_all()

    run(scenario())


def test_a_large_request_is_encoded_beside_the_loop() -> None:
    async def main() -> None:
        encoded: list[int] = []

        async def compute(encode: Callable[[], bytes]) -> bytes:
            frame = await asyncio.to_thread(encode)
            encoded.append(len(frame))
            return frame

        async def describes(served: Served) -> None:
            while True:
                await served.answer(MetadataResponse())

        async with peers(describes, settings=SETTINGS._replace(compute=compute)) as found:
            for count in (1, INLINE_STRUCTS + 1, 1):
                names = [MetadataRequestTopic(name="t")] * count
                assert await found.channel.send(0, MetadataRequest(topics=names), 4) == MetadataResponse()
            assert len(encoded) == 1
            assert encoded[0] > INLINE_STRUCTS * len("\0\1t")

    asyncio.run(main())
