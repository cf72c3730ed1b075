"""Batches as a mirror forwards them: changed headers, batches that are left out, batches that are written again."""

import pytest

from kafkapy.records.batch import (
    CREATE_TIME,
    LOG_APPEND_TIME,
    MAGIC,
    BatchHeader,
    crc_is_valid,
    iterate_headers,
    own_batch,
    read_header,
)
from kafkapy.records.control import ControlType, Marker, encode_marker
from kafkapy.records.errors import CorruptRecordError
from kafkapy.records.forward import RUN_BYTES, Forwarded, divided, forwarded, stamp
from kafkapy.records.record import Record, encode_batch, encode_empty_batch, encode_legacy, read_records, set_timestamp

GZIP = 1


def _records(*values: bytes, first: int = 0) -> list[Record]:
    return [Record(b"k", value, timestamp=1000 + at, offset=first + at) for at, value in enumerate(values)]


def _of(producer_id: int, *values: bytes, base_offset: int, is_transactional: bool = True) -> bytes:
    return encode_batch(
        _records(*values), base_offset=base_offset, producer_id=producer_id, producer_epoch=3, base_sequence=7,
        is_transactional=is_transactional, partition_leader_epoch=9,
    )  # fmt: skip


def _marker(kind: ControlType, producer_id: int, offset: int) -> bytes:
    return encode_marker(kind, Marker(producer_id, 3, 1), 5, base_offset=offset)


def _values(each: Forwarded) -> list[bytes | None]:
    assert each.data is not None
    return [record.value for record in read_records(bytes(each.data))]


def _header(each: Forwarded) -> BatchHeader:
    assert each.data is not None
    return read_header(each.data)


def test_the_producer_changes_and_the_records_stay() -> None:
    batch = _of(4001, b"a", b"b", base_offset=40)
    (each,) = forwarded(memoryview(batch))
    assert (each.magic, each.first_offset, each.next_offset, each.record_count) == (MAGIC, 40, 42, 2)
    assert each.data is not None
    stamp(each.data, 77, 1, 20, is_transactional=False)
    header = _header(each)
    assert (header.base_offset, header.partition_leader_epoch) == (0, -1)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 1, 20)
    assert not header.is_transactional
    assert crc_is_valid(each.data, 0, header)
    assert each.data[57:] == batch[57:]
    stamp(each.data, -1, -1, -1, is_transactional=False)
    assert not _header(each).has_producer_id
    stamp(each.data, 77, 1, 20, is_transactional=True)
    assert _header(each).is_transactional


def test_aborted_transactions_and_markers_are_left_out() -> None:
    data = (
        _of(1, b"aborted", base_offset=0)
        + _of(2, b"committed", base_offset=1)
        + _of(1, b"plain", base_offset=2, is_transactional=False)
        + _marker(ControlType.ABORT, 1, 3)
        + _of(1, b"later", base_offset=4)
        + _marker(ControlType.COMMIT, 1, 5)
        + _of(1, b"again", base_offset=6)
        + _marker(ControlType.ABORT, 1, 7)
        + _marker(ControlType.COMMIT, 2, 8)
    )
    found = list(forwarded(data, [(6, 1), (0, 1)]))
    assert [each.next_offset for each in found] == list(range(1, 10))
    passed = [each for each in found if each.data is not None]
    assert [_values(each) for each in passed] == [[b"committed"], [b"plain"], [b"later"]]
    assert sum(each.record_count for each in found) == 3


@pytest.mark.parametrize("compression", [0, GZIP])
def test_gaps_of_compaction_are_closed(compression: int) -> None:
    kept = [record for record in _records(b"a", b"b", b"c", b"d", first=10) if record.value != b"b"]
    batch = encode_batch(kept, base_offset=10, keep_offsets=True, compression=compression)
    (each,) = forwarded(batch)
    header = _header(each)
    assert (header.base_offset, header.last_offset_delta, header.record_count) == (0, 2, 3)
    assert header.compression == compression
    assert _values(each) == [b"a", b"c", b"d"]
    assert each.next_offset == 14


def test_a_batch_without_records_is_left_out() -> None:
    empty = encode_empty_batch(read_header(_of(4, b"a", b"b", base_offset=5)))
    assert list(forwarded(empty)) == [Forwarded(None, MAGIC, 7, 0)]


@pytest.mark.parametrize("compression", [0, GZIP])
def test_append_time_becomes_the_time_of_each_record(compression: int) -> None:
    """Brokers refuse LogAppendTime in a produce request; the records have the times of the producer, 1000 and 1001."""
    batch = encode_batch(
        _records(b"a", b"b"), base_offset=5, compression=compression, timestamp_type=LOG_APPEND_TIME, max_timestamp=9000
    )
    (each,) = forwarded(batch)
    assert (each.first_offset, each.next_offset, each.record_count) == (5, 7, 2)
    assert each.data is not None
    stamp(each.data, -1, -1, -1, is_transactional=False)
    header = _header(each)
    assert (header.timestamp_type, header.compression, header.max_timestamp) == (CREATE_TIME, compression, 9000)
    assert [(record.timestamp, record.value) for record in read_records(each.data)] == [(9000, b"a"), (9000, b"b")]


