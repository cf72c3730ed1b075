import pytest

from kafkapy.coordinator.transaction import states
from kafkapy.coordinator.transaction.decisions import expired, timed_out
from kafkapy.coordinator.transaction.states import TransactionState
from kafkapy.coordinator.transaction.transaction import Transaction, TransactionData


def transaction(state: TransactionState) -> Transaction:
    return Transaction("x", TransactionData(10, 3, 100, state, (), last_update_ms=1_000, start_ms=500))


@pytest.mark.parametrize("state", TransactionState)
def test_only_open_transactions_time_out(state: TransactionState) -> None:
    made = transaction(state)
    assert timed_out([made], 600) == []
    assert timed_out([made], 601) == ([made] if state is states.ONGOING else [])
    made.has_pending_transition = True
    assert timed_out([made], 601) == []


@pytest.mark.parametrize("state", TransactionState)
def test_only_idle_transactional_ids_expire(state: TransactionState) -> None:
    made = transaction(state)
    assert expired([made], 1_049, 50) == []
    assert expired([made], 1_050, 50) == ([made] if state in states.IDLE else [])
    made.has_pending_transition = True
    assert expired([made], 1_050, 50) == []
