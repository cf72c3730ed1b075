"""Records that a Python client writes and reads back in a group, with the settings by which it logs in."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer

VALUES: Final = [b"%d" % number for number in range(50)]
WAIT_S: Final = 30


def confluent_kafka_round_trip(settings: Mapping[str, Any], topic: str) -> None:
    """Write and read `VALUES` with librdkafka; AssertionError for other records, or too few in time."""
    producer = Producer(dict(settings))
    for value in VALUES:
        producer.produce(topic, value, partition=0)
    assert producer.flush(WAIT_S) == 0
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found = consumer.consume(len(VALUES), WAIT_S)
    consumer.close()
    assert [each.value() for each in found] == VALUES


def kafka_python_round_trip(settings: Mapping[str, Any], topic: str) -> None:
    """The same with kafka-python."""
    producer = KafkaProducer(**settings)
    for value in VALUES:
        producer.send(topic, value, partition=0)
    producer.close(WAIT_S)
    consumer = KafkaConsumer(topic, group_id=topic, auto_offset_reset="earliest", **settings)
    found = [next(consumer).value for _ in VALUES]
    consumer.close()
    assert found == VALUES


def aiokafka_round_trip(settings: Mapping[str, Any], topic: str) -> None:
    """The same with aiokafka."""

    async def scenario() -> list[bytes]:
        async with AIOKafkaProducer(**settings) as producer:
            for value in VALUES:
                await producer.send_and_wait(topic, value, partition=0)
        async with AIOKafkaConsumer(topic, group_id=topic, auto_offset_reset="earliest", **settings) as consumer:
            return [(await consumer.getone()).value for _ in VALUES]

    assert asyncio.run(asyncio.wait_for(scenario(), WAIT_S)) == VALUES
