"""The requests that the broker refuses, and the error code of each."""

import pytest

from compat_tests.clients.client import Client, KafkaCodeError, ProduceOptions, Sent

pytestmark = pytest.mark.scenario("errors")

UNKNOWN_TOPIC, MESSAGE_TOO_LARGE, INVALID_TOPIC, ALREADY_EXISTS = 3, 10, 17, 36
INVALID_PARTITIONS, INVALID_CONFIG, OFFSET_OUT_OF_RANGE = 37, 40, 1


def test_a_topic_that_exists_is_not_created_again(client: Client, topic: str) -> None:
    with pytest.raises(KafkaCodeError) as refusal:
        client.create_topic(topic)
    assert refusal.value.code == ALREADY_EXISTS


@pytest.mark.parametrize("name", ["with space", "slash/ed", "a" * 250, ".."])
def test_an_invalid_topic_name_is_refused(client: Client, name: str) -> None:
    with pytest.raises(KafkaCodeError) as refusal:
        client.create_topic(name)
    assert refusal.value.code == INVALID_TOPIC


def test_deleting_an_unknown_topic_is_refused(client: Client, topic_name: str) -> None:
    with pytest.raises(KafkaCodeError) as refusal:
        client.delete_topic(topic_name)
    assert refusal.value.code == UNKNOWN_TOPIC


def test_a_smaller_number_of_partitions_is_refused(client: Client, topic_name: str) -> None:
    client.create_topic(topic_name, 3)
    with pytest.raises(KafkaCodeError) as refusal:
        client.add_partitions(topic_name, 2)
    assert refusal.value.code == INVALID_PARTITIONS


@pytest.mark.parametrize("configs", [{"retention.ms": "soon"}, {"no.such.key": "1"}])
def test_an_invalid_configuration_is_refused(client: Client, topic_name: str, configs: dict[str, str]) -> None:
    with pytest.raises(KafkaCodeError) as refusal:
        client.create_topic(topic_name, configs=configs)
    assert refusal.value.code == INVALID_CONFIG
    assert topic_name not in client.topics()


def test_a_message_over_the_topics_limit_is_refused_and_leaves_nothing(client: Client, topic_name: str) -> None:
    client.create_topic(topic_name, configs={"max.message.bytes": "1000"})
    with pytest.raises(KafkaCodeError) as refusal:
        client.produce(topic_name, [Sent(bytes(2000))], ProduceOptions())
    assert refusal.value.code == MESSAGE_TOO_LARGE
    assert client.watermarks(topic_name) == (0, 0)
    assert client.produce(topic_name, [Sent(bytes(100))]) == [(0, 0)]


def test_deleting_records_beyond_the_end_is_refused(client: Client, topic: str) -> None:
    client.produce(topic, [Sent(b"x")])
    with pytest.raises(KafkaCodeError) as refusal:
        client.delete_records(topic, 5)
    assert refusal.value.code == OFFSET_OUT_OF_RANGE
