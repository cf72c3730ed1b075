"""Sentences that tools compare with what they expect: those of Apache Kafka 2.7.2."""

import pytest

from compat_tests.groups.wire import Wire
from compat_tests.selection.scenarios import IN_KRAFT
from harness.process import Broker
from kafkapy.protocol.constants import ResourceType
from kafkapy.protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from kafkapy.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kafkapy.protocol.messages.metadata import MetadataRequest

in_kraft = pytest.mark.differs(*IN_KRAFT, reason="the quorum's controller has other texts")

ILLEGAL = "it contains a character other than ASCII alphanumerics, '.', '_' and '-'"


def created(wire: Wire, topic: CreatableTopic) -> tuple[int, str | None]:
    answer = wire.ask(CreateTopicsRequest([topic], 20_000), 5).topics[0]
    return answer.error_code, answer.error_message


def altered(wire: Wire, resource_type: int, name: str, key: str, value: str) -> tuple[int, str | None]:
    resource = AlterConfigsResource(resource_type, name, [AlterableConfig(key, value)])
    answer = wire.ask(AlterConfigsRequest([resource], False), 1).responses[0]
    return answer.error_code, answer.error_message


@in_kraft
def test_refusals_of_topics(broker: Broker, topic_name: str) -> None:
    with Wire(broker.bootstrap) as wire:
        assert created(wire, CreatableTopic(topic_name, 2, 1)) == (0, None)
        assert created(wire, CreatableTopic(topic_name, 2, 1)) == (36, f"Topic '{topic_name}' already exists.")
        text = "Replication factor: 2 larger than available brokers: 1."
        assert created(wire, CreatableTopic("other", 1, 2)) == (38, text)
        assert created(wire, CreatableTopic("other", 0, 1)) == (37, "Number of partitions must be larger than 0.")
        assert created(wire, CreatableTopic("a b", 1, 1)) == (17, f'Topic name "a b" is illegal, {ILLEGAL}')
        assert created(wire, CreatableTopic("", 1, 1)) == (17, "Topic name is illegal, it can't be empty")
        assert created(wire, CreatableTopic("..", 1, 1)) == (17, 'Topic name cannot be "." or ".."')
        config = CreatableTopicConfig("retention.ms", "abc")
        text = "Invalid value abc for configuration retention.ms: Not a number of type LONG"
        assert created(wire, CreatableTopic("other", 1, 1, configs=[config])) == (40, text)
        for name, count, code, text in (
            (topic_name, 1, 37, "Topic currently has 2 partitions, which is higher than the requested 1."),
            (topic_name, 2, 37, "Topic already has 2 partitions."),
            ("no-such-topic", 3, 3, "The topic 'no-such-topic' does not exist."),
            ("a b", 3, 3, "The topic 'a b' does not exist."),
        ):
            request = CreatePartitionsRequest([CreatePartitionsTopic(name, count, None)], 20_000, False)
            answer = wire.ask(request, 2).results[0]
            assert (answer.error_code, answer.error_message) == (code, text)


@in_kraft
def test_refusals_of_configurations(broker: Broker, topic_name: str) -> None:
    def refusal(kind: str, name: str) -> str:
        return f"Invalid config value for resource ConfigResource(type={kind}, name='{name}'): "

    with Wire(broker.bootstrap) as wire:
        created(wire, CreatableTopic(topic_name, 1, 1))
        text = (
            refusal("TOPIC", topic_name) + "Invalid value abc for configuration retention.ms: Not a number of type LONG"
        )
        assert altered(wire, ResourceType.TOPIC, topic_name, "retention.ms", "abc") == (42, text)
        broker_id = str(wire.ask(MetadataRequest([]), 5).brokers[0].node_id)
        text = refusal("BROKER", broker_id) + "Cannot update these configs dynamically: Set(broker.id)"
        assert altered(wire, ResourceType.BROKER, broker_id, "broker.id", "5") == (42, text)
        assert altered(wire, 99, topic_name, "retention.ms", "1")[0] == 42
        text = "Cannot update these configs at default cluster level, broker id must be specified: Set(listeners)"
        value = "PLAINTEXT://127.0.0.1:9"
        assert altered(wire, ResourceType.BROKER, "", "listeners", value) == (42, refusal("BROKER", "") + text)
        text = "These security configs can be dynamically updated only per-listener using the listener prefix: "
        text = refusal("BROKER", broker_id) + text + "HashSet(ssl.keystore.type)"
        assert altered(wire, ResourceType.BROKER, broker_id, "ssl.keystore.type", "JKS") == (42, text)


@pytest.mark.parametrize(
    ("key", "value", "shown", "reason"),
    [
        ("retention.ms", "", "", "Not a number of type LONG"),
        ("retention.ms", "-7", "-7", "Value must be at least -1"),
        ("min.insync.replicas", " 00 ", "0", "Value must be at least 1"),
        ("segment.bytes", "99999999999", "99999999999", "Not a number of type INT"),
        ("min.cleanable.dirty.ratio", "2", "2.0", "Value must be no more than 1"),
        ("min.cleanable.dirty.ratio", "x", "x", "Not a number of type DOUBLE"),
        ("cleanup.policy", "delete, x,y", "x", "String must be one of: compact, delete"),
        ("message.timestamp.type", "x", "x", "String must be one of: CreateTime, LogAppendTime"),
        ("preallocate", "x", "x", "Expected value to be either true or false"),
        ("leader.replication.throttled.replicas", "0:1, x", "[0:1, x]", None),
    ],
)
def test_values_are_shown_as_they_were_read(
    key: str, value: str, shown: str, reason: str | None, broker: Broker, topic_name: str
) -> None:
    """Without a reason, the rest of the sentence is the broker's own."""
    with Wire(broker.bootstrap) as wire:
        code, text = created(wire, CreatableTopic(topic_name, 1, 1, configs=[CreatableTopicConfig(key, value)]))
    assert code == 40
    start = f"Invalid value {shown} for configuration {key}: "
    assert text == start + reason if reason is not None else (text or "").startswith(start)
