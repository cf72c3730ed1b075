"""Stock clients over each security protocol and mechanism: the settings that ``kafkapy.testing`` gives them work on
kafkapy and on Apache Kafka."""

import asyncio
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError as AiokafkaError
from confluent_kafka import Producer
from kafka import KafkaProducer
from kafka.errors import KafkaError

from compat_tests.clients.java_tools.tools import ToolsOf
from compat_tests.security.round_trips import (
    VALUES,
    WAIT_S,
    aiokafka_round_trip,
    confluent_kafka_round_trip,
    kafka_python_round_trip,
)
from compat_tests.security.secured import KINDS, SecuredBroker
from harness.real_kafka import write_properties

PASSWORD_KINDS = ("sasl_ssl", "scram_plaintext")
pytestmark = pytest.mark.together
each_kind = pytest.mark.parametrize("kind", KINDS)
each_password_kind = pytest.mark.parametrize("kind", PASSWORD_KINDS)


@each_kind
@pytest.mark.scenario("security", client="confluent-kafka")
def test_confluent_kafka(secured_broker: SecuredBroker, kind: str, topic_name: str) -> None:
    confluent_kafka_round_trip(secured_broker.client_settings(kind, "confluent-kafka"), topic_name)


@each_kind
@pytest.mark.scenario("security", client="kafka-python")
def test_kafka_python(secured_broker: SecuredBroker, kind: str, topic_name: str) -> None:
    kafka_python_round_trip(secured_broker.client_settings(kind, "kafka-python", "bob"), topic_name)


@each_kind
@pytest.mark.scenario("security", client="aiokafka")
def test_aiokafka(secured_broker: SecuredBroker, kind: str, topic_name: str) -> None:
    aiokafka_round_trip(secured_broker.client_settings(kind, "aiokafka", "admin"), topic_name)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if KINDS[kind].mechanism != "OAUTHBEARER"])
@pytest.mark.scenario("security", client="kcat")
def test_kcat(secured_broker: SecuredBroker, kind: str, topic_name: str) -> None:
    if shutil.which("kcat") is None:
        pytest.skip("kcat is not installed (Debian's package of that name)")
    settings = secured_broker.client_settings(kind, "kcat")
    words = [word for name, value in settings.items() for word in ("-X", f"{name}={value}")]

    def kcat(*arguments: str, text: str = "") -> str:
        command = ["kcat", "-m", str(WAIT_S), *words, *arguments]
        return subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=True).stdout

    kcat("-P", "-t", topic_name, "-p", "0", text="".join(f"{value.decode()}\n" for value in VALUES))
    found = kcat("-X", "auto.offset.reset=earliest", "-e", "-q", "-G", topic_name, topic_name)
    assert found.split() == [value.decode() for value in VALUES]


@each_password_kind
@pytest.mark.scenario("security", client="confluent-kafka")
def test_confluent_kafka_is_refused(secured_broker: SecuredBroker, kind: str) -> None:
    errors: list[str] = []
    settings = secured_broker.client_settings(kind, "confluent-kafka") | {
        "sasl.password": "a-guess",
        "error_cb": lambda error: errors.append(str(error)),
    }
    producer = Producer(settings)
    deadline_s = time.monotonic() + WAIT_S
    while not errors and time.monotonic() < deadline_s:
        producer.poll(0.1)
    assert "authentication" in errors[0].lower()


@each_password_kind
@pytest.mark.scenario("security", client="kafka-python")
def test_kafka_python_is_refused(secured_broker: SecuredBroker, kind: str) -> None:
    """The library tries again until its time-out, which is all that it then tells of."""
    settings: Any = secured_broker.client_settings(kind, "kafka-python") | {"sasl_plain_password": "a-guess"}
    with pytest.raises(KafkaError):
        KafkaProducer(**settings, bootstrap_timeout_ms=2000)


@each_password_kind
@pytest.mark.scenario("security", client="aiokafka")
def test_aiokafka_is_refused(secured_broker: SecuredBroker, kind: str) -> None:
    settings: Any = secured_broker.client_settings(kind, "aiokafka") | {"sasl_plain_password": "a-guess"}

    async def scenario() -> None:
        producer = AIOKafkaProducer(**settings)
        try:
            with pytest.raises(AiokafkaError):
                await producer.start()
        finally:
            await producer.stop()

    asyncio.run(asyncio.wait_for(scenario(), WAIT_S))


@each_kind
@pytest.mark.java
@pytest.mark.scenario("security", client="java-{tools_version}")
def test_java(
    secured_broker: SecuredBroker, kind: str, topic_name: str, tools_version: str, tools_of: ToolsOf, tmp_path: Path
) -> None:
    tools = tools_of(tools_version)
    properties = {name: str(value) for name, value in secured_broker.client_settings(kind, "java").items()}
    config = write_properties(tmp_path / "client.properties", properties)
    here = ["--bootstrap-server", properties["bootstrap.servers"], "--topic", topic_name]
    text = "".join(f"{value.decode()}\n" for value in VALUES)
    tools.run("ConsoleProducer", *here, "--producer.config", str(config), text=text)
    read = ["--from-beginning", "--max-messages", str(len(VALUES)), "--consumer.config", str(config)]
    assert sorted(tools.run("ConsoleConsumer", *here, *read).split()) == sorted(value.decode() for value in VALUES)
    listed = tools.run("TopicCommand", here[0], here[1], "--list", "--command-config", str(config))
    assert topic_name in listed.split()
