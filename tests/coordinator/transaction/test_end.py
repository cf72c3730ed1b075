import pytest

from kafkapy.coordinator.transaction import states
from kafkapy.coordinator.transaction.decisions import complete, end, fence
from kafkapy.coordinator.transaction.states import TransactionState
from kafkapy.coordinator.transaction.transaction import (
    MAX_EPOCH,
    NO_ID_AND_EPOCH,
    EndCall,
    ProducerIdAndEpoch,
    Transaction,
    TransactionData,
    Transition,
)
from tests.coordinator.world import TP

PRODUCER = ProducerIdAndEpoch(10, 3)


def transaction(state: TransactionState, epoch: int = 3) -> Transaction:
    return Transaction("x", TransactionData(10, epoch, 60_000, state, (TP,), 5, 4))


def data(state: TransactionState, epoch: int = 3) -> TransactionData:
    return TransactionData(10, epoch, 60_000, state, (TP,), 9, 4)


@pytest.mark.parametrize(("is_commit", "target"), [(True, states.PREPARE_COMMIT), (False, states.PREPARE_ABORT)])
def test_an_open_transaction_is_decided(is_commit: bool, target: TransactionState) -> None:
    assert end(transaction(states.ONGOING), EndCall("x", PRODUCER, is_commit), 9) == Transition(data(target))


@pytest.mark.parametrize("state", [each for each in TransactionState if each is not states.ONGOING])
@pytest.mark.parametrize("is_commit", [True, False])
def test_everything_else_moves_nothing(state: TransactionState, is_commit: bool) -> None:
    expected = (states.COMMIT if is_commit else states.ABORT)[state]
    assert end(transaction(state), EndCall("x", PRODUCER, is_commit), 9) == expected


@pytest.mark.parametrize(("producer", "code"), [(ProducerIdAndEpoch(11, 3), 49), (ProducerIdAndEpoch(10, 2), 90)])
def test_only_by_its_producer(producer: ProducerIdAndEpoch, code: int) -> None:
    assert end(transaction(states.ONGOING), EndCall("x", producer, is_commit=True), 9) == code


def test_fencing_aborts_in_the_next_epoch() -> None:
    made = transaction(states.ONGOING)
    assert fence(made, 9) == Transition(data(states.PREPARE_ABORT, 4), NO_ID_AND_EPOCH)
    assert made.producer_epoch == 4


def test_an_epoch_that_nobody_was_given_is_used_again() -> None:
    made = transaction(states.ONGOING)
    fence(made, 9)
    assert fence(made, 9) == Transition(data(states.PREPARE_ABORT, 4), NO_ID_AND_EPOCH)


def test_there_is_no_epoch_after_the_last() -> None:
    assert fence(transaction(states.ONGOING, MAX_EPOCH), 9).data.producer_epoch == MAX_EPOCH


@pytest.mark.parametrize(
    ("state", "target"),
    [(states.PREPARE_COMMIT, states.COMPLETE_COMMIT), (states.PREPARE_ABORT, states.COMPLETE_ABORT)],
)
def test_completion(state: TransactionState, target: TransactionState) -> None:
    assert complete(transaction(state), 9) == Transition(data(target)._replace(partitions=()))
