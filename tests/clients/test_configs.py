"""Configuration, on a running broker."""

import pytest

from kafkapy.clients import configs, topics
from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.errors import RequestFailedError


def test_a_topics_configuration(client: ClusterClient) -> None:
    topics.create_topic(client, "configured", configs={"retention.ms": "5", "segment.ms": "6"})
    configs.alter(client, "topic", "configured", {"flush.ms": "7"}, ["segment.ms"])
    found = configs.describe(client, "topic", "configured")
    assert len(found) == 26
    own = {config.name: config.value for config in found if configs.SOURCES[config.config_source] == "topic"}
    assert own == {"retention.ms": "5", "flush.ms": "7"}


def test_a_brokers_configuration(client: ClusterClient) -> None:
    found = {config.name: config.value for config in configs.describe(client, "broker", "0")}
    assert found["offsets.topic.num.partitions"] == "2"
    assert configs.describe(client, "broker", "") == []


def test_a_refused_change(client: ClusterClient) -> None:
    with pytest.raises(RequestFailedError, match=r"broker 0: .*Cannot update these configs dynamically"):
        configs.alter(client, "broker", "0", {"num.partitions": "3"})
    with pytest.raises(RequestFailedError, match=r"topic none-such does not exist \(UNKNOWN_TOPIC_OR_PARTITION\)"):
        configs.describe(client, "topic", "none-such")
