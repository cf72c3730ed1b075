"""Configurations that a broker refuses to start with: contradicting values, and features that do not exist."""

import re

import pytest

from kafkapy.config.broker_config import BrokerConfig, check_built
from kafkapy.config.broker_keys import base_name
from kafkapy.config.errors import InvalidConfigError
from kafkapy.config.java_classes import KNOWN_CLASSES


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ({"broker.id": "-2"}, "broker.id: must be at least -1"),
        ({"broker.id": "-1", "broker.id.generation.enable": "false"}, "broker.id: must be at least 0"),
        ({"broker.id": "1001"}, "must not be above reserved.broker.max.id"),
        ({"log.dirs": " , "}, "log.dirs: must name at least one directory"),
        ({"log.dirs": "", "log.dir": "/a"}, "log.dirs: must name at least one directory"),
        ({"log.roll.ms": "0"}, "log.roll.ms: must be at least 1"),
        ({"log.roll.jitter.ms": "-1"}, "log.roll.jitter.ms: must be at least 0"),
        ({"compression.type": "none"}, "compression.type: String must be one of: uncompressed"),
        ({"offsets.topic.compression.codec": "5"}, "codec: must be between 0 and 4"),
        ({"offsets.topic.compression.codec": "-1"}, "codec: must be between 0 and 4"),
        (
            {
                "offsets.topic.compression.codec": "4",
                "inter.broker.protocol.version": "0.10.2",
                "log.message.format.version": "0.10.2",
            },
            "0.10.2's message format has no zstd",
        ),
        ({"queued.max.request.bytes": "104857599"}, "must not be below socket.request.max.bytes"),
        ({"max.connections.per.ip": "0"}, "max.connections.per.ip: is possible with"),
        ({"max.connections.per.ip.overrides": "a:1,,b:2"}, "each item must be ADDRESS:NUMBER"),
        ({"connections.max.idle.ms": "100"}, "delay.ms: must be below connections.max.idle.ms, 100"),
        ({"log.retention.ms": "0"}, "log.retention.ms: must be -1"),
        ({"log.retention.minutes": "0"}, "log.retention.ms: must be -1"),
        ({"log.cleaner.threads": "128"}, "more than 1 MiB per cleaner thread"),
        ({"replica.fetch.wait.max.ms": "30001"}, "must not be above replica.socket.timeout.ms"),
        ({"replica.lag.time.max.ms": "499"}, "must not be above replica.lag.time.max.ms"),
        ({"offsets.commit.required.acks": "2"}, "offsets.commit.required.acks: must be between -1"),
        ({"offsets.commit.required.acks": "-2"}, "offsets.commit.required.acks: must be between -1"),
        (
            {"inter.broker.protocol.version": "0.10.0"},
            "log.message.format.version: is above what inter.broker.protocol",
        ),
        ({"listeners": " , "}, "must name at least one listener"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}, "clients can't connect to 0.0.0.0"),
        ({"advertised.listeners": "SSL://a:9092"}, "names SSL, which listeners lacks"),
    ],
)
def test_contradicting_values_are_refused(properties: dict[str, str], problem: str) -> None:
    with pytest.raises(InvalidConfigError, match=problem):
        BrokerConfig.from_properties(properties)


@pytest.mark.parametrize(
    "properties",
    [
        {"broker.id": "1001", "broker.id.generation.enable": "false"},
        {"log.cleaner.threads": "0"},
        {"log.retention.ms": "-1"},
        {"offsets.commit.required.acks": "1"},
        {"inter.broker.protocol.version": "0.10.2", "log.message.format.version": "0.10.0"},
        {"inter.broker.protocol.version": "0.11.0-IV0"},
        {"offsets.topic.compression.codec": "4", "inter.broker.protocol.version": "1.0"},
        {"queued.max.request.bytes": "104857600"},
        {"queued.max.request.bytes": "0"},
        {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "a:1"},
        {"connections.max.idle.ms": "-1"},
        {"connections.max.idle.ms": "101"},
        {"listeners": "PLAINTEXT://:0", "advertised.listeners": "PLAINTEXT://broker:9092"},
    ],
)
def test_consistent_values_are_accepted(properties: dict[str, str]) -> None:
    config = BrokerConfig.from_properties(properties)
    assert {name: config.originals[name] for name in properties} == properties


@pytest.mark.parametrize("name", KNOWN_CLASSES["authorizer.class.name"])
def test_the_authorizer_of_apache_kafka_is_accepted(name: str) -> None:
    settings = {"authorizer.class.name": name, "super.users": "User:a", "allow.everyone.if.no.acl.found": "true"}
    config = BrokerConfig.from_properties(settings)
    check_built(config)
    assert config.unknown == ()


_KINDS_OF_NAMES = {
    "principal.builder.class": ("", "listener.name.out."),
    "ssl.engine.factory.class": ("", "listener.name.out."),
    "sasl.client.callback.handler.class": ("", "listener.name.out."),
    "sasl.server.callback.handler.class": ("", "listener.name.out.", "listener.name.out.scram-sha-256."),
    "sasl.login.class": ("", "listener.name.out.", "listener.name.out.plain."),
    "sasl.login.callback.handler.class": ("", "listener.name.out.", "listener.name.out.plain."),
}


@pytest.mark.parametrize("name", [prefix + key for key, prefixes in _KINDS_OF_NAMES.items() for prefix in prefixes])
def test_only_apache_kafkas_own_classes_of_security_are_accepted(name: str) -> None:
    for own in KNOWN_CLASSES[base_name(name)]:
        check_built(BrokerConfig.from_properties({name: own}))
    message = f"{name} is a.B: kafkapy can't load Java classes, it has only {KNOWN_CLASSES[base_name(name)][0]}"
    with pytest.raises(InvalidConfigError, match=f"^{re.escape(message)}$"):
        check_built(BrokerConfig.from_properties({name: "a.B"}))


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"security.providers": "a.B"}, "security.providers is set: kafkapy can't load Java classes"),
        ({"zookeeper.ssl.crl.enable": "true"}, "zookeeper.ssl.crl.enable is set: kafkapy reads no revocation lists"),
        (
            {"authorizer.class.name": "a.B"},
            "authorizer.class.name is a.B: kafkapy can't load",
        ),
        ({"create.topic.policy.class.name": "a.B"}, "can't load Java classes"),
        (
            {"replica.selector.class": "a.B"},
            "replica.selector.class is a.B: kafkapy can't load Java classes, it has only",
        ),
        (
            {"zookeeper.connect": "h:1", "inter.broker.protocol.version": "2.5", "log.message.format.version": "2.5"},
            "inter.broker.protocol.version is 2.5: in a cluster it must be at least 2.6-IV0",
        ),
    ],
)
def test_features_that_kafkapy_lacks_are_refused(properties: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidConfigError, match=message):
        check_built(BrokerConfig.from_properties(properties))


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"listeners": "IN://:1", "listener.security.protocol.map": "IN:PLAINTEXT"},
        {"zookeeper.connect": "", "inter.broker.protocol.version": "0.10.2", "log.message.format.version": "0.10.2"},
    ],
)
def test_features_that_kafkapy_has_are_accepted(properties: dict[str, str]) -> None:
    config = BrokerConfig.from_properties(properties)
    check_built(config)
    assert config.embedded_store


def test_a_cluster_on_a_zookeeper_is_accepted() -> None:
    config = BrokerConfig.from_properties(
        {
            "zookeeper.connect": "localhost:2181",
            "inter.broker.protocol.version": "2.6-IV0",
            "log.message.format.version": "2.6",
            "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
        }
    )
    check_built(config)
    assert not config.embedded_store
