"""Random requests in random pieces on several connections at once: every response comes, in order, and is right.

The test finds lost wake-ups: nothing waits for a clock, so a connection on which nothing moves for ``LOST_S`` has lost
one. The requests depend on the seed alone; their timing also depends on how much the sockets take.
"""

import asyncio
import os
import random
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from harness.client import Client, batch, frame
from kafkapy import turns
from kafkapy.network import sender as sender_module
from kafkapy.network.loop import BrokerLoop
from kafkapy.protocol.headers import read_response_header
from kafkapy.protocol.messages import response_class
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
from kafkapy.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkapy.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkapy.protocol.primitives import Reader
from kafkapy.records.batch import measure
from kafkapy.records.convert import convert
from kafkapy.server.lifecycle.broker import BrokerServer
from kafkapy.types import TopicPartition
from tests.server.harness import running_broker, until

LOST_S = 5
WAIT_MS = 600_000
"""The wait of a fetch that only produced records can end."""
BUDGET = 1_000_000
"""Bytes of large requests: two of them are too many."""
FULL, LIVE, TAKEN, SAFE, JUNK = "full", "live", "taken", "safe", "junk"
"""Topics: for reading; for waiting fetches; for batches without a flush, with a flush, and that are not counted."""
FULL_PARTITIONS = 4
CROWD = 8
SLOTS = 3
"""Connections at a time, each with its own partition of ``LIVE``, ``TAKEN`` and ``SAFE``."""

Check = Callable[[Any], None]


class Asked(NamedTuple):
    """A request, and the check of its response; None if it has no response."""

    data: bytes
    api_key: int
    version: int
    check: Check | None


class World:
    """A running broker, and the content of its topics."""

    def __init__(self, broker: BrokerServer, control: Client, rng: random.Random) -> None:
        self.broker = broker
        self.control = control
        self.control_is_free = asyncio.Lock()
        self.rng = rng
        self.stored: list[list[bytes]] = []
        self.produced = {(topic, slot): 0 for topic in (LIVE, TAKEN, SAFE) for slot in range(SLOTS)}

    async def fill(self) -> None:
        """Create the topics, and append batches of all sizes to ``FULL``."""
        await self.control.create_topic(FULL, FULL_PARTITIONS)
        for topic in (LIVE, TAKEN, JUNK):
            await self.control.create_topic(topic, SLOTS)
        await self.control.create_topic(SAFE, SLOTS, kafkapy__flush="ack")
        for partition in range(FULL_PARTITIONS):
            batches: list[bytes] = []
            for _ in range(8):
                size = self.rng.choice((10, 500, 20_000, 33_000, 70_000, 500_000))
                values = [os.urandom(size)] if size > 500 else [b"%d" % at * size for at in range(20)]
                made = batch(*values, compression=self.rng.choice((0, 0, 1)))
                offset = sum(int.from_bytes(each[57:61]) for each in batches)
                assert (await self.control.produce(FULL, made, partition=partition)).base_offset == offset
                batches.append(struct.pack(">q", offset) + made[8:12] + bytes(4) + made[16:])
            self.stored.append(batches)

    def read(self, partition: int, first: int, max_bytes: int, *, min_one_batch: bool) -> bytes:
        """The bytes that a fetch gets from the batch ``first`` on."""
        data = b"".join(self.stored[partition][first:])
        size = len(self.stored[partition][first])
        if len(data) <= max_bytes or size <= max_bytes:
            return data[:max_bytes]
        return data[:size] if min_one_batch else b""


