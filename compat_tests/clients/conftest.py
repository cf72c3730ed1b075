"""Each scenario runs with each of the client libraries, those of other languages included."""

from collections.abc import Callable, Iterator
from importlib import import_module

import pytest

from compat_tests.brokers.own_broker import Mortal, mortal_of
from compat_tests.brokers.targets import is_cluster
from compat_tests.clients.agents import AGENTS, CONSUMER_PROTOCOL, LONG_AGENTS, Agents
from compat_tests.clients.client import Client, wait_until
from compat_tests.clients.cluster_client import on_cluster
from compat_tests.selection.libraries import why_not_imported
from harness.jars import VERSIONS
from harness.java_programs import MissingToolchainError
from harness.process import Broker

CLIENTS = {
    "kafka-python": "kafka_python_client:KafkaPythonClient",
    "confluent-kafka": "confluent_client:ConfluentClient",
    "aiokafka": "aiokafka_client:AiokafkaClient",
}


def client_of(name: str, broker: Broker | Mortal, agents: Agents) -> Client:
    """The named client, pointed at the broker under test; skips one of a protocol that the broker does not have."""
    if name.endswith(CONSUMER_PROTOCOL) and (is_cluster(broker.name) or broker.name in OF_CLASSIC_GROUPS):
        pytest.skip("Apache Kafka has the consumer protocol of groups from 4.0 on, a cluster on ZooKeeper does not")
    return new_client(name, broker.bootstrap, agents)


def new_client(name: str, bootstrap: str, agents: Agents) -> Client:
    """The named client library, pointed at a broker; raises MissingToolchainError."""
    library, _, protocol = name.partition(CONSUMER_PROTOCOL)
    if library not in CLIENTS:
        return agents.client(library, bootstrap, group_protocol="consumer" if protocol else "classic")
    return _library(library)(bootstrap, *(["consumer"] if protocol else ()))


LONG = (pytest.mark.long, pytest.mark.timeout(600))
"""The time-out of the first test of a client that takes minutes to build."""


ALL = (*CLIENTS, *AGENTS, *(pytest.param(name, marks=LONG) for name in LONG_AGENTS))
OF_CLASSIC_GROUPS = ("kafka-2.7.2", "kafka-3.9.1")
"""The targets without the consumer protocol."""
OF_THE_CONSUMER_PROTOCOL = tuple(
    name + CONSUMER_PROTOCOL for name in ("confluent-kafka", "franz-go", f"java-{VERSIONS[-1]}")
)
WITH_BOTH_PROTOCOLS = pytest.mark.parametrize("client", [*ALL, *OF_THE_CONSUMER_PROTOCOL], indirect=True)
"""Runs a test with each client, and once more with those that know the consumer protocol of groups."""


@pytest.fixture(params=ALL)
def client(request: pytest.FixtureRequest, broker: Broker, agents: Agents) -> Client:
    """One of the client libraries, pointed at the broker under test."""
    try:
        found = client_of(request.param, broker, agents)
    except MissingToolchainError as missing:
        pytest.skip(str(missing))
    return on_cluster(found) if is_cluster(broker.name) else found


def _library(name: str) -> Callable[..., Client]:
    """The client of a Python library, which may not be installed."""
    module, _, made = CLIENTS[name].partition(":")
    try:
        found: Callable[..., Client] = getattr(import_module(f"compat_tests.clients.{module}"), made)
    except ModuleNotFoundError as missing:
        reason = why_not_imported(f"ModuleNotFoundError: {missing}")
        if not reason:
            raise
        raise MissingToolchainError(reason) from missing
    return found


@pytest.fixture(scope="module")
def mortal(broker: Broker) -> Iterator[Mortal]:
    """A broker for tests that stop it and start it again, or a cluster of which they kill one broker at a time."""
    with mortal_of(broker) as found:
        yield found


@pytest.fixture
def topic(client: Client, topic_name: str) -> str:
    """A fresh topic with one partition."""
    client.create_topic(topic_name)
    wait_until(lambda: topic_name in client.topics(), f"topic {topic_name}")
    return topic_name
