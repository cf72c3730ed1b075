import struct
import tracemalloc
from itertools import pairwise
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkapy.records import errors
from kafkapy.records.batch import UNKNOWN_COUNT, crc_is_valid, iterate_headers, measure, read_header
from kafkapy.records.compression import LZ4, ZSTD, compress, decompress
from kafkapy.records.record import (
    Record,
    encode_legacy,
    iterate_legacy_records,
    read_entries,
    read_legacy_header,
    read_records,
    set_offset,
    set_timestamp,
)

from .test_record import records as any_records

THREE = [Record(b"k", b"v", 7, (), 40), Record(None, b"", 9, (), 41), Record(b"", None, 8, (), 42)]
CODECS = range(4)


def told(records: list[Record], magic: int) -> list[Record]:
    """The fields of ``records`` that a message set has."""
    return [record._replace(headers=(), timestamp=record.timestamp if magic else -1) for record in records]


def read_all(data: bytes) -> list[Record]:
    return [record for at, header in iterate_headers(data) for record in read_records(data, header, at)]


def wrapped(value: bytes | None, magic: int, attributes: int, offset: int = 0, timestamp: int = -1) -> bytes:
    """An entry of any content, with a CRC that is right."""
    content = struct.pack(">bb", magic, attributes) + (struct.pack(">q", timestamp) if magic else b"")
    content += struct.pack(">ii", -1, -1 if value is None else len(value)) + (value or b"")
    return struct.pack(">qiI", offset, len(content) + 4, crc32(content)) + content


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", CODECS)
@given(given_records=any_records, base=st.integers(0, 2**60))
def test_records_are_read_back_with_their_offsets(
    magic: int, codec: int, given_records: list[Record], base: int
) -> None:
    placed = [record._replace(offset=base + place) for place, record in enumerate(given_records)]
    data = encode_legacy(placed, magic, compression=codec)
    assert read_all(data) == told(placed, magic)
    headers = [header for at, header in iterate_headers(data) if crc_is_valid(data, at, header)]
    assert len(headers) == (min(1, len(placed)) if codec else len(placed))


def test_gaps_between_offsets_stay() -> None:
    listed = [THREE[0]._replace(offset=5), THREE[1]._replace(offset=9)]
    for magic in (0, 1):
        for codec in CODECS:
            assert read_all(encode_legacy(listed, magic, compression=codec)) == told(listed, magic)


def test_a_message_by_its_bytes() -> None:
    zero = "000000000000002800000010b12eaf0b0000000000016b0000000176"
    one = "0000000000000028000000184a4a9a8e01000000000000000007000000016b0000000176"
    for magic, spelled in enumerate((zero, one)):
        data = encode_legacy(THREE[:1], magic)
        assert data[:12].hex() == spelled[:24]
        assert data[16:].hex() == spelled[32:]
        assert data[12:16] == struct.pack(">I", crc32(data[16:]))


@pytest.mark.parametrize("magic", [0, 1])
def test_the_header_of_a_single_message(magic: int) -> None:
    data = b"??" + encode_legacy(THREE[:1], magic)
    header = read_legacy_header(data, 2)
    assert header == read_header(data, 2)
    assert (header.base_offset, header.last_offset, header.next_offset) == (40, 40, 41)
    assert (header.magic, header.size, header.record_count) == (magic, len(data) - 2, 1)
    assert header.base_timestamp == header.max_timestamp == (7 if magic else -1)
    assert (header.has_producer_id, header.last_sequence, header.partition_leader_epoch) == (False, -1, -1)
    assert crc_is_valid(data, 2, header)
    assert not crc_is_valid(data[:-1] + b"x", 2, header)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", CODECS[1:])
def test_the_header_of_a_wrapper_has_the_offset_of_its_last_record(magic: int, codec: int) -> None:
    data = encode_legacy(THREE, magic, compression=codec)
    header = read_legacy_header(data)
    assert (header.base_offset, header.last_offset, header.compression) == (42, 42, codec)
    assert header.max_timestamp == (9 if magic else -1)
    assert header.record_count == UNKNOWN_COUNT


def test_attribute_bits_without_a_meaning_are_cleared() -> None:
    one, zero = (read_legacy_header(wrapped(b"", magic, 0x38)) for magic in (1, 0))
    assert (one.attributes, one.is_control, one.is_transactional, one.timestamp_type) == (8, False, False, 1)
    assert zero.attributes == 0


