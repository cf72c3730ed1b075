"""Indexes that a start has rebuilt are on the disk before any code relies on them, as power cuts show."""

from pathlib import Path

import pytest

from harness.storage.batches import START_MS, batch, marker, produced
from kafkapy.config.log_config import LogConfig
from kafkapy.storage.checkpoints import Checkpointed
from kafkapy.storage.log.log import Log, Storage
from kafkapy.storage.log.transaction_index import AbortedTransaction
from kafkapy.testing.clock import ManualClock
from tests.simulation.disk import Crashed, SimulatedDisk
from tests.simulation.durable import Survival
from tests.storage.support import fill, open_log

CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=0)
SEEDS = range(12)
SURVIVALS = pytest.mark.parametrize("survival", [Survival.ORDERED, Survival.TORN])


def _log(path: Path, disk: SimulatedDisk) -> Log:
    """Flushed, in several segments; an aborted transaction is in the first."""
    log = open_log(path, CONFIG, storage=_storage(disk))
    log.append_as_leader(produced(0, transactional=True), 0)
    log.append_as_leader(marker(commit=False), 0, from_client=False)
    fill(log, 10)
    log.flush()
    return log


def _disk(path: Path, seed: int = 0) -> SimulatedDisk:
    path.mkdir(exist_ok=True)
    return SimulatedDisk(str(path), seed)


def _storage(disk: SimulatedDisk) -> Storage:
    return Storage(ManualClock(START_MS), disk)


def _check(log: Log) -> None:
    for segment in log.segments:
        last = list(segment.batches(0, segment.size))[-1][1]
        assert segment.max_timestamp == last.max_timestamp, segment.log.path
        entries = [segment.offset_index.entry(slot)[0] for slot in range(segment.offset_index.entries)]
        assert entries == sorted(set(entries))
        assert segment.offset_index.last_offset == last.last_offset
    assert list(log.segments.first.transaction_index) == [AbortedTransaction(7, 0, 1, 2)]


@SURVIVALS
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_below_the_recovery_point(tmp_path: Path, survival: Survival, suffix: str) -> None:
    for seed in SEEDS:
        path = tmp_path / str(seed)
        disk = _disk(path, seed)
        log = _log(path, disk)
        recovery_point = log.recovery_point
        log.close()
        Path(log.segments.first.log.path).with_suffix(suffix).write_bytes(b"damaged")
        disk = _disk(path, seed)
        again = open_log(path, CONFIG, Checkpointed(True, recovery_point), storage=_storage(disk))
        _check(again)
        again.release()
        disk.cut_power(survival)
        _check(open_log(path, CONFIG, Checkpointed(False, recovery_point), storage=_storage(disk)))


@SURVIVALS
def test_below_the_recovery_point_when_the_power_goes_meanwhile(tmp_path: Path, survival: Survival) -> None:
    for changes in range(40):
        path = tmp_path / str(changes)
        log = _log(path, _disk(path))
        recovery_point = log.recovery_point
        log.close()
        for suffix in (".index", ".timeindex"):
            Path(log.segments.first.log.path).with_suffix(suffix).unlink()
        disk = _disk(path, changes)
        disk.crash_after(changes)
        try:
            open_log(path, CONFIG, Checkpointed(False, recovery_point), storage=_storage(disk)).release()
        except Crashed:
            disk.cut_power(survival)
        else:
            assert changes > 10
            return
        _check(open_log(path, CONFIG, Checkpointed(False, recovery_point), storage=_storage(disk)))
    raise AssertionError("never done")


@SURVIVALS
def test_of_the_last_segment_although_all_of_it_was_flushed(tmp_path: Path, survival: Survival) -> None:
    """Killed right after a flush: the end is the recovery point, so that a clean stop has nothing new to flush."""
    for seed in SEEDS:
        path = tmp_path / str(seed)
        disk = _disk(path, seed)
        log = _log(path, disk)
        assert log.recovery_point == log.log_end_offset
        again = _killed(disk, log)
        assert again.recovery_point == again.segments.active.base_offset
        again.close()
        disk.cut_power(survival)
        _check(open_log(path, CONFIG, Checkpointed(True, again.recovery_point), storage=_storage(disk)))


@SURVIVALS
def test_of_the_last_segment_when_it_is_closed_without_another_record(tmp_path: Path, survival: Survival) -> None:
    for seed in SEEDS:
        path = tmp_path / str(seed)
        disk = _disk(path, seed)
        again = _killed(disk, _log(path, disk))
        again.roll()
        again.append_as_leader(batch(timestamp=START_MS + 1000), 0)
        again.flush()
        disk.cut_power(survival)
        last = open_log(path, CONFIG, Checkpointed(False, again.recovery_point), storage=_storage(disk))
        _check(last)


def _killed(disk: SimulatedDisk, log: Log) -> Log:
    """The log after a crash of the process, on the same disk."""
    log.release()
    checkpointed = Checkpointed(False, log.recovery_point, log.log_start_offset, log.high_watermark)
    return open_log(Path(log.directory).parent, log.config, checkpointed, storage=_storage(disk))
