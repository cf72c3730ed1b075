import errno
from pathlib import Path

import pytest

from harness.storage.batches import START_MS, batch, marker, produced
from kafkapy.config.log_config import LogConfig
from kafkapy.platform.errors import KafkaStorageError
from kafkapy.storage.errors import OffsetOutOfRangeError
from kafkapy.storage.log.index import OffsetIndex
from kafkapy.storage.log.log import Log
from tests.storage.support import fill, offsets_of, open_log, reopen

SIZE = len(batch(value=b"v" * 100))


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Ten batches of one record in segments of four."""
    log = open_log(tmp_path, LogConfig(segment_bytes=4 * SIZE))
    fill(log, 10)
    return log


def test_every_offset_is_found_in_its_segment(log: Log) -> None:
    for offset in range(10):
        read = log.read(offset, 10**6)
        assert offsets_of(read.records) == list(range(offset, min(offset // 4 * 4 + 4, 10)))


def test_every_offset_is_found_without_the_positions_of_the_tail(log: Log) -> None:
    again = reopen(log)
    assert [offsets_of(again.read(offset, 1).records) for offset in range(10)] == [[offset] for offset in range(10)]


@pytest.mark.parametrize(
    ("max_bytes", "size"), [(0, SIZE), (1, SIZE), (SIZE, SIZE), (SIZE + 10, SIZE + 10), (2 * SIZE, 2 * SIZE)]
)
def test_the_first_batch_is_whole_and_the_last_may_be_cut(log: Log, max_bytes: int, size: int) -> None:
    assert len(log.read(8, max_bytes).records) == size


def test_without_min_one_batch_nothing_larger_comes(log: Log) -> None:
    assert log.read(8, SIZE - 1, min_one_batch=False).records == b""
    assert len(log.read(8, SIZE, min_one_batch=False).records) == SIZE


def test_the_bound_is_on_a_batchs_edge(log: Log) -> None:
    assert offsets_of(log.read(8, 10**6, up_to_offset=9).records) == [8]
    assert offsets_of(log.read(4, 10**6, up_to_offset=6).records) == [4, 5]
    assert offsets_of(log.read(2, 10**6, up_to_offset=9).records) == [2, 3]
    assert offsets_of(log.read(8, 10**6, up_to_offset=99).records) == [8, 9]
    assert log.read(6, 10**6, up_to_offset=6).records == b""
    assert log.read(6, 10**6, up_to_offset=3).records == b""


def test_a_bound_within_a_batch_leaves_it_out(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 2, 5)
    assert offsets_of(log.read(0, 10**6, up_to_offset=7).records) == [0]
    assert log.read(6, 10**6, up_to_offset=8).records == b""
    assert offsets_of(log.read(7, 10**6).records) == [5]


def test_the_end_is_empty_and_beyond_it_an_error(log: Log) -> None:
    assert log.read(10, 10**6).records == b""
    log.advance_log_start_offset(5)
    for offset in (4, 11, -1):
        with pytest.raises(OffsetOutOfRangeError, match=f"Offset {offset} of orders-0 is not between 5 and 10"):
            log.read(offset, 10**6)


def test_offsets_that_a_segment_no_longer_holds_are_found_in_the_next(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append_as_follower(batch(2))
    log.roll(10)
    log.append_as_follower(batch(base_offset=20))
    assert offsets_of(log.read(5, 10**6).records) == [20]
    log.roll(30)
    log.append_as_follower(batch(base_offset=31))
    log.truncate_to(31)
    assert log.read(25, 10**6).records == b""


def test_the_tail_is_read_without_a_search(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkapy.storage.log.segment.Segment.translate", None)
    assert offsets_of(log.read(9, 10**6, up_to_offset=10).records) == [9]
    assert log.read(10, 10**6).records == b""


def test_aborted_transactions_of_a_range(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for sequence in range(3):
        log.append_as_leader(produced(sequence, transactional=True), 0)
        log.append_as_leader(marker(commit=False), 0, from_client=False)
        log.roll()
    assert log.aborted_transactions(0, 6) == [(7, 0), (7, 2), (7, 4)]
    assert log.aborted_transactions(2, 4) == [(7, 2)]
    assert log.aborted_transactions(5, 6) == [(7, 4)]
    assert log.aborted_transactions(6, 6) == []


def test_the_upper_bound_is_above_the_records_read(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(index_interval_bytes=0))
    for _ in range(4):
        log.append_as_leader(batch(), 0)
    log.roll()
    log.append_as_leader(batch(), 0)
    size = len(log.read(3, 10**6).records)
    assert log.upper_bound(log.read(0, size)) == 1, "the next entry of the index"
    assert log.upper_bound(log.read(0, 10**6)) == 4, "the next segment"
    assert log.upper_bound(log.read(4, 10**6)) == 5, "the end"


def test_transactions_that_ended_earlier_are_left_out(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for sequence in range(3):
        log.append_as_leader(produced(sequence, transactional=True), 0)
        log.append_as_leader(marker(commit=False), 0, from_client=False)
    assert log.aborted_transactions(2, 6) == [(7, 2), (7, 4)]


def test_timestamps(log: Log) -> None:
    assert log.lookup_timestamp(0) == (0, START_MS)
    assert log.lookup_timestamp(START_MS + 45) == (5, START_MS + 50)
    assert log.lookup_timestamp(START_MS + 91) is None
    log.advance_log_start_offset(3)
    assert log.lookup_timestamp(START_MS) == (3, START_MS + 30)


def test_an_empty_log_has_no_timestamps(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    assert log.lookup_timestamp(-1) is None


def test_an_index_that_can_not_be_read_is_a_storage_error(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the error could end another client's connection, during whose request a waiting fetch reads."""

    def refuse(*_: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(OffsetIndex, "offset_from", refuse)
    with pytest.raises(KafkaStorageError, match="can't be read"):
        log.upper_bound(log.read(0, SIZE))


def test_positions_of_offsets(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    positions = [(offset // 4 * 4, offset % 4 * SIZE) for offset in range(11)]
    assert [log.locate(offset) for offset in range(11)] == positions
    assert log.locate(99) == log.locate(10), "there is nothing beyond the end"
    log.roll()
    assert log.locate(10) == (10, 0)

    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("kafkapy.storage.log.segment.Segment.translate", refuse)
    with pytest.raises(KafkaStorageError, match="can't be read"):
        log.locate(3)


def test_positions_of_offsets_that_no_batch_has(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append_as_follower(batch(2))
    log.roll(10)
    log.append_as_follower(batch(base_offset=20))
    assert log.locate(5) == (10, 0)
    log.roll(30)
    log.append_as_follower(batch(base_offset=31))
    log.truncate_to(31)
    assert log.locate(25) == (30, 0)
