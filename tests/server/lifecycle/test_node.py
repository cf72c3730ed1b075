import asyncio
from time import process_time

from kafkapy.controller.topics import NewTopic
from kafkapy.metadata.store import Create, SetData
from kafkapy.metadata.znodes import PERSISTENT_PATHS
from tests.controller.harness import cluster


def test_a_first_start_writes_the_nodes_that_kafka_writes() -> None:
    async def main() -> None:
        async with cluster(1) as started:
            written = [(type(operation), operation.path) for operation in started.writes]
            creates = [path for kind, path in written if kind is Create]
            parents = ("/brokers", "/config", "/admin")
            assert [path for path in creates[:16] if path not in parents] == list(PERSISTENT_PATHS)
            assert written[16:] == [
                (Create, "/cluster"),
                (Create, "/cluster/id"),
                (Create, "/feature"),
                (Create, "/brokers/ids/1"),
                (SetData, "/brokers/ids/1"),
                (Create, "/controller_epoch"),
                (Create, "/controller"),
                (SetData, "/controller_epoch"),
                (SetData, "/latest_producer_id_block"),
                (Create, "/config/group_changes"),  # kafkapy's own
            ]
            node = started.controller.node
            assert node.fence.broker_epoch > 0
            assert len(node.cluster_id) == 22
            assert node.cache.image.cluster_id == node.cluster_id
            assert node.cache.image.controller_id == 1
            assert list(node.cache.image.brokers) == [1]
            assert await node.producer_ids.next_producer_id() == 0

    asyncio.run(main())


def test_starting_and_creating_a_topic_is_quick() -> None:
    async def main() -> None:
        began = process_time()
        async with cluster(1) as started:
            assert process_time() - began < 0.1
            began = process_time()
            (result,) = await started.controller.node.topic_admin.create_topics([NewTopic("t", 1, 1)], 1000)
            assert result.error is None
            assert process_time() - began < 0.05

    asyncio.run(main())


def test_a_restarted_broker_finds_everything_again() -> None:
    async def main() -> None:
        async with cluster(1) as started:
            node = started.controller.node
            topic = NewTopic("kept", 2, 1, configs=[("retention.ms", "1000")])
            await node.topic_admin.create_topics([topic], 1000)
            image, epoch = node.cache.image, node.fence.broker_epoch
            await started.brokers[1].kill()
            again = (await started.start(1)).node
            assert again.cluster_id == image.cluster_id
            assert again.topic_overrides == {"kept": {"retention.ms": "1000"}}
            assert again.fence.broker_epoch > epoch
            assert again.fence.controller_epoch == 2
            partition = again.cache.image.topics["kept"].partitions[1]
            assert (partition.leader, partition.isr, partition.leader_epoch) == (1, (1,), 0)
            assert await again.producer_ids.next_producer_id() == 1000

    asyncio.run(main())
