import asyncio
import errno
import gc
import shutil
import threading
from pathlib import Path

import pytest

from harness.storage.batches import GOLDEN, PARTITION, START_MS, batch, produced
from kafkapy.config.log_config import LogConfig
from kafkapy.platform.errors import KafkaStorageError, LogDirectoryError
from kafkapy.platform.files import Files
from kafkapy.platform.flusher import ThreadFlusher
from kafkapy.records.batch import read_header
from kafkapy.storage.log.log import SEGMENTS_IN_A_STEP, Log, Storage
from kafkapy.storage.log.producer_state import SNAPSHOTS_IN_A_STEP
from kafkapy.storage.log_manager import LogManager, NoCompactor
from kafkapy.storage.log_manager_start import load_found, load_logs, survey
from kafkapy.testing.clock import ManualClock
from kafkapy.turns import finish
from kafkapy.types import TopicPartition
from tests.storage.broken_disk import BrokenDisk
from tests.storage.support import contents, crash, fill


class Compacting(NoCompactor):
    """Tells that one partition, ``busy``, is being compacted."""

    def __init__(self, busy: TopicPartition | None) -> None:
        self.busy = busy

    def is_compacting(self, partition: TopicPartition) -> bool:
        return partition == self.busy


def _manager(*paths: Path, clock: ManualClock | None = None, config: LogConfig | None = None) -> LogManager:
    manager = LogManager([str(path) for path in paths], config or LogConfig(), clock or ManualClock(START_MS))
    load_logs(manager)
    return manager


def test_records_outlive_a_clean_stop_and_a_crash(tmp_path: Path) -> None:
    manager = _manager(tmp_path)
    fill(manager.get_or_create(PARTITION), 10)
    manager.shutdown()
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    manager = _manager(tmp_path)
    log = manager.get(PARTITION)
    assert log is not None
    assert (log.high_watermark, log.log_end_offset) == (10, 10)
    fill(log, 5)
    manager.checkpoint_high_watermarks()
    fill(log, 1)
    crash(manager)
    log = _manager(tmp_path).get(PARTITION)
    assert log is not None
    assert (log.high_watermark, log.log_end_offset) == (15, 16)


def test_a_real_data_directory_opens_and_closes_unchanged(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN, tmp_path / "data")
    before = contents(tmp_path / "data")
    manager = LogManager([f"{tmp_path}/data/"], LogConfig(), ManualClock(1_795_249_600_000))
    assert manager.lock() == (1, "o2tiW_b9QVyBj9RJPsfm6Q")
    load_logs(manager)
    ends = {str(log.topic_partition): (log.log_start_offset, log.log_end_offset) for log in manager.all_logs()}
    assert (ends["seg-0"], ends["segc-0"], ends["rf3-0"]) == ((80, 204), (0, 300), (0, 62))
    manager.shutdown()
    after = contents(tmp_path / "data")
    rewritten = {name for name in before if after.get(name) != before[name]}
    assert all(name.endswith(("-checkpoint", ".lock")) for name in rewritten)
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        assert sorted(after[name].splitlines()) == sorted(before[name].splitlines())
    assert set(after) - set(before) <= {".lock"}


def test_every_batch_of_a_real_directory_is_read(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN, tmp_path / "data")
    manager = _manager(tmp_path / "data", clock=ManualClock(1_795_249_600_000))
    for log in manager.all_logs():
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            content = log.read(offset, 1).records
            assert not isinstance(content, bytes)
            header = read_header(content.read())
            assert header.base_offset <= header.last_offset
            assert header.last_offset >= offset
            offset = header.next_offset


def test_new_logs_are_created_in_the_directory_with_the_fewest(tmp_path: Path) -> None:
    manager = _manager(tmp_path / "a", tmp_path / "b")
    partitions = [TopicPartition("t", number) for number in range(4)]
    for partition in partitions:
        manager.get_or_create(partition)
    assert manager.get_or_create(partitions[0]) is manager.get(partitions[0])
    assert [manager.directory_of(each) for each in partitions] == [f"{tmp_path}/{name}" for name in "abab"]
    assert manager.directory_of(PARTITION) is None
    fill(manager.get_or_create(partitions[0]), 1)
    assert manager.partitions_in(f"{tmp_path}/a") == [partitions[0], partitions[2]]
    assert manager.partitions_in(f"{tmp_path}/b") == [partitions[1], partitions[3]]


