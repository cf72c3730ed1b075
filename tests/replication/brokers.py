"""Several brokers of one cluster in this process: one embedded store, a session, data and a listener for each."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from harness.client import Client
from kafkapy.clock import Clock, SystemClock
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.metadata.embedded import EmbeddedStore
from kafkapy.metadata.znodes import LeaderIsr, PartitionStateZNode
from kafkapy.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kafkapy.replication.partition import Partition
from kafkapy.server.dispatch.interception import Hooks
from kafkapy.server.lifecycle.broker import NO_HOOKS, BrokerServer
from kafkapy.storage.log.log import Log
from kafkapy.types import TopicPartition
from tests.server.harness import until

TP = TopicPartition("t", 0)

KEYS = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "offsets.topic.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "replica.fetch.wait.max.ms": "100",
    "replica.fetch.backoff.ms": "20",
}


class Brokers:
    """The running brokers by id; ``keys`` are the configuration of all of them."""

    def __init__(self, path: Path, store: EmbeddedStore, clock: Clock, keys: dict[str, str]) -> None:
        self.running: dict[int, BrokerServer] = {}
        self.store = store
        self._path = path
        self._clock = clock
        self._keys = keys
        self._clients: dict[BrokerServer, Client] = {}

    def __getitem__(self, broker_id: int) -> BrokerServer:
        return self.running[broker_id]

    async def start(self, broker_id: int, *, hooks: Hooks = NO_HOOKS, **keys: str) -> BrokerServer:
        """Start a broker, or start it again; keys with ``__`` for each dot. The running ones know it on return."""
        properties = {**KEYS, **self._keys, "broker.id": str(broker_id), "log.dirs": str(self._path / str(broker_id))}
        properties |= {name.replace("__", "."): value for name, value in keys.items()}
        config = BrokerConfig.from_properties(properties)
        broker = BrokerServer(config, self._clock, store=self.store, serves_brokers=True, hooks=hooks)
        await broker.start()
        self.running[broker_id] = broker
        everybody = set(self.running)
        await until(lambda: all(each.services.metadata.image.brokers.keys() == everybody for each in self.all))
        return broker

    async def stop(self, broker_id: int, *, kill: bool = False) -> None:
        broker = self.running.pop(broker_id)
        client = self._clients.pop(broker, None)
        if client is not None:
            await client.close()
        await (broker.kill() if kill else broker.stop())

    @property
    def all(self) -> list[BrokerServer]:
        return list(self.running.values())

    @property
    def controller(self) -> BrokerServer:
        (found,) = [broker for broker in self.all if broker.services.controller.is_active]
        return found

    async def client(self, broker_id: int) -> Client:
        """A connection to the broker: the same one each time."""
        broker = self.running[broker_id]
        if broker not in self._clients:
            self._clients[broker] = await Client.connect(broker)
        return self._clients[broker]

    async def create_topic(self, *replicas: int, name: str = TP.topic, partitions: int = 1, **configs: str) -> None:
        """Partitions on these brokers, the first of which leads; returns when all of them have their logs."""
        (controller_id,) = [key for key, broker in self.running.items() if broker is self.controller]
        configured = [CreatableTopicConfig(key.replace("__", "."), value) for key, value in configs.items()]
        assigned = [CreatableReplicaAssignment(index, list(replicas)) for index in range(partitions)]
        request = CreateTopicsRequest([CreatableTopic(name, -1, -1, assigned, configured)], timeout_ms=5000)
        response = await (await self.client(controller_id)).ask(request, 5)
        assert [answer.error_code for answer in response.topics] == [0], response.topics[0].error_message
        held = {TopicPartition(name, index) for index in range(partitions)}
        await until(lambda: all(held <= self[each].services.replica_manager.partitions.keys() for each in replicas))
        await self.knows(lambda image: image.partition(name, 0) is not None)

    async def knows(self, condition: Callable[[Any], bool]) -> None:
        """Wait until the metadata of every broker fulfil ``condition``."""
        await until(lambda: all(condition(each.services.metadata.image) for each in self.all))

    def partition(self, broker_id: int, topic_partition: TopicPartition = TP) -> Partition:
        return self[broker_id].services.replica_manager.partitions[topic_partition]

    def log(self, broker_id: int, topic_partition: TopicPartition = TP) -> Log:
        return self.partition(broker_id, topic_partition).log

    async def leads(self, broker_id: int, epoch: int | None = None) -> None:
        """Wait until the broker leads ``t-0``, and all brokers have heard of it."""

        def is_leader(image: Any) -> bool:
            found = image.partition(*TP)
            return found is not None and found.leader == broker_id and epoch in (None, found.leader_epoch)

        await self.knows(is_leader)
        await until(lambda: self.partition(broker_id).is_leader)

    async def produce(self, broker_id: int, records: bytes, *, acks: int = -1, topic: str = TP.topic) -> Any:
        return await (await self.client(broker_id)).produce(topic, records, acks=acks)

    async def same_end(self, *broker_ids: int, topic_partition: TopicPartition = TP) -> None:
        """Wait until the logs and high watermarks of ``t-0`` end at the same offset."""
        await until(
            lambda: (
                len(
                    {
                        offset
                        for each in broker_ids
                        for log in (self.log(each, topic_partition),)
                        for offset in (log.log_end_offset, log.high_watermark)
                    }
                )
                == 1
            )
        )

    async def state(self, topic_partition: TopicPartition = TP) -> LeaderIsr:
        """The state of a partition in the store."""
        session = self.store.session()
        node = await session.get(PartitionStateZNode.path(topic_partition))
        await session.close()
        return PartitionStateZNode.decode(node.data, node.stat.version)

    async def in_sync(self, *broker_ids: int) -> None:
        """Wait until these are the in-sync replicas of ``t-0`` by every broker's metadata."""

        def agrees(image: Any) -> bool:
            found = image.partition(*TP)
            return found is not None and set(found.isr) == set(broker_ids)

        await self.knows(agrees)

    def content(self, broker_id: int, topic_partition: TopicPartition = TP) -> dict[str, bytes]:
        """The bytes of the partition's ``.log`` files by their names."""
        folder = Path(self.log(broker_id, topic_partition).directory)
        return {path.name: path.read_bytes() for path in sorted(folder.glob("*.log"))}


@asynccontextmanager
async def brokers(path: Path, *broker_ids: int, clock: Clock | None = None, **keys: str) -> AsyncIterator[Brokers]:
    """Brokers of one cluster, the first of them the controller; keys with ``__`` for each dot."""
    clock = clock or SystemClock()
    store = EmbeddedStore(None, clock)
    await store.open()
    found = Brokers(path, store, clock, {name.replace("__", "."): value for name, value in keys.items()})
    try:
        for broker_id in broker_ids:
            await found.start(broker_id)
        yield found
    finally:
        for broker_id in list(found.running):
            await found.stop(broker_id)
        await store.close()
