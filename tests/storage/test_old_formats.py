"""Logs that hold message sets of formats 0 and 1, alone and beside batches of format 2."""

import os
from pathlib import Path

import pytest

from harness.storage.batches import START_MS, batch
from kafkapy.config.log_config import LogConfig
from kafkapy.platform.errors import KafkaStorageError
from kafkapy.records.errors import RecordBatchTooLargeError, UnsupportedForMessageFormatError
from kafkapy.records.record import Record, encode_legacy
from kafkapy.storage.log.log import Log
from kafkapy.storage.log.segment import TimestampOffset
from tests.storage.support import open_log, reopen

FORMATS = {0: "0.9.0", 1: "0.10.0", 2: "2.7"}


def entries(magic: int, first: int, count: int, *, codec: int = 0, value: bytes = b"v" * 50) -> bytes:
    records = [Record(b"k", value, START_MS + at, (), at) for at in range(first, first + count)]
    return encode_legacy(records, magic, compression=codec)


def filled(tmp_path: Path, magic: int, codec: int, **fields: int) -> Log:
    """A log with ten appends of three records, as a follower appends them, in small segments."""
    log = open_log(tmp_path, LogConfig(message_format_version=FORMATS[magic], segment_bytes=500, **fields))
    for first in range(0, 30, 3):
        log.append_as_follower(entries(magic, first, 3, codec=codec))
    log.update_high_watermark(30)
    return log


