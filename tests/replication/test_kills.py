"""Brokers are killed under a producer, the controller too: records that all in-sync replicas have acknowledged stay."""

import asyncio
import random
from pathlib import Path

import pytest

from tests.replication.brokers import brokers
from tests.replication.producer import Producer, values_by_offset
from tests.server.harness import run, until

KILLS = 8


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_acknowledged_records_survive_killed_brokers(tmp_path: Path, seed: int) -> None:
    async def scenario() -> None:
        chance = random.Random(seed)
        async with brokers(tmp_path, 1, 2, 3) as cluster:
            await cluster.create_topic(1, 2, 3, min__insync__replicas="2")
            producer = Producer(cluster)
            producing = asyncio.create_task(producer.run())
            for _ in range(KILLS):
                count = len(producer.acknowledged)
                await until(lambda count=count: len(producer.acknowledged) > count + 50)  # type: ignore[misc]
                victim = chance.choice(list(cluster.running))
                await cluster.stop(victim, kill=chance.random() < 0.7)
                if chance.random() < 0.5:
                    count = len(producer.acknowledged)
                    await until(lambda count=count: len(producer.acknowledged) > count + 50)  # type: ignore[misc]
                await cluster.start(victim)
                await cluster.in_sync(1, 2, 3)
            producer.is_stopping = True
            await producing
            await cluster.same_end(1, 2, 3)
            assert cluster.content(1) == cluster.content(2) == cluster.content(3)
            stored = values_by_offset(b"".join(cluster.content(1).values()))
            assert producer.acknowledged.items() <= stored.items()

    run(scenario())
