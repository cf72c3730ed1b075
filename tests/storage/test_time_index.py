from pathlib import Path

import pytest

from harness.storage.batches import GOLDEN
from kafkapy.platform.files import Files
from kafkapy.storage.errors import CorruptIndexError
from kafkapy.storage.log.index import IndexCache, TimeIndex
from kafkapy.types import NO_TIMESTAMP


def _index(path: Path, max_bytes: int = 10_485_760) -> TimeIndex:
    return TimeIndex(Files(), IndexCache(), str(path), 75, max_bytes)


def test_real_kafkas_index_parses_and_encodes_the_same(tmp_path: Path) -> None:
    content = (GOLDEN / "seg-0" / "00000000000000000075.timeindex").read_bytes()
    index = _index(GOLDEN / "seg-0" / "00000000000000000075.timeindex")
    index.load(len(content))
    first = 0x01A1FD333698
    assert (index.entries, index.lookup(first), index.lookup(first - 1)) == (19, 79, 75)
    copy = _index(tmp_path / "i")
    for slot in range(index.entries):
        timestamp, offset = index.entry(slot)
        copy.maybe_append(timestamp, 75 + offset)
    copy.write()
    assert Path(copy.path).read_bytes() == content


def test_only_later_timestamps_get_an_entry(tmp_path: Path) -> None:
    index = _index(tmp_path / "i")
    for timestamp, offset in ((10, 80), (10, 81), (9, 82), (11, 83)):
        index.maybe_append(timestamp, offset)
    assert [index.entry(slot) for slot in range(index.entries)] == [(10, 5), (11, 8)]


def test_one_slot_is_kept_for_the_last_entry(tmp_path: Path) -> None:
    index = _index(tmp_path / "i", max_bytes=36)
    index.maybe_append(1, 76)
    assert index.entries < index.full_from
    index.maybe_append(2, 77)
    assert index.entries == index.full_from


def test_truncation_goes_by_offset(tmp_path: Path) -> None:
    index = _index(tmp_path / "i")
    for timestamp, offset in ((10, 80), (11, 90), (12, 100)):
        index.maybe_append(timestamp, offset)
    index.truncate_to(91)
    assert (index.last_timestamp, index.last_offset) == (11, 90)
    index.truncate_to(0)
    assert (index.last_timestamp, index.last_offset) == (NO_TIMESTAMP, 75)
    index.reset()
    assert index.entries == 0


def test_a_padded_index_is_corrupt(tmp_path: Path) -> None:
    (tmp_path / "i").write_bytes(TimeIndex.ENTRY.pack(1000, 4) + bytes(120))
    with pytest.raises(CorruptIndexError):
        _index(tmp_path / "i").load(132)


def test_an_empty_file_is_fine(tmp_path: Path) -> None:
    index = _index(tmp_path / "i")
    index.load(0)
    assert index.lookup(5) == 75


@pytest.mark.parametrize("count", [1, 2, 500])
def test_the_ends_of_a_file_of_any_size_are_read(tmp_path: Path, count: int) -> None:
    index = _index(tmp_path / "i")
    for place in range(count):
        index.maybe_append(1000 + place, 100 + place)
    index.write()
    again = _index(tmp_path / "i")
    again.load(index.entries * index.ENTRY.size)
    assert (again.last_timestamp, again.last_offset) == (999 + count, 99 + count)
