import pytest

from kafkapy.coordinator.group.classic.calls import SyncCall
from kafkapy.coordinator.group.classic.membership import sync
from kafkapy.platform.errors import KafkaStorageError
from tests.coordinator.world import World, states_world


@pytest.mark.parametrize(("state", "expected"), [("Empty", 25), ("PreparingRebalance", 27), ("Stable", 0)])
def test_sync_by_state(state: str, expected: int) -> None:
    world, member_id = states_world(state)
    answer = world.sync(member_id, 1 if state != "Empty" else 0)
    assert answer.value.error_code == expected


def test_a_follower_waits_for_the_leaders_assignment() -> None:
    world = World()
    leader = world.joined().member_id
    follower = world.join()
    generation = world.joined(leader).generation_id
    waiting = world.sync(follower.value.member_id, generation)
    assert not waiting.is_set
    done = world.sync(leader, generation, assignments={leader: b"l", follower.value.member_id: b"f", "stranger": b"s"})
    assert (done.value.assignment, waiting.value.assignment) == (b"l", b"f")
    assert waiting.value == (0, "consumer", "range", b"f")
    assert set(world.group().members) == {leader, follower.value.member_id}


def test_members_that_the_leader_left_out_get_an_empty_assignment() -> None:
    world = World()
    leader = world.joined().member_id
    assert world.sync(leader, 1).value.assignment == b""
    assert world.group().state.value == "Stable"


def test_sync_of_a_dead_group() -> None:
    world = World()
    member_id = world.stable()[0]
    group = world.group()
    world.coordinator.shutdown()
    assert sync(world.coordinator.classic._rebalancer, group, SyncCall("g", 1, member_id)).value.error_code == 15


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"protocol_type": "connect"}, 23),
        ({"protocol_name": "sticky"}, 23),
        ({"protocol_type": "consumer", "protocol_name": "range"}, 0),
        ({"protocol_type": None, "protocol_name": None}, 0),
    ],
)
def test_a_named_protocol_must_be_the_groups(fields: dict[str, str | None], expected: int) -> None:
    world = World()
    assert world.sync(world.stable()[0], 1, **fields).value.error_code == expected


@pytest.mark.parametrize(
    ("member_id", "generation", "instance_id", "expected"),
    [("x", 1, None, 25), ("x", 1, "i", 82), ("", 0, None, 22)],
)
def test_the_members_checks_come_first(member_id: str, generation: int, instance_id: str | None, expected: int) -> None:
    world = World()
    known = world.stable(instance_id="i")[0]
    answer = world.sync(member_id or known, generation, instance_id=instance_id, protocol_name="sticky")
    assert answer.value.error_code == expected


@pytest.mark.parametrize("late", [False, True])
def test_an_assignment_that_the_log_refuses_makes_all_join_again(late: bool) -> None:
    world = World()
    leader = world.joined().member_id
    follower = world.join()
    generation = world.joined(leader).generation_id
    waiting = world.sync(follower.value.member_id, generation)
    world.broker.error, world.broker.error_comes_late = KafkaStorageError("disk"), late
    answer = world.sync(leader, generation, assignments={leader: b"x"})
    assert [answer.value.error_code, waiting.value.error_code] == [16, 16]
    assert world.group().state.value == "PreparingRebalance"
    assert [member.assignment for member in world.group().members.values()] == [b"", b""]


def test_members_get_the_assignment_when_all_replicas_have_it() -> None:
    world = World()
    world.broker.is_slow = True
    leader = world.joined().member_id
    answer = world.sync(leader, 1, assignments={leader: b"x"})
    assert not answer.is_set
    assert world.group().state.value == "CompletingRebalance"
    world.broker.acknowledge()
    assert answer.value.assignment == b"x"


def test_an_assignment_of_an_earlier_generation_changes_nothing() -> None:
    world = World()
    world.broker.is_slow = True
    leader = world.joined().member_id
    late = world.sync(leader, 1, assignments={leader: b"old"})
    follower = world.join()
    assert late.value.error_code == 27
    assert world.joined(leader).generation_id == 2
    world.broker.acknowledge()
    assert world.group().state.value == "CompletingRebalance"
    assert world.group().members[leader].assignment == b""
    assert follower.is_set


