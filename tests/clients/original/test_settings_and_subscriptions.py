"""Settings by Kafka's names, and subscriptions as registrations have them."""

import json
import socket
from collections.abc import Sequence
from typing import ClassVar

import pytest

from kafkapy.clients.original.keyed_messages import KeyedMessage
from kafkapy.clients.original.producer import CallbackHandler, OriginalProducer, ProducerParts
from kafkapy.clients.original.registry import KazooRegistry, RegistryError, broker_address
from kafkapy.clients.original.settings import (
    ConsumerConnectorSettings,
    OriginalProducerSettings,
    SettingsError,
    ZooKeeperConnectSettings,
)
from kafkapy.clients.original.subscription import Subscription, SubscriptionError, TopicFilter


def test_the_defaults_are_those_of_kafka_0_8_2() -> None:
    settings = ConsumerConnectorSettings.from_properties({"group.id": "g"})
    assert (settings.auto_commit_interval_ms, settings.auto_offset_reset) == (60_000, "largest")
    assert (settings.rebalance_max_retries, settings.rebalance_backoff_ms) == (4, 2_000)
    assert (settings.queued_max_message_chunks, settings.fetch_message_max_bytes) == (2, 1 << 20)
    assert (settings.offsets_storage, settings.dual_commit_enabled) == ("zookeeper", False)
    assert ConsumerConnectorSettings.from_properties({"group.id": "g", "offsets.storage": "kafka"}).dual_commit_enabled


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "group.id is missing"),
        ({"group.id": "a/b"}, "nor contain"),
        ({"group.id": "g", "rebalance.backoff.ms": "soon"}, "rebalance.backoff.ms='soon'.*whole number"),
        ({"group.id": "g", "queued.max.message.chunks": "0"}, "from 1 to"),
        ({"group.id": "g", "auto.offset.reset": "earliest"}, "one of smallest, largest"),
        ({"group.id": "g", "partition.assignment.strategy": "roundrobin"}, "must be one of range"),
        ({"group.id": "g", "zk.connect": "a:1", "zookeeper.connect": "a:1"}, "are the same setting"),
        ({"group.id": "g", "auto.comit.enable": "true"}, r"unknown settings: auto\.comit\.enable"),
    ],
)
def test_bad_settings_are_named(given: dict[str, str], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        ConsumerConnectorSettings.from_properties(given)


def test_documented_names_of_the_consumer_are_taken() -> None:
    given = {"group.id": "g", "zk.connect": "host:2181/kafka", "partition.assignment.strategy": "range"}
    assert ConsumerConnectorSettings.from_properties(given).zookeeper.connect == "host:2181/kafka"


def test_settings_name_the_parts_of_a_producer() -> None:
    here = __name__
    names = {
        "event.handler": f"{here}.Handler",
        "callback.handler": f"{here}.Callbacks",
        "partitioner.class": f"{here}.last_partition",
    }
    settings = OriginalProducerSettings.from_properties(names)
    assert isinstance(settings.event_handler, Handler)
    assert isinstance(settings.callback_handler, Callbacks)
    assert settings.partitioner is last_partition
    with OriginalProducer(names) as producer:
        producer.send(KeyedMessage("t", b"v"))
    assert Handler.handled == [b"v"]


@pytest.mark.parametrize(
    "name", ["nodots", ".", "..a", "no.such_module", "kafka.producer.DefaultPartitioner", "\0.x", "a" * 10_000]
)
def test_a_part_that_is_not_there_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match=r"^partitioner\.class=.*: it must be a dotted name of Python"):
        OriginalProducerSettings.from_properties({"partitioner.class": name})


def test_a_part_is_given_once() -> None:
    names = {"partitioner.class": f"{__name__}.last_partition", "metadata.broker.list": "127.0.0.1:1"}
    with pytest.raises(SettingsError, match=r"partitioner\.class and the part partitioner are the same"):
        OriginalProducer(names, ProducerParts(partitioner=last_partition))


class Handler:
    """An event handler that keeps what it is given."""

    handled: ClassVar[list[object]] = []

    def handle(self, messages: Sequence[KeyedMessage]) -> None:
        self.handled.extend(message.message for message in messages)

    def close(self) -> None:
        pass


class Callbacks(CallbackHandler):
    """The hooks as they are."""


def last_partition(_key: object, partitions: int) -> int:
    return partitions - 1


def test_registrations_have_the_form_of_kafka_0_8_2() -> None:
    subscription = Subscription.of_topics({"flights": 2, "ü": 1})
    content = subscription.to_json(1_416_847_228_312)
    assert json.loads(content) == {
        "version": 1,
        "subscription": {"flights": 2, "ü": 1},
        "pattern": "static",
        "timestamp": "1416847228312",
    }
    assert Subscription.from_json(content) == subscription
    listed = Subscription.of_filter(TopicFilter.black_list('"a, b\\.c"'), 3)
    assert json.loads(listed.to_json(0))["subscription"] == {"a|b\\.c": 3}
    assert Subscription.from_json(listed.to_json(0)) == listed


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{}", b'{"subscription":{"a":"x"}}', b'{"subscription":{"(":1},"pattern":"white_list"}',
     b'{"subscription":{"a":1},"pattern":"odd"}', b'{"subscription":{},"pattern":"white_list"}', b"\xff", b"[" * 5000],
)  # fmt: skip
def test_what_is_no_registration_is_refused(content: bytes) -> None:
    with pytest.raises(SubscriptionError):
        Subscription.from_json(content)


def test_lists_match_whole_names_and_leave_internal_topics_out() -> None:
    white = TopicFilter.white_list("a.*,b")
    names = ("ab", "b", "bb", "__consumer_offsets")
    assert [name for name in names if white.allows(name, exclude_internal=True)] == ["ab", "b"]
    black = TopicFilter.black_list("a.*|b")
    assert [name for name in names if black.allows(name, exclude_internal=True)] == ["bb"]
    assert [name for name in names if black.allows(name, exclude_internal=False)] == ["bb", "__consumer_offsets"]
    with pytest.raises(SubscriptionError, match="no regular expression"):
        TopicFilter.white_list("(")


def test_empty_subscriptions_are_refused() -> None:
    for streams in ({}, {"a": 0}):
        with pytest.raises(SubscriptionError):
            Subscription.of_topics(streams)
    with pytest.raises(SubscriptionError):
        Subscription.of_filter(TopicFilter.white_list("a"), 0)


def test_addresses_of_registered_brokers() -> None:
    assert broker_address(b'{"host":"h","port":9092,"version":1}') == "h:9092"
    assert broker_address(b'{"host":"::1","port":9092,"version":1}') == "[::1]:9092"
    only_endpoints = b'{"host":null,"port":-1,"endpoints":["SSL://h:1","PLAINTEXT://h:2"],"version":4}'
    assert broker_address(only_endpoints) == "h:2"
    assert broker_address(b'{"host":null,"port":-1,"endpoints":["SSL://h:1"],"version":4}') is None
    assert broker_address(b"[]") is None


def test_a_zookeeper_that_does_not_answer_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:  # it accepts connections, and answers nothing
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(RegistryError, match=rf"no ZooKeeper answers at {address} within 100 ms: check zookeeper\."):
            KazooRegistry(ZooKeeperConnectSettings(address, 300, 100))
