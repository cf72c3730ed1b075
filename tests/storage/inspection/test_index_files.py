from pathlib import Path

from harness.storage.partition import OFFSET_ENTRY, TIME_ENTRY
from kafkapy.platform.files import Files
from kafkapy.storage.inspection import index_files
from kafkapy.storage.inspection.index_files import aborted_entries, offset_entries, time_entries, zero_tail
from kafkapy.storage.log.index import OffsetIndex
from kafkapy.storage.log.transaction_index import ENTRY


def _file(path: Path, content: bytes) -> str:
    file = path / "f"
    file.write_bytes(content)
    return str(file)


def test_offsets_end_where_the_zeros_begin(tmp_path: Path) -> None:
    entries = OFFSET_ENTRY.pack(3, 100) + OFFSET_ENTRY.pack(9, 200)
    assert list(offset_entries(Files(), _file(tmp_path, entries), 50)) == [(53, 100), (59, 200)]
    assert list(offset_entries(Files(), _file(tmp_path, entries + bytes(800)), 50)) == [(53, 100), (59, 200)]
    assert list(offset_entries(Files(), _file(tmp_path, bytes(800)), 50)) == []
    assert list(offset_entries(Files(), _file(tmp_path, bytes(8)), 50)) == [(50, 0)]
    assert list(offset_entries(Files(), _file(tmp_path, b""), 50)) == []


def test_many_entries_and_a_piece(tmp_path: Path) -> None:
    many = [(number, number * 10) for number in range(1, 10_000)]
    path = _file(tmp_path, b"".join(OFFSET_ENTRY.pack(*each) for each in many) + b"odd")
    assert list(offset_entries(Files(), path, 0)) == many


def test_times_end_where_the_zeros_begin(tmp_path: Path) -> None:
    entries = TIME_ENTRY.pack(1000, 3) + TIME_ENTRY.pack(2000, 4)
    assert list(time_entries(Files(), _file(tmp_path, entries + bytes(24)), 10)) == [(1000, 13), (2000, 14)]
    assert list(time_entries(Files(), _file(tmp_path, entries), 10)) == [(1000, 13), (2000, 14)]
    assert list(time_entries(Files(), _file(tmp_path, b""), 10)) == []


def test_a_first_time_of_zero_is_no_end(tmp_path: Path) -> None:
    zero, later = TIME_ENTRY.pack(0, 0), TIME_ENTRY.pack(5, 2)
    assert list(time_entries(Files(), _file(tmp_path, zero), 10)) == [(0, 10)]
    assert list(time_entries(Files(), _file(tmp_path, zero + later), 10)) == [(0, 10), (5, 12)]
    assert list(time_entries(Files(), _file(tmp_path, zero + later + bytes(24)), 10)) == [(0, 10), (5, 12)]
    assert list(time_entries(Files(), _file(tmp_path, bytes(24)), 10)) == []


def test_aborted_transactions(tmp_path: Path) -> None:
    path = _file(tmp_path, ENTRY.pack(0, 7, 1, 2, 3))
    assert list(aborted_entries(Files(), path)) == [(0, (7, 1, 2, 3))]


def test_zeros_at_the_end(tmp_path: Path) -> None:
    entry = OffsetIndex.ENTRY
    large = 3 * index_files._ENTRIES_AT_ONCE * entry.size
    for content, zeros in ((b"", 0), (bytes(16), 16), (b"x" * 8, 0), (b"x" * 5 + bytes(large), large)):
        assert zero_tail(Files(), _file(tmp_path, content), entry) == zeros
