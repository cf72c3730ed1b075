from pathlib import Path

import pytest

from kafkapy.config.log_config import LogConfig
from kafkapy.records.batch import read_header
from kafkapy.storage.errors import KafkaStorageError, OutOfOrderSequenceError
from kafkapy.storage.log.log import Log
from kafkapy.storage.recovery.recovery import Checkpointed
from tests.storage.support import batch, marker, open_log, produced, reopen

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
    for sequence in range(2, 7):  # the snapshot has the last of them
        result = log.append_as_leader(produced(sequence), 0)
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
    assert not log.recall_batches()
    with pytest.raises(OutOfOrderSequenceError):
        log.append_as_leader(produced(2), 0)
    log = reopen(log)
    log.producer_state.clear(0)
    assert not log.recall_batches()


def test_an_error_of_the_disk_is_a_storage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path)
    for sequence in range(3):
        log.append_as_leader(produced(sequence), 0)
    log = reopen(log)

    def broken(*_: object) -> None:
        raise OSError("no disk")

    monkeypatch.setattr(log.storage.files, "read_at", broken)
    with pytest.raises(KafkaStorageError, match="no disk"):
        log.append_as_leader(produced(0), 0)


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


def test_the_search_ends_after_the_bytes_of_five_of_the_largest_requests(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=6000, max_message_bytes=200, index_interval_bytes=100)
    log = open_log(tmp_path, config)
    log.append_as_leader(produced(0), 0)
    for _ in range(20):
        log.append_as_leader(batch(), 0)
    for sequence in range(1, 4):
        log.append_as_leader(produced(sequence), 0)
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
