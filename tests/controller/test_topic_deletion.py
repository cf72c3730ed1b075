"""How topics went in a real cluster, and what holds them up."""

import asyncio

import pytest

from kafkapy.controller.topics import NewTopic
from kafkapy.metadata.store import NotEmptyError, Watch
from kafkapy.metadata.znodes import PartitionStateZNode
from kafkapy.types import TopicPartition
from tests.controller.harness import Cluster, cluster
from tests.controller.scenario import run, state_line
from tests.controller.trace import to_broker, write_line


def test_a_topic_is_deleted() -> None:
    """Trace T8, from the states that it began with."""

    async def scenario(started: Cluster) -> None:
        controller = started.controller
        for partition, isr in ((0, (2, 3)), (1, (1, 3)), (2, (2, 1))):
            path = PartitionStateZNode.path(TopicPartition("auto", partition))
            state = PartitionStateZNode.decode((await controller.session.get(path)).data, 0)
            await controller.session.set(path, PartitionStateZNode.encode(state._replace(leader=isr[0], isr=isr)))
        started.forget()
        (result,) = await controller.node.topic_admin.delete_topics(["auto"], 1000)
        assert result.error is None
        await started.settle()
        lines = [write_line(write) for write in started.writes]
        assert lines[0] == "create /admin/delete_topics/auto"
        # The order among partitions is not Kafka's: states that the controller did not know are read and written later.
        for index, states in enumerate((((-1, 1, "3"), (-1, 2, "3")), ((-1, 1, "3"), (-1, 2, "3")),
                                        ((2, 1, "2"), (-1, 2, "2")))):  # fmt: skip
            expected = ["set " + state_line("auto", index, 1, *state) for state in states]
            assert [line for line in lines[1:7] if f"/{index}/state" in line] == expected
        partitions = "/brokers/topics/auto/partitions"
        assert lines[7:] == [
            *(f"delete {partitions}/{index}{leaf}" for index in range(3) for leaf in ("/state", "")),
            f"delete {partitions}",
            "delete /brokers/topics/auto",
            "delete /config/topics/auto",
            "delete /admin/delete_topics/auto",
        ]
        forget, stop, remove = to_broker(started.requests, 1)
        assert forget.startswith("UM auto-0 L-2")
        assert stop == "SR auto-1 le-2 delete=False; auto-2 le-2 delete=False"
        assert remove == "SR auto-1 le-2 delete=True; auto-2 le-2 delete=True"
        assert "auto" not in controller.node.cache.image.topics
        created = await controller.node.topic_admin.create_topics([NewTopic("auto", 1, 1)], 1000)
        assert created[0].error is None

    run(scenario, ("auto",))


def test_a_deletion_waits_for_a_broker_that_is_away() -> None:
    async def scenario(started: Cluster) -> None:
        await started.brokers[3].kill()
        controller = started.controller
        (result,) = await controller.node.topic_admin.delete_topics(["rf3"], 1000)
        assert result.error is None
        await started.settle()
        assert controller.node.controller.is_deleting("rf3")
        assert await controller.session.exists("/brokers/topics/rf3")
        started.forget()
        await started.start(3)
        assert not controller.node.controller.is_deleting("rf3")
        assert await controller.session.exists("/brokers/topics/rf3") is None
        assert to_broker(started.requests, 3)[-2:] == ["SR rf3-0 le-2 delete=False", "SR rf3-0 le-2 delete=True"]

    run(scenario, ("rf3", "rf1"))


def test_a_broker_that_dies_while_it_deletes() -> None:
    async def scenario(started: Cluster) -> None:
        started.brokers[2].stop_error = 56
        controller = started.controller
        await controller.node.topic_admin.delete_topics(["rf3"], 1000)
        await started.settle()
        assert controller.node.controller.is_deleting("rf3")
        await started.brokers[2].kill()
        assert controller.node.controller.is_deleting("rf3")
        await started.start(2)
        assert not controller.node.controller.is_deleting("rf3")

    run(scenario, ("rf3",))


