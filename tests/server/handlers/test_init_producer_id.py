"""InitProducerId: ids for idempotent producers, ids and epochs for transactional ones."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from harness.client import Client
from kafkapy.metadata.store import StoreClosedError
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkapy.server.handlers import init_producer_id
from tests.coordinator.transaction.world import SHARD
from tests.server.handlers.transactions_context import TransactionAsker
from tests.server.harness import run, running_broker


@pytest.mark.parametrize("version", range(5))
def test_every_producer_gets_its_own_id(version: int, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            answers = [await client.ask(InitProducerIdRequest(None, 60_000), version) for _ in range(3)]
            assert [(answer.error_code, answer.producer_epoch) for answer in answers] == [(0, 0)] * 3
            first = answers[0].producer_id
            assert [answer.producer_id for answer in answers] == [first, first + 1, first + 2]

    run(scenario())


def test_a_transactional_id_keeps_its_producer_id(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            assert (await client.ask(InitProducerIdRequest("x", 60_000), 4)).error_code == 16
            assert (await client.ask(FindCoordinatorRequest("x", 1), 3)).error_code == 0
            answers = [await client.ask(InitProducerIdRequest("x", 60_000), 4) for _ in range(2)]
            assert [(each.error_code, each.producer_id, each.producer_epoch) for each in answers] == [
                (0, answers[0].producer_id, 0),
                (0, answers[0].producer_id, 1),
            ]

    run(scenario())


def ask(asker: TransactionAsker, version: int = 4, **fields: Any) -> tuple[int, int, int]:
    request = InitProducerIdRequest(**({"transactional_id": "x", "transaction_timeout_ms": 60_000} | fields))
    response = asker.ask(init_producer_id, request, version)
    return response.error_code, response.producer_id, response.producer_epoch


@pytest.mark.parametrize(("version", "code"), [(3, 47), (4, 90)])
def test_a_producer_that_was_replaced(version: int, code: int) -> None:
    asker = TransactionAsker()
    assert ask(asker) == (0, 1000, 0)
    assert ask(asker, version, producer_id=1000, producer_epoch=0) == (0, 1000, 1)
    assert ask(asker, version) == (0, 1000, 2)
    assert ask(asker, version, producer_id=1000, producer_epoch=1) == (code, -1, -1)


@pytest.mark.parametrize(("producer_id", "producer_epoch", "code"), [(5, 1, 0), (5, -1, 42), (-1, 1, 42)])
@pytest.mark.parametrize("transactional_id", [None, "x"])
def test_an_id_and_its_epoch_go_together(
    transactional_id: str | None, producer_id: int, producer_epoch: int, code: int
) -> None:
    asker = TransactionAsker()
    fields = {"transactional_id": transactional_id, "producer_id": producer_id, "producer_epoch": producer_epoch}
    assert ask(asker, **fields)[0] == code


@pytest.mark.parametrize(("transactional_id", "timeout_ms", "code"), [("", 60_000, 42), ("x", 0, 50)])
def test_an_empty_transactional_id_and_invalid_timeouts_are_refused(
    transactional_id: str, timeout_ms: int, code: int
) -> None:
    answer = ask(TransactionAsker(), transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
    assert answer == (code, -1, -1)


def test_the_answer_waits_for_the_log() -> None:
    async def scenario() -> None:
        asker = TransactionAsker()
        asker.transactions.broker.slow.add(SHARD)
        answer: Any = init_producer_id.handle(asker.context(4), InitProducerIdRequest("x", 60_000))
        waiting = asyncio.ensure_future(answer)
        for _ in range(10):
            await asyncio.sleep(0)
        assert not waiting.done()
        asker.transactions.broker.acknowledge()
        assert (await waiting).producer_id == 1000

    asyncio.run(scenario())


@pytest.mark.parametrize("transactional_id", [None, "x"])
def test_without_a_block_of_ids_the_error_is_answered(
    transactional_id: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ended(*_: object) -> int:
        raise StoreClosedError("/")

    asker = TransactionAsker()
    monkeypatch.setattr(asker.services.producer_ids, "next_producer_id", ended)
    assert ask(asker, transactional_id=transactional_id)[:2] == (56, -1)
