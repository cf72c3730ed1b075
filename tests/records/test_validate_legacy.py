import struct
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkapy.records import errors
from kafkapy.records.batch import assign, crc_is_valid, iterate_headers
from kafkapy.records.compression import compress
from kafkapy.records.record import Record, encode_batch, encode_legacy, read_records, set_offset
from kafkapy.records.validate import (
    INLINE_DECOMPRESSED_SIZE,
    INLINE_ENCODED_SIZE,
    CheckedBatch,
    LargeBatchError,
    ProducePolicy,
    ValidatedBatch,
    at_offset,
    validate_produced,
)
from kafkapy.records.validate_legacy import INLINE_SIZE
from kafkapy.types import TopicPartition

from .test_legacy import wrapped

NOW = 1_000_000
FIRST = 700
THREE = [Record(b"k", b"v", NOW - 5), Record(b"l", b"w" * 90, NOW), Record(b"m", None, NOW - 1)]
CODECS = range(4)


def policy(**changes: object) -> ProducePolicy:
    return ProducePolicy(TopicPartition("orders", 3), **changes)  # type: ignore[arg-type]  # each of its field's type


def produced(magic: int, codec: int = 0, records: list[Record] | None = None) -> bytearray:
    """The bytes that a producer sends, with offsets from 0."""
    listed = THREE if records is None else records
    if magic == 2:
        return bytearray(encode_batch(listed, compression=codec))
    placed = [record._replace(offset=place) for place, record in enumerate(listed)]
    return bytearray(encode_legacy(placed, magic, compression=codec))


def validate(data: bytes | bytearray, given_policy: ProducePolicy) -> ValidatedBatch:
    return validate_produced(memoryview(bytearray(data)), given_policy, NOW, first_offset=FIRST)


def stored(found: ValidatedBatch) -> list[Record]:
    """The validated records as the log stores them."""
    if found.header.magic == 2:
        assign(found.buffer, 0, FIRST, 3)
    data = bytes(found.buffer)
    assert all(crc_is_valid(data, at, header) for at, header in iterate_headers(data))
    return [record for at, header in iterate_headers(data) for record in read_records(data, header, at)]


def told(magic: int, source: int = 2) -> list[Record]:
    times = [record.timestamp if min(magic, source) else -1 for record in THREE]
    return [
        record._replace(offset=FIRST + place, timestamp=time)
        for place, (record, time) in enumerate(zip(THREE, times, strict=True))
    ]


@pytest.mark.parametrize("source", range(3))
@pytest.mark.parametrize("target", range(3))
def test_every_format_into_every_log(source: int, target: int) -> None:
    for source_codec in CODECS:
        for codec in (-1, *CODECS):
            found = validate(produced(source, source_codec), policy(magic=target, compression=codec))
            header = found.header
            kept = source_codec if codec < 0 else codec
            assert (header.magic, header.compression, header.size) == (target, kept, len(found.buffer))
            assert (header.last_offset_delta, header.record_count) == (2, 3)
            assert stored(found) == told(target, source)


@pytest.mark.parametrize("source", range(3))
@pytest.mark.parametrize("target", range(3))
@pytest.mark.parametrize("codec", [0, 2])
def test_log_append_time_stamps_every_format(source: int, target: int, codec: int) -> None:
    found = validate(produced(source, codec), policy(magic=target, timestamp_type=1, timestamp_difference_max_ms=0))
    assert (found.max_timestamp, found.header.max_timestamp, found.header.timestamp_type) == (NOW, NOW, 1)
    assert found.max_timestamp_offset == (2 if codec or target == 2 else 0)
    assert {record.timestamp for record in stored(found)} == {NOW if target else -1}


@pytest.mark.parametrize("codec", [0, 1])
def test_a_set_of_the_logs_format_is_not_copied(codec: int) -> None:
    data = produced(1, codec)
    before = bytes(data)
    found = validate_produced(data, policy(magic=1), NOW, first_offset=FIRST)
    assert found.buffer == data
    assert (found.max_timestamp, found.max_timestamp_offset) == (NOW, 2 if codec else 1)
    assert found.header.base_offset == FIRST
    assert [header.base_offset for _, header in iterate_headers(data)] == ([702] if codec else [700, 701, 702])
    assert data[8 : len(before)][:22] == before[8:30]
    again = bytearray(data)
    for place, (at, _) in enumerate(iterate_headers(before)):
        set_offset(again, at, 2 if codec else place)
    assert again == before


