"""Bounds on what clients can create, checked with numbers alone."""

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable, Sequence
from time import process_time
from typing import Any

import pytest

from kafkapy import turns
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.controller.limits import BURST_S, CreationRate, ReplicaLimit
from kafkapy.controller.topics import MorePartitions, NewTopic, TopicResult
from kafkapy.metadata.errors import PolicyViolationError
from kafkapy.metadata.image import MetadataImage, PartitionInfo, TopicImage
from kafkapy.metadata.topic_rules import MOST_REPLICAS
from kafkapy.testing.clock import ManualClock
from kafkapy.turns import finish
from tests.controller.harness import Cluster, cluster

HUGE = 2**31 - 1
TEN = {"kafkapy.max.replicas": "10"}


def _limit(replicas: int) -> ReplicaLimit:
    return ReplicaLimit(BrokerConfig.from_properties({"kafkapy.max.replicas": str(replicas)}))


def _image(name: str, partitions: int, replicas: int) -> MetadataImage:
    info = PartitionInfo(1, 0, (1,), tuple(range(replicas)))
    topic = TopicImage(name, dict.fromkeys(range(partitions), info))
    return MetadataImage(topics={name: topic}, replica_count=partitions * replicas)


def test_existing_and_pending_replicas_count() -> None:
    limit, image = _limit(10), _image("there", 2, 2)
    with limit.admissions() as mine, limit.admissions() as others:
        mine.admit(image, "a", 3, 3)
        with pytest.raises(PolicyViolationError, match=r"4 more .* 7, and at most 10 .*kafkapy\.max\.replicas"):
            others.admit(image, "b", 4, 4)
        others.admit(image, "b", 3, 3)
        others.withdraw("b")
        others.withdraw("never")
        others.written("never")
        limit.check(image, 3)
        others.admit(image, "a", 5, 2)
        with pytest.raises(PolicyViolationError):
            limit.check(image, 2)
        mine.withdraw("a")
        limit.check(image, 4)
        with pytest.raises(PolicyViolationError):
            limit.check(image, 5)
    limit.check(image, 6)


def _growing(limit: ReplicaLimit, *partitions: int) -> None:
    """Grow topic ``a`` to each of ``partitions``, each time with a request of time-out 0."""
    have = 0
    for total in partitions:
        with limit.admissions() as admissions:
            admissions.admit(MetadataImage(), "a", total, 2 * (total - have))
            admissions.written("a")
        have = total


def test_written_replicas_are_counted_once_when_the_image_has_them() -> None:
    limit = _limit(10)
    _growing(limit, 2, 3)
    with pytest.raises(PolicyViolationError):
        limit.check(MetadataImage(), 5)
    limit.seen(_image("a", 1, 2), "a")
    limit.seen(_image("b", 1, 2), "a")
    with pytest.raises(PolicyViolationError):
        limit.check(MetadataImage(), 5)
    limit.seen(_image("a", 2, 2), "a")
    limit.check(_image("a", 2, 2), 4)
    with pytest.raises(PolicyViolationError):
        limit.check(_image("a", 2, 2), 5)
    finish(limit.settle(_image("a", 3, 2)))
    limit.check(_image("a", 3, 2), 4)
    limit.check(MetadataImage(), 10)


def test_replicas_of_deleted_or_unwritten_topics_are_not_counted() -> None:
    limit = _limit(10)
    for _ in range(3):
        _growing(limit, 3, 5)
        limit.deleted("b")
        with pytest.raises(PolicyViolationError):
            limit.check(MetadataImage(), 1)
        limit.deleted("a")
        limit.deleted("a")
        limit.check(MetadataImage(), 10)
        _growing(limit, 3)
        finish(limit.settle(MetadataImage(), ["a"]))
        with pytest.raises(PolicyViolationError):
            limit.check(MetadataImage(), 5)
        finish(limit.settle(MetadataImage(), ["b"]))
        limit.check(MetadataImage(), 10)


def test_the_rate_of_automatic_creation() -> None:
    clock = ManualClock()
    rate = CreationRate(BrokerConfig.from_properties({"kafkapy.auto.create.topics.per.second": "2"}), clock)
    assert [rate.take() for _ in range(2 * BURST_S + 1)] == [True] * 2 * BURST_S + [False]
    clock.advance(501)
    assert [rate.take(), rate.take()] == [True, False]
    clock.advance(3_600_000)
    assert [rate.take() for _ in range(2 * BURST_S + 1)] == [True] * 2 * BURST_S + [False]


def _run(scenario: Callable[[Cluster], Awaitable[None]], **settings: str) -> None:
    async def main() -> None:
        async with cluster(1, **settings) as started:
            await scenario(started)

    asyncio.run(main())


