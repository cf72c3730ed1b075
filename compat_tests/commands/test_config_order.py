"""The entries of DescribeConfigs come in the order of Apache Kafka 2.7.2: tools print them so."""

import random

import pytest

from compat_tests.groups.wire import Wire
from compat_tests.selection.scenarios import IN_KRAFT
from harness.cases.topic_cases import TOPIC_KEYS
from harness.process import Broker
from kafkapy.java_hashing import in_table_order
from kafkapy.protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kafkapy.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafkapy.protocol.messages.metadata import MetadataRequest

TOPIC, BROKER = 2, 4
VERSION = 3
SEED = 7


def _names(wire: Wire, kind: int, name: str, keys: list[str] | None = None) -> list[str]:
    answer = wire.ask(DescribeConfigsRequest([DescribeConfigsResource(kind, name, keys)]), VERSION)
    (result,) = answer.results
    assert result.error_code == 0
    return [each.name for each in result.configs]


def _shuffled(keys: list[str]) -> list[str]:
    return random.Random(SEED).sample(keys, len(keys))


@pytest.mark.differs(*IN_KRAFT, reason="topics have more keys (KIP-405)")
def test_the_keys_of_a_topic(broker: Broker, topic_name: str) -> None:
    configs = [CreatableTopicConfig("retention.ms", "5"), CreatableTopicConfig("cleanup.policy", "compact")]
    with Wire(broker.bootstrap) as wire:
        request = CreateTopicsRequest([CreatableTopic(topic_name, 1, 1, configs=configs)], 20_000)
        created = [each.name for each in wire.ask(request, 6).topics[0].configs]
        for place in (2, 18):  # a bucket of Java's maps, which are used here, is not sorted
            created[place : place + 2] = reversed(created[place : place + 2])
        assert created == TOPIC_KEYS
        assert _names(wire, TOPIC, topic_name) == TOPIC_KEYS
        assert _names(wire, TOPIC, topic_name, []) == TOPIC_KEYS
        # those of a few keys are in a smaller table
        for count in (1, 2, 5, 11, 12, 20):
            keys = TOPIC_KEYS[:count]
            assert _names(wire, TOPIC, topic_name, [*_shuffled(keys), "nobody.knows"]) == in_table_order(keys)


@pytest.mark.differs("kafka-4.4.0", reason="a bucket of Java's maps is not sorted")
def test_the_keys_of_a_broker(broker: Broker) -> None:
    with Wire(broker.bootstrap) as wire:
        own = str(wire.ask(MetadataRequest([]), 1).brokers[0].node_id)
        names = _names(wire, BROKER, own)
        assert len(names) > 200
        assert names == in_table_order(names)
        assert _names(wire, BROKER, own, _shuffled(names[:100])) == in_table_order(names[:100])


@pytest.mark.differs("kafka-4.4.0", reason="the cluster's min.insync.replicas can't be removed (KIP-966)")
def test_the_keys_of_all_brokers(broker: Broker) -> None:
    values = {
        "log.cleaner.backoff.ms": "16000",
        "log.cleanup.policy": "delete",
        "log.flush.interval.ms": "100000",
        "background.threads": "11",
        "ünknown": "1",
    }
    with Wire(broker.bootstrap) as wire:
        for settings in (values, {}):
            configs = [AlterableConfig(*pair) for pair in settings.items()]
            request = AlterConfigsRequest([AlterConfigsResource(BROKER, "", configs)])
            assert wire.ask(request, 1).responses[0].error_code == 0
            wanted = in_table_order(settings)
            while len(names := _names(wire, BROKER, "")) != len(wanted):
                wire.has_answer(0.1)
            assert names == wanted
