import pytest

from tests.coordinator.world import World


def test_members_that_join_within_the_initial_delay_are_in_one_generation() -> None:
    world = World(group_initial_rebalance_delay_ms=3_000)
    first = world.join()
    world.clock.advance(2_999)
    assert not first.is_set
    world.clock.advance(1)
    assert first.value.generation_id == 1


def test_each_newcomer_extends_the_initial_delay_up_to_the_rebalance_timeout() -> None:
    world = World(group_initial_rebalance_delay_ms=3_000)
    answers = [world.join(rebalance_timeout_ms=10_000)]
    for _ in range(4):
        world.clock.advance(2_000)
        answers.append(world.join(rebalance_timeout_ms=10_000))
    world.clock.advance(1_999)
    assert not answers[0].is_set
    world.clock.advance(1)
    assert {answer.value.generation_id for answer in answers} == {1}


def test_in_the_initial_delay_a_group_that_is_complete_still_waits() -> None:
    world = World(group_initial_rebalance_delay_ms=3_000)
    pending = world.join(requires_known_member_id=True).value.member_id
    first = world.join()
    second = world.join(pending)
    assert not first.is_set
    world.clock.advance(6_000)
    assert first.value.generation_id == second.value.generation_id == 1


def test_a_member_that_does_not_join_again_in_time_is_removed() -> None:
    world = World()
    leader = world.stable(rebalance_timeout_ms=7_000)[0]
    second = world.join(rebalance_timeout_ms=5_000)
    world.clock.advance(6_999)
    assert not second.is_set
    world.clock.advance(1)
    assert leader not in world.group().members
    assert second.value.leader_id == second.value.member_id


def test_a_new_member_waits_five_minutes_at_most() -> None:
    world = World()
    world.stable(session_timeout_ms=1_800_000, rebalance_timeout_ms=1_800_000)
    second = world.join(rebalance_timeout_ms=1_800_000)
    world.clock.advance(299_999)
    assert not second.is_set
    world.clock.advance(1)
    assert (second.value.error_code, second.value.member_id) == (25, "")


def test_a_known_member_may_wait_for_the_others_longer_than_its_session() -> None:
    world = World()
    leader, follower = world.stable(2)
    waiting = world.join(leader)
    for _ in range(5):
        world.clock.advance(9_000)
        assert world.heartbeat(follower, 2) == 27
    assert not waiting.is_set
    world.joined(follower)
    assert waiting.value.generation_id == 3


def test_absent_static_members_stay_until_their_sessions_end() -> None:
    world = World()
    first = world.stable(instance_id="i", session_timeout_ms=100_000, rebalance_timeout_ms=10_000)[0]
    second = world.join(session_timeout_ms=100_000, rebalance_timeout_ms=10_000)
    member = next(each for each in world.group().members if each != first)
    world.coordinator.classic._rebalancer.remove_member(world.group(), world.group().members[member])
    assert second.value.error_code == 25
    world.clock.advance(99_000)
    assert (world.group().state.value, list(world.group().members)) == ("PreparingRebalance", [first])
    world.clock.advance(1_000)
    assert (world.group().state.value, world.group().generation_id) == ("Empty", 2)


def test_a_rebalance_timeout_of_0_does_not_loop() -> None:
    world = World()
    world.stable(instance_id="i", rebalance_timeout_ms=0)
    second = world.join(rebalance_timeout_ms=0)
    world.clock.advance(1)
    assert second.is_set


@pytest.mark.parametrize("rebalance_timeout_ms", [0, -5, 1])
def test_absent_static_members_do_not_keep_the_broker_busy(rebalance_timeout_ms: int) -> None:
    """Apache Kafka ends the join phase again and again, without a pause, until the sessions end."""
    world = World()
    fields = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": rebalance_timeout_ms}
    first = world.stable(instance_id="i", **fields)[0]
    world.join(**fields)
    member = next(each for each in world.group().members if each != first)
    world.coordinator.classic._rebalancer.remove_member(world.group(), world.group().members[member])
    timers = 0
    for _ in range(5_000):
        before = world.group().phase_timer
        world.clock.advance(1)
        timers += world.group().phase_timer is not before
    assert 0 < timers <= 51
    assert (world.group().state.value, list(world.group().members)) == ("PreparingRebalance", [first])
    assert world.joined(first, instance_id="i").generation_id == 2


def test_maybe_prepare_leaves_a_running_join_phase_alone() -> None:
    world = World()
    world.stable()
    world.join()
    timer = world.group().phase_timer
    world.coordinator.classic._rebalancer.maybe_prepare(world.group())
    assert world.group().phase_timer is timer


def test_an_empty_generation_is_written() -> None:
    world = World()
    world.stable()
    world.clock.advance(10_000)
    assert world.group().state.value == "Empty"
    world.restart()
    assert (world.group().state.value, world.group().generation_id) == ("Empty", 2)


def test_sessions_of_loaded_members_start_when_they_are_loaded() -> None:
    world = World()
    member_id = world.stable()[0]
    world.restart()
    assert world.heartbeat(member_id, 1) == 0
    world.clock.advance(9_999)
    assert member_id in world.group().members
    world.clock.advance(1)
    assert world.group().state.value == "Empty"


def test_a_loaded_group_that_is_too_large_joins_again() -> None:
    world = World()
    world.stable(3)
    world.config["group.max.size"] = 2
    world.restart()
    assert world.group().state.value == "PreparingRebalance"


@pytest.mark.parametrize("state", ["joining", "syncing", "pending"])
def test_waiting_requests_get_not_coordinator_at_an_unload(state: str) -> None:
    world = World()
    leader = world.joined().member_id
    answer = world.join()
    if state == "syncing":
        generation = world.joined(leader).generation_id
        answer = world.sync(answer.value.member_id, generation)
    elif state == "pending":
        world.join(requires_known_member_id=True)
    group = world.group()
    world.coordinator.shutdown()
    assert answer.value.error_code == 16
    assert group.is_dead
    assert world.clock.pending_timers() == 0


def test_timers_of_a_dead_group_do_nothing() -> None:
    world = World()
    member_id = world.stable()[0]
    group, rebalancer = world.group(), world.coordinator.classic._rebalancer
    member = group.members[member_id]
    world.coordinator.shutdown()
    rebalancer._session_timer_fired(group, member)
    rebalancer.complete_join(group)
    rebalancer.remove_pending(group, "x")
    assert (group.is_dead, list(group.members)) == (True, [member_id])


def test_a_member_that_waits_is_not_timed_out_but_its_session_starts_again() -> None:
    world = World()
    leader, follower = world.stable(2, session_timeout_ms=10_000)
    waiting = world.join(leader)
    world.clock.advance(9_999)
    world.heartbeat(follower, 2)
    world.clock.advance(5_000)
    assert leader in world.group().members
    world.joined(follower)
    assert waiting.is_set
    world.clock.advance(10_000)
    assert not world.group().members


def test_a_waiting_member_whose_session_ended_is_answered_with_the_others() -> None:
    world = World()
    leader, follower = world.stable(2)
    waiting = world.join(leader)
    world.clock.advance(9_000)
    world.heartbeat(follower, 2)
    world.clock.advance(2_000)
    assert world.group().members[leader].session_timer is None
    world.coordinator.shutdown()
    assert waiting.value.error_code == 16
