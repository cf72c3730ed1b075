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
from kafkapy.server.context import RequestContext
from kafkapy.server.handlers import REGISTRY
from kafkapy.server.message_places import names_groups
from kafkapy.testing.expired_members import (
    Target,
    UnknownMemberError,
    expire,
    may_have_joined,
    meant,
)
from tests.coordinator.world import World
from tests.testing.requests import request_of


def test_the_one_member_that_is_meant_goes() -> None:
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
    return RequestContext(services, RequestHeader(key, version, 1, "me"), Session.local("PLAINTEXT"))  # type: ignore[arg-type]  # no other service is asked


def test_whose_session_a_request_is_about() -> None:
    world = World()
    first, second = world.stable(2)
    beat = _context(world, ApiKey.HEARTBEAT)
    request = HeartbeatRequest("g", 1, second)
    assert meant(Target(), beat, request) == [("g", second)]
    assert meant(Target(None, first), beat, request) == [("g", first)]
    assert meant(Target(None, first), beat, HeartbeatRequest("other", 1, first)) == []
    assert meant(Target(), beat, HeartbeatRequest("g", 1, "nobody")) == []
    assert meant(Target(), beat, HeartbeatRequest("g", 1, "")) == [], "a consumer that is in no group"
    assert sorted(meant(Target("g"), _context(world, ApiKey.PRODUCE), None)) == sorted([("g", first), ("g", second)])
    assert meant(Target("g", second), _context(world, ApiKey.PRODUCE), None) == [("g", second)]
    assert meant(Target("nobody"), _context(world, ApiKey.PRODUCE), None) == []
    leave = _context(world, ApiKey.LEAVE_GROUP, 4)
    assert meant(Target(), leave, LeaveGroupRequest("g", first)) == [("g", first)]
    both = LeaveGroupRequest("g", members=[MemberIdentity(first), MemberIdentity("x"), MemberIdentity(second)])
    assert meant(Target(), leave, both) == [("g", first), ("g", second)]
    assert meant(Target(), _context(world, ApiKey.LIST_GROUPS), ListGroupsRequest()) == []


def test_who_joins_is_known_by_the_answer() -> None:
    world = World()
    (member,) = world.stable(1)
    join = _context(world, ApiKey.JOIN_GROUP)
    assert meant(Target(), join, JoinGroupRequest("g")) == []
    assert meant(Target(), join, JoinGroupRequest("g"), JoinGroupResponse(member_id=member)) == [("g", member)]
    refused = JoinGroupResponse(error_code=79, member_id=member)
    assert meant(Target(), join, JoinGroupRequest("g"), refused) == []
    assert not may_have_joined(join, JoinGroupRequest("g")), "it is given an id, and asks again"
    assert may_have_joined(join, JoinGroupRequest("g", member_id=member))
    assert may_have_joined(join, JoinGroupRequest("g", group_instance_id="i"))
    assert may_have_joined(_context(world, ApiKey.JOIN_GROUP, 3), JoinGroupRequest("g"))
    assert not may_have_joined(_context(world, ApiKey.HEARTBEAT), HeartbeatRequest("g", 1, member))


def test_every_api_with_members_says_who_asks() -> None:
    """By its messages: each request of the registry that has a member id, and no other."""
    for api in REGISTRY.values():
        slots = request_of(api.key).__slots__
        assert (api.key in WITH_MEMBER_ID) == ("member_id" in slots), api.module
        assert api.key not in WITH_MEMBER_ID or names_groups(api.key)
