from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.storage.batches import START_MS, marker, produced
from kafkapy.platform.files import Files
from kafkapy.records.batch import BatchHeader, read_header
from kafkapy.records.control import ControlRecord, read_control
from kafkapy.records.record import encode_batch
from kafkapy.storage.errors import InvalidProducerEpochError, OutOfOrderSequenceError, TransactionCoordinatorFencedError
from kafkapy.storage.log.producer_state import (
    PRODUCERS_IN_A_STEP,
    SNAPSHOTS_IN_A_STEP,
    ProducerState,
    Unreplicated,
)
from kafkapy.turns import finish


@pytest.fixture
def state(tmp_path: Path) -> ProducerState:
    return ProducerState(Files(), str(tmp_path), 1000)


def _header(sequence: int, **fields: int) -> BatchHeader:
    return read_header(produced(sequence, **fields))


def _marker(*, commit: bool, epoch: int = 0, coordinator_epoch: int = 0) -> tuple[BatchHeader, ControlRecord]:
    content = marker(commit=commit, epoch=epoch, coordinator_epoch=coordinator_epoch)
    return read_header(content), read_control(content)


def test_sequences_are_checked_for_clients_and_not_for_coordinators(state: ProducerState) -> None:
    assert state.check(_header(5), from_client=True) is None
    state.apply(_header(5), 0)
    duplicate = state.check(_header(5), from_client=True)
    assert duplicate is not None
    assert duplicate.first_offset == 0
    with pytest.raises(OutOfOrderSequenceError):
        state.check(_header(9), from_client=True)
    assert state.check(_header(6), from_client=True) is None
    assert state.check(_header(9), from_client=False) is None
    state.apply(_header(0, epoch=2), 1)
    with pytest.raises(InvalidProducerEpochError):
        state.check(_header(7, epoch=1), from_client=False)


def test_an_epoch_below_minus_one_is_refused(state: ProducerState) -> None:
    assert state.check(_header(0, epoch=-1), from_client=True) is None
    with pytest.raises(InvalidProducerEpochError):
        state.check(_header(0, epoch=-2), from_client=True)


def test_a_transaction_holds_the_last_stable_offset_until_its_marker_is_replicated(state: ProducerState) -> None:
    assert state.first_unstable_offset is None
    state.apply(_header(0, transactional=True), 10)
    state.apply(_header(1, transactional=True), 11)
    assert state.first_unstable_offset == 10
    assert state.apply_marker(*_marker(commit=True), 12) is None
    assert state.first_unstable_offset == 10
    state.high_watermark_moved(12)
    assert state.first_unstable_offset == 10
    state.high_watermark_moved(13)
    assert state.first_unstable_offset is None
    assert state.producers[7].current_txn_first_offset == -1


def test_an_abort_is_for_the_transaction_index(state: ProducerState) -> None:
    state.apply(_header(0, transactional=True), 10)
    state.apply(_header(0, transactional=True, producer_id=8), 11)
    assert state.apply_marker(*_marker(commit=False), 12) == (7, 10, 12, 11)
    assert state.apply_marker(*_marker(commit=False), 13) == (7, 13, 13, 11)


def test_stale_markers_are_refused(state: ProducerState) -> None:
    state.check_marker(*_marker(commit=True))
    state.apply_marker(*_marker(commit=True, epoch=3, coordinator_epoch=5), 0)
    state.check_marker(*_marker(commit=True, epoch=3, coordinator_epoch=5))
    with pytest.raises(InvalidProducerEpochError):
        state.check_marker(*_marker(commit=True, epoch=2, coordinator_epoch=5))
    with pytest.raises(TransactionCoordinatorFencedError):
        state.check_marker(*_marker(commit=True, epoch=3, coordinator_epoch=4))


def test_replay_takes_data_and_markers_and_leaves_the_rest(state: ProducerState) -> None:
    plain = encode_batch([])
    emptied = encode_batch([], producer_id=7, producer_epoch=0, is_control=True)
    data, abort = produced(0, transactional=True), marker(commit=False)
    for content in (plain, emptied):
        assert state.replay(read_header(content), memoryview(content)) is None
    assert state.producers == {}
    assert state.replay(read_header(data), memoryview(data)) is None
    assert state.replay(read_header(abort), memoryview(abort)) is not None


def test_snapshots_restore_producers_and_open_transactions(state: ProducerState) -> None:
    state.apply(_header(0, transactional=True), 3)
    assert state.take_snapshot() is None
    state.map_end_offset = 4
    assert state.take_snapshot() == f"{state.directory}/00000000000000000004.snapshot"
    assert state.take_snapshot() is None
    again = ProducerState(Files(), state.directory, 1000)
    again.snapshot_offsets = [4]
    again.reload(0, 10, START_MS + 10_000)
    assert (again.map_end_offset, again.first_unstable_offset, again.producers[7].last_sequence) == (4, 3, 0)


