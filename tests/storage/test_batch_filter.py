"""The part of one batch that compaction keeps."""

import pytest

from harness.storage.batches import marker
from kafkapy.records.batch import (
    DELETE_HORIZON_BIT,
    LOG_APPEND_TIME,
    MAGIC,
    BatchHeader,
    crc_is_valid,
    read_header,
    set_max_timestamp,
    write_batch,
)
from kafkapy.records.errors import CorruptRecordError
from kafkapy.records.record import Record, encode_batch, encode_legacy, read_entries, read_legacy_header, read_records
from kafkapy.storage.compaction.batch_filter import (
    BatchFilter,
    Bounds,
    CleanedTransactions,
    Kept,
    LastRecord,
    records_body,
)
from kafkapy.storage.compaction.offset_map import OffsetMap
from kafkapy.storage.log.transaction_index import AbortedTransaction

RECORDS = [
    Record(b"a", b"1", 100), Record(b"b", b"2", 300), Record(None, b"3", 200), Record(b"b", b"4", 250),
    Record(b"c", None, 120),
]  # fmt: skip
PRODUCER = {"producer_id": 9, "producer_epoch": 4, "base_sequence": 30}
NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
BOUNDS = Bounds(now_ms=NOW_MS, delete_retention_ms=HOUR_MS, end_offset=1000)
MAX_INT64 = 2**63 - 1


def batch_filter(
    *contents: bytes, producers: dict[int, LastRecord] | None = None, bounds: Bounds = BOUNDS
) -> BatchFilter:
    """A filter that has noted the keys of these batches."""
    offsets = OffsetMap(100_000, 0.9, 100)
    for content in contents:
        header = read_header(content)
        offsets.put_records(records_body(header, memoryview(content)), header.record_count, header.base_offset, 0)
        offsets.note_read_up_to(header.last_offset)
    return BatchFilter(offsets, CleanedTransactions(), producers or {}, bounds)


def kept_of(filtering: BatchFilter, content: bytes) -> Kept | None:
    return filtering.keep(read_header(content), memoryview(content))


def header_of(kept: Kept) -> BatchHeader:
    header = read_header(bytes(kept.content))
    assert header.size == len(kept.content)
    assert crc_is_valid(bytes(kept.content), 0, header)
    return header


def batch(records: list[Record] = RECORDS, **fields: int) -> bytes:
    return encode_batch(records, base_offset=50, partition_leader_epoch=3, **fields)  # type: ignore[arg-type]  # ints only


def with_horizon(horizon_ms: int, records: list[Record] = RECORDS) -> bytes:
    """A batch as Apache Kafka 3.1 and later leave it: its deltas count from the horizon."""
    content = batch([Record(b"", b"", horizon_ms), *records])
    first = len(batch([Record(b"", b"", 0)])) - 61
    header = read_header(content)
    fields = {
        "attributes": DELETE_HORIZON_BIT,
        "max_timestamp": max(record.timestamp for record in records),
        "last_offset_delta": len(records),
        "record_count": len(records),
    }
    return write_batch(header._replace(**fields), content[61 + first :])


def facts(kept: Kept | None) -> list[tuple[int, bytes | None, bytes | None, int]]:
    assert kept is not None
    read = read_records(bytes(kept.content), header_of(kept))
    return [(record.offset, record.key, record.value, record.timestamp) for record in read]


def test_a_batch_that_keeps_everything_stays_byte_for_byte() -> None:
    content = batch([RECORDS[0], RECORDS[1]])
    kept = kept_of(batch_filter(content), content)
    assert kept == (content, 2, 51, 300, 51)


