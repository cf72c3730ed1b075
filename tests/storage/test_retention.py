import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.storage.batches import START_MS, batch, produced
from kafkapy.config.log_config import LogConfig
from kafkapy.platform.errors import KafkaStorageError
from kafkapy.platform.files import Files
from kafkapy.storage.errors import OffsetOutOfRangeError
from kafkapy.storage.log.log import SEGMENTS_IN_A_STEP, Log, Storage
from kafkapy.storage.log.retention import delete_old_segments
from kafkapy.testing.clock import ManualClock
from kafkapy.turns import finish
from tests.simulation.disk import Fault, SimulatedDisk
from tests.storage.support import fill, offsets_of, open_log, reopen

VALUE = b"v" * 100
SIZE = len(batch(value=VALUE))
SEGMENT_BYTES = 4 * SIZE
KEEP = {"retention_ms": -1, "retention_bytes": -1}


def _log(path: Path, **settings: int | tuple[str, ...]) -> Log:
    """Ten records 10 ms apart, in segments that begin at 0, 4 and 8."""
    log = open_log(path, LogConfig(segment_bytes=SEGMENT_BYTES, **{**KEEP, **settings}))  # type: ignore[arg-type]  # each of its key's type
    fill(log, 10)
    return log


def _bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def _set_now(log: Log, now_ms: int) -> None:
    clock = log.storage.clock
    assert isinstance(clock, ManualClock)
    clock.advance(now_ms - clock.now_ms())


def test_without_limits_no_segment_is_deleted(tmp_path: Path) -> None:
    log = _log(tmp_path)
    _set_now(log, 2 * START_MS)
    assert finish(delete_old_segments(log)) == 0
    assert _bases(log) == [0, 4, 8]


def test_by_the_largest_timestamp_of_each_segment(tmp_path: Path) -> None:
    log = _log(tmp_path, retention_ms=1000)
    _set_now(log, START_MS + 1030)
    assert finish(delete_old_segments(log)) == 0
    _set_now(log, START_MS + 1031)
    assert finish(delete_old_segments(log)) == 1
    assert (_bases(log), log.log_start_offset) == ([4, 8], 4)
    with pytest.raises(OffsetOutOfRangeError):
        log.read(3, 1000)
    assert offsets_of(log.read(4, 1000).records)[0] == 4


def test_the_active_segment_is_rolled_when_all_of_it_is_due(tmp_path: Path) -> None:
    log = _log(tmp_path, retention_ms=1000)
    _set_now(log, START_MS + 5000)
    assert finish(delete_old_segments(log)) == 3
    assert (_bases(log), log.log_start_offset, log.log_end_offset, log.high_watermark) == ([10], 10, 10, 10)
    assert finish(delete_old_segments(log)) == 0
    names = sorted(path.name for path in Path(log.directory).iterdir() if not path.name.endswith(".deleted"))
    assert names == [
        "00000000000000000010.index",
        "00000000000000000010.log",
        "00000000000000000010.snapshot",
        "00000000000000000010.timeindex",
        "leader-epoch-checkpoint",
    ]
    assert log.leader_epochs.entries == [(0, 10)]
    fill(log, 1)
    again = reopen(log)
    assert (again.log_start_offset, again.log_end_offset) == (10, 11)


def test_a_segment_with_a_young_record_keeps_later_segments(tmp_path: Path) -> None:
    log = _log(tmp_path, retention_ms=1000)
    log.segments.first.max_timestamp = START_MS + 4500
    _set_now(log, START_MS + 5000)
    assert finish(delete_old_segments(log)) == 0


def test_by_the_time_of_the_file_where_records_have_none(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=SEGMENT_BYTES, retention_ms=1000))
    for _ in range(10):
        log.append_as_leader(batch(timestamp=-1, value=VALUE), 0)
    log.update_high_watermark(10)
    for segment, modified_s in zip(log.segments, (5, 9, 9), strict=True):
        os.utime(segment.log.path, (modified_s, modified_s))
    _set_now(log, START_MS)
    config = LogConfig(segment_bytes=SEGMENT_BYTES, retention_ms=START_MS - 6000)
    log.update_config(config)
    assert finish(delete_old_segments(log)) == 1
    assert _bases(log) == [4, 8]


@pytest.mark.parametrize(
    ("retention_bytes", "expected"),
    [
        (10 * SIZE, [0, 4, 8]),
        (6 * SIZE + 1, [0, 4, 8]),
        (6 * SIZE, [4, 8]),
        (2 * SIZE + 1, [4, 8]),
        (2 * SIZE, [8]),
        (1, [8]),
        (0, [10]),
    ],
)
def test_by_size(tmp_path: Path, retention_bytes: int, expected: list[int]) -> None:
    log = _log(tmp_path, retention_bytes=retention_bytes)
    finish(delete_old_segments(log))
    assert _bases(log) == expected
    assert log.log_start_offset == expected[0]


