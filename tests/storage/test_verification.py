"""A batch that begins a transaction is written only with a guard that no marker has ended (KIP-890)."""

from pathlib import Path

import pytest

from harness.storage.batches import batch, marker, produced
from kafkapy.records.validate import CheckedBatch
from kafkapy.storage.errors import UnverifiedBatchError
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


def test_a_verification_that_failed_is_forgotten(tmp_path: Path) -> None:
    log = verifying(tmp_path)
    first = unverified(log, 0)
    assert unverified(log, 0).guard is first.guard
    log.producer_state.forget_verification(7)
    assert unverified(log, 0).guard is not first.guard
    with pytest.raises(UnverifiedBatchError):
        log.append_as_leader(first, 0)


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
