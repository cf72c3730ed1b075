"""A process is killed after offsets were lowered: the older, higher checkpoints must not be used any more."""

import errno
from pathlib import Path

import pytest

from harness.storage.batches import PARTITION, START_MS, batch
from kafkapy.config.log_config import LogConfig
from kafkapy.platform.errors import LogDirectoryError
from kafkapy.platform.files import Files
from kafkapy.storage.log.log import Log, Storage
from kafkapy.storage.log_manager import LogManager
from kafkapy.storage.log_manager_start import load_logs
from kafkapy.storage.lowered_checkpoints import lower_checkpoints
from kafkapy.testing.clock import ManualClock
from kafkapy.turns import finish
from tests.simulation.disk import SimulatedDisk
from tests.simulation.durable import Survival
from tests.storage.slow_flusher import SlowFlusher
from tests.storage.support import crash, fill, open_log

RECOVERY_POINTS = "data/recovery-point-offset-checkpoint"
LOG_STARTS = "data/log-start-offset-checkpoint"


@pytest.fixture
def disk(tmp_path: Path) -> SimulatedDisk:
    return SimulatedDisk(str(tmp_path))


def _start(disk: SimulatedDisk, tmp_path: Path, before: LogManager | None = None) -> tuple[LogManager, Log]:
    if before is not None:
        before.directories.unlock()
    clock = ManualClock(START_MS)
    logs = LogManager([f"{tmp_path}/data"], LogConfig(), clock, storage=Storage(clock, disk))
    load_logs(logs)
    return logs, logs.get_or_create(PARTITION)


def _checkpointed(disk: SimulatedDisk, tmp_path: Path) -> LogManager:
    """Eighty records, all flushed and checkpointed, thirty of them deleted."""
    logs, log = _start(disk, tmp_path)
    fill(log, 80)
    log.advance_log_start_offset(30)
    log.flush()
    finish(logs.checkpoint_recovery_points())
    logs.checkpoint_log_start_offsets()
    assert "orders 0 80" in (tmp_path / RECOVERY_POINTS).read_text()
    assert "orders 0 30" in (tmp_path / LOG_STARTS).read_text()
    return logs


@pytest.mark.parametrize("offset", [0, 10])
def test_records_after_a_truncation_are_not_below_an_old_start(
    disk: SimulatedDisk, tmp_path: Path, offset: int
) -> None:
    logs = _checkpointed(disk, tmp_path)
    log = logs.get_or_create(PARTITION)
    if offset:
        log.truncate_to(offset)
    else:
        log.truncate_fully_and_start_at(offset)
    fill(log, 5)
    _, again = _start(disk, tmp_path, logs)
    assert (again.log_start_offset, again.log_end_offset) == (offset, offset + 5)
    assert again.recovery_point <= offset


def test_records_of_a_topic_that_was_deleted_and_created_again_do_not_count_as_flushed(
    disk: SimulatedDisk, tmp_path: Path
) -> None:
    logs = _checkpointed(disk, tmp_path)
    logs.delete(PARTITION)
    fill(logs.get_or_create(PARTITION), 5)
    _, again = _start(disk, tmp_path, logs)
    assert (again.log_start_offset, again.log_end_offset, again.recovery_point) == (0, 5, 0)


