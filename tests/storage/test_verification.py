"""A batch that begins a transaction is written only with a guard that no marker has ended (KIP-890)."""

from pathlib import Path

import pytest

from harness.storage.batches import batch, marker, produced
from kafkapy.records.validate import CheckedBatch
from kafkapy.storage.errors import OutOfOrderSequenceError, UnverifiedBatchError
from kafkapy.storage.log.log import Log
from tests.storage.support import append, open_log


def verifying(path: Path) -> Log:
    log = open_log(path)
    log.storage.verifies_transactions = True
    return log


def transactional(sequence: int) -> bytearray:
    return produced(sequence, transactional=True)


def unverified(log: Log, sequence: int) -> CheckedBatch:
    with pytest.raises(UnverifiedBatchError) as caught:
        append(log, transactional(sequence))
    return caught.value.checked


def test_a_verified_batch_begins_the_transaction_and_others_follow(tmp_path: Path) -> None:
    log = verifying(tmp_path)
    checked = unverified(log, 0)
    assert log.log_end_offset == 0
    assert log.append_as_leader(checked, 0).first_offset == 0
    assert append(log, transactional(1)).first_offset == 1
    assert append(log, transactional(0)).duplicate
    assert log.last_stable_offset == 0


def test_a_marker_ends_the_verification(tmp_path: Path) -> None:
    log = verifying(tmp_path)
    late = unverified(log, 0)
    append(log, marker(commit=False), from_client=False)
    with pytest.raises(UnverifiedBatchError) as caught:
        log.append_as_leader(late, 0)
    assert log.append_as_leader(caught.value.checked, 0).first_offset == 1


def test_a_batch_in_the_log_is_repeated_after_the_end_of_its_transaction(tmp_path: Path) -> None:
    log = verifying(tmp_path)
    log.append_as_leader(unverified(log, 0), 0)
    append(log, marker(commit=True), from_client=False)
    assert append(log, transactional(0)).duplicate
    unverified(log, 1)


def test_a_verification_that_was_forgotten_is_no_guard(tmp_path: Path) -> None:
    log = verifying(tmp_path)
    first = unverified(log, 0)
    assert unverified(log, 0).guard is first.guard
    log.producer_state.forget_verification(7)
    assert unverified(log, 0).guard is not first.guard
    with pytest.raises(UnverifiedBatchError):
        log.append_as_leader(first, 0)


def test_a_batch_does_not_overtake_one_that_is_not_verified(tmp_path: Path) -> None:
    """The first one waits for its verification, or is sent again after that has failed."""
    log = verifying(tmp_path)
    second, first = unverified(log, 5), unverified(log, 3)
    for late in (second, transactional(5)):
        with pytest.raises(OutOfOrderSequenceError, match="Sequence 5 of producer 7: 3 was seen and is not written"):
            log.append_as_leader(late, 0)
    assert log.append_as_leader(first, 0).first_offset == 0
    assert append(log, transactional(4)).first_offset == 1


def test_a_producer_that_is_known_does_not_overtake_either(tmp_path: Path) -> None:
    log = verifying(tmp_path)
    log.append_as_leader(unverified(log, 0), 0)
    append(log, marker(commit=True), from_client=False)
    first = unverified(log, 1)
    with pytest.raises(OutOfOrderSequenceError):
        append(log, transactional(2))
    assert log.append_as_leader(first, 0).first_offset == 2


def test_a_later_epoch_begins_its_sequences_again(tmp_path: Path) -> None:
    log = verifying(tmp_path)
    unverified(log, 0)
    state = log.producer_state
    guard = state.guard(7, 1, 4)
    assert (guard.producer_epoch, guard.lowest_sequence) == (1, 4)
    assert state.guard(7, 0, 2) is guard
    assert guard.lowest_sequence == 4


def test_verifications_are_bounded(tmp_path: Path) -> None:
    log = verifying(tmp_path)
    state = log.producer_state
    state._max_producers = 2
    guards = [state.guard(producer_id, 0, 0) for producer_id in (1, 2, 3)]
    assert [state.is_verified(producer_id, 0, guards[producer_id - 1]) for producer_id in (1, 2, 3)] == [
        False,
        True,
        True,
    ]


def test_coordinators_and_plain_batches_are_not_verified(tmp_path: Path) -> None:
    log = verifying(tmp_path)
    append(log, transactional(0), from_client=False)
    append(log, marker(commit=True), from_client=False)
    append(log, produced(0, producer_id=8))
    append(log, batch())
    assert log.log_end_offset == 4


def test_an_open_transaction_of_an_earlier_epoch_is_another_one(tmp_path: Path) -> None:
    log = verifying(tmp_path)
    log.append_as_leader(unverified(log, 0), 0)
    later = produced(0, epoch=1, transactional=True)
    with pytest.raises(UnverifiedBatchError):
        append(log, later)
    assert append(log, transactional(1)).first_offset == 1
