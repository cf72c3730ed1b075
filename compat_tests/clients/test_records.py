"""Records are read as they were written: codecs, keys, headers, nulls, timestamps, order, offsets."""

from dataclasses import replace

import pytest

from compat_tests.clients.client import CODECS, LATEST, START_MS, Client, ProduceOptions, Received, Sent, wait_until
from kafkapy.clients.records import partition_of

pytestmark = pytest.mark.scenario("records")

FIELDS = ("value", "key", "headers", "timestamp", "partition")


def _same(received: list[Received], sent: list[Sent]) -> None:
    assert [tuple(getattr(record, name) for name in FIELDS) for record in received] == [
        tuple(getattr(record, name) for name in FIELDS) for record in sent
    ]


def _numbered(count: int) -> list[Sent]:
    return [Sent(f"value {i} ".encode() * 20, f"key {i % 7}".encode(), timestamp=START_MS + i) for i in range(count)]


@pytest.mark.parametrize("codec", CODECS)
def test_records_of_every_codec_are_read_as_sent(client: Client, topic: str, codec: str) -> None:
    sent = _numbered(200)
    places = client.produce(topic, sent, ProduceOptions(codec))
    assert places == [(0, offset) for offset in range(200)]
    received = client.consume(topic, 200)
    _same(received, sent)
    assert [record.offset for record in received] == list(range(200))


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_nulls_empties_and_headers_are_kept_apart(client: Client, topic: str, codec: str) -> None:
    null: tuple[tuple[str, bytes | None], ...] = (("null", None),) if client.sends_null_headers else ()
    headers = (("twice", b"1"), ("twice", b"2"), ("empty", b""), *null, ("é", "ü".encode()))
    sent = [
        Sent(b"", b"", timestamp=START_MS),
        Sent(None, b"deleted", timestamp=START_MS + 1),
        Sent(b"no key", None, timestamp=START_MS + 2),
        Sent(b"with headers", b"k", headers, START_MS + 3),
    ]
    client.produce(topic, sent, ProduceOptions(codec))
    _same(client.consume(topic, len(sent)), sent)


def test_an_idempotent_producer_keeps_the_order_over_many_batches(client: Client, topic: str) -> None:
    sent = _numbered(2000)
    places = client.produce(topic, sent, ProduceOptions("lz4", idempotent=True))
    assert [offset for _, offset in places] == list(range(2000))
    _same(client.consume(topic, 2000), sent)


@pytest.mark.parametrize("acks", [0, 1])
def test_fewer_acknowledgements_write_the_same(client: Client, topic: str, acks: int) -> None:
    sent = _numbered(20)
    client.produce(topic, sent, ProduceOptions(acks=acks))
    _same(client.consume(topic, 20), sent)


def test_a_value_near_the_default_limit_passes(client: Client, topic: str) -> None:
    sent = [Sent(bytes(1_000_000), b"large", timestamp=START_MS)]
    client.produce(topic, sent, ProduceOptions(request_limit=2_000_000))
    _same(client.consume(topic, 1), sent)


def test_partitions_are_independent(client: Client, topic_name: str) -> None:
    client.create_topic(topic_name, 3)
    # With KRaft a new topic's partitions are led a little later; kafkajs sends all of a request again when one is not.
    wait_until(lambda: client.topics().get(topic_name) == 3, "three partitions")
    sent = [Sent(f"{i}".encode(), timestamp=START_MS + i, partition=i % 3) for i in range(30)]
    places = client.produce(topic_name, sent)
    assert sorted(places) == [(partition, offset) for partition in range(3) for offset in range(10)]
    for partition in range(3):
        _same(client.consume(topic_name, 10, partition=partition), sent[partition::3])
        assert client.watermarks(topic_name, partition) == (0, 10)


def test_a_key_is_in_the_partition_of_javas_partitioner(client: Client, topic_name: str) -> None:
    """Java's own clients are in this matrix: they show that `partition_of` is what the others must agree with."""
    client.create_topic(topic_name, 7)
    keys = [f"key {i}".encode() * (1 + i % 3) for i in range(40)]
    sent = [Sent(b"v", key, timestamp=START_MS, partition=None) for key in [*keys, *keys]]
    partitions = [partition for partition, _ in client.produce(topic_name, sent)]
    assert partitions[:40] == partitions[40:]
    assert set(partitions) == set(range(7))
    if client.hashes_like_java:
        assert partitions[:40] == [partition_of(key, 7) for key in keys]


def test_log_append_time_replaces_the_producers_timestamp(client: Client, topic_name: str) -> None:
    client.create_topic(topic_name, configs={"message.timestamp.type": "LogAppendTime"})
    client.produce(topic_name, [Sent(b"x", timestamp=START_MS), Sent(b"y", timestamp=START_MS)])
    received = client.consume(topic_name, 2)
    assert [record.value for record in received] == [b"x", b"y"]
    assert all(record.log_append_time for record in received)
    assert all((record.timestamp or 0) > START_MS for record in received)


def test_reading_starts_at_the_given_offset(client: Client, topic: str) -> None:
    sent = _numbered(50)
    client.produce(topic, sent)
    assert [record.offset for record in client.consume(topic, 3, offset=17)] == [17, 18, 19]
    assert client.consume(topic, 0, offset=LATEST) == []


def test_read_committed_on_plain_data_reads_everything(client: Client, topic: str) -> None:
    sent = _numbered(100)
    client.produce(topic, sent, ProduceOptions(idempotent=True))
    _same(client.consume(topic, 100, committed=True), sent)


def test_offsets_by_time(client: Client, topic: str) -> None:
    sent = [replace(record, timestamp=START_MS + 1000 * i) for i, record in enumerate(_numbered(30))]
    for first in range(0, 30, 10):
        client.produce(topic, sent[first : first + 10])
    assert client.offset_for_time(topic, START_MS - 1) == 0
    assert client.offset_for_time(topic, START_MS + 12_000) == 12
    assert client.offset_for_time(topic, START_MS + 12_001) == 13
    assert client.offset_for_time(topic, START_MS + 29_000) == 29
    assert client.offset_for_time(topic, START_MS + 29_001) is None
