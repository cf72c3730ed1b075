import errno
from pathlib import Path

import pytest

from harness.storage.batches import START_MS, batch, produced
from kafkapy.config.log_config import LogConfig
from kafkapy.storage.log.log import Log, Storage
from kafkapy.storage.log.roll import rolling_ms, waited_ms
from kafkapy.storage.log.segment import AppendedRange
from kafkapy.testing.clock import ManualClock
from tests.simulation.disk import Fault, SimulatedDisk
from tests.storage.support import Failures, contents, fill, open_log, reopen


def _clock(log: Log) -> ManualClock:
    clock = log.storage.clock
    assert isinstance(clock, ManualClock)
    return clock


def _bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def test_by_the_timestamp_of_the_first_batch(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_ms=1000))
    for timestamp in (5000, 9000, 6000, 6001, 9000, 1000):
        log.append_as_leader(batch(timestamp=timestamp), 0)
    # 9000 is 4000 after 5000: new; 6000 and 6001 lie before it; then nothing is more than 1000 above 9000.
    assert _bases(log) == [0, 1]
    _clock(log).advance(10**9)
    log.append_as_leader(batch(timestamp=10_000), 0)
    assert _bases(log) == [0, 1]
    log.append_as_leader(batch(timestamp=10_001), 0)
    assert _bases(log) == [0, 1, 7]


def test_by_the_clock_where_there_are_no_timestamps(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_ms=1000))
    log.append_as_leader(batch(timestamp=-1), 0)
    assert waited_ms(log.segments.active, _clock(log), -1) == 0
    _clock(log).advance(1000)
    log.append_as_leader(batch(timestamp=START_MS * 2), 0)
    assert _bases(log) == [0]
    _clock(log).advance(1)
    log.append_as_leader(batch(timestamp=-1), 0)
    assert _bases(log) == [0, 2]


def test_after_a_restart_the_first_batch_still_counts(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_ms=1000))
    log.append_as_leader(batch(timestamp=5000), 0)
    again = reopen(log)
    again.append_as_leader(batch(timestamp=6000), 0)
    again.append_as_leader(batch(timestamp=6001), 0)
    assert _bases(again) == [0, 2]


def test_a_first_batch_that_a_recovery_has_cut_off_does_not_count(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_ms=1000))
    log.append_as_leader(batch(timestamp=10**6), 0)
    path = Path(log.segments.active.log.path)
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    path.with_suffix(".timeindex").write_bytes(bytes(12))  # so that the batch's timestamp is read before its CRC
    again = reopen(log, clean=False)
    assert again.size_bytes == 0
    for timestamp in (5000, 6000, 6001):
        again.append_as_leader(batch(timestamp=timestamp), 0)
    assert _bases(again) == [0, 2]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (LogConfig(segment_ms=100), 100),
        (LogConfig(segment_ms=100, max_compaction_lag_ms=50), 100),
        (LogConfig(segment_ms=100, max_compaction_lag_ms=50, cleanup_policy=("compact",)), 50),
        (LogConfig(segment_ms=100, max_compaction_lag_ms=500, cleanup_policy=("compact", "delete")), 100),
        (LogConfig(segment_ms=100, max_compaction_lag_ms=0, cleanup_policy=("compact",)), 100),
    ],
)
def test_compacted_topics_roll_in_time_for_their_lag(config: LogConfig, expected: int) -> None:
    assert rolling_ms(config) == expected


def test_when_an_offset_does_not_fit(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append_as_follower(batch(base_offset=2**31 - 1))
    assert _bases(log) == [0]
    log.append_as_follower(batch(base_offset=2**31))
    assert _bases(log) == [0, 2**31]


def test_an_empty_segment_is_left_for_an_offset_only(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_ms=1))
    _clock(log).advance(10**6)
    log.append_as_follower(batch(base_offset=5, timestamp=-1))
    assert _bases(log) == [0]
    assert log.roll() is log.segments.active
    assert log.roll() is log.segments.active
    assert _bases(log) == [0, 6]


