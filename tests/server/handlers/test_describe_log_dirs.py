"""DescribeLogDirs: directories, partitions, bytes."""

from pathlib import Path

import pytest

from harness.client import Client, batch
from kafkapy.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from tests.server.harness import run, running_broker


@pytest.mark.parametrize("version", range(6))
def test_sizes_of_all_or_of_the_requested_partitions(version: int, tmp_path: Path) -> None:
    async def scenario() -> None:
        directories = [str(tmp_path / name) for name in ("one", "two")]
        async with running_broker(tmp_path, log__dirs=",".join(directories)) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t", partitions=2)
            await client.produce("t", batch(b"v"), partition=1)
            everything = await client.ask(DescribeLogDirsRequest(None), version)
            assert [result.log_dir for result in everything.results] == directories
            sizes = {
                (topic.name, partition.partition_index): (partition.partition_size, partition.offset_lag)
                for result in everything.results
                for topic in result.topics
                for partition in topic.partitions
            }
            assert sizes == {("t", 0): (0, 0), ("t", 1): (len(batch(b"v")), 0)}
            asked = [DescribableLogDirTopic("t", [1]), DescribableLogDirTopic("nowhere", [0])]
            some = await client.ask(DescribeLogDirsRequest(asked), version)
            found = [partition for result in some.results for topic in result.topics for partition in topic.partitions]
            assert [partition.partition_index for partition in found] == [1]
            has_sizes = [0 < result.usable_bytes <= result.total_bytes for result in some.results]
            assert has_sizes == [version >= 4] * 2

    run(scenario())
