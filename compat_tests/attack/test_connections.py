"""Attacks on connections: announced lengths, slow and silent peers, floods. Others are served meanwhile.

The same from Apache Kafka 2.7.2 (`--target kafka-2.7.2`) and from kafkapy, but for the tests that say otherwise.
"""

import gzip
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack

import psutil  # type: ignore[import-untyped]  # it has no types
import pytest

from compat_tests.data_path.frames import batch, new_topic, produce
from compat_tests.groups.wire import Wire
from harness.client import frame, produce_request
from harness.kafkapy_process import KafkapyProcess
from harness.process import Broker
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
from kafkapy.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafkapy.protocol.messages.metadata import MetadataRequest

SERVED_S = 5.0
"""A small request of another client is answered within this time, on a machine that runs other tests too."""

MIB = 1 << 20


class Opened:
    """Connections of the attacker."""

    def __init__(self, broker: Broker) -> None:
        host, _, port = broker.bootstrap.rpartition(":")
        self._address = (host, int(port))
        self._stack = ExitStack()

    def __enter__(self) -> "Opened":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def connect(self, receive_size: int = 0) -> socket.socket:
        sock = self._stack.enter_context(socket.socket())
        if receive_size:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_size)
        sock.settimeout(30)
        sock.connect(self._address)
        return sock


@pytest.fixture
def opened(broker: Broker) -> Iterator[Opened]:
    with Opened(broker) as connections:
        yield connections


def check_served(broker: Broker) -> None:
    """A new client is served: a small request, and a record of its own."""
    started = time.monotonic()
    with Wire(broker.bootstrap) as wire:
        assert wire.ask(ApiVersionsRequest(), 0).error_code == 0
    assert time.monotonic() - started < SERVED_S


def is_closed(sock: socket.socket) -> bool:
    try:
        return sock.recv(1) == b""
    except ConnectionError:
        return True


@pytest.mark.parametrize("size", [-1, -(2**31), 2**31 - 1, 100 * MIB + 1], ids=str)
def test_impossible_frame_lengths_end_the_connection(broker: Broker, opened: Opened, size: int) -> None:
    sock = opened.connect()
    sock.sendall(struct.pack(">i", size) + b"\x00" * 10)
    assert is_closed(sock)
    check_served(broker)


def test_announced_lengths_take_no_memory(broker: Broker, opened: Opened) -> None:
    """60 frames of 100 MiB are announced. Apache Kafka takes the memory at once; it has a limit by its heap."""
    assert broker.pid is not None
    if broker.name != "kafkapy":
        pytest.skip("Apache Kafka takes announced memory from its heap, which the process has already")
    before = psutil.Process(broker.pid).memory_info().rss
    for _ in range(60):
        opened.connect().sendall(struct.pack(">i", 100 * MIB) + b"\x00" * 1000)
    check_served(broker)
    assert psutil.Process(broker.pid).memory_info().rss - before < 64 * MIB


def test_peers_that_send_a_byte_at_a_time(broker: Broker, opened: Opened) -> None:
    request = frame(ApiVersionsRequest(), 0)
    slow = [opened.connect() for _ in range(50)]
    for at in range(len(request)):
        for sock in slow:
            sock.sendall(request[at : at + 1])
        if at % 5 == 0:
            check_served(broker)
    for sock in slow:
        assert len(sock.recv(4)) == 4


def test_clients_that_never_read(broker: Broker, opened: Opened) -> None:
    """They ask for everything again and again, as long as the broker reads."""
    with Wire(broker.bootstrap) as wire:
        for _ in range(3):
            new_topic(wire, 40)
    asked = frame(MetadataRequest(None), 1) * 2_000
    for _ in range(20):
        sock = opened.connect(4096)
        sock.setblocking(False)
        try:
            while sock.send(asked):
                pass
        except BlockingIOError:
            pass
        check_served(broker)


