from types import SimpleNamespace
from typing import Any

import pytest

from kafkapy.network.session import Session
from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.headers import RequestHeader
from kafkapy.protocol.messages.heartbeat import HeartbeatRequest
from kafkapy.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kafkapy.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kafkapy.protocol.messages.list_groups import ListGroupsRequest
from kafkapy.protocol.places import WITH_MEMBER_ID
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.server.dispatch.message_places import names_groups
from kafkapy.server.handlers import REGISTRY
from kafkapy.testing.faults.expired_members import (
    Target,
    UnknownMemberError,
    expire,
    may_have_joined,
    targeted,
)
from tests.coordinator.world import World
from tests.testing.requests import request_of


def test_the_session_of_the_given_member_ends() -> None:
    world = World()
    first, second = world.stable(2)
    for member_id, instance_id, which in (
        (None, None, "more than one"),
        ("x", None, "no such"),
        (None, "i", "no such"),
    ):
        with pytest.raises(
            UnknownMemberError, match=f"group 'g' has {which} member; its members: '{first}', '{second}'"
        ):
            expire(world.coordinator, "g", member_id, instance_id)
    assert expire(world.coordinator, "g", first, None) == first
    assert world.heartbeat(first, 1) == 25
    with pytest.raises(UnknownMemberError, match="group 'nobody' has no such member; its members: none"):
        expire(world.coordinator, "nobody", None, None)


def _context(world: World, key: int, version: int = 5) -> Any:
    services = SimpleNamespace(group_coordinator=world.coordinator)
    return RequestContext(services, RequestHeader(key, version, 1, "me"), Session.local("PLAINTEXT"))  # type: ignore[arg-type]  # no other service is used


def test_a_target_selects_members_by_ids_group_or_sender() -> None:
    world = World()
    first, second = world.stable(2)
    beat = _context(world, ApiKey.HEARTBEAT)
    request = HeartbeatRequest("g", 1, second)
    assert targeted(Target(), beat, request) == [("g", second)]
    assert targeted(Target(None, first), beat, request) == [("g", first)]
    assert targeted(Target(None, first), beat, HeartbeatRequest("other", 1, first)) == []
    assert targeted(Target(), beat, HeartbeatRequest("g", 1, "nobody")) == []
    assert targeted(Target(), beat, HeartbeatRequest("g", 1, "")) == [], "a consumer that is in no group"
    assert sorted(targeted(Target("g"), _context(world, ApiKey.PRODUCE), None)) == sorted([("g", first), ("g", second)])
    assert targeted(Target("g", second), _context(world, ApiKey.PRODUCE), None) == [("g", second)]
    assert targeted(Target("nobody"), _context(world, ApiKey.PRODUCE), None) == []
    leave = _context(world, ApiKey.LEAVE_GROUP, 4)
    assert targeted(Target(), leave, LeaveGroupRequest("g", first)) == [("g", first)]
    both = LeaveGroupRequest("g", members=[MemberIdentity(first), MemberIdentity("x"), MemberIdentity(second)])
    assert targeted(Target(), leave, both) == [("g", first), ("g", second)]
    assert targeted(Target(), _context(world, ApiKey.LIST_GROUPS), ListGroupsRequest()) == []


def test_a_new_member_is_identified_by_the_answer_to_its_join() -> None:
    world = World()
    (member,) = world.stable(1)
    join = _context(world, ApiKey.JOIN_GROUP)
    assert targeted(Target(), join, JoinGroupRequest("g")) == []
    assert targeted(Target(), join, JoinGroupRequest("g"), JoinGroupResponse(member_id=member)) == [("g", member)]
    refused = JoinGroupResponse(error_code=79, member_id=member)
    assert targeted(Target(), join, JoinGroupRequest("g"), refused) == []
    assert not may_have_joined(join, JoinGroupRequest("g")), "it is given an id, and asks again"
    assert may_have_joined(join, JoinGroupRequest("g", member_id=member))
    assert may_have_joined(join, JoinGroupRequest("g", group_instance_id="i"))
    assert may_have_joined(_context(world, ApiKey.JOIN_GROUP, 3), JoinGroupRequest("g"))
    assert not may_have_joined(_context(world, ApiKey.HEARTBEAT), HeartbeatRequest("g", 1, member))


def test_every_api_with_a_member_id_is_known() -> None:
    """The list has the requests of the registry whose message has a member id, and no others."""
    for api in REGISTRY.values():
        slots = request_of(api.key).__slots__
        assert (api.key in WITH_MEMBER_ID) == ("member_id" in slots), api.module
        assert api.key not in WITH_MEMBER_ID or names_groups(api.key)
