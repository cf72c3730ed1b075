"""DeleteRecords: the log start moves, and nothing above the high watermark goes."""

from pathlib import Path
from typing import Any

import pytest

from kafkapy.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from tests.server.harness import Client, batch, run, running_broker


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


def test_what_is_asked_twice_is_done_as_it_was_asked_last(tmp_path: Path) -> None:
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
