from pathlib import Path

import pytest

from harness.storage.batches import START_MS
from kafkapy.config.log_config import LogConfig
from kafkapy.platform.errors import KafkaStorageError, LogDirectoryError
from kafkapy.storage.log.log import Storage
from kafkapy.storage.log_manager import LogManager
from kafkapy.storage.log_manager_start import load_logs
from kafkapy.testing.clock import ManualClock
from kafkapy.types import TopicPartition
from tests.storage.broken_disk import BrokenDisk
from tests.storage.support import crash, fill

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def _manager(tmp_path: Path, files: BrokenDisk | None = None) -> LogManager:
    clock = ManualClock(START_MS)
    storage = Storage(clock, files or BrokenDisk())
    return LogManager([f"{tmp_path}/a", f"{tmp_path}/b"], LogConfig(), clock, storage=storage)


def _filled(tmp_path: Path) -> None:
    manager = _manager(tmp_path)
    load_logs(manager)
    for partition in (A, B):
        fill(manager.get_or_create(partition), 3)
    manager.shutdown()


@pytest.mark.parametrize("where", ["a", "a/t-0"])
def test_a_directory_that_fails_at_the_start_is_left_out(
    tmp_path: Path, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    _filled(tmp_path)
    files = BrokenDisk()
    manager = _manager(tmp_path, files)
    told: list[str] = []
    manager.set_directory_listener(lambda path, partitions: told.append(f"{path} {len(partitions)}"))
    files.broken = f"{tmp_path}/{where}"
    load_logs(manager)
    assert [log.topic_partition for log in manager.all_logs()] == [B]
    manager.storage.clock.advance(0)  # type: ignore[attr-defined]  # a ManualClock
    assert told == [f"{tmp_path}/a 0"]
    assert caplog.text.count("is offline until the next start") == 1
    assert f"The data directory {tmp_path}/a is offline until the next start" in caplog.text
    assert "The others stay in use" in caplog.text
    manager.shutdown()
    assert [(tmp_path / name / ".kafka_cleanshutdown").exists() for name in "ab"] == [where == "a", True]


def test_a_start_fails_if_all_directories_fail(tmp_path: Path) -> None:
    _filled(tmp_path)
    files = BrokenDisk()
    manager = _manager(tmp_path, files)
    manager.lock()
    files.broken = str(tmp_path)
    with pytest.raises(LogDirectoryError, match=r"a can't be used .* Input/output error.*b can't be used"):
        load_logs(manager)


def test_a_start_that_is_refused_leaves_the_marks_of_a_clean_stop(tmp_path: Path) -> None:
    _filled(tmp_path)
    (tmp_path / "b" / "t-0").mkdir()
    manager = _manager(tmp_path)
    with pytest.raises(LogDirectoryError, match=f"t-0 is in two data directories; remove one of {tmp_path}/a/t-0"):
        load_logs(manager)
    crash(manager)
    (tmp_path / "b" / "t-0").rename(tmp_path / "b" / "lost+found")
    manager = _manager(tmp_path)
    with pytest.raises(LogDirectoryError, match=r"lost\+found is not a partition's folder"):
        load_logs(manager)
    assert all((tmp_path / name / ".kafka_cleanshutdown").exists() for name in "ab")


def test_an_error_that_is_not_the_disks_stops_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _filled(tmp_path)

    def refuse(*_: object) -> None:
        raise KafkaStorageError("of another world")

    monkeypatch.setattr("kafkapy.storage.log_manager.load_log", refuse)
    with pytest.raises(KafkaStorageError, match="of another world"):
        load_logs(_manager(tmp_path))


def test_a_mark_that_can_not_be_removed_takes_its_directory_offline(tmp_path: Path) -> None:
    _filled(tmp_path)

    class Worn(BrokenDisk):
        def remove(self, path: str) -> None:
            self._check(path)
            super().remove(path)

    files = Worn()
    manager = _manager(tmp_path, files)
    files.broken = f"{tmp_path}/a/.kafka_cleanshutdown"
    load_logs(manager)
    assert [log.topic_partition for log in manager.all_logs()] == [B]