def test_an_append_error_after_the_next_join_phase_began_changes_nothing() -> None:
    world = World()
    world.broker.is_slow = True
    leader = world.joined().member_id
    late = world.sync(leader, 1, assignments={leader: b"old"})
    world.join()
    world.broker.acknowledge(KafkaStorageError("disk"))
    assert late.value.error_code == 27
    assert world.group().state.value == "PreparingRebalance"


def test_a_leader_that_syncs_twice_is_answered_twice() -> None:
    world = World()
    world.broker.is_slow = True
    leader = world.joined().member_id
    first = world.sync(leader, 1, assignments={leader: b"1"})
    second = world.sync(leader, 1, assignments={leader: b"2"})
    assert first.value.error_code == 27
    world.broker.acknowledge()
    assert second.value.assignment == b"1"
    assert world.group().members[leader].assignment == b"2"


def test_the_session_counts_again_from_the_assignment() -> None:
    world = World()
    leader = world.joined().member_id
    follower = world.join()
    generation = world.joined(leader).generation_id
    waiting = world.sync(follower.value.member_id, generation)
    for _ in range(3):
        world.clock.advance(9_000)
        assert world.heartbeat(leader, generation) == 0
    world.sync(leader, generation)
    assert waiting.value.error_code == 0
    world.clock.advance(9_000)
    assert follower.value.member_id in world.group().members


def rebalancing(world: World) -> tuple[str, str, int]:
    """A group whose two members have joined: the ids of the leader and the follower, and the generation."""
    leader = world.joined(rebalance_timeout_ms=4_000).member_id
    joining = world.join(rebalance_timeout_ms=3_000)
    generation = world.joined(leader, rebalance_timeout_ms=4_000).generation_id
    return leader, joining.value.member_id, generation


def test_a_leader_that_never_syncs_is_removed_after_the_longest_rebalance_time_out() -> None:
    """Its heartbeats would keep the others waiting for ever (KAFKA-12890)."""
    world = World()
    leader, follower, generation = rebalancing(world)
    waiting = world.sync(follower, generation)
    world.clock.advance(3_999)
    assert world.heartbeat(leader, generation) == 0
    assert not waiting.is_set
    world.clock.advance(1)
    assert waiting.value.error_code == 27
    assert world.heartbeat(leader, generation) == 25
    assert world.joined(follower).leader_id == follower


def test_a_follower_that_never_syncs_is_removed_from_a_stable_group() -> None:
    world = World()
    leader, follower, generation = rebalancing(world)
    assert world.sync(leader, generation).value.error_code == 0
    world.clock.advance(4_000)
    assert world.heartbeat(follower, generation) == 25
    assert world.heartbeat(leader, generation) == 27


def test_members_that_have_synced_stay() -> None:
    world = World()
    leader, follower, generation = rebalancing(world)
    waiting = world.sync(follower, generation)
    world.sync(leader, generation)
    assert waiting.value.error_code == 0
    world.clock.advance(4_000)
    assert [world.heartbeat(each, generation) for each in (leader, follower)] == [0, 0]


def test_a_group_of_which_no_member_syncs_becomes_empty() -> None:
    world = World()
    world.joined(rebalance_timeout_ms=0)
    world.clock.advance(999)
    assert world.group().state.value == "CompletingRebalance"
    world.clock.advance(1)
    assert world.group().state.value == "Empty"


@pytest.mark.parametrize("error", [None, KafkaStorageError("disk")])
def test_a_static_member_that_never_syncs_is_removed_while_its_next_join_waits_for_the_log(
    error: KafkaStorageError | None,
) -> None:
    world = World()
    leader = world.joined(rebalance_timeout_ms=4_000).member_id
    world.join(instance_id="i", rebalance_timeout_ms=4_000)
    generation = world.joined(leader, rebalance_timeout_ms=4_000).generation_id
    world.sync(leader, generation)
    world.broker.is_slow = True
    again = world.join(instance_id="i", rebalance_timeout_ms=4_000)
    assert not again.is_set
    world.clock.advance(4_000)
    assert again.value.error_code == 25
    world.broker.acknowledge(error)
    assert world.heartbeat(leader, generation) == 27
