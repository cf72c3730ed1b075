"""Stock clients that log in to kafkapy with signed tokens; Apache Kafka 2.7.2 has none."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.security.round_trips import (
    VALUES,
    aiokafka_round_trip,
    confluent_kafka_round_trip,
    kafka_python_round_trip,
)
from harness.jars import jars_directory
from harness.java_tools import JavaTools
from harness.real_kafka import write_properties
from kafkapy.testing import Broker

RELEASES = ("3.9.1", "4.4.0")
"""Those of Java's clients that read a token from a file."""


@pytest.fixture(scope="module")
def signed_broker() -> Iterator[Broker]:
    with Broker(security="oauth") as found:
        yield found


def test_confluent_kafka(signed_broker: Broker, topic_name: str) -> None:
    confluent_kafka_round_trip(signed_broker.client_settings("confluent-kafka"), topic_name)


def test_kafka_python(signed_broker: Broker, topic_name: str) -> None:
    kafka_python_round_trip(signed_broker.client_settings("kafka-python", "bob"), topic_name)


def test_aiokafka(signed_broker: Broker, topic_name: str) -> None:
    aiokafka_round_trip(signed_broker.client_settings("aiokafka", "admin"), topic_name)


@pytest.mark.java
@pytest.mark.parametrize("release", RELEASES)
def test_java(
    signed_broker: Broker, topic_name: str, release: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not jars_directory(release).exists():
        pytest.skip(f"the jars of Kafka {release} are not here: run make jars")
    properties = {name: str(value) for name, value in signed_broker.client_settings("java").items()}
    allowed = properties["sasl.oauthbearer.token.endpoint.url"]
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={allowed}")
    tools = JavaTools(release)
    config = str(write_properties(tmp_path / "client.properties", properties))
    here = ["--bootstrap-server", properties["bootstrap.servers"], "--topic", topic_name]
    text = "".join(f"{value.decode()}\n" for value in VALUES)
    tools.run("ConsoleProducer", *here, "--producer.config", config, text=text)
    read = ["--from-beginning", "--max-messages", str(len(VALUES)), "--consumer.config", config]
    assert sorted(tools.run("ConsoleConsumer", *here, *read).split()) == sorted(value.decode() for value in VALUES)
