from pathlib import Path

import pytest

from kafkapy.platform.files import Files
from kafkapy.storage.log.index import IndexCache
from kafkapy.storage.log.segment import Segment, Segments


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


def test_a_running_iteration_does_not_see_changes(tmp_path: Path) -> None:
    segments = _segments(tmp_path, 10, 20, 30, 40)
    reader = iter(segments)
    assert next(reader).base_offset == 10
    cleaned, _ = _segments(tmp_path, 20, 99)
    segments.replace(segments.starting_at(1)[:2], [cleaned])
    assert [each.base_offset for each in segments] == [10, 20, 40]
    assert segments.starting_at(1)[0] is cleaned
    assert segments.floor(35) == 1
    segments.replace([segments.first], ())
    segments.cut(1)
    segments.add(_segments(tmp_path, 50).active)
    assert [each.base_offset for each in reader] == [20, 30, 40]
    assert [each.base_offset for each in segments] == [20, 50]
    assert segments.active.base_offset == 50


def test_only_neighbours_are_replaced(tmp_path: Path) -> None:
    segments = _segments(tmp_path, 10, 20, 30)
    with pytest.raises(AssertionError, match="neighbours"):
        segments.replace([segments.first, segments.active], ())
    assert len(segments) == 3


def test_the_oldest_are_dropped_but_not_the_active_one(tmp_path: Path) -> None:
    segments = _segments(tmp_path, 10, 20, 30)
    assert [each.base_offset for each in segments.oldest(2)] == [10, 20]
    assert len(segments.oldest(9)) == 3
    reader = iter(segments)
    segments.drop_oldest(2)
    assert ([each.base_offset for each in segments], segments.floor(30), segments.active.base_offset) == ([30], 0, 30)
    assert [each.base_offset for each in reader] == [10, 20, 30]
    with pytest.raises(AssertionError, match="a segment stays"):
        segments.drop_oldest(1)
