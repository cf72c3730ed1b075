"""A broker that ends, comes back and stalls under the load of every client at once: nothing is lost or doubled.

Each client's outcome is a test of its own.
"""

from functools import partial

import pytest

from compat_tests.clients.agents import AGENTS, Agents
from compat_tests.clients.conftest import CLIENTS, new_client
from compat_tests.clients.restarts import Outcome, check, outcomes_of
from compat_tests.process import ChildProcess

pytestmark = [
    pytest.mark.scenario("restart", client="{name}"),
    pytest.mark.timeout(900),  # the first test that uses a client in another language builds its program
    pytest.mark.together,
]

NAMES = (*CLIENTS, *AGENTS)


@pytest.fixture(scope="module")
def outcomes(mortal: ChildProcess, agents: Agents) -> dict[str, Outcome]:
    """What became of each client."""
    return outcomes_of({name: partial(new_client, name, mortal.bootstrap, agents) for name in NAMES}, mortal)


@pytest.mark.parametrize("name", NAMES)
def test_every_record_is_written_once_over_restarts(
    outcomes: dict[str, Outcome], mortal: ChildProcess, name: str
) -> None:
    check(outcomes[name], mortal)