def test_a_flood_of_connections(broker: Broker, opened: Opened) -> None:
    idle = [opened.connect() for _ in range(500)]
    check_served(broker)
    for sock in idle[::2]:
        sock.sendall(b"\x00\x00")
        sock.close()
    check_served(broker)
    request = frame(ApiVersionsRequest(), 0)
    for sock in idle[1::2]:
        sock.sendall(request)
    for sock in idle[1::2]:
        assert len(sock.recv(4)) == 4


def test_pipelined_requests_of_one_client_do_not_delay_others(broker: Broker, opened: Opened) -> None:
    sock = opened.connect()
    asked = frame(MetadataRequest(None), 1)
    sock.setblocking(False)
    try:
        sock.send(asked * (256 * 1024 // len(asked)))
    except BlockingIOError:
        pytest.fail("the socket takes a quarter of a megabyte")
    for _ in range(20):
        check_served(broker)


def test_a_small_batch_that_decompresses_to_a_large_one(broker: Broker, opened: Opened) -> None:
    """CVE-2023-34455: a compressed batch is not unpacked beyond what its topic may hold."""
    with Wire(broker.bootstrap) as wire:
        topic = new_topic(wire, 1)
        assert produce(wire, topic, batch(b"v")) == (0, 0)
    bomb = bytearray(batch(b"v"))
    content = gzip.compress(bytes(300 * MIB), 9)
    bomb[61:] = content
    bomb[8:12] = (len(bomb) - 12).to_bytes(4)
    bomb[21:23] = (1).to_bytes(2)
    from crc32c import crc32c

    bomb[17:21] = crc32c(bytes(bomb[21:])).to_bytes(4)
    sock = opened.connect()
    sock.sendall(frame(produce_request(topic, bytes(bomb)), 8))
    for _ in range(5):
        check_served(broker)
    assert sock.recv(4)
    with Wire(broker.bootstrap) as wire:
        assert produce(wire, topic, batch(b"v")) == (0, 1)


LIMIT = 20_000_000


@pytest.fixture(scope="module")
def small_broker() -> Iterator[KafkapyProcess]:
    """With little memory for requests: kafkapy only, since the limits on slow peers are its own."""
    config = {"queued.max.request.bytes": str(LIMIT), "socket.request.max.bytes": "2000000"}
    with KafkapyProcess(config=config) as broker:
        broker.start()
        yield broker


@pytest.mark.parametrize("closes", [False, True], ids=["stalled", "closed"])
def test_incomplete_requests_do_not_delay_others(small_broker: KafkapyProcess, closes: bool) -> None:
    """Apache Kafka 2.7.2 keeps such requests, and the others waiting, for connections.max.idle.ms."""
    assert small_broker.pid is not None
    with Wire(small_broker.bootstrap) as wire, Opened(small_broker) as opened:
        topic = new_topic(wire, 1)
        before = psutil.Process(small_broker.pid).memory_info().rss
        large = frame(produce_request("t", b"x" * 1_900_000), 8)
        half_sent = [opened.connect() for _ in range(40)]
        for sock in half_sent:
            sock.setblocking(False)
            try:
                sock.send(large[:-100_000])
            except BlockingIOError:
                continue
        check_served(small_broker)
        if closes:
            for sock in half_sent:
                sock.close()
        started = time.monotonic()
        assert produce(wire, topic, batch(b"v" * 900_000))[0] == 0
        assert time.monotonic() - started < 30
        assert psutil.Process(small_broker.pid).memory_info().rss - before < 2 * LIMIT + 64 * MIB


def test_unread_responses_take_limited_memory(small_broker: KafkapyProcess) -> None:
    assert small_broker.pid is not None
    with Wire(small_broker.bootstrap) as wire, Opened(small_broker) as opened:
        names = [new_topic(wire, 1) for _ in range(100)]
        request = DescribeConfigsRequest([DescribeConfigsResource(2, name) for name in names], include_synonyms=True)
        asked = frame(request, 3)
        before = psutil.Process(small_broker.pid).memory_info().rss
        for _ in range(300):
            opened.connect(4096).sendall(asked)
        for _ in range(10):
            check_served(small_broker)
        assert psutil.Process(small_broker.pid).memory_info().rss - before < 4 * LIMIT + 128 * MIB