@pytest.mark.parametrize("codec", range(5))
def test_a_rewritten_batch_keeps_all_but_its_times_and_count(codec: int) -> None:
    content = batch([*RECORDS, Record(b"d", b"5", 240)], compression=codec, **PRODUCER)
    before = read_header(content)
    later = encode_batch([Record(b"a", b"9"), Record(b"c", b"9")], base_offset=60)
    kept = kept_of(batch_filter(content, later), content)
    assert kept is not None
    header = header_of(kept)
    changed = {"size": 0, "crc": 0, "base_timestamp": 250, "max_timestamp": 250, "record_count": 2}
    assert header._replace(size=0, crc=0) == before._replace(**changed)
    assert kept[1:] == (2, 55, 250, 55)
    assert facts(kept) == [(53, b"b", b"4", 250), (55, b"d", b"5", 240)]


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("is_whole", [False, True])
def test_the_first_compaction_sets_the_delete_horizon_of_a_tombstone(codec: int, is_whole: bool) -> None:
    content = batch(RECORDS[3:] if is_whole else RECORDS, compression=codec, **PRODUCER)
    first = 50 if is_whole else 53
    before = read_header(content)
    later = encode_batch([Record(b"a", b"9")], base_offset=60)
    kept = kept_of(batch_filter(content, later), content)
    assert kept is not None
    header = header_of(kept)
    assert header.delete_horizon_ms == NOW_MS + HOUR_MS
    changed = {
        "attributes": codec | DELETE_HORIZON_BIT,
        "base_timestamp": NOW_MS + HOUR_MS,
        "max_timestamp": 250,
        "record_count": 2,
    }
    assert header._replace(size=0, crc=0) == before._replace(size=0, crc=0, **changed)
    assert facts(kept) == [(first, b"b", b"4", 250), (first + 1, b"c", None, 120)]
    assert kept_of(batch_filter(content, later), bytes(kept.content)) == kept, "a horizon that is set stays"


def test_a_horizon_is_kept_with_the_base_timestamp_when_records_go() -> None:
    content = with_horizon(NOW_MS + 5)
    later = encode_batch([Record(b"a", b"9")], base_offset=60)
    kept = kept_of(batch_filter(content, later), content)
    assert header_of(kept).delete_horizon_ms == NOW_MS + 5  # type: ignore[arg-type]  # there is one
    assert facts(kept) == [(54, b"b", b"4", 250), (55, b"c", None, 120)]
    later = encode_batch([Record(b"a", b"9"), Record(b"c", b"9")], base_offset=60)
    kept = kept_of(batch_filter(content, later), content)
    assert header_of(kept).delete_horizon_ms == NOW_MS + 5, "though no tombstone is left"  # type: ignore[arg-type]
    assert facts(kept) == [(54, b"b", b"4", 250)]


@pytest.mark.parametrize(("ahead_ms", "stays"), [(1, True), (0, False), (-1, False)])
def test_a_tombstone_goes_when_its_horizon_is_reached(ahead_ms: int, stays: bool) -> None:
    content = with_horizon(NOW_MS + ahead_ms, RECORDS[4:])
    kept = kept_of(batch_filter(content), content)
    assert (kept is not None) == stays
    if stays:
        assert kept is not None
        assert kept.content == content


def test_a_tombstone_above_the_noted_keys_gets_no_horizon() -> None:
    """The older records of its key are not removed yet, so a reader may still get one of them and needs it later."""
    content = batch(RECORDS[4:])
    filtering = batch_filter(encode_batch([Record(b"a", b"9")], base_offset=40))
    kept = kept_of(filtering, content)
    assert kept is not None
    assert kept.content == content


@pytest.mark.parametrize(("now_ms", "retention_ms"), [(NOW_MS, MAX_INT64), (MAX_INT64, 0), (MAX_INT64, MAX_INT64)])
def test_a_retention_without_an_end_is_the_latest_horizon(now_ms: int, retention_ms: int) -> None:
    content = batch(RECORDS[3:])
    kept = kept_of(batch_filter(content, bounds=Bounds(now_ms, retention_ms, 1000)), content)
    assert kept is not None
    assert header_of(kept).delete_horizon_ms == MAX_INT64
    assert facts(kept) == [(50, b"b", b"4", 250), (51, b"c", None, 120)]


@pytest.mark.parametrize("extreme", [-(2**63), -(2**63) + NOW_MS])
def test_timestamps_that_no_delta_reaches_keep_their_origin(extreme: int) -> None:
    """Such a tombstone has no horizon, so it stays: better than a wrong timestamp."""
    records = [Record(b"b", b"4", extreme), Record(b"b", b"5", extreme + 1), Record(b"c", None, extreme + 2)]
    content = batch(records)
    kept = kept_of(batch_filter(content), content)
    assert kept is not None
    header = header_of(kept)
    assert (header.base_timestamp, header.delete_horizon_ms) == (extreme, None)
    assert facts(kept) == [(51, b"b", b"5", extreme + 1), (52, b"c", None, extreme + 2)]
    far = [Record(b"a", b"1", 0), Record(b"b", b"4", MAX_INT64), Record(b"c", b"5", -(2**63))]
    content = batch(far)
    kept = kept_of(batch_filter(content, encode_batch([Record(b"a", b"9")], base_offset=60)), content)
    assert facts(kept) == [(51, b"b", b"4", MAX_INT64), (52, b"c", b"5", -(2**63))]


