import pytest

from kafkapy.coordinator.group.classic.calls import LeavingMember
from kafkapy.metadata.topic_rules import GROUP_METADATA_TOPIC
from kafkapy.turns import finish
from kafkapy.types import TopicPartition
from tests.coordinator.world import World, states_world


@pytest.mark.parametrize(
    ("state", "expected"), [("Empty", 25), ("PreparingRebalance", 0), ("CompletingRebalance", 0), ("Stable", 0)]
)
def test_leave_by_state(state: str, expected: int) -> None:
    world, member_id = states_world(state)
    assert finish(world.coordinator.classic.leave("g", [LeavingMember(member_id)])) == (0, [expected])
    assert member_id not in world.group().members


def test_the_group_is_empty_in_a_new_generation_after_the_last_member_left() -> None:
    world = World()
    member_id = world.stable()[0]
    finish(world.coordinator.classic.leave("g", [LeavingMember(member_id)]))
    assert (world.group().state.value, world.group().generation_id, world.group().protocol_name) == ("Empty", 2, None)
    assert world.group().members.leader_id is None


def test_the_others_join_again_at_once() -> None:
    world = World()
    leader, follower = world.stable(2)
    assert finish(world.coordinator.classic.leave("g", [LeavingMember(leader)])) == (0, [0])
    assert world.heartbeat(follower, 2) == 27
    assert world.joined(follower).leader_id == follower


def test_each_leaving_member_gets_an_error_code() -> None:
    world = World()
    static = world.stable(instance_id="i")[0]
    pending = world.join(requires_known_member_id=True).value.member_id
    leaving = [
        LeavingMember("stranger"),
        LeavingMember("stranger", "i"),
        LeavingMember(pending),
        LeavingMember("", "i"),
        LeavingMember("", "i"),
        LeavingMember("", "unknown"),
    ]
    assert finish(world.coordinator.classic.leave("g", leaving)) == (0, [25, 82, 0, 0, 25, 25])
    assert static not in world.group().members


def test_a_handed_out_member_id_belongs_to_no_instance_id() -> None:
    world = World()
    known, other = world.stable(2)
    given = world.join(requires_known_member_id=True).value.member_id
    leaving = [LeavingMember(known), LeavingMember(given, "i"), LeavingMember(other)]
    assert finish(world.coordinator.classic.leave("g", leaving)) == (-1, [])
    assert list(world.group().members) == [other]
    assert given in world.group().pending


def test_a_member_that_leaves_while_it_waits_is_answered() -> None:
    world = World()
    leader = world.stable()[0]
    waiting = world.join()
    finish(world.coordinator.classic.leave("g", [LeavingMember(next(m for m in world.group().members if m != leader))]))
    assert (waiting.value.error_code, waiting.value.member_id) == (25, "")


def test_a_follower_that_leaves_while_its_sync_waits_is_answered() -> None:
    world = World()
    leader = world.joined().member_id
    follower = world.join()
    generation = world.joined(leader).generation_id
    waiting = world.sync(follower.value.member_id, generation)
    finish(world.coordinator.classic.leave("g", [LeavingMember(follower.value.member_id)]))
    assert waiting.value.error_code == 25


def test_a_leave_without_members() -> None:
    world = World()
    assert finish(world.coordinator.classic.leave("g", [])) == (0, [])
    world.stable()
    assert finish(world.coordinator.classic.leave("g", [])) == (0, [])
    world.coordinator.shutdown()
    assert finish(world.coordinator.classic.leave("g", [])) == (15, [])


def test_a_group_that_is_unloaded_while_its_members_leave() -> None:
    world = World()
    ids = world.stable(2)
    steps = world.coordinator.classic.leave("g", [LeavingMember(each) for each in ids])
    next(steps)
    world.resign(TopicPartition(GROUP_METADATA_TOPIC, 0), 1)
    assert finish(steps) == (16, [])
