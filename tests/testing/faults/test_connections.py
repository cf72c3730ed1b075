"""Faults of certificates, handshakes and credentials, and the error that each is for a stock client."""

import socket
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from kafka import KafkaProducer
from kafka.errors import KafkaError as PythonError

from kafkapy.testing import Broker
from kafkapy.testing.faults import InvalidFaultError

PATIENCE_S = 20.0


def errors_of_confluent(broker: Broker, **settings: Any) -> Callable[[int], str]:
    """A client; the function that is returned waits for its next error with this code, and returns its text."""
    errors: list[KafkaError] = []
    own = {**broker.client_settings("confluent-kafka"), "error_cb": errors.append, **settings}
    producer = Producer(own)

    def next_error(code: int) -> str:
        errors.clear()
        deadline_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline_s:
            producer.poll(0.05)
            for error in errors:
                if error.code() == code:
                    return str(error)
        raise AssertionError(f"the client has reported {errors}")

    return next_error


def send_by_confluent(broker: Broker, user: str = "alice") -> None:
    producer = Producer(broker.client_settings("confluent-kafka", user))
    producer.produce("t", b"v")
    assert producer.flush(PATIENCE_S) == 0


def send_by_kafka_python(broker: Broker, user: str = "alice", **settings: Any) -> None:
    own: Any = {**broker.client_settings("kafka-python", user), **settings}
    producer = KafkaProducer(**own)
    try:
        producer.send("t", b"v").get(PATIENCE_S)
    finally:
        producer.close(0)


@pytest.mark.parametrize("kind", ["ssl", "scram"])
def test_an_expired_certificate(kind: str) -> None:
    with Broker(security=kind, topics=["t"]) as broker:
        with broker.faults.expired_certificate() as fault:
            assert "certificate verify failed" in errors_of_confluent(broker)(KafkaError._SSL)
            with pytest.raises(PythonError):
                send_by_kafka_python(broker, bootstrap_timeout_ms=1000, max_block_ms=1000)
            assert fault.fired >= 2
        send_by_confluent(broker)
        send_by_kafka_python(broker)


def test_an_open_connection_outlives_an_expired_certificate() -> None:
    with Broker(security="sasl_ssl", topics=["t"]) as broker:
        producer = KafkaProducer(**broker.client_settings("kafka-python"))  # type: ignore[arg-type]  # of any client
        producer.send("t", b"before").get(PATIENCE_S)
        with broker.faults.expired_certificate():
            producer.send("t", b"during").get(PATIENCE_S)
        producer.close()


@pytest.mark.parametrize("kind", ["sasl_ssl", "scram", "sasl_plaintext", "oauth_unsecured", "mtls"])
def test_a_credential_is_revoked_on_an_open_connection(kind: str) -> None:
    with Broker(security=kind, topics=["t"]) as broker:
        other: Any = KafkaProducer(**broker.client_settings("kafka-python", "bob"))  # type: ignore[arg-type]
        other.send("t", b"v").get(PATIENCE_S)
        next_error = errors_of_confluent(broker)
        producer: Any = KafkaProducer(**broker.client_settings("kafka-python"))  # type: ignore[arg-type]
        producer.send("t", b"v").get(PATIENCE_S)
        with broker.faults.revoke("alice") as fault:
            next_error(KafkaError._ALL_BROKERS_DOWN if kind == "mtls" else KafkaError._AUTHENTICATION)
            with pytest.raises(PythonError):
                send_by_kafka_python(broker, bootstrap_timeout_ms=1000, max_block_ms=1000)
            assert fault.fired >= 3
            other.send("t", b"v").get(PATIENCE_S)
        producer.close(0)
        other.close()
        send_by_kafka_python(broker)


@pytest.mark.parametrize("kind", ["ssl", "sasl_ssl"])
def test_a_slow_handshake(kind: str) -> None:
    with Broker(security=kind, topics=["t"]) as broker:
        with broker.faults.slow_handshake(700) as fault:
            began_s = time.monotonic()
            send_by_confluent(broker)
            assert time.monotonic() - began_s >= 0.7
            began_s = time.monotonic()
            send_by_kafka_python(broker)
            assert time.monotonic() - began_s >= 0.7
            assert fault.fired >= 2
        broker.faults.slow_handshake(3_600_000)
        next_error = errors_of_confluent(broker, **{"socket.connection.setup.timeout.ms": 1000})
        next_error(KafkaError._ALL_BROKERS_DOWN)
        broker.faults.clear()
        send_by_confluent(broker)


def test_a_slow_login_without_tls() -> None:
    with Broker(security="sasl_plaintext", topics=["t"]) as broker:
        with broker.faults.delay(500, api="SaslHandshake") as rule:
            began_s = time.monotonic()
            send_by_confluent(broker)
            assert time.monotonic() - began_s >= 0.5
        assert rule.fired


def test_a_broker_stops_and_starts_with_faults() -> None:
    with Broker(security="scram", topics=["t"]) as broker:
        fault = broker.faults.slow_handshake(3_600_000)
        with socket.create_connection(("127.0.0.1", broker.port)) as waiting:
            while not fault.fired:
                time.sleep(0.01)
            began_s = time.monotonic()
            broker.restart()
            assert time.monotonic() - began_s < 10
            assert _is_closed(waiting)
        broker.faults.clear()
        broker.faults.revoke("alice")
        broker.restart()
        errors_of_confluent(broker)(KafkaError._AUTHENTICATION)


def _is_closed(sock: socket.socket) -> bool:
    try:
        return not sock.recv(1)
    except ConnectionError:
        return True


def test_faults_that_a_broker_can_t_have() -> None:
    with Broker() as broker:
        with pytest.raises(InvalidFaultError, match=r"Broker\(security='sasl_ssl'\)"):
            broker.faults.expired_certificate()
        with pytest.raises(InvalidFaultError, match=r"Broker\(security='scram'\)"):
            broker.faults.revoke("alice")
    with Broker(security="ssl") as broker, pytest.raises(InvalidFaultError, match="whose clients log in"):
        broker.faults.revoke("alice")
    with Broker(security="sasl_plaintext") as broker:
        with pytest.raises(InvalidFaultError, match="slow_handshake needs a broker with TLS"):
            broker.faults.slow_handshake(1)
        with pytest.raises(InvalidFaultError, match="user is 'carol': the broker has admin, alice, bob"):
            broker.faults.revoke("carol")
