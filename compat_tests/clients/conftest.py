"""Each scenario runs with each of the client libraries, those of other languages included."""

from collections.abc import Callable, Iterator

import pytest

from compat_tests.clients.agents import AGENTS, Agents, MissingToolchainError
from compat_tests.clients.aiokafka_client import AiokafkaClient
from compat_tests.clients.client import Client, wait_until
from compat_tests.clients.confluent_client import ConfluentClient
from compat_tests.clients.kafka_python_client import KafkaPythonClient
from compat_tests.process import Broker

CLIENTS: dict[str, Callable[[str], Client]] = {
    client.name: client for client in (KafkaPythonClient, ConfluentClient, AiokafkaClient)
}


def new_client(name: str, bootstrap: str, agents: Agents) -> Client:
    """The named client library, pointed at a broker; raises MissingToolchainError."""
    return CLIENTS[name](bootstrap) if name in CLIENTS else agents.client(name, bootstrap)


@pytest.fixture(scope="session")
def agents() -> Iterator[Agents]:
    """The programs of the clients in other languages."""
    started = Agents()
    yield started
    started.close()


@pytest.fixture(params=[*CLIENTS, *AGENTS])
def client(request: pytest.FixtureRequest, broker: Broker, agents: Agents) -> Client:
    """One of the client libraries, pointed at the broker under test."""
    try:
        return new_client(request.param, broker.bootstrap, agents)
    except MissingToolchainError as missing:
        pytest.skip(str(missing))


@pytest.fixture
def topic(client: Client, topic_name: str) -> str:
    """A fresh topic with one partition."""
    client.create_topic(topic_name)
    wait_until(lambda: topic_name in client.topics(), f"topic {topic_name}")
    return topic_name
