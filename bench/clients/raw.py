"""Produce requests as ready-made frames over plain sockets: a load that costs the client next to nothing.

`python -m bench.clients.raw '{"port": …, "topic": …, "connections": …, "requests": …}'` keeps one request in flight on
each connection; its last line of output is a JSON object.
"""

import json
import select
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat

from harness.measure import percentile
from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.headers import RequestHeader, write_request_header
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkapy.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkapy.protocol.primitives import Message, Writer
from kafkapy.records.record import Record, encode_batch

HOST = "127.0.0.1"
PRODUCE_VERSION = 7
METADATA_VERSION = 4
ANSWER_TIMEOUT_S = 30.0
RETRY_S = 0.002
VALUE = bytes(100)
Waited = list[float]


def frame(key: ApiKey, request: Message, version: int) -> bytes:
    """The request's bytes with header and size."""
    writer = Writer()
    write_request_header(writer, RequestHeader(key, version, 1, "bench"))
    request.write(writer, version)
    body = writer.getvalue()
    return struct.pack(">i", len(body)) + body


def produce_frame(topic: str, partition: int = 0, acks: int = 1, *, count: int = 1, value: bytes = VALUE) -> bytes:
    """A batch of `count` records for the partition, one if nothing else is said."""
    batch = encode_batch([Record(None, value, timestamp=int(1000 * time.time()))] * count)
    return batch_frame(batch, topic, partition, acks)


def batch_frame(batch: bytes, topic: str, partition: int = 0, acks: int = 1) -> bytes:
    """The batch, with which the frame ends, for the partition."""
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(partition, batch)])
    request = ProduceRequest(acks=acks, timeout_ms=5000, topic_data=[data])
    return frame(ApiKey.PRODUCE, request, PRODUCE_VERSION)


def metadata_frame(topic: str) -> bytes:
    """Asks for the topic in a way that creates it."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=True)
    return frame(ApiKey.METADATA, request, METADATA_VERSION)


def receive(connection: socket.socket) -> bytes:
    """One response without its size."""
    (size,) = struct.unpack(">i", _exactly(connection, 4))
    return _exactly(connection, size)


def _exactly(connection: socket.socket, size: int) -> bytes:
    # A socket with a timeout returns less than MSG_WAITALL asks for where more must still arrive.
    data = connection.recv(size, socket.MSG_WAITALL)
    while len(data) < size:
        more = connection.recv(size - len(data), socket.MSG_WAITALL)
        if not more:
            raise ConnectionError("the broker closed the connection")
        data += more
    return data


def error_of(answer: bytes, topic: str) -> int:
    """The error code of a produce response for one partition."""
    return error_and_offset(answer, topic)[0]


def error_and_offset(answer: bytes, topic: str) -> tuple[int, int]:
    """Error code and base offset of the same: after correlation id, counts, name and index."""
    error, offset = struct.unpack_from(">hq", answer, 4 + 4 + 2 + len(topic) + 4 + 4)
    return int(error), int(offset)


def first_acknowledged_s(port: int, topic: str, deadline_s: float) -> float:
    """When (monotonic seconds) a broker that is starting first acknowledged a record; raises TimeoutError."""
    while time.monotonic() < deadline_s:
        try:
            with socket.create_connection((HOST, port), timeout=ANSWER_TIMEOUT_S) as connection:
                if _produced(connection, topic, deadline_s):
                    return time.monotonic()
        except OSError:
            time.sleep(RETRY_S)
    raise TimeoutError("nothing was acknowledged in time")


def _produced(connection: socket.socket, topic: str, deadline_s: float) -> bool:
    while time.monotonic() < deadline_s:
        connection.sendall(metadata_frame(topic))
        receive(connection)
        connection.sendall(produce_frame(topic))
        if error_of(receive(connection), topic) == 0:
            return True
        time.sleep(RETRY_S)
    return False


def connect(port: int) -> socket.socket:
    """A connection that waits for nothing when it sends."""
    connection = socket.create_connection((HOST, port), timeout=ANSWER_TIMEOUT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def round_trips(
    frames: Sequence[tuple[socket.socket, Iterator[bytes]]], requests: int, check: Callable[[bytes], object]
) -> Waited:
    """Sends each connection its next frame, one in flight on each; returns what each answer took, in µs.

    `check` is given each answer and ends the program when it is a bad one.
    """
    poll = select.epoll()
    places = {connection.fileno(): (connection, each) for connection, each in frames}
    sent_s = {}
    for place, (connection, each) in places.items():
        poll.register(connection, select.EPOLLIN)
        request = next(each)
        sent_s[place] = time.perf_counter()
        connection.sendall(request)
    waited: Waited = []
    left = requests - len(frames)
    while len(waited) < requests:
        ready = poll.poll(ANSWER_TIMEOUT_S)
        if not ready:
            raise SystemExit(f"no answer for {ANSWER_TIMEOUT_S:.0f} s after {len(waited)} requests")
        for place, _ in ready:
            connection, each = places[place]
            answer = receive(connection)
            waited.append(1e6 * (time.perf_counter() - sent_s[place]))
            check(answer)
            if left > 0:
                left -= 1
                request = next(each)
                sent_s[place] = time.perf_counter()
                connection.sendall(request)
    return waited


def run(port: int, topic: str, connections: int, requests: int) -> dict[str, float]:
    """Sends the requests and waits for every answer; round trips in µs."""
    sockets = [connect(port) for _ in range(connections)]

    def check(answer: bytes) -> None:
        if error := error_of(answer, topic):
            raise SystemExit(f"a produce request was answered with error {error}")

    waited = round_trips([(connection, repeat(produce_frame(topic))) for connection in sockets], requests, check)
    for connection in sockets:
        connection.close()
    return {"records": requests, "p50_us": percentile(waited, 0.5), "p99_us": percentile(waited, 0.99)}


if __name__ == "__main__":
    print(json.dumps(run(**json.loads(sys.argv[1]))))
