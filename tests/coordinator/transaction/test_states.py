import pytest

from kafkapy.coordinator.transaction import states
from kafkapy.coordinator.transaction.states import IllegalTransactionTransitionError, TransactionState, check_transition

ALLOWED = {(source, target) for source, targets in states.TRANSITIONS.items() for target in targets}


@pytest.mark.parametrize("source", TransactionState)
@pytest.mark.parametrize("target", TransactionState)
def test_a_transactional_id_changes_state_along_the_table_only(
    source: TransactionState, target: TransactionState
) -> None:
    if (source, target) in ALLOWED:
        check_transition(source, target)
    else:
        with pytest.raises(IllegalTransactionTransitionError, match=f"from {source.name} to {target.name}"):
            check_transition(source, target)


def test_the_numbers_are_those_of_kafkas_log() -> None:
    names = ["EMPTY", "ONGOING", "PREPARE_COMMIT", "PREPARE_ABORT", "COMPLETE_COMMIT", "COMPLETE_ABORT"]
    assert [TransactionState(number).name for number in range(6)] == names


@pytest.mark.parametrize("table", [states.INITIALIZE, states.ADD, states.COMMIT, states.ABORT])
def test_every_table_has_every_state(table: dict[TransactionState, int]) -> None:
    assert table.keys() == set(TransactionState)
    assert set(table.values()) <= {0, 48, 51}


def test_prepared_states_can_only_complete() -> None:
    for state in states.PREPARED:
        assert len(states.TRANSITIONS[state]) == 1
        assert states.TRANSITIONS[state] <= states.IDLE
