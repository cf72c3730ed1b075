"""Quotas on a running broker: what is stored, the throttle times of requests, and how long a connection is muted.

Run it with ``--target kafka-2.7.2`` too: the bounds are those of Apache Kafka.
"""

import time
from collections.abc import Iterator
from typing import Final

import pytest
from confluent_kafka import Producer

from compat_tests.brokers.own_broker import own_broker
from compat_tests.selection.scenarios import IN_KRAFT
from harness.client import batch, fetch_request, produce_request
from harness.process import Broker, ChildProcess
from harness.wire import Wire
from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.errors import RequestFailedError
from kafkapy.clients.quotas import ClientQuota, Entity, alter_quotas, list_quotas
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
from kafkapy.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkapy.protocol.messages.delete_topics import DeleteTopicsRequest

RATE: Final = 100_000
"""Bytes a second, of which eleven windows of a second are ten seconds' worth at once."""
WITHIN: Final = 0.1
STRICT, PERMISSIVE = 6, 5

pytestmark = pytest.mark.together
LATER = pytest.mark.differs(*IN_KRAFT, reason="Quotas of KRaft apply after a while")


@pytest.fixture(scope="module")
def limited(broker: Broker) -> Iterator[ChildProcess]:
    process = own_broker(broker, {})
    try:
        yield process.start()
    finally:
        process.close()


def _limit(broker: ChildProcess, entity: Entity, **limits: float | None) -> None:
    with ClusterClient(broker.bootstrap) as client:
        alter_quotas(client, entity, limits)
    time.sleep(1)  # until the broker has read its own note


def _create(broker: ChildProcess, topic: str) -> None:
    with Wire(broker.bootstrap, "creator") as wire:
        assert wire.ask(CreateTopicsRequest([CreatableTopic(topic, 1, 1)], 10_000), STRICT).topics[0].error_code == 0


def _near(found: float, wanted: float) -> bool:
    return abs(found - wanted) <= WITHIN * wanted


@LATER
def test_quotas_are_stored_changed_and_removed(limited: ChildProcess) -> None:
    odd = "a b/ü*~%+<default>"
    entities: list[Entity] = [
        {"user": "alice"}, {"user": None}, {"client-id": odd}, {"client-id": None}, {"user": odd, "client-id": odd},
        {"user": "alice", "client-id": None}, {"user": None, "client-id": "c"}, {"user": None, "client-id": None},
    ]  # fmt: skip
    with ClusterClient(limited.bootstrap) as client:
        before = list_quotas(client)
        for number, entity in enumerate(entities):
            alter_quotas(client, entity, {"producer_byte_rate": 1e12 + number, "request_percentage": 0.5})
        found = list_quotas(client)
        wanted = [
            ClientQuota(dict(entity), {"producer_byte_rate": 1e12 + number, "request_percentage": 0.5})
            for number, entity in enumerate(entities)
        ]
        assert sorted(found, key=str) == sorted([*before, *wanted], key=str)
        for entity in entities:
            alter_quotas(client, entity, {"producer_byte_rate": None, "consumer_byte_rate": 1e15})
            alter_quotas(client, entity, {"request_percentage": None})
        assert [each.limits for each in list_quotas(client) if each not in before] == [{"consumer_byte_rate": 1e15}] * 8
        for entity in entities:
            alter_quotas(client, entity, {"consumer_byte_rate": None})
        assert list_quotas(client) == before
        with pytest.raises(RequestFailedError):
            alter_quotas(client, {"user": "alice"}, {"unknown": 1.0})


@LATER
def test_a_producer_waits_for_its_rate(limited: ChildProcess, topic_name: str) -> None:
    _create(limited, topic_name)
    _limit(limited, {"client-id": topic_name}, producer_byte_rate=RATE)
    request = produce_request(topic_name, batch(bytes(275_000)))
    with Wire(limited.bootstrap, topic_name) as wire:
        throttles = [wire.ask(request, 8).throttle_time_ms for _ in range(4)]
        start_s = time.monotonic()
        wire.ask(ApiVersionsRequest(), 0)
        muted_s = time.monotonic() - start_s
    assert throttles[:3] == [0, 0, 0]
    assert _near(throttles[3], 1000), "1.1 MB in ten seconds are 10 % too much: one second"
    assert throttles[3] / 1000 * (1 - WITHIN) <= muted_s <= throttles[3] / 1000 + 0.5


@LATER
def test_others_do_not_wait(limited: ChildProcess, topic_name: str) -> None:
    _create(limited, topic_name)
    _limit(limited, {"client-id": topic_name}, producer_byte_rate=RATE)
    with Wire(limited.bootstrap, topic_name) as wire, Wire(limited.bootstrap, "other") as other:
        assert _near(wire.ask(produce_request(topic_name, batch(bytes(1_000_000))), 8).throttle_time_ms + 1000, 1000)
        assert wire.ask(produce_request(topic_name, batch(bytes(900_000))), 8).throttle_time_ms > 5000
        start_s = time.monotonic()
        assert other.ask(produce_request(topic_name, batch(b"x")), 8).throttle_time_ms == 0
        assert time.monotonic() - start_s < 2


