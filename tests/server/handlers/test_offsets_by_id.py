"""OffsetCommit 10, OffsetFetch 10 and TxnOffsetCommit 6, which name topics by their ids.

The expected answers are those of a running Apache Kafka 4.4.0.
"""

from pathlib import Path
from typing import Any
from uuid import UUID

from harness.cases.access_cases import on_group, on_id, on_topic
from harness.client import Client
from kafkapy.protocol.constants import AclOperation as Op
from kafkapy.protocol.message import ZERO_UUID
from kafkapy.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkapy.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kafkapy.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafkapy.server.lifecycle.broker import BrokerServer
from kafkapy.turns import PIECE
from tests.server.access.guarded import Guarded, guarded_broker
from tests.server.harness import run, running_broker

STALE = UUID(int=5)
Row = tuple[UUID, int, int]


def _rows(answer: Any) -> list[Row]:
    """Id, partition and error code."""
    return [
        (topic.topic_id, each.partition_index, each.error_code) for topic in answer.topics for each in topic.partitions
    ]


async def _commit(client: Client, *ids: UUID, offset: int = 5, partitions: tuple[int, ...] = (0,)) -> list[Row]:
    topics = [
        OffsetCommitRequestTopic(
            topic_id=each, partitions=[OffsetCommitRequestPartition(at, offset) for at in partitions]
        )
        for each in ids
    ]
    return _rows(await client.ask(OffsetCommitRequest("g", topics=topics), 10))


async def _commit_in_transaction(client: Client, *ids: UUID, producer_id: int = 99) -> list[Row]:
    topics = [
        TxnOffsetCommitRequestTopic(topic_id=each, partitions=[TxnOffsetCommitRequestPartition(0, 7)]) for each in ids
    ]
    return _rows(await client.ask(TxnOffsetCommitRequest("tx", "g", producer_id, 0, topics=topics), 6))


async def _fetch(client: Client, *ids: UUID | None, group: str = "g") -> tuple[int, list[tuple[UUID, int, int]]]:
    """The group's error code, and id, error code and offset of each row; ``None`` asks for all topics."""
    topics = [OffsetFetchRequestTopics(topic_id=each, partition_indexes=[0]) for each in ids if each is not None]
    asked = OffsetFetchRequestGroup(group, topics=None if None in ids else topics)
    (row,) = (await client.ask(OffsetFetchRequest(groups=[asked]), 10)).groups
    return row.error_code, [
        (topic.topic_id, each.error_code, each.committed_offset) for topic in row.topics for each in topic.partitions
    ]


async def _topic(client: Client, name: str) -> UUID:
    await client.create_topic(name)
    return await client.topic_id(name)


async def _until_coordinated(broker: BrokerServer, client: Client, topic_id: UUID) -> None:
    while (await client.ask(FindCoordinatorRequest("g"), 2)).error_code or (await _commit(client, topic_id))[0][2]:
        await broker.clock.sleep(5)


