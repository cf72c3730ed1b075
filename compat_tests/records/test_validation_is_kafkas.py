"""Good and bad produced batches, side by side: kafkapy's verdict and that of Kafka 2.7.2's LogValidator."""

import struct
from collections.abc import Iterator

import pytest

from compat_tests.records.oracle import RecordsOracle
from kafkapy.records.batch import BatchHeader, assign, crc_of, read_header, write_batch
from kafkapy.records.compression import ZSTD, compress
from kafkapy.records.errors import InvalidRecordError, InvalidTimestampError, RecordsError
from kafkapy.records.record import Record, encode_batch, read_records
from kafkapy.records.validate import PRODUCER, ProducePolicy, check_produce_version, validate_produced
from kafkapy.types import TopicPartition

pytestmark = pytest.mark.java

NOW = 1_000_000
PARTITION = TopicPartition("orders", 3)
UNKNOWN_SERVER_ERROR = "-1"
THREE = [Record(b"k", b"v", NOW - 5), Record(b"l", b"w", NOW), Record(b"m", b"", NOW - 1)]


def patched(data: bytes, layout: str, offset: int, value: int) -> bytes:
    output = bytearray(data)
    struct.pack_into(layout, output, offset, value)
    struct.pack_into(">I", output, 17, crc_of(output, 0, len(output)))
    return bytes(output)


def raw(body: str, count: int, codec: int) -> bytes:
    header = BatchHeader(0, 0, -1, 2, 0, codec, count - 1, 0, 0, -1, -1, -1, count)
    return write_batch(header, compress(codec, bytes.fromhex(body)))


def kafkas_verdict(oracle: RecordsOracle, data: bytes, policy: ProducePolicy, version: int) -> list[str]:
    said = oracle.ask("version", version, data)
    if said != ["ok"]:
        return said
    return oracle.ask(
        "validate", 2, 0, policy.compression, policy.timestamp_type, policy.timestamp_difference_max_ms,
        str(policy.key_required).lower(), NOW, data,
    )  # fmt: skip


def our_verdict(data: bytes, policy: ProducePolicy, version: int) -> list[str]:
    records = memoryview(bytearray(data))
    try:
        check_produce_version(records, version)
        found = validate_produced(records, policy, NOW)
    except (InvalidRecordError, InvalidTimestampError) as error:
        listed = [f"{place}={message}" for place, message in error.record_errors]
        return ["error", str(error.error_code), str(error), *listed]
    except RecordsError as error:
        return ["error", str(error.error_code), str(error)]
    assign(found.buffer, 0, 0, 0)
    end = str(found.header.last_offset_delta + 1)
    return ["ok", str(found.max_timestamp), str(found.max_timestamp_offset), bytes(found.buffer).hex(), end]


def compare(oracle: RecordsOracle, data: bytes, policy: ProducePolicy, version: int = 8) -> None:
    kafkas = kafkas_verdict(oracle, data, policy, version)
    ours = our_verdict(data, policy, version)
    if kafkas[:2] == ["error", UNKNOWN_SERVER_ERROR]:
        assert ours[0] == "error", "Kafka fails inside; we name the fault"
        assert ours[1] in ("2", "76", "87")
    elif kafkas[0] == "error":
        assert (ours[:2], refused_places(ours)) == (kafkas[:2], refused_places(kafkas))
    else:
        assert ours == kafkas


def refused_places(verdict: list[str]) -> list[str]:
    """The places of an error's ``place=message``, since the messages differ."""
    return [listed.split("=")[0] for listed in verdict[3:]]


@pytest.mark.parametrize("timestamp_type", [0, 1])
@pytest.mark.parametrize("target", range(-1, 5))
@pytest.mark.parametrize("source", range(5))
def test_every_codec_into_every_topic(oracle: RecordsOracle, source: int, target: int, timestamp_type: int) -> None:
    data = encode_batch(
        THREE, compression=source, producer_id=1, producer_epoch=0, base_sequence=3, is_transactional=True
    )
    policy = ProducePolicy(PARTITION, compression=target, timestamp_type=timestamp_type)
    if target == ZSTD != source:  # Java's streaming compressor writes another frame of the same content
        kafkas, ours = kafkas_verdict(oracle, data, policy, 8), our_verdict(data, policy, 8)
        assert ours[:3] == kafkas[:3]
        theirs, own = bytes.fromhex(kafkas[3]), bytes.fromhex(ours[3])
        assert read_header(own)._replace(size=0, crc=0) == read_header(theirs)._replace(size=0, crc=0)
        assert read_records(own) == read_records(theirs)
    else:
        compare(oracle, data, policy)


