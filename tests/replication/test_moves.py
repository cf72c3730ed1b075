"""Replicas move between running brokers under a producer that waits for all of them."""

import asyncio
from pathlib import Path

import pytest

from harness.client import Client
from kafkapy.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kafkapy.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from kafkapy.types import TopicPartition
from tests.replication.brokers import TP, Brokers, brokers
from tests.replication.producer import Producer, values_by_offset
from tests.server.harness import run, until

OTHER = TopicPartition("t", 1)
RECORDS = 40
"""Acknowledged between two moves, at least."""


AT_ONCE = {"controlled__shutdown__max__retries": "1"}
"""The last broker of the cluster that stops finds no other leader."""


async def move(cluster: Brokers, *replicas: int) -> None:
    """Both partitions move to these brokers; returns when the request is answered."""
    client = await Client.connect(cluster.controller)
    moved = [ReassignablePartition(index, list(replicas)) for index in (0, 1)]
    response = await client.ask(AlterPartitionReassignmentsRequest(5000, topics=[ReassignableTopic("t", moved)]), 0)
    assert [found.error_code for topic in response.responses for found in topic.partitions] == [0, 0]
    await client.close()


async def moved(cluster: Brokers, *replicas: int) -> None:
    """Wait until all brokers know that exactly these have the partitions, in sync."""
    for topic_partition in (TP, OTHER):
        await cluster.knows(
            lambda image, found=topic_partition: (
                image.partition(*found).replicas == replicas and set(image.partition(*found).isr) == set(replicas)
            )
        )


async def produced(producer: Producer) -> None:
    count = len(producer.acknowledged)
    await until(lambda: len(producer.acknowledged) > count + RECORDS)


async def has_no_files(path: Path, broker_id: int) -> None:
    """The directories are renamed when they are deleted, and removed a little later."""
    await until(lambda: not list((path / str(broker_id)).glob("t-*")) and not list((path / str(broker_id)).glob("t.*")))


async def same_and_complete(cluster: Brokers, producer: Producer, *replicas: int) -> None:
    for topic_partition in (TP, OTHER):
        await cluster.same_end(*replicas, topic_partition=topic_partition)
        first, *others = (cluster.content(each, topic_partition) for each in replicas)
        assert all(found == first for found in others)
    stored = values_by_offset(b"".join(cluster.content(replicas[0]).values()))
    assert producer.acknowledged.items() <= stored.items()


def test_nothing_is_lost_when_partitions_move(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with brokers(tmp_path, 1, 2, 3, **AT_ONCE) as cluster:
            await cluster.create_topic(1, 2, partitions=2, min__insync__replicas="2", file__delete__delay__ms="1")
            producer = Producer(cluster)
            producing = asyncio.create_task(producer.run())
            await produced(producer)
            for target, without in (((2, 3), 1), ((3, 1), 2), ((2, 1), 3)):
                await move(cluster, *target)
                await moved(cluster, *target)
                await produced(producer)
                await has_no_files(tmp_path, without)
            client = await Client.connect(cluster.controller)
            assert (await client.ask(ListPartitionReassignmentsRequest(5000, None), 0)).topics == []
            await client.close()
            producer.is_stopping = True
            await producing
            await same_and_complete(cluster, producer, 2, 1)

    run(scenario())


@pytest.mark.slow
@pytest.mark.parametrize("victim", [1, 2, 3])
def test_a_broker_dies_while_partitions_move(tmp_path: Path, victim: int) -> None:
    """Broker 1 is the controller and gives its replicas away, 2 keeps its own, 3 gets new ones."""

    async def scenario() -> None:
        async with brokers(tmp_path, 1, 2, 3, **AT_ONCE) as cluster:
            await cluster.create_topic(1, 2, partitions=2, file__delete__delay__ms="1")
            producer = Producer(cluster)
            producing = asyncio.create_task(producer.run())
            await produced(producer)
            await move(cluster, 2, 3)
            await cluster.stop(victim, kill=True)
            await produced(producer)
            await cluster.start(victim)
            await moved(cluster, 2, 3)
            await produced(producer)
            producer.is_stopping = True
            await producing
            await same_and_complete(cluster, producer, 2, 3)

    run(scenario())
