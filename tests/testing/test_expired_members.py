import pytest

from kafkapy.testing.expired_members import UnknownMemberError, expire
from tests.coordinator.world import World


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
