"""A connection's fetches of one partition, again and again: the same answers from Apache Kafka 2.7.2 and from kafkapy.

kafkapy compares such requests as bytes instead of decoding them (`kafkapy/server/dispatch/forms.py`).
"""

import struct
from collections.abc import Iterator
from typing import Any

import pytest

from compat_tests.data_path.frames import batch, is_closed, new_topic, produce, raw
from compat_tests.groups.wire import Wire
from compat_tests.selection.scenarios import IN_KRAFT
from harness.client import fetch_request, frame, values_of
from harness.process import Broker
from kafkapy.protocol.messages.fetch import FetchResponse
from kafkapy.protocol.reader import Reader

VERSIONS = (10, 11, 12)


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    with Wire(broker.bootstrap) as wire:
        yield wire


def rows(response: FetchResponse) -> list[tuple[int, int, list[bytes | None]]]:
    """Of each partition its error, high watermark and values."""
    assert response.error_code == 0
    partitions = [partition for topic in response.responses for partition in topic.partitions]
    return [(each.error_code, each.high_watermark, values_of(each.records or b"")) for each in partitions]


@pytest.mark.parametrize("version", VERSIONS)
def test_offsets_without_a_session(wire: Wire, version: int) -> None:
    topic = new_topic(wire)
    for number in range(3):
        assert produce(wire, topic, batch(f"{number}".encode())) == (0, number)

    def asked(offset: int, **fields: Any) -> list[tuple[int, int, list[bytes | None]]]:
        return rows(wire.ask(fetch_request(topic, offset, **fields), version))

    for _ in range(2):
        for offset in range(4):
            values: list[bytes | None] = [f"{number}".encode() for number in range(offset, 3)]
            assert asked(offset) == [(0, 3, values)]
        assert asked(4) == [(1, -1, [])]
    for _ in range(3):
        assert asked(3, max_wait_ms=50) == [(0, 3, [])]
    assert produce(wire, topic, batch(b"3")) == (0, 3)
    assert asked(3, max_wait_ms=50) == [(0, 4, [b"3"])]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_session_tells_what_is_new(wire: Wire, version: int) -> None:
    topic = new_topic(wire)
    assert produce(wire, topic, batch(b"0")) == (0, 0)
    opened = wire.ask(fetch_request(topic, session_epoch=0), version)
    assert rows(opened) == [(0, 1, [b"0"])]
    end = 1
    for epoch in range(1, 13):
        asked = fetch_request(topic, end, session_id=opened.session_id, session_epoch=epoch)
        response = wire.ask(asked, version)
        assert response.session_id == opened.session_id
        if epoch % 3:
            assert rows(response) == []
        else:
            assert rows(response) == [(0, end + 1, [b"v"])]
            end += 1
        if epoch % 3 == 2:
            assert produce(wire, topic, batch(b"v")) == (0, end)
    wrong = fetch_request(topic, end, session_id=opened.session_id, session_epoch=99)
    assert [wire.ask(wrong, version).error_code for _ in range(2)] == [71, 71]


TAG = b"\x64\1a"
TAGS = {
    "ascending": b"\2" + TAG + b"\x65\1a",
    "a known one first": b"\2\0\1\0" + TAG,
    "a count of two bytes": b"\x81\0" + TAG,
    "one twice": b"\2" + TAG + TAG,
    "descending": b"\2\x65\1a" + TAG,
    "a known one last": b"\2" + TAG + b"\0\1\0",
    "a known one twice": b"\2\0\1\0\0\1\0",
}
ASCENDING = 3
"""The first of them are answered."""


@pytest.mark.differs(*IN_KRAFT, cases=list(TAGS)[ASCENDING:], reason="tags in any order, and repeated ones, are taken")
@pytest.mark.parametrize("name", TAGS)
def test_tags_of_the_request_must_ascend(broker: Broker, wire: Wire, name: str) -> None:
    topic = new_topic(wire)
    assert produce(wire, topic, batch(b"v")) == (0, 0)
    content = frame(fetch_request(topic), 12)[4:-1] + TAGS[name]
    with raw(broker.bootstrap) as sock:
        if name not in list(TAGS)[:ASCENDING]:
            sock.sendall(struct.pack(">i", len(content)) + content)
            assert is_closed(sock)
            return
        for _ in range(4):
            sock.sendall(struct.pack(">i", len(content)) + content)
            reader = Reader(received(sock.makefile("rb")))
            reader.position = 5  # behind correlation id and tag count
            assert rows(FetchResponse.read(reader, 12)) == [(0, 1, [b"v"])]


def received(stream: Any) -> bytes:
    """One answer without its size."""
    (size,) = struct.unpack(">i", stream.read(4))
    data = stream.read(size)
    assert len(data) == size
    return bytes(data)