def test_records_written_after_a_lost_tail_do_not_count_as_flushed(disk: SimulatedDisk, tmp_path: Path) -> None:
    logs = _checkpointed(disk, tmp_path)
    path = Path(logs.get_or_create(PARTITION).segments.active.log.path)
    disk.truncate(str(path), path.stat().st_size // 2)
    logs, log = _start(disk, tmp_path, logs)
    assert log.log_end_offset == 40
    fill(log, 60)
    disk.cut_power(Survival.NOTHING)
    logs, log = _start(disk, tmp_path, logs)
    assert log.recovery_point <= 40


def test_a_marker_of_a_clean_stop_does_not_come_back(disk: SimulatedDisk, tmp_path: Path) -> None:
    logs = _checkpointed(disk, tmp_path)
    logs.shutdown()
    disk.sync_path(f"{tmp_path}/data")
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()
    _start(disk, tmp_path)
    disk.cut_power(Survival.NOTHING)
    assert not (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_a_log_without_a_manager_has_no_checkpoints(tmp_path: Path) -> None:
    log = Log(PARTITION, str(tmp_path / "orders-0"), LogConfig(), Storage(ManualClock(START_MS)))
    log.storage.owner.offsets_fall(log)
    assert not tmp_path.joinpath("orders-0").exists()


def test_the_first_flush_brings_the_folders_names_to_the_disk(disk: SimulatedDisk, tmp_path: Path) -> None:
    logs, log = _start(disk, tmp_path)
    log.append_as_leader(batch(3), 0)
    log.flush()
    disk.cut_power(Survival.NOTHING)
    _, again = _start(disk, tmp_path, logs)
    assert again.log_end_offset == 3
    assert again.leader_epochs.entries == [(0, 0)]


def test_a_truncation_while_the_thread_writes_a_checkpoint(tmp_path: Path) -> None:
    clock, flusher = ManualClock(START_MS), SlowFlusher()
    logs = LogManager([str(tmp_path)], LogConfig(), clock, storage=Storage(clock, flusher=flusher))
    load_logs(logs)
    log = logs.get_or_create(PARTITION)
    fill(log, 80)
    log.flush()
    flusher.close()
    finish(logs.checkpoint_recovery_points())
    work, done = flusher.waiting.popleft()
    log.truncate_to(10)
    work()
    done()
    assert "orders 0 0" in (tmp_path / "recovery-point-offset-checkpoint").read_text()


def test_a_log_of_no_data_directory_has_no_checkpoint(tmp_path: Path) -> None:
    manager = LogManager([str(tmp_path / "data")], LogConfig(), ManualClock(START_MS))
    load_logs(manager)
    lower_checkpoints(manager, open_log(tmp_path))
    assert [path.name for path in (tmp_path / "data").iterdir()] == [".lock"]
    manager.shutdown()


class _RefusedCheckpoint(Files):
    """Refuses to replace the recovery points if ``code`` is an error's number."""

    def __init__(self, code: int) -> None:
        super().__init__()
        self._code = code

    def replace(self, path: str, data: bytes, *, sync: bool = True) -> None:
        if self._code and path.endswith(RECOVERY_POINTS):
            raise OSError(self._code, "refused", path)
        super().replace(path, data, sync=sync)


def _start_with_gap(tmp_path: Path, flush: str, refusal: int = 0) -> tuple[LogManager, Log]:
    clock, config = ManualClock(START_MS), LogConfig(segment_bytes=2000, kafkapy_flush=flush)
    logs = LogManager([f"{tmp_path}/data"], config, clock, storage=Storage(clock, _RefusedCheckpoint(refusal)))
    load_logs(logs)
    return logs, logs.get_or_create(PARTITION)


def _lose_the_end_of_a_segment(tmp_path: Path) -> None:
    """Two segments of 11 batches, of which a power failure has taken the first one's last batch."""
    logs, log = _start_with_gap(tmp_path, "kafka")
    fill(log, 22)
    crash(logs)
    path = Path(log.segments.first.log.path)
    path.write_bytes(path.read_bytes()[: -len(batch(value=b"v" * 100))])


def test_records_behind_an_old_gap_stay_when_appends_are_flushed_later(tmp_path: Path) -> None:
    _lose_the_end_of_a_segment(tmp_path)
    logs, log = _start_with_gap(tmp_path, "kafka")
    assert (log.log_end_offset, log.recovery_point) == (22, 11)
    assert "orders 0 11" in (tmp_path / RECOVERY_POINTS).read_text()
    log.update_config(LogConfig(segment_bytes=2000, kafkapy_flush="ack"))
    fill(log, 1)
    crash(logs)
    logs, log = _start_with_gap(tmp_path, "ack")
    assert log.log_end_offset == 23
    crash(logs)


def test_a_full_disk_may_refuse_the_recovery_point_behind_a_gap(tmp_path: Path) -> None:
    _lose_the_end_of_a_segment(tmp_path)
    logs, log = _start_with_gap(tmp_path, "kafka", errno.ENOSPC)
    assert log.log_end_offset == 22
    crash(logs)
    with pytest.raises(LogDirectoryError, match="can't be used"):
        _start_with_gap(tmp_path, "kafka", errno.EIO)
