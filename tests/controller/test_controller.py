import asyncio
import logging
from collections.abc import Iterable

import pytest

from kafkapy.controller.active_controller import ActiveController
from kafkapy.controller.context import ControllerMovedError
from kafkapy.controller.topics import NewTopic
from kafkapy.metadata.errors import NotControllerError
from kafkapy.metadata.store import Create, Delete, SetData
from kafkapy.metadata.znodes import BrokerEndpoint, BrokerIdZNode, ControllerZNode
from tests.controller.harness import Cluster, cluster


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

            async def load_topics(active: ActiveController, topics: Iterable[str]) -> None:
                await register(started, 3)
                await load(active, topics)

            monkeypatch.setattr(ActiveController, "_load_topics", load_topics)
            begin.set()
            await waiting
            await started.settle()
            active = controller._active
            assert active is not None
            assert active.context.epoch == 2
            assert sorted(active.context.brokers) == [1, 2, 3]

    asyncio.run(main())
