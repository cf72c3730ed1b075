from pathlib import Path

from kafkapy.storage.files import Files
from kafkapy.storage.index import IndexCache
from kafkapy.storage.segment import Segment
from kafkapy.storage.segments import Segments


def _segments(path: Path, *bases: int) -> Segments:
    segments = Segments()
    for base in bases:
        segments.add(Segment(Files(), IndexCache(), str(path), base, 1000, 0))
    return segments


def test_offsets_fall_into_segments(tmp_path: Path) -> None:
    segments = _segments(tmp_path, 10, 20, 30)
    assert [segments.floor(offset) for offset in (9, 10, 19, 20, 1000)] == [-1, 0, 0, 1, 2]
    assert (segments.first.base_offset, segments.active.base_offset, len(segments)) == (10, 30, 3)
    assert [each.base_offset for each in segments.between(15, 30)] == [10, 20]
    assert [each.base_offset for each in segments.between(0, 31)] == [10, 20, 30]
    assert [each.base_offset for each in segments.starting_at(-1)] == [10, 20, 30]


def test_cutting_makes_the_last_one_left_active(tmp_path: Path) -> None:
    segments = _segments(tmp_path, 10, 20, 30)
    assert [each.base_offset for each in segments.cut(1)] == [20, 30]
    assert segments.active.base_offset == 10
    assert len(segments.cut(0)) == 1
    assert list(segments) == []
