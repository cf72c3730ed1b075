"""Requests as ready-made frames over plain sockets, one in flight on each connection; nearly all are small.

`python -m bench.clients.small '{"port": …, "topic": …, "kind": "heartbeat", "connections": …, "requests": …}'`; its
last line of output is a JSON object.
"""

import json
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count, cycle, repeat

from bench.clients.groups import BEAT, COMMIT, Member, ask, commit_request
from bench.clients.raw import (
    VALUE,
    batch_frame,
    connect,
    error_and_offset,
    error_of,
    frame,
    produce_frame,
    receive,
    round_trips,
)
from harness.measure import percentile
from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkapy.protocol.messages.heartbeat import HeartbeatRequest
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkapy.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkapy.records.batch import CRC_OFFSET, crc_of
from kafkapy.records.record import Record, encode_batch

METADATA, LIST_OFFSETS, FETCH, INIT_PRODUCER_ID = 8, 5, 11, 1
LATEST = -1
NO_ERROR = b"\0\0"
RECORDS, RECORD = 63, bytes(1000)
"""A large request: as many records of 1 kB as a producer's batch of 64 kB takes."""
LARGE_SIZE = 1 << 16
MOST_WAIT_MS = 5000
BEFORE_PRODUCE_S = 0.001
"""After which the consumer's fetch waits in the broker."""
BEHIND_OFFSET = 8 + 4 + 4 + 2
"""Bytes that follow the offset in a fetch of version 11: log start, size, forgotten topics, rack."""
OFFSET = struct.Struct(">q")
ALL_IN_SYNC = -1
SPREAD = 12
"""Partitions that a producer with keys writes to by turns."""
SEQUENCE_OFFSET = 53
"""Where the base sequence is in a batch."""
SEQUENCE, CRC = struct.Struct(">i"), struct.Struct(">I")
ID_RETRY_S = 0.1


def frames_of(kind: str, connection: socket.socket, port: int, topic: str, number: int) -> Iterator[bytes]:
    """The requests of one connection, without end."""
    if kind == "idempotent":
        return idempotent_frames(connection, topic)
    if kind == "spread":
        return cycle([produce_frame(topic, partition) for partition in range(SPREAD)])
    return repeat(frame_of(kind, connection, port, topic, number))


def idempotent_frames(connection: socket.socket, topic: str) -> Iterator[bytes]:
    """One-record requests of a new idempotent producer, each with the sequence that follows."""
    asked = InitProducerIdRequest(transactional_id=None)
    while (answer := ask(connection, asked, INIT_PRODUCER_ID)).error_code:
        time.sleep(ID_RETRY_S)  # a broker that has just started has no ids yet
    record = Record(None, VALUE, timestamp=int(1000 * time.time()))
    batch = encode_batch([record], producer_id=answer.producer_id, producer_epoch=0, base_sequence=0)
    request = bytearray(batch_frame(batch, topic, acks=ALL_IN_SYNC))
    place = len(request) - len(batch)
    for sequence in count():
        SEQUENCE.pack_into(request, place + SEQUENCE_OFFSET, sequence)
        CRC.pack_into(request, place + CRC_OFFSET, crc_of(request, place, len(batch)))
        yield bytes(request)


