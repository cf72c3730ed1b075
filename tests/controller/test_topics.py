"""Properties that the recorded answers of tests/server/handlers do not show: time, races, several brokers."""

import asyncio
import gc
from collections.abc import Awaitable, Callable, Coroutine
from time import process_time
from typing import cast

import pytest

from kafkapy.controller.topics import MorePartitions, NewTopic, TopicResult
from kafkapy.metadata.errors import NotControllerError
from kafkapy.metadata.store import Create, NoNodeError, StoreClosedError
from kafkapy.metadata.znodes import TopicZNode
from tests.controller.harness import Cluster, cluster


def _run(scenario: Callable[[Cluster], Awaitable[None]], *brokers: int, **settings: str) -> None:
    async def main() -> None:
        async with cluster(*(brokers or (1,)), **settings) as started:
            await scenario(started)

    asyncio.run(main())


def _codes(results: list[TopicResult]) -> list[int]:
    return [0 if result.error is None else result.error.error_code for result in results]


def test_only_the_controller_serves() -> None:
    async def scenario(started: Cluster) -> None:
        admin = started.brokers[2].node.topic_admin
        assert _codes(await admin.create_topics([NewTopic("t", 1, 1)], 1000)) == [41]
        assert _codes(await admin.delete_topics(["t"], 1000)) == [41]
        results = await admin.create_partitions([MorePartitions("t", 2)], 1000)
        assert isinstance(results[0].error, NotControllerError)
        assert await admin.create_automatically(["t"]) == {"t": None}
        await started.settle()
        assert "t" in started.brokers[2].node.cache.image.topics

    _run(scenario, 1, 2)


def test_every_partition_of_many_topics_is_there_when_the_answer_comes() -> None:
    async def scenario(started: Cluster) -> None:
        node = started.controller.node
        results = await node.topic_admin.create_topics([NewTopic(f"t{number}", 3, 2) for number in range(20)], 1000)
        assert _codes(results) == [0] * 20
        assert len(node.cache.image.topics) == 20
        assert {len(topic.partitions) for topic in node.cache.image.topics.values()} == {3}
        assert _codes(await node.topic_admin.create_partitions([MorePartitions("t3", 7)], 1000)) == [0]
        assert len(node.cache.image.topics["t3"].partitions) == 7
        assert _codes(await node.topic_admin.delete_topics([f"t{number}" for number in range(20)], 1000)) == [0] * 20
        assert node.cache.image.topics == {}

    _run(scenario, 1, 2, 3)


def test_four_times_the_partitions_take_about_four_times_the_time() -> None:
    """Quadratic work would take sixteen times as long."""

    async def scenario(started: Cluster) -> None:
        taken_s = []
        for name, partitions in (("warm", 500), ("small", 2_000), ("large", 8_000)):
            began_s = process_time()  # not the clock on the wall: others may keep the processor busy
            topic = NewTopic(name, partitions, 1)
            assert _codes(await started.controller.node.topic_admin.create_topics([topic], 60_000)) == [0]
            taken_s.append(process_time() - began_s)
        assert taken_s[2] < 9 * taken_s[1]

    gc.collect()
    gc.disable()  # a full collection in one of the measurements looks at all that earlier tests have left
    try:
        _run(scenario, 1)
    finally:
        gc.enable()


def test_a_topic_that_only_the_store_has_exists() -> None:
    async def scenario(started: Cluster) -> None:
        node, session = started.controller.node, started.controller.session
        await session.create("/brokers/topics/late", b"nonsense, so that the controller leaves it alone")
        assert _codes(await node.topic_admin.create_topics([NewTopic("late", 1, 1)], 1000)) == [36]
        assert await node.topic_admin.create_automatically(["late"]) == {"late": None}
        children = session.children

        async def blind(path: str, watch: object = None) -> list[str]:
            return [] if path == "/brokers/topics" else await children(path)

        session.children = blind  # type: ignore[method-assign]  # sees no topics
        assert _codes(await node.topic_admin.create_topics([NewTopic("late", 1, 1)], 1000)) == [36]
        assert await node.topic_admin.create_automatically(["late"]) == {"late": None}
        del session.children
        assert await session.exists("/config/topics/late") is None

    _run(scenario)


def test_a_configuration_that_was_left_behind_is_replaced() -> None:
    async def scenario(started: Cluster) -> None:
        node, session = started.controller.node, started.controller.session
        await session.create("/config/topics/t", b'{"version":1,"config":{"retention.ms":"1"}}')
        assert _codes(await node.topic_admin.create_topics([NewTopic("t", 1, 1)], 1000)) == [0]
        assert await node.config_admin.topic_overrides("t") == {}

    _run(scenario)


