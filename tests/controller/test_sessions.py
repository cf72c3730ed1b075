"""Sessions with the metadata store that expire: registration, election and watches are made again in the next one."""

import asyncio
import logging
from typing import Any

import pytest

from kafkapy import turns
from kafkapy.controller.topics import NewTopic
from kafkapy.metadata.embedded import EmbeddedStore
from kafkapy.metadata.errors import NotControllerError
from kafkapy.metadata.registration import BrokerIdTakenError
from kafkapy.metadata.store import BadVersionError, Create, StoreClosedError, ensure_path
from kafkapy.server.lifecycle import node
from kafkapy.server.lifecycle.node import REGISTRATION_RETRY_MS, STORE_PATIENCE_MS
from kafkapy.testing.clock import ManualClock
from tests.controller.harness import Cluster, FakeBroker, cluster
from tests.server.harness import until


async def _create(broker: FakeBroker, topic: str, replicas: int = 1) -> None:
    (result,) = await broker.node.topic_admin.create_topics([NewTopic(topic, 1, replicas)], 1000)
    assert result.error is None


async def _registration_epoch(started: Cluster, observer: FakeBroker, broker_id: int) -> int:
    stat = await observer.session.exists(f"/brokers/ids/{broker_id}")
    assert stat is not None
    return stat.czxid


def test_a_single_broker_registers_again_and_is_the_controller_again() -> None:
    async def main() -> None:
        async with cluster(1) as started:
            broker = started.brokers[1]
            await _create(broker, "before")
            epoch = broker.node.fence.broker_epoch
            await broker.session.expire()
            assert not broker.node.controller.is_active
            (refused,) = await broker.node.topic_admin.delete_topics(["before"], 1000)
            assert refused.error is not None
            assert refused.error.error_code == 41
            broker.session.renew()
            await started.settle()
            assert started.controller is broker
            assert (await broker.session.get("/controller_epoch")).data == b"2"
            assert broker.node.fence.controller_epoch == 2
            assert broker.node.fence.broker_epoch == await _registration_epoch(started, broker, 1) > epoch
            await _create(broker, "after")
            assert sorted(broker.node.cache.image.topics) == ["after", "before"]

    asyncio.run(main())


def test_another_broker_becomes_the_controller_and_learns_of_the_new_registration() -> None:
    async def main() -> None:
        async with cluster(1, 2) as started:
            first, second = started.brokers[1], started.brokers[2]
            await _create(first, "t", replicas=2)
            epoch = first.node.fence.broker_epoch
            await first.session.expire()
            await started.settle()
            assert started.controller is second
            assert second.node.cache.image.brokers.keys() == {2}
            partition = second.node.cache.image.topics["t"].partitions[0]
            assert (partition.leader, partition.isr) == (2, (2,))
            first.session.renew()
            await started.settle()
            assert started.controller is second
            assert first.node.fence.broker_epoch == await _registration_epoch(started, second, 1) > epoch
            assert first.node.fence.controller_epoch == 2
            for broker in (first, second):
                assert broker.node.cache.image.brokers.keys() == {1, 2}
                assert broker.node.cache.image.controller_id == 2
            await second.session.delete("/controller")
            await started.settle()
            assert (await first.session.get("/controller_epoch")).data == b"3"
            await _create(started.controller, "later", replicas=2)

    asyncio.run(main())


