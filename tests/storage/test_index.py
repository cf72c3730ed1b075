from pathlib import Path
from struct import Struct

import pytest

from kafkapy.platform.files import Files
from kafkapy.storage.errors import CorruptIndexError
from kafkapy.storage.log.index import PAGE_BYTES, Index, IndexCache


class Pairs(Index):
    ENTRY = Struct(">ii")

    def append(self, first: int, second: int) -> None:
        self._append(first, second)


@pytest.fixture
def index(tmp_path: Path) -> Pairs:
    return Pairs(Files(), IndexCache(), str(tmp_path / "i"), 0, 100_000)


def test_entries_go_to_the_file_by_the_page(index: Pairs) -> None:
    for number in range(PAGE_BYTES // 8 - 1):
        index.append(number, number)
    assert not Path(index.path).exists()
    index.append(5000, 1)
    assert Path(index.path).stat().st_size == PAGE_BYTES
    index.append(5001, 2)
    index.write()
    index.write()
    assert Path(index.path).stat().st_size == PAGE_BYTES + 8


def test_a_full_disk_keeps_entries_in_memory_until_there_is_room(index: Pairs, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError("no room")

    with monkeypatch.context() as patched:
        patched.setattr(Files, "write_at", full)
        for number in range(PAGE_BYTES // 8 + 3):
            index.append(number, number)
        with pytest.raises(OSError, match="no room"):
            index.write()
    assert index.floor_slot(PAGE_BYTES, 0) == PAGE_BYTES // 8 + 2
    index.append(5000, 1)
    assert Path(index.path).stat().st_size == PAGE_BYTES + 4 * 8


@pytest.mark.parametrize("written", [0, 1, 10, 20])
def test_lookups_see_file_and_memory(index: Pairs, written: int) -> None:
    for number in range(20):
        if number == written:
            index.write()
        index.append(number * 10, number)
    assert [index.floor_slot(target, 0) for target in (-1, 0, 9, 10, 95, 190, 1000)] == [-1, 0, 0, 1, 9, 19, 19]
    assert [index.entry(slot) for slot in (0, 9, 19)] == [(0, 0), (90, 9), (190, 19)]


def test_cutting_drops_later_entries_only(index: Pairs) -> None:
    for number in range(20):
        index.append(number, number)
    index.keep(20)
    index.keep(7)
    assert index.entries == 7
    assert Path(index.path).stat().st_size == 56
    index.append(100, 100)
    index.write()
    assert index.entry(7) == (100, 100)


def test_a_size_of_broken_entries_is_corrupt(index: Pairs) -> None:
    with pytest.raises(CorruptIndexError, match="not a multiple of 8"):
        index.load(12)


def test_the_cache_keeps_within_its_bytes(tmp_path: Path) -> None:
    files = Files()
    cache = IndexCache(max_bytes=20)
    for name in "abc":
        files.write(str(tmp_path / name), name.encode() * 10)
        assert cache.get(files, str(tmp_path / name), 10) == name.encode() * 10
    assert cache.bytes == 20
    assert cache.get(files, str(tmp_path / "c"), 10) is cache.get(files, str(tmp_path / "c"), 10)
    assert cache.get(files, str(tmp_path / "c"), 5) == b"c" * 5
    cache.drop("unknown")
    assert cache.bytes == 15


def test_reset_and_forget_leave_nothing_behind(index: Pairs) -> None:
    index.append(1, 1)
    index.write()
    assert index.floor_slot(1, 0) == 0
    index.forget()
    index.reset()
    assert index.entries == 0
    assert Path(index.path).read_bytes() == b""