@LATER
def test_a_consumer_gets_no_more_records_than_its_quota(limited: ChildProcess, topic_name: str) -> None:
    _create(limited, topic_name)
    _limit(limited, {"client-id": topic_name}, consumer_byte_rate=RATE)
    with Wire(limited.bootstrap, "writer") as writer:
        for _ in range(8):
            writer.ask(produce_request(topic_name, batch(bytes(150_000))), 8)
    offset, sizes, throttle_ms = 0, [], 0
    start_s = time.monotonic()
    with Wire(limited.bootstrap, topic_name) as wire:
        for _ in range(8):
            answer = wire.ask(fetch_request(topic_name, offset, partition_max_bytes=150_000), 11)
            sizes.append(sum(len(each.records) for topic in answer.responses for each in topic.partitions))
            throttle_ms += answer.throttle_time_ms
            offset += sizes[-1] > 0
    seconds = time.monotonic() - start_s
    assert [size > 0 for size in sizes] == [True] * 6 + [False, True], "the seventh would be above ten seconds' worth"
    assert 0 < throttle_ms <= 500 * (1 + WITHIN)
    assert seconds >= 0.5 * (1 - WITHIN)


@LATER
def test_a_request_waits_one_window_at_most(limited: ChildProcess, topic_name: str) -> None:
    _limit(limited, {"client-id": topic_name}, request_percentage=1e-6)
    with Wire(limited.bootstrap, topic_name) as wire:
        assert wire.ask(ApiVersionsRequest(), 2).throttle_time_ms == 1000
        start_s = time.monotonic()
        assert wire.ask(ApiVersionsRequest(), 2).throttle_time_ms == 1000
        assert 0.9 <= time.monotonic() - start_s <= 1.5


def test_changes_of_topics_are_refused_or_delayed(limited: ChildProcess, topic_name: str) -> None:
    _limit(limited, {"client-id": topic_name}, controller_mutation_rate=1.0)
    with Wire(limited.bootstrap, topic_name) as wire:

        def create(name: str, version: int) -> tuple[int, int]:
            answer = wire.ask(CreateTopicsRequest([CreatableTopic(topic_name + name, 13, 1)], 10_000), version)
            return answer.topics[0].error_code, answer.throttle_time_ms

        assert create("a", STRICT) == (0, 0), "a bucket of eleven may be overdrawn once"
        code, throttle_ms = create("b", STRICT)
        assert code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert 500 < throttle_ms <= 2000
        grown = CreatePartitionsRequest([CreatePartitionsTopic(topic_name + "a", 14, None)], 10_000)
        assert wire.ask(grown, 2).throttle_time_ms > 0, "old clients do not know the error"
        time.sleep(2)
        assert wire.ask(grown, 3).results[0].error_code == ErrorCode.INVALID_PARTITIONS
        deleted = wire.ask(DeleteTopicsRequest(topic_names=[topic_name + "a"], timeout_ms=10_000), 4)
        assert deleted.responses[0].error_code == 0
        assert 12_000 < deleted.throttle_time_ms <= 15_000


@LATER
def test_a_stock_producer_keeps_the_rate(limited: ChildProcess, topic_name: str) -> None:
    _create(limited, topic_name)
    _limit(limited, {"client-id": topic_name}, producer_byte_rate=500_000)
    throttled: list[float] = []
    producer = Producer(
        {
            "bootstrap.servers": limited.bootstrap,
            "client.id": topic_name,
            "batch.size": 100_000,
            "linger.ms": 5,
            "throttle_cb": lambda event: throttled.append(event.throttle_time),
        }
    )
    start_s = time.monotonic()
    for _ in range(7_500):
        producer.produce(topic_name, bytes(1000), partition=0)
        producer.poll(0)
    assert producer.flush(30) == 0
    seconds = time.monotonic() - start_s
    assert 10 <= seconds <= 13.5, "7.5 MB at 500 kB a second, less what fits into the windows before it began"
    assert throttled


def test_connections_above_the_rate_wait(broker: Broker) -> None:
    process = own_broker(broker, {"max.connection.creation.rate": "5", "quota.window.num": "2"})
    try:
        process.start()
        time.sleep(2)  # the connections that its start took are older than all windows then
        start_s = time.monotonic()
        for _ in range(12):
            with Wire(process.bootstrap) as wire:
                wire.ask(ApiVersionsRequest(), 0)
        assert 1 <= time.monotonic() - start_s <= 4, "seven more than five, at five a second"
    finally:
        process.close()