def frame_of(kind: str, connection: socket.socket, port: int, topic: str, number: int) -> bytes:
    """The request that one connection repeats."""
    if kind == "produce":
        return produce_frame(topic)
    if kind == "large":
        return produce_frame(topic, count=RECORDS, value=RECORD)
    if kind == "fetch":
        return fetch_frame(topic)
    if kind == "commit":
        return frame(ApiKey.OFFSET_COMMIT, commit_request(f"commits-{number}", topic), COMMIT)
    if kind == "heartbeat":
        member = settled_member(port, f"beats-{number}")
        request = HeartbeatRequest(f"beats-{number}", member.generation, member.member_id)
        return frame(ApiKey.HEARTBEAT, request, BEAT)
    if kind == "metadata":
        asked = MetadataRequest([MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        error = ask(connection, asked, METADATA).topics[0].error_code
        request_frame = frame(ApiKey.METADATA, asked, METADATA)
    else:
        listed = ListOffsetsRequest(-1, 0, [ListOffsetsTopic(topic, [ListOffsetsPartition(0, -1, LATEST)])])
        error = ask(connection, listed, LIST_OFFSETS).topics[0].partitions[0].error_code
        request_frame = frame(ApiKey.LIST_OFFSETS, listed, LIST_OFFSETS)
    if error:
        raise SystemExit(f"{kind} was answered with error {error}")
    return request_frame


def fetch_frame(topic: str, offset: int = 0) -> bytes:
    """Asks for the records from the offset on, up to `LARGE_SIZE` of them, and waits for one."""
    partition = FetchPartition(0, fetch_offset=offset, partition_max_bytes=LARGE_SIZE)
    asked = FetchRequest(
        max_wait_ms=MOST_WAIT_MS,
        min_bytes=1,
        max_bytes=LARGE_SIZE,
        session_epoch=-1,
        topics=[FetchTopic(topic, partitions=[partition])],
    )
    return frame(ApiKey.FETCH, asked, FETCH)


def settled_member(port: int, group: str) -> Member:
    """The only member of a group, which has its part."""
    member = Member(port, group)
    member.join()
    while not member.is_settled:
        member.take()
    return member


def check_of(kind: str, topic: str) -> Callable[[bytes], None]:
    """A function that ends the program for an answer with an error."""
    first: list[bytes] = []

    def check(answer: bytes) -> None:
        if kind in ("produce", "spread", "idempotent", "large"):
            is_good = error_of(answer, topic) == 0
        elif kind in ("commit", "heartbeat"):
            is_good = answer[-2:] == NO_ERROR
        else:  # the first was decoded, and nothing changes
            first.append(answer) if not first else None
            is_good = answer == first[0]
        if not is_good:
            raise SystemExit(f"{kind} was answered with an error")

    return check


def run(port: int, topic: str, kind: str, connections: int, requests: int) -> dict[str, float]:
    """Send the requests and wait for every answer; times in µs."""
    if kind == "receipt":
        return receipts(port, topic, requests)
    if kind == "fetch":
        with connect(port) as connection:
            connection.sendall(produce_frame(topic, count=RECORDS, value=RECORD))
            check_of("large", topic)(receive(connection))
    sockets = [connect(port) for _ in range(connections)]
    places = zip(sockets, count(), strict=False)
    frames = [(each, frames_of(kind, each, port, topic, number)) for each, number in places]
    began_s = time.perf_counter()
    waited = round_trips(frames, requests, check_of(kind, topic))
    elapsed_s = time.perf_counter() - began_s
    for each in sockets:
        each.close()
    return {
        "wall_us": 1e6 * elapsed_s / requests,
        "p50_us": percentile(waited, 0.5),
        "p99_us": percentile(waited, 0.99),
    }


def receipts(port: int, topic: str, requests: int) -> dict[str, float]:
    """One-record produce requests, each with a consumer that waits for it; from produce to receipt in µs."""
    waited = []
    record = produce_frame(topic)
    with connect(port) as consumer, connect(port) as producer:
        producer.sendall(record)
        offset = 1 + error_and_offset(receive(producer), topic)[1]
        fetch = bytearray(fetch_frame(topic))
        for _ in range(requests):
            OFFSET.pack_into(fetch, len(fetch) - BEHIND_OFFSET - OFFSET.size, offset)
            consumer.sendall(fetch)
            time.sleep(BEFORE_PRODUCE_S)
            began_s = time.perf_counter()
            producer.sendall(record)
            received = receive(consumer)
            waited.append(1e6 * (time.perf_counter() - began_s))
            error, found = error_and_offset(receive(producer), topic)
            if error or found != offset or VALUE not in received:
                raise SystemExit(f"a fetch of offset {offset} got no record, or a record got offset {found}")
            offset += 1
    return {"p50_us": percentile(waited, 0.5), "p99_us": percentile(waited, 0.99)}


if __name__ == "__main__":
    print(json.dumps(run(**json.loads(sys.argv[1]))))