class Script:
    """The requests of one connection."""

    def __init__(self, world: World, slot: int, *, counts: bool = False, is_small: bool = False) -> None:
        """``counts``: fetch from and append to the slot's own partitions; ``is_small``: small requests alone."""
        self.world = world
        self.slot = slot
        self.counts = counts
        self.rng = world.rng
        self.half_closes = self.rng.random() < 0.4
        self.live: list[bytes] = []
        self.asked: list[Asked] = []
        small: list[Callable[[], None]] = [self.api_versions, self.metadata, self.configs]
        kinds = [*small, self.fetch_full, self.fetch_full, self.fetch_old, self.produce, self.produce]
        kinds.append(self.fetch_live if counts else self.produce)
        count = self.rng.choice((1, 5, 12, 30))
        if is_small or self.rng.random() < 0.1:
            kinds, count = small[: self.rng.randrange(1, 4)], 20 if is_small else 400
        for _ in range(count):
            self.rng.choice(kinds)()

    def ask(self, request: Any, version: int, check: Check | None) -> None:
        data = frame(request, version, correlation_id=len(self.asked) + 1)
        self.asked.append(Asked(data, request.API_KEY, version, check))

    def api_versions(self) -> None:
        self.ask(ApiVersionsRequest(), 0, lambda answer: expect(answer.error_code, 0))

    def metadata(self) -> None:
        request = MetadataRequest([MetadataRequestTopic(name=FULL)] * self.rng.choice((1, 2)))
        self.ask(request, 4, lambda answer: expect(len(answer.topics[0].partitions), FULL_PARTITIONS))

    def configs(self) -> None:
        """A request that a coroutine answers."""
        request = DescribeConfigsRequest([DescribeConfigsResource(2, FULL, None)])
        self.ask(request, 1, lambda answer: expect(answer.results[0].error_code, 0))

    def produce(self) -> None:
        topic = self.rng.choice((TAKEN, SAFE)) if self.counts else JUNK
        made = batch(os.urandom(self.rng.choice((5, 5, 3000, 90_000, 400_000))))
        acks = self.rng.choice((0, 1, -1))
        others = [PartitionProduceData(at, batch(b"more")) for at in range(self.rng.choice((0, 0, 2)))]
        data = [TopicProduceData(topic, partition_data=[PartitionProduceData(self.slot, made)])]
        request = ProduceRequest(None, acks, 10_000, [*data, TopicProduceData(JUNK, partition_data=others)])
        offset = -1
        if self.counts:
            offset = self.world.produced[topic, self.slot]
            self.world.produced[topic, self.slot] += 1

        def check(answer: Any) -> None:
            found = answer.responses[0].partition_responses[0]
            expect((found.error_code, found.base_offset if self.counts else -1), (0, offset))

        self.ask(request, 8, check if acks else None)

    def wishes(self) -> tuple[list[tuple[int, int, int]], int]:
        """Return (partition, first batch, bytes) of some partitions, and the bytes of all."""
        partitions = self.rng.sample(range(FULL_PARTITIONS), self.rng.randrange(1, FULL_PARTITIONS + 1))
        sizes = (100, 20_000, 60_000, 300_000, 4_000_000)
        chosen = [(at, self.rng.randrange(8), self.rng.choice(sizes)) for at in partitions]
        return chosen, self.rng.choice((50_000, 1_000_000, 20_000_000))

    def fetch(self, wishes: list[tuple[int, int, int]], max_bytes: int) -> FetchRequest:
        asked = [
            FetchPartition(partition, -1, self.offset(partition, first), partition_max_bytes=size)
            for partition, first, size in wishes
        ]
        topics = [FetchTopic(FULL, partitions=asked)]
        return FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=max_bytes, topics=topics)

    def offset(self, partition: int, first: int) -> int:
        return struct.unpack_from(">q", self.world.stored[partition][first])[0]  # type: ignore[no-any-return]

    def fetch_full(self) -> None:
        wishes, max_bytes = self.wishes()
        left = max_bytes
        expected: dict[int, bytes] = {}
        for partition, first, size in wishes:
            found = self.world.read(partition, first, min(size, left), min_one_batch=not any(expected.values()))
            expected[partition] = found
            left = max(left - len(found), 0)

        def check(answer: Any) -> None:
            expect({each.partition_index: bytes(each.records) for each in answer.responses[0].partitions}, expected)

        self.ask(self.fetch(wishes, max_bytes), self.rng.choice((4, 11)), check)

    def fetch_old(self) -> None:
        """A fetch whose batches are converted; announced bytes that conversion does not make are padded."""
        partition, first, size = self.wishes()[0][0]
        version = self.rng.choice((0, 1, 2, 3))
        source = self.world.read(partition, first, size, min_one_batch=True)
        if version < 3:
            source = source[:size]

        def check(answer: Any) -> None:
            expected, length = converted(source, 1 if version >= 2 else 0)
            records = bytes(answer.responses[0].partitions[0].records)
            expect((records[: len(expected)], len(records)), (expected[:length], length))

        request = self.fetch([(partition, first, size)], 20_000_000)
        self.ask(request, version, check)

    def fetch_live(self) -> None:
        """A fetch that waits until another client produces, or until our side is closed."""
        offset = self.world.produced[LIVE, self.slot]
        self.world.produced[LIVE, self.slot] += 1
        made = batch(os.urandom(self.rng.choice((10, 50_000))))
        self.live.append(made)
        version = self.rng.choice((1, 3, 11, 11))
        asked = [FetchPartition(self.slot, -1, offset, partition_max_bytes=1)]
        topics = [FetchTopic(LIVE, partitions=asked)]
        request = FetchRequest(max_wait_ms=WAIT_MS, min_bytes=1, max_bytes=1 << 20, topics=topics)

        def check(answer: Any) -> None:
            records = bytes(answer.responses[0].partitions[0].records)
            if self.half_closes:
                return
            if version == 11:
                expect(records[16:], made[16:])
            else:
                expect(len(records) > 0, True)

        self.ask(request, version, check)


