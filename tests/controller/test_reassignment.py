"""Replicas that move: the writes and requests of a real 2.7.2 controller (traces 08 and 09), and those of ours."""

from collections.abc import Mapping, Sequence

import pytest

from kafkapy.metadata.errors import NotControllerError
from kafkapy.metadata.store import SetData
from kafkapy.metadata.znodes import (
    IsrChangeNotificationZNode,
    LeaderIsr,
    PartitionStateZNode,
    ReassignPartitionsZNode,
    ReplicaAssignment,
    TopicZNode,
)
from kafkapy.testing.clock import ManualClock
from kafkapy.types import TopicPartition
from tests.controller.harness import Cluster
from tests.controller.scenario import run, state_line
from tests.controller.trace import to_broker, write_line

RF2 = TopicPartition("rf2", 0)
RF3 = TopicPartition("rf3", 0)
RF1 = TopicPartition("rf1", 2)
MOVING = '{"version":2,"partitions":{"0":[2,3,1],"1":[2,3]},"adding_replicas":{"0":[3]},"removing_replicas":{"0":[1]}}'
MOVED = '{"version":2,"partitions":{"0":[2,3],"1":[2,3]},"adding_replicas":{},"removing_replicas":{}}'
CANCELLED = '{"version":2,"partitions":{"0":[2,1],"1":[2,3]},"adding_replicas":{},"removing_replicas":{}}'


async def alter(
    started: Cluster, targets: Mapping[TopicPartition, Sequence[int] | None], *, keeps_count: bool = False
) -> dict[TopicPartition, int]:
    """The error code for each partition."""
    answers = await started.controller.node.controller.ask(
        "a reassignment", lambda active: active.reassignments.alter(targets, keeps_count=keeps_count)
    )
    await started.settle()
    return {found: 0 if error is None else error.error_code for found, error in answers.items()}


async def moving(started: Cluster) -> dict[TopicPartition, ReplicaAssignment]:
    async def found(active: object) -> dict[TopicPartition, ReplicaAssignment]:
        return active.reassignments.moving()  # type: ignore[attr-defined,no-any-return]

    return await started.controller.node.controller.ask("the reassignments", found)


async def state(started: Cluster, partition: TopicPartition) -> LeaderIsr:
    node = await started.store.session().get(PartitionStateZNode.path(partition))
    return PartitionStateZNode.decode(node.data, node.stat.version)


async def assignment(started: Cluster, partition: TopicPartition) -> ReplicaAssignment:
    node = await started.store.session().get(TopicZNode.path(partition.topic))
    return TopicZNode.decode(node.data).partitions[partition.partition]


async def in_sync(started: Cluster, partition: TopicPartition, *isr: int) -> None:
    """The leader asks the controller for these in-sync replicas."""
    found = await state(started, partition)
    epoch = started.brokers[found.leader].node.fence.broker_epoch
    controller = started.controller.node.controller
    answers = await controller.alter_isr(found.leader, epoch, {partition: found._replace(isr=isr)})
    assert isinstance(answers[partition], LeaderIsr)
    await started.settle()


def topic_line(data: str) -> str:
    return f"set /brokers/topics/rf2 {data}"


def writes(started: Cluster) -> list[str]:
    return [write_line(write) for write in started.writes]


