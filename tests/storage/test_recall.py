from pathlib import Path

import pytest

from harness.storage.batches import PARTITION, START_MS, batch, marker, produced
from kafkapy.config.log_config import LogConfig
from kafkapy.platform.disk_errors import as_storage_error
from kafkapy.platform.files import Files
from kafkapy.records.batch import read_header
from kafkapy.records.record import Record, encode_legacy
from kafkapy.storage.checkpoints import Checkpointed
from kafkapy.storage.errors import OutOfOrderSequenceError, UnrecalledBatchError
from kafkapy.storage.log.log import Log, Storage
from kafkapy.storage.log.producer_state import PRODUCERS_IN_A_STEP
from kafkapy.storage.log.recall import SIZES_IN_A_STEP
from kafkapy.storage.log_manager import LogManager
from kafkapy.storage.log_manager_start import load_logs
from kafkapy.testing.clock import ManualClock
from kafkapy.turns import Steps, finish
from tests.storage.support import append, open_log, reopen

ONE_EACH = LogConfig(segment_bytes=130)
"""A segment size with which each batch of these tests has a separate segment."""


def _known(log: Log, producer_id: int = 7) -> list[tuple[int, int]]:
    """The first sequence and offset of each batch of a producer that would be a duplicate."""
    return [(each.first_sequence, each.first_offset) for each in log.producer_state.producers[producer_id].batches]


@pytest.mark.parametrize("recovered", [False, True])
def test_the_last_five_batches_are_known_as_duplicates_after_a_start(tmp_path: Path, recovered: bool) -> None:
    log = open_log(tmp_path, ONE_EACH)
    for sequence in range(0, 14, 2):
        log.append_as_leader(produced(sequence, 2), 0)
    log.flush()
    assert len(log.segments) == 7
    log.release()
    again = open_log(
        tmp_path, ONE_EACH, Checkpointed(clean=False, recovery_point=log.recovery_point, recovered=recovered)
    )
    for sequence in range(4, 14, 2):
        result = again.append_as_leader(produced(sequence, 2), 0)
        assert (result.duplicate, result.first_offset) == (True, sequence)
    assert again.log_end_offset == 14
    with pytest.raises(OutOfOrderSequenceError):
        again.append_as_leader(produced(2, 2), 0)
    assert not again.append_as_leader(produced(14, 2), 0).duplicate