def expect(found: object, wanted: object) -> None:
    assert found == wanted, f"{str(found)[:300]} instead of {str(wanted)[:300]}"


def converted(source: bytes, magic: int) -> tuple[bytes, int]:
    """Return ``source`` converted, and its announced length."""
    first = measure(source)
    if first is None:
        return source, len(source)
    length = max(len(source), len(convert(source[:first], magic)))
    return convert(source, magic)[:length], length


async def turn(rng: random.Random) -> None:
    """Let the loop run a few iterations, or none."""
    for _ in range(rng.choice((0, 0, 1, 3, 20))):
        await asyncio.sleep(0)


def pieces(rng: random.Random, data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        size = rng.choice((1, 3, 50, 5000, 70_000, 1 << 20))
        yield data[at : at + size]
        at += size


class Peer:
    """One client's socket."""

    def __init__(self, world: World, script: Script) -> None:
        self.world = world
        self.script = script
        self.rng = random.Random(world.rng.random())  # independent of the other connections
        self.received = bytearray()
        self.answers = 0
        self.turn: Callable[[], Awaitable[None]] = partial(turn, self.rng)
        self.sock = socket.socket()
        if self.rng.random() < 0.5:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.rng.choice((2048, 30_000)))
        self.sock.setblocking(False)
        self.loop = asyncio.get_running_loop()

    async def connect(self) -> None:
        await self.loop.sock_connect(self.sock, ("127.0.0.1", self.world.broker.port))
        port = self.sock.getsockname()[1]
        connections = self.world.broker.listeners[0].connections
        await until(lambda: any(each.session.peer_port == port and each._transport is not None for each in connections))
        if self.rng.random() < 0.5:
            (connection,) = [each for each in connections if each.session.peer_port == port]
            assert connection._transport is not None
            served = connection._transport.get_extra_info("socket")
            served.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.rng.choice((4096, 50_000)))

    async def send(self) -> None:
        data = b"".join(each.data for each in self.script.asked)
        for piece in pieces(self.rng, data) if self.rng.random() < 0.7 else [data]:
            await self.loop.sock_sendall(self.sock, piece)
            await self.turn()
        if self.script.half_closes:
            self.sock.shutdown(socket.SHUT_WR)

    async def produce(self) -> None:
        """Produce the records that the script's fetches wait for, mostly while they wait."""
        waited_for = TopicPartition(LIVE, self.script.slot)
        for made in self.script.live:
            for _ in range(self.rng.choice((0, 2000, 2000))):
                if waited_for in self.world.broker.services.replica_manager.purgatory._waiting:
                    break
                await asyncio.sleep(0)
            async with self.world.control_is_free:
                answer = await self.world.control.produce(LIVE, made, partition=self.script.slot)
            assert answer.error_code == 0

    async def receive(self) -> None:
        if self.rng.random() < 0.2:  # the other side has long been blocked
            for _ in range(500):
                await asyncio.sleep(0)
        for correlation_id, asked in enumerate(self.script.asked, 1):
            await self.take(correlation_id, asked)
        expect(bytes(self.received), b"")

    async def take(self, correlation_id: int, asked: Asked) -> None:
        """Receive the response, if the request has one."""
        if asked.check is not None:
            reader = Reader(await self.answer())
            expect(read_response_header(reader, asked.api_key, asked.version), correlation_id)
            asked.check(response_class(asked.api_key).read(reader, asked.version))
            reader.expect_end()
            self.answers += 1

    async def answer(self) -> memoryview:
        while len(self.received) < 4 or len(self.received) < 4 + int.from_bytes(self.received[:4]):
            size = self.rng.choice((10, 2000, 40_000, 1 << 20))
            piece = await asyncio.wait_for(self.loop.sock_recv(self.sock, size), LOST_S)
            assert piece, f"closed after {self.answers} answers and {len(self.received)} bytes"
            self.received += piece
            await self.turn()
        end = 4 + int.from_bytes(self.received[:4])
        taken = memoryview(bytes(self.received[4:end]))
        del self.received[:end]
        return taken

    async def ask_all(self) -> None:
        """Send all requests, and receive every response."""
        await self.connect()
        await asyncio.gather(self.send(), self.receive())
        self.sock.close()

    async def ask_one_by_one(self) -> None:
        """Send slowly, so that the requests of other connections interleave with these."""
        self.turn = _at_once
        await self.connect()
        for correlation_id, asked in enumerate(self.script.asked, 1):
            await self.loop.sock_sendall(self.sock, asked.data)
            await self.take(correlation_id, asked)
        self.sock.close()

    async def die(self) -> None:
        """Send and receive a part, then disconnect."""
        await self.connect()
        data = b"".join(each.data for each in self.script.asked)
        for piece in pieces(self.rng, data[: self.rng.randrange(1, len(data))]):
            try:
                await asyncio.wait_for(self.loop.sock_sendall(self.sock, piece), 0.05)
            except TimeoutError:
                break
            await self.turn()
        if self.rng.random() < 0.5:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()


