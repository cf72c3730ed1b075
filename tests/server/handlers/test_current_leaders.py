"""Produce and Fetch name the leader beside errors that tell the client to look for it (KIP-951).

The expected answers are those of a running Apache Kafka 4.4.0.
"""

from pathlib import Path
from typing import Any

import pytest

from harness.client import Client, batch, fetch_request, produce_request
from kafkapy.server.lifecycle.broker import BrokerServer
from kafkapy.types import TopicPartition
from tests.server.harness import run, running_broker

TP = TopicPartition("t", 0)
HOST = "127.0.0.1"
Leader = tuple[int, int] | None
Endpoints = list[tuple[int, str, int, str | None]]


def _named(row: Any, answer: Any) -> tuple[int, Leader, Endpoints]:
    """Error code, leader with its epoch, and addresses."""
    leader = row.current_leader
    endpoints = [(each.node_id, each.host, each.port, each.rack) for each in answer.node_endpoints]
    return row.error_code, None if leader is None else (leader.leader_id, leader.leader_epoch), endpoints


async def _fetch(client: Client, version: int, **fields: Any) -> tuple[int, Leader, Endpoints]:
    fields = {"topic_id": await client.topic_id("t"), **fields}
    answer = await client.ask(fetch_request("t", **fields), version)
    return _named(answer.responses[0].partitions[0], answer)


async def _produce(client: Client, version: int) -> tuple[int, Leader, Endpoints]:
    request = produce_request("t", batch(b"x"), topic_id=await client.topic_id("t"))
    answer = await client.ask(request, version)
    return _named(answer.responses[0].partition_responses[0], answer)


def _own(broker: BrokerServer) -> tuple[int, str, int, str | None]:
    return 0, HOST, broker.services.metadata.image.brokers[0].endpoints["PLAINTEXT"].port, None


@pytest.mark.parametrize("version", [12, 15, 16, 18])
def test_a_fetch_with_an_old_epoch(version: int, tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            broker.services.replica_manager.partitions[TP].leader_epoch = 3
            own: tuple[Leader, Endpoints] = ((0, 3), [_own(broker)]) if version >= 16 else (None, [])
            assert await _fetch(client, version, current_leader_epoch=2) == (74, *own)
            assert await _fetch(client, version, current_leader_epoch=2, session_epoch=0) == (74, *own)
            assert await _fetch(client, version, current_leader_epoch=4) == (75, None, [])
            assert await _fetch(client, version) == (0, None, [])

    run(main())


def _hand_over(broker: BrokerServer, leader: int) -> None:
    """The broker does not lead the partition any more; by its metadata ``leader`` does, in epoch 7."""
    broker.services.replica_manager.partitions[TP].is_leader = False
    cache = broker.services.metadata
    topic = cache.image.topics["t"]
    partitions = {0: topic.partitions[0]._replace(leader=leader, leader_epoch=7)}
    brokers = {0: cache.image.brokers[0], 5: cache.image.brokers[0]._replace(id=5, rack="r")}
    topics = {**cache.image.topics, "t": topic._replace(partitions=partitions)}
    cache.image = cache.image._replace(topics=topics, brokers=brokers)
    cache.derived.clear()


@pytest.mark.parametrize("leader", [5, 9], ids=["alive", "dead"])
def test_a_broker_that_does_not_lead(leader: int, tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            _hand_over(broker, leader)
            endpoint = broker.services.metadata.image.brokers[5].endpoints["PLAINTEXT"]
            endpoints = [(5, endpoint.host, endpoint.port, "r")] if leader == 5 else []
            for version in (10, 12, 13):
                assert await _produce(client, version) == (6, (leader, 7), endpoints)
            assert await _produce(client, 9) == (6, None, [])
            assert await _fetch(client, 10) == (6, None, [])
            cache = broker.services.metadata
            cache.image = cache.image._replace(topics={})
            answer = await client.ask(produce_request("t", batch(b"x")), 12)
            assert _named(answer.responses[0].partition_responses[0], answer) == (6, None, []), "no leader is known"

    run(main())
