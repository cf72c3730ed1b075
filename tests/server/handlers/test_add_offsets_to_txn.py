import pytest

from kafkapy.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafkapy.server.handlers import add_offsets_to_txn
from tests.coordinator.transaction.world import GROUPS
from tests.server.handlers.transactions_context import TransactionAsker


@pytest.mark.parametrize("version", range(3))
def test_the_groups_partition_is_added(version: int) -> None:
    asker = TransactionAsker()
    producer = asker.transactions.producer()
    assert asker.ask(add_offsets_to_txn, AddOffsetsToTxnRequest("x", *producer, "g"), version).error_code == 0
    assert asker.transactions.transaction().data.partitions == (GROUPS,)


@pytest.mark.parametrize(("version", "code"), [(1, 47), (2, 90)])
def test_a_producer_that_was_replaced(version: int, code: int) -> None:
    asker = TransactionAsker()
    old = asker.transactions.producer()
    asker.transactions.producer()
    assert asker.ask(add_offsets_to_txn, AddOffsetsToTxnRequest("x", *old, "g"), version).error_code == code
