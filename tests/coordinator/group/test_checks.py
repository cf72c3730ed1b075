import pytest

from kafkapy.coordinator.group.membership import member_error
from tests.coordinator.world import World


@pytest.mark.parametrize(
    ("member", "instance_id", "generation_id", "expected"),
    [
        ("known", None, 1, 0),
        ("known", "i", 1, 0),
        ("stranger", "i", 7, 82),  # fencing comes before the member id
        ("stranger", None, 7, 25),  # and that before the generation
        ("stranger", "other", 1, 25),
        ("known", None, 0, 22),
        ("known", None, 2, 22),
    ],
)
def test_checks_in_kafkas_order(member: str, instance_id: str | None, generation_id: int, expected: int) -> None:
    world = World()
    member_id = world.stable(instance_id="i")[0]
    asked = member_id if member == "known" else "stranger"
    assert member_error(world.group(), asked, instance_id, generation_id) == expected


def test_a_dead_group_is_not_there_for_anybody() -> None:
    world = World()
    member_id = world.stable()[0]
    group = world.group()
    world.coordinator.shutdown()
    assert member_error(group, member_id, None, 1) == 15
