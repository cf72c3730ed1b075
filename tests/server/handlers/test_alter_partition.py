"""AlterPartition: the requests of a leader, and the controller's answers to it."""

from pathlib import Path

from harness.client import Client
from kafkapy.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    RequestPartitionData,
    RequestTopicData,
)
from tests.replication.brokers import Brokers, brokers
from tests.server.harness import run


async def _ask(
    cluster: Brokers, *partitions: RequestPartitionData, epoch: int | None = None, broker: int = 1
) -> object:
    client: Client = await cluster.client(broker)
    known = cluster[1].services.fence.broker_epoch if epoch is None else epoch
    request = AlterPartitionRequest(1, known, [RequestTopicData("t", partitions=list(partitions))])
    response: AlterPartitionResponse = await client.ask(request, 0)
    if response.error_code:
        return response.error_code
    (topic,) = response.topics
    return [
        (each.partition_index, each.error_code, each.leader_id, each.isr, each.partition_epoch)
        for each in topic.partitions
    ]


def test_each_partition_has_its_answer(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with brokers(tmp_path, 1, 2) as cluster:
            await cluster.create_topic(1, 2)
            assert await _ask(
                cluster,
                RequestPartitionData(0, 0, [1, 2]),
                RequestPartitionData(1, 0, [1]),
            ) == [(0, 0, 1, [1, 2], 0), (1, 3, 0, [], 0)]
            assert await _ask(cluster, RequestPartitionData(0, -1, [1])) == [(0, 74, 0, [], 0)]
            assert await _ask(cluster, RequestPartitionData(0, 0, [1]), epoch=5) == 77
            assert await _ask(cluster, RequestPartitionData(0, 0, [1]), broker=2) == 41

    run(scenario())