def test_commits_by_id(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            one, two = await _topic(client, "one"), await _topic(client, "two")
            await _until_coordinated(broker, client, one)
            for offset in range(4):  # decoded, and by a form
                assert await _commit(client, one, offset=offset) == [(one, 0, 0)]
                assert await _fetch(client, one) == (0, [(one, 0, offset)])
            asked = one, STALE, two, ZERO_UUID, STALE
            assert await _commit(client, *asked) == [(one, 0, 0), (two, 0, 0), (STALE, 0, 100), (ZERO_UUID, 0, 100)]
            assert await _commit(client, one, STALE, partitions=(0, 9)) == [
                (one, 0, 0), (one, 9, 3), (STALE, 0, 100), (STALE, 9, 100),
            ]  # fmt: skip
            assert await _commit(client, STALE) == [(STALE, 0, 100)]
            assert await _commit(client) == []
            known, unknown = [(one, 0, 5), (two, 0, 5)], [(STALE, 100, -1), (ZERO_UUID, 100, -1)]
            assert await _fetch(client, one, STALE, two, ZERO_UUID) == (0, known + unknown)
            assert await _fetch(client, None) == (0, known)
            assert await _fetch(client) == (0, [])
            assert await _fetch(client, one, STALE, group="other") == (0, [(one, 0, -1), (STALE, 100, -1)])
            answer = await client.ask(DeleteTopicsRequest(topic_names=["one"], timeout_ms=10_000), 5)
            assert [each.error_code for each in answer.responses] == [0]
            again = await _topic(client, "one")
            assert await _commit(client, one, again) == [(again, 0, 0), (one, 0, 100)]
            assert await _fetch(client, one, again) == (0, [(again, 0, 5), (one, 100, -1)])
            many = [UUID(int=number) for number in range(1, 2 * PIECE)]
            assert await _commit(client, two, *many) == [(two, 0, 0), *((each, 0, 100) for each in many)]
            assert await _fetch(client, *many) == (0, [(each, 100, -1) for each in many])

    run(main())


def test_an_offset_of_a_topic_that_is_gone_is_not_among_all(tmp_path: Path) -> None:
    """A broker may still have the offset when its image has the topic no more."""

    async def main() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            one, two = await _topic(client, "one"), await _topic(client, "two")
            await _until_coordinated(broker, client, one)
            assert await _commit(client, one, two) == [(one, 0, 0), (two, 0, 0)]
            cache = broker.services.metadata
            cache.image = cache.image._replace(topics={"two": cache.image.topics["two"]})
            assert await _fetch(client, None) == (0, [(two, 0, 5)])

    run(main())


def test_commits_in_transactions(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker(tmp_path, transaction__state__log__num__partitions="1") as broker:
            client = await Client.connect(broker)
            one, two = await _topic(client, "one"), await _topic(client, "two")
            await _until_coordinated(broker, client, one)
            await client.ask(FindCoordinatorRequest("tx", key_type=1), 2)
            while (producer := await client.ask(InitProducerIdRequest("tx", 60_000), 4)).error_code:
                await broker.clock.sleep(5)
            of_producer = {"producer_id": producer.producer_id}
            assert await _commit_in_transaction(client, STALE, **of_producer) == [(STALE, 0, 100)]
            expected = [(one, 0, 0), (two, 0, 0), (STALE, 0, 100)]
            assert await _commit_in_transaction(client, one, STALE, two, **of_producer) == expected
            assert await _commit_in_transaction(client, one, **of_producer) == expected[:1]

    run(main())


async def _prepared(guarded: Guarded) -> tuple[UUID, UUID]:
    one, two = await _topic(guarded.admin, "one"), await _topic(guarded.admin, "two")
    await _until_coordinated(guarded.broker, guarded.admin, one)
    return one, two


def test_rights(tmp_path: Path) -> None:
    async def main() -> None:
        async with guarded_broker(tmp_path) as guarded:
            one, two = await _prepared(guarded)
            alice = guarded.alice
            assert await _commit(alice, one) == [(one, 0, 30)]
            assert await _commit(alice, STALE, one) == [(one, 0, 30), (STALE, 0, 30)]
            assert await _commit(alice, STALE) == [(STALE, 0, 30)]
            assert await _fetch(alice, one, STALE) == (30, [])
            assert await _commit_in_transaction(alice, one, STALE) == [(one, 0, 53), (STALE, 0, 53)]
            guarded.allow(on_id(Op.WRITE, "tx"))
            assert await _commit_in_transaction(alice, one, STALE) == [(one, 0, 30), (STALE, 0, 30)]
            guarded.allow(on_group(Op.READ, "g"), on_topic(Op.READ, "two"))
            assert await _commit(alice, one, STALE, two) == [(two, 0, 0), (one, 0, 29), (STALE, 0, 100)]
            assert await _fetch(alice, one, STALE, two) == (0, [(one, 29, -1), (two, 0, 5), (STALE, 100, -1)])
            assert await _fetch(alice, None) == (0, [(two, 0, 5)])

    run(main())
