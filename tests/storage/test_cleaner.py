"""The choice of logs to compact, and events that end a compaction."""

import errno
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue

import pytest

from harness.storage.batches import PARTITION, START_MS
from kafkapy.config.log_config import LogConfig
from kafkapy.platform.files import FileSlice
from kafkapy.platform.worker_pool import WorkerDiedError, WorkerStartError
from kafkapy.storage.compaction import cleaner
from kafkapy.storage.compaction.cleanable import Cleanable, examine
from kafkapy.storage.compaction.cleaner import CleanerSettings, LogCleaner
from kafkapy.storage.log.log import SEGMENTS_IN_A_STEP, Log
from kafkapy.turns import finish
from kafkapy.types import TopicPartition
from tests.storage.compacting import COMPACT, World, append, close_segment, names_of, values_in

PATIENCE_S = 30


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    yield (world := World(tmp_path))
    world.cleaner.stop()


def dirty_log(world: World, topic: str = "orders", config: LogConfig = COMPACT, batches: int = 6) -> Log:
    log = world.logs.get_or_create(TopicPartition(topic, 0), config)
    for number in range(batches):
        append(log, (b"k%d" % (number % 2), b"v" * 300))
    append(log, (b"end", b"v"))
    return log


def checkpoint(world: World) -> str:
    return (world.directory / "cleaner-offset-checkpoint").read_text()


def test_the_settings_are_the_brokers_shared_by_its_threads(world: World) -> None:
    assert CleanerSettings.of(world.config) == (1, 1000, 134_217_728, 0.9, 262_144, 1.7976931348623157e308)
    keys = {"log.cleaner.threads": "4", "log.cleaner.io.max.bytes.per.second": "4000"}
    other = World(world.directory / "other", **keys)
    assert CleanerSettings.of(other.config) == (4, 1000, 33_554_432, 0.9, 65_536, 1000.0)


def test_the_cleaner_runs_after_each_backoff_and_writes_its_checkpoint(world: World) -> None:
    log = dirty_log(world)
    world.cleaner.start()
    world.clock.advance(0)
    world.run_posted()
    assert checkpoint(world) == f"0\n1\norders 0 {log.segments.active.base_offset}\n"
    append(log, (b"k0", b"w" * 900))
    world.clock.advance(999)
    assert len(world.pool.jobs) == 1
    world.clock.advance(1)
    assert len(world.pool.jobs) == 2


def test_the_checkpoint_drops_deleted_logs(world: World) -> None:
    (world.directory / "cleaner-offset-checkpoint").write_text("0\n1\ngone 3 7\n")
    dirty_log(world)
    world.compact()
    assert checkpoint(world) == "0\n1\norders 0 4\n"


def test_a_restart_continues_from_the_checkpoint(world: World) -> None:
    log = dirty_log(world)
    world.compact()
    clean_to = log.segments.active.base_offset
    world.cleaner.stop()
    world.logs.shutdown()
    again = World(world.directory)
    log = again.log()
    append(log, (b"k0", b"w" * 900))
    append(log, (b"k0", b"w" * 900))
    again.compact()
    assert again.pool.requests[0]["first_dirty_offset"] == clean_to
    again.cleaner.stop()


