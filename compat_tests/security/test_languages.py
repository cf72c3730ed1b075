"""Clients in other languages over each protocol and mechanism that they have, set by ``client_settings``."""

from collections.abc import Callable, Mapping

import pytest

from compat_tests.clients.agent import AgentClient
from compat_tests.clients.agents import AGENTS, LONG_AGENTS, Agents
from compat_tests.clients.client import KafkaCodeError, Sent, wait_until
from compat_tests.clients.conftest import LONG
from compat_tests.security.secured import KINDS, SecuredBroker
from harness.java_programs import MissingToolchainError
from kafkapy.testing.hosting.security import DEFAULT_USERS

BY_FUNCTION = ("kafkajs", "rdkafka")
"""Clients that take tokens from a function of the program alone."""
KIND = "scram"
"""Of tests for which one kind is enough."""
USER = "alice"
VALUES = [b"%d" % number for number in range(20)]
NAMES = [*AGENTS, *(pytest.param(name, marks=LONG) for name in LONG_AGENTS)]
pytestmark = [
    pytest.mark.together,
    pytest.mark.scenario("security", client="{name}"),
    pytest.mark.parametrize("name", NAMES),
]
Connect = Callable[[str, Mapping[str, object]], AgentClient]


def replaced(settings: Mapping[str, object], text: str, other: str) -> dict[str, object]:
    """The settings with another text in their values."""

    def change(value: object) -> object:
        if isinstance(value, dict):
            return replaced(value, text, other)
        return value.replace(text, other) if isinstance(value, str) else value

    return {name: change(value) for name, value in settings.items()}


@pytest.fixture
def connect(name: str, secured_broker: SecuredBroker, agents: Agents) -> Connect:
    """Points the client at the listener of a kind, with these settings."""

    def connected(kind: str, settings: Mapping[str, object]) -> AgentClient:
        try:
            return agents.client(name, secured_broker.addresses[kind], settings)
        except MissingToolchainError as missing:
            pytest.skip(str(missing))

    return connected


@pytest.mark.parametrize("kind", KINDS)
def test_records_are_written_and_read(
    name: str, kind: str, secured_broker: SecuredBroker, connect: Connect, topic_name: str
) -> None:
    if KINDS[kind].mechanism == "OAUTHBEARER" and name in BY_FUNCTION:
        with pytest.raises(ValueError, match=name):
            secured_broker.client_settings(kind, client_of(name))
        return
    client = connect(kind, secured_broker.client_settings(kind, client_of(name), USER))
    client.create_topic(topic_name)
    wait_until(lambda: topic_name in client.topics(), f"topic {topic_name}")
    client.produce(topic_name, list(map(Sent, VALUES)))
    assert [each.value for each in client.consume(topic_name, len(VALUES))] == VALUES


def test_a_member_of_a_group_reads(name: str, secured_broker: SecuredBroker, connect: Connect, topic_name: str) -> None:
    client = connect(KIND, secured_broker.client_settings(KIND, client_of(name), USER))
    client.create_topic(topic_name)
    wait_until(lambda: topic_name in client.topics(), f"topic {topic_name}")
    client.produce(topic_name, list(map(Sent, VALUES)))
    member = client.join(f"group-of-{topic_name}", topic_name)
    try:
        wait_until(lambda: len(member.received) == len(VALUES), "the records")
        member.commit()
    finally:
        member.close()
    assert [each.value for each in member.received] == VALUES
    assert client.committed(f"group-of-{topic_name}", topic_name) == len(VALUES)


def test_a_wrong_password_is_refused(name: str, secured_broker: SecuredBroker, connect: Connect) -> None:
    right = secured_broker.client_settings(KIND, client_of(name), USER)
    wrong = replaced(right, DEFAULT_USERS[USER], "a-guess")
    assert wrong != right
    if name == "rdkafka":
        pytest.skip("rdkafka tells of a refused login by its log alone")
    with pytest.raises(KafkaCodeError, match=r"(?i)authentication"):
        connect(KIND, wrong).topics()


def client_of(name: str) -> str:
    """The name by which ``client_settings`` knows a client."""
    return "java" if name.startswith("java-") else name
