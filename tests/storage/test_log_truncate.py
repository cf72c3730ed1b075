from pathlib import Path

import pytest

from harness.storage.batches import batch, produced
from kafkapy.config.log_config import LogConfig
from kafkapy.storage.errors import OutOfOrderSequenceError
from kafkapy.storage.log.log import Log
from kafkapy.testing.clock import ManualClock
from tests.storage.support import append, fill, offsets_of, open_log, reopen


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log = open_log(tmp_path, LogConfig(segment_bytes=4 * len(batch(value=b"v" * 100))))
    fill(log, 10)
    return log


def test_a_truncation_drops_records_now_and_files_later(log: Log) -> None:
    assert log.truncate_to(5)
    assert (log.log_end_offset, log.high_watermark, log.recovery_point, len(log.segments)) == (5, 5, 4, 2)
    doomed = list(Path(log.directory).glob("*.deleted"))
    assert len(doomed) == 3
    clock = log.storage.clock
    assert isinstance(clock, ManualClock)
    clock.advance(60_000)
    assert not list(Path(log.directory).glob("*.deleted"))
    fill(log, 1)
    assert reopen(log).log_end_offset == 6


def test_beyond_the_end_only_epochs_go(log: Log) -> None:
    log.leader_epochs.assign(3, 10)
    assert not log.truncate_to(10)
    assert log.leader_epochs.entries == [(0, 0)]


def test_within_a_batch_the_whole_batch_goes(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 2, 5)
    log.truncate_to(7)
    assert (log.log_end_offset, log.segments.active.next_offset()) == (7, 5)


def test_below_the_first_segment_everything_goes(tmp_path: Path) -> None:
    log = open_log(tmp_path, start=100)
    fill(log, 3)
    assert log.truncate_to(50)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (50, 50, 50)


def test_a_full_truncation_begins_at_the_given_offset(log: Log) -> None:
    log.truncate_fully_and_start_at(1000)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (1000, 1000, 1000)
    assert (log.leader_epochs.entries, log.producer_state.snapshot_offsets) == ([], [])
    fill(log, 1)
    assert offsets_of(log.read(1000, 1).records) == [1000]


def test_a_truncation_restores_the_producers(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for sequence in range(4):
        if sequence == 2:
            log.roll()
        log.append_as_leader(produced(sequence), 0)
    log.truncate_to(3)
    with pytest.raises(OutOfOrderSequenceError):
        append(log, produced(4))
    log.append_as_leader(produced(3), 0)
    log.truncate_to(2)
    log.append_as_leader(produced(2), 0)
    assert log.log_end_offset == 3
