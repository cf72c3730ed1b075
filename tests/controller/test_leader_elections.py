"""Elections that are asked for while the leaders are alive, and brokers that stop in order."""

import asyncio
import logging
from collections.abc import Sequence

import pytest

from kafkapy.errors import BrokerError
from kafkapy.metadata.errors import NotControllerError
from kafkapy.metadata.znodes import LeaderIsr, PartitionStateZNode, PreferredElectionZNode
from kafkapy.testing.clock import ManualClock
from kafkapy.types import TopicPartition
from tests.controller.harness import Cluster, cluster
from tests.controller.scenario import run, state_line
from tests.controller.trace import request_line, to_broker, write_line

RF1 = TopicPartition("rf1", 1)
RF2 = TopicPartition("rf2", 0)
RF3 = TopicPartition("rf3", 0)


async def set_state(started: Cluster, partition: TopicPartition, leader: int, isr: Sequence[int]) -> None:
    """Write what brokers would have come to, where the controller finds it too."""
    path = PartitionStateZNode.path(partition)
    store = started.controller.session
    version = (await store.get(path)).stat.version
    known = started.controller.node.controller._active
    assert known is not None
    state = LeaderIsr(leader, 1, tuple(isr), 1, version + 1)
    await store.set(path, PartitionStateZNode.encode(state), version)
    known.context.leadership[partition] = state
    started.forget()


async def elect(started: Cluster, *asked: TopicPartition, unclean: bool = False) -> dict[TopicPartition, int]:
    """The new leader of each partition, or the error code with a minus."""
    answers = await started.controller.node.controller.ask(
        "an election", lambda active: active.elections.elect(asked, unclean=unclean)
    )
    await started.settle()
    return {
        partition: -found.error_code if isinstance(found, BrokerError) else found
        for partition, found in answers.items()
    }


async def shut_down(started: Cluster, broker: int, epoch: int | None = None) -> list[TopicPartition]:
    own = started.brokers[broker].node.fence.broker_epoch if epoch is None else epoch
    remaining = await started.controller.node.controller.ask(
        "a shutdown", lambda active: active.elections.shut_down(broker, own)
    )
    await started.settle()
    return remaining


def test_the_preferred_leader_is_elected() -> None:
    """Trace 07: LeaderAndIsr to the replicas, UpdateMetadata to all; the ISR keeps its order."""

    async def scenario(started: Cluster) -> None:
        await set_state(started, RF3, 1, [1, 2, 3])
        assert await elect(started, RF3, RF3) == {RF3: 3}
        assert [write_line(write) for write in started.writes] == ["set " + state_line("rf3", 0, 1, 3, 2, "1,2,3")]
        for broker in (1, 2, 3):
            assert to_broker(started.requests, broker) == [
                "LAIR rf3-0 L3 le2 isr[1, 2, 3] zkv2 r[3, 1, 2] / [3]",
                "UM rf3-0 L3 le2 isr[1, 2, 3] zkv2 off[] / [1, 2, 3]",
            ]

    run(scenario)


def test_each_partition_has_its_own_refusal(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)

    async def scenario(started: Cluster) -> None:
        await set_state(started, RF3, 1, [1, 2])
        unknown = TopicPartition("nowhere", 0)
        deleted = TopicPartition("cmp", 0)
        never_led = TopicPartition("auto", 0)
        active = started.controller.node.controller._active
        assert active is not None
        active.context.topics_to_delete.add("cmp")
        del active.context.leadership[never_led]
        answers = await elect(started, RF3, RF2, unknown, deleted, never_led)
        assert answers == {RF3: -80, RF2: -84, unknown: -3, deleted: -17, never_led: -83}
        assert started.writes == started.requests == []
        active.context.topics_to_delete.clear()

    run(scenario)
    # broker 1 still leads rf3-0: the line must not say that no replica can
    assert "No new leader was elected for partition rf3-0 (in sync: [1, 2])" in caplog.messages


def test_an_unclean_election_takes_a_replica_that_is_not_in_sync() -> None:
    async def scenario(started: Cluster) -> None:
        await set_state(started, RF2, 1, [1])
        assert await elect(started, RF2, unclean=True) == {RF2: -84}
        await started.brokers[3].kill()
        await set_state(started, TopicPartition("rf2", 1), 3, [3])
        assert await elect(started, TopicPartition("rf2", 1), unclean=True) == {TopicPartition("rf2", 1): 2}
        assert write_line(started.writes[-1]) == "set " + state_line("rf2", 1, 1, 2, 2, "2")
        dead = TopicPartition("rf1", 2)
        assert await elect(started, dead, unclean=True) == {dead: -83}

    run(scenario)


def test_only_the_controller_elects() -> None:
    async def scenario(started: Cluster) -> None:
        with pytest.raises(NotControllerError):
            await started.brokers[2].node.controller.ask("an election", lambda active: active.elections.balance(10))

    run(scenario, ())


def test_a_request_fails_if_the_broker_stops_being_the_controller() -> None:
    async def scenario(started: Cluster) -> None:
        controller = started.controller

        async def expire(active: object) -> None:
            controller.node.controller.session_expired()

        with pytest.raises(NotControllerError):
            await controller.node.controller.ask("an expiry", expire)
        await controller.node.controller.start()

    run(scenario, ())


