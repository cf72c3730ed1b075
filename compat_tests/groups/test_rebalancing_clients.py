"""Static membership and cooperative rebalancing, as librdkafka's consumers see them."""

from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from compat_tests.brokers.topics import create_topic
from compat_tests.clients.client import Sent, wait_until
from compat_tests.clients.confluent_client import ConfluentClient
from harness.process import Broker

pytestmark = pytest.mark.scenario("groups", client="confluent-kafka")

PARTITIONS = 6


class Watched:
    """A consumer that notes what it is given and what is taken from it."""

    def __init__(self, bootstrap: str, group: str, topic: str, **settings: Any) -> None:
        self.given: list[set[int]] = []
        self.taken: list[set[int]] = []
        self.values: list[bytes] = []
        self.errors: list[int] = []
        defaults = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "heartbeat.interval.ms": 200,
            "session.timeout.ms": 20_000,
            "log_level": 0,
        }
        self.consumer = Consumer({**defaults, **{name.replace("_", "."): value for name, value in settings.items()}})
        self.consumer.subscribe([topic], on_assign=self._on_assign, on_revoke=self._on_revoke)

    def _on_assign(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.given.append({each.partition for each in partitions})

    def _on_revoke(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.taken.append({each.partition for each in partitions})

    def poll(self) -> None:
        message = self.consumer.poll(0.02)
        if message is None:
            return
        error = message.error()
        if error is None:
            self.values.append(message.value() or b"")
        else:
            self.errors.append(error.code())

    @property
    def owned(self) -> set[int]:
        return {each.partition for each in self.consumer.assignment()}


def poll_until(consumers: list[Watched], condition: Any, what: str) -> None:
    def attempt() -> bool:
        for consumer in consumers:
            consumer.poll()
        return bool(condition())

    wait_until(attempt, what)


@pytest.fixture
def client(broker: Broker, topic_name: str) -> ConfluentClient:
    create_topic(broker.bootstrap, topic_name, PARTITIONS)
    return ConfluentClient(broker.bootstrap)


def test_cooperative_members_keep_their_other_partitions(
    broker: Broker, client: ConfluentClient, topic_name: str
) -> None:
    strategy = {"partition_assignment_strategy": "cooperative-sticky"}
    first = Watched(broker.bootstrap, topic_name, topic_name, **strategy)
    poll_until([first], lambda: first.owned == set(range(PARTITIONS)), "all partitions")
    second = Watched(broker.bootstrap, topic_name, topic_name, **strategy)
    both = [first, second]
    poll_until(both, lambda: len(first.owned) == len(second.owned) == PARTITIONS // 2, "an even split")
    assert first.owned | second.owned == set(range(PARTITIONS))
    assert set().union(*first.taken) == second.owned  # and nothing else was ever taken from it
    second.consumer.close()
    poll_until([first], lambda: first.owned == set(range(PARTITIONS)), "all partitions again")
    assert set().union(*first.taken) & first.given[0] == set().union(*first.taken)
    assert len(set().union(*first.taken)) == PARTITIONS // 2
    client.produce(topic_name, [Sent(b"%d" % each, partition=each) for each in range(PARTITIONS)])
    poll_until([first], lambda: len(first.values) == PARTITIONS, "a record of each partition")
    first.consumer.close()


def test_a_restarted_static_consumer_causes_no_rebalance(
    broker: Broker, client: ConfluentClient, topic_name: str
) -> None:
    def static(name: str) -> Watched:
        return Watched(broker.bootstrap, topic_name, topic_name, group_instance_id=name)

    first, second = static("one"), static("two")
    poll_until([first, second], lambda: len(first.owned) == len(second.owned) == PARTITIONS // 2, "an even split")
    kept, seen = second.owned, (len(first.given), len(first.taken))
    second.consumer.close()  # without a LeaveGroup, as static members do
    back = static("two")
    poll_until([first, back], lambda: back.owned == kept, "the same partitions")
    assert (len(first.given), len(first.taken)) == seen
    client.produce(topic_name, [Sent(b"%d" % each, partition=each) for each in range(PARTITIONS)])
    poll_until([first, back], lambda: len(first.values) + len(back.values) == PARTITIONS, "all records")
    first.consumer.close()
    back.consumer.close()


def test_a_static_member_fences_another_with_its_instance_id(
    broker: Broker, client: ConfluentClient, topic_name: str
) -> None:
    first = Watched(broker.bootstrap, topic_name, topic_name, group_instance_id="one")
    poll_until([first], lambda: first.owned == set(range(PARTITIONS)), "all partitions")
    double = Watched(broker.bootstrap, topic_name, topic_name, group_instance_id="one")
    poll_until([double], lambda: double.owned == set(range(PARTITIONS)), "the double's partitions")
    poll_until([first, double], lambda: KafkaError._FATAL in first.errors, "the end of the first")
    assert not double.errors
    double.consumer.close()