def test_a_log_is_not_compacted_while_it_is_moved_and_its_checkpoint_moves(tmp_path: Path) -> None:
    world = World(tmp_path / "a", other=tmp_path / "b")
    log = dirty_log(world)
    world.compact()
    assert checkpoint(world) == "0\n1\norders 0 4\n"
    world.pool.is_held = True
    append(log, (b"k0", b"w" * 900))
    append(log, (b"k0", b"w" * 900))
    world.compact()
    assert world.cleaner._runs
    world.logs.prefer(PARTITION, str(tmp_path / "b"))
    future = world.logs.create_future(PARTITION)
    assert future is not None
    world.pool.run()
    world.run_posted()
    assert not world.cleaner._runs
    jobs = len(world.pool.jobs)
    world.compact()
    assert len(world.pool.jobs) == jobs
    while future.log_end_offset < log.log_end_offset:
        records = log.read(future.log_end_offset, 1 << 20).records
        assert isinstance(records, FileSlice)
        future.append_as_follower(records.read())
    future.truncate_to(0)
    for segment in log.segments:
        for _, _, content in segment.batches(0, segment.size):
            future.append_as_follower(bytes(content))
    assert checkpoint(world) == "0\n1\norders 0 4\n"
    world.pool.is_held = False
    world.logs.replace_with_future(PARTITION)
    world.clock.advance(0)
    assert checkpoint(world) == "0\n0\n"
    assert (tmp_path / "b" / "cleaner-offset-checkpoint").read_text() == "0\n1\norders 0 4\n"
    future.flush()
    world.compact()
    assert len(world.pool.jobs) == jobs + 1
    assert world.pool.requests[-1]["directory"] == str(tmp_path / "b" / "orders-0")
    assert world.pool.requests[-1]["first_dirty_offset"] == 4
    world.cleaner.stop()


def test_a_moved_log_without_a_clean_part_needs_no_checkpoint(tmp_path: Path) -> None:
    world = World(tmp_path / "a", other=tmp_path / "b")
    world.cleaner.start()
    world.log()
    world.logs.prefer(PARTITION, str(tmp_path / "b"))
    world.logs.create_future(PARTITION)
    world.logs.replace_with_future(PARTITION)
    world.clock.advance(0)
    assert not (tmp_path / "b" / "cleaner-offset-checkpoint").exists()
    world.cleaner.stop()


def test_the_dirtiest_log_is_first(world: World) -> None:
    half = dirty_log(world, "half")
    world.compact()
    append(half, (b"k0", b"w" * 900))
    append(half, (b"k0", b"w" * 900))
    dirty_log(world, "new")
    world.compact()
    assert [Path(request["directory"]).name for request in world.pool.requests] == ["half-0", "new-0", "half-0"]


def test_one_compaction_runs_per_thread(tmp_path: Path) -> None:
    world = World(tmp_path, **{"log.cleaner.threads": "2"})
    world.pool.is_held = True
    for topic in ("a", "b", "c"):
        dirty_log(world, topic)
    world.compact()
    assert len(world.pool.jobs) == 2
    assert len(world.cleaner._runs) == 2
    world.pool.run()
    world.run_posted()
    assert len(world.pool.jobs) == 3
    world.pool.run()
    world.run_posted()
    assert not world.cleaner._runs
    world.cleaner.stop()


def test_time_alone_makes_a_log_due(world: World) -> None:
    config = replace(COMPACT, min_compaction_lag_ms=10_000)
    dirty_log(world, config=config)
    world.compact()
    assert not world.pool.jobs
    world.clock.advance(10_000)
    assert world.pool.jobs


def test_a_log_that_is_not_due_is_looked_at_again_when_it_has_changed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []

    def look(log: Log, checkpoint: int | None) -> Cleanable:
        looked.append(str(log.topic_partition))
        return examine(log, checkpoint)

    monkeypatch.setattr(cleaner, "examine", look)
    log = dirty_log(world, config=replace(COMPACT, min_cleanable_dirty_ratio=0.99))
    world.compact()
    looked.clear()
    world.clock.advance(5000)
    assert looked == []
    append(log, (b"k0", b"w" * 900))
    world.clock.advance(1000)
    assert looked == ["orders-0"]


def test_only_compacted_topics_are_compacted(world: World) -> None:
    dirty_log(world, config=replace(COMPACT, cleanup_policy=("delete",)))
    world.compact()
    assert not world.pool.jobs


def test_old_segments_of_topics_with_both_policies_are_deleted(world: World) -> None:
    log = dirty_log(world, config=replace(COMPACT, cleanup_policy=("compact", "delete"), retention_ms=100))
    for segment in log.segments:
        world.storage.files.set_modified_ms(segment.log.path, START_MS)
    world.compact()
    assert world.pool.jobs
    world.clock.advance(1000)
    assert log.log_start_offset == log.log_end_offset


