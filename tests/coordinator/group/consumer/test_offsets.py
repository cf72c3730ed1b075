"""Offsets of consumer groups: members commit with their epoch."""

import pytest

from kafkapy.coordinator.group.calls import CommitCall, Producer
from kafkapy.protocol.errors import ErrorCode
from kafkapy.turns import finish
from kafkapy.types import TopicPartition
from tests.coordinator.group.consumer.world import ConsumerWorld, T

STALE, UNKNOWN_MEMBER = ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID


def two_members() -> ConsumerWorld:
    """``a`` has had the partitions 0 and 1 since epoch 2, and is at 3; ``b`` has partition 2."""
    world = ConsumerWorld()
    world.enter("a")
    world.enter("b")
    world.beat("a", 2)
    world.beat("a", 2, owned={T: [0, 1]})
    world.beat("b", 3)
    return world


@pytest.mark.parametrize(
    ("member_id", "epoch", "partition", "error_code"),
    [
        ("a", 3, 0, 0),
        ("a", 2, 0, 0),
        ("a", 2, 2, STALE),
        ("a", 1, 0, STALE),
        ("a", 0, 0, STALE),
        ("a", -1, 0, STALE),
        ("a", 4, 0, STALE),
        ("b", 3, 0, 0),
        ("x", 3, 0, UNKNOWN_MEMBER),
        ("", -1, 0, UNKNOWN_MEMBER),
    ],
)
def test_the_epoch_of_a_commit(member_id: str, epoch: int, partition: int, error_code: int) -> None:
    world = two_members()
    tp = TopicPartition("t", partition)
    answer = world.commit(5, member_id, epoch, tp=tp, has_member_epoch=True)
    assert answer.value == {tp: error_code}


def test_versions_without_member_epochs() -> None:
    world = two_members()
    assert set(world.commit(5, "a", 3).value.values()) == {ErrorCode.UNSUPPORTED_VERSION}
    assert set(world.commit(5, "a", 3, group_id="x").value.values()) == {ErrorCode.ILLEGAL_GENERATION}
    unknown = world.commit(5, "a", 3, group_id="x", has_member_epoch=True)
    assert set(unknown.value.values()) == {ErrorCode.GROUP_ID_NOT_FOUND}


@pytest.mark.parametrize(
    ("member_id", "epoch", "error_code"), [("a", 3, 0), ("", -1, 0), ("a", 4, STALE), ("x", 3, UNKNOWN_MEMBER)]
)
def test_commits_in_transactions(member_id: str, epoch: int, error_code: int) -> None:
    world = two_members()
    tp = TopicPartition("t", 0)
    call = CommitCall("g", member_id, epoch, {tp: world.committed(5)}, None, has_member_epoch=True)
    answer = world.coordinator.commit_offsets_in_transaction(call, Producer(7, 0, 0))
    assert answer.value == {tp: error_code}


@pytest.mark.parametrize(
    ("member_id", "epoch", "error_code"),
    [("a", 3, 0), (None, -1, 0), ("a", 2, STALE), ("x", 3, UNKNOWN_MEMBER), (None, 3, UNKNOWN_MEMBER)],
)
def test_the_epoch_of_a_fetch(member_id: str | None, epoch: int, error_code: int) -> None:
    world = two_members()
    assert world.coordinator.consumer.fetch_error("g", member_id, epoch) == error_code
    assert world.coordinator.consumer.fetch_error("unknown", member_id, epoch) == 0
    world.coordinator.shutdown()
    assert world.coordinator.consumer.fetch_error("g", member_id, epoch) == 0  # the fetch itself fails


def test_offsets_of_topics_that_members_read_stay() -> None:
    world = two_members()
    world.commit(5, "a", 3, has_member_epoch=True)
    tp = TopicPartition("t", 0)
    deleted = finish(world.coordinator.delete_offsets("g", [tp]))
    assert deleted == (0, {tp: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC})
    group = world.consumer_group()
    assert group.retained_since_ms("t", 5) is None
    assert group.retained_since_ms("u", 5) == 5
    world.beat("a", -1)
    world.beat("b", -1)
    assert world.commit(6).value == {tp: 0}
    assert finish(world.coordinator.delete_offsets("g", [tp])) == (0, {tp: 0})
    assert not world.has_group()


def test_a_group_that_was_unloaded() -> None:
    world = two_members()
    group = world.consumer_group()
    world.coordinator.shutdown()
    call = CommitCall("g", "a", 3, {})
    assert group.is_dead
    assert not group.is_empty
    assert group.state == "Dead"
    assert group.commit_error(call) == group.transaction_commit_error(call) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert group.delete_error() == ErrorCode.GROUP_ID_NOT_FOUND
