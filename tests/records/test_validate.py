import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkapy.records import errors, scanner
from kafkapy.records.batch import BatchHeader, assign, crc_is_valid, crc_of, read_header, write_batch
from kafkapy.records.record import Record, encode_batch, encode_legacy, read_records
from kafkapy.records.scanner import Scan
from kafkapy.records.validate import (
    INLINE_DECOMPRESSED_SIZE,
    INLINE_ENCODED_SIZE,
    INLINE_RECORDS,
    CheckedBatch,
    LargeBatchError,
    ProducePolicy,
    ValidatedBatch,
    at_offset,
    check_produce_version,
    validate_own,
    validate_produced,
)
from kafkapy.types import TopicPartition

from .test_record import records as any_records

NOW = 1_000_000
POLICY = ProducePolicy(TopicPartition("orders", 3))
TWO = [Record(b"k", b"v", NOW - 5), Record(b"l", b"w", NOW)]


def policy(**changes: object) -> ProducePolicy:
    return ProducePolicy(POLICY.topic_partition, **changes)  # type: ignore[arg-type]  # each of its field's type


def patched(data: bytes, layout: str, offset: int, value: int) -> bytearray:
    """``data`` with one field changed and the CRC that goes with it."""
    output = bytearray(data)
    struct.pack_into(layout, output, offset, value)
    struct.pack_into(">I", output, 17, crc_of(output, 0, len(output)))
    return output


def validate(data: bytes | bytearray, given_policy: ProducePolicy = POLICY) -> ValidatedBatch:
    return validate_produced(memoryview(bytearray(data)), given_policy, NOW)


@pytest.fixture(autouse=True)
def scan_of_both_kinds(either_scan: Scan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkapy.records.validate.scan", either_scan)
    assert scanner.FAULTS


def test_each_of_several_batches_is_checked_before_their_number() -> None:
    large = encode_batch([Record(b"k", bytes(200), NOW)])
    for data in (
        large + encode_batch(TWO),
        encode_batch(TWO) + large,
        encode_batch(TWO) + encode_legacy(TWO, 1) + large,
    ):
        with pytest.raises(errors.RecordTooLargeError):
            validate(data, policy(max_batch_size=200))
        with pytest.raises(errors.InvalidRecordError, match="more than one"):
            validate(data)


@pytest.mark.parametrize("timestamp", [-(2**63), 2**63 - 1])
def test_the_largest_timestamp_difference_allows_any_timestamp(timestamp: int) -> None:
    data = encode_batch([Record(b"k", b"v", timestamp)])
    assert validate(data).max_timestamp == max(timestamp, -1)
    with pytest.raises(errors.InvalidTimestampError):
        validate(data, policy(timestamp_difference_max_ms=2**62))


PRODUCERS = [
    (5, -1, 0, False), (5, 0, 0, True), (-2, 0, 0, True), (-2, 0, -1, False), (-2, -1, -1, False), (-1, -1, -1, True),
]  # fmt: skip


@pytest.mark.parametrize(("producer_id", "epoch", "sequence", "is_taken"), PRODUCERS)
def test_rules_of_kafkas_encoder_apply_to_batches_that_are_encoded_again(
    producer_id: int, epoch: int, sequence: int, is_taken: bool
) -> None:
    fields = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence}
    data = encode_batch(TWO, **fields)  # type: ignore[arg-type]  # ints only
    assert validate(data).header.producer_id == producer_id
    if is_taken:
        assert validate(data, policy(compression=1)).header.producer_id == producer_id
    else:
        with pytest.raises(errors.InvalidRecordError, match=f"Producer {producer_id} has epoch {epoch}"):
            validate(data, policy(compression=1))


def test_a_transactions_batch_without_a_producer_is_kept_but_not_encoded_again() -> None:
    data = encode_batch(TWO, is_transactional=True)
    assert validate(data).header.is_transactional
    with pytest.raises(errors.InvalidRecordError, match="no producer id"):
        validate(data, policy(compression=1))


def test_timestamps_below_minus_one_are_kept_but_not_encoded_again() -> None:
    data = encode_batch([Record(b"k", b"v", -2), Record(b"k", b"v", NOW)], compression=1)
    assert validate(data).max_timestamp == NOW
    with pytest.raises(errors.InvalidTimestampError, match="below -1"):
        validate(data, policy(compression=0))


