"""A start on a disk without space: every record is served, and files that can't be written are written later."""

import errno
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.storage.batches import PARTITION, START_MS, batch, marker, produced
from kafkapy.config.log_config import LogConfig
from kafkapy.config.own_keys import FLUSH_BEFORE_ACK
from kafkapy.platform.descriptors import Descriptor
from kafkapy.platform.errors import KafkaStorageError, LogDirectoryError
from kafkapy.platform.files import Files
from kafkapy.records.record import read_records
from kafkapy.storage.log.log import Log, Storage
from kafkapy.storage.log_manager import LogManager
from kafkapy.storage.log_manager_start import load_logs
from kafkapy.storage.lowered_checkpoints import lower_checkpoints
from kafkapy.testing.clock import ManualClock
from kafkapy.turns import finish
from kafkapy.types import TopicPartition

CONFIG = LogConfig(segment_bytes=1500, index_interval_bytes=0)
COUNT = 40
FOLDER = f"{PARTITION}"


class FullDisk(Files):
    """A disk without space from the change number ``fail_at`` on: files can neither grow nor be created."""

    def __init__(self, fail_at: int = 10**9, code: int = errno.ENOSPC) -> None:
        super().__init__()
        self.changes = 0
        self.fail_at = fail_at
        self.code = code

    def _refuse_if_full(self, path: str) -> None:
        self.changes += 1
        if self.changes >= self.fail_at:
            raise OSError(self.code, "No space left on device", path)

    def write_at(self, descriptor: Descriptor, data: bytes | bytearray | memoryview, position: int) -> None:
        self._refuse_if_full("")
        super().write_at(descriptor, data, position)

    def create(self, path: str) -> None:
        self._refuse_if_full(path)
        super().create(path)

    def replace(self, path: str, data: bytes, *, sync: bool = True) -> None:
        self._refuse_if_full(path)
        super().replace(path, data, sync=sync)


def start(directory: Path, files: Files | None = None, config: LogConfig = CONFIG) -> tuple[LogManager, Log]:
    clock = ManualClock(START_MS)
    logs = LogManager([str(directory)], config, clock, storage=Storage(clock, files or Files()))
    load_logs(logs)
    return logs, logs.get_or_create(PARTITION, is_new=False)


def kill(logs: LogManager) -> None:
    for log in logs.all_logs():
        log.release()
    logs.directories.unlock()


