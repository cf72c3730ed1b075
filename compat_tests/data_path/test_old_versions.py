"""Bad input in old formats and versions: the same codes from Kafka 2.7.2 (`--target kafka-2.7.2`), nothing appended."""

from collections.abc import Iterator
from typing import Any

import pytest

from compat_tests.data_path.frames import NOW_MS, batch, fetch, list_offsets, new_topic, patched, produce
from compat_tests.groups.wire import Wire
from harness.process import Broker
from kafkapy.records.batch import crc32_of
from kafkapy.records.record import Record, encode_batch, encode_legacy

UNKNOWN_SERVER_ERROR = -1


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    with Wire(broker.bootstrap) as wire:
        yield wire


def entries(*values: bytes, magic: int = 1, key: bytes | None = b"k", timestamp: int = NOW_MS, codec: int = 0) -> bytes:
    records = [Record(key, value, timestamp, (), at) for at, value in enumerate(values)]
    return encode_legacy(records, magic, compression=codec)


def changed(data: bytes, position: int, new: bytes) -> bytes:
    """An entry with other bytes in it and the CRC that goes with them."""
    output = bytearray(data[:position] + new + data[position + len(new) :])
    output[12:16] = crc32_of(output, 0, len(output)).to_bytes(4, "big")
    return bytes(output)


ONE = entries(b"v")
STRICT = {"message__timestamp__difference__max__ms": "3600000"}
COMPACTED = {"cleanup__policy": "compact"}
OLD = {"message__format__version": "0.10.0"}
OLDEST = {"message__format__version": "0.9.0"}
PRODUCER = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
HEADERS = encode_batch([Record(b"k", b"v", NOW_MS, (("h", b"x"),))])

REFUSED: dict[str, tuple[dict[str, str], int, bytes, int]] = {
    "a message set in version 3": ({}, 3, ONE, 87),
    "a message set in version 8": ({}, 8, entries(b"v", magic=0), 87),
    "a message set for an old topic in version 8": (OLD, 8, ONE, 87),
    "a wrong CRC": ({}, 2, ONE[:12] + bytes(4) + ONE[16:], 2),
    "a wrong CRC in an old topic": (OLD, 2, ONE[:12] + bytes(4) + ONE[16:], 2),
    "two wrappers": ({}, 2, entries(b"a", b"b", codec=1) * 2, 87),
    "formats mixed": ({}, 2, ONE + entries(b"v", magic=0), 87),
    "two batches": ({}, 2, batch(b"a") + batch(b"b"), 87),
    "a batch of format 2 that begins above 0": ({}, 2, patched(batch(b"a"), 0, b"\0" * 7 + b"\5"), 87),
    "no key in a compacted topic": (COMPACTED, 2, entries(b"v", key=None), 87),
    "no key in a wrapper for a compacted topic": (COMPACTED, 1, entries(b"v", magic=0, key=None, codec=1), 87),
    "no key in an old compacted topic": (COMPACTED | OLDEST, 0, entries(b"v", magic=0, key=None), 87),
    "a timestamp too far": (STRICT, 2, entries(b"v", timestamp=NOW_MS - 7_200_000), 32),
    "a timestamp too far ahead, in a wrapper": (STRICT, 2, entries(b"v", timestamp=NOW_MS + 7_200_000, codec=2), 32),
    "a timestamp too far, for an old topic": (STRICT | OLD, 2, entries(b"v", timestamp=5), 32),
    "LogAppendTime from a client": ({}, 2, changed(ONE, 17, b"\x08"), 32),
    "larger than max.message.bytes": ({"max__message__bytes": "1000"}, 2, entries(b"v" * 2000), 10),
    "larger than a segment": ({"segment__bytes": "1000"}, 2, entries(b"v" * 2000), 18),
    "an idempotent producer, an old topic": (OLD, 8, batch(b"a", **PRODUCER), 43),
    "an idempotent producer, the oldest format": (OLDEST, 8, batch(b"a", **PRODUCER), 43),
    "zstd in format 1": ({}, 2, changed(ONE, 17, b"\x04"), 87),
    "zstd in an old version": ({}, 6, batch(b"a", compression=4), 76),
}  # fmt: skip
NAMED: dict[str, tuple[dict[str, str], int, bytes, int]] = {
    "headers, an old topic": (OLD, 8, HEADERS, 43),
    "an unknown codec": ({}, 2, changed(ONE, 17, b"\x05"), 76),
    "zstd in an old topic": (OLD, 8, batch(b"a", compression=4), 76),
    "a wrapper that does not decompress": ({}, 2, changed(ONE, 17, b"\x01"), 2),
}
"""Where Kafka fails inside and says UNKNOWN_SERVER_ERROR, we name what is wrong."""


def refusal(wire: Wire, configs: dict[str, str], version: int, records: bytes) -> int:
    topic = new_topic(wire, 1, **configs)
    code, offset = produce(wire, topic, records, version)
    assert offset == -1
    assert list_offsets(wire, topic, -1).offset == 0
    return code


FORMATS_GONE = "message.format.version is gone (KIP-724)"
FORMATS_PASSED_OVER = "message.format.version is passed over (KIP-724)"
VERSIONS_GONE = "Produce begins with version 3, Fetch with 4 (KIP-896)"
OF_OLD_VERSIONS = [name for name, (_, version, *_) in (REFUSED | NAMED).items() if version < 3]
OF_OLD_TOPICS = [name for name, (configs, *_) in (REFUSED | NAMED).items() if "message__format__version" in configs]


