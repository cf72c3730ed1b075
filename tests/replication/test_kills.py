"""Brokers die under a producer, the controller too: what was acknowledged by all in-sync replicas stays."""

import asyncio
import random
from pathlib import Path

import pytest

from kafkapy.protocol.errors import ErrorCode
from kafkapy.records.batch import iterate_headers
from kafkapy.records.record import read_records
from kafkapy.server.broker import BrokerServer
from tests.replication.brokers import TP, Brokers, brokers
from tests.server.harness import Client, batch, produce_request, run, until

KILLS = 8


class Producer:
    """Writes one record after the other to whichever broker the newest metadata call the leader."""

    def __init__(self, cluster: Brokers) -> None:
        self.acknowledged: dict[int, bytes] = {}
        self.is_stopping = False
        self._cluster = cluster
        self._number = 0

    async def run(self) -> None:
        while not self.is_stopping:
            leader = self._leader()
            if leader is None:
                await asyncio.sleep(0.005)
                continue
            try:
                await self._write_to(leader)
            except (OSError, asyncio.IncompleteReadError):
                continue  # the broker has died

    def _leader(self) -> BrokerServer | None:
        found = [
            partition
            for broker in self._cluster.all
            if (partition := broker.services.metadata.image.partition(*TP)) is not None
        ]
        newest = max(found, key=lambda each: each.leader_epoch, default=None)
        return None if newest is None else self._cluster.running.get(newest.leader)

    async def _write_to(self, leader: BrokerServer) -> None:
        client = await Client.connect(leader)
        try:
            while not self.is_stopping:
                self._number += 1
                value = b"%d" % self._number
                response = await client.ask(produce_request(TP.topic, batch(value), acks=-1), 8)
                (answer,) = response.responses[0].partition_responses
                if answer.error_code != ErrorCode.NONE:
                    await asyncio.sleep(0.005)
                    return
                self.acknowledged[answer.base_offset] = value
        finally:
            client.writer.close()


def _values(content: bytes) -> dict[int, bytes | None]:
    return {
        record.offset: record.value
        for position, header in iterate_headers(content)
        for record in read_records(content[position : position + header.size], header)
    }


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
            stored = _values(b"".join(cluster.content(1).values()))
            assert producer.acknowledged.items() <= stored.items()

    run(scenario())
