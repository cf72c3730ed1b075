"""Replacement of segments by compacted ones, with a crash before and within every step, and with errors of the disk."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.storage.batches import PARTITION, START_MS, batch
from kafkapy.config.log_config import LogConfig
from kafkapy.platform.files import Files
from kafkapy.records.batch import read_header
from kafkapy.storage.checkpoints import Checkpointed
from kafkapy.storage.log.log import Log, Storage
from kafkapy.storage.log.segment import AppendedRange, Segment
from kafkapy.storage.recovery.recovery import load
from kafkapy.storage.recovery.replace import CLEANED_SUFFIX, Replacement, finish_interrupted
from kafkapy.testing.clock import ManualClock
from tests.storage.slow_flusher import SlowFlusher
from tests.storage.support import fill, open_log

CONFIG = LogConfig(segment_bytes=1000, index_interval_bytes=100)


class Crash(BaseException):
    """The process ends here."""


class FragileFiles(Files):
    """Crashes or fails at one of the operations that change names."""

    def __init__(self) -> None:
        super().__init__()
        self.left: int | None = None
        self.error: BaseException = Crash()
        self.times = 1

    def _count(self) -> None:
        if self.left is not None:
            self.left -= 1
            if -self.times <= self.left < 0:
                raise self.error

    def rename(self, path: str, target: str) -> None:
        self._count()
        super().rename(path, target)

    def remove(self, path: str) -> None:
        self._count()
        super().remove(path)

    def sync_path(self, path: str) -> None:
        self._count()
        super().sync_path(path)


def prepared(
    directory: Path, kept: set[int], count: int = 4, bases: tuple[int, ...] = (0,)
) -> tuple[Log, list[Segment], list[Segment], FragileFiles]:
    """A log, its first ``count`` segments, and those of the batches at ``kept`` that are to replace them."""
    files = FragileFiles()
    log = open_log(directory, CONFIG, storage=Storage(ManualClock(START_MS), files=files))
    fill(log, 40)
    old = log.segments.starting_at(0)[:count]
    assert len(log.segments) > count + 1
    segments = [log.new_segment(base, CLEANED_SUFFIX) for base in bases]
    for new in segments:
        new.create()
    for segment in old:
        for _, header, content in segment.batches(0, segment.size):
            if header.base_offset in kept:
                offset = header.last_offset
                new = [each for each in segments if each.base_offset <= offset][-1]
                new.append(content, AppendedRange(offset, offset, header.max_timestamp, offset, header.size), 100)
    for new in segments:
        new.become_inactive()
    return log, segments, old, files


def offsets(log: Log) -> list[int]:
    return [header.base_offset for segment in log.segments for _, header, _ in segment.batches(0, segment.size)]


def opened(directory: str, *, clean: bool = False) -> Log:
    log = Log(PARTITION, directory, CONFIG, Storage(ManualClock(START_MS)))
    load(log, Checkpointed(clean, 0, 0, 0))
    return log


def names(log: Log, *suffixes: str) -> list[str]:
    return [path.name for path in sorted(Path(log.directory).iterdir()) if path.name.endswith(suffixes)]


def test_the_new_segment_replaces_the_old_ones(tmp_path: Path) -> None:
    log, new, old, _ = prepared(tmp_path, {1, 5, 9})
    before = offsets(log)
    bound = log.segments.starting_at(4)[0].base_offset
    slices = [log.read(0, 10_000).records]
    finished: list[OSError | None] = []
    Replacement(log, new, old, finished.append).begin()
    assert finished == [None]
    assert offsets(log) == [1, 5, 9] + [offset for offset in before if offset >= bound]
    assert log.segments.first is new[0]
    assert not names(log, ".cleaned", ".swap")
    assert len(names(log, ".deleted")) == 3 * len(old)
    assert read_header(slices[0].read()).base_offset == 0, "who was reading goes on"
    assert read_header(log.read(2, 10_000).records.read()).base_offset == 5
    log.storage.clock.advance(CONFIG.file_delete_delay_ms)
    assert not names(log, ".deleted")
    log.append_as_leader(batch(), 0)
    log.close()
    assert offsets(opened(log.directory, clean=True))[:3] == [1, 5, 9]


def test_old_files_of_two_compactions_in_a_row_have_different_names(tmp_path: Path) -> None:
    log, new, old, _ = prepared(tmp_path, {1, 5, 9})
    Replacement(log, new, old, lambda _: None).begin()
    again = log.new_segment(0, CLEANED_SUFFIX)
    again.create()
    Replacement(log, [again], new, lambda _: None).begin()
    assert len(names(log, ".deleted")) == 3 * len(old) + 3
    assert log.segments.first.size == 0
    assert log.read(0, 10_000).records.read()[7] > 9
    log.storage.clock.advance(CONFIG.file_delete_delay_ms)
    assert not names(log, ".deleted")


@pytest.mark.parametrize(
    ("kept", "count", "bases"),
    [
        ({1, 5, 9}, 4, (0,)),
        (set(), 4, (0,)),
        ({0}, 4, (0,)),
        (set(range(25)), 4, (0,)),
        ({0, 2, 3}, 1, (0, 2, 4)),
    ],
    ids=["some", "none", "first", "most", "cut"],
)
def test_a_log_can_be_opened_after_a_crash_at_any_step(
    tmp_path: Path, kept: set[int], count: int, bases: tuple[int, ...]
) -> None:
    """No kept record is lost, none is there twice or out of order; removed records may be back."""
    for step in range(1000):
        directory = tmp_path / str(step)
        log, new, old, files = prepared(directory, kept, count, bases)
        before = offsets(log)
        bound = log.segments.starting_at(count)[0].base_offset
        assert bases[-1] < bound
        after = {offset for offset in before if offset >= bound or offset in kept}
        files.left = step
        try:
            Replacement(log, new, old, lambda _: None).begin()
        except Crash:
            found = offsets(opened(log.directory))
            assert found == sorted(set(found)), step
            assert after <= set(found) <= set(before), step
            assert opened(log.directory).log_end_offset == log.log_end_offset
            assert not names(log, ".cleaned", ".swap", ".deleted")
            shutil.rmtree(directory)
        else:
            assert step > 10
            return


def test_a_log_can_be_opened_after_a_crash_of_a_start_that_completes_a_replacement(tmp_path: Path) -> None:
    kept = {1, 5, 9}
    log, new, old, files = prepared(tmp_path / "first", kept)
    before = set(offsets(log))
    files.left = 9  # the first new names are there, the old ones are going
    with pytest.raises(Crash):
        Replacement(log, new, old, lambda _: None).begin()
    for step in range(1000):
        directory = str(tmp_path / str(step))
        shutil.copytree(log.directory, directory)
        fragile = FragileFiles()
        fragile.left = step
        try:
            finish_interrupted(fragile, directory)
        except Crash:
            found = set(offsets(opened(directory)))
            assert kept <= found <= before
        else:
            assert step > 2
            return


@pytest.mark.parametrize("times", [1, 1000], ids=["once", "from then on"])
def test_an_error_of_the_disk_leaves_the_log_as_it_was(tmp_path: Path, times: int) -> None:
    for step in range(1000):
        log, new, old, files = prepared(tmp_path / str(step), {1, 5, 9})
        before = offsets(log)
        files.left, files.times = step, times
        files.error = OSError(5, "no more")
        finished: list[OSError | None] = []
        Replacement(log, new, old, finished.append).begin()
        files.left = None
        if finished == [None]:
            assert step > 10
            return
        assert [str(error) for error in finished] == ["[Errno 5] no more"]
        assert offsets(log) == before, step
        if times == 1:
            assert not names(log, ".deleted", ".swap", ".cleaned"), step
        log.release()
        assert {1, 5, 9} <= set(offsets(opened(log.directory)))


def waiting_flusher(log: Log) -> list[Callable[[], None]]:
    """The work that the flusher got; the test runs it."""
    waiting: list[Callable[[], None]] = []

    class Waiting(type(log.storage.flusher)):  # type: ignore[misc]  # the flusher's own class
        def run(self, work: Callable[[], None], done: Callable[[], None]) -> None:
            work()
            waiting.append(done)

    log.storage.flusher = Waiting()
    return waiting


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_a_replacement_can_be_aborted_while_it_waits_for_the_disk(tmp_path: Path, steps: int) -> None:
    log, new, old, _ = prepared(tmp_path, {1, 5, 9})
    before = offsets(log)
    waiting = waiting_flusher(log)
    finished: list[OSError | None] = []
    replacement = Replacement(log, new, old, finished.append)
    replacement.begin()
    for _ in range(steps):
        waiting.pop(0)()
        assert offsets(log) == before or steps == 2
    replacement.abort()
    replacement.abort()
    for go_on in waiting:
        go_on()
    assert finished == ([None] if steps == 2 else [])
    assert (offsets(log) == before) == (steps < 2)
    assert not names(log, ".swap", ".cleaned")


def test_an_error_after_an_abort_is_ignored(tmp_path: Path) -> None:
    log, new, old, files = prepared(tmp_path, {1})
    finished: list[OSError | None] = []
    replacement = Replacement(log, new, old, finished.append)
    waiting = waiting_flusher(log)
    files.left, files.error = 3, OSError(5, "no more")  # the fsync after three new names
    replacement.begin()
    files.left = None
    replacement.abort()
    waiting[0]()
    assert finished == []


def test_an_incomplete_set_of_swap_files_is_removed(tmp_path: Path) -> None:
    """Apache Kafka splits a segment by the same names: swaps at or above the lowest cleaned one don't count."""
    log, _, _, _ = prepared(tmp_path, {1})
    before = offsets(log)
    log.close()
    directory = Path(log.directory)
    (directory / f"{7:020d}.log.swap").write_bytes(b"anything")
    (directory / f"{7:020d}.index.swap").write_bytes(b"")
    assert finish_interrupted(Files(), log.directory) == []
    assert offsets(opened(log.directory)) == before
    assert not names(log, ".cleaned", ".swap")


