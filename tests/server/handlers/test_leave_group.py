import pytest

from kafkapy.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kafkapy.server.handlers import leave_group
from tests.server.handlers.groups_context import Asker


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize(("known", "expected"), [(True, 0), (False, 25)])
def test_one_member_has_the_error_of_the_response(version: int, known: bool, expected: int) -> None:
    asker = Asker()
    member_id = asker.world.stable()[0] if known else "stranger"
    response = asker.ask(leave_group, LeaveGroupRequest("g", member_id), version)
    assert (response.error_code, response.members) == (expected, [])


@pytest.mark.parametrize("version", [3, 4])
def test_several_members_have_an_error_code_each(version: int) -> None:
    asker = Asker()
    asker.world.stable(instance_id="i")
    members = [MemberIdentity("stranger", "i"), MemberIdentity("", "i"), MemberIdentity("stranger", None)]
    response = asker.ask(leave_group, LeaveGroupRequest("g", members=members), version)
    assert response.error_code == 0
    assert [(each.member_id, each.group_instance_id, each.error_code) for each in response.members] == [
        ("stranger", "i", 82),
        ("", "i", 0),
        ("stranger", None, 25),
    ]


@pytest.mark.parametrize("version", [2, 3])
def test_an_error_of_the_request(version: int) -> None:
    request = LeaveGroupRequest("", "m") if version < 3 else LeaveGroupRequest("", members=[MemberIdentity("m")])
    response = Asker().ask(leave_group, request, version)
    assert (response.error_code, response.members) == (24, [])