def test_a_wrong_timestamp_of_a_wrapper_is_corrected() -> None:
    data = wrapped(compress(1, produced(1)), 1, 1, 2, 5)
    found = validate(data, policy(magic=1))
    assert [header.max_timestamp for _, header in iterate_headers(found.buffer)] == [NOW]
    assert stored(found) == told(1)


@pytest.mark.parametrize("codec", [0, 1])
def test_sets_without_timestamps(codec: int) -> None:
    found = validate(produced(0, codec), policy(magic=0))
    assert (found.max_timestamp, found.max_timestamp_offset) == (-1, 2 if codec else -1)
    found = validate(
        produced(1, codec, [Record(b"k", b"v", -7)] * 2 if not codec else [Record(b"k", b"v")]), policy(magic=1)
    )
    assert found.max_timestamp == -1
    assert {record.timestamp for record in stored(found)} == {-1}


@pytest.mark.parametrize("offsets", [[0, 0, 0], [1, 2, 3], [0, 2, 4]])
def test_wrong_inner_offsets_are_encoded_again(offsets: list[int]) -> None:
    inner = b"".join(
        encode_legacy([record._replace(offset=offset)], 1) for record, offset in zip(THREE, offsets, strict=True)
    )
    found = validate(wrapped(compress(1, inner), 1, 1, offsets[-1]), policy(magic=1))
    assert stored(found) == told(1)


def test_an_incomplete_entry_after_a_set_is_cut_off() -> None:
    for magic in (0, 1):
        for target in range(3):
            data = produced(magic)
            assert stored(validate(data + data[:20], policy(magic=target))) == told(target, magic)


def bad_crc() -> bytearray:
    data = produced(1)
    data[-1] ^= 1
    return data


@pytest.mark.parametrize(
    ("data", "target", "error", "message"),
    [
        (b"", 1, errors.InvalidRecordError, "no whole batch"),
        (produced(1)[:20], 2, errors.InvalidRecordError, "no whole batch"),
        (bad_crc(), 1, errors.CorruptRecordError, "orders-3 has a wrong CRC"),
        (produced(1)[:8] + b"\0\0\0\x0d" + produced(1)[12:], 1, errors.CorruptRecordError, "header alone"),
        (wrapped(b"", 1, 5), 1, errors.UnsupportedCompressionTypeError, "no codec 5"),
        (produced(0) + produced(1), 1, errors.InvalidRecordError, "magic 0 and 1 are in one set"),
        (produced(1) + produced(2), 1, errors.InvalidRecordError, "magic 1 and 2 are in one set"),
        (produced(1) + produced(1, 1), 1, errors.InvalidRecordError, "more than one"),
        (produced(0, 1) * 2, 2, errors.InvalidRecordError, "more than one"),
        (produced(2) * 2, 1, errors.InvalidRecordError, "more than one"),
        (encode_batch(THREE, base_offset=4), 1, errors.InvalidRecordError, "begins at offset 4"),
        (encode_batch(THREE, producer_id=-2), 1, errors.InvalidRecordError, "Producer -2"),
        (encode_batch(THREE, is_control=True), 1, errors.InvalidRecordError, "Only the broker may write"),
        (wrapped(compress(1, bad_crc()), 1, 1, 2), 1, errors.CorruptRecordError, "Record 2 in a wrapper"),
        (wrapped(compress(1, produced(1)), 1, 9, 2), 1, errors.InvalidTimestampError, "refused"),
        (wrapped(compress(1, produced(1)), 0, 1, 2), 0, errors.InvalidRecordError, "refused"),
        (wrapped(compress(4, produced(0)), 0, 4, 2), 0, errors.InvalidRecordError, "no zstd"),
        (wrapped(compress(4, produced(1)), 1, 4, 2), 1, errors.InvalidRecordError, "no zstd"),
    ],
)  # fmt: skip
def test_a_set_that_breaks_a_rule_is_refused(
    data: bytes, target: int, error: type[errors.RecordsError], message: str
) -> None:
    with pytest.raises(error, match=message):
        validate(data, policy(magic=target))


