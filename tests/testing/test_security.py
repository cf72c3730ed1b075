"""Brokers of tests with TLS and SASL, used by stock clients."""

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer
from kafka import KafkaProducer

from kafkapy.testing import AsyncBroker, Broker, BrokerStartError, Cluster
from kafkapy.testing.hosting.security import CLIENTS, KINDS
from kafkapy.testing.hosting.tokens import kafka_python_tokens


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


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not KINDS[kind].has_signed_tokens])
def test_the_brokers_of_a_cluster_reach_each_other_over_the_same_protocol(kind: str) -> None:
    with Cluster(brokers=2, security=kind, topics={"t": 2}) as cluster:
        assert len(cluster.brokers) == 2
        producer = Producer(cluster.client_settings("confluent-kafka") | {"acks": "all"})
        failed: list[Any] = []
        for partition in (0, 1):
            producer.produce("t", b"v", partition=partition, callback=lambda error, _: failed.append(error))
        assert producer.flush(20) == 0
        assert failed == [None, None]
        cluster.wait_until_in_sync("t")
        assert [each.value for each in cluster.records("t")] == [b"v", b"v"]
        leader = cluster.leader("t", 0)
        leader.stop()
        leader.start()
        cluster.wait_until_in_sync("t")


def test_what_a_cluster_can_t_have_is_refused() -> None:
    with pytest.raises(BrokerStartError, match="a cluster can have 'oauth_unsecured'"):
        Cluster(security="oauth")
    with pytest.raises(BrokerStartError, match="users need 'admin'"):
        Cluster(security="scram", users={"alice": "a"})
    with pytest.raises(ValueError, match="the cluster has no security"):
        Cluster().client_settings("java")


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


def test_settings_of_clients_in_other_languages() -> None:
    with Broker(security="scram", users={"u": "p"}) as broker:
        assert broker.security is not None
        authority = broker.security.authority_pem
        node = broker.client_settings("kafkajs", "u")
        login = {"mechanism": "scram-sha-256", "username": "u", "password": "p"}
        assert node == {"brokers": [broker.bootstrap], "ssl": {"ca": [authority]}, "sasl": login}
        for client in ("franz-go", "sarama", "kafka-go", "rskafka"):
            assert broker.client_settings(client, "u") == {
                "brokers": [broker.bootstrap],
                "tls": {"ca": authority},
                "sasl": login | {"mechanism": "SCRAM-SHA-256"},
            }
        library = broker.client_settings("librdkafka", "u")
        assert broker.client_settings("kcat", "u") == broker.client_settings("rdkafka", "u") == library
        assert {name for name in library if name.startswith("ssl")} == {"ssl.ca.pem"}
    with Broker(security="mtls") as broker:
        assert _section(broker.client_settings("franz-go"), "tls").keys() == {"ca", "certificate", "key"}
        assert _section(broker.client_settings("kafkajs"), "ssl").keys() == {"ca", "cert", "key"}
    with Broker(security="sasl_plaintext") as broker:
        assert broker.client_settings("kafkajs").keys() == {"brokers", "sasl"}


def _section(settings: dict[str, object], name: str) -> dict[str, object]:
    section = settings[name]
    assert isinstance(section, dict)
    return section


def test_what_does_not_exist_is_refused() -> None:
    with pytest.raises(BrokerStartError, match="security is 'tls': it must be one of ssl, mtls"):
        Broker(security="tls")
    with Broker() as broker:
        assert broker.security is None
        with pytest.raises(ValueError, match=r"Broker\(security="):
            broker.client_settings("java")
    with Broker(security="scram") as broker:
        with pytest.raises(ValueError, match=f"one of {', '.join(CLIENTS)}"):
            broker.client_settings("pykafka")
        with pytest.raises(ValueError, match="the broker has admin, alice, bob"):
            broker.client_settings("java", "nobody")
        assert broker.security is not None
        assert "BEGIN CERTIFICATE" in broker.security.authority_pem


def test_faults_of_tokens_reach_a_stock_client() -> None:
    with Broker(security="oauth") as broker:
        for faulty in (
            {"expires_in_s": -60.0},
            {"foreign_key": True},
        ):
            settings = broker.client_settings("confluent-kafka")
            token = broker.token("alice", **faulty)
            errors: list[str] = []
            settings |= {
                "oauth_cb": lambda _config, token=token: (token, time.time() + 60),
                "error_cb": lambda error, errors=errors: errors.append(str(error)),
            }
            producer = Producer(settings)
            deadline_s = time.monotonic() + 10
            while not errors and time.monotonic() < deadline_s:
                producer.poll(0.1)
            assert "invalid_token" in errors[0], errors


@pytest.mark.slow
def test_a_client_goes_on_when_its_token_has_ended() -> None:
    """A token of three seconds: confluent-kafka authenticates again, kafka-python connects again."""
    with Broker(security="oauth", topics=["t"]) as broker:
        settings = broker.client_settings("confluent-kafka")
        settings["oauth_cb"] = lambda _config: (broker.token("alice", 3), time.time() + 3)
        producer = Producer(settings)
        other: Any = broker.client_settings("kafka-python", "bob")
        other["sasl_oauth_token_provider"] = kafka_python_tokens(lambda: broker.token("bob", 3))
        second = KafkaProducer(**other)
        deadline_s = time.monotonic() + 5
        sent = 0
        while time.monotonic() < deadline_s:
            producer.produce("t", b"v")
            assert producer.flush(10) == 0
            second.send("t", b"v").get(10)
            sent += 2
            time.sleep(0.25)
        second.close()
        assert len(broker.records("t")) >= sent


def test_a_token_ends_with_the_broker_s_clock() -> None:
    with Broker(security="oauth") as broker:
        broker.clock.advance(10 * 3_600_000)
        producer = Producer(broker.client_settings("confluent-kafka"))
        producer.produce("t", b"v")
        assert producer.flush(10) == 0


def test_tokens_are_of_brokers_that_take_them() -> None:
    for kind in (None, "scram", "oauth_unsecured"):
        with Broker(security=kind) as broker, pytest.raises(ValueError, match=r"Broker\(security='oauth'\)"):
            broker.token("alice", foreign_key=True)
    with Broker(security="oauth") as broker:
        for client in ("librdkafka", "kcat", "kafkajs"):
            with pytest.raises(ValueError, match=rf"{client} takes .*broker\.token\(user\)"):
                broker.client_settings(client)
        assert str(_section(broker.client_settings("franz-go"), "sasl")["token"]).startswith("ey")
        java = broker.client_settings("java")
        assert str(java["sasl.oauthbearer.token.endpoint.url"]).startswith("file:///")


@pytest.mark.parametrize("kind", ["oauth", "oauth_unsecured"])
def test_commands_log_in_with_a_token(kind: str, tmp_path: Path) -> None:
    with Broker(security=kind, topics=["flights"]) as broker:
        assert broker.security is not None
        config = tmp_path / "client.properties"
        config.write_text("\n".join(broker.security.property_lines(broker.bootstrap)))
        command = [
            sys.executable,
            "-m",
            "kafkapy",
            "topics",
            "list",
            "-b",
            broker.bootstrap,
            "--command-config",
            str(config),
        ]
        run = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        assert "flights" in run.stdout, run.stderr
