import pytest

from kafkapy.coordinator.transaction import states
from kafkapy.coordinator.transaction.producer_ids import Needed, decide, new_transaction
from kafkapy.coordinator.transaction.results import InitializeCall, Move
from kafkapy.coordinator.transaction.transaction import NOBODY, Incarnation, Transaction, TransactionData
from tests.coordinator.transaction.world import TransactionWorld

NOW_MS = 77
LAST = 32_766


def transaction(
    epoch: int = 3, previous: Incarnation = NOBODY, state: states.TransactionState = states.EMPTY
) -> Transaction:
    made = Transaction("x", TransactionData(10, epoch, 60_000, state))
    made.previous = previous
    return made


def ask(made: Transaction, expected: Incarnation = NOBODY, new_id: int | None = None) -> Move | Needed | int:
    return decide(made, InitializeCall("x", 5_000, expected), NOW_MS, new_id)


def given(producer_id: int, epoch: int, previous: Incarnation) -> Move:
    return Move(TransactionData(producer_id, epoch, 5_000, states.EMPTY, (), NOW_MS, -1), previous)


def test_a_new_transactional_id_begins_with_epoch_0() -> None:
    made = new_transaction(InitializeCall("x", 5_000), 12, NOW_MS)
    assert ask(made) == given(12, 0, Incarnation(12, -1))
    assert ask(made, Incarnation(99, 5)) == given(12, 0, Incarnation(12, -1))


@pytest.mark.parametrize("state", [states.EMPTY, states.COMPLETE_COMMIT, states.COMPLETE_ABORT])
def test_each_producer_gets_the_next_epoch(state: states.TransactionState) -> None:
    assert ask(transaction(state=state)) == given(10, 4, Incarnation(10, -1))


def test_a_producer_that_names_itself_goes_on_and_may_ask_again() -> None:
    made = transaction()
    assert ask(made, Incarnation(10, 3)) == given(10, 4, Incarnation(10, 3))
    made = transaction(4, Incarnation(10, 3))
    assert ask(made, Incarnation(10, 3)) == given(10, 4, Incarnation(10, 3))


@pytest.mark.parametrize("expected", [Incarnation(10, 2), Incarnation(10, 4), Incarnation(11, 3), Incarnation(9, LAST)])
def test_a_producer_that_was_replaced_is_fenced(expected: Incarnation) -> None:
    assert ask(transaction(previous=Incarnation(10, 1)), expected) == 90


@pytest.mark.parametrize("epoch", [LAST, LAST + 1])
def test_when_the_epochs_run_out_there_is_a_new_id(epoch: int) -> None:
    assert ask(transaction(epoch)) is Needed.PRODUCER_ID
    assert ask(transaction(epoch), new_id=20) == given(20, 0, Incarnation(10, -1))
    assert ask(transaction(epoch), Incarnation(10, epoch), 20) == given(20, 0, Incarnation(10, epoch))


def test_who_has_not_heard_of_its_new_id_may_ask_again() -> None:
    made = Transaction("x", TransactionData(20, 0, 5_000))
    made.previous = Incarnation(10, LAST)
    assert ask(made, Incarnation(10, LAST)) == given(20, 0, Incarnation(10, LAST))
    assert ask(made, Incarnation(10, LAST - 1)) == 90


def test_who_was_not_told_of_its_last_epoch_may_ask_again() -> None:
    made = transaction(LAST, Incarnation(10, LAST - 1))
    assert ask(made, Incarnation(10, LAST - 1)) == given(10, LAST, Incarnation(10, LAST - 1))


def test_an_open_transaction_is_aborted_first() -> None:
    assert ask(transaction(state=states.ONGOING)) is Needed.ABORT
    assert ask(transaction(state=states.ONGOING), Incarnation(10, 3)) is Needed.ABORT
    assert ask(transaction(state=states.ONGOING), Incarnation(9, 3)) == 90


@pytest.mark.parametrize("state", sorted(states.PREPARED))
def test_a_transaction_that_is_being_ended_is_waited_for(state: states.TransactionState) -> None:
    assert ask(transaction(state=state)) == 51


def test_so_is_a_record_on_its_way() -> None:
    made = transaction()
    made.is_moving = True
    assert ask(made, Incarnation(9, 9)) == 51


def test_the_new_producer_is_in_the_log() -> None:
    world = TransactionWorld()
    assert world.initialize() == (0, 1000, 0)
    assert world.initialize(timeout_ms=7) == (0, 1000, 1)
    world.restart()
    assert world.initialize() == (0, 1000, 2)
    assert [each and each.timeout_ms for each in world.written()] == [60_000, 7, 60_000]