@pytest.mark.parametrize("codec", [0, 1])
@pytest.mark.parametrize("magic", [0, 1])
def test_every_offset_is_found(tmp_path: Path, magic: int, codec: int) -> None:
    log = filled(tmp_path, magic, codec, index_interval_bytes=200)
    assert len(log.segments) > 1
    for again in (log, reopen(log), reopen(log, clean=False)):
        assert again.log_end_offset == 30
        for offset in range(30):
            segment = again.segments.starting_at(again.segments.floor(offset))[0]
            found = segment.translate(offset)
            assert found is not None
            _, header, content = next(segment.batches(found[0], segment.size))
            assert header.size == found[1] == segment.batch_size(found[0]) == len(content)
            assert header.last_offset == (offset // 3 * 3 + 2 if codec else offset)
            read = again.read(offset, 10**6)
            assert len(read.records) == segment.size - found[0]


def test_a_segment_begins_at_the_logs_end_and_not_at_the_wrappers_offset(tmp_path: Path) -> None:
    """A wrapper has its last offset only: the next segment begins at the log's end, not at that offset."""
    log = filled(tmp_path, 1, 1)
    assert [segment.base_offset % 3 for segment in log.segments] == [0] * len(log.segments)


def test_a_gap_larger_than_a_segment_rolls(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(message_format_version="0.10.0"))
    log.append_as_follower(entries(1, 0, 1))
    log.append_as_follower(entries(1, 2**33, 1))
    assert [segment.base_offset for segment in log.segments] == [0, 2**33 - (2**31 - 1)]
    assert reopen(log, clean=False).log_end_offset == 2**33 + 1


def test_the_shortest_entry_at_the_end(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(message_format_version="0.9.0"))
    shortest = encode_legacy([Record(None, None, -1, (), 0)], 0)
    log.append_as_follower(shortest)
    segment = log.segments.active
    assert segment.translate(0) == (0, len(shortest))
    assert segment.translate(1) is None
    segment.size += 10
    with pytest.raises(KafkaStorageError, match="ends before"):
        segment.translate(1)


def test_damage_is_cut_off(tmp_path: Path) -> None:
    log = filled(tmp_path, 0, 0)
    path = log.segments.active.log.path
    base, size = log.segments.active.base_offset, log.segments.active.size
    log.release()
    with open(path, "r+b") as file:
        file.seek(size - 3)
        file.write(b"XXX")
    again = reopen(log, clean=False)
    assert (again.segments.active.base_offset, again.log_end_offset) == (base, 29)


def test_format_0_has_the_files_time_in_place_of_a_time_index(tmp_path: Path) -> None:
    log = filled(tmp_path, 0, 0)
    for number, segment in enumerate(log.segments):
        assert (segment.time_index.entries, segment.max_timestamp) == (0, -1)
        os.utime(segment.log.path, ns=(0, (START_MS + number) * 1_000_000))
        assert segment.largest_timestamp == START_MS + number
    with pytest.raises(UnsupportedForMessageFormatError):
        log.lookup_timestamp(0)


def test_a_search_by_time_goes_on_after_a_segment_without_timestamps(tmp_path: Path) -> None:
    """The time of its file says that it may hold the time; none of its records does."""
    log = open_log(tmp_path)
    log.append_as_follower(entries(0, 0, 3))
    log.roll()
    log.append_as_follower(entries(1, 3, 3))
    first = log.segments.first
    os.utime(first.log.path, ns=(0, START_MS * 1_000_000))
    assert log.lookup_timestamp(START_MS) == TimestampOffset(3, START_MS + 3)
    assert log.lookup_timestamp(START_MS + 4) == TimestampOffset(4, START_MS + 4)


@pytest.mark.parametrize("codec", [0, 1])
def test_offsets_by_time_in_format_1(tmp_path: Path, codec: int) -> None:
    log = filled(tmp_path, 1, codec)
    for offset in (0, 4, 29):
        assert log.lookup_timestamp(START_MS + offset) == TimestampOffset(offset, START_MS + offset)
    assert log.lookup_timestamp(START_MS + 30) is None


def test_segment_times_end_with_now(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(message_format_version="0.10.0"))
    assert [offset for offset, _ in log.segment_times()] == [0]
    log.append_as_follower(entries(1, 0, 3))
    log.roll()
    log.append_as_follower(entries(1, 3, 2))
    log.update_high_watermark(5)
    log.advance_log_start_offset(1)
    os.utime(log.segments.first.log.path, ns=(0, 7_000_000))
    times = log.segment_times()
    assert [offset for offset, _ in times] == [1, 3, 5]
    assert (times[0][1], times[2][1]) == (7, START_MS)


def test_epochs_are_kept_for_format_2_only(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    path = Path(log.leader_epochs.path)
    log.append_as_leader(batch(), 3)
    assert log.leader_epochs.latest == 3
    log.update_config(LogConfig(message_format_version="0.10.0"))
    assert (log.leader_epochs.latest, path.exists()) == (-1, False)
    log.leader_epochs.assign(4, 1)
    log.leader_epochs.rebuild([])
    log.leader_epochs.clear()
    assert (log.leader_epochs.end_offset_for(4), path.exists()) == ((-1, -1), False)
    again = reopen(log, clean=False)
    assert (again.leader_epochs.latest, path.exists()) == (-1, False)
    again.update_config(LogConfig())
    again.append_as_leader(batch(), 5)
    assert again.leader_epochs.end_offset_for(5) == (5, 2)
    assert again.leader_epochs.epoch_for(0) == -1


def test_an_old_batch_after_new_ones_clears_the_epochs(tmp_path: Path) -> None:
    """As Kafka does on a follower whose leader uses an older format again: the epochs would be wrong."""
    log = open_log(tmp_path)
    log.append_as_follower(batch(partition_leader_epoch=2))
    assert log.leader_epochs.latest == 2
    log.append_as_follower(entries(1, 1, 1))
    assert log.leader_epochs.latest == -1


def test_a_mixed_log_is_truncated_and_recovered(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append_as_follower(entries(0, 0, 3))
    log.append_as_follower(entries(1, 3, 3, codec=1))
    log.append_as_follower(batch(3, timestamp=START_MS + 6, base_offset=6, partition_leader_epoch=1))
    for clean in (True, False):
        log = reopen(log, clean=clean)
        assert [header.magic for _, header, _ in log.segments.active.batches(0, log.size_bytes)] == [0, 0, 0, 1, 2]
        assert log.lookup_timestamp(START_MS + 4) == TimestampOffset(4, START_MS + 4)
    log.truncate_to(6)
    assert (log.log_end_offset, log.segments.active.max_timestamp) == (6, START_MS + 5)
    log.truncate_to(4)  # within the wrapper: all of it goes, and the next record comes at 4
    assert (log.log_end_offset, log.segments.active.max_timestamp) == (4, -1)


@pytest.mark.parametrize("codec", [0, 1])
@pytest.mark.parametrize("magic", [0, 1])
def test_a_leader_writes_the_format_that_is_configured(tmp_path: Path, magic: int, codec: int) -> None:
    log = open_log(tmp_path, LogConfig(message_format_version=FORMATS[magic]))
    for sent in (entries(0, 0, 3, codec=codec), entries(1, 0, 2, codec=codec), batch(4, compression=codec)):
        before = log.log_end_offset
        result = log.append_as_leader(bytearray(sent), 7)
        assert (result.first_offset, result.log_append_time_ms) == (before, -1)
        assert log.log_end_offset == result.last_offset + 1
        assert log.tail[before] == log.size_bytes - result.size
        # a read at the tail begins with the very append
        assert len(log.read(before, 10**6).records) == result.size
    assert log.log_end_offset == 9
    assert {header.magic for _, header, _ in log.segments.active.batches(0, log.size_bytes)} == {magic}
    assert log.leader_epochs.latest == -1
    assert reopen(log, clean=False).log_end_offset == 9


def test_formats_change_while_the_log_is_written(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append_as_leader(batch(2), 1)
    log.update_config(LogConfig(message_format_version="0.10.0"))
    log.append_as_leader(batch(2), 1)
    log.update_config(LogConfig())
    log.append_as_leader(bytearray(entries(0, 0, 2)), 1)
    assert [header.magic for _, header, _ in log.segments.active.batches(0, log.size_bytes)] == [2, 1, 1, 2]
    assert log.leader_epochs.entries == [(1, 4)]
    assert reopen(log, clean=False).leader_epochs.entries == [(1, 0)]


def test_a_refused_message_set_keeps_the_leader_epochs(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=200))
    log.append_as_leader(batch(1), 0)
    assert log.leader_epochs.entries == [(0, 0)]
    with pytest.raises(RecordBatchTooLargeError):
        log.append_as_follower(entries(1, 1, 3))
    assert log.leader_epochs.entries == [(0, 0)]
    assert log.log_end_offset == 1
    log.append_as_follower(entries(1, 1, 1))
    assert log.leader_epochs.entries == []


def test_log_append_time_of_old_formats(tmp_path: Path) -> None:
    config = LogConfig(message_format_version="0.10.0", message_timestamp_type="LogAppendTime")
    log = open_log(tmp_path, config)
    log.storage.clock.advance(50)  # type: ignore[attr-defined]  # the clock of these tests
    result = log.append_as_leader(bytearray(entries(1, 0, 2)), 0)
    assert result.log_append_time_ms == START_MS + 50
    assert log.lookup_timestamp(START_MS + 50) == TimestampOffset(0, START_MS + 50)
