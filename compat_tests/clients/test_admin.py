"""Topics, partitions, configurations and deletion of records through the clients' admin APIs."""

import pytest

from compat_tests.clients.client import Client, KafkaCodeError, Sent, wait_until

pytestmark = pytest.mark.scenario("admin")

TOPIC_ALREADY_EXISTS = 36


def _created(client: Client, topic: str) -> bool:
    """Creates the topic; False while the one before it is still on its way out, as Kafka with ZooKeeper answers."""
    try:
        client.create_topic(topic)
    except KafkaCodeError as refusal:
        if refusal.code == TOPIC_ALREADY_EXISTS:
            return False
        raise
    return True


def test_a_topic_is_created_listed_and_deleted(client: Client, topic_name: str) -> None:
    assert topic_name not in client.topics()
    client.create_topic(topic_name, 3)
    wait_until(lambda: client.topics().get(topic_name) == 3, "three partitions")
    client.delete_topic(topic_name)
    wait_until(lambda: topic_name not in client.topics(), "the topic's end")


def test_a_name_can_be_used_again_and_starts_empty(client: Client, topic: str) -> None:
    client.produce(topic, [Sent(b"old")] * 3)
    client.delete_topic(topic)
    wait_until(lambda: topic not in client.topics(), "the topic's end")
    wait_until(lambda: _created(client, topic), "the same name again")
    assert client.produce(topic, [Sent(b"new")]) == [(0, 0)]
    assert [record.value for record in client.consume(topic, 1)] == [b"new"]


def test_partitions_are_added_and_usable(client: Client, topic: str) -> None:
    client.add_partitions(topic, 3)
    wait_until(lambda: client.topics()[topic] == 3, "three partitions")
    assert client.produce(topic, [Sent(b"x", partition=2)]) == [(2, 0)]
    assert client.watermarks(topic, 2) == (0, 1)


def test_configurations_are_read_and_changed(client: Client, topic_name: str) -> None:
    client.create_topic(topic_name, configs={"retention.ms": "123456"})
    wait_until(lambda: topic_name in client.topics(), "the topic")  # with KRaft the broker learns of it a little later
    found = client.configs(topic_name)
    assert found["retention.ms"] == "123456"
    assert found["cleanup.policy"] == "delete"
    assert found["max.message.bytes"] in ("1048588", "1000012")
    client.set_config(topic_name, "max.message.bytes", "2000000")
    wait_until(lambda: client.configs(topic_name)["max.message.bytes"] == "2000000", "the new configuration")


def test_records_are_deleted_up_to_an_offset(client: Client, topic: str) -> None:
    client.produce(topic, [Sent(f"{i}".encode()) for i in range(10)])
    assert client.delete_records(topic, 4) == 4
    assert client.watermarks(topic) == (4, 10)
    assert [record.value for record in client.consume(topic, 6)] == [b"4", b"5", b"6", b"7", b"8", b"9"]
