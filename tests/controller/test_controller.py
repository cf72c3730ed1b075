import asyncio
import logging
from collections.abc import Iterator, Sequence

import pytest

from kafkapy.controller import controller
from kafkapy.controller.active_controller import ActiveController
from kafkapy.controller.context import ControllerMovedError
from kafkapy.controller.controller import RETRY_MS
from kafkapy.controller.topics import NewTopic
from kafkapy.metadata.errors import NotControllerError
from kafkapy.metadata.store import Create, Delete, MetadataStore, SetData, StoreRefusedError, Watch, ensure_path
from kafkapy.metadata.znodes import BrokerEndpoint, BrokerIdZNode, ControllerZNode, ReplicaAssignment, TopicZNode
from kafkapy.testing.clock import ManualClock
from kafkapy.types import TopicPartition
from tests.controller.harness import Cluster, RecordingSession, cluster


async def _oust(started: Cluster) -> None:
    """``/controller`` is deleted; the first broker that creates it again is the controller."""
    await started.brokers[2].session.delete("/controller")
    await started.settle()


def test_the_first_broker_is_the_controller_and_the_others_know() -> None:
    async def main() -> None:
        async with cluster(2, 1, 3) as started:
            assert started.controller.id == 2
            assert [broker.node.controller.is_active for broker in started.brokers.values()] == [True, False, False]
            assert {broker.node.cache.image.controller_id for broker in started.brokers.values()} == {2}
            node = await started.controller.session.get("/controller")
            assert ControllerZNode.decode(node.data).broker_id == 2
            assert not started.brokers[1].node.controller.is_deleting("t")

    asyncio.run(main())


def test_a_new_controller_is_elected_when_its_node_is_deleted() -> None:
    async def main() -> None:
        async with cluster(1, 2) as started:
            started.forget()
            await _oust(started)
            epoch = await started.controller.session.get("/controller_epoch")
            assert epoch.data == b"2"
            assert {broker.node.fence.controller_epoch for broker in started.brokers.values()} == {2}
            assert [write.path for write in started.writes if isinstance(write, Create)] == ["/controller"]

    asyncio.run(main())


