import pytest

from kafkapy.coordinator.transaction import states
from kafkapy.coordinator.transaction.states import IllegalMoveError, TransactionState, check_move

ALLOWED = {(source, target) for source, targets in states.MOVES.items() for target in targets}


@pytest.mark.parametrize("source", TransactionState)
@pytest.mark.parametrize("target", TransactionState)
def test_every_move_is_in_the_table_or_refused(source: TransactionState, target: TransactionState) -> None:
    if (source, target) in ALLOWED:
        check_move(source, target)
    else:
        with pytest.raises(IllegalMoveError, match=f"from {source.name} to {target.name}"):
            check_move(source, target)


def test_the_numbers_are_those_of_kafkas_log() -> None:
    names = ["EMPTY", "ONGOING", "PREPARE_COMMIT", "PREPARE_ABORT", "COMPLETE_COMMIT", "COMPLETE_ABORT"]
    assert [TransactionState(number).name for number in range(6)] == names


@pytest.mark.parametrize("table", [states.INITIALIZE, states.ADD, states.COMMIT, states.ABORT])
def test_every_table_knows_every_state(table: dict[TransactionState, int]) -> None:
    assert table.keys() == set(TransactionState)
    assert set(table.values()) <= {0, 48, 51}


def test_what_is_prepared_can_only_complete() -> None:
    for state in states.PREPARED:
        assert len(states.MOVES[state]) == 1
        assert states.MOVES[state] <= states.IDLE
