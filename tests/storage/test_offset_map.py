"""The map of keys: its size, and the records of batches that it marks."""

import pytest

from kafkapy.records.batch import HEADER_SIZE
from kafkapy.records.errors import CorruptRecordError
from kafkapy.records.record import Record, encode_batch
from kafkapy.storage.compaction.offset_map import SLOT_BYTES, OffsetMap


def body(*keys: bytes | None) -> bytes:
    return encode_batch([Record(key, b"v", 5) for key in keys])[HEADER_SIZE:]


def test_the_map_is_not_larger_than_the_log_needs() -> None:
    assert OffsetMap(128 * 1024 * 1024, 0.9, 100)._table.nbytes == 203 * SLOT_BYTES
    assert OffsetMap(2400, 0.9, 10**9)._table.nbytes == 2400


@pytest.mark.parametrize(("load_factor", "room"), [(0.9, 90), (0.5, 50), (1.0, 99), (2.0, 99)])
def test_the_map_has_room_for_as_many_keys_as_apache_kafkas(load_factor: float, room: int) -> None:
    offsets = OffsetMap(100 * SLOT_BYTES, load_factor, 10**9)
    for number in range(200):
        offsets.put(b"%d" % number, number)
    assert (len(offsets), offsets.is_full, offsets.latest_offset) == (room, True, room - 1)
    assert offsets.keeps(b"0", 0)
    assert not OffsetMap(1, 0.9, 5).is_full, "however little memory"


def test_records_and_single_keys_are_found_alike() -> None:
    offsets = OffsetMap(10_000, 0.9, 10)
    offsets.put_records(body(b"a", None, b"b"), 3, 10, 0)
    offsets.put(b"a", 20)
    assert offsets.keeps(b"a", 20)
    assert not offsets.keeps(b"a", 10)
    assert offsets.keeps(b"b", 12)
    assert not offsets.keeps(None, 11)
    assert offsets.keeps(None, 21)
    assert offsets.keeps(b"new", 5)
    offsets.note_read_up_to(30)
    assert not offsets.keeps(None, 30)


def test_marked_records_are_rewritten() -> None:
    offsets = OffsetMap(10_000, 0.9, 10)
    content = body(b"a", b"b", b"a")
    offsets.put_records(content, 3, 0, 0)
    marked = offsets.mark(content, 3, 0, retain_deletes=True)
    assert (marked.count, marked.first_delta, marked.largest_delta, marked.last_delta) == (2, 0, 0, 2)
    assert not marked.has_tombstones
    assert bytes(marked.rewrite(0, is_stamped=False)) == content[len(content) // 3 :]


def test_bytes_that_are_no_record_are_corrupt() -> None:
    offsets = OffsetMap(10_000, 0.9, 10)
    with pytest.raises(CorruptRecordError, match="ends before its last record"):
        offsets.put_records(b"\x80", 1, 0, 0)
    with pytest.raises(CorruptRecordError, match="Bytes follow the last record"):
        offsets.mark(body(b"a", b"b"), 1, 0, retain_deletes=False)
