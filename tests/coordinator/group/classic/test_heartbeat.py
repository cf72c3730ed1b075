import pytest

from kafkapy.coordinator.group.classic.membership import heartbeat
from tests.coordinator.world import World, states_world


@pytest.mark.parametrize(
    ("state", "expected"),
    [("Empty", 25), ("PreparingRebalance", 27), ("CompletingRebalance", 0), ("Stable", 0)],
)
def test_heartbeat_by_state(state: str, expected: int) -> None:
    world, member_id = states_world(state)
    assert world.heartbeat(member_id, 1 if state != "Empty" else 0) == expected


def test_heartbeat_of_a_dead_group() -> None:
    world = World()
    member_id = world.stable()[0]
    group = world.group()
    world.coordinator.shutdown()
    assert heartbeat(world.coordinator.classic._rebalancer, group, 1, member_id, None) == 15


@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance", "Stable"])
def test_heartbeats_keep_the_session_alive_even_while_joining_is_due(state: str) -> None:
    world, member_id = states_world(state)
    for _ in range(5):
        world.clock.advance(9_000)
        world.heartbeat(member_id, 1)
    assert member_id in world.group().members


def test_a_member_without_heartbeats_is_removed_after_its_session_time_out() -> None:
    world = World()
    member_id = world.stable()[0]
    world.clock.advance(9_999)
    assert member_id in world.group().members
    world.clock.advance(1)
    assert member_id not in world.group().members
    assert world.heartbeat(member_id, 1) == 25


def test_a_heartbeat_sets_no_timer() -> None:
    world = World()
    member_id = world.stable()[0]
    before = world.clock.pending_timers()
    for _ in range(10):
        assert world.heartbeat(member_id, 1) == 0
    assert world.clock.pending_timers() == before


@pytest.mark.parametrize(
    ("member_id", "generation", "instance_id", "expected"), [("x", 1, None, 25), ("x", 1, "i", 82)]
)
def test_heartbeats_of_unknown_and_fenced_members_are_refused(
    member_id: str, generation: int, instance_id: str | None, expected: int
) -> None:
    world = World()
    world.stable(instance_id="i")
    assert world.heartbeat(member_id, generation, instance_id) == expected


def test_a_heartbeat_of_an_old_generation_is_refused() -> None:
    world = World()
    assert world.heartbeat(world.stable()[0], 0) == 22


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
    assert world.group().member_error(asked, instance_id, generation_id) == expected


def test_a_dead_group_refuses_every_member() -> None:
    world = World()
    member_id = world.stable()[0]
    group = world.group()
    world.coordinator.shutdown()
    assert group.member_error(member_id, None, 1) == 15