def _codes(results: list[TopicResult]) -> list[int]:
    return [0 if result.error is None else result.error.error_code for result in results]


@pytest.mark.parametrize("validate_only", [False, True])
def test_a_refused_request_for_billions_of_partitions_allocates_nothing(validate_only: bool) -> None:
    async def scenario(started: Cluster) -> None:
        admin = started.controller.node.topic_admin
        await admin.create_topics([NewTopic("t", 1, 1)], 1000)
        began = process_time()
        huge = await admin.create_topics([NewTopic("huge", HUGE, 1)], 1000, validate_only=validate_only)
        assert _codes(huge) == [44]
        more = await admin.create_partitions([MorePartitions("t", HUGE)], 1000, validate_only=validate_only)
        assert _codes(more) == [44]
        many = [NewTopic(f"t{number}", 10_000, 1) for number in range(2000)]
        assert _codes(await admin.create_topics(many, 1000, validate_only=True)) == [0] * 9 + [44] * 1991
        assert process_time() - began < 2

    _run(scenario)


def test_an_assignment_with_too_many_replicas_is_refused_before_its_checks() -> None:
    """An assignment beyond the limit is refused by its length, also where other rules would refuse it."""

    class Unread(Sequence[int]):
        def __len__(self) -> int:
            return 11

        def __getitem__(self, index: object) -> Any:
            raise AssertionError(index)

    async def scenario(started: Cluster) -> None:
        admin = started.controller.node.topic_admin
        assert _codes(await admin.create_topics([NewTopic("t", assignments={7: Unread()})], 1000)) == [44]
        assert _codes(await admin.create_topics([NewTopic("t", assignments={0: [1] * 10})], 1000)) == [39]
        (long,) = await admin.create_topics([NewTopic("t", assignments={0: range(MOST_REPLICAS + 1)})], 1000)
        assert "at most 1000 are allowed" in str(long.error)
        assert _codes(await admin.create_topics([NewTopic("t", assignments={0: [1]})], 1000)) == [0]
        assert _codes(await admin.create_partitions([MorePartitions("t", 11, [Unread()] * 10)], 1000)) == [44]

    _run(scenario, **TEN)


def test_a_refused_request_leaves_memory_without_a_garbage_collection() -> None:
    class Brokers(list[int]):
        pass

    async def scenario(started: Cluster) -> None:
        admin = started.controller.node.topic_admin
        assert _codes(await admin.create_topics([NewTopic("t", 1, 1)], 1000)) == [0]
        brokers = Brokers([1, 1])
        there = weakref.ref(brokers)
        created = await admin.create_topics([NewTopic("u", assignments={0: brokers})], 1000)
        grown = await admin.create_partitions([MorePartitions("t", 2, [brokers])], 1000)
        assert (_codes(created), _codes(grown)) == ([39], [39])
        del brokers
        assert there() is None

    gc.disable()
    try:
        _run(scenario)
    finally:
        gc.enable()


