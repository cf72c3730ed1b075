import pytest

from kafkapy.protocol.messages.delete_groups import DeleteGroupsRequest
from kafkapy.server.handlers import delete_groups
from tests.server.handlers.groups_context import Asker


@pytest.mark.parametrize("version", range(3))
def test_every_version(version: int) -> None:
    asker = Asker()
    asker.world.stable()
    asker.world.commit(group_id="h")
    response = asker.ask(delete_groups, DeleteGroupsRequest(["g", "h", "unknown"]), version)
    assert [(each.group_id, each.error_code) for each in response.results] == [("g", 68), ("h", 0), ("unknown", 69)]
