"""In-sync replicas that leaders change: by asking the controller, or by writing the state themselves."""

import asyncio
import logging

import pytest

from kafkapy.errors import BrokerError
from kafkapy.metadata.errors import (
    FencedLeaderEpochError,
    InvalidRequestError,
    InvalidUpdateVersionError,
    NotControllerError,
    StaleBrokerEpochError,
    UnknownTopicOrPartitionError,
)
from kafkapy.metadata.znodes import IsrChangeNotificationZNode, LeaderIsr, PartitionStateZNode
from kafkapy.types import TopicPartition
from tests.controller.harness import Cluster
from tests.controller.scenario import run, state_line
from tests.controller.trace import to_broker, write_line

RF3 = TopicPartition("rf3", 0)
AS_CREATED = LeaderIsr(3, 0, (3, 1, 2), -1, 0)


async def alter(started: Cluster, proposed: LeaderIsr, partition: TopicPartition = RF3) -> LeaderIsr | BrokerError:
    """The controller's answers to the leader, broker 3."""
    epoch = started.brokers[3].node.fence.broker_epoch
    answers = await started.controller.node.controller.alter_isr(3, epoch, {partition: proposed})
    await started.settle()
    return answers[partition]


def test_a_leader_has_its_in_sync_replicas_changed_and_all_brokers_hear_of_it() -> None:
    """Trace T6: UpdateMetadata goes to all brokers, LeaderAndIsr to none."""

    async def scenario(started: Cluster) -> None:
        shrunk = await alter(started, AS_CREATED._replace(isr=(3, 2)))
        assert shrunk == LeaderIsr(3, 0, (3, 2), 1, 1)
        assert [write_line(write) for write in started.writes] == ["set " + state_line("rf3", 0, 1, 3, 0, "3,2")]
        for broker in (1, 2, 3):
            assert to_broker(started.requests, broker) == ["UM rf3-0 L3 le0 isr[3, 2] zkv1 off[] / [1, 2, 3]"]
        expanded = await alter(started, AS_CREATED._replace(isr=(3, 2, 1), zk_version=1))
        assert expanded == LeaderIsr(3, 0, (3, 2, 1), 1, 2)

    run(scenario, ("rf3",))


def test_an_unchanged_state_is_accepted_at_any_version() -> None:
    """The answer to an earlier request may have been lost."""

    async def scenario(started: Cluster) -> None:
        assert await alter(started, AS_CREATED._replace(zk_version=7)) == LeaderIsr(3, 0, (3, 1, 2), 1, 0)
        assert started.writes == []
        assert started.requests == []

    run(scenario, ("rf3",))


def test_the_controller_refuses_invalid_proposals() -> None:
    async def scenario(started: Cluster) -> None:
        async def refusal(partition: TopicPartition = RF3, **fields: object) -> type:
            return type(await alter(started, AS_CREATED._replace(**fields), partition))  # type: ignore[arg-type]

        assert await refusal(isr=(3,), zk_version=7) is InvalidUpdateVersionError
        assert await refusal(TopicPartition("nope", 0)) is UnknownTopicOrPartitionError
        assert await refusal(isr=(3,), leader_epoch=-1) is FencedLeaderEpochError
        assert await refusal(isr=(3,), leader_epoch=1) is NotControllerError
        assert await refusal(isr=(1, 2)) is InvalidRequestError
        assert await refusal(isr=(3, 77)) is InvalidRequestError
        assert await refusal(isr=(1, 3), leader=1) is InvalidRequestError
        assert started.writes == []
        controller = started.controller.node.controller
        for epoch in (-1, 10_000):
            with pytest.raises(StaleBrokerEpochError):
                await controller.alter_isr(3, epoch, {RF3: AS_CREATED})
        with pytest.raises(NotControllerError):
            await started.brokers[2].node.controller.alter_isr(3, 1, {RF3: AS_CREATED})

    run(scenario, ("rf3",))


def test_a_state_that_was_written_meanwhile_is_not_overwritten() -> None:
    async def scenario(started: Cluster) -> None:
        path = PartitionStateZNode.path(RF3)
        await started.brokers[2].session.set(path, PartitionStateZNode.encode(LeaderIsr(3, 0, (3, 1), 1)))
        answer = await alter(started, AS_CREATED._replace(isr=(3,)))
        assert isinstance(answer, InvalidUpdateVersionError)
        node = await started.brokers[2].session.get(path)
        assert PartitionStateZNode.decode(node.data, 1).isr == (3, 1)

    run(scenario, ("rf3",))


def test_a_request_that_waits_while_the_office_is_lost_is_answered() -> None:
    async def scenario(started: Cluster) -> None:
        controller = started.controller.node.controller
        epoch = started.brokers[3].node.fence.broker_epoch
        waiting = asyncio.ensure_future(controller.alter_isr(3, epoch, {RF3: AS_CREATED._replace(isr=(3,))}))
        cancelled = asyncio.ensure_future(controller.alter_isr(3, epoch, {RF3: AS_CREATED._replace(isr=(3,))}))
        await asyncio.sleep(0)
        cancelled.cancel()
        controller.session_expired()
        with pytest.raises(NotControllerError):
            await waiting

    run(scenario, ("rf3",))


def test_the_controller_that_has_been_replaced_writes_nothing() -> None:
    async def scenario(started: Cluster) -> None:
        await started.brokers[2].session.set("/controller_epoch", b"9")
        with pytest.raises(NotControllerError):
            await alter(started, AS_CREATED._replace(isr=(3,)))

    run(scenario, ("rf3",))


def test_a_notification_makes_the_controller_read_and_tell(caplog: pytest.LogCaptureFixture) -> None:
    """Leaders of an inter-broker protocol below 2.7-IV2 write the state, and a node for the controller."""

    async def scenario(started: Cluster) -> None:
        session = started.brokers[3].session
        parent = IsrChangeNotificationZNode.SEQUENTIAL_PATH
        await session.set(PartitionStateZNode.path(RF3), PartitionStateZNode.encode(LeaderIsr(3, 0, (3, 1), 1)))
        unknown = TopicPartition("nope", 1)
        note = IsrChangeNotificationZNode.encode([RF3, unknown])
        assert note == b'{"version":1,"partitions":[{"topic":"rf3","partition":0},{"topic":"nope","partition":1}]}'
        for _ in range(2):
            await session.create(parent, note, sequential=True)
            await started.settle()
            for broker in (1, 2, 3):
                assert to_broker(started.requests, broker) == ["UM rf3-0 L3 le0 isr[3, 1] zkv1 off[] / [1, 2, 3]"]
            assert await session.children(IsrChangeNotificationZNode.PATH) == []
            started.forget()
        assert await alter(started, LeaderIsr(3, 0, (3,), -1, 1)) == LeaderIsr(3, 0, (3,), 1, 2)

    with caplog.at_level(logging.WARNING):
        run(scenario, ("rf3",))
    assert caplog.records == []


def test_a_notification_that_can_not_be_read_is_left_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(started: Cluster) -> None:
        session = started.brokers[3].session
        await session.create(IsrChangeNotificationZNode.SEQUENTIAL_PATH, b"{}", sequential=True)
        await started.settle()
        assert await session.children(IsrChangeNotificationZNode.PATH) == ["isr_change_0000000000"]
        assert started.requests == []

    run(scenario, ("rf3",))
    assert "A note to the controller is left out: the node /isr_change_notification/isr_change_0" in caplog.text