def test_a_replica_moves_and_the_leader_with_it() -> None:
    """Trace 08, from the request to the ISR that has the target."""

    async def scenario(started: Cluster) -> None:
        assert await alter(started, {RF2: [2, 3]}) == {RF2: 0}
        assert writes(started) == [topic_line(MOVING), "set " + state_line("rf2", 0, 1, 1, 1, "1,2")]
        known = "rf2-0 L1 le1 isr[1, 2] zkv1"
        told = f"UM {known} off[] / [1, 2, 3]"
        for broker in (1, 2):
            assert to_broker(started.requests, broker) == [f"LAIR {known} r[2, 3, 1] / [1]", told, told]
        assert to_broker(started.requests, 3) == [f"LAIR {known} r[2, 3, 1] new / [1]", told] * 2
        assert await moving(started) == {RF2: ReplicaAssignment((2, 3, 1), (3,), (1,))}
        started.forget()

        await in_sync(started, RF2, 1, 2, 3)
        assert writes(started) == [
            "set " + state_line("rf2", 0, 1, 1, 1, "1,2,3"),
            "set " + state_line("rf2", 0, 1, 2, 2, "1,2,3"),
            "set " + state_line("rf2", 0, 1, 2, 3, "2,3"),
            topic_line(MOVED),
        ]
        expanded, elected, left = (
            "rf2-0 L1 le1 isr[1, 2, 3] zkv2",
            "rf2-0 L2 le2 isr[1, 2, 3] zkv3",
            "rf2-0 L2 le3 isr[2, 3] zkv4",
        )
        for broker in (2, 3):
            assert to_broker(started.requests, broker) == [
                f"UM {expanded} off[] / [1, 2, 3]",
                f"LAIR {elected} r[2, 3] / [2]",
                f"UM {elected} off[] / [1, 2, 3]",
                f"LAIR {left} r[2, 3] / [2]",
                f"UM {left} off[] / [1, 2, 3]",
                f"UM {left} off[] / [1, 2, 3]",
            ]
        assert to_broker(started.requests, 1) == [
            f"UM {expanded} off[] / [1, 2, 3]",
            f"UM {elected} off[] / [1, 2, 3]",
            f"UM {left} off[] / [1, 2, 3]",
            "SR rf2-0 le2 delete=False",
            "SR rf2-0 le3 delete=True",
            f"UM {left} off[] / [1, 2, 3]",
        ]
        assert await moving(started) == {}

    run(scenario, ("rf2",))


def test_the_leader_stays_and_takes_the_next_epoch() -> None:
    async def scenario(started: Cluster) -> None:
        assert await alter(started, {RF2: [1, 3]}) == {RF2: 0}
        await in_sync(started, RF2, 1, 2, 3)
        found = await state(started, RF2)
        assert (found.leader, found.leader_epoch, found.isr) == (1, 3, (1, 3))
        assert await assignment(started, RF2) == ReplicaAssignment((1, 3))

    run(scenario, ("rf2",))


def test_an_order_alone_changes_at_once() -> None:
    async def scenario(started: Cluster) -> None:
        assert await alter(started, {RF3: [1, 2, 3]}) == {RF3: 0}
        assert await assignment(started, RF3) == ReplicaAssignment((1, 2, 3))
        assert await state(started, RF3) == LeaderIsr(3, 1, (3, 1, 2), 1, 1)

    run(scenario, ("rf3",))


def test_a_cancelled_reassignment_removes_what_it_had_added() -> None:
    async def scenario(started: Cluster) -> None:
        await alter(started, {RF2: [2, 3]})
        started.forget()
        assert await alter(started, {RF2: None}) == {RF2: 0}
        assert writes(started) == [
            topic_line(CANCELLED),
            "set " + state_line("rf2", 0, 1, 1, 2, "1,2"),
            topic_line(CANCELLED),
        ]
        stops = [line for line in to_broker(started.requests, 3) if line.startswith("SR")]
        assert stops == ["SR rf2-0 le1 delete=False", "SR rf2-0 le1 delete=True"]
        assert await moving(started) == {}
        assert await alter(started, {RF2: None}) == {RF2: 85}

    run(scenario, ("rf2",))


def test_a_leader_that_a_cancelled_reassignment_had_added_is_replaced() -> None:
    async def scenario(started: Cluster) -> None:
        await alter(started, {RF2: [3, 2]})
        await started.brokers[2].kill()
        await in_sync(started, RF2, 1, 3)
        await started.controller.node.controller.ask(
            "an election", lambda active: active.elections.elect([RF2], unclean=False)
        )
        await started.settle()
        assert (await state(started, RF2)).leader == 3
        assert await alter(started, {RF2: None}) == {RF2: 0}
        found = await state(started, RF2)
        assert (found.leader, found.isr) == (1, (1,))

    run(scenario, ("rf2",))


