"""Message sets of formats 0 and 1 on the wire: the answers, and the records in every format.

The same from Apache Kafka 2.7.2 (`--target kafka-2.7.2`) and from ours, but that where Kafka fails inside
(UNKNOWN_SERVER_ERROR) we name the fault.
"""

import struct
from typing import Any
from zlib import crc32

import pytest

from compat_tests.data_path.frames import NOW_MS, fetch, new_topic, produce
from compat_tests.groups.wire import Wire
from harness.process import Broker
from kafkapy.records.batch import crc_is_valid, iterate_headers
from kafkapy.records.compression import GZIP, LZ4, SNAPPY, ZSTD, compress
from kafkapy.records.record import Record, encode_batch, encode_legacy, read_records

FORMATS = {"0.9.0": 0, "0.10.0": 1, "2.7": 2}
THREE = [Record(b"k", b"v", NOW_MS - 5), Record(b"l", b"w" * 90, NOW_MS), Record(b"m", None, NOW_MS - 1)]
UNKNOWN_SERVER_ERROR = -1

Told = tuple[int, int, bytes | None, bytes | None]
"""Offset, timestamp, key and value of a record."""


@pytest.fixture(scope="module")
def wire(broker: Broker) -> Any:
    with Wire(broker.bootstrap) as wire:
        yield wire


def message_set(magic: int, codec: int = 0, records: list[Record] | None = None, first: int = 0) -> bytes:
    listed = THREE if records is None else records
    placed = [record._replace(offset=first + place) for place, record in enumerate(listed)]
    return encode_legacy(placed, magic, compression=codec)


def wrapped(value: bytes | None, magic: int, attributes: int, offset: int = 0) -> bytes:
    """A wrapper around anything, with the CRC that goes with it."""
    content = struct.pack(">bb", magic, attributes) + (struct.pack(">q", NOW_MS) if magic else b"")
    content += struct.pack(">ii", -1, -1 if value is None else len(value)) + (value or b"")
    return struct.pack(">qiI", offset, len(content) + 4, crc32(content)) + content


def with_wrong_crc(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


ONE, ZERO = message_set(1), message_set(0)
NO_KEY = [THREE[0], Record(None, b"v", NOW_MS)]
LATE = [THREE[0], Record(b"k", b"v", NOW_MS - 200_000_000)]
SETS: dict[str, bytes] = {
    "single messages of 0": ZERO,
    "single messages of 1": ONE,
    "gzip of 0": message_set(0, GZIP),
    "gzip of 1": message_set(1, GZIP),
    "snappy of 1": message_set(1, SNAPPY),
    "lz4 of 0": message_set(0, LZ4),
    "lz4 of 1": message_set(1, LZ4),
    "lz4 of 0 with the checksum of 1": wrapped(compress(LZ4, ZERO), 0, LZ4, 2),
    "lz4 of 1 with the checksum of 0": wrapped(b"\x04\x22\x4d\x18\x60\x40\x1a" + compress(LZ4, ONE)[7:], 1, LZ4, 2),
    "a batch": encode_batch(THREE),
    "a batch under gzip": encode_batch(THREE, compression=GZIP),
    "a batch under zstd": encode_batch(THREE, compression=ZSTD),
    "two batches": encode_batch(THREE) * 2,
    "a batch with headers": encode_batch([THREE[0]._replace(headers=(("h", b"1"),))]),
    "a batch with a base offset": encode_batch(THREE, base_offset=3),
    "both formats": ONE + ZERO,
    "a message before a wrapper": ONE + message_set(1, GZIP),
    "two wrappers": message_set(0, GZIP) * 2,
    "a message before a batch": ONE + encode_batch(THREE),
    "a piece of a message behind": ONE + ONE[:30],
    "a wrong CRC": with_wrong_crc(ONE),
    "a wrong CRC in a wrapper": wrapped(compress(GZIP, with_wrong_crc(ONE)), 1, GZIP, 2),
    "magic 0 in a wrapper of 1": wrapped(compress(GZIP, ZERO), 1, GZIP, 2),
    "magic 1 in a wrapper of 0": wrapped(compress(GZIP, ONE), 0, GZIP, 2),
    "a wrapper of offset 0": wrapped(compress(GZIP, ONE), 1, GZIP, 0),
    "a wrapper of offset 1": wrapped(compress(GZIP, ONE), 1, GZIP, 1),
    "a wrapper of offset 9": wrapped(compress(GZIP, ONE), 1, GZIP, 9),
    "inner offsets from 5": wrapped(compress(GZIP, message_set(1, first=5)), 1, GZIP, 7),
    "LogAppendTime from a client": wrapped(compress(GZIP, ONE), 1, GZIP | 8, 2),
    "a wrapper in a wrapper": wrapped(compress(GZIP, message_set(1, GZIP)), 1, GZIP, 2),
    "an empty wrapper": wrapped(compress(GZIP, b""), 1, GZIP),
    "a null wrapper": wrapped(None, 1, GZIP),
    "a wrapper of garbage": wrapped(b"garbage", 1, GZIP),
    "a wrapper under zstd": wrapped(compress(ZSTD, ONE), 1, ZSTD, 2),
    "a wrapper under codec 5": wrapped(ONE, 1, 5, 2),
    "no key": message_set(1, 0, NO_KEY),
    "no key under gzip": message_set(1, GZIP, NO_KEY),
    "an old timestamp": message_set(1, 0, LATE),
    "an old timestamp under gzip": message_set(1, GZIP, LATE),
    "a timestamp of -2": message_set(1, 0, [Record(b"k", b"v", -2)]),
}

REFUSED = {
    "lz4 of 1 with the checksum of 0": 2,
    "two batches": 87,
    "a batch with a base offset": 87,
    "both formats": 87,
    "a message before a wrapper": 87,
    "two wrappers": 87,
    "a message before a batch": 87,
    "a wrong CRC": 2,
    "a wrong CRC in a wrapper": 2,
    "magic 0 in a wrapper of 1": 87,
    "magic 1 in a wrapper of 0": 87,
    "a wrapper of offset 1": 87,
    "LogAppendTime from a client": 32,
    "a wrapper in a wrapper": 87,
    "an empty wrapper": 87,
    "a null wrapper": 87,
    "a wrapper of garbage": 2,
    "a wrapper under zstd": 87,
    "a wrapper under codec 5": 76,
}
"""In topics of every kind."""
FAILS_INSIDE = {
    "lz4 of 1 with the checksum of 0",
    "a wrapper of garbage",
    "a wrapper under codec 5",
    "a batch under zstd",
    "a batch with headers",
    "a timestamp of -2",
}
"""Where Kafka answers UNKNOWN_SERVER_ERROR in place of the code that is expected here."""
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "gzip": {"compression__type": "gzip"},
    "uncompressed": {"compression__type": "uncompressed"},
    "compact": {"cleanup__policy": "compact"},
    "timely": {"message__timestamp__difference__max__ms": "86400000"},
}