def test_a_log_that_is_being_compacted_is_not_trimmed(world: World) -> None:
    world.pool.is_held = True
    log = dirty_log(world, config=replace(COMPACT, cleanup_policy=("compact", "delete"), retention_ms=100))
    world.compact()
    world.clock.advance(1000)
    finish(world.logs.enforce_retention())
    assert log.log_start_offset == 0


@pytest.mark.parametrize("deed", ["truncate", "truncate fully", "delete", "policy", "offline"])
def test_removing_records_ends_a_compaction(world: World, deed: str) -> None:
    log = dirty_log(world)
    world.compact()
    append(log, (b"k0", b"w" * 900))
    append(log, (b"k0", b"w" * 900))
    world.pool.is_held = True
    world.compact()
    job = world.pool.jobs[-1]
    assert not job.future.done()
    if deed == "truncate":
        log.truncate_to(3)
    elif deed == "truncate fully":
        log.truncate_fully_and_start_at(100)
    elif deed == "delete":
        world.logs.delete(PARTITION)
    elif deed == "policy":
        log.update_config(replace(COMPACT, cleanup_policy=("delete",)))
    else:
        world.logs.disk_failed(log.directory, OSError(5, "Input/output error"))
        world.clock.advance(0)
    assert job.context.cancelled.is_set()
    job.run()
    world.run_posted()
    assert not world.cleaner._runs
    if deed in ("delete", "offline"):
        assert world.cleaner._clean_to == {}
    else:
        assert not names_of(log, ".cleaned", ".swap")
        clean_to = {"truncate": log.segments.active.base_offset, "truncate fully": 0, "policy": 4}[deed]
        assert checkpoint(world) == f"0\n1\norders 0 {clean_to}\n"


def test_cutting_the_active_segment_does_not_end_a_compaction(world: World) -> None:
    log = dirty_log(world)
    world.pool.is_held = True
    world.compact()
    append(log, (b"end", b"v"))
    log.truncate_to(log.log_end_offset - 1)
    assert not world.pool.jobs[0].context.cancelled.is_set()


def test_another_logs_deletion_does_not_end_a_compaction(world: World) -> None:
    dirty_log(world)
    other = dirty_log(world, "other", replace(COMPACT, cleanup_policy=("delete",)))
    world.pool.is_held = True
    world.compact()
    other.truncate_to(0)
    assert not world.pool.jobs[0].context.cancelled.is_set()


def test_deleting_records_does_not_end_a_compaction(world: World) -> None:
    log = dirty_log(world)
    world.cleaner.start()
    world.clock.advance(0)
    log.advance_log_start_offset(3)
    world.run_posted()
    assert not names_of(log, ".cleaned", ".swap")
    assert log.log_start_offset == 3
    assert sorted(values_in(log)) == [2, 3, 4, 5, 6]


def test_changed_settings_restart_the_cleaner(world: World) -> None:
    log = dirty_log(world)
    world.pool.is_held = True
    world.compact()
    world.cleaner._config_changed(frozenset({"log.cleaner.backoff.ms"}))
    assert not world.pool.jobs[0].context.cancelled.is_set(), "nothing of it has changed"
    world.cleaner.settings = world.cleaner.settings._replace(backoff_ms=5)
    world.cleaner._config_changed(frozenset({"log.cleaner.backoff.ms"}))
    assert world.pool.jobs[0].context.cancelled.is_set()
    assert world.cleaner.settings.backoff_ms == 1000
    world.pool.is_held = False
    world.run_posted()
    world.compact()
    assert sorted(values_in(log)) == [2, 3, 4, 5, 6]
    world.cleaner.stop()
    world.cleaner.settings = world.cleaner.settings._replace(backoff_ms=5)
    world.cleaner._config_changed(frozenset())
    assert world.cleaner._pool is None, "a stopped one stays so"


def test_a_stopped_cleaner_begins_no_compaction(world: World) -> None:
    dirty_log(world)
    world.pool.is_held = True
    world.compact()
    world.cleaner.stop()
    world.run_posted()
    assert not world.cleaner._runs
    world.clock.advance(10_000)
    assert len(world.pool.jobs) == 1


