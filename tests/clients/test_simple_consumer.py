"""The simple consumer: fetch, multifetch, offsets before a time, on a running broker."""

from collections.abc import Iterator

import pytest

from kafkapy.clients import topics
from kafkapy.clients.cluster import ClusterClient, parse_bootstrap
from kafkapy.clients.errors import NoBrokerError, RequestFailedError
from kafkapy.clients.records import produce
from kafkapy.clients.simple_consumer import SimpleConsumer, SimpleFetch
from kafkapy.protocol.constants import EARLIEST, LATEST
from kafkapy.protocol.errors import ErrorCode
from kafkapy.records.record import Record, encode_batch


@pytest.fixture
def consumer(bootstrap: str) -> Iterator[SimpleConsumer]:
    ((host, port),) = parse_bootstrap(bootstrap)
    with SimpleConsumer(host, port) as connected:
        yield connected


def batch(*values: bytes, timestamp: int = 1_000) -> bytes:
    return bytes(encode_batch([Record(None, value, timestamp=timestamp) for value in values]))


def test_records_are_read_from_an_offset_on(client: ClusterClient, consumer: SimpleConsumer) -> None:
    topics.create_topic(client, "simple", partitions=1, configs={})
    produce(client, "simple", 0, batch(b"a", b"b", b"c"), acks=-1, leader=0)
    produce(client, "simple", 0, batch(b"d"), acks=-1, leader=0)
    found = consumer.fetch(SimpleFetch("simple", 0, offset=1))
    assert [(record.offset, record.value) for record in found.records] == [(1, b"b"), (2, b"c"), (3, b"d")]
    assert (found.next_offset, found.high_watermark) == (4, 4)
    at_end = consumer.fetch(SimpleFetch("simple", 0, offset=4), max_wait_ms=1)
    assert (at_end.records, at_end.next_offset) == ([], 4)


def test_a_batch_that_is_larger_than_asked_for_comes_whole(client: ClusterClient, consumer: SimpleConsumer) -> None:
    topics.create_topic(client, "large", partitions=1, configs={})
    produce(client, "large", 0, batch(b"x" * 10_000), acks=-1, leader=0)
    produce(client, "large", 0, batch(b"y" * 10_000), acks=-1, leader=0)
    found = consumer.fetch(SimpleFetch("large", 0, offset=0, max_bytes=100))
    assert [record.value for record in found.records] == [b"x" * 10_000]
    assert found.next_offset == 1


def test_many_partitions_are_read_with_one_request_and_fail_alone(
    client: ClusterClient, consumer: SimpleConsumer
) -> None:
    topics.create_topic(client, "many", partitions=2, configs={})
    produce(client, "many", 0, batch(b"zero"), acks=-1, leader=0)
    produce(client, "many", 1, batch(b"one"), acks=-1, leader=0)
    asked = [
        SimpleFetch("many", 1, 0),
        SimpleFetch("many", 0, 7),
        SimpleFetch("nobody-made-it-either", 0, 0),
        SimpleFetch("many", 0, 0),
        SimpleFetch("many", 1, 0),
    ]
    found = consumer.multifetch(asked)
    assert [[record.value for record in each.records] for each in found] == [[b"one"], [], [], [b"zero"], [b"one"]]
    codes = [each.error.code if each.error else ErrorCode.NONE for each in found]
    assert codes == [0, ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0, 0]
    assert found[1].next_offset == 7
    assert consumer.multifetch([]) == []


def test_fetch_raises_the_brokers_error(client: ClusterClient, consumer: SimpleConsumer) -> None:
    topics.create_topic(client, "short", partitions=1, configs={})
    with pytest.raises(RequestFailedError, match=r"partition short-0: .*OFFSET_OUT_OF_RANGE"):
        consumer.fetch(SimpleFetch("short", 0, offset=1))


def test_offsets_before_a_time_are_those_of_segments(client: ClusterClient, consumer: SimpleConsumer) -> None:
    topics.create_topic(client, "segments", partitions=1, configs={"segment.bytes": "200"})
    for value in (b"a", b"b", b"c"):
        produce(client, "segments", 0, batch(value * 100), acks=-1, leader=0)
    assert consumer.offsets_before("segments", 0, LATEST, max_offsets=10) == [3, 2, 1, 0]
    assert consumer.offsets_before("segments", 0, LATEST, max_offsets=2) == [3, 2]
    assert consumer.offsets_before("segments", 0, LATEST) == [3]
    assert consumer.offsets_before("segments", 0, EARLIEST) == [0]
    assert consumer.offsets_before("segments", 0, 1_000, max_offsets=10) == []
    with pytest.raises(RequestFailedError, match=r"partition segments-5.*UNKNOWN_TOPIC_OR_PARTITION"):
        consumer.offsets_before("segments", 5, LATEST)


@pytest.mark.parametrize("in_zookeeper", [False, True])
def test_offsets_of_a_group_are_committed_and_fetched(
    client: ClusterClient, consumer: SimpleConsumer, *, in_zookeeper: bool
) -> None:
    topic, group = f"kept-{in_zookeeper}", f"readers-{in_zookeeper}"
    topics.create_topic(client, topic, partitions=2, configs={})
    client.coordinator(group)
    consumer.commit_offsets(group, {(topic, 1): 7}, in_zookeeper=in_zookeeper)
    places = [(topic, 0), (topic, 1), ("nobody-made-this", 0)]
    found = consumer.fetch_offsets(group, places, in_zookeeper=in_zookeeper)
    assert found == {(topic, 0): -1, (topic, 1): 7, ("nobody-made-this", 0): -1}
    other = consumer.fetch_offsets(group, [(topic, 1)], in_zookeeper=not in_zookeeper)
    assert other == {(topic, 1): -1}


def test_a_refused_commit_is_raised(client: ClusterClient, consumer: SimpleConsumer) -> None:
    client.coordinator("refused")
    with pytest.raises(RequestFailedError, match=r"group refused, nobody-made-it-0: .*UNKNOWN_TOPIC_OR_PARTITION"):
        consumer.commit_offsets("refused", {("nobody-made-it", 0): 1})


def test_a_closed_consumer_has_no_broker(bootstrap: str) -> None:
    ((host, port),) = parse_bootstrap(bootstrap)
    consumer = SimpleConsumer(host, port)
    consumer.close()
    with pytest.raises(NoBrokerError):
        consumer.fetch(SimpleFetch("simple", 0, offset=0))
