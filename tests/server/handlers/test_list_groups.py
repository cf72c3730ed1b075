import pytest

from kafkapy.protocol.messages.list_groups import ListGroupsRequest
from kafkapy.server.handlers import list_groups
from tests.server.handlers.groups_context import Asker


@pytest.mark.parametrize("version", range(6))
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


@pytest.mark.parametrize(
    ("states", "types", "count"),
    [
        ([], [], 1),
        ([], ["Classic"], 1),
        (["stable"], ["consumer", "classic"], 1),
        ([], ["consumer"], 0),
        (["x"], [], 0),
    ],
)
def test_by_type(states: list[str], types: list[str], count: int) -> None:
    asker = Asker()
    asker.world.stable()
    groups = asker.ask(list_groups, ListGroupsRequest(states, types), 5).groups
    assert [each.group_type for each in groups] == ["classic"] * count