def expected_code(name: str, magic: int, kind: str) -> int:
    """The answer for a set in a topic of format ``magic``."""
    if name == "a batch under zstd" and magic < 2 and kind not in ("gzip", "uncompressed"):
        return 76
    if name == "a batch with headers" and magic < 2:
        return 43
    if name.startswith("no key") and kind == "compact":
        return 87
    if name.startswith("an old timestamp") and kind == "timely":
        return 32
    if name == "a timestamp of -2" and (kind == "timely" or magic != 1 or kind == "gzip"):
        return 32
    return REFUSED.get(name, 0)


def read_back(content: bytes, most: int) -> list[Told]:
    """The records of a fetch, whose formats the client knows."""
    found: list[Told] = []
    for position, header in iterate_headers(content):
        assert header.magic <= most
        assert crc_is_valid(content, position, header)
        for record in read_records(content, header, position):
            found.append((record.offset, record.timestamp, record.key, record.value))
    return found


def what_was_sent(data: bytes, first: int, magic: int) -> list[Told]:
    found: list[Told] = []
    for position, header in iterate_headers(data):
        for record in read_records(data, header, position):
            timestamp = max(record.timestamp, -1) if min(magic, header.magic) else -1
            found.append((first + len(found), timestamp, record.key, record.value))
    return found


@pytest.mark.differs("kafka-4.4.0", reason="message formats 0 and 1 are gone (KIP-724), Produce 0 to 2, too (KIP-896)")
@pytest.mark.differs("kafka-3.9.1", cases=["0.*"], reason="message.format.version is passed over (KIP-724)")
@pytest.mark.differs("kafka-3.9.1", cases=["2.7-*"], reason="a client's LogAppendTime is passed over, not refused")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FORMATS)
def test_every_set_in_every_kind_of_topic(broker: Broker, wire: Wire, name: str, kind: str) -> None:
    topic = new_topic(wire, message__format__version=name, **KINDS[kind])
    magic = FORMATS[name]
    end = 0
    for told, data in SETS.items():
        code, first = produce(wire, topic, data, 2)
        expected = expected_code(told, magic, kind)
        if code == UNKNOWN_SERVER_ERROR:
            assert told in FAILS_INSIDE
            assert expected
            assert broker.name != "kafkapy"
            continue
        assert (code, first) == (expected, -1 if expected else end), told
        if code:
            continue
        for version, most in ((1, 0), (3, 1), (4, 2)):
            answer = fetch(wire, topic, first, version)
            if told == "a batch under zstd" and kind not in ("gzip", "uncompressed") and most < 2:
                assert answer.error_code == 76
                continue
            sent = what_was_sent(data, first, min(magic, most))
            assert read_back(bytes(answer.records), most)[-len(sent) :] == sent, (told, version)
        end += len(what_was_sent(data, first, magic))
