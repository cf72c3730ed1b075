"""The broker's part of one compaction, mainly after errors."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.storage.batches import PARTITION
from kafkapy.platform.worker import JobCancelledError
from kafkapy.platform.worker_pool import WorkerDiedError
from kafkapy.storage.compaction.compaction_run import CompactionRun
from kafkapy.storage.log.log import Log
from tests.storage.compacting import World, append, names_of, values_in


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    yield (world := World(tmp_path))
    world.cleaner.stop()


def dirty_log(world: World, batches: int = 20) -> Log:
    """Several closed segments, which don't fit into one."""
    log = world.log()
    for number in range(batches):
        append(log, (b"k%d" % (number % 9), b"v" * 300))
    append(log, (b"end", b"v"))
    return log


def run_of(world: World) -> CompactionRun:
    return world.cleaner._runs[PARTITION]


def test_segments_are_swapped_in_one_after_the_other(world: World) -> None:
    log = dirty_log(world)
    world.cleaner.start()
    world.clock.advance(0)
    assert len(world.posted) > 3
    counts = [len(values_in(log))]
    while world.posted:
        world.posted.pop(0)()
        counts.append(len(values_in(log)))
    assert counts == sorted(counts, reverse=True)
    assert len(set(counts)) > 2


class SlowDisk:
    """A flusher whose waits end when the test calls ``go_on``."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def flush(self, *_: object) -> None:
        """Not used here."""

    def run(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        work()
        self.waiting.append(done)

    def close(self) -> None:
        """Nothing to finish."""

    def go_on(self) -> None:
        while self.waiting:
            self.waiting.pop(0)()


def test_segments_wait_for_the_one_before_them(world: World) -> None:
    log = dirty_log(world)
    world.storage.flusher = disk = SlowDisk()
    world.compact()
    before = values_in(log)
    assert len(names_of(log, ".log.swap")) == 1
    assert len(names_of(log, ".log.cleaned")) >= 1
    disk.go_on()
    assert not names_of(log, ".cleaned", ".swap")
    assert len(values_in(log)) < len(before)
    assert world.cleaner._clean_to == {PARTITION: log.segments.active.base_offset}


def test_an_abort_leaves_the_log_as_it_is(world: World) -> None:
    log = dirty_log(world)
    world.storage.flusher = disk = SlowDisk()
    world.compact()
    before = values_in(log)
    run = run_of(world)
    run.abort()
    assert not names_of(log, ".cleaned", ".swap")
    disk.go_on()
    assert values_in(log) == before
    assert isinstance(run.error, JobCancelledError)
    assert world.cleaner._runs == {}
    assert world.cleaner.uncleanable == {}
    world.storage.flusher = type(world.logs.storage)(world.clock).flusher
    world.compact()
    assert len(values_in(log)) < len(before), "the next one is not disturbed"


def test_an_abort_before_anything_was_ready_ends_with_the_job(world: World) -> None:
    log = dirty_log(world)
    world.pool.is_held = True
    world.compact()
    run_of(world).abort()
    assert world.cleaner._runs
    world.pool.run()
    world.run_posted()
    assert not world.cleaner._runs
    assert not names_of(log, ".cleaned", ".swap", ".deleted")


def test_segments_finished_after_an_abort_are_removed(world: World) -> None:
    log = dirty_log(world)
    world.cleaner.start()
    world.clock.advance(0)
    before = values_in(log)
    run_of(world).abort()
    world.run_posted()
    assert values_in(log) == before
    assert not names_of(log, ".cleaned", ".swap", ".deleted")


def test_files_of_a_dead_worker_are_removed(world: World, caplog: pytest.LogCaptureFixture) -> None:
    log = dirty_log(world)
    before = values_in(log)
    world.pool.is_held = True
    world.compact()
    (Path(log.directory) / f"{0:020d}.log.cleaned").write_bytes(b"half")
    world.pool.jobs[0].future.set_exception(WorkerDiedError("The worker process ended with -9"))
    world.run_posted()
    assert not names_of(log, ".cleaned")
    assert values_in(log) == before
    assert "ended with -9" in caplog.text
    world.pool.is_held = False
    world.compact()
    assert len(values_in(log)) < len(before), "it was not the log's fault"


def test_a_full_disk_leaves_the_log_and_the_next_compaction_succeeds(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    log = dirty_log(world)
    before = values_in(log)
    world.pool.error = OSError(28, "No space left on device")
    world.compact()
    assert values_in(log) == before
    assert "No space left on device" in caplog.text
    world.pool.error = None
    world.compact()
    assert len(values_in(log)) < len(before)


def test_an_error_of_the_disk_in_a_replacement_leaves_the_log_as_it_was(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = dirty_log(world)
    before = values_in(log)
    rename = world.storage.files.rename

    def refuse(path: str, target: str) -> None:
        if path.endswith(".timeindex.cleaned"):
            raise OSError(5, "Input/output error")
        rename(path, target)

    monkeypatch.setattr(world.storage.files, "rename", refuse)
    world.compact()
    assert values_in(log) == before
    assert not names_of(log, ".cleaned", ".swap", ".deleted")
    assert not world.cleaner._runs


def test_a_replacement_that_can_not_be_undone_is_logged(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The next start would complete its ``.swap`` files and replace segments that were compacted later."""
    dirty_log(world)
    world.storage.flusher = disk = SlowDisk()
    world.compact()

    def refuse(_path: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(world.storage.files, "sync_path", refuse)
    run_of(world).abort()
    disk.go_on()
    assert "can't be undone" in caplog.text
    world.clock.advance(0)
    assert world.logs.directories.online == []


def test_leftovers_that_can_not_be_removed_take_the_directory_offline(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = dirty_log(world)
    world.pool.is_held = True
    world.compact()
    (Path(log.directory) / f"{0:020d}.log.cleaned").write_bytes(b"half")

    def refuse(_path: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(world.storage.files, "remove", refuse)
    world.pool.jobs[0].future.set_exception(WorkerDiedError("The worker process ended with -9"))
    world.run_posted()
    assert world.logs.directories.containing(str(world.directory)).failure


def test_a_missing_segment_ends_the_compaction(world: World, caplog: pytest.LogCaptureFixture) -> None:
    log = dirty_log(world)
    world.cleaner.start()
    world.clock.advance(0)
    gone = log.segments.starting_at(0)[:1]
    log.segments.replace(gone, ())
    world.run_posted()
    assert "has lost segments" in caplog.text
    assert not names_of(log, ".cleaned", ".swap")


@pytest.mark.parametrize(
    ("kind", "how"), [("index", "odd"), ("timeindex", "odd"), ("index", "gone"), ("timeindex", "gone"), ("log", "gone")]
)
def test_a_new_segment_that_can_not_be_opened_ends_the_compaction(world: World, kind: str, how: str) -> None:
    log = dirty_log(world)
    world.cleaner.start()
    world.clock.advance(0)
    before = values_in(log)
    for path in Path(log.directory).glob(f"*.{kind}.cleaned"):
        if how == "gone":
            path.unlink()
        else:
            path.write_bytes(b"odd")
    world.run_posted()
    assert values_in(log) == before
    assert PARTITION in world.cleaner.uncleanable


def test_missing_leftovers_of_a_deleted_log_are_no_error(world: World) -> None:
    log = dirty_log(world)
    world.pool.is_held = True
    world.compact()
    world.logs.delete(PARTITION)
    world.pool.close()
    world.run_posted()
    assert not Path(log.directory).exists()
    assert not world.cleaner._runs
