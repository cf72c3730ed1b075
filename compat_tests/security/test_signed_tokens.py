"""Stock clients that log in to kafkapy with signed tokens; Apache Kafka 2.7.2 has none."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer

from harness.jars import jars_directory
from harness.java_tools import JavaTools
from harness.real_kafka import write_properties
from kafkapy.testing import Broker

VALUES = [b"%d" % number for number in range(50)]
WAIT_S = 30
RELEASES = ("3.9.1", "4.1.0")
"""Those of Java's clients that read a token from a file."""


@pytest.fixture(scope="module")
def signed_broker() -> Iterator[Broker]:
    with Broker(security="oauth") as found:
        yield found


def test_confluent_kafka(signed_broker: Broker, topic_name: str) -> None:
    settings = signed_broker.client_settings("confluent-kafka")
    producer = Producer(settings)
    for value in VALUES:
        producer.produce(topic_name, value, partition=0)
    assert producer.flush(WAIT_S) == 0
    consumer = Consumer({**settings, "group.id": topic_name, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic_name])
    found = consumer.consume(len(VALUES), WAIT_S)
    consumer.close()
    assert [each.value() for each in found] == VALUES


def test_kafka_python(signed_broker: Broker, topic_name: str) -> None:
    settings: Any = signed_broker.client_settings("kafka-python", "bob")
    producer = KafkaProducer(**settings)
    for value in VALUES:
        producer.send(topic_name, value, partition=0)
    producer.close(WAIT_S)
    consumer = KafkaConsumer(topic_name, group_id=topic_name, auto_offset_reset="earliest", **settings)
    found = [next(consumer).value for _ in VALUES]
    consumer.close()
    assert found == VALUES


def test_aiokafka(signed_broker: Broker, topic_name: str) -> None:
    settings: Any = signed_broker.client_settings("aiokafka", "admin")

    async def scenario() -> list[bytes]:
        async with AIOKafkaProducer(**settings) as producer:
            for value in VALUES:
                await producer.send_and_wait(topic_name, value, partition=0)
        async with AIOKafkaConsumer(
            topic_name, group_id=topic_name, auto_offset_reset="earliest", **settings
        ) as consumer:
            return [(await consumer.getone()).value for _ in VALUES]

    assert asyncio.run(asyncio.wait_for(scenario(), WAIT_S)) == VALUES


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