def _refuse_to_look(world: World, monkeypatch: pytest.MonkeyPatch, number: int) -> Log:
    log = dirty_log(world, config=replace(COMPACT, min_compaction_lag_ms=1))
    log.segments.first.max_timestamp = -1

    def refuse(_path: str) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(world.storage.files, "modified_ms", refuse)
    world.compact()
    monkeypatch.undo()
    return log


def test_a_log_that_can_not_be_examined_now_is_examined_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    log = _refuse_to_look(world, monkeypatch, errno.EMFILE)
    log.segments.first.max_timestamp = START_MS
    assert not world.cleaner.uncleanable
    assert not world.pool.jobs
    world.compact()
    assert world.pool.jobs


def test_an_error_of_the_disk_takes_the_directory_offline(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    log = _refuse_to_look(world, monkeypatch, errno.EIO)
    world.clock.advance(0)
    assert world.logs.get(log.topic_partition) is None
    assert "Input/output error" in str(world.logs.directories.offline[0].failure)


def test_a_log_whose_examination_finds_damage_is_not_compacted(world: World) -> None:
    log = dirty_log(world, config=replace(COMPACT, max_compaction_lag_ms=1))
    first = log.segments.first
    first._rolling_timestamp = None
    path = Path(first.log.path)
    path.write_bytes(bytes(path.stat().st_size))
    world.compact()
    assert world.cleaner.uncleanable == {PARTITION: log}
    world.compact()
    assert not world.pool.jobs
    world.logs.delete(PARTITION)
    assert not world.cleaner.uncleanable, "the next one of this name is another log"


def test_other_logs_are_compacted_while_one_disk_is_full(world: World) -> None:
    dirty_log(world, "full", batches=12)
    dirty_log(world, "half", batches=6)
    world.pool.error = OSError(errno.ENOSPC, "No space left on device")
    world.pool.is_held = True
    world.compact()
    world.pool.run()
    world.pool.error = None
    world.pool.is_held = False
    world.run_posted()
    asked = [Path(request["directory"]).name for request in world.pool.requests]
    assert len(set(asked)) == 2
    assert asked[0] not in asked[1:], "it has its turn at the next look"
    world.compact()
    assert {Path(request["directory"]).name for request in world.pool.requests[2:]} == {asked[0]}


def test_an_input_output_error_in_a_worker_takes_the_directory_offline(world: World) -> None:
    dirty_log(world)
    world.pool.error = OSError(errno.EIO, "Input/output error")
    world.compact()
    world.clock.advance(0)
    assert [each.failure for each in world.logs.directories] == ["[Errno 5] Input/output error"]


def test_a_log_that_crashes_workers_is_tried_three_times(world: World, caplog: pytest.LogCaptureFixture) -> None:
    log = dirty_log(world)
    world.pool.is_held = True
    for error in (WorkerStartError("no memory"), *[WorkerDiedError("killed")] * 3):
        assert not world.cleaner.uncleanable
        world.compact()
        world.pool.jobs[-1].future.set_exception(error)
        world.run_posted()
    assert world.cleaner.uncleanable == {PARTITION: log}
    assert caplog.text.count("will be tried again") == 3
    assert "left alone until the next start: killed" in caplog.text


def test_a_successful_compaction_resets_the_count_of_dead_workers(world: World) -> None:
    log = dirty_log(world)
    for _ in range(3):
        world.pool.is_held = True
        for _ in range(2):
            world.compact()
            world.pool.jobs[-1].future.set_exception(WorkerDiedError("killed"))
            world.run_posted()
        world.pool.is_held = False
        world.compact()
        append(log, (b"k0", b"w" * 900))
        append(log, (b"k0", b"w" * 900))
    assert not world.cleaner.uncleanable


def test_a_deleted_topic_is_not_in_the_checkpoint(world: World) -> None:
    """Otherwise the records of a new topic with this name would count as clean after the next start."""
    dirty_log(world)
    dirty_log(world, "other")
    world.compact()
    world.logs.delete(PARTITION)
    world.logs.delete(TopicPartition("other", 0))
    world.clock.advance(0)
    assert checkpoint(world) == "0\n0\n"


def test_a_stop_writes_a_pending_checkpoint(world: World) -> None:
    dirty_log(world)
    world.compact()
    world.logs.delete(PARTITION)
    world.cleaner.stop()
    assert checkpoint(world) == "0\n0\n"


def test_a_checkpoint_of_a_deleted_topic_does_not_apply_to_a_new_one(world: World) -> None:
    (world.directory / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 4\n")
    world.cleaner.start()
    dirty_log(world)
    world.compact()
    assert world.pool.requests[0]["first_dirty_offset"] == 0


def test_a_backoff_of_zero_does_not_block_the_broker(world: World) -> None:
    world.cleaner.settings = world.cleaner.settings._replace(backoff_ms=0)
    world.cleaner.start()
    world.clock.advance(0)
    assert world.cleaner._timer is not None
    looks = 0
    real = world.cleaner._begin_what_is_due

    def count() -> None:
        nonlocal looks
        looks += 1
        real()

    world.cleaner._begin_what_is_due = count  # type: ignore[method-assign]  # counts how often
    world.clock.advance(100)
    assert looks == 10


def test_a_checkpoint_that_can_not_be_written_is_logged(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    dirty_log(world)
    world.cleaner.start()
    world.clock.advance(0)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(world.storage.files, "replace", refuse)
    world.run_posted()
    assert "cleaner-offset-checkpoint can't be written" in caplog.text


def test_a_worker_process_compacts_a_log(tmp_path: Path) -> None:
    world = World(tmp_path)
    posted: SimpleQueue[Callable[[], object]] = SimpleQueue()
    real = LogCleaner(world.logs, world.config, posted.put)
    log = dirty_log(world)
    real.start()
    world.clock.advance(0)
    while real._runs:
        posted.get(timeout=PATIENCE_S)()
    assert sorted(values_in(log)) == [2, 3, 4, 5, 6]
    assert checkpoint(world) == "0\n1\norders 0 4\n"
    close_segment(log)
    real.stop()


def test_records_are_flushed_before_they_are_compacted(world: World) -> None:
    log = dirty_log(world)
    log.recovery_point = 0  # as after a start that was unclean
    world.compact()
    assert log.recovery_point == log.segments.active.base_offset
    assert checkpoint(world) == f"0\n1\norders 0 {log.recovery_point}\n"


def test_many_old_segments_are_deleted_in_steps(world: World) -> None:
    config = replace(COMPACT, cleanup_policy=("compact", "delete"), retention_bytes=0, segment_bytes=100)
    log = world.logs.get_or_create(PARTITION, config)
    for _ in range(40):
        append(log, (b"k", b"v"))
    busy = {PARTITION}
    world.cleaner.is_compacting = busy.__contains__  # type: ignore[method-assign]
    world.cleaner.start()
    world.clock.advance(0)
    assert len(log.segments) == 40, "nothing is deleted during a compaction"
    busy.clear()
    world.pool.is_held = True
    world.cleaner._begin_what_is_due = lambda: None  # type: ignore[method-assign]  # no compaction in this test
    world.cleaner._look()
    assert len(log.segments) == 40 - SEGMENTS_IN_A_STEP
    world.cleaner._look()
    assert len(log.segments) == 40 - SEGMENTS_IN_A_STEP, "the deletion has not ended: no other one begins"
    busy.add(PARTITION)
    world.clock.advance(0)
    assert len(log.segments) == 40 - SEGMENTS_IN_A_STEP, "a compaction has begun meanwhile"
    busy.clear()
    world.cleaner._look()
    assert len(log.segments) == 40 - 2 * SEGMENTS_IN_A_STEP
    world.cleaner.stop()
    world.clock.advance(0)
    assert len(log.segments) == 40 - 2 * SEGMENTS_IN_A_STEP, "the cleaner was stopped"
