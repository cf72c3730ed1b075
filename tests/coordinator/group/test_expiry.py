from typing import Any

import pytest

from kafkapy.coordinator.group.group import Group
from kafkapy.coordinator.group.offsets import CommittedOffset
from kafkapy.coordinator.group.removal import expired_offsets
from kafkapy.types import TopicPartition
from tests.coordinator.world import RANGE, TP, World, subscription

OTHER = TopicPartition("other", 0)


def expired(group: Group, now_ms: int) -> list[TopicPartition]:
    return expired_offsets(group, group.offsets.committed, now_ms, 1_000)


def settled(**fields: Any) -> tuple[World, Group]:
    world = World()
    world.stable(**fields)
    for place, tp in enumerate((TP, OTHER)):
        world.group().offsets.replay(tp, 100 + place, CommittedOffset(1, commit_timestamp_ms=5_000))
    return world, world.group()


def test_consumers_with_members_lose_only_what_nobody_subscribes_to() -> None:
    _, group = settled()
    assert expired(group, 5_999) == []
    assert expired(group, 6_000) == [OTHER]


@pytest.mark.parametrize("fields", [{"protocol_type": "connect"}, {"protocols": (("range", b"unreadable"),)}])
def test_members_whose_subscription_is_unknown_lose_nothing(fields: dict[str, Any]) -> None:
    _, group = settled(**fields)
    assert expired(group, 10**15) == []


def test_a_group_that_is_empty_loses_all_counted_from_then() -> None:
    world, group = settled()
    world.clock.advance(10_000)
    assert group.state.value == "Empty"
    since = group.state_timestamp_ms
    assert expired(group, since + 999) == []
    assert expired(group, since + 1_000) == [TP, OTHER]


def test_an_empty_group_from_an_older_kafka_counts_from_the_commit() -> None:
    world, group = settled()
    world.clock.advance(10_000)
    group.state_timestamp_ms = -1
    assert expired(group, 5_999) == []
    assert expired(group, 6_000) == [TP, OTHER]


def test_consumers_without_group_management_count_from_the_commit() -> None:
    group = Group("g", lambda: 0)
    group.offsets.replay(TP, 0, CommittedOffset(1, commit_timestamp_ms=5_000))
    assert expired(group, 5_999) == []
    assert expired(group, 6_000) == [TP]


def test_a_commit_from_before_the_beginning_of_time_does_not_age() -> None:
    """Kafka's difference of the two times wraps."""
    group = Group("g", lambda: 0)
    group.offsets.replay(TP, 0, CommittedOffset(1, commit_timestamp_ms=-(2**63)))
    group.offsets.replay(OTHER, 1, CommittedOffset(1, commit_timestamp_ms=-(2**62)))
    assert expired(group, 6_000) == [OTHER]


def test_a_retention_of_its_own_wins() -> None:
    group = Group("g", lambda: 0)
    group.offsets.replay(TP, 0, CommittedOffset(1, commit_timestamp_ms=5_000, expire_timestamp_ms=9_000))
    assert expired(group, 8_999) == []
    assert expired(group, 9_000) == [TP]


def test_an_offset_with_a_commit_on_its_way_stays() -> None:
    group = Group("g", lambda: 0)
    group.offsets.replay(TP, 0, CommittedOffset(1, commit_timestamp_ms=5_000))
    group.offsets.append_started([TP])
    assert expired(group, 10**15) == []


def test_a_topic_of_a_changed_subscription_counts() -> None:
    world, group = settled()
    member_id = next(iter(group.members))
    world.joined(member_id, protocols=(("range", subscription("other")),))
    assert expired(group, 6_000) == [TP]
    assert RANGE
