import pytest

from kafkapy.protocol.messages.heartbeat import HeartbeatRequest
from kafkapy.server.handlers import heartbeat
from tests.server.handlers.groups_context import Asker


@pytest.mark.parametrize("version", range(5))
def test_every_version(version: int) -> None:
    asker = Asker()
    member_id = asker.world.stable()[0]
    assert asker.ask(heartbeat, HeartbeatRequest("g", 1, member_id), version).error_code == 0
    assert asker.ask(heartbeat, HeartbeatRequest("g", 2, member_id), version).error_code == 22


@pytest.mark.parametrize("version", [3, 4])
def test_static_members_are_fenced(version: int) -> None:
    asker = Asker()
    asker.world.stable(instance_id="i")
    assert asker.ask(heartbeat, HeartbeatRequest("g", 1, "m", "i"), version).error_code == 82