def test_indexes_of_a_log_with_its_final_name_are_rebuilt(tmp_path: Path) -> None:
    """Apache Kafka renames the log first: after a crash the indexes may be those of the segment before."""
    log, _, _, _ = prepared(tmp_path, {1})
    before = offsets(log)
    log.close()
    directory = Path(log.directory)
    for path in directory.glob("*.cleaned"):
        path.unlink()
    index = directory / f"{0:020d}.index"
    right = index.read_bytes()
    index.rename(directory / f"{0:020d}.index.swap")
    index.write_bytes(b"\x00\x00\x00\x01\x00\x00\x00\x01")
    (directory / "notes.swap").write_bytes(b"not ours")
    assert finish_interrupted(Files(), log.directory) == []
    assert not index.exists()
    (directory / "notes.swap").unlink()
    again = opened(log.directory, clean=True)
    assert offsets(again) == before
    assert index.read_bytes() == right


@pytest.mark.parametrize("is_put_aside", [True, False])
def test_a_damaged_swap_file_does_not_remove_later_segments(tmp_path: Path, is_put_aside: bool) -> None:
    """The old segments stay, unless one of them has been renamed already."""
    log, _, _, _ = prepared(tmp_path, {1})
    log.close()
    directory = Path(log.directory)
    bases = sorted(int(path.stem) for path in directory.glob("*.log"))
    content = bytearray((directory / f"{0:020d}.log").read_bytes())
    size = len(content) // 2
    for path in directory.glob("*.cleaned"):
        path.unlink()
    if is_put_aside:
        (directory / f"{1:020d}.log.1.deleted").write_bytes(b"")
    done = [0] if is_put_aside else []
    damaged = [content + each for each in (b"\xff" * 40, bytes(40), content[:40])]
    damaged += [content + content[: size - 1] + b"\xff" + content[size:], content[:16] + b"\x03" + content[17:]]
    for each in damaged:
        (directory / f"{0:020d}.log.swap").write_bytes(each)
        assert finish_interrupted(Files(), log.directory) == done
        assert sorted(int(path.stem) for path in directory.glob("*.log")) == bases
        assert (directory / f"{0:020d}.log").read_bytes() == (each if is_put_aside else content)
        assert not list(directory.glob("*.swap"))


