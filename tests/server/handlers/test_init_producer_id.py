"""InitProducerId: ids for idempotent producers, and what transactional ones hear."""

from pathlib import Path

import pytest

from kafkapy.cluster.store import StoreClosedError
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.server.harness import Client, run, running_broker


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


@pytest.mark.parametrize(("producer_id", "producer_epoch", "code"), [(5, 1, 0), (5, -1, 42), (-1, 1, 42)])
def test_an_id_and_its_epoch_go_together(producer_id: int, producer_epoch: int, code: int, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            request = InitProducerIdRequest(None, 60_000, producer_id, producer_epoch)
            assert (await client.ask(request, 4)).error_code == code

    run(scenario())


@pytest.mark.parametrize(("transactional_id", "code"), [("t", 15), ("", 42)])
def test_transactional_ids_have_no_coordinator(transactional_id: str, code: int, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            answer = await client.ask(InitProducerIdRequest(transactional_id, 60_000), 4)
            assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (code, -1, -1)

    run(scenario())


def test_no_block_of_ids_no_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:

            async def ended(*_: object) -> int:
                raise StoreClosedError("/")

            monkeypatch.setattr(broker.services.producer_ids, "next_producer_id", ended)
            client = await Client.connect(broker)
            response = await client.ask(InitProducerIdRequest(None, 60_000), 4)
            assert (response.error_code, response.producer_id) == (56, -1)

    run(scenario())
