"""Transactions of every client while a leader, a coordinator and the controller of a cluster are killed.

Each is committed once, in order, with its offset. Each client's outcome is a test of its own.
"""

from functools import partial

import pytest

from compat_tests.clients.agents import AGENTS, Agents
from compat_tests.clients.applications import Outcome, applications_over_kills
from compat_tests.clients.conftest import CLIENTS, new_client
from compat_tests.cluster.three_brokers import ThreeBrokers
from compat_tests.selection.scenarios import selected
from harness.java_programs import MissingToolchainError

pytestmark = [
    pytest.mark.clusters,
    pytest.mark.scenario("restart", client="{name}"),
    pytest.mark.timeout(900),  # the first test that uses a client in another language builds its program
    pytest.mark.together,
]

NAMES = (*CLIENTS, *AGENTS)


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, mortal: ThreeBrokers, agents: Agents) -> dict[str, Outcome]:
    """The results of each client."""
    return applications_over_kills(
        {name: partial(new_client, name, mortal.bootstrap, agents) for name in selected(request, "name")}, mortal
    )


@pytest.mark.parametrize("name", NAMES)
def test_every_transaction_is_committed_once_over_kills(outcomes: dict[str, Outcome], name: str) -> None:
    outcome = outcomes[name]
    if isinstance(outcome, MissingToolchainError):
        pytest.skip(str(outcome))
    if isinstance(outcome, BaseException):
        raise outcome
    outcome.check()