@pytest.mark.parametrize("policy", [("delete",), ("compact",), ("compact", "delete")])
def test_segments_below_the_log_start_are_deleted_with_any_policy(tmp_path: Path, policy: tuple[str, ...]) -> None:
    log = _log(tmp_path, cleanup_policy=policy)
    log.advance_log_start_offset(7)
    assert finish(delete_old_segments(log)) == 1
    assert (_bases(log), log.log_start_offset) == ([4, 8], 7)
    log.advance_log_start_offset(10)
    assert finish(delete_old_segments(log)) == 1
    assert (_bases(log), log.log_start_offset) == ([8], 10)


def test_compacted_topics_keep_old_segments_unless_they_delete_too(tmp_path: Path) -> None:
    log = _log(tmp_path, retention_ms=1, retention_bytes=0, cleanup_policy=("compact",))
    _set_now(log, 2 * START_MS)
    assert finish(delete_old_segments(log)) == 0
    log.update_config(LogConfig(retention_ms=1, cleanup_policy=("compact", "delete")))
    assert finish(delete_old_segments(log)) == 3


def test_never_beyond_the_high_watermark(tmp_path: Path) -> None:
    log = _log(tmp_path, retention_ms=1, retention_bytes=0)
    _set_now(log, 2 * START_MS)
    for high_watermark, expected in ((3, [0, 4, 8]), (4, [4, 8]), (9, [8]), (10, [10])):
        log.high_watermark = high_watermark
        finish(delete_old_segments(log))
        assert _bases(log) == expected
        assert log.log_start_offset <= log.high_watermark


