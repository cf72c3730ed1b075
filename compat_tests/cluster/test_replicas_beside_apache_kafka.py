"""A kafkapy broker as leader and follower beside brokers of Apache Kafka, whose controller commands it.

Two are of 2.7.2, one is of 3.9.1 with ZooKeeper and the inter-broker protocol of 2.7.

kafkapy keeps its own metadata in an embedded store; the test registers it in the ZooKeeper of the others, so that their
controller sends it LeaderAndIsr and UpdateMetadata.
"""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from harness.client import Client, batch, produce_request
from harness.process import HOST, wait_for
from harness.real_kafka import RealKafka, ZooKeeper
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.metadata.znodes import BrokerEndpoint, BrokerIdZNode, LeaderIsr, PartitionStateZNode
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kafkapy.protocol.messages.metadata import MetadataRequest
from kafkapy.server.lifecycle.broker import BrokerServer
from kafkapy.storage.log.log import Log
from kafkapy.types import TopicPartition

pytestmark = [pytest.mark.java, pytest.mark.together]

KAFKAPY = 9
NEWER = 3
LAG_MS = 3_000
KEYS = {
    "replica.lag.time.max.ms": str(LAG_MS),
    "replica.fetch.wait.max.ms": "200",
    "replica.fetch.backoff.ms": "200",
    "log.retention.ms": "-1",
    "inter.broker.protocol.version": "2.7",
}
DEADLINE_S = 60


class Mixed:
    """Brokers 1 and 2 are Apache Kafka 2.7.2, broker 3 is 3.9.1, broker 9 is kafkapy's."""

    def __init__(self, kafkas: dict[int, RealKafka], path: Path, zookeeper: str) -> None:
        self.kafkas = kafkas
        self.zookeeper = KazooClient(zookeeper)
        self.zookeeper.start()
        self._path = path
        self._session = KazooClient(zookeeper)
        self._clients: dict[int, Client] = {}

    async def start(self, *others: int) -> None:
        """Start kafkapy's broker, enter it among those of the cluster, and wait until it has heard of the others."""
        properties = {**KEYS, "broker.id": str(KAFKAPY), "listeners": f"PLAINTEXT://{HOST}:0"}
        config = BrokerConfig.from_properties({**properties, "log.dirs": str(self._path)})
        (self._path / "meta.properties").unlink(missing_ok=True)  # its embedded store begins another cluster each time
        self.broker = BrokerServer(config, in_memory_metadata=True, serves_brokers=True)
        await self.broker.start()
        session = self._session = KazooClient(",".join(f"{host}:{port}" for host, port in self.zookeeper.hosts))
        session.start()
        endpoint = BrokerEndpoint("PLAINTEXT", "PLAINTEXT", HOST, self.broker.port)
        node = BrokerIdZNode.path(KAFKAPY)
        entry = session.transaction()
        entry.create(node, b"", ephemeral=True)
        entry.set_data(node, BrokerIdZNode(KAFKAPY, (endpoint,), None, 0).encode())
        entry.commit()
        self.broker.services.fence.broker_epoch = session.exists(node).czxid
        expected = {*(others or self.kafkas), KAFKAPY}
        await until(lambda: expected <= self.broker.services.metadata.image.brokers.keys())

    async def stop(self) -> None:
        """Stop kafkapy's broker, and end its registration."""
        client = self._clients.pop(KAFKAPY, None)
        if client is not None:
            await client.close()
        await self.broker.stop()
        self._session.stop()
        self._session.close()

    def follower_to_pause(self) -> int:
        """The broker of 2.7.2 that is not the controller."""
        return 3 - int(json.loads(self.zookeeper.get("/controller")[0])["brokerid"])

    @contextmanager
    def paused(self, broker_id: int) -> Iterator[None]:
        pid = self.kafkas[broker_id].pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            assert wait_for(lambda: _is_stopped(pid), DEADLINE_S)  # the signal takes effect later on a busy machine
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    async def client(self, broker_id: int) -> Client:
        if broker_id not in self._clients:
            port = self.broker.port if broker_id == KAFKAPY else self.kafkas[broker_id].port
            self._clients[broker_id] = Client(*await asyncio.open_connection(HOST, port))
        return self._clients[broker_id]

    async def create(self, topic: str, *replicas: int, unclean: bool = False) -> None:
        controller = (await (await self.client(1)).ask(MetadataRequest(topics=[]), 1)).controller_id
        assigned = [CreatableReplicaAssignment(0, list(replicas))]
        configs = [CreatableTopicConfig("unclean.leader.election.enable", str(unclean).lower())]
        request = CreateTopicsRequest([CreatableTopic(topic, -1, -1, assigned, configs)], timeout_ms=10_000)
        response = await (await self.client(controller)).ask(request, 5)
        assert [each.error_code for each in response.topics] == [0], response
        held = TopicPartition(topic, 0)
        await until(lambda: held in self.broker.services.replica_manager.partitions)

    async def produce(self, broker_id: int, topic: str, count: int) -> None:
        client = await self.client(broker_id)
        for number in range(count):
            request = produce_request(topic, batch(*(b"%d" % each for each in range(1 + number % 5))), acks=-1)
            request.timeout_ms = 20_000
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            while code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER):  # not told yet
                response = await client.ask(request, 8)
                code = response.responses[0].partition_responses[0].error_code
            assert code == ErrorCode.NONE, (broker_id, topic, number)

    def log(self, topic: str) -> Log:
        return self.broker.services.replica_manager.partitions[TopicPartition(topic, 0)].log

    def state(self, topic: str) -> LeaderIsr:
        data, stat = self.zookeeper.get(PartitionStateZNode.path(TopicPartition(topic, 0)))
        return PartitionStateZNode.decode(data, stat.version)

    def same_bytes(self, topic: str, *broker_ids: int) -> bool:
        mine = Path(self.log(topic).directory, f"{0:020}.log").read_bytes()
        logs = [self.kafkas[each].data / f"{topic}-0" / f"{0:020}.log" for each in broker_ids]
        return all(log.exists() and log.read_bytes() == mine for log in logs)  # Kafka may not have made its file yet


