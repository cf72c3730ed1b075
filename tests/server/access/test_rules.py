"""Each API without its rights, with some of them, and with all of them."""

from pathlib import Path

import pytest

from harness.cases.access_cases import LATER_ROWS, ROWS, committed
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.offset_commit import OffsetCommitRequest
from kafkapy.server.access.table import RULES
from kafkapy.server.handlers import REGISTRY
from tests.server.access.guarded import codes, guarded_broker, plain
from tests.server.harness import run

ALL_ROWS = ROWS | LATER_ROWS


@pytest.mark.parametrize("name", ALL_ROWS)
def test_a_client_gets_what_its_rights_allow(name: str, tmp_path: Path) -> None:
    row = ALL_ROWS[name]

    async def scenario() -> None:
        async with guarded_broker(tmp_path, serves_brokers=True, auto__create__topics__enable="false") as guarded:
            for topic in ("t", "hidden"):
                await guarded.admin.create_topic(topic)
            for key, kind in (("g", 0), ("x", 1)):
                await guarded.admin.ask(FindCoordinatorRequest(key, kind), 3)
            await guarded.admin.ask(OffsetCommitRequest("g", topics=committed("t", "hidden")), 7)
            for rights, expected in row.answers:
                guarded.allow(*rights)
                response = await guarded.alice.ask(row.request, row.version)
                assert codes(response) == expected, (rights, plain(response))

    run(scenario())


def test_every_api_has_a_rule() -> None:
    """An API without a rule would be denied to everybody but super users."""
    assert RULES.keys() == REGISTRY.keys()


def test_every_api_that_needs_a_permission_is_tested() -> None:
    tested = {row.request.API_KEY for row in ALL_ROWS.values()}
    needed = {api.key for api in REGISTRY.values() if api.permissions}
    assert {REGISTRY[key].module for key in needed - tested} == {
        "list_groups",  # which is always answered, as the next one; see below
        "describe_log_dirs",
        "list_transactions",
        "describe_delegation_token",  # there are no tokens
    }
