"""Topics, on a running broker."""

import pytest

from kafkapy.clients import topics
from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.errors import RequestFailedError
from kafkapy.clients.records import produce
from kafkapy.protocol.constants import EARLIEST, LATEST
from kafkapy.records.record import Record, encode_batch


def test_create_list_grow_delete(client: ClusterClient) -> None:
    topics.create_topic(client, "life", partitions=2, configs={"retention.ms": "5"})
    assert [len(topic.partitions) for topic in topics.list_topics(client) if topic.name == "life"] == [2]
    with pytest.raises(RequestFailedError, match=r"topic life: .*TOPIC_ALREADY_EXISTS"):
        topics.create_topic(client, "life", configs={})
    topics.grow_topic(client, "life", 3)
    assert len(client.topic("life").partitions) == 3
    with pytest.raises(RequestFailedError, match="INVALID_PARTITIONS"):
        topics.grow_topic(client, "life", 1)
    topics.delete_topic(client, "life")
    with pytest.raises(RequestFailedError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        topics.delete_topic(client, "life")


def test_offsets_of_both_ends_and_of_times(client: ClusterClient) -> None:
    topics.create_topic(client, "ends", partitions=2, configs={})
    batch = bytes(encode_batch([Record(None, b"a", timestamp=100), Record(None, b"b", timestamp=200)]))
    produce(client, "ends", 1, batch, acks=-1, leader=0)
    topic = client.topic("ends")
    assert topics.offsets(client, topic, [0, 1], EARLIEST) == {0: 0, 1: 0}
    assert topics.offsets(client, topic, [1], LATEST) == {1: 2}
    assert topics.offsets(client, topic, [0, 1], 150) == {0: -1, 1: 1}
