from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.storage.batches import batch
from kafkapy.config.log_config import LogConfig
from kafkapy.platform import portable
from kafkapy.platform.descriptors import FileSlice
from kafkapy.platform.files import UNCACHED_SIZE, Files, files_removal, folder_removal
from kafkapy.platform.flusher import InlineFlusher
from kafkapy.records.batch import read_header
from kafkapy.storage.log.log import SEGMENTS_IN_A_STEP, Storage
from kafkapy.testing.clock import ManualClock
from tests.storage.support import fill, open_log

CONFIG = LogConfig(segment_bytes=4 * len(batch(value=b"v" * 100)), file_delete_delay_ms=1000)


def test_segments_stay_readable_until_their_files_are_removed(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG)
    fill(log, 12)
    clock = log.storage.clock
    assert isinstance(clock, ManualClock)
    reader = iter(log.segments)
    records = log.read(1, 10_000).records
    assert isinstance(records, FileSlice)
    log.delete_oldest_segments(log.segments.starting_at(0)[:2])
    assert [each.base_offset for each in log.segments] == [8]
    directory = Path(log.directory)
    assert len(list(directory.glob("*.deleted"))) == 6
    assert [header.base_offset for each in reader for _, header, _ in each.batches(0, each.size)] == list(range(12))
    clock.advance(999)
    assert len(list(directory.glob("*.deleted"))) == 6
    clock.advance(1)
    assert not list(directory.glob("*.deleted"))
    assert read_header(records.read()).base_offset == 1


def test_segments_that_can_not_be_renamed_stay_in_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path, CONFIG)
    fill(log, 12)

    def refused(*_: str) -> None:
        raise OSError("no")

    monkeypatch.setattr(log.storage.files, "rename", refused)
    with pytest.raises(OSError, match="no"):
        log.delete_oldest_segments(log.segments.starting_at(0)[:2])
    assert [each.base_offset for each in log.segments] == [0, 4, 8]


def test_a_large_file_is_uncached_in_pieces_before_its_removal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dropped: list[tuple[int, int]] = []
    monkeypatch.setattr(portable, "drop_cached", lambda _, position, size: dropped.append((position, size)))
    small, large = tmp_path / "small", tmp_path / "large"
    files = Files()
    for remove in (
        lambda: files_removal(files, [str(small), str(tmp_path / "gone"), str(large)]),
        lambda: folder_removal(files, str(tmp_path)),
    ):
        small.write_bytes(bytes(UNCACHED_SIZE))
        large.write_bytes(bytes(2 * UNCACHED_SIZE + 1))
        steps = remove()
        for count in range(1, 4):
            next(steps)
            assert len(dropped) == count
            assert large.exists()
        assert next(steps, None) is None
        assert not small.exists()
        assert not large.exists()
        assert dropped == [(place * UNCACHED_SIZE, UNCACHED_SIZE) for place in range(3)]
        dropped.clear()
    assert list(folder_removal(files, str(tmp_path))) == []


class _CountingFlusher(InlineFlusher):
    """Counts the files that each removal leaves."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.left: list[int] = []

    def run_gently(self, steps: Iterator[None]) -> None:
        super().run_gently(steps)
        self.left.append(len(list(self.directory.rglob("*.deleted"))))


def test_the_files_of_many_segments_are_removed_some_at_a_time(tmp_path: Path) -> None:
    flusher, clock = _CountingFlusher(tmp_path), ManualClock()
    config = LogConfig(segment_bytes=len(batch()), file_delete_delay_ms=1000)
    log = open_log(tmp_path, config, storage=Storage(clock, flusher=flusher))
    count = 2 * SEGMENTS_IN_A_STEP + 1
    for _ in range(count + 1):
        log.append_as_leader(batch(), 0)
    log.truncate_to(1)
    assert len(log.segments) == 2
    assert clock.pending_timers() == 1
    clock.advance(1000)
    assert flusher.left == [3 * (SEGMENTS_IN_A_STEP), 0]
