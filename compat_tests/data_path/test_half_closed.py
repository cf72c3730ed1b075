"""A client that closes its side after its requests: all are done and answered, in order, then the broker closes too.

The same from Apache Kafka 2.7.2 (`--target kafka-2.7.2`), where a fetch without data waits as long as it said, and from
ours, where it waits no longer, since the client may be gone.
"""

import socket

import pytest

from compat_tests.data_path.frames import TIMEOUT_S, batch, list_offsets, new_topic, produce, produce_request
from compat_tests.groups.wire import Wire
from harness.client import fetch_request, frame
from harness.process import Broker
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest

WAIT_MS = 300
LATEST = -1


def answered(broker: Broker, data: bytes) -> list[int]:
    """Send, close our side, and read to the end: the correlation ids of the answers."""
    host, _, port = broker.bootstrap.rpartition(":")
    received = bytearray()
    with socket.create_connection((host, int(port)), TIMEOUT_S) as sock:
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
        while piece := sock.recv(1 << 16):
            received += piece
    found, at = [], 0
    while at < len(received):
        found.append(int.from_bytes(received[at + 4 : at + 8]))
        at += 4 + int.from_bytes(received[at : at + 4])
    assert at == len(received)
    return found


@pytest.mark.differs("kafka-4.4.0", cases=["2"], reason="Produce begins with version 3, Fetch with 4 (KIP-896)")
@pytest.mark.parametrize("version", [2, 11])
def test_requests_before_a_half_close_are_all_answered(broker: Broker, version: int) -> None:
    with Wire(broker.bootstrap) as wire:
        full, empty = new_topic(wire), new_topic(wire)
        assert produce(wire, full, batch(b"x" * 1000)) == (0, 0)
        requests = [
            frame(fetch_request(full, max_wait_ms=WAIT_MS), version, correlation_id=1),
            frame(fetch_request(empty, max_wait_ms=WAIT_MS), version, correlation_id=2),
            frame(ApiVersionsRequest(), 0, correlation_id=3),
            frame(produce_request(full, batch(b"unanswered"), acks=0), 8, correlation_id=4),
            frame(fetch_request(full, 1, max_wait_ms=WAIT_MS), version, correlation_id=5),
        ]
        assert answered(broker, b"".join(requests)) == [1, 2, 3, 5]
        assert answered(broker, requests[0]) == [1]
        assert answered(broker, requests[1]) == [2]
        assert list_offsets(wire, full, LATEST).offset == 2