@pytest.mark.parametrize("cut", range(1, 40))
def test_an_incomplete_entry_is_no_batch(cut: int) -> None:
    data = encode_legacy(THREE[:1], 1)
    whole = len(data)
    assert measure(data[: min(cut, whole - 1)]) is None
    for read in (read_legacy_header, read_header):
        with pytest.raises(errors.CorruptRecordError):
            read(data[: min(cut, whole - 1)])
    assert [at for at, _ in iterate_headers(data + data[: min(cut, whole - 1)])] == [0]


def test_an_entry_too_short_for_its_format_is_corrupt() -> None:
    for magic in (0, 1):
        data = bytearray(encode_legacy([Record(None, None, 0, (), 0)], magic))
        assert read_legacy_header(data).size == len(data)
        struct.pack_into(">i", data, 8, len(data) - 13)
        with pytest.raises(errors.CorruptRecordError):
            read_header(data)


@pytest.mark.parametrize("codec", CODECS)
def test_the_wrappers_log_append_time_applies_to_all_records(codec: int) -> None:
    data = encode_legacy(THREE, 1, compression=codec, timestamp_type=1, append_time=5000)
    assert [record.timestamp for record in read_all(data)] == [5000] * 3
    assert {header.timestamp_type for _, header in iterate_headers(data)} == {1}
    again = bytearray(encode_legacy(THREE, 1, compression=codec))
    for position, header in iterate_headers(bytes(again)):
        set_timestamp(again, position, header, 1, 6000)
    assert [record.timestamp for record in read_all(again)] == [6000] * 3
    assert all(crc_is_valid(again, at, header) for at, header in iterate_headers(again))


def test_setting_the_same_timestamp_writes_nothing() -> None:
    data = bytearray(encode_legacy(THREE[:1], 1))
    data[12] ^= 1
    before = bytes(data)
    set_timestamp(data, 0, read_header(data), 0, 7)
    assert data == before
    set_timestamp(data, 0, read_header(data), 0, 8)
    assert crc_is_valid(data, 0, read_header(data))


def test_offsets_of_a_wrapper() -> None:
    data = bytearray(
        encode_legacy([record._replace(offset=place) for place, record in enumerate(THREE)], 1, compression=1)
    )
    for wrapper, offsets in ((2, [0, 1, 2]), (1002, [1000, 1001, 1002]), (0, [0, 1, 2])):
        set_offset(data, 0, wrapper)
        assert [record.offset for record in read_records(data)] == offsets
    set_offset(data, 0, 1)
    with pytest.raises(errors.InvalidRecordError, match="offset 1, its last record has 2"):
        read_records(data)


def test_a_wrapper_of_magic_0_has_absolute_inner_offsets() -> None:
    data = bytearray(encode_legacy(THREE, 0, compression=2))
    set_offset(data, 0, 0)
    assert [record.offset for record in read_records(data)] == [40, 41, 42]


def test_lz4_of_the_first_format_has_another_checksum() -> None:
    for magic, byte in ((0, 0x1A), (1, 0x82)):
        data = encode_legacy(THREE, magic, compression=LZ4)
        assert data[data.index(b"\x04\x22\x4d\x18") + 6] == byte
    right = wrapped(compress(LZ4, encode_legacy(THREE, 0)), 0, LZ4, 42)
    assert read_all(right) == told(THREE, 0)
    wrong = wrapped(b"\x04\x22\x4d\x18\x60\x40\x1a" + compress(LZ4, encode_legacy(THREE, 1))[7:], 1, LZ4, 42)
    with pytest.raises(errors.CorruptRecordError):
        read_all(wrong)


def test_each_inner_entry_has_a_crc_and_a_magic() -> None:
    first, second = encode_legacy(THREE[:1], 0), bytearray(encode_legacy(THREE[1:2], 1))
    second[20] ^= 1
    inner = read_entries(wrapped(compress(1, first + second), 1, 1 | 8, 41, 5000))
    assert [(entry.magic, entry.crc_is_valid, entry.timestamp) for entry in inner] == [(0, True, -1), (1, False, 5000)]


def test_an_incomplete_inner_entry_is_ignored() -> None:
    inner = encode_legacy(THREE, 0)
    for tail in (inner[:5], inner[:20]):
        assert read_all(wrapped(compress(1, inner + tail), 0, 1, 42)) == told(THREE, 0)


