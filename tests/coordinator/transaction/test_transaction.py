import pytest

from kafkapy.coordinator.transaction.transaction import (
    NO_ID_AND_EPOCH,
    InitializeCall,
    Initialized,
    Transaction,
    TransactionData,
)


@pytest.mark.parametrize(("epoch", "expected"), [(-1, False), (32_765, False), (32_766, True), (32_767, True)])
def test_the_last_epoch_is_kept_for_fencing(epoch: int, expected: bool) -> None:
    assert TransactionData(1, epoch, 10).is_epoch_exhausted is expected


def test_a_fencing_epoch_is_valid_before_the_log_has_it() -> None:
    transaction = Transaction("x", TransactionData(1, 5, 10))
    assert transaction.producer_epoch == 5
    transaction.fenced_at = 6
    assert transaction.producer_epoch == 6


def test_the_repr_of_a_transaction() -> None:
    assert repr(Transaction("x", TransactionData(1, 5, 10))).startswith(
        "Transaction('x', TransactionData(producer_id=1"
    )


def test_a_refused_initialization_has_no_producer() -> None:
    assert Initialized(51) == (51, -1, -1)


def test_the_default_expected_producer_is_none() -> None:
    assert InitializeCall("x", 1).expected == NO_ID_AND_EPOCH == (-1, -1)