@pytest.mark.parametrize("turns_before", [100, 600, 1140, 1198])
def test_a_controller_whose_session_expires_writes_nothing_more(
    turns_before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event that is being handled is dropped, as are those in the queue; the next controller does their work."""
    monkeypatch.setattr(turns, "SLICE_S", 0.0)  # each pause lets the others run

    async def main() -> None:
        async with cluster(1) as started:
            broker = started.brokers[1]
            observer = started.store.session()
            topics = [f"/brokers/topics/t{number}" for number in range(100)]
            await observer.multi([Create(path, b'{"version":2,"partitions":{"0":[1]}}') for path in topics])
            for _ in range(turns_before):
                await asyncio.sleep(0)
            await broker.session.expire()
            made = await observer.get_many([f"{path}/partitions/0/state" for path in topics])
            assert None in made
            started.forget()
            broker.session.renew()
            await until(lambda: len(broker.node.cache.image.topics) == 100)
            paths = [write.path for write in started.writes]
            assert paths.index("/brokers/ids/1") < paths.index("/controller")
            written = [path for path in paths if path.startswith("/brokers/topics")]
            assert all(paths.index("/controller") < paths.index(path) for path in written)
            states = [path for path in written if path.endswith("/state")]
            assert len(states) == len(set(states)) == made.count(None)
            await started.settle()
            assert started.controller is broker
            await observer.close()

    asyncio.run(main())


def test_a_session_may_expire_again_before_the_broker_has_registered() -> None:
    async def main() -> None:
        async with cluster(1) as started:
            broker = started.brokers[1]
            for turns_between in range(25):
                await broker.session.expire()
                broker.session.renew()
                for _ in range(turns_between):
                    await asyncio.sleep(0)
            await started.settle()
            assert started.controller is broker
            assert broker.node.fence.broker_epoch == await _registration_epoch(started, broker, 1)
            await _create(broker, "t")
            await broker.session.expire()

    asyncio.run(main())


def test_configuration_that_changed_between_two_sessions_is_applied() -> None:
    async def main() -> None:
        async with cluster(1, 2) as started:
            first, second = started.brokers[1], started.brokers[2]
            await _create(second if second.node.controller.is_active else first, "t")
            await first.session.expire()
            await second.node.config_admin.set_topic_overrides("t", {"retention.ms": "5"})
            await started.settle()
            assert first.node.config_admin.cached_topic_overrides("t") == {}
            first.session.renew()
            await started.settle()
            assert first.node.config_admin.cached_topic_overrides("t") == {"retention.ms": "5"}
            await second.node.config_admin.set_topic_overrides("t", {"retention.ms": "6"})
            await started.settle()
            assert first.node.config_admin.cached_topic_overrides("t") == {"retention.ms": "6"}

    asyncio.run(main())


def test_registration_is_repeated_while_another_broker_has_the_id(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        clock = ManualClock()
        store = EmbeddedStore(None, clock)
        await store.open()
        started = Cluster(store, clock)
        broker = await started.start(1)
        other = store.session()
        await broker.session.expire()
        await other.create("/brokers/ids/1", b"", ephemeral=True)
        broker.session.renew()
        await started.settle()
        assert "broker.id" in caplog.text
        assert not broker.node.controller.is_active
        await other.close()
        clock.advance(REGISTRATION_RETRY_MS)
        await started.settle()
        assert broker.node.controller.is_active
        assert broker.node.fence.broker_epoch == await _registration_epoch(started, broker, 1)
        await broker.kill()
        await store.close()

    with caplog.at_level(logging.INFO):
        asyncio.run(main())


CLUSTER_KEYS = {"zookeeper.connect": "z:2181", "zookeeper.session.timeout.ms": "6000", "broker.rack": "r"}


def test_registration_is_repeated_after_an_error_of_the_store(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        clock = ManualClock()
        async with cluster(1, clock=clock) as started:
            broker = started.brokers[1]
            await broker.session.expire()
            register = node.register
            failures = [BadVersionError("/brokers/ids/1")]

            async def refused_once(*arguments: Any) -> int:
                if failures:
                    raise failures.pop()
                return await register(*arguments)

            monkeypatch.setattr(node, "register", refused_once)
            broker.session.renew()
            await until(lambda: "The broker is not registered, trying again" in caplog.text)
            await asyncio.sleep(0)
            clock.advance(REGISTRATION_RETRY_MS)
            await until(lambda: broker.node.controller.is_active)
            await started.settle()

    asyncio.run(main())


def test_a_broker_that_was_killed_waits_for_the_end_of_its_session(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        clock = ManualClock()
        store = EmbeddedStore(None, clock)
        await store.open()
        started = Cluster(store, clock)
        await started.start(2, **CLUSTER_KEYS)
        dead = store.session()
        await dead.create("/brokers/ids/1", b"", ephemeral=True)
        starting = asyncio.ensure_future(started.start(1, **CLUSTER_KEYS))
        await until(lambda: "Waiting up to 30 s" in caplog.text)
        clock.advance(REGISTRATION_RETRY_MS)
        await started.settle()
        assert not starting.done()
        await dead.close()
        await until(lambda: clock.pending_timers() > 0)
        clock.advance(REGISTRATION_RETRY_MS)
        broker = await starting
        assert broker.node.fence.broker_epoch == await _registration_epoch(started, broker, 1)
        assert sorted(broker.node.cache.image.brokers) == [1, 2]
        assert caplog.text.count("is registered already") == 1
        for each in list(started.brokers.values()):
            await each.kill()
        await store.close()

    asyncio.run(main())


def test_an_id_that_stays_taken_is_refused_after_half_a_minute() -> None:
    async def main() -> None:
        clock = ManualClock()
        store = EmbeddedStore(None, clock)
        await store.open()
        started = Cluster(store, clock)
        live = store.session()
        await ensure_path(live, "/brokers/ids")
        await live.create("/brokers/ids/1", b"live", ephemeral=True)
        starting = asyncio.ensure_future(started.start(1, **CLUSTER_KEYS))
        while not starting.done():
            clock.advance(REGISTRATION_RETRY_MS)
            await asyncio.sleep(0)
        assert clock.monotonic_s() * 1000 >= 30_000
        with pytest.raises(BrokerIdTakenError, match=r"A broker with id 1 is registered already"):
            starting.result()
        assert (await live.get("/brokers/ids/1")).data == b"live"
        await store.close()

    asyncio.run(main())


def test_a_broker_stops_although_its_store_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        clock = ManualClock()
        store = EmbeddedStore(None, clock)
        await store.open()
        broker = await Cluster(store, clock).start(1)
        closed, close = asyncio.Event(), broker.session.close

        async def unanswered(path: str, _watch: object = None) -> list[str]:
            await closed.wait()
            raise StoreClosedError(path)

        async def close_and_refuse() -> None:
            closed.set()
            await close()

        monkeypatch.setattr(broker.session, "children", unanswered)
        monkeypatch.setattr(broker.session, "close", close_and_refuse)
        await store.session().create("/brokers/topics/noticed", b"{}")
        stopping = asyncio.ensure_future(broker.node.stop())
        for _ in range(50):
            await asyncio.sleep(0)
        assert not stopping.done()
        clock.advance(STORE_PATIENCE_MS)
        await asyncio.wait_for(stopping, 5)
        await store.close()

    asyncio.run(main())


def test_a_controller_can_stop_while_its_session_expires() -> None:
    async def main() -> None:
        async with cluster(1) as started:
            controller = started.controller.node.controller
            asked = asyncio.create_task(controller.ask("a wait without end", lambda _: asyncio.Event().wait()))
            await asyncio.sleep(0)
            stopping = asyncio.create_task(controller.stop())
            await asyncio.sleep(0)
            controller.session_expired()
            await stopping
            with pytest.raises(NotControllerError):
                await asked

    asyncio.run(main())
