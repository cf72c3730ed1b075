import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from kafkapy.coordinator.transaction.transaction import EPOCH_PER_TRANSACTION, AddCall, ProducerIdAndEpoch
from kafkapy.coordinator.transaction.verifier import TransactionVerifier
from kafkapy.network.peer import PeerUnreachableError
from kafkapy.protocol.message import ProtocolError
from kafkapy.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from tests.coordinator.transaction.world import ELSEWHERE, OTHER, TransactionWorld
from tests.coordinator.world import TP

HERE = 0


class Peers:
    """The coordinator, on another broker."""

    def __init__(self, *codes: int, error_code: int = 0, failure: Exception | None = None) -> None:
        self.codes, self.error_code, self.failure = codes, error_code, failure
        self.requests: list[tuple[int, Any, int]] = []

    async def send(self, broker_id: int, request: Any, version: int) -> Any:
        self.requests.append((broker_id, request, version))
        if self.failure is not None:
            raise self.failure
        results = [AddPartitionsToTxnPartitionResult(index, code) for index, code in enumerate(self.codes)]
        of_topic = AddPartitionsToTxnTopicResult("t", results)
        return AddPartitionsToTxnResponse(
            error_code=self.error_code, results_by_transaction=[AddPartitionsToTxnResult("x", [of_topic])]
        )


def metadata(leader: int | None) -> Any:
    known = None if leader is None else SimpleNamespace(leader=leader)
    return SimpleNamespace(image=SimpleNamespace(partition=lambda _topic, _index: known))


def verifier(world: TransactionWorld, peers: Peers, leader: int | None = ELSEWHERE) -> TransactionVerifier:
    return TransactionVerifier(world.coordinator, HERE, peers, metadata(leader))


def test_this_broker_answers_for_its_transactional_ids_at_once() -> None:
    world = TransactionWorld()
    producer = world.producer()
    asked = verifier(world, Peers())
    call = AddCall("x", producer, (TP,), EPOCH_PER_TRANSACTION)
    assert asked.ask(call, is_adding=False).value == 120
    assert asked.ask(call, is_adding=True).value == 0
    assert asked.ask(call, is_adding=False).value == 0
    assert world.transaction().data.client_version == EPOCH_PER_TRANSACTION
    unknown = call._replace(transactional_id="y")
    assert (asked.ask(unknown, is_adding=False).value, asked.ask(unknown, is_adding=True).value) == (49, 49)


@pytest.mark.parametrize("leader", [None, -1, HERE])
def test_an_id_without_a_coordinator_is_refused(leader: int | None) -> None:
    world = TransactionWorld()
    producer = world.producer()
    world.coordinator.shutdown()
    asked = verifier(world, Peers(), leader)
    assert asked.ask(AddCall("x", producer, (TP,)), is_adding=False).value == 15


@pytest.mark.parametrize(
    ("peers", "expected"),
    [
        (Peers(0, 0), 0),
        (Peers(0, 120), 120),
        (Peers(error_code=31), 31),
        (Peers(failure=PeerUnreachableError("gone")), 13),
        (Peers(failure=ProtocolError("no response")), 13),
    ],
)
@pytest.mark.parametrize("is_adding", [True, False])
def test_another_broker_is_asked_for_its_transactional_ids(peers: Peers, expected: int, is_adding: bool) -> None:
    world = TransactionWorld()
    world.coordinator.shutdown()

    async def scenario() -> None:
        peers.requests.clear()
        asked = verifier(world, peers)
        answers: list[int] = []
        call = AddCall("x", ProducerIdAndEpoch(7, 2), (TP, OTHER), EPOCH_PER_TRANSACTION)
        asked.ask(call, is_adding=is_adding).on_set(answers.append)
        await asyncio.gather(*asked._requests)
        assert answers == [expected]
        ((broker_id, request, version),) = peers.requests
        (transaction,) = request.transactions
        assert (broker_id, version) == (ELSEWHERE, 4)
        assert (transaction.transactional_id, transaction.producer_id, transaction.producer_epoch) == ("x", 7, 2)
        assert transaction.verify_only is not is_adding
        assert [(topic.name, topic.partitions) for topic in transaction.topics] == [("t", [0, 1])]

    asyncio.run(scenario())
