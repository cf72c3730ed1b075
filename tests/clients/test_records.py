"""Produce and fetch, on a running broker; keys are partitioned as by Java's producer."""

import pytest

from kafkapy.clients import cluster, topics
from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.errors import RequestFailedError
from kafkapy.clients.records import fetch, partition_of, produce
from kafkapy.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from kafkapy.records.record import Record, encode_batch, read_records


@pytest.mark.parametrize(
    ("key", "hash_"),
    [
        # org.apache.kafka.common.utils.Utils.murmur2, computed by the released jars
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_partition_of_a_key_is_that_of_java(key: bytes, hash_: int) -> None:
    assert partition_of(key, 2**31) == hash_ & 0x7FFFFFFF
    assert partition_of(key, 7) == (hash_ & 0x7FFFFFFF) % 7


def test_produced_records_are_fetched(client: ClusterClient) -> None:
    topics.create_topic(client, "there-and-back", partitions=2, configs={})
    batch = bytes(encode_batch([Record(b"k", b"v", timestamp=100)]))
    assert produce(client, "there-and-back", 0, batch, acks=-1, leader=0) == 0
    assert produce(client, "there-and-back", 0, batch, acks=0, leader=0) == -1
    assert produce(client, "there-and-back", 0, batch, acks=1, leader=0) == 2
    found = fetch(client, "there-and-back", {0: 1, 1: 0}, leader=0, max_wait_ms=1000)
    assert found[0].high_watermark == 3
    assert [(record.offset, record.key, record.value) for record in read_records(found[0].records)] == [(1, b"k", b"v")]
    assert found[1].records == b""


def test_produce_is_retried_until_the_leader_knows_its_role(
    client: ClusterClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes = [6, 0]

    class Leader:
        def call(self, request: ProduceRequest, response_class: object) -> ProduceResponse:
            answer = PartitionProduceResponse(error_code=codes.pop(0), base_offset=7)
            return ProduceResponse([TopicProduceResponse(name="late", partition_responses=[answer])])

    monkeypatch.setattr(cluster, "RETRY_PAUSE_S", 0.0)
    monkeypatch.setattr(client, "node", lambda _: Leader())
    assert produce(client, "late", 0, b"", acks=1, leader=0) == 7
    assert not codes


def test_refused(client: ClusterClient) -> None:
    topics.create_topic(client, "refused", configs={})
    batch = bytes(encode_batch([Record(b"k", b"v", timestamp=100)]))
    with pytest.raises(RequestFailedError, match=r"partition refused-0: .*CORRUPT_MESSAGE"):
        produce(client, "refused", 0, batch[:-1] + b"\xff", acks=1, leader=0)
    with pytest.raises(RequestFailedError, match=r"partition refused-0: .*OFFSET_OUT_OF_RANGE"):
        fetch(client, "refused", {0: 5}, leader=0, max_wait_ms=0)