@pytest.mark.parametrize("is_put_aside", [True, False])
def test_an_empty_swap_file_is_used_only_without_the_old_segments(tmp_path: Path, is_put_aside: bool) -> None:
    log, _, _, _ = prepared(tmp_path, {1})
    log.close()
    directory = Path(log.directory)
    for path in directory.glob("*.cleaned"):
        path.unlink()
    (directory / f"{0:020d}.log.swap").write_bytes(b"")
    size = (directory / f"{0:020d}.log").stat().st_size
    if is_put_aside:
        (directory / f"{0:020d}.log").rename(directory / f"{0:020d}.log.1.deleted")
    assert finish_interrupted(Files(), log.directory) == ([0] if is_put_aside else [])
    assert (directory / f"{0:020d}.log").stat().st_size == (0 if is_put_aside else size)


def test_an_abort_ignores_a_flush_that_missed_the_old_segments(tmp_path: Path) -> None:
    log, new, old, files = prepared(tmp_path, {1})
    log.storage.flusher = slow = SlowFlusher()
    recovery_point = log.recovery_point
    log.append_as_leader(batch(), 0)
    log.durability._data_offset = log.recovery_point = 0  # as if the disk had been slow since the beginning
    log.durability.flush_later(log.log_end_offset)
    flush, flushed = slow.waiting.popleft()
    replacement = Replacement(log, new, old, lambda _: None)
    replacement.begin()
    slow.catch_up()
    synced: list[str] = []
    real_sync = files.sync_path

    def sync_path(path: str) -> None:
        real_sync(path)
        synced.append(path)

    files.sync_path = sync_path  # type: ignore[method-assign]  # looks who syncs
    flush()
    replacement.abort()
    flushed()
    assert old[0].log.path not in synced
    assert log.recovery_point == 0
    slow.close()
    assert old[0].log.path in synced
    assert log.recovery_point == log.log_end_offset > recovery_point
