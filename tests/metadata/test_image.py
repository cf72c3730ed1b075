import asyncio
from uuid import UUID

from kafkapy.metadata.image import BrokerInfo, Endpoint, MetadataCache, MetadataImage, PartitionInfo
from kafkapy.protocol.message import ZERO_UUID
from kafkapy.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from kafkapy.testing.clock import ManualClock
from kafkapy.turns import finish
from kafkapy.types import LEADER_DURING_DELETE, TopicPartition


def _apply(cache: MetadataCache, request: UpdateMetadataRequest) -> list[TopicPartition]:
    return finish(cache.apply(request))


def _state(index: int, leader: int, topic: str = "") -> UpdateMetadataPartitionState:
    return UpdateMetadataPartitionState(
        topic_name=topic, partition_index=index, controller_epoch=4, leader=leader, leader_epoch=2, isr=[1],
        zk_version=3, replicas=[1, 2], offline_replicas=[2],
    )  # fmt: skip


def _request(*states: UpdateMetadataPartitionState, brokers: tuple[int, ...] = (1,)) -> UpdateMetadataRequest:
    endpoint = UpdateMetadataEndpoint(port=9092, host="h", listener="INSIDE", security_protocol=2)
    return UpdateMetadataRequest(
        controller_id=1,
        controller_epoch=4,
        topic_states=[UpdateMetadataTopicState(topic_name="t", partition_states=list(states))] if states else [],
        live_brokers=[UpdateMetadataBroker(id=broker, endpoints=[endpoint], rack="r") for broker in brokers],
    )


def _of_topic(name: str, topic_id: UUID, leader: int = 1) -> UpdateMetadataRequest:
    topic = UpdateMetadataTopicState(name, topic_id, [_state(0, leader)])
    return UpdateMetadataRequest(controller_id=1, topic_states=[topic])


def test_topic_ids() -> None:
    cache, first, second = MetadataCache("cluster"), UUID(int=1), UUID(int=2)
    _apply(cache, _of_topic("t", first))
    _apply(cache, _of_topic("named", ZERO_UUID))
    before = cache.image
    assert (before.topic_id("t"), before.topic_name(first)) == (first, "t")
    assert (before.topic_id("named"), before.topic_id("unknown")) == (ZERO_UUID, ZERO_UUID)
    assert before.topic_name(ZERO_UUID) is None
    _apply(cache, _of_topic("t", ZERO_UUID))  # a controller of an older release gives none
    assert cache.image.topic_id("t") == first
    _apply(cache, _of_topic("t", first, LEADER_DURING_DELETE))
    assert (cache.image.topic_id("t"), cache.image.topic_name(first)) == (ZERO_UUID, None)
    _apply(cache, _of_topic("t", second))
    assert (cache.image.topic_name(first), cache.image.topic_name(second)) == (None, "t")
    _apply(cache, _of_topic("t", first))  # recreated while this broker was not told of it
    assert cache.image.topic_names == {first: "t"}
    assert before.topic_names == {first: "t"}


def test_partitions_are_added_changed_and_deleted() -> None:
    cache = MetadataCache("cluster")
    heard: list[tuple[MetadataImage, list[TopicPartition]]] = []
    cache.add_listener(lambda image, deleted: heard.append((image, deleted)))
    assert cache.image.partition("t", 0) is None
    assert _apply(cache, _request(_state(0, 1), _state(1, 1), brokers=(1, 2))) == []
    first = cache.image
    assert first.cluster_id == "cluster"
    assert first.controller_id == 1
    assert first.brokers[2] == BrokerInfo(2, {"INSIDE": Endpoint("h", 9092, "SASL_PLAINTEXT")}, "r")
    assert first.partition("t", 0) == PartitionInfo(1, 2, (1,), (1, 2), (2,), 4, 3)
    assert first.partition("t", 2) is None
    assert _apply(cache, _request(_state(0, -1))) == []
    found = cache.image.partition("t", 0)
    assert found is not None
    assert found.leader == -1
    assert list(cache.image.brokers) == [1]
    assert list(cache.image.topics["t"].partitions) == [0, 1]
    gone = [TopicPartition("t", 0), TopicPartition("t", 1)]
    assert _apply(cache, _request(_state(0, -2), _state(1, -2))) == gone
    assert cache.image.topics == {}
    assert heard[-1] == (cache.image, gone)
    assert _apply(cache, _request(_state(0, -2))) == gone[:1]
    assert len(first.topics["t"].partitions) == 2