def test_bits_without_a_meaning_are_cleared_in_what_is_written_again() -> None:
    content = batch()
    header = read_header(content)
    content = write_batch(header._replace(attributes=0x7F80), content[61:])
    kept = kept_of(batch_filter(content), content)
    assert kept is not None
    assert header_of(kept).attributes == DELETE_HORIZON_BIT


def test_a_stamped_batch_keeps_its_time() -> None:
    content = bytearray(batch())
    set_max_timestamp(content, 0, read_header(content), LOG_APPEND_TIME, 7_000)
    later = encode_batch([Record(b"c", b"9")], base_offset=60)
    kept = kept_of(batch_filter(bytes(content), later), bytes(content))
    assert kept is not None
    header = header_of(kept)
    assert (header.timestamp_type, header.base_timestamp, header.max_timestamp) == (LOG_APPEND_TIME, 7_000, 7_000)
    assert {record.timestamp for record in read_records(bytes(kept.content), header)} == {7_000}


def test_a_stamped_batch_gets_a_horizon_and_keeps_its_time() -> None:
    content = bytearray(batch())
    set_max_timestamp(content, 0, read_header(content), LOG_APPEND_TIME, 7_000)
    kept = kept_of(batch_filter(bytes(content)), bytes(content))
    assert kept is not None
    header = header_of(kept)
    assert (header.timestamp_type, header.delete_horizon_ms, header.max_timestamp) == (
        LOG_APPEND_TIME, NOW_MS + HOUR_MS, 7_000,
    )  # fmt: skip
    as_created = header._replace(attributes=0)
    assert {record.timestamp for record in read_records(bytes(kept.content), as_created)} == {7_000}, (
        "by its deltas too"
    )


@pytest.mark.parametrize("magic", [0, 1, MAGIC])
def test_the_last_batch_of_what_is_compacted_stays_without_records(magic: int) -> None:
    """KAFKA-17076: a reader comes to the log's end only by a batch that reaches it. No key: the record goes."""
    if magic == MAGIC:
        content = encode_batch([Record(None, b"v", 700)], base_offset=50, partition_leader_epoch=3)
    else:
        content = encode_legacy([Record(None, b"v", 700, (), 50)], magic)
    header = read_header(content)
    noted = encode_batch([Record(None, b"v")], base_offset=50)
    last = batch_filter(noted, bounds=BOUNDS._replace(end_offset=51))
    kept = last.keep(header, memoryview(content))
    assert kept is not None
    assert kept[1:] == (0, 50, 700 if magic else -1, 50)
    emptied = header_of(kept)
    assert (emptied.magic, emptied.base_offset, emptied.next_offset, emptied.record_count) == (MAGIC, 50, 51, 0)
    assert (emptied.has_producer_id, emptied.partition_leader_epoch) == (False, 3 if magic == MAGIC else -1)
    assert kept_of(last, bytes(kept.content)) == kept, "again, while nothing follows"
    assert kept_of(batch_filter(), bytes(kept.content)) is None, "it goes when something follows"


def test_the_last_batch_of_a_producer_stays_without_records() -> None:
    content = batch([RECORDS[0]], **PRODUCER)
    later = encode_batch([Record(b"a", b"9")], base_offset=60)
    kept = kept_of(batch_filter(content, later, producers={9: LastRecord(50, 4)}), content)
    assert kept is not None
    assert kept[1:] == (0, 50, 100, 50)
    header = header_of(kept)
    assert (header.producer_id, header.last_sequence, header.base_offset, header.record_count) == (9, 30, 50, 0)
    assert kept_of(batch_filter(content, later, producers={9: LastRecord(50, 4)}), bytes(kept.content)) == kept
    assert kept_of(batch_filter(content, later, producers={9: LastRecord(70, 4)}), content) is None
    assert kept_of(batch_filter(content, later), content) is None
    assert kept_of(batch_filter(content, later, producers={9: LastRecord(70, 4)}), bytes(kept.content)) is None


@pytest.mark.parametrize(
    ("later_ms", "producers", "records"),
    [
        (HOUR_MS - 1, {}, 1),
        (HOUR_MS, {}, None),
        (HOUR_MS, {7: LastRecord(-1, 0)}, 0),
        (HOUR_MS, {7: LastRecord(-1, 1)}, None),
    ],
)
def test_a_marker_is_removed_when_no_batch_needs_it(
    later_ms: int, producers: dict[int, LastRecord], records: int | None
) -> None:
    content = bytes(marker(commit=True))
    first = kept_of(batch_filter(producers=producers), content)
    assert first is not None
    assert header_of(first).delete_horizon_ms == NOW_MS + HOUR_MS
    later = batch_filter(producers=producers, bounds=BOUNDS._replace(now_ms=NOW_MS + later_ms))
    kept = kept_of(later, bytes(first.content))
    assert (kept.records if kept else None) == records
    if records == 0:
        assert kept is not None
        assert kept_of(later, bytes(kept.content)) == kept


