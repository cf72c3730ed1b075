"""Produce 13, which names topics by their ids; the expected answers are those of a running Kafka 4.4.0."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import pytest

from harness.cases.access_cases import on_topic
from harness.client import Client, batch, frame
from kafkapy.protocol.constants import AclOperation as Op
from kafkapy.protocol.message import ZERO_UUID
from kafkapy.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkapy.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkapy.server.dispatch.compute_thread import ComputeThread
from kafkapy.server.lifecycle.broker import BrokerServer
from kafkapy.turns import PIECE
from kafkapy.types import TopicPartition
from tests.server.access.guarded import guarded_broker
from tests.server.harness import run, running_broker

STALE = UUID(int=5)
Row = tuple[UUID, int, int, int]
T = TypeVar("T")


def _request(*ids: UUID, acks: int = 1, partitions: tuple[int, ...] = (0,), records: bytes = b"") -> ProduceRequest:
    data = records or batch(b"x")
    topics = [TopicProduceData("", each, [PartitionProduceData(at, data) for at in partitions]) for each in ids]
    return ProduceRequest(None, acks, 1000, topics)


async def _produce(client: Client, *ids: UUID, **fields: Any) -> list[Row]:
    """Id, partition, error code and offset, in the order of the answer."""
    answer = await client.ask(_request(*ids, **fields), 13)
    return [
        (topic.topic_id, each.index, each.error_code, each.base_offset)
        for topic in answer.responses
        for each in topic.partition_responses
    ]


async def _topic(client: Client, name: str) -> UUID:
    await client.create_topic(name, 2)
    return await client.topic_id(name)


async def _recreated(client: Client, name: str) -> UUID:
    answer = await client.ask(DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000), 5)
    assert [each.error_code for each in answer.responses] == [0]
    return await _topic(client, name)


def _end_offset(broker: BrokerServer, name: str) -> int:
    return broker.services.replica_manager.partitions[TopicPartition(name, 0)].log.log_end_offset


def test_topics_by_id(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            one, two = await _topic(client, "one"), await _topic(client, "two")
            for number in range(4):  # decoded, and by a form
                assert await _produce(client, one) == [(one, 0, 0, number)]
            assert await _produce(client, STALE) == [(STALE, 0, 100, -1)]
            asked = one, STALE, two, ZERO_UUID, STALE
            expected = [(one, 0, 0, 4), (two, 0, 0, 0), (STALE, 0, 100, -1), (ZERO_UUID, 0, 100, -1)]
            assert await _produce(client, *asked) == expected
            assert await _produce(client, one, partitions=(0, 1, 9)) == [
                (one, 0, 0, 5),
                (one, 1, 0, 0),
                (one, 9, 3, -1),
            ]
            assert await _produce(client, one, STALE, acks=5) == [(one, 0, 21, -1), (STALE, 0, 100, -1)]
            assert await _produce(client) == []
            again = await _recreated(client, "one")
            assert await _produce(client, one) == [(one, 0, 100, -1)]
            assert await _produce(client, again, one) == [(again, 0, 0, 0), (one, 0, 100, -1)]

    run(main())


def test_many_topics(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            one = await _topic(client, "one")
            unknown = [UUID(int=number) for number in range(1, 2 * PIECE)]
            expected = [(one, 0, 0, 0), *((each, 0, 100, -1) for each in unknown)]
            assert await _produce(client, *unknown, one) == expected

    run(main())


@pytest.mark.parametrize("acks", [0, 1])
def test_a_request_without_an_answer(acks: int, tmp_path: Path) -> None:
    """Records for a known topic are appended; the unknown id ends the connection if no answer can say so."""

    async def main() -> None:
        async with running_broker(tmp_path) as broker:
            client, admin = await Client.connect(broker), await Client.connect(broker)
            one = await _topic(admin, "one")
            client.send(frame(_request(one, STALE, acks=acks), 13))
            if acks:
                assert await client.receive()
            else:
                assert await client.is_closed()
            assert _end_offset(broker, "one") == 1

    run(main())


class _LateThread(ComputeThread):
    """A thread that begins to work when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.has_work, self.may_work = asyncio.Event(), asyncio.Event()

    def run(self, function: Callable[[], T]) -> "asyncio.Future[T]":
        run_beside = super().run

        async def later() -> T:
            self.has_work.set()
            await self.may_work.wait()
            return await run_beside(function)

        return asyncio.ensure_future(later())


def test_a_topic_that_is_recreated_while_a_batch_is_validated(tmp_path: Path) -> None:
    """A large batch is validated beside the event loop: meanwhile another topic may have taken the name."""

    async def main() -> None:
        async with running_broker(tmp_path) as broker:
            client, admin = await Client.connect(broker), await Client.connect(broker)
            one = await _topic(admin, "one")
            compute = broker.services.compute = _LateThread()
            large = batch(bytes(20_000_000), compression=1)
            client.send(frame(_request(one, records=large), 13))
            await compute.has_work.wait()
            again = await _recreated(admin, "one")
            compute.may_work.set()
            (topic,) = Client.decode(0, 13, await client.receive()).responses
            compute.close()
            assert (topic.topic_id, topic.partition_responses[0].error_code) == (one, 100)
            assert again != one
            assert _end_offset(broker, "one") == 0

    run(main())


def test_rights(tmp_path: Path) -> None:
    async def main() -> None:
        async with guarded_broker(tmp_path) as guarded:
            one, two = await _topic(guarded.admin, "one"), await _topic(guarded.admin, "two")
            alice = guarded.alice
            assert await _produce(alice, one) == [(one, 0, 29, -1)]
            assert await _produce(alice, STALE) == [(STALE, 0, 100, -1)]
            assert await _produce(alice, one, STALE) == [(one, 0, 29, -1), (STALE, 0, 100, -1)]
            guarded.allow(on_topic(Op.WRITE, "two"))
            assert await _produce(alice, two) == [(two, 0, 0, 0)]
            expected = [(two, 0, 0, 1), (one, 0, 29, -1), (STALE, 0, 100, -1)]
            assert await _produce(alice, one, STALE, two) == expected

    run(main())