@pytest.mark.parametrize("target", [0, 1])
def test_fields_that_an_old_log_lacks_are_refused(target: int) -> None:
    idempotent = encode_batch(THREE, producer_id=1, producer_epoch=0, base_sequence=0)
    transactional = encode_batch(THREE, producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    headed = encode_batch([Record(b"k", b"v", NOW, (("h", None),))])
    for data, message in ((idempotent, "Idempotent"), (transactional, "Transactional"), (headed, "Headers")):
        with pytest.raises(errors.UnsupportedForMessageFormatError, match=message):
            validate(data, policy(magic=target))
    for changed in (policy(magic=target, compression=4), policy(magic=target)):
        with pytest.raises(errors.UnsupportedCompressionTypeError):
            validate(encode_batch(THREE, compression=4), changed)
    with pytest.raises(errors.InvalidTimestampError, match="below -1"):
        validate(encode_batch([Record(b"k", b"v", -5)]), policy(magic=target))


@pytest.mark.parametrize("magic", range(3))
@pytest.mark.parametrize("codec", [0, 1])
def test_a_compacted_topic_requires_keys(magic: int, codec: int) -> None:
    data = produced(magic, codec, [THREE[0], Record(None, b"v", NOW), Record(None, b"v", NOW)])
    for compression in (-1, 4):  # zstd would be refused, but the records are checked first
        with pytest.raises(errors.InvalidRecordError) as caught:
            validate(data, policy(magic=1, key_required=True, compression=compression))
        places = [place for place, _ in caught.value.record_errors]
        assert places == ([1, 2] if codec or magic == 2 else [0])
    assert validate(data, policy(magic=1)).header.record_count == 3


@pytest.mark.parametrize("magic", [1, 2])
@pytest.mark.parametrize("codec", [0, 1])
def test_timestamps_out_of_range(magic: int, codec: int) -> None:
    data = produced(magic, codec, [Record(b"k", b"v"), THREE[0], Record(None, b"v", NOW - 11)])
    with pytest.raises(errors.InvalidTimestampError):
        validate(data, policy(magic=1, timestamp_difference_max_ms=10))
    assert validate(data, policy(magic=1, timestamp_difference_max_ms=11)).max_timestamp == NOW - 5
    assert validate(data, policy(magic=1, timestamp_difference_max_ms=0, timestamp_type=1)).max_timestamp == NOW


def test_timestamps_too_far_apart_for_a_batch() -> None:
    data = produced(1, 0, [Record(b"k", b"v"), Record(b"k", b"v", 2**63 - 1)])
    assert validate(data, policy(magic=1)).max_timestamp == 2**63 - 1
    with pytest.raises(errors.InvalidTimestampError, match="64 bits"):
        validate(data, policy(magic=2))
    data = produced(1, 0, [Record(b"k", b"v"), Record(b"k", b"v", 2**63 - 2)])
    assert [record.timestamp for record in stored(validate(data, policy(magic=2)))] == [-1, 2**63 - 2]


def test_the_error_is_that_of_the_first_bad_message() -> None:
    data = produced(1, 0, [Record(None, b"v", NOW), Record(b"k", b"v", 0)])
    with pytest.raises(errors.InvalidRecordError):
        validate(data, policy(magic=1, timestamp_difference_max_ms=10, key_required=True))
    with pytest.raises(errors.InvalidTimestampError):
        validate(data, policy(magic=1, timestamp_difference_max_ms=10))


def test_the_size_of_each_batch_is_bounded_before_and_after() -> None:
    one = produced(1, 0, [THREE[1]])
    assert validate(one * 3, policy(magic=1, max_batch_size=len(one))).header.record_count == 3
    with pytest.raises(errors.RecordTooLargeError):
        validate(one, policy(magic=1, max_batch_size=len(one) - 1))
    for data in (one * 3, one * 3 + one[:20]):
        with pytest.raises(errors.RecordTooLargeError):
            validate(data, policy(magic=2, max_batch_size=len(one)))


def test_decompression_is_bounded() -> None:
    data = produced(1, 1, [Record(b"k", bytes(100_000), NOW)])
    with pytest.raises(errors.RecordTooLargeError):
        validate(data, policy(magic=1, max_decompressed_size=50_000))


def test_coordinators_write_into_old_logs_too() -> None:
    data = encode_batch(THREE, base_offset=9)
    found = validate_produced(bytearray(data), policy(magic=1), NOW, from_client=False, first_offset=FIRST)
    assert stored(found) == told(1)


DOCUMENTED = (
    errors.CorruptRecordError,
    errors.InvalidRecordError,
    errors.InvalidTimestampError,
    errors.RecordTooLargeError,
    errors.UnsupportedCompressionTypeError,
    errors.UnsupportedForMessageFormatError,
)


@given(st.data(), st.integers(0, 2), st.integers(0, 3), st.integers(0, 2))
def test_changed_bytes_are_refused_or_readable(data: st.DataObject, magic: int, codec: int, target: int) -> None:
    changed = produced(magic, codec)
    for place in data.draw(st.lists(st.integers(0, len(changed) - 1), max_size=3)):
        changed[place] = data.draw(st.integers(0, 255))
    if magic < 2 and len(changed) >= 26 and data.draw(st.booleans()):
        (length,) = struct.unpack_from(">i", changed, 8)
        struct.pack_into(">I", changed, 12, crc32(changed[16 : max(16, 12 + length)]))
    try:
        found = validate(changed, policy(magic=target, timestamp_difference_max_ms=10**6))
    except DOCUMENTED:
        return
    listed = stored(found)
    assert [record.offset for record in listed] == list(range(FIRST, FIRST + found.header.last_offset_delta + 1))


LARGE = [Record(b"k", bytes(INLINE_SIZE), NOW), Record(None, b"last", NOW)]


@pytest.mark.parametrize(
    ("data", "log", "is_large"),
    [
        (produced(2, 0, LARGE), policy(magic=1), True),
        (produced(2, 0), policy(magic=1), False),
        (produced(2, 1, LARGE), policy(magic=0), True),
        (produced(2, 1), policy(magic=0), False),
        (produced(1, 0, LARGE), policy(magic=0), True),
        (produced(0, 0), policy(magic=1), False),
        (produced(0, 1, LARGE), policy(magic=0), True),
        (produced(0, 1), policy(magic=0), False),
        (produced(1, 1, [Record(None, bytes(INLINE_DECOMPRESSED_SIZE), NOW)]), policy(magic=2), True),
        (produced(1, 0, [Record(None, bytes(INLINE_ENCODED_SIZE), NOW)]), policy(magic=2, compression=1), True),
        (produced(1, 0, [Record(None, bytes(INLINE_ENCODED_SIZE), NOW)]), policy(magic=2), False),
        (produced(1, 0), policy(magic=2, compression=1), False),
    ],
)
def test_long_validations_are_not_done_inline(data: bytearray, log: ProducePolicy, is_large: bool) -> None:
    before = bytes(data)
    if is_large:
        with pytest.raises(LargeBatchError):
            validate_produced(data, log, NOW, inline=True)
        assert bytes(data) == before
    else:
        assert validate_produced(bytearray(data), log, NOW, inline=True).header.record_count == len(validate_all(data))


def validate_all(data: bytearray) -> list[Record]:
    return [record for at, header in iterate_headers(data) for record in read_records(data, header, at)]


@pytest.mark.parametrize("codec", [1, 7])
def test_data_that_does_not_decompress_is_refused_inline(codec: int) -> None:
    data = wrapped(b"no gzip", 0, codec)
    with pytest.raises(errors.RecordsError):
        validate_produced(bytearray(data), policy(magic=0), NOW, inline=True)


def test_the_decompressed_size_is_bounded_inline_too() -> None:
    data = produced(1, 1, [Record(None, bytes(2000), NOW)])
    for inline in (False, True):
        with pytest.raises(errors.RecordTooLargeError):
            validate_produced(bytearray(data), policy(magic=1, max_decompressed_size=1000), NOW, inline=inline)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_a_checked_set_gets_new_offsets_after_other_appends(magic: int, codec: int) -> None:
    log = policy(magic=magic)
    checked = CheckedBatch(validate_produced(produced(2, codec), log, NOW, first_offset=3), 3)
    assert at_offset(checked, 3) is checked.valid
    if codec and not magic:
        with pytest.raises(LargeBatchError):
            at_offset(checked, FIRST)
        return
    found = at_offset(checked, FIRST)
    assert stored(found) == stored(validate(produced(2, codec), log))
    assert (found.header.base_offset, found.header.last_offset) == (FIRST, FIRST + 2)