def test_the_znode_of_the_legacy_tool_is_served_and_deleted(caplog: pytest.LogCaptureFixture) -> None:
    """Trace 10, and a znode that was written while there was no controller."""

    async def scenario(started: Cluster) -> None:
        await set_state(started, RF2, 2, [2, 1])
        asked = PreferredElectionZNode.encode([RF2, TopicPartition("nowhere", 0)])
        for _ in range(2):  # the watch is there again after the first
            started.forget()
            await started.brokers[2].session.create(PreferredElectionZNode.PATH, asked)
            await started.settle()
            assert write_line(started.writes[-1]) == "delete /admin/preferred_replica_election"
        assert caplog.messages.count(
            "The preferred leader of partition nowhere-0 was not elected: The partition does not exist."
        ) == 2  # fmt: skip
        await started.brokers[2].session.create(PreferredElectionZNode.PATH, b"\xff{")
        await started.settle()
        assert await started.brokers[2].session.exists(PreferredElectionZNode.PATH) is None

    run(scenario)


def test_a_new_controller_serves_the_znode(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(started: Cluster) -> None:
        session = started.store.session()
        for path in ("/admin", PreferredElectionZNode.PATH):
            await session.create(path, PreferredElectionZNode.encode([RF2]))
        await started.start(1)
        assert await session.exists(PreferredElectionZNode.PATH) is None

    async def main() -> None:
        async with cluster() as started:
            await scenario(started)

    asyncio.run(main())
    assert "The preferred leader of partition rf2-0 was not elected: The partition does not exist." in caplog.messages


def test_leaders_are_balanced_where_more_than_a_tenth_has_moved() -> None:
    async def scenario(started: Cluster) -> None:
        clock = started.clock
        assert isinstance(clock, ManualClock)
        await set_state(started, RF3, 1, [1, 2, 3])
        await set_state(started, RF2, 2, [2])  # broker 1 is not in sync: nothing to gain
        clock.advance(4_999)
        await started.settle()
        assert started.writes == []
        clock.advance(1)
        await started.settle()
        assert [write_line(write) for write in started.writes] == ["set " + state_line("rf3", 0, 1, 3, 2, "1,2,3")]
        await set_state(started, RF3, 1, [1, 2, 3])
        clock.advance(300_000)
        await started.settle()
        assert [write_line(write) for write in started.writes] == ["set " + state_line("rf3", 0, 1, 3, 2, "1,2,3")]

    run(scenario, clock=ManualClock())


def test_the_balance_can_be_off_and_tolerates_a_share() -> None:
    async def off(started: Cluster) -> None:
        clock = started.clock
        assert isinstance(clock, ManualClock)
        await set_state(started, RF3, 1, [1, 2, 3])
        clock.advance(600_000)
        await started.settle()
        assert started.writes == []

    run(off, clock=ManualClock(), settings={"auto.leader.rebalance.enable": "false"})
    run(off, clock=ManualClock(), settings={"leader.imbalance.per.broker.percentage": "50"})


def test_a_broker_stops_in_order() -> None:
    """Trace T5: leadership moves, the broker leaves every ISR, and is told to stop its replicas."""

    async def scenario(started: Cluster) -> None:
        assert await shut_down(started, 2) == []
        assert sorted(write_line(write) for write in started.writes[:3]) == sorted(
            "set " + state_line(*moved)
            for moved in [("cmp", 0, 1, 3, 1, "3,1"), ("rf2", 1, 1, 3, 1, "3"), ("auto", 2, 1, 1, 1, "1")]
        )
        assert sorted(write_line(write) for write in started.writes[3:]) == sorted(
            "set " + state_line(*followed)
            for followed in [("rf2", 0, 1, 1, 1, "1"), ("rf3", 0, 1, 3, 1, "3,1"), ("auto", 0, 1, 3, 1, "3")]
        )
        moved, told, stopped, *_ = to_broker(started.requests, 2)
        assert moved.startswith("LAIR auto-2 L1 le1 isr[1] zkv1 r[2, 1]; cmp-0 L3")
        assert "cmp-0 L3 le1 isr[3, 1] zkv1 off[2]" in told
        assert stopped == "SR auto-0 le0 delete=False; rf2-0 le0 delete=False; rf3-0 le0 delete=False"
        assert await shut_down(started, 2) == []
        started.forget()
        await started.brokers[2].kill()
        assert [write_line(write) for write in started.writes] == ["set " + state_line("rf1", 1, 1, -1, 1, "2")]

    run(scenario)


def test_a_stopping_broker_keeps_partitions_that_no_other_replica_can_lead(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)

    async def scenario(started: Cluster) -> None:
        await set_state(started, RF2, 1, [1])
        assert await shut_down(started, 1) == [RF2]
        assert started.controller.node.controller._active is not None
        assert RF2 in started.controller.node.controller._active.context.leadership
        # two brokers that stop do not hand leadership to each other
        assert await shut_down(started, 2) == [TopicPartition("auto", 2)]

    run(scenario, ("rf2", "auto"))
    assert "No new leader was elected for partition rf2-0 (in sync: [1])" in caplog.messages


@pytest.mark.parametrize(("broker", "epoch", "error_code"), [(9, -1, 8), (9, 7, -1), (2, 0, 77)])
def test_an_unknown_or_older_broker_cannot_be_stopped(broker: int, epoch: int, error_code: int) -> None:
    async def scenario(started: Cluster) -> None:
        with pytest.raises(BrokerError) as refused:
            await shut_down(started, broker, epoch)
        assert refused.value.error_code == error_code
        assert started.writes == started.requests == []

    run(scenario, ())


def test_controlled_shutdown_without_a_broker_epoch_is_accepted() -> None:
    async def scenario(started: Cluster) -> None:
        assert await shut_down(started, 3, -1) == []
        assert any(request_line(request).startswith("SR") for _, _, request in started.requests)

    run(scenario)