def test_reload_leaves_most_of_very_many_old_snapshots_to_a_later_time(state: ProducerState) -> None:
    for offset in range(1, 3 * SNAPSHOTS_IN_A_STEP):
        state.map_end_offset = offset
        state.take_snapshot()
    state.reload(3 * SNAPSHOTS_IN_A_STEP - 1, 1000, START_MS)
    assert state.map_end_offset == 3 * SNAPSHOTS_IN_A_STEP - 1
    assert state.unrecalled_below == 0, "none was loaded"
    assert state.snapshot_offsets == list(range(SNAPSHOTS_IN_A_STEP + 1, 3 * SNAPSHOTS_IN_A_STEP))


def test_reload_falls_back_on_an_older_snapshot(state: ProducerState) -> None:
    for offset in (4, 8, 12):
        state.map_end_offset = offset
        state.take_snapshot()
    state.apply(_header(0), 13)
    Path(state.snapshot_path(8)).write_bytes(b"damaged")
    state.reload(0, 11, START_MS)
    assert (state.map_end_offset, state.snapshot_offsets, state.producers) == (4, [4], {})
    assert [path.name for path in Path(state.directory).iterdir()] == ["00000000000000000004.snapshot"]
    state.reload(4, 11, START_MS)
    assert (state.map_end_offset, state.snapshot_offsets) == (4, [])


def test_silent_producers_expire_unless_a_transaction_is_open(state: ProducerState) -> None:
    state.apply(_header(0), 0)
    state.apply(_header(0, transactional=True, producer_id=8), 1)
    finish(state.remove_expired(START_MS + 999))
    assert set(state.producers) == {7, 8}
    state.map_end_offset = 2
    state.take_snapshot()
    finish(state.remove_expired(START_MS + 1000))
    assert set(state.producers) == {8}
    state.reload(0, 2, START_MS + 1000)
    assert set(state.producers) == {8}


def test_producers_expire_in_steps_despite_changes_between_them(state: ProducerState) -> None:
    for producer_id in range(PRODUCERS_IN_A_STEP * 3):
        state.apply(_header(0, producer_id=producer_id), producer_id)
    steps = state.remove_expired(START_MS + 1000)
    next(steps)
    assert list(state.producers) == list(range(PRODUCERS_IN_A_STEP, PRODUCERS_IN_A_STEP * 3))
    del state.producers[PRODUCERS_IN_A_STEP]  # as one that others drove out
    next(steps)
    state.clear(0)
    state.apply(_header(0, producer_id=7), 0)
    finish(steps)
    assert list(state.producers) == [7]


def test_the_log_start_moves_past_finished_transactions(state: ProducerState) -> None:
    state.apply(_header(0, transactional=True), 3)
    state.apply_marker(*_marker(commit=True), 4)
    state.log_start_moved(5)
    assert (state.first_unstable_offset, state.map_end_offset) == (None, 5)


class CountingDict(OrderedDict[int, int]):
    """Counts the keys that are read in iterations."""

    seen = 0

    def __iter__(self) -> Iterator[int]:
        for key in super().__iter__():
            self.seen += 1
            yield key


def test_the_first_unstable_offset_reads_one_open_transaction(state: ProducerState) -> None:
    counting = state._ongoing = CountingDict()
    for producer_id in range(1000):
        state.apply(_header(0, transactional=True, producer_id=producer_id), producer_id)
    for _ in range(10):
        assert state.first_unstable_offset == 0
    assert counting.seen == 10
    abort = marker(commit=False, producer_id=0)
    assert state.apply_marker(read_header(abort), read_control(abort), 1000) == (0, 0, 1000, 1)
    assert (state.first_unstable_offset, counting.seen) == (0, 12)
    state.high_watermark_moved(1001)
    assert (state.first_unstable_offset, counting.seen) == (1, 13)


def test_open_transactions_of_a_snapshot_are_in_the_order_of_their_offsets(state: ProducerState) -> None:
    for first_offset, producer_id in ((5, 9), (3, 8), (4, 10)):
        state.apply(_header(0, transactional=True, producer_id=producer_id), first_offset)
    state.map_end_offset = 6
    state.take_snapshot()
    state.reload(0, 6, START_MS)
    assert state.first_unstable_offset == 3


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=60))
def test_ended_transactions_against_a_simple_model(steps: list[tuple[int, bool]]) -> None:
    """Each step begins a transaction, ends the one of that rank, or moves the high watermark."""
    subject, plain, ongoing = Unreplicated(), dict[int, int](), list[int]()
    for offset, (rank, moves) in enumerate(steps):
        if moves:
            high_watermark = offset - rank
            subject.drop_below(high_watermark)
            plain = {first: last for first, last in plain.items() if last >= high_watermark}
        elif rank < len(ongoing):
            first = ongoing.pop(rank)
            subject.add(first, offset)
            plain[first] = offset
        else:
            ongoing.append(offset)
        assert len(subject) == len(plain)
        assert not plain or subject.first_offset == min(plain)