@pytest.mark.parametrize("codec", range(5))
def test_a_valid_batch_passes_unchanged(codec: int) -> None:
    data = bytearray(encode_batch(TWO, compression=codec, producer_id=7, producer_epoch=0, base_sequence=0))
    before = bytes(data)
    found = validate_produced(data, POLICY, NOW)
    assert found.buffer is data
    assert data == before
    assert found.header == read_header(before)
    assert (found.max_timestamp, found.max_timestamp_offset) == (NOW, 1)


def test_an_uncompressed_batch_reports_the_first_of_the_largest_timestamps() -> None:
    listed = [Record(b"", b"", NOW), Record(b"", b"", NOW + 9), Record(b"", b"", NOW + 9), Record(b"", b"", NOW)]
    assert validate(encode_batch(listed)).max_timestamp_offset == 1
    assert validate(encode_batch(listed, compression=1)).max_timestamp_offset == 3


ONE = [Record(b"k", b"v", NOW), Record(b"l", b"w", NOW)]


@pytest.mark.parametrize(
    ("data", "given_policy"),
    [
        (encode_batch(ONE), POLICY),
        (encode_batch(ONE, compression=1), POLICY),
        (encode_batch(ONE), policy(compression=1)),
        (encode_batch(ONE), policy(timestamp_type=1)),
        (encode_batch(TWO), POLICY),
        (encode_batch([Record(b"k", b"v")]), POLICY),
        (encode_batch(ONE) + b"\0", POLICY),
    ],
    ids=["simple", "compressed", "to be compressed", "to be stamped", "two times", "no time", "more bytes"],
)
def test_a_coordinators_batch_is_validated_as_a_clients(data: bytes, given_policy: ProducePolicy) -> None:
    """Most batches are accepted without a check of their records, with the same result."""
    of_client = validate_produced(bytearray(data), given_policy, NOW + 5)
    own = validate_produced(bytearray(data), given_policy, NOW + 5, from_client=False)
    assert (bytes(own.buffer), own[1:]) == (bytes(of_client.buffer), of_client[1:])


def test_a_coordinators_batch_has_size_and_crc_checked() -> None:
    with pytest.raises(errors.RecordTooLargeError):
        validate_produced(bytearray(encode_batch(ONE)), policy(max_batch_size=20), NOW, from_client=False)
    broken = bytearray(encode_batch(ONE))
    broken[-1] ^= 1
    with pytest.raises(errors.CorruptRecordError):
        validate_produced(broken, POLICY, NOW, from_client=False)


@pytest.mark.parametrize(
    "given_policy",
    [
        POLICY,
        policy(compression=0),
        policy(timestamp_type=1),
        policy(compression=1),
        policy(magic=1),
        policy(max_batch_size=20),
    ],
    ids=["as it is", "uncompressed", "to be stamped", "to be compressed", "of an older format", "too large"],
)
def test_a_batch_that_a_coordinator_has_just_encoded_is_not_read_again(given_policy: ProducePolicy) -> None:
    buffer = bytearray(encode_batch(ONE))
    batch = ValidatedBatch(buffer, read_header(buffer), ONE[0].timestamp, 0)
    if given_policy.max_batch_size < len(buffer):
        with pytest.raises(errors.RecordTooLargeError):
            validate_own(batch, given_policy, lambda: NOW, 3)
        return
    expected = validate_produced(bytearray(buffer), given_policy, NOW, from_client=False, first_offset=3)
    found = validate_own(batch, given_policy, lambda: NOW, 3)
    assert (bytes(found.buffer), found[1:]) == (bytes(expected.buffer), expected[1:])
    assert (found is batch) == (given_policy in (POLICY, policy(compression=0)))


def test_records_without_a_timestamp() -> None:
    found = validate(encode_batch([Record(b"", b"")]), policy(timestamp_difference_max_ms=10))
    assert (found.max_timestamp, found.max_timestamp_offset) == (-1, -1)


def test_a_wrong_max_timestamp_is_corrected() -> None:
    found = validate(encode_batch(TWO, max_timestamp=5))
    assert (found.header.max_timestamp, found.max_timestamp) == (NOW, NOW)
    assert crc_is_valid(found.buffer, 0, found.header)


