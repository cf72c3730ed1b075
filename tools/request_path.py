"""The files and functions of kafkapy that one request enters, from the arrival of its whole frame to the reply.

`python -m tools.request_path create_topics` prints them in the order in which they are first entered, and the number of
files; without a name it prints the numbers of all requests.

A broker with its files on the disk runs in this process. The request is sent some times first, so that modules are
loaded and caches are filled, and then once more on a connection of its own: it is decoded, since the connection has no
earlier request of its kind. Compiled modules, such as the record scan, do not appear, nor does work after the reply,
nor the selector of the event loop, which serves all connections.
"""

import argparse
import asyncio
import socket
import struct
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import FrameType
from typing import TypeVar

import kafkapy
from kafkapy.clock import SystemClock
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.network.loop import BrokerLoop
from kafkapy.protocol.client_core import Request
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.headers import RequestHeader, read_response_header, write_request_header
from kafkapy.protocol.message import Message
from kafkapy.protocol.messages import response_class
from kafkapy.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkapy.protocol.messages.end_txn import EndTxnRequest
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkapy.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkapy.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkapy.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafkapy.protocol.primitives import Reader, Writer
from kafkapy.records.record import Record, encode_batch
from kafkapy.server.lifecycle.broker import BrokerServer

PACKAGE = str(Path(kafkapy.__file__).parent) + "/"
TOPIC, GROUP, PRODUCER = "orders", "billing", "writer"
WARM_UPS = 3
RETRIABLE = frozenset(
    (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    )
)
LIMITS = {"produce": 23, "fetch": 23, "offset_commit": 36, "end_txn": 42, "create_topics": 75}
"""The most files that a request may enter."""
ARRIVAL = "Connection.buffer_updated"
"""The function that is called when bytes have arrived: a request of this program arrives in one piece."""
SELECTOR = PACKAGE + "network/loop.py"
"""The file of the event loop; it calls what sends the replies that leave together."""

R = TypeVar("R", bound=Message)
Entered = dict[str, list[str]]
"""The functions that were entered in each file, both in the order of their first entry."""


class Recorder:
    """Records the functions of kafkapy that any thread of this process enters; see `sys.setprofile`."""

    def __init__(self) -> None:
        self.entered: Entered = {}
        self._is_on = False

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        code, caller = frame.f_code, frame.f_back
        if not self._is_on or event != "call" or not code.co_filename.startswith(PACKAGE):
            return
        is_of_selector = code.co_filename == SELECTOR or (caller is not None and caller.f_code.co_filename == SELECTOR)
        if (self.entered or code.co_qualname == ARRIVAL) and not is_of_selector:
            functions = self.entered.setdefault(code.co_filename.removeprefix(PACKAGE), [])
            if code.co_qualname not in functions:
                functions.append(code.co_qualname)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Call the recorder in this thread, and in those that are started meanwhile."""
        threading.setprofile(self)
        sys.setprofile(self)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    @contextmanager
    def on(self) -> Iterator[None]:
        """Record."""
        self._is_on = True
        try:
            yield
        finally:
            self._is_on = False


class Connection:
    """A client's connection. Its sockets are asyncio's: sending and receiving enters no file of kafkapy."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self.member: JoinGroupResponse | None = None
        """Of the group, once it has joined."""

    @classmethod
    async def open(cls, broker: BrokerServer) -> "Connection":
        sock = socket.socket()
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", broker.listeners[0].endpoint.port))
        return cls(sock)

    async def exchange(self, frame: bytes) -> bytes:
        """Send a request and return the response, both with their sizes."""
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(self._socket, frame)
        received = bytearray()
        while len(received) < 4 or len(received) < 4 + struct.unpack_from(">i", received)[0]:
            content = await loop.sock_recv(self._socket, 1 << 16)
            if not content:
                raise ConnectionError("the broker has closed the connection")
            received += content
        return bytes(received)

    async def ask(self, request: Request, version: int) -> Message:
        """Return the response, and ask again while the coordinator begins; any other error code ends the program."""
        while True:
            response = decoded(await self.exchange(encoded(request, version)), request.API_KEY, version)
            codes = set(error_codes(response)) - {ErrorCode.NONE}
            if not codes <= RETRIABLE:
                raise SystemExit(f"{type(request).__name__} is answered {[ErrorCode(code).name for code in codes]}")
            if not codes:
                return response
            await SystemClock().sleep(10)

    def close(self) -> None:
        self._socket.close()


def encoded(request: Request, version: int) -> bytes:
    """Return the request's frame."""
    writer = Writer()
    write_request_header(writer, RequestHeader(request.API_KEY, version, 1, "request-path"))
    request.write(writer, version)
    body = writer.getvalue()
    return struct.pack(">i", len(body)) + body


def decoded(frame: bytes, api_key: int, version: int) -> Message:
    """Return the response in a frame."""
    reader = Reader(frame[4:])
    read_response_header(reader, api_key, version)
    return response_class(api_key).read(reader, version)