ENTRY = encode_legacy(THREE[:1], 1)
LYING_KEY = ENTRY[:26] + b"\0\0\0\x7f" + ENTRY[30:]


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (wrapped(None, 1, 1), errors.InvalidRecordError),
        (wrapped(compress(1, b""), 1, 1), errors.InvalidRecordError),
        (wrapped(compress(1, ENTRY[:-1]), 1, 1), errors.InvalidRecordError),
        (wrapped(compress(ZSTD, ENTRY), 1, ZSTD), errors.InvalidRecordError),
        (wrapped(ENTRY, 1, 5), errors.UnsupportedCompressionTypeError),
        (wrapped(ENTRY, 1, 1), errors.CorruptRecordError),
        (wrapped(compress(1, bytes(8) + b"\0\0\0\x0d" + bytes(13)), 1, 1), errors.CorruptRecordError),
        (wrapped(compress(1, bytes(8) + b"\0\0\0\x0e" + bytes(4) + b"\1" + bytes(9)), 1, 1), errors.InvalidRecordError),
        (wrapped(compress(1, encode_legacy(THREE, 1, compression=1)), 1, 1, 42), errors.InvalidRecordError),
        (LYING_KEY, errors.InvalidRecordError),
        (wrapped(compress(1, LYING_KEY), 1, 1), errors.InvalidRecordError),
        (wrapped(compress(1, bytes(1000)), 1, 1), errors.CorruptRecordError),
    ],
)
def test_malformed_entries_raise(data: bytes, error: type[errors.RecordsError]) -> None:
    with pytest.raises(error):
        list(iterate_legacy_records(data))


def test_offsets_and_timestamps_have_64_bits() -> None:
    for record in (Record(None, b"", 2**63, (), 0), Record(None, b"", 0, (), 2**63)):
        with pytest.raises(errors.InvalidRecordError, match="over 64 bits"):
            encode_legacy([record], 1)


def test_decompression_is_bounded() -> None:
    data = encode_legacy([Record(None, bytes(100_000), 0, (), 0)], 1, compression=1)
    with pytest.raises(errors.RecordTooLargeError):
        read_records(data, max_size=50_000)
    assert len(read_records(data, max_size=100_034)) == 1


@pytest.mark.parametrize("codec", [ZSTD, 5])
def test_codecs_that_these_formats_lack(codec: int) -> None:
    with pytest.raises(errors.UnsupportedCompressionTypeError):
        encode_legacy(THREE, 1, compression=codec)
    assert encode_legacy([], 1, compression=codec) == b""


DOCUMENTED = (
    errors.CorruptRecordError,
    errors.InvalidRecordError,
    errors.RecordTooLargeError,
    errors.UnsupportedCompressionTypeError,
)


@given(st.binary(max_size=120), st.integers(0, 1), st.integers(0, 7), st.integers(0, 3))
def test_garbage_gives_documented_errors_only(garbage: bytes, magic: int, attributes: int, codec: int) -> None:
    for data in (garbage, wrapped(garbage, magic, attributes), wrapped(compress(codec, garbage), magic, codec)):
        try:
            found = read_all(data)
        except DOCUMENTED:
            continue
        assert len(found) <= len(data)


@given(st.data(), st.integers(0, 1), st.integers(0, 3))
def test_changed_bytes_give_documented_errors_only(data: st.DataObject, magic: int, codec: int) -> None:
    changed = bytearray(encode_legacy(THREE, magic, compression=codec))
    for place in data.draw(st.lists(st.integers(0, len(changed) - 1), min_size=1, max_size=3)):
        changed[place] = data.draw(st.integers(0, 255))
    try:
        headers = [(at, header) for at, header in iterate_headers(changed)]
        found = [read_records(changed, header, at, 1 << 20) for at, header in headers]
    except DOCUMENTED:
        return
    assert len(found) == len(headers)
    assert all(at + header.size == after for (at, header), (after, _) in pairwise(headers))


def test_decompressing_gives_the_inner_message_set() -> None:
    data = encode_legacy(THREE, 1, compression=1)
    inner = decompress(1, data[34:], 1000)
    assert [header.base_offset for _, header in iterate_headers(inner)] == [0, 1, 2]


def test_a_small_wrapper_of_many_records_takes_no_object_for_each() -> None:
    """A hundred thousand records of 26 bytes, compressed to some kilobytes; as objects they would take 25 megabytes."""
    data = wrapped(compress(1, encode_legacy([Record(None, None, 0, (), 0)], 0) * 100_000), 0, 1)
    assert len(data) < 100_000
    tracemalloc.start()
    try:
        assert sum(1 for _, _ in zip(iterate_legacy_records(data), range(1000), strict=False)) == 1000
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()