@pytest.mark.parametrize("codec", [0, 4])
def test_log_append_time_stamps_the_batch(codec: int) -> None:
    found = validate(encode_batch(TWO, compression=codec), policy(timestamp_type=1, timestamp_difference_max_ms=0))
    assert (found.header.timestamp_type, found.header.max_timestamp) == (1, NOW)
    assert found.header.base_timestamp == NOW - 5
    assert found.max_timestamp_offset == 1
    assert crc_is_valid(found.buffer, 0, found.header)
    assert [record.timestamp for record in read_records(found.buffer)] == [NOW, NOW]


@pytest.mark.parametrize("source", range(5))
@pytest.mark.parametrize("target", range(5))
@pytest.mark.parametrize("timestamp_type", [0, 1])
def test_a_batch_gets_the_codec_of_the_topic(source: int, target: int, timestamp_type: int) -> None:
    data = encode_batch(
        TWO, compression=source, producer_id=9, producer_epoch=1, base_sequence=4, is_transactional=True
    )
    found = validate(data, policy(compression=target, timestamp_type=timestamp_type))
    header = read_header(data)
    stored = found.header
    assert (stored.compression, stored.timestamp_type) == (target, timestamp_type)
    assert stored[8:] == (NOW, *header[9:])
    assert stored.is_transactional
    assert crc_is_valid(found.buffer, 0, stored)
    assign(found.buffer, 0, 50, 2)
    assert [record.offset for record in read_records(found.buffer)] == [50, 51]
    assert [record.value for record in read_records(found.buffer)] == [b"v", b"w"]


@pytest.mark.parametrize("codec", [0, 1])
def test_wrong_offset_deltas_are_refused(codec: int) -> None:
    listed = [Record(b"a", b"1", NOW, (), 0), Record(b"b", b"2", NOW, (), 0), Record(b"c", b"3", NOW, (), 2)]
    data = encode_batch(listed, compression=codec, keep_offsets=True)
    with pytest.raises(errors.InvalidRecordError) as caught:
        validate(data)
    assert caught.value.record_errors == [(1, "The record has offset 0 in the place of 1")]


def test_an_incomplete_batch_at_the_end_is_cut_off() -> None:
    data = encode_batch(TWO)
    found = validate(data + data[:-1])
    assert found.buffer == data


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda data: data[:-1], errors.InvalidRecordError, "There is no whole batch"),
        (lambda data: b"", errors.InvalidRecordError, "There is no whole batch"),
        (lambda data: data + data, errors.InvalidRecordError, "more than one batch"),
        (lambda data: data + data[:-1] + b"x", errors.CorruptRecordError, "orders-3 has a wrong CRC"),
        (lambda data: data + patched(data, ">q", 0, 5), errors.InvalidRecordError, "orders-3 begins at offset 5"),
        (lambda data: data[:-1] + b"x", errors.CorruptRecordError, "orders-3 has a wrong CRC"),
        (lambda data: patched(data, ">q", 0, 5), errors.InvalidRecordError, "orders-3 begins at offset 5"),
        (lambda data: patched(data, ">b", 16, 1), errors.CorruptRecordError, "wrong CRC"),
        (lambda data: patched(data, ">b", 16, 3), errors.CorruptRecordError, "No format has magic 3"),
        (lambda data: patched(data, ">i", 8, 40)[:52], errors.CorruptRecordError, "No whole record batch .* 52 bytes"),
        (lambda data: patched(data, ">i", 8, 13), errors.CorruptRecordError, "its header alone has"),
        (lambda data: patched(data, ">h", 21, 5), errors.UnsupportedCompressionTypeError, "no codec 5"),
        (lambda data: patched(data, ">h", 21, 1), errors.CorruptRecordError, "corrupt"),
        (lambda data: patched(data, ">h", 21, 32), errors.InvalidRecordError, "Only the broker may write"),
        (lambda data: patched(data, ">i", 23, -1), errors.InvalidRecordError, r"ends before it begins: \[0, -1\]"),
        (lambda data: patched(data, ">i", 57, 0), errors.InvalidRecordError, "can't have 0 records"),
        (lambda data: patched(data, ">i", 57, -1), errors.InvalidRecordError, "can't have -1 records"),
        (lambda data: patched(data, ">i", 57, 3), errors.InvalidRecordError, "has 3 records for the offsets"),
        (lambda data: patched(data, ">q", 43, 6), errors.InvalidRecordError, "Producer 6 sent .* sequence -1"),
        (lambda data: patched(data, ">q", 27, 2**63 - 1), errors.InvalidRecordError, "over 64 bits"),
        (lambda data: patched(data, ">b", 61, 120), errors.InvalidRecordError, "ends before its last record"),
    ],
)  # fmt: skip
def test_a_batch_that_breaks_a_rule_is_refused(
    change: Callable[[bytes], bytes], error: type[errors.RecordsError], message: str
) -> None:
    data = change(encode_batch(TWO))
    with pytest.raises(error, match=message):
        validate(data)


