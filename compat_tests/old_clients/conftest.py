"""The old clients, each started once a session for each broker."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from compat_tests.clients.agent import Agent
from harness.jars import OLD_CLIENT_VERSIONS
from harness.java_programs import MissingToolchainError
from harness.process import Broker

if TYPE_CHECKING:
    from compat_tests.old_clients.clients import OldClient

OldAgents = Callable[[str], Agent]


@pytest.fixture(scope="module")
def old_agents(broker: Broker) -> Iterator[OldAgents]:
    """Gives the running program of an old release's Java clients."""
    from compat_tests.old_clients.clients import agent_command  # here, since it imports client libraries

    running: dict[str, Agent] = {}

    def agent(version: str) -> Agent:
        if version not in running:
            try:
                running[version] = Agent([*agent_command(version), broker.bootstrap])
            except MissingToolchainError as missing:
                pytest.skip(str(missing))
        return running[version]

    yield agent
    for each in running.values():
        each.close()


@pytest.fixture(scope="module")
def old_clients(broker: Broker, old_agents: OldAgents) -> "list[OldClient]":
    """All old clients."""
    from compat_tests.old_clients.clients import java_clients, other_clients

    found = other_clients(broker.bootstrap)
    for version in OLD_CLIENT_VERSIONS:
        found += java_clients(version, old_agents(version))
    return found


@pytest.fixture(scope="module", params=OLD_CLIENT_VERSIONS)
def old_agent(request: pytest.FixtureRequest, old_agents: OldAgents) -> Agent:
    """The Java clients of each old release."""
    return old_agents(request.param)


@pytest.fixture(scope="module", params=[version for version in OLD_CLIENT_VERSIONS if not version.startswith("0.8")])
def group_agent(request: pytest.FixtureRequest, old_agents: OldAgents) -> Agent:
    """The clients that join groups through the broker; before 0.9 clients used ZooKeeper."""
    return old_agents(request.param)
