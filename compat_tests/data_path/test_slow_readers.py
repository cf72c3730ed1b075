"""Answers of many megabytes, to readers whose sockets take little at a time: every byte comes, in order.

The same from Apache Kafka 2.7.2 (`--target kafka-2.7.2`) and from ours.
"""

import os
import random
import socket
import struct

import pytest

from compat_tests.data_path.frames import TIMEOUT_S, batch, new_topic, produce
from compat_tests.groups.wire import Wire
from harness.client import frame
from harness.process import Broker
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kafkapy.protocol.reader import Reader

PARTITIONS = 4
BATCH_SIZE = 700_000
BATCHES = 4
FETCHES = 30
VERSION = 11


def fetch_frame(topic: str, partition_max_bytes: int) -> bytes:
    """Fetches all partitions from their beginnings."""
    wanted = [FetchPartition(partition=index, partition_max_bytes=partition_max_bytes) for index in range(PARTITIONS)]
    request = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=1 << 26)
    request.topics = [FetchTopic(topic=topic, partitions=wanted)]
    return frame(request, VERSION)


def receive(sock: socket.socket, rng: random.Random) -> bytes:
    """One answer without size and correlation id, taken in pieces of any size."""
    data = bytearray()
    while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4]):
        piece = sock.recv(rng.choice((1_000, 30_000, 300_000)))
        assert piece, f"closed after {len(data)} bytes"
        data += piece
    return bytes(data[8:])


@pytest.mark.parametrize("receive_buffer_size", [4_096, 100_000, 1_000_000])
def test_every_byte_of_a_large_answer_arrives(broker: Broker, receive_buffer_size: int) -> None:
    rng = random.Random(receive_buffer_size)
    stored: list[bytes] = []
    with Wire(broker.bootstrap) as wire:
        topic = new_topic(wire, PARTITIONS)
        for index in range(PARTITIONS):
            sent = [batch(os.urandom(BATCH_SIZE)) for _ in range(BATCHES)]
            for at, each in enumerate(sent):
                assert produce(wire, topic, each, partition=index) == (0, at)
            # The broker writes its offset and leader epoch in front of the bytes that the CRC covers.
            stored.append(
                b"".join(struct.pack(">q", at) + each[8:12] + bytes(4) + each[16:] for at, each in enumerate(sent))
            )
    host, _, port = broker.bootstrap.rpartition(":")
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_size)
        sock.settimeout(TIMEOUT_S)
        sock.connect((host, int(port)))
        for _ in range(FETCHES):
            size = rng.randrange(BATCH_SIZE, len(stored[0]))
            sock.sendall(fetch_frame(topic, size))
            answer = FetchResponse.read(Reader(memoryview(receive(sock, rng))), VERSION)
            found: dict[int, bytes] = {}
            for partition in answer.responses[0].partitions:
                assert isinstance(partition.records, memoryview | bytes)
                found[partition.partition_index] = bytes(partition.records)
            assert found == {index: stored[index][: max(size, len(stored[index]) // BATCHES)] for index in found}
            assert len(found) == PARTITIONS
