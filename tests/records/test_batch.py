import struct

import pytest

from kafkapy.records import batch as batches
from kafkapy.records.batch import (
    DELETE_HORIZON_BIT,
    LOG_APPEND_TIME,
    BatchHeader,
    assign,
    crc_is_valid,
    iterate_headers,
    measure,
    read_header,
    set_max_timestamp,
)
from kafkapy.records.errors import CorruptRecordError
from kafkapy.records.record import Record, encode_batch, read_records


def sample(**fields: int) -> bytearray:
    return bytearray(encode_batch([Record(b"k", b"v", 5), Record(None, b"w", 9)], **fields))  # type: ignore[arg-type]  # ints only


def test_the_header_is_read_where_the_format_says() -> None:
    data = struct.pack(">qiibIhiqqqhii", 7, 49, 3, 2, 99, 0x3B, 1, 1000, 2000, 44, 5, 6, 2)
    header = read_header(data)
    assert header == BatchHeader(7, 61, 3, 2, 99, 0x3B, 1, 1000, 2000, 44, 5, 6, 2)
    assert (header.last_offset, header.next_offset) == (8, 9)
    assert (header.compression, header.timestamp_type) == (3, 1)
    assert header.is_transactional
    assert header.is_control
    assert header.has_producer_id


def test_attribute_bits_are_off_by_default() -> None:
    header = read_header(sample())
    assert (header.compression, header.timestamp_type) == (0, 0)
    assert not header.is_transactional
    assert not header.is_control
    assert not header.has_producer_id


@pytest.mark.parametrize(
    ("base", "delta", "last"), [(-1, 3, -1), (0, 0, 0), (7, 2, 9), (2**31 - 1, 0, 2**31 - 1), (2**31 - 2, 2, 0)]
)
def test_the_last_sequence_wraps_after_the_largest_int(base: int, delta: int, last: int) -> None:
    header = read_header(sample())._replace(base_sequence=base, last_offset_delta=delta)
    assert header.last_sequence == last


@pytest.mark.parametrize("make", [bytes, bytearray, memoryview])
def test_any_kind_of_buffer_is_read(make: type[bytes]) -> None:
    data = make(b"...." + sample() + sample(base_offset=2))
    found = list(iterate_headers(data, 4))
    assert [(header.base_offset, header.last_offset) for _, header in found] == [(0, 1), (2, 3)]
    assert all(crc_is_valid(data, position, header) for position, header in found)


def test_an_incomplete_batch_ends_the_iteration() -> None:
    whole = bytes(sample())
    for cut in range(len(whole)):
        assert [position for position, _ in iterate_headers(whole + whole[:cut])] == [0]
        assert measure(whole[:cut]) is None
        with pytest.raises(CorruptRecordError):
            read_header(whole[:cut])


@pytest.mark.parametrize(
    ("offset", "layout", "value", "error"),
    [
        (8, ">i", 13, CorruptRecordError),
        (8, ">i", -1, CorruptRecordError),
        (8, ">i", 48, CorruptRecordError),
        (16, ">b", 3, CorruptRecordError),
        (16, ">b", -1, CorruptRecordError),
    ],
)
def test_a_header_that_no_batch_can_have_raises(offset: int, layout: str, value: int, error: type[Exception]) -> None:
    data = sample()
    struct.pack_into(layout, data, offset, value)
    with pytest.raises(error):
        read_header(data)
    with pytest.raises(error):
        list(iterate_headers(data))


def test_the_crc_detects_every_changed_bit_after_it() -> None:
    data = sample()
    header = read_header(data)
    for position in range(batches.ATTRIBUTES_OFFSET, len(data)):
        data[position] ^= 0x10
        assert not crc_is_valid(data, 0, header)
        data[position] ^= 0x10
    assert crc_is_valid(data, 0, header)


def test_assigning_offset_and_epoch_keeps_the_crc() -> None:
    data = bytearray(b"##") + sample()
    assign(memoryview(data), 2, 1 << 40, 17)
    header = read_header(data, 2)
    assert (header.base_offset, header.partition_leader_epoch) == (1 << 40, 17)
    assert crc_is_valid(data, 2, header)


def test_log_append_time_sets_bit_timestamp_and_crc() -> None:
    data = sample(producer_id=3, producer_epoch=0, base_sequence=0)
    set_max_timestamp(data, 0, read_header(data), LOG_APPEND_TIME, 1234)
    header = read_header(data)
    assert (header.timestamp_type, header.max_timestamp, header.base_timestamp) == (1, 1234, 5)
    assert crc_is_valid(data, 0, header)
    assert {record.timestamp for record in read_records(data)} == {1234}


def test_setting_the_same_max_timestamp_changes_no_byte() -> None:
    data = sample()
    data[22] |= 0xC0
    before = bytes(data)
    set_max_timestamp(data, 0, read_header(data), 0, 9)
    assert data == before
    set_max_timestamp(data, 0, read_header(data), 0, 8)
    header = read_header(data)
    assert (header.attributes, header.max_timestamp) == (DELETE_HORIZON_BIT, 8), "an unknown bit goes"
    assert crc_is_valid(data, 0, header)
