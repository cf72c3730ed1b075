"""Requests of classic members for a group of another type are refused: they find no member of theirs."""

from unittest.mock import Mock

from kafkapy.coordinator.group.classic.calls import LeavingMember
from kafkapy.coordinator.group.group import Group
from kafkapy.protocol.errors import ErrorCode
from kafkapy.turns import finish
from tests.coordinator.world import World


def test_a_group_of_another_type_has_no_classic_members() -> None:
    world = World()
    world.coordinator._runtime.shards[0].groups["g"] = Mock(spec=Group, is_empty=False, is_writing=False)
    for member_id in ("", "member"):
        assert world.join(member_id).value.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.sync("member", 1).value.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.heartbeat("member", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    leaving = finish(world.coordinator.classic.leave("g", [LeavingMember("member", None)]))
    assert leaving == (0, [ErrorCode.UNKNOWN_MEMBER_ID])