def test_damage_is_not_hidden_by_a_new_crc() -> None:
    batch = bytearray(_of(1, b"value", base_offset=3))
    batch[-2] ^= 1
    with pytest.raises(CorruptRecordError, match="batch at offset 3 has a wrong CRC"):
        list(forwarded(batch))


@pytest.mark.parametrize("magic", [0, 1])
def test_entries_are_joined_to_sets(magic: int) -> None:
    entries = encode_legacy(_records(b"a", b"b", first=5), magic)
    wrapper = encode_legacy(_records(b"c", b"d", first=7), magic, compression=GZIP)
    batch = encode_batch(_records(b"e"), base_offset=9)
    found = list(forwarded(entries + wrapper + entries + batch + entries))
    assert [(each.magic, each.record_count) for each in found] == [
        (magic, 2), (magic, 2), (magic, 2), (MAGIC, 1), (magic, 2),
    ]  # fmt: skip
    assert bytes(found[0].data or b"") == entries
    assert [(each.first_offset, each.next_offset) for each in found[:2]] == [(5, 7), (7, 9)]


def test_sets_have_a_size() -> None:
    entries = encode_legacy(_records(*[bytes(RUN_BYTES // 3)] * 5), 1)
    found = list(forwarded(entries))
    assert [each.record_count for each in found] == [2, 2, 1]
    assert b"".join(each.data or b"" for each in found) == entries


@pytest.mark.parametrize("magic", [0, 1])
def test_sets_can_be_divided(magic: int) -> None:
    entries = [encode_legacy([record], magic) for record in _records(*[bytes(100)] * 5, bytes(1000), first=7)]
    (whole,) = forwarded(b"".join(entries))
    most = 2 * len(entries[0])
    found = divided(whole, most)
    assert [bytes(each.data or b"") for each in found] == [
        entries[0] + entries[1], entries[2] + entries[3], entries[4], entries[5],
    ]  # fmt: skip
    assert [(each.first_offset, each.next_offset, each.record_count) for each in found] == [
        (7, 9, 2), (9, 11, 2), (11, 12, 1), (12, 13, 1),
    ]  # fmt: skip
    assert {each.magic for each in found} == {magic}
    assert divided(whole, len(whole.data or b"")) == [whole]


def test_what_has_no_parts_is_not_divided() -> None:
    wrapper = encode_legacy(_records(b"c", b"d", first=70), 1, compression=GZIP)
    for each in (*forwarded(wrapper), *forwarded(encode_batch(_records(b"a"))), Forwarded(None, 1, 7, 0)):
        assert divided(each, 1) == [each]


def _inner_offsets(each: Forwarded) -> list[int]:
    assert each.data is not None
    assert all(crc_is_valid(each.data, position, header) for position, header in iterate_headers(each.data))
    return [record.offset for record in read_records(bytes(each.data))]


def test_offsets_in_wrappers_count_from_0() -> None:
    whole = encode_legacy(_records(b"c", b"d", b"e", first=70), 1, compression=GZIP)
    (each,) = forwarded(whole)
    assert _inner_offsets(each) == [0, 1, 2]
    assert (each.data or b"")[8:] == whole[8:]
    kept = [record for record in _records(b"c", b"d", b"e", first=70) if record.value != b"d"]
    (each,) = forwarded(encode_legacy(kept, 1, compression=GZIP))
    assert _inner_offsets(each) == [0, 1]
    assert _values(each) == [b"c", b"e"]
    assert (each.first_offset, each.next_offset) == (70, 73)


@pytest.mark.parametrize("compression", [0, GZIP])
def test_append_time_becomes_the_time_of_each_entry(compression: int) -> None:
    sent = encode_legacy(_records(b"c", b"d", first=3), 1, compression=compression)
    stored = bytearray(sent)
    for position, header in iterate_headers(sent):  # as a broker does: a wrapper's entries keep the producer's time
        set_timestamp(stored, position, header, LOG_APPEND_TIME, 5000)
    (each,) = forwarded(stored)
    assert (each.first_offset, each.next_offset, each.record_count) == (3, 5, 2)
    assert each.data is not None
    found = list(iterate_headers(each.data))
    assert {(header.timestamp_type, header.compression) for _, header in found} == {(CREATE_TIME, compression)}
    assert all(crc_is_valid(each.data, position, header) for position, header in found)
    records = [record for position, header in found for record in read_records(each.data, header, position)]
    assert [(record.timestamp, record.value) for record in records] == [(5000, b"c"), (5000, b"d")]


def test_the_end_of_a_response_may_be_cut() -> None:
    batch, _ = own_batch(b"", 0, 5, (-1, -1, -1))
    whole = encode_batch(_records(b"a"))
    assert len(list(forwarded(whole + whole[:-1]))) == 1
    assert [each.data for each in forwarded(batch)] == [None]
