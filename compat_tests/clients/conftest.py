"""Each scenario runs with each of the client libraries, those of other languages included."""

from collections.abc import Iterator

import pytest

from compat_tests.clients.agents import AGENTS, Agents, MissingToolchainError
from compat_tests.clients.aiokafka_client import AiokafkaClient
from compat_tests.clients.client import Client, wait_until
from compat_tests.clients.confluent_client import ConfluentClient
from compat_tests.clients.kafka_python_client import KafkaPythonClient
from compat_tests.process import Broker

CLIENTS = {client.name: client for client in (KafkaPythonClient, ConfluentClient, AiokafkaClient)}


@pytest.fixture(scope="session")
def agents() -> Iterator[Agents]:
    """The programs of the clients in other languages."""
    started = Agents()
    yield started
    started.close()


@pytest.fixture(params=[*CLIENTS, *AGENTS])
def client(request: pytest.FixtureRequest, broker: Broker, agents: Agents) -> Client:
    """One of the client libraries, pointed at the broker under test."""
    if request.param not in AGENTS:
        found: Client = CLIENTS[request.param](broker.bootstrap)
        return found
    try:
        return agents.client(request.param, broker.bootstrap)
    except MissingToolchainError as missing:
        pytest.skip(str(missing))


@pytest.fixture
def topic(client: Client, topic_name: str) -> str:
    """A fresh topic with one partition."""
    client.create_topic(topic_name)
    wait_until(lambda: topic_name in client.topics(), f"topic {topic_name}")
    return topic_name
