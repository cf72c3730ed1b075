"""The part of one batch that compaction keeps."""

import pytest

from kafkapy.records.batch import LOG_APPEND_TIME, BatchHeader, crc_is_valid, read_header, set_max_timestamp
from kafkapy.records.errors import CorruptRecordError
from kafkapy.records.record import Record, encode_batch, encode_legacy, read_entries, read_legacy_header, read_records
from kafkapy.storage.compaction.batch_filter import BatchFilter, CleanedTransactions, Kept, LastRecord, records_body
from kafkapy.storage.compaction.offset_map import OffsetMap
from kafkapy.storage.log.transaction_index import AbortedTransaction
from tests.storage.support import marker

RECORDS = [
    Record(b"a", b"1", 100), Record(b"b", b"2", 300), Record(None, b"3", 200), Record(b"b", b"4", 250),
    Record(b"c", None, 120),
]  # fmt: skip
PRODUCER = {"producer_id": 9, "producer_epoch": 4, "base_sequence": 30}


def batch_filter(*contents: bytes, producers: dict[int, LastRecord] | None = None) -> BatchFilter:
    """A filter that has noted the keys of these batches."""
    offsets = OffsetMap(100_000, 0.9, 100)
    for content in contents:
        header = read_header(content)
        offsets.put_records(records_body(header, memoryview(content)), header.record_count, header.base_offset, 0)
        offsets.note_read_up_to(header.last_offset)
    return BatchFilter(offsets, CleanedTransactions(), producers or {})


def kept_of(filtering: BatchFilter, content: bytes) -> Kept | None:
    return filtering.keep(read_header(content), memoryview(content))


def header_of(kept: Kept) -> BatchHeader:
    header = read_header(bytes(kept.content))
    assert header.size == len(kept.content)
    assert crc_is_valid(bytes(kept.content), 0, header)
    return header


def batch(records: list[Record] = RECORDS, **fields: int) -> bytes:
    return encode_batch(records, base_offset=50, partition_leader_epoch=3, **fields)  # type: ignore[arg-type]  # ints only


def test_a_batch_that_keeps_everything_stays_byte_for_byte() -> None:
    content = batch([RECORDS[0], RECORDS[1]])
    kept = kept_of(batch_filter(content), content)
    assert kept == (content, 2, 51, 300, 51)


@pytest.mark.parametrize("codec", range(5))
def test_a_rewritten_batch_keeps_all_but_its_times_and_count(codec: int) -> None:
    content = batch(compression=codec, **PRODUCER)
    before = read_header(content)
    later = encode_batch([Record(b"a", b"9")], base_offset=60)
    filtering = batch_filter(content, later)
    filtering.retain_deletes = True
    kept = kept_of(filtering, content)
    assert kept is not None
    header = header_of(kept)
    changed = {"size": 0, "crc": 0, "base_timestamp": 250, "max_timestamp": 250, "record_count": 2}
    assert header._replace(size=0, crc=0) == before._replace(**changed)
    assert kept[1:] == (2, 54, 250, 54)
    read = read_records(bytes(kept.content), header)
    assert [(r.offset, r.key, r.value, r.timestamp) for r in read] == [(53, b"b", b"4", 250), (54, b"c", None, 120)]
    filtering.retain_deletes = False
    kept = kept_of(filtering, content)
    assert kept is not None
    assert kept[1:] == (1, 53, 250, 54)


def test_a_stamped_batch_keeps_its_time() -> None:
    content = bytearray(batch())
    set_max_timestamp(content, 0, read_header(content), LOG_APPEND_TIME, 7_000)
    kept = kept_of(batch_filter(bytes(content)), bytes(content))
    assert kept is not None
    header = header_of(kept)
    assert (header.timestamp_type, header.base_timestamp, header.max_timestamp) == (LOG_APPEND_TIME, 7_000, 7_000)
    assert {record.timestamp for record in read_records(bytes(kept.content), header)} == {7_000}


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
    ("retain", "producers", "records"),
    [(True, {}, 1), (False, {}, None), (False, {7: LastRecord(-1, 0)}, 0), (False, {7: LastRecord(-1, 1)}, None)],
)
def test_a_marker_is_removed_when_no_batch_needs_it(
    retain: bool, producers: dict[int, LastRecord], records: int | None
) -> None:
    filtering = batch_filter(producers=producers)
    filtering.retain_deletes = retain
    kept = kept_of(filtering, bytes(marker(commit=True)))
    assert (kept.records if kept else None) == records


def test_a_marker_stays_with_the_data_of_its_transaction() -> None:
    content = encode_batch([Record(b"\x00\x00\x00\x01", b"v")], is_transactional=True, base_offset=90,
                           producer_id=7, producer_epoch=0, base_sequence=0)  # fmt: skip
    filtering = batch_filter(content)
    filtering.retain_deletes = False
    assert kept_of(filtering, content) is not None
    kept = kept_of(filtering, bytes(marker(commit=True)))
    assert kept is not None
    assert kept.records == 1


def test_aborted_data_are_removed() -> None:
    content = encode_batch([Record(b"a", b"v")], is_transactional=True, producer_id=7, producer_epoch=0,
                           base_sequence=0)  # fmt: skip
    offsets = OffsetMap(1000, 0.9, 10)
    transactions = CleanedTransactions()
    transactions.add([AbortedTransaction(7, 0, 1, 2)])
    assert kept_of(BatchFilter(offsets, transactions, {}), content) is None


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
    filtering = BatchFilter(offsets, CleanedTransactions(), {})
    filtering.retain_deletes = False
    content = encode_legacy(records, magic, compression=codec)
    found, facts, position = [], [], 0
    while position < len(content):
        header = read_legacy_header(content, position)
        kept = filtering.keep(header, memoryview(content)[position : position + header.size])
        if kept is not None:
            found += [(entry.offset, entry.key, entry.timestamp) for entry in read_entries(kept.content)]
            facts.append(kept[1:])
        position += header.size
    time = 400 if magic else -1
    assert found == [(53, b"b", time)]
    assert facts == [(1, 53, time, 53)]


def test_a_stamped_wrapper_keeps_its_time() -> None:
    records = [Record(b"a", b"1", 1, (), 5), Record(b"a", b"2", 2, (), 6)]
    content = encode_legacy(records, 1, compression=1, timestamp_type=LOG_APPEND_TIME, append_time=900)
    offsets = OffsetMap(1000, 0.9, 10)
    offsets.put(b"a", 6)
    kept = BatchFilter(offsets, CleanedTransactions(), {}).keep(read_legacy_header(content), memoryview(content))
    assert kept is not None
    assert kept[1:] == (1, 6, 900, 6)
    assert [(e.offset, e.timestamp) for e in read_entries(kept.content)] == [(6, 900)]


def test_a_damaged_batch_is_refused_and_gets_no_new_checksum() -> None:
    content = bytearray(batch())
    content[-1] ^= 1
    with pytest.raises(CorruptRecordError, match="CRC"):
        kept_of(batch_filter(), bytes(content))