def error_codes(value: object) -> Iterator[int]:
    """Yield the error codes in a response, at any depth."""
    if isinstance(value, list | tuple):
        for element in value:
            yield from error_codes(element)
    elif isinstance(value, Message):
        for name in value.__slots__:
            if name.endswith("error_code"):
                yield getattr(value, name)
            else:
                yield from error_codes(getattr(value, name))


# The requests: each function makes what the request of this number needs, and returns it with its version.


async def produce(_connection: Connection, number: int) -> tuple[Request, int]:
    records = bytes(encode_batch([Record(b"key", b"value", number)]))
    data = TopicProduceData(TOPIC, partition_data=[PartitionProduceData(0, records)])
    return ProduceRequest(None, -1, 10_000, [data]), 8


async def fetch(connection: Connection, number: int) -> tuple[Request, int]:
    await connection.ask(*await produce(connection, number))
    partition = FetchPartition(0, -1, number, partition_max_bytes=1 << 20)
    return FetchRequest(topics=[FetchTopic(TOPIC, partitions=[partition])], max_wait_ms=0, min_bytes=1), 11


async def offset_commit(connection: Connection, number: int) -> tuple[Request, int]:
    member = connection.member
    if member is None:
        await connection.ask(FindCoordinatorRequest(GROUP, 0), 2)
        strategy = JoinGroupRequestProtocol("range", b"")
        join = JoinGroupRequest(GROUP, 60_000, 60_000, protocol_type="consumer", protocols=[strategy])
        joined = await connection.ask(join, 2)
        assert isinstance(joined, JoinGroupResponse)
        member = connection.member = joined
        assignment = SyncGroupRequestAssignment(member.member_id, b"")
        sync = SyncGroupRequest(GROUP, member.generation_id, member.member_id, assignments=[assignment])
        await connection.ask(sync, 2)
    topics = [OffsetCommitRequestTopic(TOPIC, partitions=[OffsetCommitRequestPartition(0, number)])]
    return OffsetCommitRequest(GROUP, member.generation_id, member.member_id, topics=topics), 7


async def end_txn(connection: Connection, _number: int) -> tuple[Request, int]:
    await connection.ask(FindCoordinatorRequest(PRODUCER, 1), 2)
    found = await connection.ask(InitProducerIdRequest(PRODUCER, 60_000), 1)
    assert isinstance(found, InitProducerIdResponse)
    producer = found.producer_id, found.producer_epoch
    added = AddPartitionsToTxnRequest([], PRODUCER, *producer, [AddPartitionsToTxnTopic(TOPIC, [0])])
    await connection.ask(added, 1)
    return EndTxnRequest(PRODUCER, *producer, committed=True), 1


async def create_topics(_connection: Connection, number: int) -> tuple[Request, int]:
    return CreateTopicsRequest([CreatableTopic(f"topic-{number}", 1, 1)], timeout_ms=10_000), 5


REQUESTS: dict[str, Callable[[Connection, int], Awaitable[tuple[Request, int]]]] = {
    each.__name__: each for each in (produce, fetch, offset_commit, end_txn, create_topics)
}


@asynccontextmanager
async def running_broker(path: str) -> AsyncIterator[BrokerServer]:
    """A broker on a free port, with one topic."""
    properties = {
        "broker.id": "0",
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": path,
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
    }
    async with BrokerServer(BrokerConfig.from_properties(properties)) as broker:
        connection = await Connection.open(broker)
        await connection.ask(CreateTopicsRequest([CreatableTopic(TOPIC, 1, 1)], timeout_ms=10_000), 5)
        connection.close()
        yield broker


async def _measure(name: str, recorder: Recorder, path: str) -> Entered:
    make = REQUESTS[name]
    async with running_broker(path) as broker:
        first, measured = await Connection.open(broker), await Connection.open(broker)
        for number in range(WARM_UPS):
            await first.ask(*await make(first, number))
        request, version = await make(first, WARM_UPS)
        frame = encoded(request, version)
        with recorder.on():
            answer = await measured.exchange(frame)
        codes = set(error_codes(decoded(answer, request.API_KEY, version)))
        if codes != {ErrorCode.NONE}:
            raise SystemExit(f"{name} is answered {[ErrorCode(code).name for code in codes]}")
        first.close()
        measured.close()
    return recorder.entered


def measure(name: str) -> Entered:
    """Return what the request of this name enters."""
    recorder = Recorder()
    with (
        tempfile.TemporaryDirectory() as path,
        recorder.installed(),
        asyncio.Runner(loop_factory=BrokerLoop) as runner,
    ):
        return runner.run(_measure(name, recorder, path))


def main(arguments: list[str]) -> int:
    """Print the path of one request, or the numbers of files of all."""
    parser = argparse.ArgumentParser(prog="python -m tools.request_path", description=__doc__)
    parser.add_argument("request", nargs="?", choices=list(REQUESTS))
    name = parser.parse_args(arguments).request
    for each in REQUESTS if name is None else [name]:
        entered = measure(each)
        if name is not None:
            for file, functions in entered.items():
                print(f"{file}\n    {', '.join(functions)}")
        print(f"{each}: {len(entered)} files, at most {LIMITS[each]} are allowed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
