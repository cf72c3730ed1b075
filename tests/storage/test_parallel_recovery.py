"""Recovery by worker processes: the same result as by the broker itself, on as many processors as there are."""

import asyncio
import errno
import logging
from pathlib import Path

import pytest

from harness.storage.batches import START_MS, produced
from kafkapy.config.log_config import LogConfig
from kafkapy.platform.errors import LogDirectoryError
from kafkapy.platform.worker import JobCancelledError
from kafkapy.platform.worker_pool import Job, JobFailedError, WorkerDiedError, WorkerPool
from kafkapy.storage import parallel_recovery
from kafkapy.storage.log.log import Storage
from kafkapy.storage.log_manager import LogManager
from kafkapy.storage.log_manager_start import load_logs
from kafkapy.storage.parallel_recovery import Progress, default_processes
from kafkapy.testing.clock import ManualClock
from kafkapy.types import TopicPartition
from tests.storage.broken_disk import BrokenDisk
from tests.storage.support import contents, crash, fill

CONFIG = LogConfig(segment_bytes=2000, index_interval_bytes=300)
PARTITIONS = [TopicPartition("t", number) for number in range(4)]


def _manager(path: Path, *, files: BrokenDisk | None = None) -> LogManager:
    clock = ManualClock(START_MS)
    return LogManager([str(path)], CONFIG, clock, storage=Storage(clock, files or BrokenDisk()))


def _crashed(path: Path) -> None:
    """Four logs after an unclean stop, one of them damaged in its second segment."""
    manager = _manager(path)
    load_logs(manager)
    for number, partition in enumerate(PARTITIONS):
        log = manager.get_or_create(partition)
        fill(log, 40 + number)
        log.append_as_leader(produced(0), 0)
        log.leader_epochs.assign(3, log.log_end_offset)
        log.append_as_leader(produced(1), 3)
    second = list(manager.all_logs())[1].segments.starting_at(1)[0]
    crash(manager)
    with Path(second.log.path).open("r+b") as file:
        file.seek(300)
        file.write(b"X")


def _load(manager: LogManager, report: list[Progress], processes: int = 2) -> None:
    async def scenario() -> None:
        manager.lock()
        await parallel_recovery.load_in_parallel(manager, lambda _: CONFIG, processes=processes, report=report.append)
        await asyncio.sleep(0)

    asyncio.run(scenario())


@pytest.fixture(autouse=True)
def _small_is_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel_recovery, "WORTH_BYTES", 1)
    monkeypatch.setattr(parallel_recovery, "JOB_BYTES", 10_000)


def _state(manager: LogManager) -> list[object]:
    return [
        (
            log.topic_partition, log.log_start_offset, log.log_end_offset, log.high_watermark, log.recovery_point,
            log.leader_epochs.entries, sorted(log.producer_state.producers), len(log.segments),
        )
        for log in manager.all_logs()
    ]  # fmt: skip


def test_workers_leave_the_files_that_the_broker_would(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name in "ab":
        _crashed(tmp_path / name)
    alone, helped = _manager(tmp_path / "a"), _manager(tmp_path / "b")
    load_logs(alone)
    reports: list[Progress] = []
    with caplog.at_level(logging.INFO):
        _load(helped, reports)
    assert _state(helped) == _state(alone)
    assert helped.get(PARTITIONS[1]).log_end_offset < 20  # type: ignore[union-attr]  # it is there
    total = reports[0].total_bytes
    assert reports[0] == (0, total, 4)
    assert reports[-1].done_bytes > total / 2
    assert "Recovered 4 logs, 0.0 GB, in 0.0 s" in caplog.text
    doomed = len(list((tmp_path / "b" / "t-1").glob("*.log.deleted")))
    assert doomed > 0
    for manager in (alone, helped):
        manager.shutdown()
    ignored = (".lock", ".deleted")
    left = [{n: c for n, c in contents(tmp_path / name).items() if not n.endswith(ignored)} for name in "ab"]
    assert left[0] == left[1]
    _load(_manager(tmp_path / "b"), reports)
    assert list((tmp_path / "b" / "t-1").glob("*.deleted")) == []


def test_little_to_recover_starts_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _crashed(tmp_path)
    monkeypatch.setattr(parallel_recovery, "WORTH_BYTES", 1_000_000)
    monkeypatch.setattr(parallel_recovery, "WorkerPool", None)
    reports: list[Progress] = []
    _load(_manager(tmp_path), reports)
    assert reports == []


def _fail(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    class Failing(WorkerPool):
        def submit(self, *arguments: object) -> Job:  # type: ignore[override]  # it looks at nothing
            job = Job(self, {}, lambda _: None)
            job.future.set_exception(error)
            return job

    monkeypatch.setattr(parallel_recovery, "WorkerPool", Failing)


@pytest.mark.parametrize("error", [JobFailedError("no"), WorkerDiedError("gone"), OSError(errno.EIO, "broken")])
def test_the_broker_recovers_logs_that_a_worker_could_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    _crashed(tmp_path)
    (tmp_path / "empty-0").mkdir()
    _fail(monkeypatch, error)
    manager = _manager(tmp_path)
    _load(manager, [])
    assert len(list(manager.all_logs())) == 5
    assert "A worker process could not recover" in caplog.text


def test_a_cancelled_recovery_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _crashed(tmp_path)
    _fail(monkeypatch, JobCancelledError())
    with pytest.raises(JobCancelledError):
        _load(_manager(tmp_path), [])


def test_a_folder_that_can_not_be_listed_fails_when_it_is_opened(tmp_path: Path) -> None:
    _crashed(tmp_path)
    files = BrokenDisk()
    files.broken = f"{tmp_path}/t-2"
    with pytest.raises(LogDirectoryError, match="Input/output error"):
        _load(_manager(tmp_path, files=files), [])


def test_only_segments_beyond_the_recovery_point_are_counted() -> None:
    listing = [(f"{base:020d}.log", 10) for base in (5, 10, 20)] + [("x.log", 99), (f"{0:020d}.index", 99)]
    sizes = [parallel_recovery._bytes_beyond(listing, point) for point in (0, 5, 12, 20, 10**15)]
    assert sizes == [30, 30, 20, 10, 10]
    assert parallel_recovery._bytes_beyond([], 0) == 0


def test_the_processors_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_processes() >= 1
    monkeypatch.delattr("os.sched_getaffinity")
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    assert default_processes() == 3
