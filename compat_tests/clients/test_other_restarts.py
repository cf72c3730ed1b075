"""No acknowledged record is lost over restarts of the broker (see ``test_restarts``), with other clients.

These are clients from before Kafka 0.11, command lines (kcat, Kafka's console tools), and rdkafka. Clients older than
0.11 have no idempotent producer: there a record may come twice, but none may be lost.
"""

from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from functools import partial

import pytest

from compat_tests.brokers.own_broker import Mortal
from compat_tests.clients.agent import Abilities, Agent, AgentClient
from compat_tests.clients.agents import Agents
from compat_tests.clients.conftest import new_client
from compat_tests.clients.piped import ConsoleTools, Kcat
from compat_tests.clients.restarts import Clients, Outcome, Worker, check, outcomes_of
from compat_tests.old_clients.clients import agent_command
from harness.jars import OLD_CLIENT_VERSIONS, VERSIONS
from harness.java_programs import MissingToolchainError

pytestmark = [
    pytest.mark.long,
    pytest.mark.java,
    pytest.mark.scenario("restart", client="{name}"),
    pytest.mark.timeout(600),
    pytest.mark.together,
]

UNABLE = ("0.9.0.1", "0.10.0.1")
"""Left out, since they fail with Apache Kafka 2.7.2 too: the producer of 0.9.0.1 when it tries again, "Memory records
is not writable" (KAFKA-3594); the consumer of 0.10.0.1 when the broker is back, mostly: it reads no further, and says
nothing. The one of 0.10.2.2 continues."""
OLD = {f"java-{version}": version for version in OLD_CLIENT_VERSIONS if version not in UNABLE}
TOOLS = [f"kafka-tools-{version}" for version in VERSIONS]
GONE = pytest.mark.differs("kafka-4.4.0", reason="clients older than 2.1 are served no more (KIP-896)")


@pytest.fixture(scope="module")
def clients(mortal: Mortal, agents: Agents) -> Iterator[Clients]:
    """Functions that start each client. rdkafka, which takes minutes to build, is built first."""
    with suppress(MissingToolchainError):  # told by its test
        new_client("rdkafka", mortal.bootstrap, agents)
    with ExitStack() as stack:

        def old(version: str) -> Worker:
            agent = stack.enter_context(closing(Agent([*agent_command(version), mortal.bootstrap])))
            return AgentClient(f"java-{version}", agent, mortal.bootstrap, Abilities(is_idempotent=False))

        yield {
            **{name: partial(old, version) for name, version in OLD.items()},
            **{f"kafka-tools-{version}": partial(ConsoleTools, version, mortal.bootstrap) for version in VERSIONS},
            "kcat": partial(Kcat, mortal.bootstrap),
            "rdkafka": partial(new_client, "rdkafka", mortal.bootstrap, agents),
        }


@pytest.fixture(scope="module")
def outcomes(mortal: Mortal, clients: Clients) -> dict[str, Outcome]:
    """The result of each client."""
    return outcomes_of(clients, mortal)


@pytest.mark.parametrize("name", [*(pytest.param(each, marks=GONE) for each in OLD), *TOOLS, "kcat", "rdkafka"])
def test_no_record_is_lost_over_restarts(outcomes: dict[str, Outcome], mortal: Mortal, name: str) -> None:
    check(outcomes[name], mortal)
