"""Each scenario runs with each of the three client libraries."""

import pytest

from compat_tests.clients.aiokafka_client import AiokafkaClient
from compat_tests.clients.client import Client, wait_until
from compat_tests.clients.confluent_client import ConfluentClient
from compat_tests.clients.kafka_python_client import KafkaPythonClient
from compat_tests.process import Broker

CLIENTS = {client.name: client for client in (KafkaPythonClient, ConfluentClient, AiokafkaClient)}


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest, broker: Broker) -> Client:
    """One of the client libraries, pointed at the broker under test."""
    found: Client = CLIENTS[request.param](broker.bootstrap)
    return found


@pytest.fixture
def topic(client: Client, topic_name: str) -> str:
    """A fresh topic with one partition."""
    client.create_topic(topic_name)
    wait_until(lambda: topic_name in client.topics(), f"topic {topic_name}")
    return topic_name