def _is_stopped(pid: int) -> bool:
    """Whether no thread of a process runs any more."""
    states = [stat.read_text().rpartition(")")[2].split()[0] for stat in Path(f"/proc/{pid}/task").glob("*/stat")]
    return set(states) == {"T"}


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not condition():  # noqa: ASYNC110  # other processes set no event
            await asyncio.sleep(0.02)


@pytest.fixture(scope="module")
def kafkas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ZooKeeper, dict[int, RealKafka]]]:
    path = tmp_path_factory.mktemp("mixed")
    zookeeper = ZooKeeper("2.7.2", path / "zookeeper").start()
    started = {
        each: RealKafka(version, config=KEYS, directory=path / str(each), zookeeper=zookeeper, broker_id=each)
        for each, version in ((1, "2.7.2"), (2, "2.7.2"), (NEWER, "3.9.1"))
    }
    started[NEWER].has_zookeeper = True
    try:
        for each in started.values():
            each.start()
        yield zookeeper, started
    finally:
        for each in started.values():
            each.close()
        zookeeper.close()


@asynccontextmanager
async def mixed(path: Path, kafkas: tuple[ZooKeeper, dict[int, RealKafka]]) -> AsyncIterator[Mixed]:
    cluster = Mixed(kafkas[1], path, f"{HOST}:{kafkas[0].port}")
    try:
        await cluster.start()
        try:
            yield cluster
        finally:
            await cluster.stop()
    finally:
        cluster.zookeeper.stop()
        cluster.zookeeper.close()


def test_it_follows_and_leads(tmp_path: Path, kafkas: tuple[ZooKeeper, dict[int, RealKafka]]) -> None:
    async def scenario() -> None:
        async with mixed(tmp_path, kafkas) as cluster:
            await cluster.create("followed", 1, KAFKAPY, 2)
            await cluster.produce(1, "followed", 40)
            await until(lambda: cluster.log("followed").high_watermark == 120)
            assert cluster.same_bytes("followed", 1, 2)
            await cluster.create("led", KAFKAPY, 1, 2)
            await cluster.produce(KAFKAPY, "led", 40)
            await until(lambda: cluster.same_bytes("led", 1, 2))
            assert set(cluster.state("led").isr) == {1, 2, KAFKAPY}

    asyncio.run(scenario())


