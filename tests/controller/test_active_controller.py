"""The controller writes and sends what was recorded in clusters of three Apache Kafka 2.7.2 brokers."""

import pytest

from kafkapy.controller.topics import MorePartitions, NewTopic
from kafkapy.metadata.znodes import ConfigZNode, IsrChangeNotificationZNode, PartitionStateZNode
from kafkapy.types import TopicPartition
from tests.controller.harness import Cluster
from tests.controller.scenario import ASSIGNED, run, state_line
from tests.controller.trace import request_line, to_broker, write_line


def test_a_topic_is_created() -> None:
    """Trace T1."""

    async def scenario(started: Cluster) -> None:
        topic = NewTopic("rf3", assignments=ASSIGNED["rf3"], configs=[("min.insync.replicas", "2")])
        await started.controller.node.topic_admin.create_topics([topic], 1000)
        await started.settle()
        assert [write_line(write) for write in started.writes] == [
            'create /config/topics/rf3 {"version":1,"config":{"min.insync.replicas":"2"}}',
            (
                'create /brokers/topics/rf3 {"version":2,"partitions":{"0":[3,1,2]},'
                '"adding_replicas":{},"removing_replicas":{}}'
            ),
            "create /brokers/topics/rf3/partitions",
            "create /brokers/topics/rf3/partitions/0",
            "create " + state_line("rf3", 0, 1, 3, 0, "3,1,2"),
        ]
        for broker in (1, 2, 3):
            assert to_broker(started.requests, broker) == [
                "LAIR rf3-0 L3 le0 isr[3, 1, 2] zkv0 r[3, 1, 2] new / [3]",
                "UM rf3-0 L3 le0 isr[3, 1, 2] zkv0 off[] / [1, 2, 3]",
            ]
        assert {(type(request).__name__, version) for _, version, request in started.requests} == {
            ("LeaderAndIsrRequest", 4),
            ("UpdateMetadataRequest", 6),
        }
        epochs = {broker: getattr(request, "broker_epoch") for broker, _, request in started.requests}  # noqa: B009
        assert epochs == {broker: fake.node.fence.broker_epoch for broker, fake in started.brokers.items()}

    run(scenario, ())


def test_partitions_are_added() -> None:
    """Trace 11: existing partitions are not mentioned again."""

    async def scenario(started: Cluster) -> None:
        more = MorePartitions("rf2", 4, [[3, 1], [1, 2]])
        await started.controller.node.topic_admin.create_partitions([more], 1000)
        await started.settle()
        assert [write_line(write) for write in started.writes] == [
            (
                'set /brokers/topics/rf2 {"version":2,"partitions":'
                '{"0":[1,2],"1":[2,3],"2":[3,1],"3":[1,2]},"adding_replicas":{},"removing_replicas":{}}'
            ),
            "create /brokers/topics/rf2/partitions/2",
            "create /brokers/topics/rf2/partitions/3",
            "create " + state_line("rf2", 2, 1, 3, 0, "3,1"),
            "create " + state_line("rf2", 3, 1, 1, 0, "1,2"),
        ]
        assert to_broker(started.requests, 2) == [
            "LAIR rf2-3 L1 le0 isr[1, 2] zkv0 r[1, 2] new / [1]",
            "UM rf2-2 L3 le0 isr[3, 1] zkv0 off[]; rf2-3 L1 le0 isr[1, 2] zkv0 off[] / [1, 2, 3]",
        ]

    run(scenario, ("rf2",))


