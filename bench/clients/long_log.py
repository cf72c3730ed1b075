"""A process that fills a log, or reads it from its beginning; its last line of output is a JSON object.

`python -m bench.clients.long_log fill|read '{"port": …, "topic": …, "batches": …}'`. It looks at batch headers alone,
and knows where they are, so that the broker is what is measured.
"""

import json
import os
import socket
import struct
import sys
import time

from bench.clients.raw import ANSWER_TIMEOUT_S, HOST, error_of, frame, receive
from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkapy.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkapy.records.record import Record, encode_batch

RECORDS_OF_A_BATCH = 64
RECORD_SIZE = 1000
FETCH_SIZE = 1 << 20
IN_FLIGHT = 5
PRODUCE_VERSION = 7
FETCH_VERSION = 11
OFFSET = struct.Struct(">q")
BATCH = struct.Struct(">qi11xi")
"""Of a batch: base offset, length, last offset delta."""
OVERHEAD = 12


def batch() -> bytes:
    """One batch of 1 kB records, about 64 kB."""
    now_ms = int(1000 * time.time())
    return bytes(encode_batch([Record(None, os.urandom(RECORD_SIZE), timestamp=now_ms)] * RECORDS_OF_A_BATCH))


def fill(connection: socket.socket, topic: str, batches: int) -> dict[str, float]:
    """Appends so many batches; fails unless every one is acknowledged."""
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(0, batch())])
    request = frame(ApiKey.PRODUCE, ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[data]), PRODUCE_VERSION)
    for number in range(batches + IN_FLIGHT):
        if number >= IN_FLIGHT and (error := error_of(receive(connection), topic)):
            raise SystemExit(f"a produce request was answered with error {error}")
        if number < batches:
            connection.sendall(request)
    return {"batches": batches}


def read(connection: socket.socket, topic: str, batches: int) -> dict[str, float]:
    """Reads from offset 0 on until so many batches have come; the bytes of whole batches and the seconds it took."""
    offset = size = 0
    buffer = memoryview(bytearray(2 * FETCH_SIZE))
    request, place = fetch_frame(topic)
    began = time.monotonic()
    while offset < batches * RECORDS_OF_A_BATCH:
        OFFSET.pack_into(request, place, offset)
        connection.sendall(request)
        records = records_of(_receive_into(connection, buffer), topic)
        at = 0
        while at + BATCH.size <= len(records):
            base_offset, length, last_delta = BATCH.unpack_from(records, at)
            if at + OVERHEAD + length > len(records):
                break
            at += OVERHEAD + length
            offset = base_offset + last_delta + 1
        size += at
    return {"bytes": size, "wall_s": time.monotonic() - began}


def fetch_frame(topic: str) -> tuple[bytearray, int]:
    """A fetch request, and where its offset stands in it."""
    mark = 0x0123456789ABCDEF
    partition = FetchPartition(partition=0, fetch_offset=mark, partition_max_bytes=FETCH_SIZE)
    topics = [FetchTopic(topic=topic, partitions=[partition])]
    request = frame(ApiKey.FETCH, FetchRequest(max_wait_ms=500, min_bytes=1, topics=topics), FETCH_VERSION)
    return bytearray(request), request.index(OFFSET.pack(mark))


def _receive_into(connection: socket.socket, buffer: memoryview) -> memoryview:
    end, have = 4, 0
    while have < end:
        taken = connection.recv_into(buffer[have:])
        if not taken:
            raise SystemExit("the broker closed the connection")
        have += taken
        if have >= 4:
            end = 4 + struct.unpack_from(">i", buffer)[0]
    return buffer[8:end]  # after size and correlation id


def records_of(answer: memoryview, topic: str) -> memoryview:
    """The records of a response of version 11 for one partition, from which nothing was aborted."""
    at = 4 + 2 + 4 + 4 + 2 + len(topic) + 4 + 4  # time, error, session, topics, name, partitions, index
    (error,) = struct.unpack_from(">h", answer, at)
    if error:
        raise SystemExit(f"a fetch was answered with error {error}")
    return answer[at + 2 + 3 * 8 + 4 + 4 + 4 :]  # error, three offsets, aborted, replica, size


def main() -> None:
    """Does what the command line says."""
    work = {"fill": fill, "read": read}[sys.argv[1]]
    options = json.loads(sys.argv[2])
    with socket.create_connection((HOST, options["port"]), timeout=ANSWER_TIMEOUT_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        print(json.dumps(work(connection, options["topic"], options["batches"])))


if __name__ == "__main__":
    main()
