"""How topics went in a real cluster, and what holds them up."""

import asyncio

from kafkapy.cluster.topic_znodes import PartitionStateZNode
from kafkapy.cluster.topics import NewTopic
from kafkapy.types import TopicPartition
from tests.cluster.harness import Cluster, cluster
from tests.cluster.scenario import run, state_line
from tests.cluster.trace import to_broker, write_line


def test_a_topic_is_deleted() -> None:
    """Trace T8, from the states that it began with."""

    async def scenario(started: Cluster) -> None:
        controller = started.controller
        for partition, isr in ((0, (2, 3)), (1, (1, 3)), (2, (2, 1))):
            path = PartitionStateZNode.path(TopicPartition("auto", partition))
            state = PartitionStateZNode.decode((await controller.session.get(path)).data, 0)
            await controller.session.set(path, PartitionStateZNode.encode(state._replace(leader=isr[0], isr=isr)))
        started.forget()
        (result,) = await controller.node.topic_admin.delete_topics(["auto"], 1000)
        assert result.error is None
        await started.settle()
        lines = [write_line(write) for write in started.writes]
        assert lines[0] == "create /admin/delete_topics/auto"
        assert lines[1:7] == [
            "set " + state_line("auto", 1, 1, -1, 1, "3"),
            "set " + state_line("auto", 2, 1, 2, 1, "2"),
            "set " + state_line("auto", 0, 1, -1, 1, "3"),
            "set " + state_line("auto", 2, 1, -1, 2, "2"),
            "set " + state_line("auto", 0, 1, -1, 2, "3"),
            "set " + state_line("auto", 1, 1, -1, 2, "3"),
        ]
        partitions = "/brokers/topics/auto/partitions"
        assert lines[7:] == [
            *(f"delete {partitions}/{index}{leaf}" for index in range(3) for leaf in ("/state", "")),
            f"delete {partitions}",
            "delete /brokers/topics/auto",
            "delete /config/topics/auto",
            "delete /admin/delete_topics/auto",
        ]
        forget, stop, remove = to_broker(started.requests, 1)
        assert forget.startswith("UM auto-0 L-2")
        assert stop == "SR auto-1 le-2 delete=False; auto-2 le-2 delete=False"
        assert remove == "SR auto-1 le-2 delete=True; auto-2 le-2 delete=True"
        assert "auto" not in controller.node.cache.image.topics
        created = await controller.node.topic_admin.create_topics([NewTopic("auto", 1, 1)], 1000)
        assert created[0].error is None

    run(scenario, ("auto",))


def test_a_deletion_waits_for_a_broker_that_is_away() -> None:
    async def scenario(started: Cluster) -> None:
        await started.brokers[3].kill()
        controller = started.controller
        (result,) = await controller.node.topic_admin.delete_topics(["rf3"], 1000)
        assert result.error is None
        await started.settle()
        assert controller.node.controller.is_deleting("rf3")
        assert await controller.session.exists("/brokers/topics/rf3")
        started.forget()
        await started.start(3)
        assert not controller.node.controller.is_deleting("rf3")
        assert await controller.session.exists("/brokers/topics/rf3") is None
        assert to_broker(started.requests, 3)[-2:] == ["SR rf3-0 le-2 delete=False", "SR rf3-0 le-2 delete=True"]

    run(scenario, ("rf3", "rf1"))


def test_a_broker_that_dies_while_it_deletes() -> None:
    async def scenario(started: Cluster) -> None:
        started.brokers[2].stop_error = 56
        controller = started.controller
        await controller.node.topic_admin.delete_topics(["rf3"], 1000)
        await started.settle()
        assert controller.node.controller.is_deleting("rf3")
        await started.brokers[2].kill()
        assert controller.node.controller.is_deleting("rf3")
        await started.start(2)
        assert not controller.node.controller.is_deleting("rf3")

    run(scenario, ("rf3",))


def test_deletions_that_make_no_sense_are_taken_away() -> None:
    async def scenario(started: Cluster) -> None:
        session = started.controller.session
        await session.create("/admin/delete_topics/nobody")
        await started.settle()
        assert await session.children("/admin/delete_topics") == []

    run(scenario, ())


def test_deletion_switched_off() -> None:
    async def main() -> None:
        async with cluster(1, **{"delete.topic.enable": "false"}) as started:
            admin = started.controller.node.topic_admin
            await admin.create_topics([NewTopic("kept", 1, 1)], 1000)
            (refused,) = await admin.delete_topics(["kept"], 1000)
            assert refused.error is not None
            assert refused.error.error_code == 73
            await started.controller.session.create("/admin/delete_topics/kept")
            await started.settle()
            assert await started.controller.session.children("/admin/delete_topics") == []
            assert "kept" in started.controller.node.cache.image.topics

    asyncio.run(main())