def test_a_size_beyond_the_limit_is_refused_before_the_crc_is_computed() -> None:
    data = encode_batch(TWO)
    assert validate(data, policy(max_batch_size=len(data))).buffer == data
    with pytest.raises(errors.RecordTooLargeError):
        validate(data[:-1] + b"x", policy(max_batch_size=len(data) - 1))


def test_a_batch_that_grows_beyond_the_limit_is_refused() -> None:
    data = encode_batch([Record(b"", bytes(1000))], compression=1)
    with pytest.raises(errors.RecordTooLargeError):
        validate(data, policy(compression=0, max_batch_size=200))


def test_a_decompression_bomb_is_refused() -> None:
    data = encode_batch([Record(b"", bytes(100_000))], compression=4)
    with pytest.raises(errors.RecordTooLargeError):
        validate(data, policy(max_decompressed_size=50_000))


@pytest.mark.parametrize("codec", [0, 2])
def test_a_compacted_topic_requires_keys(codec: int) -> None:
    data = encode_batch([Record(b"k", b"", NOW), Record(None, b"", NOW), Record(None, b"", 0)], compression=codec)
    with pytest.raises(errors.InvalidRecordError) as caught:
        validate(data, policy(key_required=True, timestamp_difference_max_ms=NOW))
    said = "orders-3 is compacted: its records need keys"
    assert caught.value.record_errors == [(1, said), (2, said)]
    assert validate(data).header.record_count == 3
    assert validate(encode_batch(TWO), policy(key_required=True)).header.record_count == 2


def test_timestamps_out_of_range_are_named() -> None:
    listed = [Record(b"", b"", at) for at in (NOW, NOW - 11, NOW + 10, NOW + 11, -1)] + [Record(None, b"", NOW)]
    with pytest.raises(errors.InvalidTimestampError) as caught:
        validate(encode_batch(listed), policy(timestamp_difference_max_ms=10, key_required=True))
    assert [place for place, _ in caught.value.record_errors] == [1, 3, 5]
    assert caught.value.record_errors[1][1] == ("Offset 3 has timestamp 1000011; 999990 to 1000010 is allowed")


def test_producers_may_not_set_log_append_time() -> None:
    listed = [Record(None, b"abc", NOW), Record(b"k", None, NOW)]
    with pytest.raises(errors.InvalidTimestampError) as caught:
        validate(encode_batch(listed, timestamp_type=1))
    assert caught.value.record_errors[0][1] == "Offset 0 is marked LogAppendTime, which only the broker may set"
    assert [place for place, _ in caught.value.record_errors] == [0, 1]


def test_coordinators_write_control_batches_and_any_base_offset() -> None:
    data = bytearray(encode_batch([Record(b"\0\0\0\1", b"")], base_offset=9, is_control=True))
    found = validate_produced(data, policy(compression=1), NOW, from_client=False)
    assert found.header.is_control
    assert found.header.compression == 0


def test_a_negative_count_of_a_coordinator_is_refused_too() -> None:
    data = patched(encode_batch(TWO), ">i", 57, -1)
    with pytest.raises(errors.InvalidRecordError, match="record count -1"):
        validate_produced(data, POLICY, NOW, from_client=False)


