"""Stock clients and the faults that the control port sets: clients recover from retriable ones."""

from collections.abc import Iterator

import pytest

from compat_tests.clients.agents import Agents
from compat_tests.clients.client import Client, KafkaCodeError, ProduceOptions, Sent, wait_until
from compat_tests.clients.conftest import CLIENTS, new_client
from compat_tests.faults.control import Control
from harness.java_programs import MissingToolchainError
from harness.kafkapy_process import KafkapyProcess
from harness.process import free_port

SOME_AGENTS = ("sarama", "java-2.7.2", "java-4.4.0")
"""The examples are written with franz-go and kafkajs."""
IDEMPOTENT = ProduceOptions(idempotent=True)
MESSAGE_TOO_LARGE, TOPIC_AUTHORIZATION_FAILED = 10, 29


@pytest.fixture(scope="module")
def controlled() -> Iterator[tuple[KafkapyProcess, Control]]:
    """A broker with a control port."""
    port = free_port()
    with KafkapyProcess(options=("--control-port", str(port))) as broker:
        yield broker, Control(f"http://127.0.0.1:{port}")


@pytest.fixture(params=[*CLIENTS, *SOME_AGENTS])
def client(request: pytest.FixtureRequest, controlled: tuple[KafkapyProcess, Control], agents: Agents) -> Client:
    """One of the client libraries."""
    try:
        return new_client(request.param, controlled[0].bootstrap, agents)
    except MissingToolchainError as missing:
        pytest.skip(str(missing))


@pytest.fixture
def control(controlled: tuple[KafkapyProcess, Control]) -> Control:
    """The broker's control port."""
    return controlled[1]


@pytest.fixture
def topic(client: Client, topic_name: str) -> str:
    """A fresh topic with one partition."""
    client.create_topic(topic_name)
    wait_until(lambda: topic_name in client.topics(), f"topic {topic_name}")
    return topic_name


def test_a_producer_retries_after_a_retriable_error(client: Client, control: Control, topic: str) -> None:
    with control.fault(action="error", error="NOT_LEADER_OR_FOLLOWER", api="Produce", topic=topic, count=2) as fault:
        assert client.produce(topic, [Sent(b"x")]) == [(0, 0)]
        assert fault.fired == 2
    assert [each.value for each in client.consume(topic, 1)] == [b"x"]


def test_a_producer_reports_an_error_that_is_not_retriable(client: Client, control: Control, topic: str) -> None:
    with (
        control.fault(action="error", error="MESSAGE_TOO_LARGE", api="Produce", topic=topic),
        pytest.raises(KafkaCodeError) as refusal,
    ):
        client.produce(topic, [Sent(b"x")])
    assert refusal.value.code == MESSAGE_TOO_LARGE
    assert client.watermarks(topic) == (0, 0)


def test_an_idempotent_producer_without_a_response_writes_once(client: Client, control: Control, topic: str) -> None:
    with control.fault(action="drop", when="after", api="Produce", topic=topic, count=1) as fault:
        client.produce(topic, [Sent(b"x")], IDEMPOTENT)
        assert fault.fired == 1
    assert client.watermarks(topic) == (0, 1)


def test_a_consumer_retries_after_a_retriable_error(client: Client, control: Control, topic: str) -> None:
    client.produce(topic, [Sent(b"x"), Sent(b"y")])
    with (
        control.fault(action="error", error="NOT_LEADER_OR_FOLLOWER", api="Fetch", topic=topic, count=1) as refusing,
        control.fault(action="drop", api="Fetch", topic=topic, nth=2) as dropping,
        control.fault(action="delay", duration_ms=50, api="Fetch", topic=topic, nth=3),
    ):
        assert [each.value for each in client.consume(topic, 2)] == [b"x", b"y"]
        assert (refusing.fired, dropping.fired) == (1, 1)


def test_a_group_retries_until_it_finds_its_coordinator(client: Client, control: Control, topic: str) -> None:
    client.produce(topic, [Sent(b"x")])
    with control.fault(action="error", error="COORDINATOR_NOT_AVAILABLE", api="FindCoordinator", count=2) as fault:
        member = client.join(topic, topic)
        try:
            wait_until(lambda: [each.value for each in member.received] == [b"x"], "the record")
        finally:
            member.close()
        assert fault.fired == 2


def test_a_member_joins_again_after_its_session_ended(client: Client, control: Control, topic: str) -> None:
    client.produce(topic, [Sent(b"x")])
    with control.fault(action="expire_member", api="Heartbeat", group=topic, count=1) as fault:
        member = client.join(topic, topic)
        try:
            wait_until(lambda: b"x" in [each.value for each in member.received], "the record")
            wait_until(lambda: fault.fired == 1, "the end of the session")
            client.produce(topic, [Sent(b"y")])
            wait_until(lambda: b"y" in [each.value for each in member.received], "the record after it")
        finally:
            member.close()


def test_clients_wait_for_a_paused_broker(client: Client, control: Control, topic: str) -> None:
    with control.fault(action="pause", duration_ms=300, api="Produce", topic=topic, count=1) as fault:
        client.produce(topic, [Sent(b"x")])
        assert fault.fired == 1
    assert control.ask("GET", "/broker")["is_paused"] is False
    assert client.watermarks(topic) == (0, 1)