def batches_of_records() -> Iterator[tuple[str, bytes, ProducePolicy]]:
    plain = ProducePolicy(PARTITION)
    strict = ProducePolicy(PARTITION, timestamp_difference_max_ms=10, key_required=True)
    appended = ProducePolicy(PARTITION, timestamp_type=1)
    times = [Record(b"", b"", at) for at in (NOW, NOW - 11, NOW + 10, NOW + 11, -1)] + [Record(None, b"", NOW)]
    for codec in (0, 1, 2, 3, 4):
        yield f"no timestamp, {codec}", encode_batch([Record(b"", b"")], compression=codec), strict
        yield f"timestamps below -1, {codec}", encode_batch([Record(b"", b"", -5)], compression=codec), plain
        yield f"wrong max timestamp, {codec}", encode_batch(THREE, compression=codec, max_timestamp=3), plain
        yield f"null key, {codec}", encode_batch([THREE[1], Record(None, b"", NOW)], compression=codec), strict
        yield f"timestamps too far, {codec}", encode_batch(times, compression=codec), strict
        for policy in (plain, appended):
            data = encode_batch(THREE, compression=codec, timestamp_type=1)
            yield f"append time from a client, {codec}, {policy.timestamp_type}", data, policy


@pytest.mark.parametrize(("data", "policy"), [case[1:] for case in batches_of_records()])
def test_batches_with_bad_records(oracle: RecordsOracle, data: bytes, policy: ProducePolicy) -> None:
    compare(oracle, data, policy)


PLAIN = encode_batch(THREE)
ANOTHER_MAGIC_BEHIND = PLAIN + bytes(8) + b"\0\0\0\x20" + b"\0\0\0\0\1" + bytes(40)


@pytest.mark.parametrize(
    "data",
    [b"", PLAIN[:-1], PLAIN + PLAIN, PLAIN + bytes(17), ANOTHER_MAGIC_BEHIND]
    + [patched(PLAIN, ">b", 16, magic) for magic in (0, 1, 3, -1)]
    + [patched(PLAIN, ">i", 8, 13), patched(PLAIN, ">i", 8, 40)[:52]],
)
def test_bytes_that_are_no_batch(oracle: RecordsOracle, data: bytes) -> None:
    compare(oracle, data, ProducePolicy(PARTITION))


@pytest.mark.parametrize("tail", [bytes(11), PLAIN[:-1], bytes(11) + b"\x40" + bytes(4) + b"\2"])
def test_an_incomplete_batch_at_the_end_is_ignored(oracle: RecordsOracle, tail: bytes) -> None:
    policy = ProducePolicy(PARTITION)
    kafkas = kafkas_verdict(oracle, PLAIN + tail, policy, 8)
    assert our_verdict(PLAIN + tail, policy, 8) == [*kafkas[:3], kafkas[3][: 2 * len(PLAIN)], "3"]


def test_zstd_before_version_7(oracle: RecordsOracle) -> None:
    for version in (6, 7):
        compare(oracle, encode_batch(THREE, compression=ZSTD), ProducePolicy(PARTITION), version)


@pytest.mark.parametrize(
    ("layout", "offset", "value"),
    [(">h", 21, attributes) for attributes in (1, 2, 3, 4, 5, 7, 32, 0x40, 0x7F40)]
    + [(">i", 23, delta) for delta in (-1, 0, 7)]
    + [(">i", 57, count) for count in (-1, 0, 2, 4)]
    + [(">q", 43, 6), (">b", 61, 120), (">b", 61, 0), (">b", 61, 1), (">b", 61, 8), (">b", 62, 1), (">b", 65, 80)],
)
def test_batches_with_contradicting_headers(oracle: RecordsOracle, layout: str, offset: int, value: int) -> None:
    compare(oracle, patched(PLAIN, layout, offset, value), ProducePolicy(PARTITION, PRODUCER))


@pytest.mark.parametrize("codec", [0, 1, 4])
@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("", 1), ("0c000000010100", 1), ("0c000000010100", 2), ("0c00000001010000", 1), ("0c0000000101", 1),
        ("00", 1), ("0b000000010100", 1), ("8080808080", 1), ("80808080808000", 1), ("0200", 1),
        ("1a00" + "80" * 11 + "00", 1), ("0c000000018080", 1), ("0c000000020100", 1), ("0c0000000a0100", 1),
        ("0e00000001010000", 1), ("0c000000010101", 1), ("0c000000010102", 1), ("100000000101020101", 1),
        ("100000000101020002", 1), ("100000000101020001", 1), ("0c000000030300", 1),
        ("0c000000010100" + "0c000002010100", 2),
    ],
)  # fmt: skip
def test_records_that_are_broken(oracle: RecordsOracle, codec: int, body: str, count: int) -> None:
    compare(oracle, raw(body, count, codec), ProducePolicy(PARTITION))


def test_contradicting_offsets_are_refused_by_kafkapy_alone(oracle: RecordsOracle) -> None:
    """Kafka 2.7.2 stores them as they are, or fails inside where the batch is compressed."""
    policy = ProducePolicy(PARTITION)
    for codec, kafkas in ((0, "ok"), (4, "error")):
        data = raw("0c000000010100" * 2, 2, codec)
        assert kafkas_verdict(oracle, data, policy, 8)[0] == kafkas
        assert our_verdict(data, policy, 8)[:2] == ["error", "87"]