def test_a_controller_that_writes_too_late_resigns(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with cluster(1, 2) as started:
            old = started.brokers[1]
            session = started.brokers[2].session
            controller = old.node.controller
            active = controller._active
            await session.set("/controller_epoch", b"9")
            assert active is not None
            with pytest.raises(ControllerMovedError):
                await active._writer.write([Delete("/x")])
            await session.create("/admin/delete_topics/nobody")
            await started.settle()
            assert controller._active is not active
            assert "no longer the controller" in caplog.text
            topic = NewTopic("t", 1, 1)
            await session.delete("/controller")
            await started.settle()
            (result,) = await started.controller.node.topic_admin.create_topics([topic], 1000)
            assert result.error is None
            assert old.node.fence.controller_epoch == 10

    with caplog.at_level(logging.INFO):
        asyncio.run(main())


def test_a_controller_resigns_when_another_broker_is_the_controller() -> None:
    async def main() -> None:
        async with cluster(1, 2) as started:
            session = started.brokers[2].session
            await session.multi(
                [Delete("/controller"), Create("/controller", ControllerZNode(2, 0).encode(), ephemeral=True)]
            )
            await started.settle()
            assert not started.brokers[1].node.controller.is_active
            assert not started.brokers[2].node.controller.is_active

    asyncio.run(main())


def test_a_broken_assignment_stops_no_other_topic(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with cluster(1) as started:
            session = started.controller.session
            await session.create("/brokers/topics/broken", b"nonsense")
            await started.settle()
            assert "The assignment of topic broken can't be read" in caplog.text
            admin = started.controller.node.topic_admin
            (result,) = await admin.create_topics([NewTopic("t", 1, 1)], 1000)
            assert result.error is None
            (deleted,) = await admin.delete_topics(["t"], 1000)
            assert deleted.error is None

    asyncio.run(main())


def test_a_broken_node_does_not_stop_the_queue(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with cluster(1) as started:
            session = started.controller.session
            await session.create("/brokers/ids/7", b"nonsense")
            await started.settle()
            assert "Broker 7 is left out: the node /brokers/ids/7 in the cluster's metadata holds" in caplog.text
            assert (await session.get("/brokers/ids/7")).data == b"nonsense"
            await session.create("/brokers/ids/not-a-number", b"{}")
            await session.create("/log_dir_event_notification/log_dir_event_0000000009", b"[]")
            await started.settle()
            assert "A note to the controller is left out: the node /log_dir_event_notification/log_dir" in caplog.text
            assert list(started.controller.node.cache.image.brokers) == [1]
            admin = started.controller.node.topic_admin
            (result,) = await admin.create_topics([NewTopic("t", 1, 1)], 1000)
            assert result.error is None

    asyncio.run(main())


def test_events_after_the_end_of_the_session_change_nothing() -> None:
    async def main() -> None:
        async with cluster(1, 2) as started:
            controller = started.brokers[1].node.controller
            await started.brokers[1].session.close()
            controller._noticed("topics", "/brokers/topics")
            await started.settle()
            assert not controller.is_active
            assert started.controller.id == 2
            controller._noticed("topics", "/brokers/topics")
            await controller.stop()
            await controller.stop()

    asyncio.run(main())


def test_an_unexpected_failure_does_not_end_the_controller(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(_: ActiveController) -> None:
        raise ZeroDivisionError("a bug")

    async def main() -> None:
        async with cluster(1) as started:
            controller = started.controller.node.controller
            with pytest.raises(NotControllerError):
                await controller.ask("what fails", fail)
            (result,) = await started.controller.node.topic_admin.create_topics([NewTopic("t", 1, 1)], 1000)
            assert result.error is None
            await controller.stop()

    asyncio.run(main())
    assert "The controller failed at an event and goes on with the next" in caplog.text
    assert "ZeroDivisionError: a bug" in caplog.text


def test_an_event_of_an_earlier_term_stands_for_none_of_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """While broker 1 becomes the controller again, an event of its last term waits and a broker registers."""

    async def register(started: Cluster, number: int) -> None:
        session = started.store.session()
        endpoints = (BrokerEndpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 19400 + number),)
        data = BrokerIdZNode(number, endpoints, None, 0).encode()
        started.handles[number] = started.brokers[1].handle
        path = f"/brokers/ids/{number}"
        await session.multi([Create(path, b"", ephemeral=True), SetData(path, data)])

    async def main() -> None:
        async with cluster(1) as started:
            controller = started.controller.node.controller
            begin = asyncio.Event()

            async def wait(_: ActiveController) -> None:
                await begin.wait()

            waiting = asyncio.ensure_future(controller.ask("what takes long", wait))
            await asyncio.sleep(0)
            await started.brokers[1].session.delete("/controller")
            await register(started, 2)
            load = ActiveController._load_topics

            async def load_topics(active: ActiveController, topics: Sequence[str]) -> list[TopicPartition]:
                await register(started, 3)
                return await load(active, topics)

            monkeypatch.setattr(ActiveController, "_load_topics", load_topics)
            begin.set()
            await waiting
            await started.settle()
            active = controller._active
            assert active is not None
            assert active.context.epoch == 2
            assert sorted(active.context.brokers) == [1, 2, 3]

    asyncio.run(main())


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Paths whose children the store refuses to list, once each."""
    paths: list[str] = []
    children = RecordingSession.children

    async def maybe(session: RecordingSession, path: str, watch: Watch | None = None) -> list[str]:
        if path in paths:
            paths.remove(path)
            raise StoreRefusedError(path, "throttled")
        return await children(session, path, watch)

    monkeypatch.setattr(RecordingSession, "children", maybe)
    yield paths
    assert not paths


def test_a_start_that_fails_is_followed_by_another_election(refused: list[str]) -> None:
    async def main() -> None:
        clock = ManualClock()
        async with cluster(1, 2, clock=clock) as started:
            refused.append("/brokers/topics")
            await started.brokers[2].session.delete("/controller")
            await started.settle()
            assert not any(broker.node.controller.is_active for broker in started.brokers.values())
            clock.advance(RETRY_MS)
            await started.settle()
            (result,) = await started.controller.node.topic_admin.create_topics([NewTopic("t", 1, 2)], 1000)
            assert result.error is None
            assert (await started.controller.session.get("/controller_epoch")).data == b"3"
            clock.advance(10 * RETRY_MS)
            await started.settle()
            assert (await started.controller.session.get("/controller_epoch")).data == b"3"

    asyncio.run(main())


def test_after_an_event_that_the_store_has_refused_everything_is_read_again(refused: list[str]) -> None:
    """The event may be half handled, and the watch that has reported it was removed."""

    async def main() -> None:
        clock = ManualClock()
        async with cluster(1, clock=clock) as started:
            session = started.controller.session
            refused.append("/brokers/topics")
            for name in ("t", "later"):
                await session.create(f"/brokers/topics/{name}", TopicZNode({0: ReplicaAssignment((1,))}).encode())
            await started.settle()
            clock.advance(RETRY_MS)
            await started.settle()
            assert sorted(started.controller.node.cache.image.topics) == ["later", "t"]
            assert (await session.get("/controller_epoch")).data == b"2"

    asyncio.run(main())


def test_an_election_that_the_store_refuses_is_held_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the refusal comes behind the election, before the start."""

    async def main(refused_path: str) -> None:
        clock = ManualClock()
        async with cluster(1, clock=clock) as started:
            session, count = started.controller.session, 0
            create = ensure_path

            async def refuse(store: MetadataStore, path: str, data: bytes | None = None) -> None:
                nonlocal count
                if path == refused_path and not count:
                    count += 1
                    raise StoreRefusedError(path, "throttled")
                await create(store, path, data)

            monkeypatch.setattr(controller, "ensure_path", refuse)
            await session.delete("/controller")
            await started.settle()
            assert not started.brokers[1].node.controller.is_active
            clock.advance(RETRY_MS)
            await started.settle()
            assert started.brokers[1].node.controller.is_active
            assert count == 1

    asyncio.run(main("/controller_epoch"))
    asyncio.run(main("/feature"))


def test_a_failure_of_an_earlier_term_does_not_end_the_next(refused: list[str]) -> None:
    """Broker 2 becomes the controller before broker 1, which was it, looks again."""

    async def main() -> None:
        clock = ManualClock()
        async with cluster(1, 2, clock=clock) as started:
            refused.append("/brokers/topics")
            topic = TopicZNode({0: ReplicaAssignment((1,))}).encode()
            await started.brokers[1].session.create("/brokers/topics/t", topic)
            await started.settle()
            await started.brokers[1].session.delete("/controller")
            await started.settle()
            epoch = (await started.controller.session.get("/controller_epoch")).data
            clock.advance(10 * RETRY_MS)
            await started.settle()
            assert (await started.controller.session.get("/controller_epoch")).data == epoch
            assert list(started.controller.node.cache.image.topics) == ["t"]

    asyncio.run(main())


@pytest.mark.parametrize("data", [b'{"version":1,"partitions":null}', b'{"version":1,"partitions":{"0":1}}'])
def test_a_topic_of_another_shape_stops_no_start(data: bytes) -> None:
    async def main() -> None:
        async with cluster(1, 2) as started:
            await started.brokers[2].session.create("/brokers/topics/bad", data)
            await _oust(started)
            (result,) = await started.controller.node.topic_admin.create_topics([NewTopic("t", 1, 2)], 1000)
            assert result.error is None
            assert sorted(started.controller.node.cache.image.topics) == ["t"]

    asyncio.run(main())