def test_the_largest_timestamp_counts_even_if_an_earlier_batch_had_it(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    segment = log.segments.active
    content = batch(timestamp=700)
    segment.append(content, AppendedRange(0, 0, 700, 0, len(content)), 4096)
    assert (waited_ms(segment, _clock(log), 300), segment.first_timestamp()) == (-400, 700)


def test_preallocated_segments_have_their_size_at_once_and_give_back_the_rest(tmp_path: Path) -> None:
    config = LogConfig(preallocate=True, segment_bytes=10_000, index_interval_bytes=500)
    log = open_log(tmp_path, config)
    plain = open_log(tmp_path / "plain", LogConfig(segment_bytes=10_000, index_interval_bytes=500))
    path = Path(log.segments.active.log.path)
    assert (path.stat().st_size, log.size_bytes) == (10_000, 0)
    for each in (log, plain):
        fill(each, 20)
    assert path.stat().st_size == 10_000
    assert len(log.read(19, 10_000).records) == log.size_bytes // 20
    for each in (log, plain):
        each.roll()
        fill(each, 20)
        each.close()
    assert contents(Path(log.directory)) == contents(Path(plain.directory))


def test_after_a_crash_recovery_cuts_the_zeros(tmp_path: Path) -> None:
    config = LogConfig(preallocate=True, segment_bytes=100_000)
    log = open_log(tmp_path, config)
    fill(log, 20)
    size = log.size_bytes
    again = reopen(log, clean=False)
    assert (again.log_end_offset, again.size_bytes) == (20, size)
    assert Path(again.segments.active.log.path).stat().st_size == size
    fill(again, 5)
    again.truncate_to(22)
    again.truncate_fully_and_start_at(7)
    assert Path(again.segments.active.log.path).stat().st_size == 100_000
    assert reopen(again).log_end_offset == 7


@pytest.mark.parametrize(
    ("removals", "expected"), [(frozenset[str](), []), (frozenset({"remove"}), [errno.EIO])], ids=["goes", "stays"]
)
def test_an_unused_segment_that_can_not_be_removed_takes_the_directory_offline(
    tmp_path: Path, removals: frozenset[str], expected: list[int]
) -> None:
    """Otherwise a start would take it for the log's end, and hide records that were written after the failure."""
    failures: list[tuple[str, int | None]] = []
    disk = SimulatedDisk(str(tmp_path))
    storage = Storage(ManualClock(START_MS), disk, owner=Failures(failures))
    log = open_log(tmp_path, storage=storage)
    log.append_as_leader(produced(0), 0)
    # The third of its files can't be made: then the first two have to go.
    disk.fail(Fault(frozenset({"create"}), after=2, code=errno.ENOSPC))
    disk.fail(Fault(removals))
    with pytest.raises(OSError, match="No space left"):
        log.roll()
    assert failures == [(log.directory, code) for code in expected]
    assert (_bases(log), log.producer_state.map_end_offset) == ([0], 1)
    assert (tmp_path / "orders-0" / f"{1:020d}.log").exists() == bool(removals)
    assert log.producer_state.snapshot_offsets == []


def test_a_snapshot_that_can_not_be_written_takes_the_new_segment_with_it(tmp_path: Path) -> None:
    disk = SimulatedDisk(str(tmp_path))
    log = open_log(tmp_path, storage=Storage(ManualClock(START_MS), disk))
    log.append_as_leader(produced(0), 0)
    disk.fail(Fault(frozenset({"rename"}), code=errno.ENOSPC))
    with pytest.raises(OSError, match="No space left"):
        log.roll()
    assert not (tmp_path / "orders-0" / f"{1:020d}.log").exists()
    assert log.append_as_leader(produced(1), 0).first_offset == 1
    assert reopen(log, clean=False).log_end_offset == 2