def test_names_that_collide_are_refused_however_long_their_assignments_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two requests with names that differ in ``.`` and ``_`` are checked at the same time: one of them is refused."""
    monkeypatch.setattr(turns, "SLICE_S", 0.0)

    async def scenario(started: Cluster) -> None:
        admin = started.controller.node.topic_admin
        assignments = {partition: [1] for partition in range(20)}
        both = [admin.create_topics([NewTopic(name, assignments=assignments)], 1000) for name in ("a.b", "a_b")]
        results = await asyncio.gather(*both)
        assert sorted(code for each in results for code in _codes(each)) == [0, 17]

    _run(scenario)


def test_the_sum_over_requests_and_kinds() -> None:
    async def scenario(started: Cluster) -> None:
        admin = started.controller.node.topic_admin
        assigned = NewTopic("assigned", assignments={index: [1, 7] for index in range(2)})
        topics = [NewTopic("a", 3, 1), assigned, NewTopic("b", 4, 1), NewTopic("c", 3, 1)]
        assert _codes(await admin.create_topics(topics, 1000, validate_only=True)) == [0, 0, 44, 0]
        assert _codes(await admin.create_topics(topics, 1000)) == [0, 0, 44, 0]
        assert _codes(await admin.create_topics([NewTopic("d", assignments={0: [1]})], 1000)) == [44]
        assert _codes(await admin.create_partitions([MorePartitions("a", 4)], 1000)) == [44]
        added = MorePartitions("a", 4, [[1]])
        assert _codes(await admin.create_partitions([added], 1000)) == [44]
        (refused,) = (await admin.create_automatically(["auto"])).values()
        assert isinstance(refused, PolicyViolationError)
        assert _codes(await admin.delete_topics(["c"], 1000)) == [0]
        assert _codes(await admin.create_partitions([MorePartitions("a", 5)], 1000)) == [0]
        assert await admin.create_automatically(["auto"]) == {"auto": None}
        await started.settle()
        grown = await admin.create_partitions([MorePartitions("a", 6), MorePartitions("auto", 2)], 1000)
        assert _codes(grown) == [44, 44]
        assert await admin.create_automatically(["__consumer_offsets"]) == {"__consumer_offsets": None}

    _run(scenario, **TEN, **{"offsets.topic.replication.factor": "1"})


def test_concurrent_requests_do_not_exceed_the_limit() -> None:
    async def scenario(started: Cluster) -> None:
        admin = started.controller.node.topic_admin
        each = [admin.create_topics([NewTopic(f"t{number}", 3, 1)], 1000) for number in range(10)]
        codes = [code for results in await asyncio.gather(*each) for code in _codes(results)]
        assert sorted(codes) == [0] * 3 + [44] * 7
        assert started.controller.node.cache.image.replica_count == 9

    _run(scenario, **TEN)


def test_requests_without_time_do_not_use_up_the_limit() -> None:
    """A topic grows by requests that wait for nothing, and is deleted before the image shows it."""

    async def scenario(started: Cluster) -> None:
        admin = started.controller.node.topic_admin
        for _ in range(5):
            assert _codes(await admin.create_topics([NewTopic("t", 1, 1)], 1000)) == [0]
            assert _codes(await admin.create_partitions([MorePartitions("t", 4)], 0)) == [7]
            assert _codes(await admin.create_partitions([MorePartitions("t", 9)], 0)) == [7]
            assert _codes(await admin.delete_topics(["t"], 1000)) == [0]
            assert _codes(await admin.create_topics([NewTopic("u", 10, 1)], 0)) == [7]
            await started.settle()
            assert _codes(await admin.delete_topics(["u"], 1000)) == [0]
        assert _codes(await admin.create_topics([NewTopic("v", 10, 1)], 1000)) == [0]

    _run(scenario, **TEN)


def test_a_repeated_extension_keeps_the_admission_of_another_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two requests read the same version of a topic: the one that writes second gives back its own replicas only."""
    monkeypatch.setattr(turns, "SLICE_S", 0.0)  # so that they take turns

    async def scenario(started: Cluster) -> None:
        admin = started.controller.node.topic_admin
        assert _codes(await admin.create_topics([NewTopic("t", 1, 1), NewTopic("u", 1, 1)], 1000)) == [0, 0]
        await started.settle()
        started.controller.node.cache.apply = lambda _: (yield)  # type: ignore[method-assign,assignment,return-value]  # the image stays as it is
        both = await asyncio.gather(*(admin.create_partitions([MorePartitions("t", 5)], 0) for _ in range(2)))
        assert [_codes(each) for each in both] == [[7], [37]]
        more = [MorePartitions("u", 6)]
        assert _codes(await admin.create_partitions(more, 0, validate_only=True)) == [44]

    _run(scenario, **TEN)


def test_a_request_that_ends_early_keeps_no_names_and_no_replicas() -> None:
    async def scenario(started: Cluster) -> None:
        node, session = started.controller.node, started.controller.session
        admin = node.topic_admin

        async def never(*_: object) -> None:
            await asyncio.get_running_loop().create_future()

        session.transactions = never  # type: ignore[method-assign,assignment]  # a store that does not answer
        for creation in (
            admin.create_topics([NewTopic("t", 8, 1)], 1000),
            admin.create_automatically(["auto"]),
        ):
            task = asyncio.create_task(creation)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            task.cancel()
            assert await asyncio.gather(task, return_exceptions=True) != [None]
        del session.transactions
        assert _codes(await admin.create_topics([NewTopic("t", 8, 1)], 1000)) == [0]
        assert await admin.create_automatically(["auto"]) == {"auto": None}

    _run(scenario, **TEN)


def test_automatic_creation_has_a_rate() -> None:
    async def scenario(started: Cluster) -> None:
        admin = started.controller.node.topic_admin
        names = [f"t{number}" for number in range(2 * BURST_S + 5)]
        outcomes = await admin.create_automatically([*names, "a b"])
        codes = [0 if error is None else error.error_code for error in outcomes.values()]
        assert codes == [0] * 2 * BURST_S + [5] * 5 + [17]
        assert await admin.create_automatically(names[:3]) == dict.fromkeys(names[:3]), "these are there"
        assert await admin.create_automatically(["__consumer_offsets"]) == {"__consumer_offsets": None}
        await started.settle()
        assert len(started.controller.node.cache.image.topics) == 2 * BURST_S + 1

    _run(scenario, **{"kafkapy.auto.create.topics.per.second": "2", "offsets.topic.replication.factor": "1"})
