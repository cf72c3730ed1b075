import pytest

from kafkapy.coordinator.transaction import states
from kafkapy.coordinator.transaction.decisions import Prerequisite, initialize, new_transaction
from kafkapy.coordinator.transaction.transaction import (
    NO_ID_AND_EPOCH,
    InitializeCall,
    ProducerIdAndEpoch,
    Transaction,
    TransactionData,
    Transition,
)
from tests.coordinator.transaction.world import TransactionWorld

NOW_MS = 77
LAST = 32_766


def transaction(
    epoch: int = 3, previous: ProducerIdAndEpoch = NO_ID_AND_EPOCH, state: states.TransactionState = states.EMPTY
) -> Transaction:
    made = Transaction("x", TransactionData(10, epoch, 60_000, state))
    made.previous = previous
    return made


def ask(
    made: Transaction, expected: ProducerIdAndEpoch = NO_ID_AND_EPOCH, new_id: int | None = None
) -> Transition | Prerequisite | int:
    return initialize(made, InitializeCall("x", 5_000, expected), NOW_MS, new_id)


def given(producer_id: int, epoch: int, previous: ProducerIdAndEpoch) -> Transition:
    return Transition(TransactionData(producer_id, epoch, 5_000, states.EMPTY, (), NOW_MS, -1), previous)


def test_a_new_transactional_id_begins_with_epoch_0() -> None:
    made = new_transaction(InitializeCall("x", 5_000), 12, NOW_MS)
    assert ask(made) == given(12, 0, ProducerIdAndEpoch(12, -1))
    assert ask(made, ProducerIdAndEpoch(99, 5)) == given(12, 0, ProducerIdAndEpoch(12, -1))


@pytest.mark.parametrize("state", [states.EMPTY, states.COMPLETE_COMMIT, states.COMPLETE_ABORT])
def test_each_producer_gets_the_next_epoch(state: states.TransactionState) -> None:
    assert ask(transaction(state=state)) == given(10, 4, ProducerIdAndEpoch(10, -1))


def test_a_producer_that_names_itself_goes_on_and_may_ask_again() -> None:
    made = transaction()
    assert ask(made, ProducerIdAndEpoch(10, 3)) == given(10, 4, ProducerIdAndEpoch(10, 3))
    made = transaction(4, ProducerIdAndEpoch(10, 3))
    assert ask(made, ProducerIdAndEpoch(10, 3)) == given(10, 4, ProducerIdAndEpoch(10, 3))


@pytest.mark.parametrize(
    "expected",
    [ProducerIdAndEpoch(10, 2), ProducerIdAndEpoch(10, 4), ProducerIdAndEpoch(11, 3), ProducerIdAndEpoch(9, LAST)],
)
def test_a_producer_that_was_replaced_is_fenced(expected: ProducerIdAndEpoch) -> None:
    assert ask(transaction(previous=ProducerIdAndEpoch(10, 1)), expected) == 90


@pytest.mark.parametrize("epoch", [LAST, LAST + 1])
def test_when_the_epochs_run_out_there_is_a_new_id(epoch: int) -> None:
    assert ask(transaction(epoch)) is Prerequisite.PRODUCER_ID
    assert ask(transaction(epoch), new_id=20) == given(20, 0, ProducerIdAndEpoch(10, -1))
    assert ask(transaction(epoch), ProducerIdAndEpoch(10, epoch), 20) == given(20, 0, ProducerIdAndEpoch(10, epoch))


def test_who_has_not_heard_of_its_new_id_may_ask_again() -> None:
    made = Transaction("x", TransactionData(20, 0, 5_000))
    made.previous = ProducerIdAndEpoch(10, LAST)
    assert ask(made, ProducerIdAndEpoch(10, LAST)) == given(20, 0, ProducerIdAndEpoch(10, LAST))
    assert ask(made, ProducerIdAndEpoch(10, LAST - 1)) == 90


def test_who_was_not_told_of_its_last_epoch_may_ask_again() -> None:
    made = transaction(LAST, ProducerIdAndEpoch(10, LAST - 1))
    assert ask(made, ProducerIdAndEpoch(10, LAST - 1)) == given(10, LAST, ProducerIdAndEpoch(10, LAST - 1))


def test_an_open_transaction_is_aborted_first() -> None:
    assert ask(transaction(state=states.ONGOING)) is Prerequisite.ABORT
    assert ask(transaction(state=states.ONGOING), ProducerIdAndEpoch(10, 3)) is Prerequisite.ABORT
    assert ask(transaction(state=states.ONGOING), ProducerIdAndEpoch(9, 3)) == 90


@pytest.mark.parametrize("state", sorted(states.PREPARED))
def test_a_transaction_that_is_being_ended_is_waited_for(state: states.TransactionState) -> None:
    assert ask(transaction(state=state)) == 51


def test_so_is_a_record_on_its_way() -> None:
    made = transaction()
    made.has_pending_transition = True
    assert ask(made, ProducerIdAndEpoch(9, 9)) == 51


def test_the_new_producer_is_in_the_log() -> None:
    world = TransactionWorld()
    assert world.initialize() == (0, 1000, 0)
    assert world.initialize(timeout_ms=7) == (0, 1000, 1)
    world.restart()
    assert world.initialize() == (0, 1000, 2)
    assert [each and each.timeout_ms for each in world.written()] == [60_000, 7, 60_000]
