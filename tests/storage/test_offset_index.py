from pathlib import Path

import pytest

from harness.storage.batches import GOLDEN
from kafkapy.platform.files import Files
from kafkapy.storage.errors import CorruptIndexError
from kafkapy.storage.log.index import IndexCache, OffsetIndex


def _index(path: Path, base_offset: int = 75, max_bytes: int = 10_485_760) -> OffsetIndex:
    return OffsetIndex(Files(), IndexCache(), str(path), base_offset, max_bytes)


def test_real_kafkas_index_parses_and_encodes_the_same(tmp_path: Path) -> None:
    content = (GOLDEN / "seg-0" / "00000000000000000075.index").read_bytes()
    index = _index(GOLDEN / "seg-0" / "00000000000000000075.index")
    index.load(len(content))
    assert (index.entries, index.last_offset, index.last_position) == (18, 75 + 0x69, 0x4B8C)
    assert index.lookup(75 + 4) == 0x0444
    assert index.lookup(75 + 3) == 0
    copy = _index(tmp_path / "i")
    for slot in range(index.entries):
        offset, position = index.entry(slot)
        copy.append(75 + offset, position)
    copy.write()
    assert Path(copy.path).read_bytes() == content


def test_a_lookup_knows_the_entry_after_it(tmp_path: Path) -> None:
    index = _index(tmp_path / "i")
    assert index.around(80) == (0, 0)
    index.append(80, 100)
    index.append(90, 200)
    index.write()
    index.append(95, 300)
    looked_up = [(offset, *index.around(offset)) for offset in (75, 79, 80, 89, 90, 94, 95, 1000)]
    assert looked_up == [
        (75, 0, 100), (79, 0, 100), (80, 100, 100), (89, 100, 200), (90, 200, 200), (94, 200, 300), (95, 300, 300),
        (1000, 300, 300),
    ]  # fmt: skip
    assert all(position == index.lookup(offset) for offset, position, _ in looked_up)


def test_an_index_whose_order_is_lost_is_still_looked_up(tmp_path: Path) -> None:
    index = _index(tmp_path / "i")
    index.append(80, 100)
    index.append(90, 200)
    index.write()
    Path(index.path).write_bytes(Path(index.path).read_bytes()[:8] * 2)
    assert index.around(85) == (100, 100)


def test_a_full_index_has_no_room_for_an_entry(tmp_path: Path) -> None:
    index = _index(tmp_path / "i", max_bytes=23)
    assert index.entries < index.full_from
    index.append(80, 1)
    index.append(90, 2)
    assert index.entries == index.full_from


def test_offsets_must_grow(tmp_path: Path) -> None:
    index = _index(tmp_path / "i")
    index.append(80, 100)
    with pytest.raises(AssertionError):
        index.append(80, 200)


def test_truncation_drops_the_offset_itself(tmp_path: Path) -> None:
    index = _index(tmp_path / "i")
    for offset in (80, 90, 100):
        index.append(offset, offset)
    index.truncate_to(90)
    assert (index.entries, index.last_offset) == (1, 80)
    index.truncate_to(75)
    assert (index.entries, index.last_offset, index.lookup(500)) == (0, 75, 0)
    index.append(80, 100)
    index.reset()
    assert index.last_position == 0


def test_an_index_padded_with_zeros_is_corrupt(tmp_path: Path) -> None:
    (tmp_path / "i").write_bytes(b"\0\0\0\1\0\0\0\2" + bytes(800))
    with pytest.raises(CorruptIndexError):
        _index(tmp_path / "i").load(808)