def test_a_marker_with_a_horizon_is_the_marker_it_was() -> None:
    content = bytes(marker(commit=True))
    before = read_header(content)
    kept = kept_of(batch_filter(), content)
    assert kept is not None
    header = header_of(kept)
    changed = {"attributes": before.attributes | DELETE_HORIZON_BIT, "base_timestamp": NOW_MS + HOUR_MS}
    assert header._replace(size=0, crc=0) == before._replace(size=0, crc=0, **changed)
    assert read_records(bytes(kept.content)) == read_records(content)


def test_a_marker_stays_with_the_data_of_its_transaction() -> None:
    content = encode_batch([Record(b"\x00\x00\x00\x01", b"v")], is_transactional=True, base_offset=90,
                           producer_id=7, producer_epoch=0, base_sequence=0)  # fmt: skip
    filtering = batch_filter(content, bounds=BOUNDS._replace(now_ms=NOW_MS + 9 * HOUR_MS))
    assert kept_of(filtering, content) is not None
    ended = bytes(marker(commit=True))
    kept = kept_of(filtering, ended)
    assert kept is not None
    assert kept.content == ended, "with no horizon"
    expired = kept_of(batch_filter(), ended)
    assert expired is not None
    assert kept_of(filtering, content) is not None
    kept = kept_of(filtering, bytes(expired.content))
    assert kept is not None
    assert kept.content == expired.content, "whatever its horizon is"


def test_aborted_data_are_removed() -> None:
    content = encode_batch([Record(b"a", b"v")], is_transactional=True, producer_id=7, producer_epoch=0,
                           base_sequence=0)  # fmt: skip
    offsets = OffsetMap(1000, 0.9, 10)
    transactions = CleanedTransactions()
    transactions.add([AbortedTransaction(7, 0, 1, 2)])
    assert kept_of(BatchFilter(offsets, transactions, {}, BOUNDS), content) is None


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [0, 1, 3])
def test_message_sets_keep_their_format(magic: int, codec: int) -> None:
    records = [
        Record(key, value, 100 * (place + 1), (), 50 + place)
        for place, (key, value, *_) in enumerate(RECORDS)
    ]  # fmt: skip
    offsets = OffsetMap(100_000, 0.9, 100)
    for record in records:
        if record.key is not None:
            offsets.put(record.key, record.offset)
    offsets.put(b"a", 70)
    filtering = BatchFilter(offsets, CleanedTransactions(), {}, BOUNDS)
    filtering.retain_legacy_deletes = False
    content = encode_legacy(records, magic, compression=codec)
    found, results, position = [], [], 0
    while position < len(content):
        header = read_legacy_header(content, position)
        kept = filtering.keep(header, memoryview(content)[position : position + header.size])
        if kept is not None:
            found += [(entry.offset, entry.key, entry.timestamp) for entry in read_entries(kept.content)]
            results.append(kept[1:])
        position += header.size
    time = 400 if magic else -1
    assert found == [(53, b"b", time)]
    assert results == [(1, 53, time, 53)]


def test_a_stamped_wrapper_keeps_its_time() -> None:
    records = [Record(b"a", b"1", 1, (), 5), Record(b"a", b"2", 2, (), 6)]
    content = encode_legacy(records, 1, compression=1, timestamp_type=LOG_APPEND_TIME, append_time=900)
    offsets = OffsetMap(1000, 0.9, 10)
    offsets.put(b"a", 6)
    filtering = BatchFilter(offsets, CleanedTransactions(), {}, BOUNDS)
    kept = filtering.keep(read_legacy_header(content), memoryview(content))
    assert kept is not None
    assert kept[1:] == (1, 6, 900, 6)
    assert [(e.offset, e.timestamp) for e in read_entries(kept.content)] == [(6, 900)]


def test_a_damaged_batch_is_refused_and_gets_no_new_checksum() -> None:
    content = bytearray(batch())
    content[-1] ^= 1
    with pytest.raises(CorruptRecordError, match="CRC"):
        kept_of(batch_filter(), bytes(content))