def test_a_leader_fails_and_returns() -> None:
    """Traces T2 and T3 (except the ISR, which leaders extend)."""

    async def scenario(started: Cluster) -> None:
        await started.brokers[3].kill()
        assert [write_line(write) for write in started.writes[:2]] == [
            "set " + state_line("rf3", 0, 1, 1, 1, "1,2"),
            "set " + state_line("auto", 0, 1, 2, 1, "2"),
        ]
        assert sorted(write_line(write) for write in started.writes[2:]) == sorted(
            "set " + state_line(*written)
            for written in [
                ("auto", 1, 1, 1, 1, "1"),
                ("rf2", 1, 1, 2, 1, "2"),
                ("rf1", 2, 1, -1, 1, "3"),
                ("cmp", 0, 1, 2, 1, "2,1"),
            ]
        )
        rf3 = "rf3-0 L1 le1 isr[1, 2] zkv1 r[3, 1, 2]"
        auto0, auto1 = "auto-0 L2 le1 isr[2] zkv1 r[3, 2]", "auto-1 L1 le1 isr[1] zkv1 r[1, 3]"
        compacted = "cmp-0 L2 le1 isr[2, 1] zkv1 r[2, 3, 1]"
        everything = (
            "UM auto-0 L2 le1 isr[2] zkv1 off[3]; auto-1 L1 le1 isr[1] zkv1 off[3]; "
            "cmp-0 L2 le1 isr[2, 1] zkv1 off[3]; rf1-2 L-1 le1 isr[3] zkv1 off[3]; rf2-1 L2 le1 isr[2] zkv1 off[3]; "
            "rf3-0 L1 le1 isr[1, 2] zkv1 off[3] "
            "/ [1, 2]"
        )
        elected = "UM auto-0 L2 le1 isr[2] zkv1 off[3]; rf3-0 L1 le1 isr[1, 2] zkv1 off[3] / [1, 2]"
        assert to_broker(started.requests, 1) == [
            f"LAIR {rf3} / [1]", elected, f"LAIR {auto1}; {compacted}; {rf3} / [1, 2]", everything,
        ]  # fmt: skip
        assert to_broker(started.requests, 2) == [
            f"LAIR {auto0}; {rf3} / [1, 2]",
            elected,
            f"LAIR {auto0}; {compacted}; rf2-1 L2 le1 isr[2] zkv1 r[2, 3]; {rf3} / [1, 2]",
            everything,
        ]
        started.forget()
        await started.start(3)
        states = [write_line(write) for write in started.writes if "/state" in write.path]
        assert states == ["set " + state_line("rf1", 2, 1, 3, 2, "3")]
        assert to_broker(started.requests, 1)[0] == "UM  / [1, 2, 3]"
        first, *rest = to_broker(started.requests, 3)
        assert first.startswith("UM auto-0")
        assert first.count(";") == 9
        assert [line.partition(" ")[0] for line in rest] == ["LAIR", "UM", "LAIR", "UM"]
        assert rest[0].count(";") == 5
        assert " new" not in rest[0]
        assert rest[2] == "LAIR rf1-2 L3 le2 isr[3] zkv2 r[3] / [3]"

    run(scenario)


def test_the_next_controller_elects_leaders_for_the_failed_brokers_partitions() -> None:
    """Trace T7, but for the order: 2.7.2 writes leader -1 first, then elects; only the controller epoch is new."""

    async def scenario(started: Cluster) -> None:
        await started.brokers[1].kill()
        controller = started.controller
        assert controller.id in (2, 3)
        states = [write_line(write) for write in started.writes if write.path.endswith("/state")]
        assert states[0] == "set " + state_line("rf2", 0, 2, 2, 1, "2")
        assert sorted(states[1:]) == sorted(
            "set " + state_line(*written) for written in [("rf3", 0, 2, 3, 1, "3,2"), ("rf1", 0, 2, -1, 1, "1")]
        )
        lines = to_broker(started.requests, 3)
        assert lines[0] == "UM  / [2, 3]"
        assert lines[1].startswith("UM rf2-0 L2 le1")
        assert lines[2].startswith("LAIR rf1-2 L3 le0")
        epochs = {getattr(request, "controller_epoch") for _, _, request in started.requests}  # noqa: B009
        assert epochs == {2}

    run(scenario, ("rf1", "rf2", "rf3"))


def test_a_leader_that_restarted_unnoticed_leads_in_the_next_epoch() -> None:
    """Only with followers: they must not take what it writes now for the records that they have already."""

    async def scenario(started: Cluster) -> None:
        for broker in (1, 2, 3):  # the last one leads alone, without a controller that sees its end
            await started.brokers[broker].kill()
        session = started.store.session()
        before = {}
        for partition in (TopicPartition("rf3", 0), TopicPartition("rf1", 2)):
            (node,) = await session.get_many([PartitionStateZNode.path(partition)])
            assert node is not None
            before[partition] = PartitionStateZNode.decode(node.data, node.stat.version)
        assert {state.leader for state in before.values()} == {3}
        started.forget()
        await started.start(3)
        watched = {PartitionStateZNode.path(partition) for partition in before}
        states = [write_line(write) for write in started.writes if write.path in watched]
        epoch = before[TopicPartition("rf3", 0)].leader_epoch + 1
        assert states == ["set " + state_line("rf3", 0, 4, 3, epoch, "3")]

    run(scenario, ("rf3", "rf1"))


