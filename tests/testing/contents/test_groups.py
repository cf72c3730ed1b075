"""The helpers for consumer groups."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kafkapy.testing import AsyncBroker, NotInTimeError, UnknownNameError
from kafkapy.types import TopicPartition
from tests.testing.contents.wire_member import WireMember

Scenario = Callable[[AsyncBroker, WireMember], Awaitable[None]]


def with_member(scenario: Scenario) -> None:
    async def run() -> None:
        async with AsyncBroker(topics={"t": 2, "other": 1}) as broker:
            member = await WireMember.connect(broker.port, "g", "t")
            await scenario(broker, member)
            await member.client.close()

    asyncio.run(asyncio.wait_for(run(), 20))


def test_a_group_is_stable_once_all_partitions_are_assigned() -> None:
    async def scenario(broker: AsyncBroker, member: WireMember) -> None:
        waiting = asyncio.ensure_future(broker.wait_until_stable("g"))
        await member.join()
        assert not waiting.done()
        await member.sync(0, 1)
        (found,) = await waiting
        assert found.member_id == member.member_id
        assert found.partitions == (("t", 0), ("t", 1))
        assert await broker.groups() == ["g"]
        assert len(await broker.wait_until_stable("g", members=1)) == 1

    with_member(scenario)


def test_a_failed_wait_for_a_group_describes_its_state() -> None:
    async def scenario(broker: AsyncBroker, member: WireMember) -> None:
        async def said(**how: int) -> str:
            with pytest.raises(NotInTimeError) as it:
                await broker.wait_until_stable("g", timeout_s=0.01, **how)
            return str(it.value)

        assert await said() == "not within 0.01 s: no consumer of group 'g' has joined; there is no group"
        await member.join()
        assert (await said()).endswith("group 'g' is CompletingRebalance with 1 members")
        await member.sync(0)
        assert (await said()).endswith("group 'g' is Stable with 1 members; nobody has t-1")
        assert (await said(members=2)).endswith("with 1 members, 2 are waited for; nobody has t-1")

    with_member(scenario)


def test_lag_counts_the_records_after_the_committed_offsets() -> None:
    async def scenario(broker: AsyncBroker, member: WireMember) -> None:
        for at in range(5):
            await broker.produce("t", b"%d" % at, partition=at % 2)
        await broker.produce("other", b"of nobody's")
        await member.join()
        await member.sync(0, 1)
        assert await broker.lag("g") == {("t", 0): 3, ("t", 1): 2}
        assert await broker.committed("g") == {}
        assert await member.commit(0, 2) == 0
        assert await broker.committed("g") == {TopicPartition("t", 0): 2}
        assert await broker.lag("g") == {("t", 0): 1, ("t", 1): 2}
        with pytest.raises(NotInTimeError, match=r"group 'g' is behind: \{'t-0': 1, 't-1': 2\}"):
            await broker.wait_until_caught_up("g", timeout_s=0.01)
        waiting = asyncio.ensure_future(broker.wait_until_caught_up("g"))
        await member.commit(0, 3)
        await member.commit(1, 2)
        await waiting
        assert sum((await broker.lag("g")).values()) == 0

    with_member(scenario)


def test_an_unknown_group_is_an_error() -> None:
    async def scenario(broker: AsyncBroker, member: WireMember) -> None:
        with pytest.raises(NotInTimeError, match="no consumer of group 'g' has joined or committed"):
            await broker.wait_until_caught_up("g", timeout_s=0.01)
        await member.join()
        for ask in (broker.lag, broker.committed):
            with pytest.raises(UnknownNameError, match="there is no group 'gg'; did you mean 'g'"):
                await ask("gg")

    with_member(scenario)
