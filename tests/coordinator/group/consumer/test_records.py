"""What the log holds: a reload restores what members have seen, whichever broker wrote it."""

import pytest

from kafkapy.coordinator.group.classic.records import group_tombstone
from kafkapy.coordinator.group.consumer import records as stored
from kafkapy.coordinator.group.consumer.members import CurrentAssignment, MemberState
from kafkapy.coordinator.group.records import decode_key, encode_versioned
from kafkapy.metadata.errors import NotEnoughReplicasError
from kafkapy.metadata.topic_rules import GROUP_METADATA_TOPIC
from kafkapy.protocol.messages.stored.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from kafkapy.records.errors import InvalidRecordError
from kafkapy.records.record import Record, encode_batch, read_records
from kafkapy.types import TopicPartition
from tests.coordinator.group.consumer.world import ConsumerWorld, T, shown


def keys(world: ConsumerWorld) -> list[list[str]]:
    """By batch, the classes of the records' keys."""
    return [[type(decode_key(each.key or b"")).__name__ for each in read_records(data)] for data in world.log.batches]


def test_the_records_of_joins_and_leaves_are_those_of_apache_kafka() -> None:
    world = ConsumerWorld()
    world.enter("a")
    world.beat("a", 2)
    world.enter("b")
    world.beat("a", -1)
    world.beat("b", -1)
    world.delete_groups(["g"])
    member, epoch, target, assignment, current = (
        f"Consumer{each}Key" for each in ("Member", "Group", "Target", "AssignmentEpoch", "Current")
    )
    assert keys(world) == [
        [member, epoch, target, assignment, current],
        [member, epoch, target, target, assignment, current],
        [current, target, member, epoch],
        [current, target, member, epoch, assignment],
        [assignment, "NoneType", epoch],
    ]


@pytest.mark.parametrize("one_batch_per_read", [False, True])
def test_a_restart_restores_the_group(one_batch_per_read: bool) -> None:
    world = ConsumerWorld()
    world.enter("a", rack_id="r", server_assignor="range", topic_names=("t", "x"))
    world.enter("b")
    world.beat("a", 2)
    before = world.describe()
    world.log.one_batch_per_read = one_batch_per_read
    world.restart()
    assert world.describe() == before
    assert world.epochs("a", 2) == (2, None)
    world.clock.advance(30_000)
    assert [each.member_id for each in world.describe().members] == ["b"]
    world.clock.advance(20_000)
    assert world.describe().members == ()
    world.restart()
    assert world.state() == ("Empty", 5, 5)


def test_offsets_stay_when_a_group_changes_its_type() -> None:
    world = ConsumerWorld()
    world.commit(7)
    member_id = world.stable()[0]
    refused = world.enter("a")
    assert refused.error_code == 69  # the assignment is none of the consumers' protocol
    assert world.describe().error_message == "Group g is not a consumer group."
    world.coordinator.classic.expire_member("g", member_id)
    assert world.enter("a").error_code == 0
    assert world.fetch() == 7
    world.restart()
    assert world.state() == ("Stable", 2, 2)
    assert world.fetch() == 7
    world.beat("a", -1)
    world.broker.error = NotEnoughReplicasError("too few")
    assert world.join().value.error_code == 15
    world.broker.error = None
    world.stable()
    assert world.fetch() == 7
    world.restart()
    assert world.group().state.value == "Stable"
    assert world.beat("a", 2).error_code == 69


def test_a_group_without_a_record_of_its_own_becomes_a_classic_one() -> None:
    world = ConsumerWorld()
    world.enter("a", topic_names=())
    world.beat("a", -1)
    assert world.join().value.error_code == 0


def test_a_deleted_group_that_has_offsets_is_loaded_with_them() -> None:
    world = ConsumerWorld()
    world.enter("a")
    world.beat("a", -1)
    world.commit(7)
    world.log.append(encode_batch(stored.group_tombstones("g", 0)))
    world.log.append(encode_batch(stored.member_tombstones("g", "a", 0)))
    world.log.append(encode_batch(stored.member_tombstones("x", "a", 0)))
    world.restart()
    assert world.group().state.value == "Empty"
    assert world.fetch() == 7


def test_compaction_may_leave_an_assignment_before_its_member() -> None:
    world = ConsumerWorld()
    world.enter("a")
    member, *others = world.log.records()
    world.log.batches.clear()
    world.log.log_end_offset = 0
    world.log.append(encode_batch([Record(each.key, each.value, each.timestamp) for each in (*others, member)]))
    world.log.append(encode_batch(stored.member_tombstones("g", "y", 0)))
    world.restart()
    assert world.epochs("a", 2) == (2, None)


def test_the_last_type_of_a_group_in_the_log_counts() -> None:
    """Another broker may have left records of the former type behind."""
    world = ConsumerWorld()
    world.stable()
    classic = world.log.batches[-1]
    world.resign(TopicPartition(GROUP_METADATA_TOPIC, 0), None)
    world.log.append(encode_batch([stored.group_record("g", 5, 0, 0), group_tombstone("g", 0)]))
    world.start()
    assert world.state() == ("Empty", 5, 1)
    world.log.append(classic)
    world.restart()
    assert world.group().state.value == "Stable"


def test_a_classic_record_that_waits_when_the_group_changes_its_type() -> None:
    world = ConsumerWorld()
    member_id = world.stable()[0]
    world.broker.is_slow = True
    world.coordinator.classic.expire_member("g", member_id)
    answer = world.send("a", 0, **world.enter_call())
    world.broker.acknowledge()
    assert shown(answer.value) == (2, {T: [0, 1, 2]})


def test_partitions_with_two_owners_in_a_damaged_log_go_to_one_of_them() -> None:
    world = ConsumerWorld()
    world.enter("a")
    second = CurrentAssignment(2, 1, MemberState.STABLE, {T: {0: 2}})
    world.log.append(encode_batch([stored.current_record("g", "z", second, 0)]))
    world.restart()
    world.beat("a", -1)
    world.beat("z", -1)
    assert world.state() == ("Empty", 4, 4)


def test_a_member_of_an_unknown_state_joins_again() -> None:
    value = ConsumerGroupCurrentMemberAssignmentValue(2, 1, 9, [TopicPartitions(T, [0, 1])], [])
    current = stored.decode_current(encode_versioned(value, 0))
    assert current == CurrentAssignment(2, 1, MemberState.UNKNOWN, {T: {0: 2, 1: 2}}, {})
    world = ConsumerWorld()
    world.enter("a")
    key = stored.current_record("g", "a", None, 0).key
    world.log.append(encode_batch([Record(key, encode_versioned(value, 0), 0)]))
    world.restart()
    assert world.beat("a", 2).error_code == 110
    assert shown(world.enter("a")) == (2, {T: [0, 1, 2]})


def test_a_damaged_assignment_is_refused() -> None:
    value = ConsumerGroupCurrentMemberAssignmentValue(2, 1, 0, [TopicPartitions(T, [0, 1], [2])], [])
    with pytest.raises(InvalidRecordError):
        stored.decode_current(encode_versioned(value, 0))
