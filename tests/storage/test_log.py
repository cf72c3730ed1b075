from pathlib import Path

import pytest

from harness.storage.batches import START_MS, batch, produced
from kafkapy.config.log_config import LogConfig
from kafkapy.records.batch import read_header
from kafkapy.storage.errors import OffsetOutOfRangeError
from kafkapy.turns import finish
from tests.storage.support import contents, fill, open_log, reopen


def test_the_high_watermark_stays_within_the_log(tmp_path: Path) -> None:
    log = open_log(tmp_path, start=10)
    log.append_as_leader(batch(5), 0)
    assert [log.update_high_watermark(offset) for offset in (3, 12, 99)] == [10, 12, 15]
    assert (log.high_watermark, log.last_stable_offset) == (15, 15)
    assert repr(log) == "<Log orders-0 10..15..15>"


def test_the_log_start_moves_up_to_the_high_watermark(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append_as_leader(batch(10), 4)
    log.update_high_watermark(8)
    with pytest.raises(OffsetOutOfRangeError, match="above its high watermark 8"):
        log.advance_log_start_offset(9)
    log.advance_log_start_offset(6)
    log.advance_log_start_offset(3)
    assert (log.log_start_offset, log.leader_epochs.entries) == (6, [(4, 6)])


def test_an_open_transaction_below_the_log_start(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append_as_leader(produced(0, 5, transactional=True), 0)
    log.update_high_watermark(5)
    log.advance_log_start_offset(3)
    assert log.last_stable_offset == 3


def test_configuration_changes_hold_from_the_next_append(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.update_config(LogConfig(compression_type="zstd", cleanup_policy=("compact",), segment_ms=1))
    log.append_as_leader(batch(value=b"v" * 1000), 0)
    content = log.read(0, 10**6).records
    assert not isinstance(content, bytes)
    assert read_header(content.read()).compression == 4
    assert log.policy.key_required


def test_flush_makes_indexes_durable_and_moves_the_recovery_point(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 100)
    assert log.recovery_point == 0
    log.flush()
    log.flush()
    assert log.recovery_point == 100
    assert Path(log.segments.active.offset_index.path).stat().st_size == 8 * log.segments.active.offset_index.entries


def test_a_clean_close_and_open_change_no_file(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=5000))
    fill(log, 100)
    again = reopen(log)
    before = contents(tmp_path)
    reopen(again)
    assert contents(tmp_path) == before
    assert (again.high_watermark, again.recovery_point, again.lookup_timestamp(START_MS + 505)) == (
        100,
        100,
        (51, START_MS + 510),
    )


def test_only_snapshots_that_may_be_needed_stay(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for _ in range(4):
        fill(log, 1)
        log.roll()
    assert log.producer_state.snapshot_offsets == [1, 2, 3, 4]
    finish(log.delete_old_snapshots())
    assert log.producer_state.snapshot_offsets == [3, 4]
    log.recovery_point = 0
    finish(log.delete_old_snapshots())
    assert log.producer_state.snapshot_offsets == [3, 4]
    assert sorted(path.stem for path in Path(log.directory).glob("*.snapshot")) == [f"{n:020d}" for n in (3, 4)]