def few(tmp_path: Path, evicted: list[int]) -> ProducerState:
    return ProducerState(Files(), str(tmp_path), 1000, 3, lambda: evicted.append(1))


def test_producers_with_the_oldest_batches_are_evicted_first(tmp_path: Path) -> None:
    evicted: list[int] = []
    state = few(tmp_path, evicted)
    for offset, producer_id in enumerate([1, 2, 3, 1, 4, 5]):
        state.apply(_header(offset, producer_id=producer_id), offset)
    assert (set(state.producers), len(evicted)) == ({1, 4, 5}, 2)
    state.apply_marker(*_marker(commit=True), 6)
    assert set(state.producers) == {4, 5, 7}


def test_producers_with_an_open_transaction_are_kept(tmp_path: Path) -> None:
    evicted: list[int] = []
    state = few(tmp_path, evicted)
    for producer_id in range(4):
        state.apply(_header(0, transactional=True, producer_id=producer_id), producer_id)
    assert (len(state.producers), evicted) == (4, [])
    state.apply(_header(0, producer_id=8), 10)
    state.apply(_header(0, producer_id=9), 11)
    assert (set(state.producers), len(evicted)) == ({0, 1, 2, 3, 9}, 1)


def test_the_last_producers_of_a_snapshot_with_too_many_stay(tmp_path: Path) -> None:
    state = ProducerState(Files(), str(tmp_path), 1000)
    for producer_id in range(6):
        state.apply(_header(0, producer_id=producer_id)._replace(max_timestamp=START_MS + producer_id), producer_id)
    state.map_end_offset = 6
    state.take_snapshot()
    evicted: list[int] = []
    again = few(tmp_path, evicted)
    again.snapshot_offsets = [6]
    again.reload(0, 6, START_MS)
    assert (list(again.producers), len(evicted)) == ([3, 4, 5], 3)


def test_the_earliest_remaining_transaction_counts() -> None:
    ended = Unreplicated()
    for first_offset, marker_offset in ((1, 3), (2, 5), (4, 7)):
        ended.add(first_offset, marker_offset)
    ended.drop_below(6)
    assert (len(ended), ended.first_offset) == (1, 4)
    ended.drop_below(8)
    assert not ended


def _with_snapshots(state: ProducerState, count: int) -> None:
    for offset in range(1, count + 1):
        state.map_end_offset = offset
        state.take_snapshot()


def test_old_snapshots_are_removed_some_at_a_time(state: ProducerState) -> None:
    _with_snapshots(state, 2 * SNAPSHOTS_IN_A_STEP)
    state.log_start_moved(2 * SNAPSHOTS_IN_A_STEP)
    assert state.snapshot_offsets == list(range(SNAPSHOTS_IN_A_STEP + 1, 2 * SNAPSHOTS_IN_A_STEP + 1))
    assert sorted(Path(state.directory).iterdir()) == [
        Path(state.snapshot_path(each)) for each in state.snapshot_offsets
    ]
    assert not state.delete_oldest_snapshots(2 * SNAPSHOTS_IN_A_STEP), "there are no more"
    assert state.snapshot_offsets == [2 * SNAPSHOTS_IN_A_STEP]


def test_a_snapshot_that_can_not_be_removed_stays_in_the_list(
    state: ProducerState, monkeypatch: pytest.MonkeyPatch
) -> None:
    _with_snapshots(state, 6)
    remove = Files.remove

    def refused(self: Files, path: str) -> None:
        if path in (state.snapshot_path(2), state.snapshot_path(6)):
            raise OSError("no")
        remove(self, path)

    with monkeypatch.context() as patched:
        patched.setattr(Files, "remove", refused)
        with pytest.raises(OSError, match="no"):
            state.delete_snapshots(below=4)
        assert state.snapshot_offsets == [2, 3, 4, 5, 6]
        with pytest.raises(OSError, match="no"):
            state.delete_snapshots(above=4)
        assert state.snapshot_offsets == [2, 3, 4, 6]
    state.delete_snapshots(below=4, above=5)
    assert state.snapshot_offsets == [4]
    assert [path.name for path in Path(state.directory).iterdir()] == ["00000000000000000004.snapshot"]
