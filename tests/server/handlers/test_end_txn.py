import asyncio

import pytest

from kafkapy.protocol.messages.end_txn import EndTxnRequest
from kafkapy.server.handlers import end_txn
from tests.coordinator.transaction.world import SHARD
from tests.server.handlers.transactions_context import TransactionAsker


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_is_committed_or_aborted(version: int, commit: bool) -> None:
    asker = TransactionAsker()
    producer = asker.transactions.producer()
    assert asker.ask(end_txn, EndTxnRequest("x", *producer, commit), version).error_code == 48
    asker.transactions.add(producer)
    answers = [
        asker.ask(end_txn, EndTxnRequest("x", *producer, each), version) for each in (commit, commit, not commit)
    ]
    assert [each.error_code for each in answers] == [0, 0, 48]


@pytest.mark.parametrize(("version", "code"), [(1, 47), (2, 90)])
def test_a_producer_that_was_replaced(version: int, code: int) -> None:
    asker = TransactionAsker()
    old = asker.transactions.producer()
    asker.transactions.producer()
    assert asker.ask(end_txn, EndTxnRequest("x", *old, True), version).error_code == code


def test_the_answer_waits_for_the_log() -> None:
    async def scenario() -> None:
        asker = TransactionAsker()
        producer = asker.transactions.producer()
        asker.transactions.add(producer)
        asker.transactions.broker.slow.add(SHARD)
        waiting = end_txn.handle(asker.context(2), EndTxnRequest("x", *producer, True))
        assert isinstance(waiting, asyncio.Future)
        asker.transactions.broker.acknowledge()
        assert (await waiting).error_code == 0

    asyncio.run(scenario())