def test_the_last_replica_in_sync_is_not_removed() -> None:
    """2.7.2 would delete the only complete copy."""

    async def scenario(started: Cluster) -> None:
        await alter(started, {RF2: [2, 3]})
        found = (await state(started, RF2))._replace(leader=3, isr=(3,))
        active = started.controller.node.controller._active
        assert active is not None
        active.context.leadership[RF2] = found
        started.forget()
        assert await alter(started, {RF2: None}) == {RF2: 39}
        assert await alter(started, {RF2: [2, 1]}) == {RF2: 39}
        assert started.writes == []

    run(scenario, ("rf2",))


def test_a_new_target_takes_the_place_of_an_unfinished_one() -> None:
    async def scenario(started: Cluster) -> None:
        await started.start(4)
        await alter(started, {RF2: [2, 3]})
        started.forget()
        assert await alter(started, {RF2: [4, 2]}) == {RF2: 0}
        assert await assignment(started, RF2) == ReplicaAssignment((4, 2, 1), (4,), (1,))
        assert "SR rf2-0 le1 delete=True" in to_broker(started.requests, 3)
        await in_sync(started, RF2, 1, 2, 4)
        assert await assignment(started, RF2) == ReplicaAssignment((4, 2))
        assert (await state(started, RF2)).leader == 4

    run(scenario, ("rf2",))


def test_each_partition_has_its_own_refusal() -> None:
    async def scenario(started: Cluster) -> None:
        nowhere = TopicPartition("nowhere", 0)
        for refused in ([], [-1], [1, 1], [1, 9]):
            assert await alter(started, {RF2: refused, RF3: None}) == {RF2: 39, RF3: 85}
        assert await alter(started, {nowhere: [1], TopicPartition("rf2", 7): [1]}) == {
            nowhere: 3,
            TopicPartition("rf2", 7): 3,
        }
        active = started.controller.node.controller._active
        assert active is not None
        active.context.topics_to_delete.add("rf3")
        assert await alter(started, {RF3: [1]}) == {RF3: 3}
        active.context.topics_to_delete.clear()
        assert started.writes == started.requests == []

    run(scenario, ("rf2", "rf3"))


def test_the_number_of_replicas_may_have_to_stay() -> None:
    """That of a partition that moves is the number of its targets."""

    async def scenario(started: Cluster) -> None:
        assert await alter(started, {RF2: [1, 2, 3], RF3: [1]}, keeps_count=True) == {RF2: 38, RF3: 38}
        assert started.writes == started.requests == []
        assert await alter(started, {RF2: [1, 2, 3]}) == {RF2: 0}
        assert await alter(started, {RF2: [1, 3]}, keeps_count=True) == {RF2: 38}
        assert await alter(started, {RF2: [3, 2, 1]}, keeps_count=True) == {RF2: 0}
        assert await alter(started, {RF2: None}, keeps_count=True) == {RF2: 0}

    run(scenario, ("rf2", "rf3"))


def test_a_list_of_a_million_replicas_is_refused_at_once() -> None:
    """Each step takes time that grows with the list alone; its text does not grow."""

    async def scenario(started: Cluster) -> None:
        answers = await started.controller.node.controller.ask(
            "a reassignment", lambda active: active.reassignments.alter({RF2: range(1, 1_000_001)})
        )
        assert [str(error) for error in answers.values()] == ["There are more replicas than live brokers."]

    run(scenario)


def test_only_the_controller_moves_replicas() -> None:
    async def scenario(started: Cluster) -> None:
        with pytest.raises(NotControllerError):
            await started.brokers[2].node.controller.ask("x", lambda active: active.reassignments.alter({}))

    run(scenario, ())