def test_a_replica_on_an_unknown_broker_delays_only_its_topic(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(started: Cluster) -> None:
        admin = started.controller.node.topic_admin
        new = [NewTopic("a", 1, 1), NewTopic("ghost", assignments={0: [1, 5], 1: [5, 1]}), NewTopic("z", 1, 1)]
        created = await admin.create_topics([*new, NewTopic("later", 1, 1)], 1000)
        assert [result.error for result in created] == [None] * 4
        deleted = await admin.delete_topics(["ghost", "z", "a"], 1000)
        assert [result.error for result in deleted] == [None] * 3
        session = started.controller.session
        await started.settle()
        assert sorted(await session.children("/brokers/topics")) == ["ghost", "later"]
        assert await session.children("/admin/delete_topics") == ["ghost"]
        assert admin._controller.is_deleting("ghost")
        refused = await admin.create_topics([NewTopic("ghost", 1, 1)], 1000)
        assert [result.error and result.error.error_code for result in refused] == [36]
        (last,) = await admin.delete_topics(["later"], 1000)
        assert last.error is None
        started.forget()
        await started.start(5)
        assert await session.children("/brokers/topics") == []
        assert await session.children("/admin/delete_topics") == []
        stop = [f"SR ghost-{index} le-2" for index in (0, 1)]
        assert to_broker(started.requests, 5)[-2:] == [
            f"{stop[0]} delete={delete}; {stop[1].removeprefix('SR ')} delete={delete}" for delete in (False, True)
        ]
        (again,) = await admin.create_topics([NewTopic("ghost", 1, 1)], 1000)
        assert again.error is None

    run(scenario, ())
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


def test_a_new_topic_waits_for_its_only_broker() -> None:
    async def scenario(started: Cluster) -> None:
        admin = started.controller.node.topic_admin
        (result,) = await admin.create_topics([NewTopic("ghost", assignments={0: [5]})], 1)
        assert result.error is not None
        assert result.error.error_code == 7
        (unknown,) = await admin.delete_topics(["ghost"], 1000)
        assert unknown.error is not None
        assert unknown.error.error_code == 3
        await started.start(5)
        assert started.controller.node.cache.image.topics["ghost"].partitions[0].leader == 5
        (deleted,) = await admin.delete_topics(["ghost"], 1000)
        assert deleted.error is None

    run(scenario, ())


def test_a_state_that_can_not_be_read_stops_no_other_topic(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(started: Cluster) -> None:
        admin = started.controller.node.topic_admin
        await admin.create_topics([NewTopic(name, 1, 1) for name in "abc"], 1000)
        session = started.controller.session
        await session.set(PartitionStateZNode.path(TopicPartition("b", 0)), b"nonsense")
        deleted = await admin.delete_topics(["a", "b", "c"], 1000)
        assert [result.error for result in deleted] == [None] * 3
        assert await session.children("/brokers/topics") == []

    run(scenario, ())
    assert "The state of partition b-0 can't be read" in caplog.text


def test_a_topic_that_the_store_refuses_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(started: Cluster) -> None:
        admin = started.controller.node.topic_admin
        await admin.create_topics([NewTopic(name, 1, 1) for name in "abcd"], 1000)
        session = started.controller.session
        children = session.children

        async def refuse(path: str, watch: Watch | None = None) -> list[str]:
            if path.startswith("/brokers/topics/b"):
                raise NotEmptyError(path)
            return await children(path, watch)

        session.children = refuse  # type: ignore[method-assign]  # the store does not like this topic
        await admin.delete_topics(["a", "b", "c"], 1)
        await started.settle()
        assert sorted(await children("/brokers/topics")) == ["b", "d"]
        assert "The deletion of topic b failed; it waits" in caplog.text
        del session.children
        await admin.delete_topics(["d"], 1000)
        await started.settle()
        assert await children("/brokers/topics") == []

    run(scenario, ())


def test_many_topics_are_deleted_together() -> None:
    async def scenario(started: Cluster) -> None:
        admin = started.controller.node.topic_admin
        names = [f"t{number}" for number in range(450)]
        await admin.create_topics([NewTopic(name, 1, 1) for name in names], 60_000)
        started.forget()
        deleted = await admin.delete_topics(names, 60_000)
        assert {result.error for result in deleted} == {None}
        assert await started.controller.session.children("/brokers/topics") == []
        stops = [line for line in to_broker(started.requests, 1) if line.startswith("SR")]
        assert len(stops) < 50

    run(scenario, ())


def test_deletions_of_unknown_topics_are_removed() -> None:
    async def scenario(started: Cluster) -> None:
        session = started.controller.session
        await session.create("/admin/delete_topics/nobody")
        await started.settle()
        assert await session.children("/admin/delete_topics") == []

    run(scenario, ())


def test_deletion_may_be_disabled() -> None:
    async def main() -> None:
        async with cluster(1, **{"delete.topic.enable": "false"}) as started:
            admin = started.controller.node.topic_admin
            await admin.create_topics([NewTopic("kept", 1, 1)], 1000)
            (refused,) = await admin.delete_topics(["kept"], 1000)
            assert refused.error is not None
            assert refused.error.error_code == 73
            await started.controller.session.create("/admin/delete_topics/kept")
            await started.settle()
            assert await started.controller.session.children("/admin/delete_topics") == []
            assert "kept" in started.controller.node.cache.image.topics

    asyncio.run(main())
