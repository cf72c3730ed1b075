import re

import pytest

from kafkapy.coordinator.group.calls import GroupDescription, GroupListing
from kafkapy.coordinator.group.classic import states
from kafkapy.coordinator.group.classic.calls import LeavingMember
from kafkapy.coordinator.group.classic.states import IllegalGroupTransitionError
from kafkapy.turns import finish
from tests.coordinator.world import RANGE, World, bare_group


def test_a_new_group_is_empty() -> None:
    group = bare_group(5)
    assert repr(group) == "ClassicGroup('g', Empty, generation 0, 0 members)"
    assert (group.state_timestamp_ms, group.is_dead, group.is_consumer_group) == (-1, False, False)


def test_transitions_are_checked_and_stamped() -> None:
    group = bare_group(5)
    with pytest.raises(IllegalGroupTransitionError):
        group.transition_to(states.STABLE)
    group.transition_to(states.PREPARING)
    assert (group.state, group.state_timestamp_ms) == (states.PREPARING, 5)


def test_an_empty_group_takes_any_protocol_that_has_a_name() -> None:
    group = bare_group(5)
    assert group.supports("consumer", RANGE)
    assert not group.supports("", RANGE)
    assert not group.supports("consumer", ())


def test_member_ids_have_kafkas_form() -> None:
    group = bare_group(5)
    uuid = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    assert re.fullmatch(f"c-{uuid}", group.generate_member_id("c", None))
    assert re.fullmatch(f"i-{uuid}", group.generate_member_id("c", "i"))
    assert group.generate_member_id("c", None) != group.generate_member_id("c", None)


def test_the_description_of_a_stable_group() -> None:
    world = World()
    member_id = world.stable(instance_id="i")[0]
    group = world.group()
    assert group.listing() == GroupListing("g", "consumer", "Stable", "classic")
    member = (member_id, "i", "client", "/127.0.0.1", RANGE[0][1], b"part-0")
    assert finish(group.describe()) == GroupDescription(0, "g", "Stable", "consumer", "range", (member,))


def test_the_description_of_a_group_that_rebalances() -> None:
    world = World()
    member_id = world.joined().member_id
    member = (member_id, None, "client", "/127.0.0.1", b"", b"")
    assert finish(world.group().describe()) == GroupDescription(
        0, "g", "CompletingRebalance", "consumer", "", (member,)
    )


def test_the_description_of_a_group_that_only_keeps_offsets() -> None:
    world = World()
    world.commit()
    assert finish(world.group().describe()) == GroupDescription(0, "g", "Empty", "", "", ())
    assert world.group().listing() == GroupListing("g", "", "Empty", "classic")


def test_a_group_with_unknown_subscriptions_may_consume_any_topic() -> None:
    world = World()
    world.stable(protocol_type="connect")
    assert world.group().is_subscribed_to("anything")
    other = World()
    other.stable()
    assert other.group().is_subscribed_to("t")
    assert not other.group().is_subscribed_to("anything")


def test_a_large_group_is_described_in_steps_as_it_was() -> None:
    world = World()
    ids = world.stable(130)
    steps = world.group().describe()
    next(steps)
    world.group().members[ids[100]].protocols = (("other", b"x"),)
    finish(world.coordinator.classic.leave("g", [LeavingMember(ids[-1])]))
    described = finish(steps)
    assert (described.state, len(described.members)) == ("Stable", 130)
    assert [described.members[number].metadata for number in (0, 100)] == [RANGE[0][1], b""]