def test_a_topic_whose_node_is_gone_or_odd_is_not_changed(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(started: Cluster) -> None:
        path = TopicZNode.path("rf2")
        await started.brokers[2].session.set(path, b"{")
        assert await alter(started, {RF2: [2, 3], RF3: [1, 2, 3]}) == {RF2: -1, RF3: 0}
        await started.brokers[2].session.set(path, MOVED.encode())

    run(scenario, ("rf2", "rf3"))
    assert "The assignment of topic rf2 can't be read" in caplog.text


def test_partitions_that_were_added_meanwhile_stay() -> None:
    """The node is read, changed by another, and only then written: it is read again."""

    async def scenario(started: Cluster) -> None:
        session = started.controller.session
        plain, raced = session.transactions, []

        async def racing(multis: object) -> object:
            listed = [list(multi) for multi in multis]  # type: ignore[attr-defined]
            if not raced and any(
                isinstance(found, SetData) and found.path == "/brokers/topics/rf1" for found in listed[0]
            ):
                raced.append(True)
                node = await session.get("/brokers/topics/rf1")
                znode = TopicZNode.decode(node.data)
                more = TopicZNode({**znode.partitions, 3: ReplicaAssignment((1,))})
                await started.store.session().set("/brokers/topics/rf1", more.encode())
            return await plain(listed)

        session.transactions = racing  # type: ignore[method-assign,assignment]
        assert await alter(started, {RF1: [3, 1]}) == {RF1: 0}
        session.transactions = plain  # type: ignore[method-assign]
        assert raced
        assert await assignment(started, TopicPartition("rf1", 3)) == ReplicaAssignment((1,))
        assert await assignment(started, RF1) == ReplicaAssignment((3, 1), (1,))

    run(scenario, ("rf1",))


def test_a_note_about_in_sync_replicas_completes_it_too() -> None:
    """Leaders of an inter-broker protocol below 2.7-IV2 write the state themselves."""

    async def scenario(started: Cluster) -> None:
        await alter(started, {RF2: [2, 3]})
        session = started.brokers[2].session
        found = (await state(started, RF2))._replace(isr=(1, 2, 3))
        await session.set(PartitionStateZNode.path(RF2), PartitionStateZNode.encode(found))
        note = IsrChangeNotificationZNode.encode([RF2])
        await session.create(IsrChangeNotificationZNode.SEQUENTIAL_PATH, note, sequential=True)
        await started.settle()
        assert await assignment(started, RF2) == ReplicaAssignment((2, 3))

    run(scenario, ("rf2",))


def test_the_broker_to_which_a_replica_moves_dies_and_comes_back() -> None:
    async def scenario(started: Cluster) -> None:
        await alter(started, {RF2: [2, 3]})
        await started.brokers[3].kill()
        assert await moving(started) == {RF2: ReplicaAssignment((2, 3, 1), (3,), (1,))}
        started.forget()
        await started.start(3)
        orders = [line for line in to_broker(started.requests, 3) if line.startswith("LAIR") and "rf2-0" in line]
        assert "r[2, 3, 1]" in orders[-1]
        await in_sync(started, RF2, 1, 2, 3)
        assert await assignment(started, RF2) == ReplicaAssignment((2, 3))
        assert (await state(started, RF2)).isr == (2, 3)

    run(scenario, ("rf2",))


def test_the_broker_that_gives_a_replica_away_dies() -> None:
    """The reassignment goes on without it; its files stay."""

    async def scenario(started: Cluster) -> None:
        await alter(started, {RF2: [1, 3]})
        await started.brokers[2].kill()
        await in_sync(started, RF2, 1, 3)
        assert await assignment(started, RF2) == ReplicaAssignment((1, 3))
        started.forget()
        await started.start(2)
        assert not any("SR" in line for line in to_broker(started.requests, 2))

    run(scenario, ("rf2",))


@pytest.mark.parametrize("is_in_sync", [False, True])
def test_the_next_controller_goes_on(is_in_sync: bool) -> None:
    """The first one ends before the target is in sync, or after that and before it has acted on it."""

    async def scenario(started: Cluster) -> None:
        await alter(started, {RF2: [2, 3]})
        if is_in_sync:
            found = (await state(started, RF2))._replace(isr=(1, 2, 3))
            session = started.store.session()
            await session.set(PartitionStateZNode.path(RF2), PartitionStateZNode.encode(found))
        await started.brokers[1].kill()
        assert started.controller.id in {2, 3}
        if not is_in_sync:
            assert await moving(started) == {RF2: ReplicaAssignment((2, 3, 1), (3,), (1,))}
            await in_sync(started, RF2, 2, 3)
        assert await assignment(started, RF2) == ReplicaAssignment((2, 3))
        now = await state(started, RF2)
        assert (now.leader, now.isr) == (2, (2, 3))
        assert await moving(started) == {}

    run(scenario, ("rf2",))


def test_the_next_controller_repeats_what_was_not_complete() -> None:
    """The first one ends after the replica has left the ISR, and before the topic's node has the target alone."""

    async def scenario(started: Cluster) -> None:
        session = started.store.session()
        await session.set(TopicZNode.path("rf2"), MOVING.encode())
        await session.set(PartitionStateZNode.path(RF2), PartitionStateZNode.encode(LeaderIsr(2, 5, (2, 3), 1)))
        first = started.controller
        started.forget()
        first.node.controller.session_expired()
        await session.delete("/controller")
        await first.node.controller.start()
        await started.settle()
        assert await assignment(started, RF2) == ReplicaAssignment((2, 3))
        assert "SR rf2-0 le6 delete=True" in to_broker(started.requests, 1)

    run(scenario, ("rf2",))


def test_a_target_whose_brokers_are_all_dead_waits() -> None:
    """The last member of the ISR stays in it when its broker ends; 2.7.2 would stop the other replicas."""

    async def scenario(started: Cluster) -> None:
        await alter(started, {RF2: [3]})
        found = (await state(started, RF2))._replace(leader=3, isr=(3,))
        active = started.controller.node.controller._active
        assert active is not None
        session = started.store.session()
        await session.set(PartitionStateZNode.path(RF2), PartitionStateZNode.encode(found))
        active.context.leadership[RF2] = found._replace(zk_version=found.zk_version + 1)
        await started.brokers[3].kill()
        await active.reassignments.complete([RF2])
        assert (await assignment(started, RF2)).is_reassigning
        await started.start(3)
        assert await assignment(started, RF2) == ReplicaAssignment((3,))
        assert (await state(started, RF2)).leader == 3

    run(scenario, ("rf2",))


def test_a_partition_without_a_leader_yet_is_moved() -> None:
    async def scenario(started: Cluster) -> None:
        session = started.store.session()
        znode = TopicZNode({0: ReplicaAssignment((9,))})
        await session.create(TopicZNode.path("late"), znode.encode())
        await started.settle()
        late = TopicPartition("late", 0)
        assert await alter(started, {late: [1]}) == {late: 0}
        await started.start(4)
        assert (await state(started, late)).leader == 1
        assert await assignment(started, late) == ReplicaAssignment((1,))

    run(scenario, ())


def test_a_topic_that_is_deleted_moves_no_more() -> None:
    async def scenario(started: Cluster) -> None:
        await started.brokers[2].session.create(
            ReassignPartitionsZNode.PATH, ReassignPartitionsZNode.encode({RF2: (2, 3)})
        )
        await started.settle()
        assert RF2 in await moving(started)
        await started.brokers[2].session.create("/admin/delete_topics/rf2", None)
        await started.settle()
        assert await moving(started) == {}
        assert await started.store.session().exists("/brokers/topics/rf2") is None
        assert await started.store.session().exists(ReassignPartitionsZNode.PATH) is None
        removed = [
            broker for broker in (1, 2, 3) if any("delete=True" in line for line in to_broker(started.requests, broker))
        ]
        assert removed == [1, 2, 3]

    run(scenario, ("rf2",))


def test_leaders_are_not_balanced_meanwhile() -> None:
    async def scenario(started: Cluster) -> None:
        await alter(started, {RF2: [3, 2]})
        await in_sync(started, RF2, 1, 2)
        started.forget()
        assert isinstance(started.clock, ManualClock)
        started.clock.advance(600_000)
        await started.settle()
        assert started.writes == []

    run(scenario, clock=ManualClock())


async def request(started: Cluster, **targets: tuple[int, ...]) -> None:
    """Let the legacy tool ask for ``rf2_0=(1, 2)``."""
    asked = {}
    for name, replicas in targets.items():
        topic, _, index = name.rpartition("_")
        asked[TopicPartition(topic, int(index))] = replicas
    await started.brokers[2].session.create(ReassignPartitionsZNode.PATH, ReassignPartitionsZNode.encode(asked))
    await started.settle()


def test_the_znode_of_the_legacy_tool_loses_each_entry_that_is_done() -> None:
    """Trace 09."""

    async def scenario(started: Cluster) -> None:
        for _ in range(2):  # the watch is there again after the first
            await request(started, rf2_0=(3, 2), rf1_2=(2,))
            assert (await moving(started)).keys() == {RF2, RF1}
            await in_sync(started, RF2, 1, 2, 3)
            node = await started.store.session().get(ReassignPartitionsZNode.PATH)
            assert ReassignPartitionsZNode.decode(node.data) == {RF1: (2,)}
            await in_sync(started, RF1, 3, 2)
            assert await started.store.session().exists(ReassignPartitionsZNode.PATH) is None
            assert (await state(started, RF1)).leader == 2
            assert await alter(started, {RF2: [1, 2], RF1: [3]}) == {RF2: 0, RF1: 0}
            await in_sync(started, RF2, 3, 2, 1)
            await in_sync(started, RF1, 2, 3)

    run(scenario, ("rf1", "rf2"))


def test_requests_of_the_legacy_tool_that_can_not_be_met_are_removed(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(started: Cluster) -> None:
        await request(started, nowhere_0=(1,), rf2_0=(3, 3), rf3_0=(9, 3))
        assert (await moving(started)) == {RF3: ReplicaAssignment((9, 3, 1, 2), (9,), (1, 2))}
        node = await started.store.session().get(ReassignPartitionsZNode.PATH)
        assert ReassignPartitionsZNode.decode(node.data) == {RF3: (9, 3)}
        assert await alter(started, {RF3: None}) == {RF3: 0}
        assert await started.store.session().exists(ReassignPartitionsZNode.PATH) is None
        for odd in (b"\xff{", b'{"version":1,"partitions":[]}', b'{"version":1,"partitions":[5]}'):
            await started.brokers[2].session.create(ReassignPartitionsZNode.PATH, odd)
            await started.settle()
            assert await started.store.session().exists(ReassignPartitionsZNode.PATH) is None

    run(scenario, ("rf2", "rf3"))
    assert "The replicas of partition nowhere-0 are not moved: The partition does not exist." in caplog.messages
    assert (
        "The replicas of partition rf2-0 are not moved: A broker id is twice in the list of replicas."
        in caplog.messages
    )


def test_a_new_controller_serves_the_znode() -> None:
    async def scenario(started: Cluster) -> None:
        first = started.controller
        for broker in list(started.brokers.values()):
            if broker is not first:
                await broker.kill()
        await first.kill()
        session = started.store.session()
        await session.create(ReassignPartitionsZNode.PATH, ReassignPartitionsZNode.encode({RF3: (1, 2, 3)}))
        for broker_id in (1, 2, 3):
            await started.start(broker_id)
        assert await assignment(started, RF3) == ReplicaAssignment((1, 2, 3))
        assert await session.exists(ReassignPartitionsZNode.PATH) is None

    run(scenario, ("rf3",))
