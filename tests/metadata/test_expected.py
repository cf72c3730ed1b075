import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import pytest

from kafkapy.metadata.embedded import EmbeddedStore
from kafkapy.metadata.expected import ExpectedMetadata
from kafkapy.metadata.image import MetadataCache
from kafkapy.metadata.store import Create, Delete, MetadataStore, StoreError, ensure_path
from kafkapy.metadata.topic_rules import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from kafkapy.metadata.znodes import LeaderIsr, PartitionStateZNode, ReplicaAssignment, TopicZNode
from kafkapy.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from kafkapy.testing.clock import ManualClock
from kafkapy.turns import finish
from kafkapy.types import TopicPartition


class World:
    """A store with topics, and the metadata image of a broker."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store: Any = EmbeddedStore(None, self.clock).session()
        self.cache = MetadataCache()

    def expected(self, store: MetadataStore | None = None) -> ExpectedMetadata:
        return ExpectedMetadata(self.clock, store or self.store, self.cache)

    async def topic(self, name: str, partitions: int, states: Sequence[int] | None = None) -> None:
        await ensure_path(self.store, "/brokers/topics")
        assignment = {index: ReplicaAssignment((1,)) for index in range(partitions)}
        await self.store.multi([Create(TopicZNode.path(name), TopicZNode(assignment).encode())])
        for index in range(partitions) if states is None else states:
            state = PartitionStateZNode.encode(LeaderIsr(1, 0, (1,), 1, 0))
            await ensure_path(self.store, PartitionStateZNode.path(TopicPartition(name, index)), state)

    def tell(self, name: str = "", partitions: Sequence[int] = ()) -> None:
        states = [UpdateMetadataPartitionState(partition_index=index, leader=1) for index in partitions]
        topics = [UpdateMetadataTopicState(topic_name=name, partition_states=states)] if states else []
        request = UpdateMetadataRequest(controller_id=1, topic_states=topics, live_brokers=[UpdateMetadataBroker(id=1)])
        finish(self.cache.apply(request))

    async def pass_time(self, time_ms: int) -> None:
        for _ in range(time_ms // 1000):
            await settle()
            self.clock.advance(1000)
            await settle()


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


class BrokenStore:
    """A store that refuses reads while ``is_broken``."""

    def __init__(self, store: Any) -> None:
        self.store, self.is_broken = store, True

    async def children(self, path: str) -> list[str]:
        names: list[str] = await self.store.children(path)
        return names

    async def get_many(self, paths: Sequence[str]) -> Any:
        if self.is_broken and paths:
            raise StoreError(paths[0])
        return await self.store.get_many(paths)


def test_the_image_is_whole_when_the_controller_has_sent_all_topics() -> None:
    async def main() -> None:
        world = World()
        await world.topic("t", 3)
        await world.topic(GROUP_METADATA_TOPIC, 10)
        expected = world.expected()
        await expected.expect()
        assert world.cache.partition_counts == {GROUP_METADATA_TOPIC: 10}
        world.tell("t", range(3))
        world.tell(GROUP_METADATA_TOPIC, (0, 2, 3, 5, 6, 8, 9))
        await world.pass_time(3000)
        assert not world.cache.is_whole
        world.tell(GROUP_METADATA_TOPIC, (1, 4, 7))
        assert world.cache.is_whole
        await world.pass_time(1000)  # it no longer looks into the store
        await expected.expect()
        expected.stop()

    asyncio.run(main())


def test_partitions_that_no_controller_will_send_are_not_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    """One was deleted, one has no state yet, the data of others were damaged."""

    async def main() -> None:
        world = World()
        await world.topic("deleted", 1)
        await world.topic("new", 2, states=[0])
        await world.topic("damaged", 1)
        await world.topic("unreadable", 1)
        await world.store.set(TopicZNode.path("unreadable"), b"{")
        expected = world.expected()
        await expected.expect()
        await world.store.set(PartitionStateZNode.path(TopicPartition("damaged", 0)), b"{")
        state = PartitionStateZNode.path(TopicPartition("deleted", 0))
        paths = [state, state.removesuffix("/state"), "/brokers/topics/deleted/partitions", "/brokers/topics/deleted"]
        await world.store.multi([Delete(path) for path in paths])
        world.tell()
        await world.pass_time(1000)
        assert world.cache.missing(10) == [TopicPartition("new", 0)]
        world.tell("new", [0])
        assert world.cache.is_whole
        expected.stop()

    asyncio.run(main())


def test_waiting_is_reported_and_store_errors_are_waited_out(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        world = World()
        await world.topic("t", 1, states=[])
        store: Any = BrokenStore(world.store)
        expected = world.expected(store)
        store.is_broken = False
        await expected.expect()
        store.is_broken = True
        await world.pass_time(10_000)
        assert "the controller has not sent t-0 and others yet" in caplog.text
        store.is_broken = False
        await world.pass_time(10_000)
        assert "the controller has not sent the live brokers yet" in caplog.text
        world.tell()
        assert world.cache.is_whole
        expected.stop()

    with caplog.at_level(logging.DEBUG):
        asyncio.run(main())


def test_an_internal_topic_that_is_created_later_is_counted_in_the_store(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        world = World()
        await ensure_path(world.store, "/brokers/topics")
        store: Any = BrokenStore(world.store)
        expected = world.expected(store)
        await expected.expect()
        world.tell()
        await world.topic(TRANSACTION_STATE_TOPIC, 50)
        counts: list[int] = []
        world.cache.when_counted(TRANSACTION_STATE_TOPIC, counts.append)
        world.tell(TRANSACTION_STATE_TOPIC, [3])
        world.tell(TRANSACTION_STATE_TOPIC, [4])  # while it is being counted
        await world.pass_time(1000)
        assert counts == []
        store.is_broken = False
        await world.pass_time(1000)
        assert counts == [50]
        expected.stop()

    with caplog.at_level(logging.DEBUG):
        asyncio.run(main())


def test_stopping_ends_both_tasks() -> None:
    async def main() -> None:
        world = World()
        await world.topic("t", 1)
        store: Any = BrokenStore(world.store)
        store.is_broken = False
        expected = world.expected(store)
        await expected.expect()
        store.is_broken = True
        world.tell(GROUP_METADATA_TOPIC, [0])
        await settle()
        expected.stop()
        await settle()
        assert {task.get_name() for task in asyncio.all_tasks()} & {"expected-metadata", "count-partitions"} == set()

    asyncio.run(main())