def test_old_versions_name_the_topic_in_each_partition_and_one_address() -> None:
    cache = MetadataCache()
    cache.set_cluster_id("later")
    _apply(
        cache,
        UpdateMetadataRequest(
            controller_id=1,
            ungrouped_partition_states=[_state(0, 1, "old")],
            live_brokers=[UpdateMetadataBroker(id=1, v0_host="h", v0_port=1)],
        ),
    )
    assert cache.image.cluster_id == "later"
    assert cache.image.partition("old", 0) is not None
    assert cache.image.brokers[1].endpoints == {"PLAINTEXT": Endpoint("h", 1, "PLAINTEXT")}


def test_before_version_3_a_listener_is_named_by_its_protocol() -> None:
    cache = MetadataCache()
    endpoint = UpdateMetadataEndpoint(port=1, host="h", listener="", security_protocol=1)
    _apply(cache, UpdateMetadataRequest(live_brokers=[UpdateMetadataBroker(id=1, endpoints=[endpoint])]))
    assert cache.image.brokers[1].endpoints == {"SSL": Endpoint("h", 1, "SSL")}


def test_waits_for_the_image_end_at_a_change_or_the_time_out() -> None:
    async def main() -> None:
        clock, cache = ManualClock(), MetadataCache()
        assert await cache.wait_until(lambda image: not image.topics, 0, clock)
        assert not await cache.wait_until(lambda image: "t" in image.topics, 0, clock)
        wanted = asyncio.ensure_future(cache.wait_until(lambda image: "t" in image.topics, 100, clock))
        hopeless = asyncio.ensure_future(cache.wait_until(lambda image: "u" in image.topics, 100, clock))
        await asyncio.sleep(0)
        _apply(cache, _request())
        assert not wanted.done()
        _apply(cache, _request(_state(0, 1)))
        _apply(cache, _request(_state(0, 1)))
        clock.advance(100)
        _apply(cache, _request(_state(0, 1)))
        assert await wanted
        assert not await hopeless
        assert cache._waiting == {}
        assert clock.pending_timers() == 0

    asyncio.run(main())


def test_racks_are_those_of_live_replicas_with_the_listener() -> None:
    cache = MetadataCache()
    place = TopicPartition("t", 0)
    assert cache.racks(place, "INSIDE") == {}
    _apply(cache, _request(_state(0, leader=1), brokers=(1, 3)))
    assert cache.racks(place, "INSIDE") == {1: "r"}
    assert cache.racks(place, "OUTSIDE") == {}
    _apply(cache, _request(brokers=(1, 2, 3)))
    assert cache.racks(place, "INSIDE") == {1: "r", 2: "r"}


def test_an_image_is_whole_when_it_has_all_partitions_that_existed_at_the_registration() -> None:
    cache = MetadataCache()
    expected = [TopicPartition("t", index) for index in range(3)]
    cache.expect(expected)
    assert not cache.is_whole
    _apply(cache, _request())  # the controller's first request may have the brokers alone
    assert not cache.is_whole
    _apply(cache, _request(_state(2, 1), _state(7, 1)))
    assert not cache.lacks("t", 0)
    assert not cache.lacks("u", 0)
    assert sorted(cache.missing(10)) == expected[:2]
    assert len(cache.missing(1)) == 1
    _apply(cache, _request(_state(0, 1)))
    _apply(cache, _request(_state(1, -2)))  # is being deleted
    assert cache.is_whole
    assert cache.lacks("t", 1)
    assert cache.lacks("u", 0)
    assert not cache.lacks("t", 0)


def test_a_second_registration_expects_what_was_created_meanwhile() -> None:
    cache = MetadataCache()
    cache.expect([])
    assert not cache.is_whole  # without live brokers
    _apply(cache, _request(_state(0, 1)))
    assert cache.is_whole
    cache.expect([TopicPartition("t", 0), TopicPartition("new", 0)])
    assert not cache.is_whole
    cache.stop_expecting([TopicPartition("new", 0)])
    assert cache.is_whole


def test_a_request_waits_for_the_whole_image() -> None:
    async def main() -> None:
        clock, cache = ManualClock(), MetadataCache()
        cache.expect([TopicPartition("t", 0)])
        first, second = (asyncio.ensure_future(cache.wait_until_whole(limit_ms, clock)) for limit_ms in (10, 1000))
        await asyncio.sleep(0)
        clock.advance(10)
        assert not await first
        _apply(cache, _request(_state(0, 1)))
        assert await second

    asyncio.run(main())


def test_the_first_number_of_partitions_of_an_internal_topic_counts() -> None:
    cache = MetadataCache()
    counts: list[int] = []
    cache.when_counted("t", counts.append)
    cache.set_partition_count("t", 5)
    cache.set_partition_count("t", 9)
    cache.set_partition_count("u", 1)
    cache.when_counted("t", counts.append)
    assert (counts, cache.partition_counts) == ([5, 5], {"t": 5, "u": 1})