def test_it_takes_a_follower_out_of_the_in_sync_replicas_and_back(
    tmp_path: Path, kafkas: tuple[ZooKeeper, dict[int, RealKafka]]
) -> None:
    """AlterIsr: the controller of Apache Kafka writes what kafkapy, the leader, asks for."""

    async def scenario() -> None:
        async with mixed(tmp_path, kafkas) as cluster:
            paused = cluster.follower_to_pause()
            await cluster.create("shrinks", KAFKAPY, paused)
            await cluster.produce(KAFKAPY, "shrinks", 3)
            with cluster.paused(paused):
                await cluster.produce(KAFKAPY, "shrinks", 3)
                state = cluster.state("shrinks")
                assert (state.leader, state.isr) == (KAFKAPY, (KAFKAPY,))
            await until(lambda: set(cluster.state("shrinks").isr) == {KAFKAPY, paused})
            await until(lambda: cluster.same_bytes("shrinks", paused))

    asyncio.run(scenario())


def test_it_drops_what_the_new_leader_does_not_have(
    tmp_path: Path, kafkas: tuple[ZooKeeper, dict[int, RealKafka]]
) -> None:
    """The only broker in sync goes away, another one is elected, and the first comes back as its follower."""

    async def scenario() -> None:
        async with mixed(tmp_path, kafkas) as cluster:
            other = cluster.follower_to_pause()
            await cluster.create("diverges", KAFKAPY, other, unclean=True)
            await cluster.produce(KAFKAPY, "diverges", 4)
            await until(lambda: cluster.same_bytes("diverges", other))
            with cluster.paused(other):
                await cluster.produce(KAFKAPY, "diverges", 5)
                assert cluster.state("diverges").isr == (KAFKAPY,)
                assert cluster.log("diverges").log_end_offset == 25
                await cluster.stop()
            await until(lambda: cluster.state("diverges").leader == other)
            await cluster.produce(other, "diverges", 3)
            await cluster.start()
            await until(lambda: set(cluster.state("diverges").isr) == {KAFKAPY, other})
            await until(lambda: cluster.same_bytes("diverges", other))
            log = cluster.log("diverges")
            kept = (
                log.leader_epochs.latest_start_offset
            )  # a response may have been on its way when the other was paused
            assert (10 <= kept < 25, log.log_end_offset) == (True, kept + 6)

    asyncio.run(scenario())


def test_it_leads_and_follows_a_broker_of_3_9_1(tmp_path: Path, kafkas: tuple[ZooKeeper, dict[int, RealKafka]]) -> None:
    """Which asks for no end offsets of epochs as a follower: Fetch has to tell it where its log diverges (KIP-595)."""

    async def scenario() -> None:
        async with mixed(tmp_path, kafkas) as cluster:
            await cluster.create("newer-leads", NEWER, KAFKAPY)
            await cluster.produce(NEWER, "newer-leads", 20)
            await until(lambda: cluster.same_bytes("newer-leads", NEWER))
            await cluster.create("newer-follows", KAFKAPY, NEWER)
            await cluster.produce(KAFKAPY, "newer-follows", 20)
            await until(lambda: cluster.same_bytes("newer-follows", NEWER))

            await cluster.create("newer-diverges", NEWER, KAFKAPY, unclean=True)
            await cluster.produce(NEWER, "newer-diverges", 4)
            await until(lambda: cluster.same_bytes("newer-diverges", NEWER))
            await cluster.stop()
            await until(lambda: cluster.state("newer-diverges").isr == (NEWER,))
            await cluster.produce(NEWER, "newer-diverges", 5)
            with cluster.paused(NEWER):
                await until(lambda: cluster.state("newer-diverges").leader == -1)
                await cluster.start(1, 2)
                await until(lambda: cluster.state("newer-diverges").leader == KAFKAPY)
                await cluster.produce(KAFKAPY, "newer-diverges", 3)
                assert cluster.log("newer-diverges").log_end_offset == 16
            await until(lambda: set(cluster.state("newer-diverges").isr) == {KAFKAPY, NEWER})
            await until(lambda: cluster.same_bytes("newer-diverges", NEWER))

    asyncio.run(scenario())
