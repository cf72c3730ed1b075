import pytest

from kafkapy.records import errors
from kafkapy.records.batch import crc_is_valid, iterate_headers, read_header
from kafkapy.records.control import ControlType, Marker, encode_marker
from kafkapy.records.convert import convert
from kafkapy.records.record import Record, encode_batch, encode_empty_batch, encode_legacy, read_records

THREE = [Record(b"k", b"v", 70, (("h", b"1"),), 40), Record(None, b"", 90, (), 41), Record(b"", None, 80, (), 42)]
CODECS = range(4)


def read_all(data: bytes) -> list[Record]:
    return [record for at, header in iterate_headers(data) for record in read_records(data, header, at)]


def told(records: list[Record], magic: int) -> list[Record]:
    return [record._replace(headers=(), timestamp=record.timestamp if magic else -1) for record in records]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_becomes_messages_or_a_wrapper(magic: int, codec: int) -> None:
    data = encode_batch(
        THREE, base_offset=40, compression=codec, producer_id=5, producer_epoch=0, base_sequence=3,
        is_transactional=True, partition_leader_epoch=7,
    )  # fmt: skip
    converted = convert(data, magic)
    headers = [header for at, header in iterate_headers(converted) if crc_is_valid(converted, at, header)]
    assert [header.magic for header in headers] == [magic] * (1 if codec else 3)
    assert {header.compression for header in headers} == {codec}
    assert headers[-1].base_offset == 42
    assert read_all(converted) == told(THREE, magic)
    assert converted == convert(convert(data, 1), magic)


@pytest.mark.parametrize("codec", CODECS)
def test_append_time_stays_append_time(codec: int) -> None:
    data = encode_batch(THREE, base_offset=40, compression=codec, timestamp_type=1, max_timestamp=5000)
    converted = convert(data, 1)
    assert {header.timestamp_type for _, header in iterate_headers(converted)} == {1}
    assert {record.timestamp for record in read_all(converted)} == {5000}


def test_the_gaps_that_compaction_left_stay() -> None:
    listed = [THREE[0]._replace(offset=52), THREE[1]._replace(offset=57)]
    for codec in CODECS:
        data = encode_batch(listed, base_offset=50, compression=codec, keep_offsets=True)
        assert [record.offset for record in read_all(convert(data, 1))] == [52, 57]


def test_batches_that_are_not_newer_stay_as_they_are() -> None:
    zero, one, two = encode_legacy(THREE, 0, compression=1), encode_legacy(THREE, 1), encode_batch(THREE)
    assert convert(zero + one + two, 2) == zero + one + two
    assert convert(zero + one, 1) == zero + one
    assert convert(zero + two, 1).startswith(zero)
    assert convert(zero + one, 0) == zero + encode_legacy(THREE, 0)


@pytest.mark.parametrize("magic", [0, 1])
def test_batches_without_data_are_dropped(magic: int) -> None:
    marker = encode_marker(ControlType.COMMIT, Marker(1, 0, 0), 5)
    empty = encode_empty_batch(read_header(encode_batch(THREE)))
    assert convert(marker + empty, magic) == b""
    assert convert(marker + empty, 2) == marker + empty


def test_single_messages_below_the_first_offset_are_dropped() -> None:
    for magic in (0, 1):
        data = encode_batch(THREE, base_offset=40)
        assert [record.offset for record in read_all(convert(data, magic, first_offset=41))] == [41, 42]
        assert convert(data, magic, first_offset=43) == b""
        packed = encode_batch(THREE, base_offset=40, compression=1)
        assert [record.offset for record in read_all(convert(packed, magic, first_offset=41))] == [40, 41, 42]
    assert convert(encode_legacy(THREE, 0), 1, first_offset=41) == encode_legacy(THREE, 0)


def test_an_incomplete_batch_is_left_out() -> None:
    data = encode_batch(THREE, base_offset=40)
    assert convert(memoryview(data + data[:-1]), 1) == convert(bytearray(data), 1)
    assert convert(data[:-1], 1) == b""


def test_zstd_can_not_be_converted_to_an_older_format() -> None:
    data = encode_batch(THREE, compression=4)
    with pytest.raises(errors.UnsupportedCompressionTypeError):
        convert(encode_batch(THREE) + data, 1)
    assert convert(data, 2) == data


def test_the_decompressed_size_of_a_batch_is_bounded() -> None:
    data = encode_batch([Record(None, bytes(100_000))], compression=1)
    with pytest.raises(errors.RecordTooLargeError):
        convert(data, 1, max_size=50_000)
