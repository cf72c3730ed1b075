"""Files that are missing or cut off, and folders in their place: how a start handles and logs them."""

import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.storage.batches import PARTITION, START_MS, batch, produced
from kafkapy.config.log_config import LogConfig
from kafkapy.platform.files import Files
from kafkapy.platform.flusher import InlineFlusher
from kafkapy.storage.checkpoints import Checkpointed
from kafkapy.storage.data_directory import DataDirectory
from kafkapy.storage.errors import ForeignDirectoryError
from kafkapy.storage.log.log import Log
from kafkapy.storage.log_manager import LogManager
from kafkapy.storage.log_manager_start import load_logs
from kafkapy.storage.recovery.listing import list_partition
from kafkapy.testing.clock import ManualClock
from kafkapy.turns import finish
from tests.storage.support import crash, fill, open_log, reopen

SMALL = LogConfig(segment_bytes=2000, index_interval_bytes=200)
ZERO, FIVE = f"{0:020d}", f"{5:020d}"


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log = open_log(tmp_path, SMALL)
    fill(log, 50)
    log.close()
    return log


def _again(log: Log, *, clean: bool = True, recovery_point: int = 50) -> Log:
    return open_log(Path(log.directory).parent, SMALL, Checkpointed(clean, recovery_point, 0, 50))


def _segment(log: Log, number: int, suffix: str = ".log") -> Path:
    return sorted(Path(log.directory).glob("*.log"))[number].with_suffix(suffix)


def _errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR]


# segments


@pytest.mark.parametrize("clean", [True, False])
def test_a_segment_without_its_log_is_named(log: Log, caplog: pytest.LogCaptureFixture, clean: bool) -> None:
    path = _segment(log, 1)
    path.unlink()
    again = _again(log, clean=clean)
    (said,) = _errors(caplog)
    assert said == (
        f"{path} is missing, and .index .timeindex is there: the segment's records, from offset {int(path.stem)} on, "
        "are lost"
    )
    assert not path.with_suffix(".index").exists()
    assert again.log_end_offset == 50


def test_indexes_of_a_segment_that_was_being_deleted_are_no_loss(log: Log, caplog: pytest.LogCaptureFixture) -> None:
    _segment(log, 0).rename(_segment(log, 0, ".log.deleted"))
    _again(log)
    assert _errors(caplog) == []


def test_a_log_that_ends_below_its_clean_stop_is_named(log: Log, caplog: pytest.LogCaptureFixture) -> None:
    active = _segment(log, -1)
    for path in Path(log.directory).glob(f"{active.stem}.*"):
        path.unlink()
    again = _again(log)
    assert again.log_end_offset == int(active.stem)
    (said,) = _errors(caplog)
    assert said == (
        f"{log.directory} ends at offset {int(active.stem)}, and everything up to 50 was on the disk: the records in "
        "between are lost"
    )


@pytest.mark.parametrize(("clean", "recovery_point"), [(True, 50), (False, 49), (False, 0)])
@pytest.mark.parametrize("size", [0, 400])
def test_a_closed_segment_that_was_cut_off_is_named(
    log: Log, caplog: pytest.LogCaptureFixture, clean: bool, recovery_point: int, size: int
) -> None:
    path = _segment(log, 1)
    path.write_bytes(path.read_bytes()[:size])
    _again(log, clean=clean, recovery_point=recovery_point)
    said = [line for line in _errors(caplog) if "is cut off" in line]
    expected = f"{path} is cut off at byte {size}: the records after it are lost"
    assert said == ([expected] if clean or recovery_point else [])


def test_an_emptied_segment_with_an_aborted_transaction_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = open_log(tmp_path, SMALL)
    fill(log, 50)
    log.close()
    path = _segment(log, 0)
    path.write_bytes(b"")
    path.with_suffix(".timeindex").write_bytes(b"")
    path.with_suffix(".index").write_bytes(b"")
    path.with_suffix(".txnindex").write_bytes(bytes(34))
    _again(log)
    assert any(line.startswith(f"{path} is cut off at byte 0") for line in _errors(caplog))


def test_rebuilt_indexes_do_not_report_a_cut_segment(log: Log, caplog: pytest.LogCaptureFixture) -> None:
    _segment(log, 0, ".index").write_bytes(b"odd")
    _again(log)
    assert _errors(caplog) == []


@pytest.mark.parametrize(
    ("clean", "recovery_point", "start"), [(True, 50, 0), (True, 0, 51), (True, 60, 51), (False, 50, 51)]
)
def test_a_log_start_above_the_end_of_a_clean_stop_is_ignored(
    log: Log, caplog: pytest.LogCaptureFixture, clean: bool, recovery_point: int, start: int
) -> None:
    again = open_log(Path(log.directory).parent, SMALL, Checkpointed(clean, recovery_point, 51, 50))
    assert (again.log_start_offset, again.log_end_offset) == (start, max(start, 50))
    assert ("can't begin at 51" in caplog.text) is (start == 0)


