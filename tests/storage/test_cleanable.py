"""The clean and dirty parts of a log, and whether its compaction is due."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.storage.batches import START_MS, marker
from kafkapy.config.log_config import LogConfig
from kafkapy.storage.compaction.cleanable import examine
from kafkapy.storage.log.log import Log
from tests.storage.compacting import COMPACT, append, close_segment
from tests.storage.support import open_log

HOUR_MS = 3_600_000


def four_segments(directory: Path, config: LogConfig = COMPACT) -> Log:
    """Three closed segments of two records each, an hour apart, and an active one."""
    log = open_log(directory, config)
    for number in range(3):
        append(log, (b"a", b"x" * 100), (b"b", b"y" * 100), timestamp=START_MS + number * HOUR_MS)
        close_segment(log)
    append(log, (b"a", b"x"))
    log.storage.clock.advance(3 * HOUR_MS)  # type: ignore[attr-defined]  # a ManualClock
    return log


def test_all_but_the_active_segment_is_dirty_at_first(tmp_path: Path) -> None:
    log = four_segments(tmp_path)
    found = examine(log, None)
    size = log.segments.first.size
    assert found[1:] == (0, 6, 0, 3 * size, False)
    assert (found.ratio, found.is_due) == (1.0, True)


@pytest.mark.parametrize(
    ("checkpoint", "dirty", "clean_segments", "dirty_segments"),
    [(2, 2, 1, 2), (6, 6, 3, 0), (3, 3, 2, 2), (7, 7, 4, 0), (8, 0, 0, 3)],
)
def test_the_clean_part_ends_at_the_checkpoint(
    tmp_path: Path, checkpoint: int, dirty: int, clean_segments: int, dirty_segments: int
) -> None:
    log = four_segments(tmp_path)
    sizes = [segment.size for segment in log.segments]
    found = examine(log, checkpoint)
    assert found.first_dirty_offset == dirty
    assert found.clean_bytes == sum(sizes[:clean_segments])
    assert found.cleanable_bytes == sizes[0] * dirty_segments
    assert found.is_due == (dirty_segments > 0)


def test_segments_below_the_log_start_are_not_counted(tmp_path: Path) -> None:
    log = four_segments(tmp_path)
    log.advance_log_start_offset(3)
    assert examine(log, 1).first_dirty_offset == 3


def test_a_log_without_closed_segments_has_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path, COMPACT)
    append(log, (b"a", b"x"))
    found = examine(log, None)
    assert (found.cleanable_bytes, found.ratio, found.is_due) == (0, 0.0, False)


def test_young_records_are_not_cleanable(tmp_path: Path) -> None:
    log = four_segments(tmp_path, replace(COMPACT, min_compaction_lag_ms=2 * HOUR_MS - 10))
    assert examine(log, None).first_uncleanable_offset == 4
    log.update_config(replace(COMPACT, min_compaction_lag_ms=4 * HOUR_MS))
    assert not examine(log, None).is_due
    log.update_config(replace(COMPACT, min_compaction_lag_ms=1))
    assert examine(log, None).first_uncleanable_offset == 6


def test_a_file_without_timestamps_is_as_old_as_its_last_change(tmp_path: Path) -> None:
    log = four_segments(tmp_path, replace(COMPACT, min_compaction_lag_ms=4 * HOUR_MS))
    for number, segment in enumerate(log.segments):
        segment.max_timestamp = -1
        log.storage.files.set_modified_ms(segment.log.path, START_MS - 2 * HOUR_MS if number < 2 else START_MS)
    assert examine(log, None).first_uncleanable_offset == 4


def test_a_log_with_old_dirty_records_is_overdue(tmp_path: Path) -> None:
    """max.compaction.lag.ms counts from the first batch of a dirty segment, however clean the log is."""
    config = replace(COMPACT, max_compaction_lag_ms=2 * HOUR_MS, min_cleanable_dirty_ratio=1.0)
    log = four_segments(tmp_path, config)
    assert examine(log, 0).is_due
    assert not examine(log, 4).is_due
    assert not examine(log, 6).is_due, "nothing is dirty"


def test_open_transactions_and_unreplicated_records_are_not_cleanable(tmp_path: Path) -> None:
    log = four_segments(tmp_path)
    log.high_watermark = 3
    assert examine(log, None).first_uncleanable_offset == 2
    log.update_high_watermark(7)
    append(log, (b"a", b"t"), producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    close_segment(log)
    append(log, (b"a", b"x"))
    close_segment(log)
    assert examine(log, None).first_uncleanable_offset == 6
    log.append_as_leader(marker(commit=False), 0, from_client=False)
    log.update_high_watermark(log.log_end_offset)
    assert examine(log, None).first_uncleanable_offset == 9


def test_records_that_are_not_on_the_disk_are_not_cleanable(tmp_path: Path) -> None:
    log = four_segments(tmp_path)
    log.recovery_point = 3
    assert examine(log, None).first_uncleanable_offset == 2
