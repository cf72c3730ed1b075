"""kafka-configs on topics and brokers."""

import re

import pytest

from compat_tests.clients.client import wait_until
from compat_tests.clients.java_tools.conftest import BrokerTools

pytestmark = pytest.mark.scenario("admin", client="kafka-tools-{tools_version}")


def _describe(tools: BrokerTools, kind: str, *arguments: str) -> str:
    return tools.run("ConfigCommand", "--describe", "--entity-type", kind, *arguments)


def _alter(tools: BrokerTools, kind: str, *arguments: str) -> None:
    out = tools.run("ConfigCommand", "--alter", "--entity-type", kind, *arguments)
    assert "Completed updating" in out


def test_a_topics_configuration_is_changed_and_restored(tools: BrokerTools, topic_name: str) -> None:
    tools.create(topic_name)
    topic = ["--entity-name", topic_name]
    assert "=" not in _describe(tools, "topics", *topic)
    _alter(tools, "topics", *topic, "--add-config", "retention.ms=86400000,cleanup.policy=[compact,delete]")
    changed = "retention.ms=86400000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=86400000}"
    wait_until(lambda: changed in _describe(tools, "topics", *topic), "the new retention")
    assert re.search(
        r"cleanup.policy=compact,delete sensitive=false synonyms=\{DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete, "
        r"DEFAULT_CONFIG:log.cleanup.policy=delete\}",
        _describe(tools, "topics", *topic),
    )
    _alter(tools, "topics", *topic, "--delete-config", "retention.ms,cleanup.policy")
    wait_until(lambda: "=" not in _describe(tools, "topics", *topic), "the defaults")


def test_all_of_a_topics_configuration_is_described(tools: BrokerTools, topic_name: str) -> None:
    tools.create(topic_name)
    text = _describe(tools, "topics", "--entity-name", topic_name, "--all")
    described = dict(re.findall(r"^  ([a-z.]+)=(\S*) sensitive=false", text, re.M))
    assert len(described) >= 26
    assert described["segment.bytes"] == "1073741824"
    assert described["cleanup.policy"] == "delete"
    assert described["min.insync.replicas"] == str(tools.in_sync_needed)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("max.message.bytes=soon", "max.message.bytes"),
        ("cleanup.policy=shred", "cleanup.policy"),
        ("no.such.key=1", "no.such.key"),
    ],
)
def test_an_invalid_topic_configuration_is_refused(
    tools: BrokerTools, topic_name: str, change: str, message: str
) -> None:
    tools.create(topic_name)
    topic = ["--entity-type", "topics", "--entity-name", topic_name]
    said = tools.attempt("ConfigCommand", "--alter", *topic, "--add-config", change)
    assert said.code == 1
    assert message in said.err
    assert re.search("InvalidConfigurationException|InvalidRequestException", said.err)
    assert "=" not in _describe(tools, "topics", "--entity-name", topic_name)


def test_an_unknown_topics_configuration_is_refused(tools: BrokerTools, topic_name: str) -> None:
    topic = ["--entity-type", "topics", "--entity-name", topic_name]
    said = tools.attempt("ConfigCommand", "--alter", *topic, "--add-config", "retention.ms=1")
    assert said.code == 1
    assert "UnknownTopicOrPartitionException" in said.err


def test_a_brokers_configuration_is_changed_and_restored(tools: BrokerTools) -> None:
    broker = ["--entity-name", tools.broker_id()]
    _alter(tools, "brokers", *broker, "--add-config", "log.cleaner.threads=2")
    wanted = r"log.cleaner.threads=2 sensitive=false synonyms=\{DYNAMIC_BROKER_CONFIG:log.cleaner.threads=2, .*DEFAULT"
    wait_until(lambda: re.search(wanted, _describe(tools, "brokers", *broker)) is not None, "two cleaner threads")
    _alter(tools, "brokers", *broker, "--delete-config", "log.cleaner.threads")
    wait_until(lambda: "log.cleaner.threads" not in _describe(tools, "brokers", *broker), "the default")


def test_the_clusters_default_configuration_is_changed_and_restored(tools: BrokerTools) -> None:
    default = ["--entity-default"]
    broker = ["--entity-name", tools.broker_id(), "--all"]
    _alter(tools, "brokers", *default, "--add-config", "message.max.bytes=2000000")
    wanted = "DYNAMIC_DEFAULT_BROKER_CONFIG:message.max.bytes=2000000"
    wait_until(lambda: wanted in _describe(tools, "brokers", *broker), "the new limit")
    wait_until(lambda: "message.max.bytes=2000000" in _describe(tools, "brokers", *default), "the default for all")
    _alter(tools, "brokers", *default, "--delete-config", "message.max.bytes")
    wait_until(lambda: wanted not in _describe(tools, "brokers", *broker), "the old limit")


def test_all_of_a_brokers_configuration_is_described(tools: BrokerTools) -> None:
    text = _describe(tools, "brokers", "--entity-name", tools.broker_id(), "--all")
    described = dict(re.findall(r"^  ([a-z.0-9]+)=(\S*) sensitive=", text, re.M))
    assert len(described) >= 190
    assert described["log.segment.bytes"] == "1073741824"
    assert described["num.partitions"] == "1"
    assert "ssl.keystore.password=null sensitive=true" in text


def test_a_read_only_broker_configuration_is_refused(tools: BrokerTools) -> None:
    broker = ["--entity-type", "brokers", "--entity-name", tools.broker_id()]
    said = tools.attempt("ConfigCommand", "--alter", *broker, "--add-config", "log.dir=elsewhere")
    assert said.code == 1
    assert "log.dir" in said.err