# a time index of zeros


def _time_index(log: Log, entries: int) -> Path:
    path = _segment(log, 0, ".timeindex")
    path.write_bytes(bytes(12 * entries))
    return path


@pytest.mark.parametrize("entries", [1, 3])
def test_a_time_index_of_zeros_is_rebuilt(log: Log, caplog: pytest.LogCaptureFixture, entries: int) -> None:
    path = _time_index(log, entries)
    right = _again(log).segments.first.largest_timestamp
    assert right > START_MS
    assert f"Rebuilding the indexes of {path.with_suffix('.log')}" in caplog.text


def test_records_of_1970_and_damage_keep_theirs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = open_log(tmp_path, SMALL)
    log.append_as_leader(batch(1, timestamp=0), 0)
    log.update_high_watermark(1)
    again = reopen(log)
    assert "Rebuilding" not in caplog.text
    again.append_as_leader(batch(1, timestamp=0), 0)
    again.close()
    _segment(log, 0).write_bytes(b"\xff" * 10)
    _again(log)
    assert "Rebuilding" not in caplog.text


# folders in the place of files


@pytest.mark.parametrize("name", [f"{ZERO}.index", "leader-epoch-checkpoint", f"{FIVE}.snapshot", f"{ZERO}.log"])
@pytest.mark.parametrize("content", [[], ["file"]])
def test_a_folder_in_the_place_of_a_file_makes_room(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, content: list[str]
) -> None:
    (tmp_path / f"{FIVE}.log").write_bytes(b"x")
    for taken in ("", ".folder"):
        (tmp_path / f"{name}{taken}").mkdir()
        for each in content:
            (tmp_path / f"{name}{taken}" / each).touch()
    found = list_partition(Files(), str(tmp_path))
    assert found == ({5: {".log": 1}}, {}, 0)
    assert not (tmp_path / name).exists()
    assert (tmp_path / f"{name}.folder").exists()
    assert (tmp_path / f"{name}.folder.folder").exists() is bool(content)
    (said,) = caplog.records
    assert (said.levelno == logging.ERROR) is name.endswith(".log")
    assert f"{tmp_path}/{name}" in said.getMessage()
    caplog.clear()
    assert list_partition(Files(), str(tmp_path)) == found
    assert caplog.records == []


def test_other_folders_stay_unchanged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "mine.tmp").mkdir()
    assert list_partition(Files(), str(tmp_path)) == ({}, {}, 0)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["lost+found", "mine.tmp"]
    assert caplog.records == []


def test_a_file_in_the_place_of_a_partitions_folder_makes_room(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "t-0").write_bytes(b"mine")
    assert list_partition(Files(), str(tmp_path / "t-0")) == ({}, {}, 0)
    assert (tmp_path / "t-0").is_dir()
    assert (tmp_path / "t-0.file").read_bytes() == b"mine"
    assert "is a file and not a folder" in caplog.text


NAMES = (
    ".lock",
    ".kafka_cleanshutdown",
    "meta.properties",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
    "cleaner-offset-checkpoint.tmp",
)


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_folder_in_the_place_of_a_directorys_file_counts_as_missing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    (tmp_path / name).mkdir()
    directory = DataDirectory(Files(), str(tmp_path))
    directory.lock()
    assert f"{tmp_path}/{name} is an empty folder in the place of a file" in caplog.text
    assert not (tmp_path / name).is_dir()
    assert not directory.is_clean()
    assert directory.read_identity() is None
    assert directory.read_checkpoints(clean=True) == {}
    directory.write_checkpoint("cleaner-offset-checkpoint", {PARTITION: 1}, InlineFlusher())
    directory.unlock()


@pytest.mark.parametrize("name", NAMES)
def test_a_full_folder_in_the_place_of_a_directorys_file_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "file").touch()
    with pytest.raises(ForeignDirectoryError, match=f"{name} is a folder in the place of a file, and not empty"):
        DataDirectory(Files(), str(tmp_path)).lock()
    assert (tmp_path / name / "file").exists()


# partitions


def _manager(tmp_path: Path) -> LogManager:
    return LogManager([str(tmp_path)], SMALL, ManualClock(START_MS))


@pytest.mark.parametrize("stop", [LogManager.shutdown, crash])
def test_a_partition_without_its_folder_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, stop: Callable[[LogManager], None]
) -> None:
    manager = _manager(tmp_path)
    load_logs(manager)
    log = manager.get_or_create(PARTITION)
    fill(log, 3)
    log.append_as_leader(produced(0), 0)
    log.flush()
    finish(manager.checkpoint_recovery_points())
    stop(manager)
    shutil.rmtree(log.directory)
    again = _manager(tmp_path)
    load_logs(again)
    unless = ", unless its topic was deleted before the stop" if stop is crash else ""
    assert _errors(caplog) == [f"{log.directory} is missing: its records up to offset 4 are lost{unless}"]
    again.shutdown()
