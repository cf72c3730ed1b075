"""Stock clients over each security protocol and mechanism: the settings that ``kafkapy.testing`` gives them work on
kafkapy and on Apache Kafka."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer

from compat_tests.clients.java_tools.tools import ToolsOf
from compat_tests.security.secured import KINDS, SecuredBroker
from harness.real_kafka import write_properties

VALUES = [b"%d" % number for number in range(50)]
WAIT_S = 30
pytestmark = [pytest.mark.together, pytest.mark.parametrize("kind", KINDS)]


@pytest.mark.scenario("security", client="confluent-kafka")
def test_confluent_kafka(secured_broker: SecuredBroker, kind: str, topic_name: str) -> None:
    settings = secured_broker.client_settings(kind, "confluent-kafka")
    producer = Producer(settings)
    for value in VALUES:
        producer.produce(topic_name, value, partition=0)
    assert producer.flush(WAIT_S) == 0
    consumer = Consumer({**settings, "group.id": topic_name, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic_name])
    found = consumer.consume(len(VALUES), WAIT_S)
    consumer.close()
    assert [each.value() for each in found] == VALUES


@pytest.mark.scenario("security", client="kafka-python")
def test_kafka_python(secured_broker: SecuredBroker, kind: str, topic_name: str) -> None:
    settings: Any = secured_broker.client_settings(kind, "kafka-python", "bob")
    producer = KafkaProducer(**settings)
    for value in VALUES:
        producer.send(topic_name, value, partition=0)
    producer.close(WAIT_S)
    consumer = KafkaConsumer(topic_name, group_id=topic_name, auto_offset_reset="earliest", **settings)
    found = [next(consumer).value for _ in VALUES]
    consumer.close()
    assert found == VALUES


@pytest.mark.scenario("security", client="aiokafka")
def test_aiokafka(secured_broker: SecuredBroker, kind: str, topic_name: str) -> None:
    settings: Any = secured_broker.client_settings(kind, "aiokafka", "admin")

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