def test_after_a_clean_stop_the_log_is_searched_when_a_sequence_seems_out_of_order(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for sequence in range(7):
        log.append_as_leader(produced(sequence), 0)
        log.append_as_leader(produced(sequence, producer_id=8), 0)
    log = reopen(log)
    assert not log.append_as_leader(produced(7, producer_id=8), 0).duplicate
    with pytest.raises(UnrecalledBatchError):
        log.append_as_leader(produced(2), 0)
    for sequence in range(2, 7):  # the snapshot has the last of them
        result = append(log, produced(sequence))
        assert (result.duplicate, result.first_offset) == (True, 2 * sequence)
    assert _known(log, 8) == [(sequence, 2 * sequence + 1) for sequence in range(3, 7)] + [(7, 14)]
    for sequence in (1, 8):
        with pytest.raises(OutOfOrderSequenceError):
            log.append_as_leader(produced(sequence), 0)
    assert log.log_end_offset == 15
    assert not log.append_as_leader(produced(7), 0).duplicate


def test_without_a_snapshot_the_log_is_not_searched(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append_as_leader(produced(0), 0)
    assert list(log.recall_batches()) == []
    with pytest.raises(OutOfOrderSequenceError):
        log.append_as_leader(produced(2), 0)
    log = reopen(log)
    log.producer_state.clear(0)
    assert list(log.recall_batches()) == []


def test_after_an_error_of_the_disk_the_log_is_searched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path)
    for sequence in range(3):
        log.append_as_leader(produced(sequence), 0)
    log = reopen(log)

    def broken(*_: object) -> None:
        raise OSError("no disk")

    with monkeypatch.context() as patched:
        patched.setattr(log.storage.files, "read_at", broken)
        with pytest.raises(OSError, match="no disk"):
            append(log, produced(0))
    assert append(log, produced(0)).duplicate


def test_within_one_segment_below_the_snapshot(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for sequence in range(4):
        log.append_as_leader(produced(sequence), 0)
    log = reopen(log)  # the snapshot is in the middle of the segment
    log.append_as_leader(produced(4), 0)
    log.flush()
    assert _known(log) == [(3, 3), (4, 4)]  # after a clean stop the others are not looked up yet
    log.release()
    again = open_log(tmp_path, checkpointed=Checkpointed(clean=False, recovery_point=5, recovered=True))
    assert _known(again) == [(sequence, sequence) for sequence in range(5)]


def test_batches_of_other_producers_epochs_and_instances_are_not_mixed(tmp_path: Path) -> None:
    log = open_log(tmp_path, ONE_EACH)
    sent = [
        produced(0),  # before the producer was evicted and began again
        produced(6),
        produced(7),
        produced(0, epoch=4, producer_id=8),
        produced(0, epoch=5, producer_id=8, transactional=True),
        batch(),
        produced(8),
        produced(0, producer_id=9, transactional=True),
    ]
    for each in sent:
        log.append_as_leader(each, 0, from_client=False)
    log.append_as_leader(marker(commit=True, producer_id=8, epoch=5), 0, from_client=False)
    log.append_as_leader(marker(commit=False, producer_id=9, epoch=1), 0, from_client=False)  # of a newer epoch
    log.append_as_leader(batch(), 0)
    log.flush()
    log.release()
    again = open_log(tmp_path, ONE_EACH, Checkpointed(clean=False, recovery_point=log.recovery_point))
    assert (_known(again), _known(again, 8)) == ([(6, 1), (7, 2), (8, 6)], [(0, 4)])
    assert again.producer_state.check(read_header(produced(0, producer_id=9, epoch=1)), from_client=True) is None


def _append_one_and_later_three(log: Log) -> None:
    """Four batches of a producer, twenty of no producer behind the first of them."""
    log.append_as_leader(produced(0), 0)
    for _ in range(20):
        log.append_as_leader(batch(), 0)
    for sequence in range(1, 4):
        log.append_as_leader(produced(sequence), 0)


def test_the_search_ends_after_the_bytes_of_five_of_the_largest_requests(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=6000, max_message_bytes=200, index_interval_bytes=100)
    log = open_log(tmp_path, config)
    _append_one_and_later_three(log)
    log.roll()
    log.flush()
    log.release()
    again = open_log(tmp_path, config, Checkpointed(clean=False, recovery_point=log.recovery_point))
    assert _known(again) == [(sequence, 20 + sequence) for sequence in range(1, 4)]


def test_damage_ends_the_search(tmp_path: Path) -> None:
    log = open_log(tmp_path, ONE_EACH)
    for sequence in range(4):
        log.append_as_leader(produced(sequence), 0)
    log.flush()
    log.release()
    damaged = Path(log.segments.starting_at(1)[0].log.path)
    damaged.write_bytes(damaged.read_bytes()[:-5])
    again = open_log(tmp_path, ONE_EACH, Checkpointed(clean=False, recovery_point=log.recovery_point))
    assert _known(again) == [(2, 2), (3, 3)]
    with_short_file = Path(log.segments.starting_at(1)[0].log.path)
    with_short_file.write_bytes(with_short_file.read_bytes()[:20])
    again.producer_state.map_end_offset = -1
    again.rebuild_producer_state(4)
    finish(again.recall_batches())
    assert _known(again) == [(3, 3)]


class CountedReads:
    """Counts the bytes that are read from the files of logs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sizes: list[int] = []
        read_at = Files.read_at

        def counting(files: Files, descriptor: object, size: int, position: int) -> bytes:
            self.sizes.append(size)
            return read_at(files, descriptor, size, position)  # type: ignore[arg-type]  # as passed

        monkeypatch.setattr(Files, "read_at", counting)

    def take(self) -> int:
        total = sum(self.sizes)
        self.sizes.clear()
        return total


def _with_small_batches(directory: Path, count: int = 2000, **keys: int) -> Log:
    """A log after a clean start: five batches of a producer, then ``count`` of the smallest ones."""
    log = open_log(directory, LogConfig(max_message_bytes=2**31 - 1, **keys))
    for sequence in range(5):
        log.append_as_leader(produced(sequence), 0)
    for _ in range(count):
        log.append_as_leader(batch(value=b""), 0)
    return reopen(log)


def _begin(log: Log, steps: int = 1) -> Steps[None]:
    """Begin a search and pause it after some steps."""
    search = log.recall_batches()
    for _ in range(steps):
        next(search)
    return search


def test_a_search_among_many_small_batches_has_places_to_pause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = _with_small_batches(tmp_path)
    reads = CountedReads(monkeypatch)
    read = [reads.take() for _ in log.recall_batches()]
    assert len(read) > log.size_bytes / 32768
    assert max(read[1:]) <= 32768 < log.size_bytes <= sum(read)
    assert _known(log) == [(sequence, sequence) for sequence in range(5)]


def test_of_large_batches_only_the_beginning_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path)
    for sequence in range(6):
        log.append_as_leader(produced(sequence, value=bytes(1_000_000)), 0)
        for producer_id in (8, 9):  # others between them
            log.append_as_leader(produced(sequence, producer_id=producer_id), 0)
    log = reopen(log)
    reads = CountedReads(monkeypatch)
    finish(log.recall_batches())
    assert reads.take() < 300_000 < log.size_bytes
    assert [sequence for sequence, _ in _known(log)] == [1, 2, 3, 4, 5]


def test_the_largest_request_bounds_the_search(tmp_path: Path) -> None:
    config = LogConfig(max_message_bytes=2**31 - 1, index_interval_bytes=100)
    storage = Storage(ManualClock(START_MS), largest_batch=200)
    log = open_log(tmp_path, config, storage=storage)
    _append_one_and_later_three(log)
    log.close()
    again = open_log(tmp_path, config, Checkpointed(True, recovery_point=log.recovery_point), storage=storage)
    finish(again.recall_batches())
    assert _known(again) == [(sequence, 20 + sequence) for sequence in range(1, 4)]


def test_callers_at_the_same_time_share_a_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = _with_small_batches(tmp_path)
    reads = CountedReads(monkeypatch)
    first = _begin(log, 2)
    second = _begin(log, 2)
    first.close()  # its connection is closed
    finish(second)
    assert reads.take() < 1.5 * log.size_bytes
    assert len(_known(log)) == 5


@pytest.mark.parametrize("more", [0, 2, 4, 7])
def test_appends_during_a_search_stay_the_last_batches(tmp_path: Path, more: int) -> None:
    log = _with_small_batches(tmp_path)
    search = _begin(log)
    end_offset = log.log_end_offset
    for sequence in range(5, 5 + more):
        assert not log.append_as_leader(produced(sequence), 0).duplicate
    with pytest.raises(UnrecalledBatchError):
        log.append_as_leader(produced(20), 0)
    finish(search)
    known = [(sequence, sequence) for sequence in range(5)]
    known += [(sequence, end_offset + sequence - 5) for sequence in range(5, 5 + more)]
    assert _known(log) == known[-5:]
    with pytest.raises(OutOfOrderSequenceError):
        log.append_as_leader(produced(20), 0)


def test_a_new_epoch_during_a_search_has_no_batches_of_the_old_one(tmp_path: Path) -> None:
    log = _with_small_batches(tmp_path)
    search = _begin(log)
    log.append_as_leader(produced(0, epoch=1), 0)
    finish(search)
    assert _known(log) == [(0, log.log_end_offset - 1)]


def test_producers_that_are_gone_at_the_end_of_a_search_stay_unknown(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for producer_id in (7, 8):
        for sequence in range(2):
            log.append_as_leader(produced(sequence, producer_id=producer_id), 0)
    log = reopen(log)
    search = _begin(log)
    log.append_as_leader(marker(commit=True, producer_id=8, epoch=1), 0, from_client=False)
    del log.producer_state.producers[7]
    finish(search)
    assert list(log.producer_state.producers) == [8]
    assert _known(log, 8) == []


def test_a_truncation_during_a_search_begins_another_one(tmp_path: Path) -> None:
    log = _with_small_batches(tmp_path)
    log.roll()
    for sequence in (5, 6):
        log.append_as_leader(produced(sequence), 0)
    log = reopen(log)
    search = _begin(log)
    log.truncate_to(log.log_end_offset - 1)
    assert [sequence for sequence, _ in _known(log)] == [4, 5]
    finish(search)
    assert [sequence for sequence, _ in _known(log)] == [1, 2, 3, 4, 5]
    log.truncate_to(3)  # below the first snapshot: all batches are replayed
    assert list(log.recall_batches()) == []
    assert _known(log) == [(0, 0), (1, 1), (2, 2)]


def test_segments_whose_files_are_removed_during_a_search_are_left_out(tmp_path: Path) -> None:
    log = open_log(tmp_path, ONE_EACH)
    for sequence in range(6):
        log.append_as_leader(produced(sequence), 0)
    log = reopen(log)
    clock = log.storage.clock
    assert isinstance(clock, ManualClock)
    search = _begin(log)  # in the first segment
    log.update_high_watermark(6)
    log.delete_oldest_segments(log.segments.starting_at(0)[:3])
    clock.advance(log.config.file_delete_delay_ms)
    assert len(list(tmp_path.rglob("*.log"))) == 3
    finish(search)
    assert _known(log) == [(3, 3), (4, 4), (5, 5)]


def test_a_log_that_is_deleted_during_a_search_is_no_broken_disk(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    for _ in range(2):
        logs = LogManager([str(tmp_path)], ONE_EACH, clock, storage=Storage(clock))
        load_logs(logs)
        log = logs.get_or_create(PARTITION)
        if not log.log_end_offset:
            for sequence in range(10):
                log.append_as_leader(produced(sequence), 0)
            log.update_high_watermark(10)
            logs.shutdown()
    search = _begin(log)
    log.truncate_to(8)  # as the follower of another leader, which then deletes the replica
    logs.delete(PARTITION)
    with as_storage_error(log, "read"):
        finish(search)
    assert logs.directories.online


def test_many_segments_are_looked_at_in_parts(tmp_path: Path) -> None:
    log = open_log(tmp_path, ONE_EACH)
    for sequence in range(2 * SIZES_IN_A_STEP + 5):
        log.append_as_leader(produced(sequence), 0)
    log = reopen(log)
    assert len(list(log.recall_batches())) >= 2 + len(log.segments)
    assert [sequence for sequence, _ in _known(log)] == [2 * SIZES_IN_A_STEP + place for place in range(5)]


def test_many_producers_are_completed_in_parts(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    producer_ids = range(2 * PRODUCERS_IN_A_STEP + 1)
    for sequence in range(2):
        for producer_id in producer_ids:
            log.append_as_leader(produced(sequence, producer_id=producer_id), 0)
    log = reopen(log)
    completed = []
    for _ in log.recall_batches():
        completed.append(sum(len(entry.batches) == 2 for entry in log.producer_state.producers.values()))
    assert [each for each in completed if each] == [512, 1024, 1025, 1025]


def test_messages_of_older_formats_are_passed_over(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append_as_leader(produced(0), 0)
    log.update_config(LogConfig(message_format_version="0.9.0"))
    for _ in range(3):
        log.append_as_leader(bytearray(encode_legacy([Record(None, None, -1)], 0)), 0)
    log.update_config(LogConfig())
    log.append_as_leader(produced(1), 0)
    log.roll()
    log.append_as_leader(produced(2), 0)
    log.update_config(LogConfig(message_format_version="0.9.0"))
    log.append_as_leader(bytearray(encode_legacy([Record(None, None, -1)], 0)), 0)  # shorter than a batch's header
    log = reopen(log)
    finish(log.recall_batches())
    assert _known(log) == [(0, 0), (1, 4), (2, 5)]