def test_epochs_producers_and_snapshots_follow(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=2 * len(produced(0)), retention_ms=1))
    for sequence in range(6):
        log.append_as_leader(produced(sequence), sequence // 3)
    log.update_high_watermark(3)
    assert log.producer_state.snapshot_offsets == [2, 4]
    _set_now(log, 2 * START_MS)
    finish(delete_old_segments(log))
    assert (_bases(log), log.leader_epochs.entries) == ([2, 4], [(0, 2), (1, 3)])
    log.update_high_watermark(6)
    finish(delete_old_segments(log))
    assert (_bases(log), log.leader_epochs.entries) == ([6], [(1, 6)])
    assert sorted(path.name for path in Path(log.directory).glob("*.snapshot")) == ["00000000000000000006.snapshot"]
    assert log.append_as_leader(produced(5), 1).duplicate
    assert log.append_as_leader(produced(6), 1).first_offset == 6
    assert log.recovery_point == 6


def test_an_error_of_the_disk_loses_no_segment_and_retention_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Files()
    log = open_log(tmp_path, LogConfig(segment_bytes=SEGMENT_BYTES, **KEEP), storage=Storage(ManualClock(), files))
    fill(log, 10)
    log.advance_log_start_offset(9)

    real_rename = files.rename

    def refused(path: str, target: str) -> None:
        if path.endswith("04.timeindex"):
            raise OSError("no")
        real_rename(path, target)

    log.update_config(LogConfig(retention_ms=1))
    _set_now(log, 2 * START_MS)
    with monkeypatch.context() as patched:
        patched.setattr(files, "rename", refused)
        with pytest.raises(KafkaStorageError, match="can't be trimmed"):
            finish(delete_old_segments(log))
    assert (_bases(log), log.log_start_offset) == ([4, 8, 10], 9)
    assert 9 in offsets_of(log.read(9, 1000).records)
    finish(delete_old_segments(log))
    assert _bases(log) == [10]
    assert sorted(path.name for path in Path(log.directory).glob("*.log*")) == [
        "00000000000000000000.log.deleted",
        "00000000000000000004.log.deleted",
        "00000000000000000008.log.deleted",
        "00000000000000000010.log",
    ]


def test_the_log_begins_above_what_was_deleted_though_the_disk_refuses_its_epochs(tmp_path: Path) -> None:
    disk = SimulatedDisk(str(tmp_path))
    log = open_log(
        tmp_path, LogConfig(segment_bytes=500, retention_ms=-1), storage=Storage(ManualClock(START_MS), disk)
    )
    fill(log, 10)
    log.update_config(LogConfig(segment_bytes=500, retention_ms=-1, retention_bytes=600))
    disk.fail(Fault(frozenset({"create"}), code=errno.EIO))
    with pytest.raises(KafkaStorageError, match="can't be trimmed"):
        finish(delete_old_segments(log))
    assert log.log_start_offset == log.segments.first.base_offset > 0
    with pytest.raises(OffsetOutOfRangeError):
        log.read(0, 1000)


def test_a_failed_roll_ends_the_retention(tmp_path: Path) -> None:
    disk = SimulatedDisk(str(tmp_path))
    log = open_log(
        tmp_path, LogConfig(retention_ms=-1, retention_bytes=0), storage=Storage(ManualClock(START_MS), disk)
    )
    fill(log, 2)
    disk.fail(Fault(frozenset({"create"}), code=errno.EIO))
    with pytest.raises(KafkaStorageError, match="can't be trimmed"):
        finish(delete_old_segments(log))
    assert (log.log_start_offset, len(log.segments)) == (0, 1)


def _log_of_segments(path: Path, count: int, **settings: int) -> Log:
    """A log of ``count`` segments with one record in each, 10 ms apart, and one of a single record after them."""
    log = open_log(path, LogConfig(segment_bytes=SIZE, **{**KEEP, **settings}))
    fill(log, count + 1)
    return log


@pytest.mark.parametrize("condition", ["time", "size", "start"])
def test_many_segments_are_deleted_in_steps(tmp_path: Path, condition: str, monkeypatch: pytest.MonkeyPatch) -> None:
    log = _log_of_segments(tmp_path, 40)
    sums: list[Log] = []
    size_bytes = Log.size_bytes.fget  # type: ignore[attr-defined]  # the property's function
    monkeypatch.setattr(Log, "size_bytes", property(lambda self: sums.append(self) or size_bytes(self)))
    if condition == "time":
        log.update_config(LogConfig(segment_bytes=SIZE, retention_ms=1))
        _set_now(log, START_MS + 10 * 40)
    elif condition == "size":
        log.update_config(LogConfig(segment_bytes=SIZE, retention_ms=-1, retention_bytes=SIZE))
    else:
        log.advance_log_start_offset(40)
    counts = [len(log.segments)]
    for _ in delete_old_segments(log):
        counts.append(len(log.segments))
        assert log.log_start_offset == (40 if condition == "start" else log.segments.first.base_offset)
    assert counts == [41, 41 - SEGMENTS_IN_A_STEP, 41 - 2 * SEGMENTS_IN_A_STEP]
    assert (_bases(log), log.log_start_offset) == ([40], 40)
    assert len(sums) == (condition == "size"), "the sizes are added up once"


def test_the_leader_epochs_are_written_once_for_many_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = _log_of_segments(tmp_path, 40, retention_bytes=SIZE)
    written: list[str] = []
    replace = Files.replace

    def record(self: Files, path: str, data: bytes, *, sync: bool = True) -> None:
        written.append(Path(path).name)
        replace(self, path, data, sync=sync)

    monkeypatch.setattr(Files, "replace", record)
    assert finish(delete_old_segments(log)) == 40
    assert written.count("leader-epoch-checkpoint") == 1
    assert (Path(log.directory) / "leader-epoch-checkpoint").read_text() == "0\n1\n0 40\n"


def test_a_process_that_dies_between_two_steps_leaves_a_log_without_the_deleted_segments(tmp_path: Path) -> None:
    log = _log_of_segments(tmp_path, 40, retention_bytes=0)
    next(delete_old_segments(log))
    assert "0 0" in (Path(log.directory) / "leader-epoch-checkpoint").read_text()
    again = reopen(log, clean=False)
    assert (_bases(again), again.log_start_offset) == (list(range(SEGMENTS_IN_A_STEP, 41)), SEGMENTS_IN_A_STEP)
    assert again.leader_epochs.entries == [(0, SEGMENTS_IN_A_STEP)]


def test_records_that_are_appended_between_two_steps_stay(tmp_path: Path) -> None:
    log = _log_of_segments(tmp_path, 40, retention_bytes=SIZE)
    for _ in delete_old_segments(log):
        fill(log, 1)
    assert _bases(log) == [40, 41, 42]


@pytest.mark.parametrize(
    ("change", "left"),
    [
        (lambda log: log.update_config(LogConfig(segment_bytes=SIZE, **KEEP)), 25),
        (lambda log: log.update_config(LogConfig(retention_bytes=SIZE, cleanup_policy=("compact",))), 25),
        (lambda log: log.truncate_to(SEGMENTS_IN_A_STEP + 3), 4),
        (lambda log: log.truncate_fully_and_start_at(5), 1),
        (lambda log: finish(delete_old_segments(log)), 3),
    ],
    ids=["no limit", "compacted", "truncated", "emptied", "another deletion"],
)
def test_a_change_between_two_steps_ends_the_deletion(
    tmp_path: Path, change: Callable[[Log], object], left: int
) -> None:
    log = _log_of_segments(tmp_path, 40, retention_bytes=3 * SIZE)
    steps = delete_old_segments(log)
    next(steps)
    change(log)
    finish(steps)
    assert len(log.segments) == left
    assert log.log_start_offset == log.segments.first.base_offset


def test_a_start_that_a_truncation_lowers_between_two_steps_keeps_later_segments(tmp_path: Path) -> None:
    log = _log_of_segments(tmp_path, 40)
    log.advance_log_start_offset(40)
    steps = delete_old_segments(log)
    next(steps)
    log.truncate_to(30)
    finish(steps)
    assert (_bases(log)[0], log.log_start_offset, log.log_end_offset) == (SEGMENTS_IN_A_STEP, 30, 30)
