from pathlib import Path

import pytest

from harness.storage.batches import GOLDEN
from kafkapy.platform.descriptors import Descriptor
from kafkapy.platform.files import Files
from kafkapy.storage.errors import CorruptIndexError
from kafkapy.storage.log.transaction_index import ENTRY, AbortedTransaction, TransactionIndex
from tests.simulation.disk import Fault, SimulatedDisk


def test_real_kafkas_index_parses_and_encodes_the_same(tmp_path: Path) -> None:
    path = GOLDEN / "seg-0" / "00000000000000000075.txnindex"
    index = TransactionIndex(Files(), str(path), 34)
    assert list(index) == [AbortedTransaction(4001, 0x3F, 0x53, 0x54)]
    copy = TransactionIndex(Files(), str(tmp_path / "t"))
    for entry in index:
        copy.append(entry)
    assert (tmp_path / "t").read_bytes() == path.read_bytes()


def test_truncation_goes_by_marker(tmp_path: Path) -> None:
    index = TransactionIndex(Files(), str(tmp_path / "t"))
    index.reset()
    for last in (10, 20, 30):
        index.append(AbortedTransaction(1, last - 5, last, last + 1))
    index.truncate_to(100)
    index.truncate_to(20)
    assert [entry.last_offset for entry in index] == [10]
    index.reset()
    assert list(index) == []
    assert index.size == 0


def test_refused_entries_are_found_in_memory_and_written_later(tmp_path: Path) -> None:
    disk = SimulatedDisk(str(tmp_path))
    index = TransactionIndex(disk, str(tmp_path / "t"))
    entries = [AbortedTransaction(1, last - 5, last, last + 1) for last in (10, 20, 30)]
    index.append(entries[0])
    disk.fail(Fault(times=2))
    for entry in entries[1:]:
        index.append(entry)
    assert list(index) == entries
    assert disk.size(str(tmp_path / "t")) < 3 * ENTRY.size
    index.write()
    assert list(TransactionIndex(Files(), str(tmp_path / "t"), 3 * ENTRY.size)) == entries


@pytest.mark.parametrize("refused", [0, 1, 70, 200])
def test_the_transactions_from_an_offset_on_are_found(tmp_path: Path, refused: int) -> None:
    disk = SimulatedDisk(str(tmp_path))
    index = TransactionIndex(disk, str(tmp_path / "t"))
    assert list(index.ended_from(0)) == []
    entries = [AbortedTransaction(number, 10 * number, 10 * number + 5, 10 * number) for number in range(200)]
    for entry in entries[: 200 - refused]:
        index.append(entry)
    disk.fail(Fault(times=refused))
    for entry in entries[200 - refused :]:
        index.append(entry)
    for offset in (0, 5, 6, 635, 645, 1300, 1994, 1995, 1996, 5000):
        assert list(index.ended_from(offset)) == [entry for entry in entries if entry.last_offset >= offset]


def test_a_search_reads_little(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(b"".join(ENTRY.pack(0, 1, number, number, number) for number in range(100_000)))
    files = _Counting()
    index = TransactionIndex(files, str(path), 100_000 * ENTRY.size)
    assert next(index.ended_from(99_000)).last_offset == 99_000
    assert files.bytes_read < 100 * ENTRY.size


class _Counting(Files):
    bytes_read = 0

    def read_at(self, descriptor: Descriptor, size: int, position: int) -> bytes:
        self.bytes_read += size
        return super().read_at(descriptor, size, position)


def test_a_search_in_a_file_that_was_cut_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(ENTRY.pack(0, 1, 5, 6, 7) + b"part")
    index = TransactionIndex(Files(), str(path), 2 * ENTRY.size)
    with pytest.raises(CorruptIndexError, match="less than 68 bytes"):
        list(index.ended_from(0))


def test_an_index_that_is_only_in_memory_can_be_emptied(tmp_path: Path) -> None:
    disk = SimulatedDisk(str(tmp_path))
    index = TransactionIndex(disk, str(tmp_path / "t"))
    disk.fail(Fault())
    index.append(AbortedTransaction(1, 5, 10, 11))
    index.reset()
    assert list(index) == []
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"x" * 33, "multiple of 34"),
        (ENTRY.pack(1, 1, 60, 70, 71), "unknown version 1"),
        (ENTRY.pack(0, 1, 60, 70, 71), "below the segment's base offset"),
    ],
)
def test_an_index_that_can_not_be_right_is_corrupt(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "t").write_bytes(content)
    with pytest.raises(CorruptIndexError, match=reason):
        TransactionIndex(Files(), str(tmp_path / "t"), len(content)).sanity_check(75)


def test_entries_that_are_written_later_replace_the_file(tmp_path: Path) -> None:
    index = TransactionIndex(Files(), str(tmp_path / "a.txnindex.tmp"))
    entry = AbortedTransaction(7, 0, 2, 3)
    index.append(entry)
    target = tmp_path / "a.txnindex"
    target.write_bytes(b"what is wrong")
    index.write_later(str(target))
    assert (list(index), target.read_bytes()) == ([entry], b"what is wrong")
    assert index.is_unwritten
    assert index.write()
    assert (list(index), target.stat().st_size) == ([entry], 34)
    assert not index.write()


def test_an_index_without_entries_that_is_written_later_has_no_file(tmp_path: Path) -> None:
    target = tmp_path / "a.txnindex"
    target.write_bytes(b"what is wrong")
    index = TransactionIndex(Files(), str(target))
    index.write_later(str(target))
    assert index.write()
    assert not target.exists()
