import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

from harness.storage.batches import START_MS, batch, marker, produced
from kafkapy.config.log_config import LogConfig
from kafkapy.platform.errors import KafkaStorageError
from kafkapy.platform.files import Descriptor, Files
from kafkapy.platform.flusher import InlineFlusher
from kafkapy.records.batch import assign, iterate_headers, read_header
from kafkapy.records.control import ControlType, Marker, marker_batch
from kafkapy.records.errors import CorruptRecordError, InvalidRecordError, RecordBatchTooLargeError
from kafkapy.records.record import encode_batch
from kafkapy.storage.errors import (
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
    UnexpectedAppendOffsetError,
)
from kafkapy.storage.log.log import TAIL_BATCHES, Log, Storage
from kafkapy.testing.clock import ManualClock
from tests.storage.support import contents, fill, open_log, reopen


class FullDisk(Files):
    """Writes half of the bytes and fails, once ``is_full``."""

    is_full = False

    def write_at(self, descriptor: Descriptor, data: bytes | bytearray | memoryview, position: int) -> None:
        if self.is_full:
            super().write_at(descriptor, memoryview(data)[: len(data) // 2], position)
            raise OSError(28, "No space left on device")
        super().write_at(descriptor, data, position)


class NoFlusher(InlineFlusher):
    """Does no fsync, so that many segments can be made in little time."""

    def run(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        done()


def _calls_of(log: Log, appends: int) -> int:
    """The number of function calls, including those of C functions, of appends and reads at the end."""
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event.endswith("call")

    batches = [batch() for _ in range(appends)]
    sys.setprofile(count)
    try:
        for each in batches:
            log.append_as_leader(each, 0)
            log.read(log.log_end_offset - 1, 1_000_000)
    finally:
        sys.setprofile(None)
    return calls


def test_an_append_costs_the_same_in_a_log_of_any_length(tmp_path: Path) -> None:
    log = open_log(tmp_path, storage=Storage(ManualClock(START_MS), flusher=NoFlusher()))
    calls = []
    for segments in (2, 20, 500):
        while len(log.segments) < segments:
            log.append_as_leader(batch(), 0)
            log.roll()
        log.append_as_leader(batch(), 0)
        calls.append(_calls_of(log, 20))
    assert calls[0] == calls[1] == calls[2] > 0


def _bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def test_offsets_and_epoch_are_written_in_place(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append_as_leader(batch(3), 5)
    content = batch(2)
    result = log.append_as_leader(memoryview(content), 5)
    assert (result.first_offset, result.last_offset, result.size, result.duplicate) == (3, 4, len(content), False)
    assert (result.max_timestamp, result.log_append_time_ms, result.log_start_offset) == (START_MS + 1, -1, 0)
    header = read_header(content)
    assert (header.base_offset, header.partition_leader_epoch) == (3, 5)
    assert (log.log_end_offset, log.leader_epochs.entries) == (5, [(5, 0)])


def test_log_append_time_is_the_clocks(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(message_timestamp_type="LogAppendTime"))
    result = log.append_as_leader(batch(2, timestamp=5), 0)
    assert (result.max_timestamp, result.log_append_time_ms) == (START_MS, START_MS)
    assert log.segments.active.max_timestamp_offset == 1


def test_a_refused_batch_leaves_no_trace(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append_as_leader(produced(0), 0)
    before = contents(tmp_path)
    broken = produced(1)
    broken[-1] ^= 1
    for content, error in (
        (broken, CorruptRecordError),
        (marker(commit=True), InvalidRecordError),
        (produced(7), OutOfOrderSequenceError),
    ):
        with pytest.raises(error):
            log.append_as_leader(content, 0)
    assert (contents(tmp_path), log.log_end_offset) == (before, 1)


def test_a_full_disk_leaves_no_half_batch(tmp_path: Path) -> None:
    files = FullDisk()
    log = open_log(tmp_path, storage=Storage(ManualClock(START_MS), files))
    log.append_as_leader(batch(), 0)
    size = log.size_bytes
    files.is_full = True
    with pytest.raises(KafkaStorageError, match="No space left"):
        log.append_as_leader(produced(0), 0)
    assert (Path(log.segments.active.log.path).stat().st_size, log.log_end_offset) == (size, 1)
    files.is_full = False
    assert log.append_as_leader(produced(0), 0).first_offset == 1


def test_a_duplicate_is_answered_with_its_first_offset(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for sequence in range(6):
        log.append_as_leader(produced(sequence), 0)
    again = log.append_as_leader(produced(2), 0)
    assert (again.first_offset, again.last_offset, again.duplicate) == (2, 2, True)
    assert again.log_append_time_ms == START_MS
    with pytest.raises(OutOfOrderSequenceError):
        log.append_as_leader(produced(0), 0)
    assert log.log_end_offset == 6


@pytest.mark.parametrize("sequence", [1, 9])
def test_a_refused_or_repeated_batch_rolls_a_full_segment(tmp_path: Path, sequence: int) -> None:
    """As in Kafka: clients see it in the list of the segments' starts (ListOffsets v0)."""
    size = len(produced(0))
    log = open_log(tmp_path, LogConfig(segment_bytes=2 * size))
    for each in range(2):
        log.append_as_leader(produced(each), 0)
    for _ in range(2):
        if sequence == 1:
            assert log.append_as_leader(produced(1), 0).duplicate
        else:
            with pytest.raises(OutOfOrderSequenceError):
                log.append_as_leader(produced(9), 0)
        assert (_bases(log), log.log_end_offset) == ([0, 2], 2)
    log.append_as_leader(produced(2), 0)
    assert (_bases(log), log.log_end_offset) == ([0, 2], 3)


def test_a_failed_roll_is_reported_before_the_producers_error(tmp_path: Path) -> None:
    files = FullDisk()
    size = len(produced(0))
    log = open_log(tmp_path, LogConfig(segment_bytes=size), storage=Storage(ManualClock(START_MS), files))
    log.append_as_leader(produced(0), 0)
    files.is_full = True
    with pytest.raises(KafkaStorageError):
        log.append_as_leader(produced(9), 0)
    files.is_full = False
    assert log.append_as_leader(produced(1), 0).first_offset == 1


def test_a_batch_too_large_for_a_segment_is_refused_before_its_sequence_is_checked(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=200))
    log.append_as_leader(produced(0), 0)
    for sequence in (0, 1, 9):
        with pytest.raises(RecordBatchTooLargeError):
            log.append_as_leader(produced(sequence, value=bytes(200)), 0)


def test_transactions_hold_the_last_stable_offset(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append_as_leader(produced(0, transactional=True), 0)
    log.update_high_watermark(1)
    assert log.last_stable_offset == 0
    log.append_as_leader(marker(commit=False), 0, from_client=False)
    assert log.last_stable_offset == 0
    log.append_as_leader(marker(commit=True), 0, from_client=False)
    log.update_high_watermark(3)
    assert log.last_stable_offset == 3
    assert log.aborted_transactions(0, 3) == [(7, 0)]


@pytest.mark.parametrize("timestamp_type", ["CreateTime", "LogAppendTime"])  # with the latter the batch is changed
@pytest.mark.parametrize("is_known", [False, True])
def test_a_marker_that_is_known_to_be_valid_is_as_any_other(
    tmp_path: Path, timestamp_type: str, is_known: bool
) -> None:
    log = open_log(tmp_path, LogConfig(message_timestamp_type=timestamp_type))
    log.append_as_leader(produced(0, transactional=True), 0)
    own = marker_batch(ControlType.ABORT, Marker(7, 0, 4), START_MS)
    appended = log.append_as_leader(own if is_known else bytearray(own.buffer), 0, from_client=False)
    log.update_high_watermark(2)
    assert (appended.first_offset, log.last_stable_offset, log.aborted_transactions(0, 2)) == (1, 2, [(7, 0)])
    with pytest.raises(TransactionCoordinatorFencedError):
        log.append_as_leader(marker_batch(ControlType.COMMIT, Marker(7, 0, 3), START_MS), 0, from_client=False)
    (written,) = (data for name, data in contents(tmp_path).items() if name.endswith(".log"))
    (_, header) = list(iterate_headers(written))[1]
    assert (header.is_control, header.timestamp_type) == (True, int(timestamp_type == "LogAppendTime"))


def test_rolls_by_size(tmp_path: Path) -> None:
    size = len(batch(value=b"v" * 100))
    log = open_log(tmp_path, LogConfig(segment_bytes=3 * size))
    fill(log, 7)
    assert _bases(log) == [0, 3, 6]
    with pytest.raises(RecordBatchTooLargeError, match=f"segment.bytes, {3 * size}"):
        log.append_as_leader(batch(value=b"v" * 1000), 0)


def test_rolls_by_the_records_time(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_ms=1000))
    for timestamp in (0, 1000, 1001, 1500):
        log.append_as_leader(batch(timestamp=START_MS + timestamp), 0)
    assert _bases(log) == [0, 2]


def test_jitter_rolls_earlier(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_ms=1000, segment_jitter_ms=1000))
    assert 0 <= log.segments.active.roll_jitter_ms < 1000


def test_rolls_when_an_index_is_full(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_index_bytes=24, index_interval_bytes=0))
    fill(log, 5)
    assert _bases(log) == [0, 2, 4]


@pytest.mark.parametrize("is_changed_later", [False, True])
def test_an_index_interval_counts_up_to_a_mebibyte(tmp_path: Path, is_changed_later: bool) -> None:
    config = LogConfig(index_interval_bytes=2**31 - 1)
    log = open_log(tmp_path, LogConfig() if is_changed_later else config)
    log.update_config(config)
    fill(log, 5, value=bytes(600_000))
    index = log.segments.active.offset_index
    assert [index.entry(number)[0] for number in range(index.entries)] == [2, 4]


def test_rolls_when_offsets_no_longer_fit(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 1)
    log.append_as_follower(batch(base_offset=2**31))
    assert _bases(log) == [0, 1], "it begins at the log's end if all offsets fit"
    log.append_as_follower(batch(base_offset=2**32 + 1))
    assert _bases(log) == [0, 1, 2**32 + 1]
    assert log.log_end_offset == 2**32 + 2


def test_rolling_an_empty_segment_keeps_it(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    assert log.roll() is log.segments.active
    fill(log, 1)
    assert log.roll().base_offset == 1
    assert (log.recovery_point, log.producer_state.snapshot_offsets) == (1, [1])
    assert log.roll(10).base_offset == 10
    assert log.producer_state.snapshot_offsets == [1, 10]


def test_a_follower_writes_the_leaders_batches(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    sent = batch(2, partition_leader_epoch=3) + batch(base_offset=5, partition_leader_epoch=4, timestamp=START_MS - 9)
    result = log.append_as_follower(sent + batch(base_offset=6)[:-1])
    assert (result.first_offset, result.last_offset, result.max_timestamp) == (0, 5, START_MS + 1)
    assert Path(log.segments.active.log.path).read_bytes() == sent
    assert (log.log_end_offset, log.leader_epochs.entries) == (6, [(3, 0), (4, 5)])
    aborted = produced(0, transactional=True), marker(commit=False)
    for offset, content in enumerate(aborted, 6):
        content[:8] = offset.to_bytes(8)
        log.append_as_follower(content)
    assert list(log.segments.active.transaction_index) == [(7, 6, 7, 8)]


def test_a_follower_refuses_batches_that_do_not_continue_its_log(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 2)
    broken = batch(base_offset=2)
    broken[-1] ^= 1
    with pytest.raises(CorruptRecordError):
        log.append_as_follower(broken)
    for sent in (
        batch(base_offset=1),
        batch(base_offset=3) + batch(base_offset=2),
        encode_batch([], base_offset=2),
        b"",
    ):
        with pytest.raises(UnexpectedAppendOffsetError):
            log.append_as_follower(sent)
    assert log.log_end_offset == 2


def test_flush_messages_moves_the_recovery_point(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(flush_messages=3))
    points = []
    for _ in range(4):
        log.append_as_leader(batch(), 0)
        points.append(log.recovery_point)
    assert points == [0, 0, 3, 3]


def test_only_the_last_batches_are_remembered(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 10 * TAIL_BATCHES, value=b"")
    assert len(log.tail) <= TAIL_BATCHES
    assert log.log_end_offset - 1 in log.tail


def test_appends_continue_after_a_restart(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=2000))
    fill(log, 20)
    log = reopen(log)
    fill(log, 20)
    headers = [
        header.base_offset
        for segment in log.segments
        for _, header in iterate_headers(Path(segment.log.path).read_bytes())
    ]
    assert headers == list(range(40))


@pytest.mark.parametrize("is_leader", [True, False])
def test_the_epoch_of_a_batch_that_was_refused_counts_from_the_next_one(tmp_path: Path, is_leader: bool) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=200))
    large = batch(value=b"x" * 300)
    assign(large, 0, 5, 3)
    with pytest.raises(RecordBatchTooLargeError):
        log.append_as_follower(large)
    if is_leader:
        log.append_as_leader(batch(), 3)
    else:
        small = batch()
        assign(small, 0, 0, 3)
        log.append_as_follower(small)
    assert log.leader_epochs.entries == [(3, 0)]