def test_the_same_partition_twice_is_refused(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name / "t-0").mkdir(parents=True)
    with pytest.raises(LogDirectoryError, match="two data directories"):
        _manager(tmp_path / "a", tmp_path / "b")


def test_deletion_renames_now_and_removes_later(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    manager = _manager(tmp_path, clock=clock)
    fill(manager.get_or_create(PARTITION), 1)
    assert manager.delete(PARTITION)
    assert not manager.delete(PARTITION)
    (doomed,) = tmp_path.glob("orders-0.*-delete")
    assert manager.get_or_create(PARTITION).log_end_offset == 0
    manager.shutdown()
    clock = ManualClock(START_MS)
    manager = _manager(tmp_path, clock=clock)
    assert doomed.exists()
    clock.advance(60_000)
    assert not doomed.exists()


def test_a_data_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LogDirectoryError, match=r"file can't be used as a data directory: .* File exists"):
        _manager(tmp_path / "file")
    (tmp_path / "data" / "meta.properties" / "more").mkdir(parents=True)
    with pytest.raises(LogDirectoryError, match=r"data/meta.properties is a folder in the place of a file"):
        _manager(tmp_path / "data")


def test_a_folder_that_is_gone_already_needs_no_removal(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    manager = _manager(tmp_path, clock=clock)
    manager.get_or_create(PARTITION)
    manager.delete(PARTITION)
    manager.shutdown()
    _manager(tmp_path, clock=clock).shutdown()  # each has a timer for the folder
    clock.advance(60_000)
    assert list(tmp_path.glob("*-delete")) == []


def test_a_stop_with_an_error_of_the_disk_is_not_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    manager = _manager(tmp_path)
    fill(manager.get_or_create(PARTITION), 3)

    def full(*_: object, **__: object) -> None:
        raise OSError("no room")

    with monkeypatch.context() as patched:
        patched.setattr(Files, "replace", full)
        manager.shutdown()
    assert "the next start will recover them: no room" in caplog.text
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    again = _manager(tmp_path).get(PARTITION)
    assert again is not None
    assert again.log_end_offset == 3


def test_topics_have_their_own_configuration(tmp_path: Path) -> None:
    manager = _manager(tmp_path)
    manager.get_or_create(PARTITION, LogConfig(segment_ms=5))
    manager.shutdown()
    load_logs(manager, lambda topic: LogConfig(segment_ms=len(topic)))
    log = manager.get(PARTITION)
    assert log is not None
    assert log.config.segment_ms == 6


def test_checkpoints_have_the_offsets_of_each_log(tmp_path: Path) -> None:
    manager = _manager(tmp_path)
    log = manager.get_or_create(PARTITION)
    fill(log, 4)
    log.roll()
    fill(log, 4)
    log.advance_log_start_offset(2)
    finish(manager.checkpoint_recovery_points())
    manager.checkpoint_high_watermarks()
    manager.checkpoint_log_start_offsets()
    texts = [
        (tmp_path / f"{name}-offset-checkpoint").read_text() for name in ("recovery-point", "replication", "log-start")
    ]
    assert texts == ["0\n1\norders 0 4\n", "0\n1\norders 0 8\n", "0\n1\norders 0 2\n"]
    crash(manager)
    again = _manager(tmp_path).get(PARTITION)
    assert again is not None
    assert (again.log_start_offset, again.high_watermark) == (2, 8)


def test_requests_do_not_wait_for_the_high_watermark_checkpoint(tmp_path: Path) -> None:
    async def scenario() -> tuple[bool, str]:
        flusher = ThreadFlusher(asyncio.get_running_loop())
        manager = LogManager(
            [str(tmp_path)], LogConfig(), ManualClock(START_MS), storage=Storage(ManualClock(START_MS), flusher=flusher)
        )
        load_logs(manager)
        fill(manager.get_or_create(PARTITION), 3)
        threads: list[bool] = []
        gate = threading.Event()
        flusher.run(lambda: threads.append(gate.wait(10)), lambda: None)
        manager.checkpoint_high_watermarks()
        there = (tmp_path / "replication-offset-checkpoint").exists()
        gate.set()
        manager.shutdown()
        return there, (tmp_path / "replication-offset-checkpoint").read_text()

    assert asyncio.run(scenario()) == (False, "0\n1\norders 0 3\n")


def test_upkeep_flushes_logs_and_removes_expired_producers(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    manager = _manager(tmp_path, clock=clock, config=LogConfig(flush_ms=1000))
    log = manager.get_or_create(PARTITION)
    log.append_as_leader(produced(0), 0)
    manager.flush_due_logs()
    assert log.recovery_point == 0
    clock.advance(1000)
    manager.flush_due_logs()
    assert log.recovery_point == 1
    clock.advance(604_800_000)
    finish(manager.remove_expired_producers())
    assert log.producer_state.producers == {}


def _two_directories(tmp_path: Path) -> tuple[LogManager, BrokenDisk, ManualClock]:
    clock, files = ManualClock(START_MS), BrokenDisk()
    paths = [f"{tmp_path}/a", f"{tmp_path}/b"]
    manager = LogManager(paths, LogConfig(segment_bytes=400), clock, storage=Storage(clock, files))
    load_logs(manager)
    return manager, files, clock


def test_a_disk_that_breaks_takes_its_directory_offline_and_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    manager, files, clock = _two_directories(tmp_path)
    first, second, third = (TopicPartition("t", number) for number in range(3))
    logs = [manager.get_or_create(partition) for partition in (first, second, third)]
    told: list[tuple[str, list[TopicPartition]]] = []
    manager.set_directory_listener(lambda path, partitions: told.append((path, list(partitions))))
    files.broken = f"{tmp_path}/a"
    for _ in range(2):
        with pytest.raises(KafkaStorageError, match="t-0 can't be written"):
            fill(logs[0], 1)
    clock.advance(0)
    assert told == [(f"{tmp_path}/a", [first, third])]
    assert caplog.text.count("is offline until the next start") == 1
    assert [manager.get(partition) for partition in (first, second, third)] == [None, logs[1], None]
    fill(logs[1], 1)
    assert manager.directory_of(manager.get_or_create(TopicPartition("t", 3)).topic_partition) == f"{tmp_path}/b"
    with pytest.raises(KafkaStorageError, match="may be in a data directory that is offline"):
        manager.get_or_create(first, is_new=False)
    assert manager.get_or_create(second, is_new=False) is logs[1]
    assert manager.partitions_in(f"{tmp_path}/a") == []
    finish(manager.checkpoint_recovery_points())
    manager.shutdown()
    assert [(tmp_path / name / ".kafka_cleanshutdown").exists() for name in "ab"] == [False, True]


def test_the_start_opens_one_log_in_a_step_and_no_more_after_a_failure_of_the_directory(tmp_path: Path) -> None:
    before = _manager(tmp_path)
    for number in range(5):
        fill(before.get_or_create(TopicPartition("t", number)), 3)
    before.abandon()
    logs = LogManager([str(tmp_path)], LogConfig(), ManualClock(START_MS))
    logs.lock()
    steps = load_found(logs, survey(logs), lambda _topic: logs.config)
    for count in range(3):
        next(steps)
        assert len(list(logs.all_logs())) == count
    logs.disk_failed(str(tmp_path), OSError(errno.EIO, "Input/output error"))
    with pytest.raises(LogDirectoryError):
        finish(steps)
    assert len(list(logs.all_logs())) == 2


def test_a_new_log_goes_to_the_next_directory_when_one_refuses_it(tmp_path: Path) -> None:
    manager, files, clock = _two_directories(tmp_path)
    files.broken = f"{tmp_path}/a"
    assert manager.directory_of(manager.get_or_create(PARTITION).topic_partition) == f"{tmp_path}/b"
    files.broken = str(tmp_path)
    with pytest.raises(KafkaStorageError, match="can't be opened"):
        manager.get_or_create(TopicPartition("t", 1))
    clock.advance(0)
    with pytest.raises(KafkaStorageError, match="all data directories are offline"):
        manager.get_or_create(TopicPartition("t", 1))
    manager.disk_failed("/somewhere/else", OSError("not ours"))


@pytest.mark.parametrize(("number", "fails"), [(errno.ENOSPC, False), (errno.EIO, True)])
def test_a_checkpoint_that_can_not_be_written(
    tmp_path: Path, number: int, *, fails: bool, caplog: pytest.LogCaptureFixture
) -> None:
    manager, files, clock = _two_directories(tmp_path)
    fill(manager.get_or_create(PARTITION), 1)
    files.number, files.broken = number, f"{tmp_path}/a/replication"
    manager.checkpoint_high_watermarks()
    clock.advance(0)
    assert f"{tmp_path}/a/replication-offset-checkpoint can't be written" in caplog.text
    assert (manager.get(PARTITION) is None) is fails
    assert (tmp_path / "b" / "replication-offset-checkpoint").exists()


def test_a_snapshot_that_can_not_be_removed_affects_no_other_directory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    manager, files, clock = _two_directories(tmp_path)
    logs = [manager.get_or_create(TopicPartition("t", number)) for number in range(2)]
    for log in logs:
        for _ in range(4):
            fill(log, 1)
            log.roll()
        assert log.producer_state.snapshot_offsets == [1, 2, 3, 4]
    files.broken = f"{tmp_path}/a/t-0/"
    finish(manager.checkpoint_recovery_points())
    clock.advance(0)
    assert "is offline until the next start" in caplog.text
    assert list(manager.all_logs()) == logs[1:]
    assert logs[1].producer_state.snapshot_offsets == [3, 4]


def test_a_folder_that_can_not_be_removed_is_removed_at_the_next_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    manager, files, clock = _two_directories(tmp_path)
    manager.get_or_create(PARTITION)
    assert manager.delete(PARTITION)
    files.broken = str(tmp_path)
    clock.advance(60_000)
    assert "can't be removed now, the next start will try again" in caplog.text
    files.broken = "nothing"
    manager.get_or_create(PARTITION)
    files.broken = str(tmp_path)
    with pytest.raises(KafkaStorageError, match="can't be deleted"):
        manager.delete(PARTITION)


def test_retention_visits_every_log_but_those_that_are_being_cleaned(tmp_path: Path) -> None:
    clock, files = ManualClock(START_MS), BrokenDisk()
    manager = LogManager([str(tmp_path)], LogConfig(retention_ms=1000), clock, storage=Storage(clock, files))
    load_logs(manager)
    partitions = [TopicPartition("orders", index) for index in range(3)]
    for partition in partitions:
        log = manager.get_or_create(partition)
        log.append_as_leader(batch(), 0)
        log.update_high_watermark(1)
    files.number, files.broken = errno.ENOSPC, f"{tmp_path}/orders-0"
    clock.advance(2000)
    compactor = Compacting(partitions[1])
    manager.set_compactor(compactor)
    finish(manager.enforce_retention())
    starts = [log.log_start_offset for partition in partitions if (log := manager.get(partition))]
    assert starts == [0, 0, 1]
    files.broken = "nothing"
    compactor.busy = None
    manager.delete(partitions[2])
    finish(manager.enforce_retention())
    clock.advance(60_000)
    assert [log.log_start_offset for log in manager.all_logs()] == [1, 1]
    assert sorted(path.name for path in tmp_path.glob("orders-*")) == ["orders-0", "orders-1"]
    assert not list(tmp_path.rglob("*.deleted"))


def test_compacted_logs_are_left_to_the_cleaner(tmp_path: Path) -> None:
    """Apache Kafka's cleaner deletes their old segments; without it (log.cleaner.enable=false) they stay."""
    clock = ManualClock(START_MS)
    manager = LogManager([str(tmp_path)], LogConfig(retention_ms=1000), clock)
    load_logs(manager)
    config = LogConfig(retention_ms=1000, cleanup_policy=("compact", "delete"))
    log = manager.get_or_create(PARTITION, config)
    fill(log, 3)
    clock.advance(10_000)
    finish(manager.enforce_retention())
    assert log.log_start_offset == 0


def test_logs_that_are_deleted_during_retention_are_left_out(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    manager = LogManager([str(tmp_path)], LogConfig(retention_ms=1000), clock)
    load_logs(manager)
    first, second, third = (manager.get_or_create(TopicPartition("orders", index)) for index in range(3))
    for log in (first, second, third):
        fill(log, 1)
        log.update_high_watermark(1)
    clock.advance(10_000)
    steps = manager.enforce_retention()
    next(steps)
    manager.delete(second.topic_partition)
    finish(steps)
    assert [log.log_start_offset for log in (first, second, third)] == [1, 0, 1]


def test_a_deleted_log_leaves_memory_without_a_garbage_collection(tmp_path: Path) -> None:
    clock = ManualClock()
    manager = LogManager([str(tmp_path)], LogConfig(file_delete_delay_ms=1000), clock)
    load_logs(manager)
    gc.collect()
    gc.disable()
    try:
        before = sum(isinstance(each, Log) for each in gc.get_objects())
        for number in range(3):
            fill(manager.get_or_create(TopicPartition("t", number)), 3)
        for number in range(3):
            manager.delete(TopicPartition("t", number))
        clock.advance(1000)
        assert sum(isinstance(each, Log) for each in gc.get_objects()) == before
    finally:
        gc.enable()
    manager.shutdown()


def _manager_with_segments(*paths: Path, count: int) -> tuple[LogManager, Log, ManualClock]:
    """A log of ``count`` segments of one record each, which are all due."""
    clock = ManualClock(START_MS)
    config = LogConfig(retention_ms=1000, segment_bytes=len(batch()), file_delete_delay_ms=0)
    manager = _manager(*paths, clock=clock, config=config)
    log = manager.get_or_create(PARTITION)
    for _ in range(count):
        log.append_as_leader(batch(), 0)
    log.update_high_watermark(count)
    clock.advance(10_000)
    return manager, log, clock


@pytest.mark.parametrize("event", ["deleted", "offline", "cleaned", "moved", "compacted"])
def test_an_event_between_two_steps_of_retention_ends_it(tmp_path: Path, event: str) -> None:
    (tmp_path / "a").mkdir()
    manager, log, clock = _manager_with_segments(tmp_path / "a", count=40)
    other = manager.get_or_create(TopicPartition("other", 0))
    other.append_as_leader(batch(), 0)
    other.update_high_watermark(1)
    steps = manager.enforce_retention()
    while len(log.segments) == 40:
        next(steps)
    if event == "deleted":
        manager.delete(PARTITION)
    elif event == "offline":
        manager.disk_failed(log.directory, OSError(errno.EIO, "Input/output error"))
        manager.get_or_create(PARTITION)
    elif event == "cleaned":
        manager.set_compactor(Compacting(PARTITION))
    elif event == "moved":
        manager._futures[PARTITION] = other
    else:
        log.update_config(LogConfig(retention_ms=1000, cleanup_policy=("compact", "delete")))
    bases = [segment.base_offset for segment in log.segments]
    assert bases == list(range(SEGMENTS_IN_A_STEP, 40))
    if event in ("deleted", "offline"):
        clock.advance(0)
    finish(steps)
    assert {segment.suffix for segment in log.segments} <= {""}
    assert event == "deleted" or [segment.base_offset for segment in log.segments] == bases
    assert other.log_start_offset == (0 if event == "offline" else 1), "other logs follow"


def test_many_old_snapshots_are_removed_in_steps(tmp_path: Path) -> None:
    count = 2 * SNAPSHOTS_IN_A_STEP + 1
    manager, log, _ = _manager_with_segments(tmp_path, count=count)
    counts = [len(log.producer_state.snapshot_offsets)]
    for _ in manager.checkpoint_recovery_points():
        counts.append(len(log.producer_state.snapshot_offsets))
    assert counts == [count - 1, count - 1, count - 1 - SNAPSHOTS_IN_A_STEP]
    assert len(list(tmp_path.rglob("*.snapshot"))) == 2


def test_a_log_that_is_deleted_between_two_steps_keeps_its_other_snapshots(tmp_path: Path) -> None:
    manager, log, clock = _manager_with_segments(tmp_path, count=3 * SNAPSHOTS_IN_A_STEP)
    steps = manager.checkpoint_recovery_points()
    next(steps)
    next(steps)
    left = list(log.producer_state.snapshot_offsets)
    manager.delete(PARTITION)
    clock.advance(0)
    again = manager.get_or_create(PARTITION)
    finish(steps)
    assert (log.producer_state.snapshot_offsets, again.producer_state.snapshot_offsets) == (left, [])


def test_snapshots_below_the_start_that_are_left_are_removed_with_the_old_ones(tmp_path: Path) -> None:
    manager, log, _ = _manager_with_segments(tmp_path, count=3 * SNAPSHOTS_IN_A_STEP)
    log.lower_recovery_point(0)
    log.advance_log_start_offset(3 * SNAPSHOTS_IN_A_STEP - 5)
    assert len(log.producer_state.snapshot_offsets) == 2 * SNAPSHOTS_IN_A_STEP - 1
    finish(manager.checkpoint_recovery_points())
    assert log.producer_state.snapshot_offsets[0] >= log.log_start_offset


def test_the_segments_of_a_deleted_log_leave_memory_in_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkapy.storage.log.log.SEGMENTS_TO_FORGET", 4)
    manager, _, clock = _manager_with_segments(tmp_path, count=10)
    counts: list[int] = []
    forget = Log.forget_segments

    def record(self: Log) -> bool:
        counts.append(len(self.segments))
        return forget(self)

    monkeypatch.setattr(Log, "forget_segments", record)
    manager.delete(PARTITION)
    clock.advance(0)
    assert counts == [10, 6, 2]
    assert not list(tmp_path.glob("orders-*"))
