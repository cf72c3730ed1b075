"""A broker loses a data directory: the writes and requests of a real 2.7.2 controller (trace 32), and those of ours."""

import asyncio

import pytest

from kafkapy.controller.requests import Outgoing
from kafkapy.controller.topics import NewTopic
from kafkapy.metadata.store import Create
from kafkapy.metadata.znodes import LogDirEventNotificationZNode
from kafkapy.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
)
from tests.controller.harness import Cluster, FakeBroker, cluster
from tests.controller.scenario import run, state_line
from tests.controller.trace import to_broker, write_line


async def _lose(broker: FakeBroker, *lost: tuple[str, int]) -> None:
    broker.lost |= set(lost)
    event = LogDirEventNotificationZNode(broker.id)
    await broker.session.multi([Create(event.SEQUENTIAL_PATH, event.encode(), sequential=True)])
    await broker.cluster.settle()


def test_the_only_replicas_are_gone_and_nobody_leads() -> None:
    """Trace 32."""

    async def scenario() -> None:
        async with cluster(4) as started:
            topic = NewTopic("jb", assignments={index: [4] for index in range(4)})
            await started.controller.node.topic_admin.create_topics([topic], 1000)
            await started.settle()
            started.forget()
            await _lose(started.brokers[4], ("jb", 1), ("jb", 3))
            path = "/log_dir_event_notification/log_dir_event_0000000000"
            assert [write_line(write) for write in started.writes] == [
                "create /log_dir_event_notification/log_dir_event_ " + '{"version":1,"broker":4,"event":1}',
                f"delete {path}",
                "set " + state_line("jb", 1, 1, -1, 1, "4"),
                "set " + state_line("jb", 3, 1, -1, 1, "4"),
            ]
            known = "L4 le0 isr[4] zkv0"
            assert to_broker(started.requests, 4) == [
                "LAIR " + "; ".join(f"jb-{index} {known} r[4]" for index in range(4)) + " / [4]",
                "UM " + "; ".join(f"jb-{index} {known} off[]" for index in range(4)) + " / [4]",
                "UM jb-1 L-1 le1 isr[4] zkv1 off[4]; jb-3 L-1 le1 isr[4] zkv1 off[4] / [4]",
                "SR jb-1 le0 delete=False; jb-3 le0 delete=False",
            ]
            image = started.brokers[4].node.cache.image
            assert [image.topics["jb"].partitions[index].leader for index in range(4)] == [4, -1, 4, -1]
            started.forget()
            await _lose(started.brokers[4])
            assert [write_line(write)[:6] for write in started.writes] == ["create", "delete"]

    asyncio.run(scenario())


def test_another_replica_leads_and_a_restart_brings_the_lost_one_back() -> None:
    async def scenario(started: Cluster) -> None:
        await _lose(started.brokers[3], ("rf3", 0), ("cmp", 0))
        states = [write_line(write) for write in started.writes if write.path.endswith("/state")]
        assert states == ["set " + state_line("rf3", 0, 1, 1, 1, "1,2"), "set " + state_line("cmp", 0, 1, 2, 1, "2,1")]
        partition = started.brokers[1].node.cache.image.topics["rf3"].partitions[0]
        assert (partition.leader, partition.offline_replicas) == (1, (3,))
        assert started.controller.node.controller._active is not None
        await started.brokers[3].kill()
        await started.start(3)
        partition = started.brokers[1].node.cache.image.topics["rf3"].partitions[0]
        assert (partition.leader, partition.offline_replicas) == (1, ())

    run(scenario)


def test_a_replica_that_answers_again_is_online(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(started: Cluster) -> None:
        broker = started.brokers[3]
        await _lose(broker, ("rf3", 0))
        broker.lost.clear()
        await _lose(broker)
        active = started.controller.node.controller._active
        assert active is not None
        assert active.context.on_offline_directories == {3: set()}
        assert started.brokers[1].node.cache.image.topics["rf3"].partitions[0].offline_replicas == ()

    run(scenario, ("rf3",))
    assert caplog.text.count("Broker 3 has lost 1 replicas with a data directory") == 1


def test_the_only_replica_leads_again_when_it_is_online_again() -> None:
    """As after a full disk; Apache Kafka's controller waits for a restart of the broker."""

    async def scenario() -> None:
        async with cluster(4) as started:
            admin = started.controller.node.topic_admin
            await admin.create_topics([NewTopic("t", assignments={0: [4]})], 1000)
            await started.settle()
            broker = started.brokers[4]
            await _lose(broker, ("t", 0))
            assert broker.node.cache.image.topics["t"].partitions[0].leader == -1
            broker.lost.clear()
            await _lose(broker)
            partition = broker.node.cache.image.topics["t"].partitions[0]
            assert (partition.leader, partition.leader_epoch, partition.offline_replicas) == (4, 2, ())

    asyncio.run(scenario())


def test_a_replica_that_has_the_epoch_already_is_online() -> None:
    """The broker is asked twice if its first answer was lost."""

    async def scenario() -> None:
        async with cluster(4) as started:
            admin = started.controller.node.topic_admin
            await admin.create_topics([NewTopic("t", assignments={0: [4]})], 1000)
            await started.settle()
            await _lose(started.brokers[4], ("t", 0))
            active = started.controller.node.controller._active
            assert active is not None
            again = LeaderAndIsrResponse(partition_errors=[LeaderAndIsrPartitionError("t", 0, 11)])
            started.brokers[4].lost.clear()
            await active.answered(Outgoing(4, LeaderAndIsrRequest(), 4), again)
            await started.settle()
            assert started.brokers[4].node.cache.image.topics["t"].partitions[0].leader == 4

    asyncio.run(scenario())


def test_the_answer_of_a_broker_that_is_gone_says_nothing() -> None:
    async def scenario(started: Cluster) -> None:
        active = started.controller.node.controller._active
        assert active is not None
        lost = LeaderAndIsrResponse(partition_errors=[LeaderAndIsrPartitionError("rf3", 0, 56)])
        await started.brokers[3].kill()
        started.forget()
        await active.answered(Outgoing(3, LeaderAndIsrRequest(), 4), lost)
        assert (active.context.on_offline_directories, started.writes) == ({}, [])

    run(scenario, ("rf3",))