@pytest.mark.differs("kafka-4.4.0", cases=OF_OLD_VERSIONS, reason=VERSIONS_GONE)
@pytest.mark.differs("kafka-4.4.0", cases=OF_OLD_TOPICS, reason=FORMATS_GONE)
@pytest.mark.differs("kafka-3.9.1", cases=["an idempotent producer, *"], reason=FORMATS_PASSED_OVER)
@pytest.mark.differs(
    "kafka-3.9.1", cases=["LogAppendTime from a client"], reason="a client's LogAppendTime is passed over, not refused"
)
@pytest.mark.parametrize("name", REFUSED)
def test_records_that_old_versions_refuse(name: str, wire: Wire) -> None:
    configs, version, records, code = REFUSED[name]
    assert refusal(wire, configs, version, records) == code


@pytest.mark.differs("kafka-4.4.0", cases=OF_OLD_VERSIONS, reason=VERSIONS_GONE)
@pytest.mark.differs("kafka-4.4.0", cases=OF_OLD_TOPICS, reason=FORMATS_GONE)
@pytest.mark.differs("kafka-3.9.1", cases=OF_OLD_TOPICS, reason=FORMATS_PASSED_OVER)
@pytest.mark.parametrize("name", NAMED)
def test_records_that_kafka_refuses_with_an_unknown_error(name: str, wire: Wire, broker: Broker) -> None:
    configs, version, records, code = NAMED[name]
    assert refusal(wire, configs, version, records) == (UNKNOWN_SERVER_ERROR if "kafka-" in broker.name else code)


@pytest.mark.differs(
    "kafka-3.9.1",
    cases=["nothing-*", "a head-*", "all but a byte-*"],
    reason="what is no whole message is passed over: NONE, and nothing appended",
)
@pytest.mark.differs(
    "kafka-3.9.1",
    cases=["an unknown magic-*", "zeros-*"],
    reason="records are looked at once the request has been read: CORRUPT_MESSAGE (2)",
)
@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize(
    "records",
    [b"", ONE[:20], ONE[:-1], changed(ONE, 16, b"\x09"), bytes(40)],
    ids=["nothing", "a head", "all but a byte", "an unknown magic", "zeros"],
)
def test_records_that_close_the_connection(version: int, records: bytes, wire: Wire) -> None:
    topic = new_topic(wire)
    with pytest.raises(AssertionError, match="closed the connection"):
        produce(wire, topic, records, version)


@pytest.mark.differs("kafka-4.4.0", reason=VERSIONS_GONE)
@pytest.mark.parametrize("version", range(3))
def test_records_that_old_versions_accept(version: int, wire: Wire) -> None:
    """Any format, several messages, and a piece of one more behind them."""
    topic = new_topic(wire)
    sent = [ONE, entries(b"v", magic=0), entries(b"a", b"b") + ONE[:30], entries(b"a", b"b", codec=3), batch(b"a")]
    assert [produce(wire, topic, each, version) for each in sent] == [(0, 0), (0, 1), (0, 2), (0, 4), (0, 6)]


@pytest.mark.differs("kafka-4.4.0", reason=VERSIONS_GONE)
@pytest.mark.differs(
    "kafka-3.9.1", reason="a converted batch comes whole or not at all, not cut where the request ends"
)
def test_old_fetches(wire: Wire) -> None:
    topic = new_topic(wire)
    produce(wire, topic, batch(b"a" * 1000))

    def seen(name: str, version: int, **fields: Any) -> tuple[int, int, int]:
        found = fetch(wire, name, version=version, **fields)
        return found.error_code, found.high_watermark, len(found.records)

    for version in range(4):
        assert seen(topic, version)[:2] == (0, 1)
        assert seen(topic, version, offset=1) == (0, 1, 0)
        assert seen(topic, version, offset=2) == (1, -1, 0)
        assert seen("nowhere-x", version) == (3, -1, 0)
    assert [seen(topic, version, partition_max_bytes=100)[2] for version in (0, 1, 2)] == [100] * 3
    assert seen(topic, 3, partition_max_bytes=100)[2] > 1000
    closed = new_topic(wire, message__downconversion__enable="false")
    assert seen(closed, 3) == (0, 0, 0)
    produce(wire, closed, batch(b"a"))
    assert [seen(closed, version)[:2] for version in (0, 1, 2, 3, 4)] == [(35, -1)] * 4 + [(0, 1)]
    zstd = new_topic(wire, compression__type="zstd")
    produce(wire, zstd, batch(b"a"))
    assert [seen(zstd, version)[:2] for version in (0, 3, 4, 9, 10)] == [(76, -1)] * 4 + [(0, 1)]
    sent_as_zstd = new_topic(wire)
    produce(wire, sent_as_zstd, batch(b"a", compression=4))
    assert [seen(sent_as_zstd, version)[0] for version in (0, 3, 4, 9)] == [76, 76, 0, 0]


@pytest.mark.differs("kafka-4.4.0", reason=FORMATS_GONE)
@pytest.mark.differs("kafka-3.9.1", reason=FORMATS_PASSED_OVER)
def test_offsets_by_time_need_timestamps(wire: Wire) -> None:
    for configs, code in ((OLDEST, 43), (OLD, 0)):
        topic = new_topic(wire, 1, **configs)
        produce(wire, topic, ONE, 2)
        assert [list_offsets(wire, topic, NOW_MS, version).error_code for version in (1, 5)] == [code] * 2
        ends = [list_offsets(wire, topic, which) for which in (-1, -2)]
        assert [(end.error_code, end.offset, end.leader_epoch) for end in ends] == [(0, 1, 0), (0, 0, -1)]
