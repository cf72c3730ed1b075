"""Brokers of tests with TLS and SASL, used by stock clients."""

import asyncio
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer
from kafka import KafkaProducer

from kafkapy.testing import AsyncBroker, Broker, BrokerStartError
from kafkapy.testing.hosting.security import CLIENTS, KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_stock_clients_connect_with_the_settings_that_they_are_given(kind: str) -> None:
    failed: list[Any] = []
    with Broker(security=kind) as broker:
        for again in range(2):
            first = Producer(broker.client_settings("confluent-kafka"))
            first.produce("t", b"confluent", callback=lambda error, _: failed.append(error))
            assert first.flush(10) == 0
            second: Any = KafkaProducer(**broker.client_settings("kafka-python", "bob"))
            second.send("t", b"kafka-python").get(10)
            second.close()
            if not again:
                broker.restart()
        assert failed == [None, None]
        assert [each.value for each in broker.records("t")] == [b"confluent", b"kafka-python"] * 2


def test_an_async_client_connects_to_an_async_broker() -> None:
    async def scenario() -> None:
        async with AsyncBroker(security="scram", users={'o"dd\\,=': 'pass"w\\ord'}) as broker:
            producer = AIOKafkaProducer(**broker.client_settings("aiokafka", 'o"dd\\,='))
            await producer.start()
            await producer.send_and_wait("t", b"v")
            await producer.stop()
            assert [each.value for each in await broker.records("t")] == [b"v"]

    asyncio.run(scenario())


def test_settings_of_java_and_spark() -> None:
    with Broker(security="mtls") as broker:
        java, spark = broker.client_settings("java"), broker.client_settings("spark")
        assert spark == {f"kafka.{name}": value for name, value in java.items()}
        assert java["security.protocol"] == "SSL"
        assert "BEGIN PRIVATE KEY" in str(java["ssl.keystore.key"])
    with Broker(security="sasl_plaintext", users={"u": 'p"'}) as broker:
        assert broker.client_settings("java", "u")["sasl.jaas.config"] == (
            'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p\\"";'
        )


def test_what_does_not_exist_is_refused() -> None:
    with pytest.raises(BrokerStartError, match="security is 'tls': it must be one of ssl, mtls"):
        Broker(security="tls")
    with Broker() as broker:
        assert broker.security is None
        with pytest.raises(ValueError, match=r"Broker\(security="):
            broker.client_settings("java")
    with Broker(security="scram") as broker:
        with pytest.raises(ValueError, match=f"one of {', '.join(CLIENTS)}"):
            broker.client_settings("kafkajs")
        with pytest.raises(ValueError, match="the broker has admin, alice, bob"):
            broker.client_settings("java", "nobody")
        assert broker.security is not None
        assert "BEGIN CERTIFICATE" in broker.security.authority_pem
