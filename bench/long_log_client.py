"""A process that fills a log, or reads it from its beginning; its last line of output is a JSON object.

`python -m bench.long_log_client fill|read '{"port": …, "topic": …, "batches": …}'`. It looks at batch headers alone, so
that the broker is what is measured.
"""

import json
import os
import socket
import struct
import sys
import time

from bench.raw_client import ANSWER_TIMEOUT_S, HOST, error_of, frame, receive
from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kafkapy.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkapy.protocol.primitives import Reader
from kafkapy.records.batch import iterate_headers
from kafkapy.records.record import Record, encode_batch

RECORDS_OF_A_BATCH = 64
RECORD_SIZE = 1000
FETCH_SIZE = 1 << 20
IN_FLIGHT = 5
PRODUCE_VERSION = 7
FETCH_VERSION = 11


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
    began = time.monotonic()
    while offset < batches * RECORDS_OF_A_BATCH:
        connection.sendall(_fetch_frame(topic, offset))
        records = _records_of(_receive_into(connection, buffer))
        for _, header in iterate_headers(records):
            offset = header.next_offset
            size += header.size
    return {"bytes": size, "wall_s": time.monotonic() - began}


def _fetch_frame(topic: str, offset: int) -> bytes:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=FETCH_SIZE)
    topics = [FetchTopic(topic=topic, partitions=[partition])]
    return frame(ApiKey.FETCH, FetchRequest(max_wait_ms=500, min_bytes=1, topics=topics), FETCH_VERSION)


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


def _records_of(answer: memoryview) -> bytes | memoryview:
    response = FetchResponse.read(Reader(answer), FETCH_VERSION)
    (partition,) = response.responses[0].partitions
    if partition.error_code:
        raise SystemExit(f"a fetch was answered with error {partition.error_code}")
    assert isinstance(partition.records, memoryview)
    return partition.records


def main() -> None:
    """Does what the command line says."""
    work = {"fill": fill, "read": read}[sys.argv[1]]
    options = json.loads(sys.argv[2])
    with socket.create_connection((HOST, options["port"]), timeout=ANSWER_TIMEOUT_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        print(json.dumps(work(connection, options["topic"], options["batches"])))


if __name__ == "__main__":
    main()
