"""DeleteRecords: the log start offset advances, up to the high watermark."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from harness.client import Client, batch, frame
from kafkapy.clock import Clock
from kafkapy.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkapy.replication.partition import LeaderAndIsrPartition
from kafkapy.server.lifecycle.broker import BrokerServer
from kafkapy.testing.clock import ManualClock
from kafkapy.types import TopicPartition
from tests.server.harness import run, running_broker, until


async def delete(
    client: Client, offset: int, version: int = 2, topic: str = "t", partition: int = 0
) -> tuple[int, int]:
    wanted = DeleteRecordsTopic(topic, [DeleteRecordsPartition(partition, offset)])
    response: Any = await client.ask(DeleteRecordsRequest([wanted], 1000), version)
    answer = response.topics[0].partitions[0]
    return answer.error_code, answer.low_watermark


@pytest.mark.parametrize("version", range(3))
def test_every_version_moves_the_log_start(version: int, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            await client.produce("t", batch(b"a", b"b", b"c"))
            assert await delete(client, 1, version) == (0, 1)
            assert await delete(client, 0, version) == (0, 1)
            assert (await client.fetch("t", 0)).responses[0].partitions[0].error_code == 1
            assert (await client.fetch("t", 1)).responses[0].partitions[0].log_start_offset == 1
            assert await delete(client, -1, version) == (0, 3)

    run(scenario())


def test_a_partition_that_is_named_twice_is_handled_as_it_was_named_last(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            await client.produce("t", batch(b"a", b"b", b"c"))
            asked = [DeleteRecordsTopic("t", [DeleteRecordsPartition(0, offset)]) for offset in (2, 1)]
            response: Any = await client.ask(DeleteRecordsRequest([*asked, DeleteRecordsTopic("t")], 1000), 2)
            (topic,) = response.topics
            assert [(each.partition_index, each.low_watermark) for each in topic.partitions] == [(0, 1)]

    run(scenario())


def test_refusals(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            await client.create_topic("compacted", cleanup__policy="compact")
            await client.create_topic("__consumer_offsets")
            await client.produce("t", batch(b"a"))
            assert await delete(client, 2) == (1, -1)
            assert await delete(client, -2) == (1, -1)
            assert await delete(client, 0, topic="nowhere") == (3, -1)
            assert await delete(client, 0, partition=3) == (3, -1)
            assert await delete(client, 0, topic="compacted") == (44, -1)
            assert await delete(client, 0, topic="__consumer_offsets") == (17, -1)

    run(scenario())


def replicated(broker: BrokerServer, *topics: str, epoch: int = 5, leader: int = 0) -> None:
    """Apply metadata in which brokers 0, 1 and 9 have replicas of the partition; 1 is alive, 9 is not."""
    replicas = broker.services.replica_manager
    for topic in topics:
        state = LeaderAndIsrPartition(1, leader, epoch, (0, 1), 0, (0, 1, 9))
        replicas.become_leader_or_follower(TopicPartition(topic, 0), state)
    image = broker.services.metadata.image
    brokers = {**image.brokers, 1: image.brokers[0]._replace(id=1)}
    broker.services.metadata.image = image._replace(brokers=brokers)


async def follow(client: Client, topic: str, offset: int, log_start_offset: int) -> None:
    """Fetch as broker 1."""
    partition = FetchPartition(0, -1, offset, log_start_offset=log_start_offset, partition_max_bytes=1000)
    response: Any = await client.ask(
        FetchRequest(replica_id=1, max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic, partitions=[partition])]), 11
    )
    assert response.responses[0].partitions[0].error_code == 0


def asked(*topics: str, offset: int = 2, timeout_ms: int = 1000) -> DeleteRecordsRequest:
    return DeleteRecordsRequest(
        [DeleteRecordsTopic(topic, [DeleteRecordsPartition(0, offset)]) for topic in topics], timeout_ms
    )


def rows(response: Any) -> list[tuple[str, int, int]]:
    return [(topic.name, row.error_code, row.low_watermark) for topic in response.topics for row in topic.partitions]


async def waits_for(broker: BrokerServer, count: int) -> None:
    await until(lambda: len(broker.services.replica_manager.purgatory) == count)


@asynccontextmanager
async def followed_broker(path: Path, clock: Clock | None = None) -> AsyncIterator[tuple[BrokerServer, Client, Client]]:
    """A broker that leads ``t`` and ``u`` with three records and a live follower, its client and its follower."""
    async with running_broker(path, clock=clock) as broker:
        client, follower = await Client.connect(broker), await Client.connect(broker)
        for topic in ("t", "u", "alone"):
            await client.create_topic(topic)
        replicated(broker, "t", "u")
        for topic in ("t", "u", "alone"):
            await client.produce(topic, batch(b"a", b"b", b"c"))
        for topic in ("t", "u"):
            await follow(follower, topic, 3, 0)
        yield broker, client, follower


def test_the_answer_waits_until_the_followers_have_advanced(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with followed_broker(tmp_path) as (broker, client, follower):
            client.send(frame(asked("t", "alone", "u"), 2))
            await waits_for(broker, 1)
            await follow(follower, "t", 3, 1)
            await follow(follower, "u", 3, 3)
            await waits_for(broker, 1)
            assert broker.services.replica_manager.partitions[TopicPartition("t", 0)].log.log_start_offset == 2
            await follow(follower, "t", 3, 2)
            response = client.decode(21, 2, await client.receive())
            assert rows(response) == [("t", 0, 2), ("alone", 0, 2), ("u", 0, 2)]
            assert rows(await client.ask(asked("t", offset=1), 2)) == [("t", 0, 2)]

    run(scenario())


def test_the_wait_for_a_slow_follower_ends_at_the_requests_timeout(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        async with followed_broker(tmp_path, clock) as (broker, client, follower):
            client.send(frame(asked("t", "u", timeout_ms=700), 2))
            await waits_for(broker, 1)
            await follow(follower, "u", 3, 2)
            clock.advance(699)
            await waits_for(broker, 1)
            clock.advance(1)
            assert rows(client.decode(21, 2, await client.receive())) == [("t", 7, 0), ("u", 0, 2)]

    run(scenario())


def test_a_leader_that_becomes_a_follower_answers_not_leader(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with followed_broker(tmp_path) as (broker, client, _):
            client.send(frame(asked("t"), 2))
            await waits_for(broker, 1)
            replicated(broker, "t", epoch=6, leader=1)
            assert rows(client.decode(21, 2, await client.receive())) == [("t", 6, -1)]

    run(scenario())
