import pytest

from kafkapy.coordinator.group.classic.protocols import TOPICS_IN_A_STEP, subscribed_topics, topics_of
from kafkapy.coordinator.group.metadata_budget import TOPIC_BYTES, MetadataBudget
from kafkapy.protocol.primitives import ProtocolError
from kafkapy.turns import finish
from tests.coordinator.world import World, subscription


def subscribed(protocol_type: str | None, protocol_name: str | None, *subscriptions: bytes) -> object:
    return finish(subscribed_topics(protocol_type, protocol_name, subscriptions, MetadataBudget()))


def test_topics_of_metadata_of_any_version_are_read() -> None:
    metadata = subscription("a", "b")
    assert topics_of(metadata) == {"a", "b"}
    later = b"\x00\x09" + metadata[2:] + b"fields of version 9"
    assert topics_of(later) == {"a", "b"}
    assert topics_of(b"\xff\xff" + metadata[2:]) == {"a", "b"}  # Kafka 2.7.2 reads it, too


@pytest.mark.parametrize("metadata", [b"", b"\x00", b"\xff\xff\x00\x00\x00\x00", b"\x00\x00\x00\x00\x00\x05"])
def test_metadata_that_is_not_a_subscription_is_a_protocol_error(metadata: bytes) -> None:
    with pytest.raises(ProtocolError):
        topics_of(metadata)


def test_the_topics_of_all_members() -> None:
    both = (subscription("a"), subscription("b"))
    assert subscribed("consumer", "range", *both) == {"a", "b"}
    assert subscribed("consumer", None) == frozenset()
    assert subscribed("connect", "range", *both) is None
    assert subscribed(None, None) is None
    assert subscribed("consumer", "range", *both, b"") is None


def test_many_topics_are_read_in_steps() -> None:
    names = [f"topic-{number}" for number in range(TOPICS_IN_A_STEP * 2 + 1)]
    steps = subscribed_topics("consumer", "range", [subscription(*names), subscription("t")], MetadataBudget())
    assert [None for _ in steps] == [None] * 4
    assert subscribed("consumer", "range", subscription(*names), subscription("t")) == {*names, "t"}


def test_topics_beyond_the_budget_are_not_known() -> None:
    budget = MetadataBudget(TOPIC_BYTES * 3)
    assert finish(subscribed_topics("consumer", "range", [subscription("a", "b", "c")], budget)) == {"a", "b", "c"}
    assert finish(subscribed_topics("consumer", "range", [subscription("a", "b", "c", "d")], budget)) is None


def test_subscribed_topics_are_charged_and_released() -> None:
    world = World()
    budget = world.coordinator._runtime.budget
    leader = world.joined(protocols=(("range", subscription("a", "b")),)).member_id
    before = budget.used_bytes
    assert world.group().is_subscribed_to("b")
    world.joined(leader, protocols=(("range", subscription("a", "c")),))
    assert budget.used_bytes == before
    assert [world.group().is_subscribed_to(each) for each in "abc"] == [True, False, True]
    world.joined(leader, protocols=(("range", subscription("a")),))
    assert budget.used_bytes == before - TOPIC_BYTES - len(subscription("b")) + len(subscription())


def test_a_rebalance_ends_the_reading_of_the_earlier_subscriptions() -> None:
    world = World()
    world.run_later()
    world.start()
    finish(world.later.pop())
    names = [f"topic-{number}" for number in range(TOPICS_IN_A_STEP * 3)]
    leader = world.joined(protocols=(("range", subscription(*names)),)).member_id
    reading = world.later.pop()
    next(reading)
    assert world.group().is_subscribed_to("other")  # it is not known yet
    world.joined(leader, protocols=(("range", subscription("t")),))
    finish(world.later.pop())
    finish(reading)
    assert world.group().subscribed == {"t"}


def test_a_deleted_group_ends_the_reading_of_subscriptions() -> None:
    world = World()
    world.run_later()
    world.start()
    finish(world.later.pop())
    names = [f"topic-{number}" for number in range(TOPICS_IN_A_STEP * 3)]
    world.joined(protocols=(("range", subscription(*names)),))
    reading = world.later.pop()
    next(reading)
    budget = world.coordinator._runtime.budget
    world.coordinator.shutdown()
    finish(world.later.pop())
    finish(reading)
    assert budget.used_bytes == 0