async def _at_once() -> None:
    """Do not let the loop run."""


async def play(world: World) -> None:
    """One round: several connections at once; afterwards nothing of them remains."""
    dead = Peer(world, Script(world, 0))
    peers = [Peer(world, Script(world, slot, counts=True)) for slot in range(SLOTS)]
    crowd = [Peer(world, Script(world, 0, is_small=True)) for _ in range(world.rng.choice((0, CROWD)))]

    try:
        steps = [step for peer in peers for step in (peer.ask_all(), peer.produce())]
        await asyncio.gather(dead.die(), *steps, *(each.ask_one_by_one() for each in crowd))
    finally:
        for peer in (*peers, *crowd, dead):
            peer.sock.close()
    listener = world.broker.listeners[0]
    await asyncio.wait_for(until(lambda: len(listener.connections) == 1), LOST_S)
    expect(listener.budget.available, BUDGET)
    replicas = world.broker.services.replica_manager
    expect(len(replicas.purgatory), 0)
    for (topic, slot), count in world.produced.items():
        expect(replicas.partitions[TopicPartition(topic, slot)].log.log_end_offset, count)


def limit_sendfile(patch: pytest.MonkeyPatch, rng: random.Random) -> None:
    """Make the socket accept fewer bytes, or refuse ``sendfile``."""
    if rng.random() < 0.3 or sender_module.sendfile is None:
        patch.setattr(sender_module, "sendfile", None)
        return
    most = rng.choice((7_000, 40_000, 1 << 30))

    def narrow(out: int, source: int, position: int, count: int) -> int:
        return os.sendfile(out, source, position, min(count, rng.randrange(1, most)))

    patch.setattr(sender_module, "sendfile", narrow)


async def rounds(path: Path, seeds: range) -> None:
    """Play a round for each seed on one broker."""
    of_2020 = "-1"  # the batches are from 2020
    memory = {"queued__max__request__bytes": str(BUDGET), "socket__request__max__bytes": str(BUDGET)}
    async with running_broker(path, log__retention__ms=of_2020, **memory) as broker:
        control = await Client.connect(broker)
        world = World(broker, control, random.Random(seeds.start))
        await world.fill()
        for seed in seeds:
            world.rng = random.Random(seed)
            with pytest.MonkeyPatch.context() as patch:
                limit_sendfile(patch, random.Random(seed))
                patch.setattr(turns, "FIRST_SLICE_S", world.rng.choice((0, turns.FIRST_SLICE_S)))
                try:
                    await play(world)
                except (AssertionError, TimeoutError) as error:
                    raise AssertionError(f"seed {seed}: {error!r}") from error
        await control.close()


@pytest.mark.parametrize(("new_loop", "seeds"), [(BrokerLoop, range(16)), (asyncio.new_event_loop, range(16, 20))])
def test_random_requests_are_answered_in_order(
    tmp_path: Path, new_loop: Callable[[], asyncio.AbstractEventLoop], seeds: range
) -> None:
    """On the broker's own loop, and on one without late replies."""
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(rounds(tmp_path, seeds))
