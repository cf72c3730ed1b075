"""OffsetForLeaderEpoch: the end offsets of leader epochs."""

from pathlib import Path
from typing import Any

import pytest

from harness.client import Client, batch
from kafkapy.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kafkapy.types import TopicPartition
from tests.server.harness import run, running_broker


async def ask(client: Client, epoch: int, version: int = 3, *, current: int = -1, topic: str = "t") -> Any:
    partition = OffsetForLeaderPartition(0, current, epoch)
    response = await client.ask(OffsetForLeaderEpochRequest(-1, [OffsetForLeaderTopic(topic, [partition])]), version)
    return response.topics[0].partitions[0]


@pytest.mark.parametrize("version", range(4))
def test_the_current_epoch_ends_at_the_log_end_offset(version: int, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            await client.produce("t", batch(b"a", b"b"))
            answer = await ask(client, 0, version)
            assert (answer.error_code, answer.end_offset, answer.leader_epoch) == (0, 2, 0 if version else -1)

    run(scenario())


def test_a_partition_that_is_named_twice_is_answered_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            await client.produce("t", batch(b"a"))
            asked = [OffsetForLeaderTopic("t", [OffsetForLeaderPartition(0, -1, epoch)]) for epoch in (7, 0)]
            response: Any = await client.ask(OffsetForLeaderEpochRequest(-1, [*asked, OffsetForLeaderTopic("t")]), 3)
            (topic,) = response.topics
            assert [each.end_offset for each in topic.partitions] == [1]

    run(scenario())


def test_end_offsets_of_epochs_and_errors(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            await client.produce("t", batch(b"a", b"b"))
            partition = broker.services.replica_manager.partitions[TopicPartition("t", 0)]
            partition.log.leader_epochs.assign(4, 2)
            partition.leader_epoch = 4
            first, unknown = await ask(client, 3), await ask(client, 9)
            assert (first.leader_epoch, first.end_offset) == (0, 2)
            assert (unknown.error_code, unknown.leader_epoch, unknown.end_offset) == (0, -1, -1)
            assert (await ask(client, 0, current=3)).error_code == 74
            assert (await ask(client, 0, current=-2)).error_code == 74
            assert (await ask(client, 0, current=5)).error_code == 75
            assert (await ask(client, 0, topic="nowhere")).error_code == 3

    run(scenario())
