"""Ids of topics (KIP-516) in the tree and in the metadata image."""

import asyncio

from kafkapy.controller.topics import MorePartitions, NewTopic
from kafkapy.metadata.znodes import ReplicaAssignment, TopicZNode
from kafkapy.protocol.message import ZERO_UUID
from kafkapy.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from kafkapy.protocol.messages.update_metadata import UpdateMetadataRequest
from tests.controller.harness import Cluster, cluster
from tests.controller.scenario import AS_RECORDED


async def _znode(started: Cluster, topic: str = "t") -> TopicZNode:
    return TopicZNode.decode((await started.store.session().get(TopicZNode.path(topic))).data)


def test_a_topic_keeps_its_id_and_a_recreated_one_gets_another() -> None:
    async def main() -> None:
        async with cluster(1, 2) as started:
            admin, cache = started.controller.node.topic_admin, started.controller.node.cache
            await admin.create_topics([NewTopic("t", 1, 2)], 1000)
            first = (await _znode(started)).topic_id
            assert first != ZERO_UUID
            for broker in started.brokers.values():
                assert broker.node.cache.image.topic_id("t") == first
                assert broker.node.cache.image.topic_name(first) == "t"
            await admin.create_partitions([MorePartitions("t", 2)], 1000)
            assert (await _znode(started)).topic_id == first
            assert [result.error for result in await admin.delete_topics(["t"], 1000)] == [None]
            assert cache.image.topic_name(first) is None
            await admin.create_topics([NewTopic("t", 1, 2)], 1000)
            second = cache.image.topic_id("t")
            assert second not in (first, ZERO_UUID)
            await started.controller.kill()
            await started.settle()
            assert started.controller.node.controller.is_active
            assert started.brokers[2].node.cache.image.topic_names == {second: "t"}

    asyncio.run(main())


def test_topics_of_an_older_release_get_ids_and_keep_them() -> None:
    async def main() -> None:
        async with cluster(1, **AS_RECORDED) as started:
            await started.controller.node.topic_admin.create_topics([NewTopic("t", 1, 1)], 1000)
            assert (await _znode(started)).topic_id == ZERO_UUID
            await started.controller.kill()
            node = (await started.start(2)).node
            given = (await _znode(started)).topic_id
            assert given != ZERO_UUID
            session = started.store.session()
            older = TopicZNode({0: ReplicaAssignment((1,)), 1: ReplicaAssignment((2,))})
            await session.set(TopicZNode.path("t"), older.encode())  # a tool of 2.7.2 keeps no id
            await started.settle()
            assert (await _znode(started)).topic_id == given
            await session.create(TopicZNode.path("made"), TopicZNode({0: ReplicaAssignment((2,))}).encode())
            await started.settle()
            assert node.cache.image.topic_id("made") == (await _znode(started, "made")).topic_id != ZERO_UUID
            assert node.cache.image.topic_id("t") == given

    asyncio.run(main())


def test_a_cluster_at_2_8_sends_ids_in_the_versions_of_apache_kafka() -> None:
    settings = {**AS_RECORDED, "inter.broker.protocol.version": "2.8"}

    async def main() -> None:
        async with cluster(1, 2, **settings) as started:
            await started.controller.node.topic_admin.create_topics([NewTopic("t", 1, 2)], 1000)
            await started.settle()
            topic_id = (await _znode(started)).topic_id
            assert topic_id != ZERO_UUID
            sent = [(version, request) for _, version, request in started.requests]
            assert {version for version, request in sent if isinstance(request, UpdateMetadataRequest)} == {7}
            orders = [(version, request) for version, request in sent if isinstance(request, LeaderAndIsrRequest)]
            assert {version for version, _ in orders} == {5}
            assert {topic.topic_id for _, request in orders for topic in request.topic_states} == {topic_id}

    asyncio.run(main())
