"""Events between the controller's decision and its write. (Elections as traced: test_active_controller.)"""

import asyncio
import logging

import pytest

from kafkapy.controller.context import ControllerContext, ControllerMovedError, ControllerWriter, LiveBroker
from kafkapy.controller.elections import Elected
from kafkapy.controller.partition_machine import PartitionMachine
from kafkapy.controller.requests import RequestBatch
from kafkapy.controller.states import PartitionState
from kafkapy.metadata.embedded import EmbeddedSession, EmbeddedStore
from kafkapy.metadata.store import ensure_path
from kafkapy.metadata.znodes import BrokerEndpoint, BrokerIdZNode, LeaderIsr, PartitionStateZNode, ReplicaAssignment
from kafkapy.testing.clock import ManualClock
from kafkapy.turns import finish
from kafkapy.types import TopicPartition
from tests.controller.trace import request_line

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)
STATE = LeaderIsr(2, 5, (2, 1), 1, 0)


class Setting:
    """Broker 1 runs, 2 has ended; both partitions had 2 as their leader."""

    def __init__(self) -> None:
        self.session: EmbeddedSession = EmbeddedStore(None, ManualClock()).session()
        self.context = ControllerContext(1, 1, 0)
        endpoint = BrokerEndpoint("PLAINTEXT", "PLAINTEXT", "h", 1)
        self.context.brokers = {1: LiveBroker(BrokerIdZNode(1, (endpoint,)), 3)}
        self.context.assign("t", {0: ReplicaAssignment((2, 1)), 1: ReplicaAssignment((2, 1))})
        self.batch = RequestBatch(self.context, "PLAINTEXT")
        writer = ControllerWriter(self.session, self.context)
        self.machine = PartitionMachine(self.context, writer, self.batch, unclean_default=False)

    async def store(self, *partitions: TopicPartition, state: LeaderIsr = STATE) -> None:
        await ensure_path(self.session, "/controller_epoch", b"1")
        await ensure_path(self.session, "/brokers/topics/t")
        for partition in partitions:
            await ensure_path(self.session, PartitionStateZNode.path(partition), PartitionStateZNode.encode(state))
            self.context.leadership[partition] = state
        await self.machine.set_initial_states()

    def sent(self) -> list[str]:
        return [request_line(outgoing.request) for outgoing in finish(self.batch.take())]


def test_an_election_on_a_changed_state_is_repeated() -> None:
    async def main() -> None:
        setting = Setting()
        await setting.store(FIRST)
        seen: list[LeaderIsr] = []

        def election(partition: TopicPartition, state: LeaderIsr) -> Elected:
            if not seen:
                node = setting.session._store.tree.nodes[PartitionStateZNode.path(partition)]
                node.data, node.version = PartitionStateZNode.encode(state._replace(isr=(1,))), 1
            seen.append(state)
            return Elected(1, tuple(broker for broker in state.isr if broker == 1))

        await setting.machine.elect([FIRST], election)
        assert [state.isr for state in seen] == [(2, 1), (1,)]
        assert setting.context.leadership[FIRST] == LeaderIsr(1, 6, (1,), 1, 2)
        assert setting.sent()[0] == "LAIR t-0 L1 le6 isr[1] zkv2 r[2, 1] / [1]"

    asyncio.run(main())


def test_states_written_by_a_newer_controller_are_not_touched() -> None:
    async def main() -> None:
        setting = Setting()
        await setting.store(FIRST, state=STATE._replace(controller_epoch=2))
        with pytest.raises(ControllerMovedError):
            await setting.machine.give_missing_leaders()

    asyncio.run(main())


def test_states_that_can_not_be_written_are_logged_and_skipped(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        setting = Setting()
        await setting.store(FIRST)
        await setting.machine.give_leaders([SECOND])
        await setting.session.delete(PartitionStateZNode.path(FIRST))
        assert await setting.machine.read_states([FIRST]) == {}
        assert await setting.machine.write_states({FIRST: STATE}, lambda *_: None) == []
        await setting.machine.elect([FIRST], lambda *_: None)
        assert setting.context.partition_states[SECOND] is PartitionState.ONLINE
        setting.context.partition_states[SECOND] = PartitionState.NEW
        await setting.machine.give_leaders([SECOND])
        assert setting.context.partition_states[SECOND] is PartitionState.NEW

    with caplog.at_level(logging.ERROR):
        asyncio.run(main())
    assert "state of partition t-0 could not be written" in caplog.text
    assert "t-1 could not be started: NodeExistsError" in caplog.text
