"""AlterReplicaLogDirs: moves of a running broker's partitions, and what DescribeLogDirs shows of them."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from harness.client import Client, batch, values_of
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kafkapy.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkapy.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kafkapy.replication.copying import BATCHES_IN_A_STEP
from kafkapy.server.lifecycle.broker import BrokerServer
from tests.server.harness import run, running_broker

LIMIT = "replica.alter.log.dirs.io.max.bytes.per.second"
Row = tuple[str, int, int, bool]


class Broker:
    """A broker with the data directories a and b, and a client."""

    def __init__(self, path: Path, server: BrokerServer, client: Client) -> None:
        self.path = path
        self.server = server
        self.client = client

    def at(self, name: str) -> str:
        return str(self.path / name)

    async def alter(self, *wanted: tuple[str, str, Iterable[int]], version: int = 1) -> dict[tuple[str, int], int]:
        dirs = [
            AlterReplicaLogDir(path, [AlterReplicaLogDirTopic(topic, list(indexes))]) for path, topic, indexes in wanted
        ]
        answer = await self.client.ask(AlterReplicaLogDirsRequest(dirs), version)
        assert answer.throttle_time_ms == 0
        return {
            (topic.topic_name, row.partition_index): row.error_code
            for topic in answer.results
            for row in topic.partitions
        }

    async def describe(self, topics: list[DescribableLogDirTopic] | None = None) -> dict[str, list[Row]]:
        answer = await self.client.ask(DescribeLogDirsRequest(topics), 2)
        return {
            Path(result.log_dir).name: [
                (topic.name, row.partition_index, row.offset_lag, row.is_future_key)
                for topic in result.topics
                for row in topic.partitions
            ]
            for result in answer.results
        }

    async def limit(self, bytes_per_second: int) -> None:
        config = AlterableConfig(LIMIT, 0, str(bytes_per_second))
        await self.client.ask(IncrementalAlterConfigsRequest([AlterConfigsResource(4, "0", [config])]), 0)

    async def wait_for(self, expected: dict[str, list[Row]]) -> None:
        for _ in range(1000):
            if await self.describe() == expected:
                return
            await asyncio.sleep(0)
        assert await self.describe() == expected


@asynccontextmanager
async def broker_at(path: Path, **keys: str) -> AsyncIterator[Broker]:
    async with running_broker(path, log__dirs=f"{path}/a,{path}/b", **keys) as server:
        yield Broker(path, server, await Client.connect(server))


@pytest.mark.parametrize("version", [0, 1])
def test_a_partition_moves(tmp_path: Path, version: int) -> None:
    async def scenario() -> None:
        async with broker_at(tmp_path, num__replica__alter__log__dirs__threads="3") as broker:
            await broker.client.create_topic("t")
            await broker.client.produce("t", batch(b"v"))
            assert await broker.describe() == {"a": [("t", 0, 0, False)], "b": []}
            assert await broker.alter((broker.at("b"), "t", [0]), version=version) == {("t", 0): 0}
            await broker.wait_for({"a": [], "b": [("t", 0, 0, False)]})
            await broker.client.produce("t", batch(b"w"))
            fetched = await broker.client.fetch("t")
            assert values_of(fetched.responses[0].partitions[0].records) == [b"v", b"w"]

    run(scenario())


def test_a_limited_move_is_shown_until_the_limit_is_raised(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with broker_at(tmp_path) as broker:
            await broker.client.create_topic("t", partitions=2)
            await broker.limit(0)
            for _ in range(BATCHES_IN_A_STEP + 5):
                await broker.client.produce("t", batch(b"v"))
            assert await broker.alter((broker.at("b"), "t", [0])) == {("t", 0): 0}
            await broker.wait_for({"a": [("t", 0, 0, False)], "b": [("t", 1, 0, False), ("t", 0, 5, True)]})
            asked = [DescribableLogDirTopic("t", [0])]
            assert await broker.describe(asked) == {"a": [("t", 0, 0, False)], "b": [("t", 0, 5, True)]}
            assert await broker.describe([DescribableLogDirTopic("t", [1])]) == {"a": [], "b": [("t", 1, 0, False)]}
            await broker.limit(1_000_000)
            assert await broker.alter((broker.at("a"), "t", [0])) == {("t", 0): 0}
            assert await broker.alter((broker.at("b"), "t", [0])) == {("t", 0): 0}
            await broker.wait_for({"a": [], "b": [("t", 0, 0, False), ("t", 1, 0, False)]})

    run(scenario())


def test_refused_partitions(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with broker_at(tmp_path) as broker:
            await broker.client.create_topic("t")
            assert await broker.alter() == {}
            answered = await broker.alter(
                (broker.at("b"), "t", [5, -1, 2**31 - 1]), ("/nowhere", "t", [0]), (broker.at("b"), "t" * 214, [0])
            )
            assert answered == {
                ("t", 5): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ("t", -1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ("t", 2**31 - 1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ("t", 0): ErrorCode.LOG_DIR_NOT_FOUND,
                ("t" * 214, 0): ErrorCode.INVALID_TOPIC_EXCEPTION,
            }

    run(scenario())


def test_the_last_mention_of_a_partition_counts(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with broker_at(tmp_path) as broker:
            await broker.client.create_topic("t")
            wanted = [(broker.at(name), "t", [0] * 10_000) for name in "bab"]
            assert await broker.alter(*wanted) == {("t", 0): 0}
            await broker.wait_for({"a": [], "b": [("t", 0, 0, False)]})

    run(scenario())


def test_a_copy_whose_current_log_is_offline_has_no_lag(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with broker_at(tmp_path) as broker:
            await broker.client.create_topic("t")
            await broker.limit(0)
            await broker.alter((broker.at("b"), "t", [0]))
            logs = broker.server.services.log_manager
            logs.fail(next(iter(logs.directories)), OSError(5, "broken"))
            assert await broker.describe() == {"a": [], "b": [("t", 0, -1, True)]}
            assert await broker.alter((broker.at("b"), "t", [0])) == {("t", 0): ErrorCode.KAFKA_STORAGE_ERROR}
            assert await broker.alter((broker.at("a"), "t", [0])) == {("t", 0): ErrorCode.KAFKA_STORAGE_ERROR}

    run(scenario())


def test_a_coordinators_partition_moves_under_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with broker_at(tmp_path, offsets__topic__num__partitions="1") as broker:
            client = broker.client
            await client.create_topic("t")
            for _ in range(1000):
                if not (await client.ask(FindCoordinatorRequest("g"), 0)).error_code:
                    break

            async def commit(offset: int) -> int:
                topic = OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, offset)])
                answer = await client.ask(OffsetCommitRequest("g", topics=[topic]), 2)
                code: int = answer.topics[0].partitions[0].error_code
                return code

            for _ in range(1000):
                if not await commit(1):
                    break
            home = next(name for name, rows in (await broker.describe()).items() if rows and rows[0][0] != "t")
            other = "b" if home == "a" else "a"
            assert await broker.alter((broker.at(other), "__consumer_offsets", [0])) == {("__consumer_offsets", 0): 0}
            for offset in range(2, 12):
                assert await commit(offset) == 0
            for _ in range(1000):
                if ("__consumer_offsets", 0, 0, False) in (await broker.describe())[other]:
                    break
            assert await commit(12) == 0
            fetched = await client.ask(OffsetFetchRequest("g", [OffsetFetchRequestTopic("t", [0])]), 1)
            assert fetched.topics[0].partitions[0].committed_offset == 12
            partition = broker.server.services.replica_manager.partitions[("__consumer_offsets", 0)]  # type: ignore[index]
            assert partition.log.directory == f"{broker.at(other)}/__consumer_offsets-0"

    run(scenario())
