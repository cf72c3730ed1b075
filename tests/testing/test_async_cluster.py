"""Several brokers for tests that are coroutines."""

import asyncio
import threading
from pathlib import Path

import pytest

from kafkapy.testing import AsyncCluster, BrokerNotRunningError, BrokerStartError, NotInTimeError


def test_the_cluster_serves_within_the_with_and_is_closed_after_it() -> None:
    async def scenario() -> None:
        async with AsyncCluster(topics={"t": 1}) as cluster:
            assert cluster.bootstrap.split(",") == [broker.bootstrap for broker in cluster.brokers]
            await cluster.produce("t", b"1")
            leader = await cluster.leader("t")
            await leader.kill()
            await cluster.produce("t", b"2")
            assert await cluster.leader("t") is not leader
            assert [record.value for record in await cluster.records("t")] == [b"1", b"2"]
            await leader.start()
            await cluster.wait_until_in_sync()
            assert len(await leader.wait_for_records("t", 2)) == 2
            assert (await cluster.controller()).is_running
            await cluster.create_topic("u", 2, {"retention.ms": 5}, replication_factor=2)
            assert await cluster.brokers[2].topics() == {"t": 1, "u": 2}
            await cluster.delete_topic("t")
            await cluster.brokers[1].close()
            assert [broker.is_running for broker in cluster.brokers] == [True, False, True]
            async with cluster.brokers[1]:
                assert await cluster.brokers[1].topics() == {"u": 2}
        await cluster.close()
        with pytest.raises(BrokerNotRunningError, match="was not started: use it as `async with AsyncCluster"):
            await cluster.records("t")
        with pytest.raises(BrokerNotRunningError, match="was not started"):
            await cluster.brokers[0].start()

    asyncio.run(scenario())


def test_brokers_are_paused_and_separated() -> None:
    async def scenario() -> None:
        async with AsyncCluster(topics=["t"]) as cluster:
            leader = await cluster.leader("t")
            (follower, *_) = [each for each in cluster.brokers if each not in (leader, await cluster.controller())]
            async with cluster.separated([follower.id]):
                cluster.clock.advance(60_000)  # replica.lag.time.max.ms is 30 s
                producing = asyncio.ensure_future(cluster.produce("t", b"1"))
                await asyncio.wait([producing], timeout=0.2)
                cluster.clock.advance(15_000)  # the leader looks for followers that lag, at the latest in 15 s
                await producing
                assert [record.value for record in await cluster.wait_for_records("t", 1)] == [b"1"]
                with pytest.raises(NotInTimeError, match="t-0 is in sync on"):
                    await cluster.wait_until_in_sync("t", timeout_s=0.02)
            await cluster.wait_until_in_sync("t")
            follower.pause()
            assert follower.faults.is_paused
            follower.resume()
            assert len(await follower.wait_for_records("t", 1)) == 1

    asyncio.run(scenario())


def test_kept_data_are_there_at_the_next_start(tmp_path: Path) -> None:
    async def scenario() -> None:
        for count in (1, 2):
            async with AsyncCluster(2, {"num.partitions": 1}, topics=["t"], data=tmp_path) as cluster:
                await cluster.produce("t", b"v")
                assert len(await cluster.records("t")) == count

    asyncio.run(scenario())


def test_a_group_has_a_coordinator() -> None:
    async def scenario() -> None:
        async with AsyncCluster(2) as cluster:
            await cluster.create_topic("__consumer_offsets")
            assert (await cluster.coordinator("g")).is_running

    asyncio.run(scenario())


def test_a_start_that_fails_leaves_no_thread() -> None:
    async def scenario() -> None:
        with pytest.raises(BrokerStartError, match="did you mean"):
            await AsyncCluster(2, {"num.partition": 1}).start()

    before = threading.active_count()
    asyncio.run(scenario())
    assert threading.active_count() == before