def test_topics_that_are_being_deleted_or_reassigned_are_refused() -> None:
    async def scenario(started: Cluster) -> None:
        node, session = started.controller.node, started.controller.session
        await node.topic_admin.create_topics([NewTopic("t", assignments={0: [1, 2]}), NewTopic("moving", 1, 1)], 1000)
        await started.brokers[2].kill()
        await node.topic_admin.delete_topics(["t"], 1000)
        assert _codes(await node.topic_admin.create_partitions([MorePartitions("t", 2)], 1000)) == [17]
        assert _codes(await node.topic_admin.create_topics([NewTopic("t", 1, 1)], 1000)) == [36]
        znode = TopicZNode.decode((await session.get("/brokers/topics/moving")).data)
        moving = {0: znode.partitions[0]._replace(adding=(2,))}
        await session.set("/brokers/topics/moving", TopicZNode(moving).encode())
        assert _codes(await node.topic_admin.create_partitions([MorePartitions("moving", 2)], 1000)) == [60]

    _run(scenario, 1, 2)


def test_internal_topics_come_with_their_configuration() -> None:
    async def scenario(started: Cluster) -> None:
        node = started.controller.node
        wanted = ["__consumer_offsets", "__transaction_state"]
        assert await node.topic_admin.create_automatically(wanted) == dict.fromkeys(wanted)
        await started.settle()
        assert len(node.cache.image.topics["__consumer_offsets"].partitions) == 50
        assert (await node.config_admin.topic_overrides("__consumer_offsets"))["cleanup.policy"] == "compact"
        overrides = await node.config_admin.topic_overrides("__transaction_state")
        assert overrides["compression.type"] == "uncompressed"

    _run(scenario)


def test_too_few_brokers_for_an_internal_topic() -> None:
    async def scenario(started: Cluster) -> None:
        outcome = await started.controller.node.topic_admin.create_automatically(["__consumer_offsets"])
        error = outcome["__consumer_offsets"]
        assert error is not None
        assert error.error_code == 38

    _run(scenario, 1, **{"offsets.topic.replication.factor": "3"})


def test_a_store_that_has_ended_is_a_storage_error() -> None:
    async def scenario(started: Cluster) -> None:
        node, session = started.controller.node, started.controller.session
        admin = node.topic_admin
        assert _codes(await admin.create_topics([NewTopic("t", 1, 1)], 1000)) == [0]

        async def ended(*_: object) -> None:
            raise StoreClosedError("/")

        session.transactions = ended  # type: ignore[method-assign,assignment]  # a store that is gone
        assert _codes(await admin.create_topics([NewTopic("u", 1, 1)], 1000)) == [56]
        assert _codes(await admin.delete_topics(["t", "unknown"], 1000)) == [56, 3]
        assert _codes(await admin.create_partitions([MorePartitions("t", 2)], 1000)) == [56]
        outcome = (await admin.create_automatically(["u"]))["u"]
        assert isinstance(outcome, StoreClosedError)
        assert "restart it" in str(outcome)
        del session.transactions

    _run(scenario)


@pytest.mark.parametrize("action", ["create", "delete", "auto"])
def test_an_unexpected_refusal_of_the_store_is_raised(action: str) -> None:
    async def scenario(started: Cluster) -> None:
        node, session = started.controller.node, started.controller.session
        await node.topic_admin.create_topics([NewTopic("t", 1, 1)], 1000)
        transactions = session.transactions

        async def failing(multis: list[object]) -> list[object]:
            return [NoNodeError("/") for _ in multis]

        session.transactions = failing  # type: ignore[method-assign,assignment]  # takes nothing
        admin = node.topic_admin
        attempts: dict[str, Awaitable[object]] = {
            "create": admin.create_topics([NewTopic("u", 1, 1)], 1000),
            "delete": admin.delete_topics(["t"], 1000),
            "auto": admin.create_automatically(["u"]),
        }
        with pytest.raises(NoNodeError):
            await attempts.pop(action)
        for unused in attempts.values():
            cast(Coroutine[object, object, object], unused).close()
        session.transactions = transactions  # type: ignore[method-assign]  # as it was

    _run(scenario)


def test_a_response_waits_for_all_topics_within_the_time_out() -> None:
    async def scenario(started: Cluster) -> None:
        node = started.controller.node
        topics = [NewTopic("nowhere", assignments={0: [9]}), NewTopic("here", 1, 1)]
        results = await node.topic_admin.create_topics(topics, 30)
        assert _codes(results) == [7, 0] or _codes(results) == [7, 7]
        assert Create in {type(write) for write in started.writes}

    _run(scenario)