def test_a_broker_that_comes_back_at_once_has_failed_in_between() -> None:
    async def scenario(started: Cluster) -> None:
        active = started.controller.node.controller._active
        assert active is not None
        old = active.context.brokers[3]
        active.context.brokers[3] = old._replace(epoch=old.epoch - 1)
        await active.brokers_changed()
        await started.settle()
        lines = [write_line(write) for write in started.writes]
        assert lines == ["set " + state_line("rf3", 0, 1, 1, 1, "1,2")]
        assert any(line.startswith("LAIR rf3-0 L1") for line in to_broker(started.requests, 3))

    run(scenario, ("rf3",))


def test_a_brokers_new_address_is_sent_to_all() -> None:
    async def scenario(started: Cluster) -> None:
        fake = started.brokers[3]
        node = await fake.session.get("/brokers/ids/3")
        assert node.data is not None
        await fake.session.set("/brokers/ids/3", node.data.replace(b":19403", b":29403"))
        await started.settle()
        assert [request_line(request) for _, _, request in started.requests] == ["UM  / [1, 2, 3]"] * 3
        assert fake.node.cache.image.brokers[3].endpoints["PLAINTEXT"].port == 29403

    run(scenario, ())


def test_a_topic_whose_brokers_are_away_starts_when_one_comes() -> None:
    async def scenario(started: Cluster) -> None:
        topic = NewTopic("early", assignments={0: [4]})
        (result,) = await started.controller.node.topic_admin.create_topics([topic], 1)
        assert result.error is not None
        assert result.error.error_code == 7
        started.forget()
        await started.start(4)
        assert "create " + state_line("early", 0, 1, 4, 0, "4") in [write_line(write) for write in started.writes]
        assert started.controller.node.cache.image.topics["early"].partitions[0].leader == 4

    run(scenario, ())


@pytest.mark.parametrize(
    ("override", "leader"), [("true", 1), (" TRUE ", 1), ("false", -1), ("foreign", -1), ("maybe", -1)]
)
def test_an_unclean_election_where_the_topic_allows_it(override: str, leader: int) -> None:
    async def scenario(started: Cluster) -> None:
        node = started.controller.node
        allowed = "true" if override in ("foreign", "maybe") else override
        topic = NewTopic("u", assignments={0: [3, 1]}, configs=[("unclean.leader.election.enable", allowed)])
        await node.topic_admin.create_topics([topic], 1000)
        path = PartitionStateZNode.path(TopicPartition("u", 0))
        state = PartitionStateZNode.decode((await started.controller.session.get(path)).data, 0)
        await started.controller.session.set(path, PartitionStateZNode.encode(state._replace(isr=(3,))))
        if override == "foreign":
            await started.controller.session.set("/config/topics/u", b"foreign")
        elif override == "maybe":  # no value that Kafka's tools would write
            config = ConfigZNode.encode({"unclean.leader.election.enable": override})
            await started.controller.session.set("/config/topics/u", config)
        active = node.controller._active
        assert active is not None
        active.context.leadership[TopicPartition("u", 0)] = state._replace(isr=(3,), zk_version=1)
        await started.brokers[3].kill()
        assert node.cache.image.topics["u"].partitions[0].leader == leader

    run(scenario, ())


def test_in_sync_replicas_that_an_old_leader_has_written_are_told_to_all_brokers() -> None:
    """A broker of inter-broker protocol 2.6 writes the state itself, then leaves a note."""

    async def scenario(started: Cluster) -> None:
        node, session = started.controller.node, started.controller.session
        partition = TopicPartition("rf3", 0)
        path = PartitionStateZNode.path(partition)
        found = await session.get(path)
        state = PartitionStateZNode.decode(found.data, found.stat.version)
        await session.set(path, PartitionStateZNode.encode(state._replace(isr=(3, 1))), found.stat.version)
        note = IsrChangeNotificationZNode.encode([partition, TopicPartition("unknown", 0)])
        await session.create("/isr_change_notification/isr_change_", note, sequential=True)
        await session.create("/isr_change_notification/isr_change_", b"foreign", sequential=True)
        await started.settle()
        assert await session.children("/isr_change_notification") == ["isr_change_0000000001"]
        assert node.cache.image.topics["rf3"].partitions[0].isr == (3, 1)
        for broker in (1, 2, 3):
            assert to_broker(started.requests, broker) == ["UM rf3-0 L3 le0 isr[3, 1] zkv1 off[] / [1, 2, 3]"]
        await started.brokers[3].kill()
        assert node.cache.image.topics["rf3"].partitions[0].isr == (1,)

    run(scenario)
