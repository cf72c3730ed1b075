import pytest

from kafkapy.protocol.messages.list_groups import ListGroupsRequest
from kafkapy.server.handlers import list_groups
from tests.server.handlers.groups_context import Asker


@pytest.mark.parametrize("version", range(5))
def test_every_version(version: int) -> None:
    asker = Asker()
    asker.world.stable()
    response = asker.ask(list_groups, ListGroupsRequest(), version)
    assert response.error_code == 0
    assert [(each.group_id, each.protocol_type, each.group_state) for each in response.groups] == [
        ("g", "consumer", "Stable" if version >= 4 else "")
    ]


def test_by_state() -> None:
    asker = Asker()
    asker.world.stable()
    assert not asker.ask(list_groups, ListGroupsRequest(["Empty"]), 4).groups


def test_a_coordinator_that_is_not_running() -> None:
    asker = Asker()
    asker.world.coordinator.shutdown()
    assert asker.ask(list_groups, ListGroupsRequest(), 4).error_code == 15
