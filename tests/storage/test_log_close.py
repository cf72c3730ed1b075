import errno
import os
from pathlib import Path

import pytest

from harness.storage.batches import START_MS
from kafkapy.config.log_config import LogConfig
from kafkapy.platform.files import Files
from kafkapy.storage.log_manager import LogManager
from kafkapy.storage.log_manager_start import load_logs
from kafkapy.testing.clock import ManualClock
from kafkapy.types import TopicPartition
from tests.storage.support import fill, open_log, reopen


def test_preparing_a_close_lists_the_files_to_fsync(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 3)
    paths = log.prepare_close()
    assert {Path(path).suffix for path in paths} == {".log", ".index", ".timeindex", ".snapshot", ""}
    assert log.recovery_point == 0
    log.finish_close()
    assert log.recovery_point == 3


def test_a_log_that_is_durable_needs_no_fsync(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 3)
    log.close()
    again = reopen(log)
    assert again.prepare_close() == []


def test_only_the_directory_with_a_failed_disk_is_not_marked_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    manager = LogManager([f"{tmp_path}/a", f"{tmp_path}/b"], LogConfig(), ManualClock(START_MS))
    load_logs(manager)
    for number in range(2):
        fill(manager.get_or_create(TopicPartition("t", number)), 3)
    replace = Files.replace

    def full(self: Files, path: str, data: bytes, *, sync: bool = True) -> None:
        if path == f"{tmp_path}/a/recovery-point-offset-checkpoint":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(self, path, data, sync=sync)

    monkeypatch.setattr(Files, "replace", full)
    manager.shutdown()
    assert f"The logs of {tmp_path}/a could not be closed cleanly" in caplog.text
    assert [(tmp_path / name / ".kafka_cleanshutdown").exists() for name in "ab"] == [False, True]


def test_abandoned_logs_stay_unchanged_and_are_recovered(tmp_path: Path) -> None:
    partition = TopicPartition("t", 0)
    logs = LogManager([str(tmp_path)], LogConfig(), ManualClock())
    load_logs(logs)
    fill(logs.get_or_create(partition), 3)
    before = sorted(path.name for path in tmp_path.rglob("*"))
    logs.abandon()
    assert sorted(path.name for path in tmp_path.rglob("*")) == before
    again = LogManager([str(tmp_path)], LogConfig(), ManualClock())
    load_logs(again)
    log = again.get(partition)
    assert log is not None
    assert log.log_end_offset == 3
    again.shutdown()