@pytest.mark.parametrize(
    ("change", "version", "error"),
    [
        (lambda data: data[:-1], 8, errors.InvalidRecordError),
        (lambda data: patched(data, ">b", 16, 1), 8, errors.InvalidRecordError),
        (lambda data: patched(data, ">b", 16, 3), 8, errors.CorruptRecordError),
        (lambda data: patched(data, ">b", 22, 4), 6, errors.UnsupportedCompressionTypeError),
        (lambda data: data + data, 8, errors.InvalidRecordError),
    ],
)
def test_rules_of_the_requests_version(
    change: Callable[[bytes], bytes], version: int, error: type[errors.RecordsError]
) -> None:
    with pytest.raises(error):
        check_produce_version(memoryview(bytearray(change(encode_batch(TWO)))), version)


@pytest.mark.parametrize(("codec", "version"), [(0, 3), (3, 6), (4, 7)])
def test_valid_requests_pass(codec: int, version: int) -> None:
    data = bytearray(encode_batch(TWO, compression=codec))
    check_produce_version(data, version)
    check_produce_version(data + b"tail", version)


@pytest.mark.parametrize("version", range(3))
def test_old_requests_may_have_any_format_and_number_of_batches(version: int) -> None:
    for data in (b"", encode_batch(TWO, compression=4) * 2, encode_legacy(TWO, 0)):
        check_produce_version(bytearray(data), version)


@given(any_records.filter(bool), st.integers(0, 4))
def test_an_encoded_batch_is_valid(listed: list[Record], codec: int) -> None:
    data = bytearray(encode_batch(listed, compression=codec))
    found = validate_produced(data, POLICY, NOW)
    assert read_records(found.buffer) == read_records(data)


@given(st.binary(max_size=50), st.integers(0, 8), st.integers(1, 3))
def test_garbage_records_give_documented_errors_only(body: bytes, attributes: int, count: int) -> None:
    data = write_batch(BatchHeader(0, 0, -1, 2, 0, attributes, count - 1, 0, 0, -1, -1, -1, count), body)
    try:
        found = validate(data)
    except errors.RecordsError:
        return
    assert len(read_records(found.buffer)) == count


@pytest.mark.parametrize("codec", [1, 4])
def test_a_batch_that_decompresses_to_much_is_not_validated_inline(codec: int) -> None:
    data = bytearray(encode_batch([Record(None, bytes(INLINE_DECOMPRESSED_SIZE + 1), 5)], compression=codec))
    with pytest.raises(LargeBatchError):
        validate_produced(data, POLICY, 0, inline=True)
    valid = validate_produced(data, POLICY, 0)
    assert bytes(valid.buffer) == data
    assert valid.max_timestamp == 5
    for inline in (False, True):
        with pytest.raises(errors.RecordTooLargeError):
            validate_produced(data, policy(max_decompressed_size=INLINE_DECOMPRESSED_SIZE), 0, inline=inline)


def test_many_records_are_not_checked_one_by_one_inline() -> None:
    listed = [Record(None, b"", 5)] * (INLINE_RECORDS + 1)
    assert validate_produced(bytearray(encode_batch(listed)), POLICY, 5, inline=True).max_timestamp == 5
    stamped = bytearray(encode_batch(listed, timestamp_type=1))
    with pytest.raises(LargeBatchError):
        validate_produced(stamped, POLICY, 5, inline=True)
    with pytest.raises(errors.InvalidTimestampError):
        validate_produced(stamped, POLICY, 5)


def test_a_large_batch_is_not_compressed_again_inline() -> None:
    for size, is_large in ((1000, False), (INLINE_ENCODED_SIZE, True)):
        data = encode_batch([Record(None, bytes(size), 5)])
        asked = policy(compression=1)
        if is_large:
            with pytest.raises(LargeBatchError):
                validate_produced(bytearray(data), asked, 5, inline=True)
        assert validate_produced(bytearray(data), asked, 5, inline=not is_large).header.compression == 1


def test_a_large_uncompressed_batch_is_not_validated_inline() -> None:
    data = bytearray(encode_batch([Record(None, bytes(INLINE_DECOMPRESSED_SIZE), 5)]))
    asked = policy(max_batch_size=2 * len(data))
    with pytest.raises(LargeBatchError):
        validate_produced(data, asked, 5, inline=True)
    assert validate_produced(data, asked, 5).max_timestamp == 5


def test_a_checked_batch_gets_its_offsets_when_it_is_appended() -> None:
    valid = validate_produced(bytearray(encode_batch([Record(None, b"v", 5)])), POLICY, 5, first_offset=3)
    assert at_offset(CheckedBatch(valid, 3), 9) is valid
