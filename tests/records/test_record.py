import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkapy.records.batch import BatchHeader, crc_is_valid, read_header, write_batch
from kafkapy.records.errors import CorruptRecordError, InvalidRecordError, RecordTooLargeError
from kafkapy.records.record import Record, encode_batch, encode_empty_batch, read_records

headers = st.lists(st.tuples(st.text(max_size=9), st.none() | st.binary(max_size=9)), max_size=4).map(tuple)
records = st.lists(
    st.builds(
        Record,
        st.none() | st.binary(max_size=70),
        st.none() | st.binary(max_size=300),
        st.integers(-1, 2**42),
        headers,
    ),
    max_size=20,
)


@given(records, st.integers(0, 4), st.integers(0, 2**60))
def test_records_are_read_back_with_their_offsets(given_records: list[Record], codec: int, base: int) -> None:
    data = encode_batch(given_records, base_offset=base, compression=codec)
    header = read_header(data)
    assert crc_is_valid(data, 0, header)
    assert header.record_count == len(given_records)
    assert header.max_timestamp == max((record.timestamp for record in given_records), default=-1)
    expected = [record._replace(offset=base + place) for place, record in enumerate(given_records)]
    assert read_records(b"??" + data, position=2) == expected
    assert read_records(data, header) == expected


def test_every_field_reaches_the_header() -> None:
    data = encode_batch(
        [Record(b"k", None, 10), Record(b"k", None, 7)],
        base_offset=5, partition_leader_epoch=4, producer_id=3, producer_epoch=2, base_sequence=1, compression=1,
        timestamp_type=1, max_timestamp=99, is_transactional=True, is_control=True,
    )  # fmt: skip
    header = read_header(data)
    assert header == BatchHeader(5, len(data), 4, 2, header.crc, 0x39, 1, 10, 99, 3, 2, 1, 2)
    assert [record.timestamp for record in read_records(data)] == [99, 99]


def test_gaps_can_be_kept() -> None:
    kept = [Record(b"a", b"", 1, (), 100), Record(b"b", b"", 2, (), 107)]
    data = encode_batch(kept, base_offset=98, keep_offsets=True)
    assert read_header(data).last_offset == 107
    assert read_records(data) == kept


def test_an_empty_batch_keeps_offsets_and_sequences() -> None:
    full = encode_batch(
        [Record(b"k", b"v", 50)] * 3,
        base_offset=7, partition_leader_epoch=2, producer_id=1, producer_epoch=0, base_sequence=30, compression=4,
        is_transactional=True,
    )  # fmt: skip
    data = encode_empty_batch(read_header(full))
    header = read_header(data)
    assert len(data) == 61
    assert crc_is_valid(data, 0, header)
    assert (header.base_offset, header.last_offset, header.last_sequence) == (7, 9, 32)
    assert (header.base_timestamp, header.max_timestamp, header.record_count) == (-1, 50, 0)
    assert header.is_transactional
    assert read_records(data) == []


def test_header_keys_that_are_not_utf_8_come_back() -> None:
    key = b"\xff\xfe".decode("utf-8", "surrogateescape")
    data = encode_batch([Record(b"", b"", 0, ((key, b"1"),))])
    assert b"\xff\xfe" in data
    assert read_records(data)[0].headers == ((key, b"1"),)


def batch_of(body: bytes, count: int = 1, attributes: int = 0) -> bytes:
    return write_batch(BatchHeader(0, 0, -1, 2, 0, attributes, count - 1, 0, 0, -1, -1, -1, count), body)


# length, attributes, timestamp delta, offset delta, key -1, value -1, headers 0
GOOD = bytes.fromhex("0c000000010100")


def test_the_smallest_record() -> None:
    assert read_records(batch_of(GOOD)) == [Record(None, None, 0, (), 0)]


@pytest.mark.parametrize(
    ("body", "count"),
    [
        (GOOD, -1),
        (GOOD, 2),
        (GOOD, 0),
        (b"", 1),
        (GOOD[:-1], 1),
        (bytes.fromhex("0a000000010100"), 1),
        (bytes.fromhex("0e00000001010000"), 1),
        (bytes.fromhex("00"), 1),
        (bytes.fromhex("0d000000010100"), 1),
        (bytes.fromhex("0c0000000a0100"), 1),
        (bytes.fromhex("0c000000010101"), 1),
        (bytes.fromhex("0c000000010102"), 1),
        (bytes.fromhex("1000000001010201") + b"\x00", 1),
        (bytes.fromhex("0c008080808080"), 1),
    ],
)
def test_records_that_contradict_the_header_are_refused(body: bytes, count: int) -> None:
    with pytest.raises(InvalidRecordError):
        read_records(batch_of(body, count))


def test_compressed_records_are_bounded_and_checked() -> None:
    data = encode_batch([Record(None, bytes(5000))], compression=3)
    with pytest.raises(RecordTooLargeError):
        read_records(data, max_size=4000)
    with pytest.raises(CorruptRecordError):
        read_records(batch_of(b"junk", attributes=3))


@given(st.binary(max_size=60), st.integers(0, 5))
def test_garbage_gives_the_documented_error_only(body: bytes, count: int) -> None:
    try:
        found = read_records(batch_of(body, count))
    except InvalidRecordError:
        return
    assert len(found) == count


def test_a_large_record_count_takes_no_memory() -> None:
    data = bytearray(batch_of(GOOD))
    struct.pack_into(">i", data, 57, 2**31 - 1)
    with pytest.raises(InvalidRecordError):
        read_records(data)
