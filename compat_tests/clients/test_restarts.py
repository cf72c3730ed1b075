"""A broker that ends, comes back and stalls under the load of every client at once: nothing is lost or doubled.

Of a cluster, a leader, a coordinator and the controller are killed.

Each client's outcome is a test of its own.
"""

from functools import partial

import pytest

from compat_tests.brokers.own_broker import Mortal
from compat_tests.clients.agents import AGENTS, Agents
from compat_tests.clients.conftest import CLIENTS, OF_THE_CONSUMER_PROTOCOL, client_of
from compat_tests.clients.restarts import Outcome, check, outcomes_of
from compat_tests.selection.scenarios import selected

pytestmark = [
    pytest.mark.scenario("restart", client="{name}"),
    pytest.mark.timeout(900),  # the first test that uses a client in another language builds its program
    pytest.mark.together,
]

NAMES = (*CLIENTS, *AGENTS, *OF_THE_CONSUMER_PROTOCOL)


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, mortal: Mortal, agents: Agents) -> dict[str, Outcome]:
    """The results of each client."""
    names = selected(request, "name")
    return outcomes_of({name: partial(client_of, name, mortal, agents) for name in names}, mortal)


@pytest.mark.parametrize("name", NAMES)
def test_every_record_is_written_once_over_restarts(outcomes: dict[str, Outcome], mortal: Mortal, name: str) -> None:
    check(outcomes[name], mortal)
