import pytest

from kafkapy.coordinator.transaction import states
from kafkapy.coordinator.transaction.decisions import add_partitions
from kafkapy.coordinator.transaction.transaction import (
    AddCall,
    ProducerIdAndEpoch,
    Transaction,
    TransactionData,
    Transition,
)
from tests.coordinator.transaction.world import OTHER
from tests.coordinator.world import TP

PRODUCER = ProducerIdAndEpoch(10, 3)


def transaction(state: states.TransactionState, *partitions: object) -> Transaction:
    return Transaction("x", TransactionData(10, 3, 60_000, state, partitions, 5, 4))  # type: ignore[arg-type]  # partitions


def call(*partitions: object, producer: ProducerIdAndEpoch = PRODUCER) -> AddCall:
    return AddCall("x", producer, partitions)  # type: ignore[arg-type]  # partitions


@pytest.mark.parametrize("state", [states.EMPTY, states.COMPLETE_COMMIT, states.COMPLETE_ABORT])
def test_the_first_partition_begins_the_transaction(state: states.TransactionState) -> None:
    expected = TransactionData(10, 3, 60_000, states.ONGOING, (TP,), 9, 9)
    assert add_partitions(transaction(state), call(TP), 9) == Transition(expected)


def test_more_partitions_leave_its_beginning() -> None:
    expected = TransactionData(10, 3, 60_000, states.ONGOING, (TP, OTHER), 9, 4)
    assert add_partitions(transaction(states.ONGOING, TP), call(OTHER, TP), 9) == Transition(expected)


def test_what_it_has_needs_no_record() -> None:
    assert add_partitions(transaction(states.ONGOING, TP, OTHER), call(OTHER), 9) == 0


@pytest.mark.parametrize("state", sorted(states.PREPARED))
def test_not_while_the_last_one_is_being_ended(state: states.TransactionState) -> None:
    assert add_partitions(transaction(state, TP), call(OTHER), 9) == 51


@pytest.mark.parametrize(
    ("producer", "code"),
    [
        (ProducerIdAndEpoch(11, 3), 49),
        (ProducerIdAndEpoch(10, 2), 90),
        (ProducerIdAndEpoch(10, 4), 90),
        (ProducerIdAndEpoch(-1, -1), 49),
    ],
)
def test_only_for_the_producer_that_has_the_transactional_id(producer: ProducerIdAndEpoch, code: int) -> None:
    assert add_partitions(transaction(states.PREPARE_ABORT, TP), call(OTHER, producer=producer), 9) == code


def test_not_while_a_record_is_on_its_way() -> None:
    made = transaction(states.ONGOING, TP)
    made.has_pending_transition = True
    assert add_partitions(made, call(TP), 9) == 51


def test_not_for_a_producer_that_is_just_being_fenced() -> None:
    made = transaction(states.ONGOING, TP)
    made.fenced_at = 4
    assert add_partitions(made, call(TP), 9) == 90
