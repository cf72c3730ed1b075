import asyncio

from kafkapy.controller.context import Replica
from kafkapy.controller.replica_machine import ReplicaMachine
from kafkapy.controller.states import ReplicaState
from kafkapy.metadata.znodes import LeaderIsr, PartitionStateZNode
from tests.controller.test_partition_machine import FIRST, SECOND, STATE, Setting


def _machine(setting: Setting) -> ReplicaMachine:
    return ReplicaMachine(setting.context, setting.machine, setting.batch)


def test_initial_replica_states_follow_from_the_live_brokers() -> None:
    async def main() -> None:
        setting = Setting()
        await setting.store(FIRST)
        online, offline = await _machine(setting).set_initial_states()
        assert online == [Replica(FIRST, 1), Replica(SECOND, 1)]
        assert offline == [Replica(FIRST, 2), Replica(SECOND, 2)]
        assert setting.context.replica_state(online[0]) is ReplicaState.ONLINE
        await _machine(setting).bring_online(online)
        lines = setting.sent()
        assert lines[0] == "LAIR t-0 L2 le5 isr[2, 1] zkv0 r[2, 1] / []"
        assert len(lines) == 2

    asyncio.run(main())


def test_a_replica_leaves_the_isr_unless_it_is_the_last() -> None:
    async def main() -> None:
        setting = Setting()
        await setting.store(FIRST)
        machine = _machine(setting)
        _, offline = await machine.set_initial_states()
        await machine.take_offline(offline)
        assert setting.context.leadership[FIRST] == LeaderIsr(-1, 6, (1,), 1, 1)
        assert setting.sent() == [
            "LAIR t-0 L-1 le6 isr[1] zkv1 r[2, 1] / []",
            "UM t-0 L-1 le6 isr[1] zkv1 off[2] / [1]",
        ]
        await machine.take_offline(offline)
        assert setting.context.leadership[FIRST].leader_epoch == 6, "who is not in the ISR changes nothing"

    asyncio.run(main())


def test_a_write_to_a_changed_state_is_repeated() -> None:
    async def main() -> None:
        setting = Setting()
        await setting.store(FIRST)
        machine = _machine(setting)
        _, offline = await machine.set_initial_states()
        writer = setting.machine._writer
        write = writer.write

        async def write_late(operations: list[object]) -> list[object]:
            writer.write = write  # type: ignore[method-assign]  # as it was
            await setting.session.set(PartitionStateZNode.path(FIRST), PartitionStateZNode.encode(STATE))
            return await write(operations)  # type: ignore[arg-type,return-value]  # passed on

        writer.write = write_late  # type: ignore[method-assign,assignment]  # somebody is faster, once
        await machine.take_offline(offline[:1])
        assert setting.context.leadership[FIRST] == LeaderIsr(-1, 6, (1,), 1, 2)

    asyncio.run(main())