def fill(log: Log) -> None:
    """An idempotent producer's batches, an aborted transaction after each tenth, in two leader epochs."""
    for sequence in range(COUNT):
        log.append_as_leader(produced(sequence, value=b"%d" % sequence), 3 if sequence < 25 else 5)
        if sequence % 10 == 9:
            log.append_as_leader(produced(sequence // 10, producer_id=8, transactional=True), log.leader_epochs.latest)
            log.append_as_leader(marker(commit=False, producer_id=8), log.leader_epochs.latest, from_client=False)
    log.update_high_watermark(log.log_end_offset)


def state_of(log: Log, *, producers: bool = True) -> list[object]:
    """Everything that clients can see of a log."""
    values = [
        (record.offset, record.value)
        for segment in log.segments
        for _, header, content in segment.batches(0, segment.size)
        for record in read_records(content, header)
    ]
    end = log.log_end_offset
    by_time = [log.lookup_timestamp(START_MS + step) for step in (0, 1)]
    known = {each: entry.batches[-1] for each, entry in log.producer_state.producers.items() if entry.batches}
    aborted = log.aborted_transactions(0, end)
    return [values, end, log.leader_epochs.entries, aborted, by_time, *([known] if producers else [])]


def index_sizes(directory: Path) -> dict[str, int]:
    """Bytes of each index that has entries."""
    sizes = {path.name: path.stat().st_size for path in (directory / FOLDER).glob("*index")}
    return {name: size for name, size in sizes.items() if size}


def nothing(_folder: Path) -> None:
    """The files are as the killed process left them."""


def cut_the_last_batch(folder: Path) -> None:
    path = sorted(folder.glob("*.log"))[-1]
    path.write_bytes(path.read_bytes()[:-7])


def remove_derived_files(folder: Path) -> None:
    for path in [*folder.glob("*.snapshot"), *folder.glob("*index"), folder / "leader-epoch-checkpoint"]:
        path.unlink()


def damage_indexes(folder: Path) -> None:
    """Write wrong entries, and no whole number of them, so that the index is known to be damaged."""
    for path in folder.glob("*index"):
        path.write_bytes(b"\xff" * 4097)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("damage", [nothing, cut_the_last_batch, remove_derived_files, damage_indexes])
def test_a_full_disk_at_any_moment_of_a_start(
    tmp_path: Path, damage: Callable[[Path], None], code: int, *, clean: bool
) -> None:
    original = tmp_path / "original"
    logs, log = start(original)
    fill(log)
    (logs.shutdown if clean else lambda: kill(logs))()
    damage(original / FOLDER)
    expected_directory = tmp_path / "expected"
    shutil.copytree(original, expected_directory)
    counting = FullDisk()
    logs, log = start(expected_directory, counting)
    expected, changes = state_of(log), counting.changes
    again = state_of(log, producers=not clean)  # a clean start trusts that there are no producers without a snapshot
    logs.shutdown()
    sizes = index_sizes(expected_directory)
    for moment in range(1, changes + 2, 1 if code == errno.ENOSPC else 7):
        directory = tmp_path / f"{moment}"
        shutil.copytree(original, directory)
        files = FullDisk(moment, code)
        logs, log = start(directory, files)
        assert state_of(log) == expected, moment
        if moment == 1:
            with pytest.raises(KafkaStorageError):
                log.append_as_leader(produced(COUNT), 5)
        files.fail_at = 10**9
        kill(logs)  # the next start finds what the full disk has left
        logs, log = start(directory)
        assert state_of(log, producers=not clean) == again, moment
        kill(logs)
        files = FullDisk(moment, code)
        logs, log = start(directory, files)
        files.fail_at = 10**9
        logs.shutdown()
        assert index_sizes(directory) == sizes, moment
        assert (directory / ".kafka_cleanshutdown").exists()
        logs, log = start(directory)
        assert state_of(log, producers=not clean) == again, moment
        assert log.append_as_leader(produced(COUNT), 5).first_offset == log.log_end_offset - 1
        kill(logs)
        shutil.rmtree(directory)


def test_a_flush_writes_what_the_start_could_not(tmp_path: Path) -> None:
    logs, log = start(tmp_path)
    fill(log)
    logs.shutdown()
    damage_indexes(tmp_path / FOLDER)
    files = FullDisk(1)
    logs, log = start(tmp_path, files)
    assert log.recovery_point == 0
    with pytest.raises(OSError, match="No space left"):
        log.flush()
    files.fail_at = 10**9
    log.flush()
    assert log.recovery_point == log.log_end_offset
    kill(logs)
    expected = state_of(log)
    again = start(tmp_path, FullDisk(10**9))[1]
    assert state_of(again) == expected


def test_a_stop_on_a_full_disk_is_not_clean(tmp_path: Path) -> None:
    logs, log = start(tmp_path)
    fill(log)
    kill(logs)
    logs, _ = start(tmp_path, FullDisk(1))
    logs.shutdown()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


def test_a_folder_without_segments(tmp_path: Path) -> None:
    """A topic that was created on a full disk has only its folder: the first append creates its files."""
    (tmp_path / FOLDER).mkdir()
    (tmp_path / "log-start-offset-checkpoint").write_text(f"0\n1\n{PARTITION.topic} 0 17\n")
    files = FullDisk(1)
    logs, log = start(tmp_path, files)
    assert (log.log_start_offset, log.log_end_offset) == (17, 17)
    assert logs.offsets("log-start-offset-checkpoint") == {str(tmp_path): {PARTITION: 17}}
    with pytest.raises(KafkaStorageError, match="can't be written"):
        log.append_as_leader(produced(0), 0)
    files.fail_at = 10**9
    assert log.append_as_leader(produced(0), 0).first_offset == 17
    kill(logs)
    logs, log = start(tmp_path)
    assert (log.log_start_offset, log.log_end_offset) == (17, 18)
    kill(logs)


def test_a_folder_without_segments_keeps_its_offset_over_a_clean_stop(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / "log-start-offset-checkpoint").write_text(f"0\n1\n{PARTITION.topic} 0 17\n")
    files = FullDisk(1)
    logs, _ = start(tmp_path, files)
    files.fail_at = 10**9
    logs.shutdown()
    logs, log = start(tmp_path)
    assert log.log_end_offset == 17
    kill(logs)


def test_a_new_log_is_refused(tmp_path: Path) -> None:
    files = FullDisk()
    logs, _ = start(tmp_path, files)
    new = TopicPartition("new", 0)
    files.fail_at = 1
    for _ in range(2):  # the second time its folder is there
        with pytest.raises(KafkaStorageError, match="can't be opened"):
            logs.get_or_create(new)
    files.fail_at = 10**9
    assert logs.get_or_create(new).append_as_leader(batch(), 0).first_offset == 0


def test_bytes_that_can_not_be_written_again_are_written_later(tmp_path: Path) -> None:
    """``kafkapy.flush=ack``: a recovery writes what it keeps, since an fsync may have failed before the stop."""
    config = LogConfig(segment_bytes=1500, index_interval_bytes=0, kafkapy_flush=FLUSH_BEFORE_ACK)
    logs, log = start(tmp_path, config=config)
    fill(log)
    kill(logs)
    files = FullDisk(1)
    logs, log = start(tmp_path, files, config)
    files.fail_at = 10**9
    files.changes = 0
    log.flush()
    assert files.changes >= COUNT / 10, "the segments are written again"
    assert log.recovery_point == log.log_end_offset
    kill(logs)


def test_recovery_points_that_are_too_high_are_removed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Because of them a start would trust later records, and there is no space for lower ones."""
    logs, log = start(tmp_path)
    fill(log)
    log.flush()
    finish(logs.checkpoint_recovery_points())
    kill(logs)
    segment = sorted((tmp_path / FOLDER).glob("*.log"))[-1]
    segment.write_bytes(b"")
    checkpoint = tmp_path / "recovery-point-offset-checkpoint"
    assert checkpoint.exists()
    files = FullDisk(1)
    logs, log = start(tmp_path, files)
    assert not checkpoint.exists()
    assert "recovery-point-offset-checkpoint is removed" in caplog.text
    files.fail_at = 10**9
    finish(logs.checkpoint_recovery_points())
    assert f"orders 0 {log.recovery_point}" in checkpoint.read_text()
    kill(logs)


def test_other_errors_take_the_directory_offline(tmp_path: Path) -> None:
    logs, log = start(tmp_path)
    fill(log)
    kill(logs)
    with pytest.raises(LogDirectoryError, match="can't be used"):
        start(tmp_path, FullDisk(1, errno.EIO))


def test_an_identity_is_written_by_the_next_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = FullDisk()
    logs, _ = start(tmp_path, files)
    files.fail_at = 1
    logs.directories.write_identity(1, "cluster", START_MS)
    assert "has no meta.properties yet" in caplog.text
    files.fail_at, files.code = files.changes + 1, errno.EIO
    with pytest.raises(OSError, match="No space"):
        logs.directories.write_identity(1, "cluster", START_MS)


def test_a_worker_process_does_not_keep_writes_in_memory(tmp_path: Path) -> None:
    """The memory of the worker process is lost at its end; the broker opens the log again and keeps its own."""
    logs, log = start(tmp_path)
    fill(log)
    kill(logs)
    clock = ManualClock(START_MS)
    storage = Storage(clock, FullDisk(1), puts_off=False)
    logs = LogManager([str(tmp_path)], CONFIG, clock, storage=storage)
    with pytest.raises(LogDirectoryError, match="No space left"):
        load_logs(logs)


def test_recovery_points_that_a_broken_disk_refuses_are_not_removed(tmp_path: Path) -> None:
    files = FullDisk()
    logs, log = start(tmp_path, files)
    fill(log)
    log.flush()
    finish(logs.checkpoint_recovery_points())
    log.recovery_point = 0
    files.fail_at, files.code = 1, errno.EIO
    with pytest.raises(OSError, match="No space left"):
        lower_checkpoints(logs, log)
    assert (tmp_path / "recovery-point-offset-checkpoint").exists()
    kill(logs)
