from collections import Counter
from typing import Any

import pytest

from kafkapy.coordinator.group.calls import CommitCall, Producer
from kafkapy.coordinator.group.classic import states
from kafkapy.coordinator.group.classic.calls import LeavingMember
from kafkapy.coordinator.group.classic.group import ClassicGroup
from kafkapy.coordinator.group.offsets import CommittedOffset
from kafkapy.coordinator.group.records import offset_key
from kafkapy.coordinator.group.removal import BATCH_BYTES, OFFSETS_IN_A_BATCH, expired_offsets
from kafkapy.metadata.errors import NotLeaderOrFollowerError
from kafkapy.metadata.topic_rules import GROUP_METADATA_TOPIC
from kafkapy.platform.errors import KafkaStorageError
from kafkapy.records.control import ControlType, Marker, encode_marker
from kafkapy.turns import finish, pieces
from kafkapy.types import TopicPartition
from tests.coordinator.world import TP, World, bare_group, states_world, subscription

OTHER = TopicPartition("other", 0)

PARTITION = TopicPartition(GROUP_METADATA_TOPIC, 0)


@pytest.mark.parametrize(
    ("state", "expected"), [("Empty", 0), ("PreparingRebalance", 68), ("CompletingRebalance", 68), ("Stable", 68)]
)
def test_delete_group_by_state(state: str, expected: int) -> None:
    world, _ = states_world(state)
    assert world.delete_groups(["g", "g", "unknown"]) == {"g": expected, "unknown": 69}
    assert world.has_group() == bool(expected)


def test_a_deleted_group_stays_deleted() -> None:
    world = World()
    member_id = world.stable()[0]
    world.commit(5, member_id, 1)
    finish(world.coordinator.classic.leave("g", [LeavingMember(member_id)]))
    assert world.delete_groups(["g"]) == {"g": 0}
    tombstones = [record for record in world.log.records() if record.value is None]
    assert [record.key[:2] for record in tombstones if record.key] == [b"\x00\x01", b"\x00\x02"]
    world.restart()
    assert not world.has_group()
    assert world.fetch() == -1


def test_a_group_without_a_record_gets_no_tombstone() -> None:
    world = World()
    world.commit()
    world.delete_groups(["g"])
    assert [record.key[:2] for record in world.log.records() if record.value is None and record.key] == [b"\x00\x01"]


def test_a_tombstone_that_the_log_refuses_changes_nothing() -> None:
    world = World()
    world.commit(5)
    world.broker.error = KafkaStorageError("disk")
    assert world.delete_groups(["g"]) == {"g": 16}
    assert finish(world.coordinator.delete_offsets("g", [TP])) == (0, {TP: 16})
    world.clock.advance(8 * 86_400_000)
    assert world.fetch() == 5
    world.broker.error = None
    world.clock.advance(600_000)
    assert not world.has_group()


def test_an_empty_group_is_deleted_with_its_last_offset() -> None:
    world = World()
    world.commit(1)
    world.commit(2, tp=OTHER)
    assert finish(world.coordinator.delete_offsets("g", [TP, TopicPartition("never", 1)])) == (
        0,
        {TP: 0, TopicPartition("never", 1): 0},
    )
    assert (world.fetch(), world.fetch(tp=OTHER)) == (-1, 2)
    finish(world.coordinator.delete_offsets("g", [OTHER]))
    assert not world.has_group()


def test_an_empty_group_without_offsets_stays_if_no_offset_may_be_deleted() -> None:
    world = World()
    (member_id,) = world.stable()
    finish(world.coordinator.classic.leave("g", [LeavingMember(member_id)]))
    assert finish(world.coordinator.delete_offsets("g", [])) == (0, {})
    assert world.has_group()
    assert finish(world.coordinator.delete_offsets("g", [TP])) == (0, {TP: 0})
    assert not world.has_group()


@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance", "Stable"])
def test_offset_delete_refuses_subscribed_topics(state: str) -> None:
    world, member_id = states_world(state)
    world.commit(1, group_id="another")
    world.group().offsets.replay(OTHER, 0, world.committed(1))
    assert finish(world.coordinator.delete_offsets("g", [TP, OTHER])) == (0, {TP: 86, OTHER: 0})
    assert world.fetch(tp=OTHER) == -1
    assert finish(world.coordinator.delete_offsets("g", [TP])) == (0, {TP: 86})
    assert member_id in world.group().members


@pytest.mark.parametrize(("group_id", "expected"), [("", 24), ("unknown", 69)])
def test_offsets_of_an_unknown_group(group_id: str, expected: int) -> None:
    assert finish(World().coordinator.delete_offsets(group_id, [TP])) == (expected, {})


def test_offsets_of_members_that_are_no_consumers_stay() -> None:
    world = World()
    world.stable(protocol_type="connect")
    assert finish(world.coordinator.delete_offsets("g", [TP])) == (68, {})


def test_the_retention_is_checked_at_the_configured_interval() -> None:
    world = World()
    world.commit(1)
    world.clock.advance(7 * 86_400_000 - 1)
    assert world.has_group()
    world.clock.advance(600_000)
    assert not world.has_group()
    assert len(list(world.log.records())) == 2


def test_an_empty_group_without_offsets_is_deleted_by_the_next_check() -> None:
    world = World()
    world.stable()
    world.clock.advance(10_000)
    assert world.group().state.value == "Empty"
    world.clock.advance(600_000)
    assert not world.has_group()


def test_a_settled_group_without_offsets_stays() -> None:
    world = World(group_max_session_timeout_ms=10**9)
    world.stable(session_timeout_ms=10**9)
    world.clock.advance(600_000)
    assert world.has_group()


def test_offsets_expire_by_their_own_age() -> None:
    world = World()
    world.commit(1)
    world.clock.advance(1)
    world.commit(1, tp=OTHER)
    finish(world.coordinator._remover.expire(1))
    assert list(world.group().offsets.committed) == [OTHER]
    world.clock.advance(1)
    finish(world.coordinator._remover.expire(1))
    assert not world.has_group()


def test_many_groups_and_offsets_expire_in_pieces() -> None:
    world = World()
    for number in range(100):
        world.commit(1, group_id=f"g{number}")
    for number in range(3 * OFFSETS_IN_A_BATCH):
        world.commit(1, tp=TopicPartition("t", number))
    world.clock.advance(1)
    steps = world.coordinator._remover.expire(1)
    for _ in range(70):
        next(steps)
    assert sum(world.has_group(f"g{number}") for number in range(100)) == 30  # the first piece, and some of the second
    world.group("g99").transition_to(states.PREPARING)
    world.delete_groups(["g98"])
    finish(steps)
    assert [world.has_group(group_id) for group_id in ("g", "g97", "g98", "g99")] == [False, False, False, True]


def test_expiry_ends_for_an_unloaded_partition() -> None:
    world = World()
    for number in range(2):
        world.commit(1, group_id=f"g{number}")
    world.clock.advance(1)
    steps = world.coordinator._remover.expire(1)
    next(steps)
    written = len(world.log.batches)
    world.resign(PARTITION, 1)
    finish(steps)
    assert len(world.log.batches) == written


def large_group(count: int = 2 * OFFSETS_IN_A_BATCH + 1) -> tuple[World, list[TopicPartition]]:
    world = World()
    partitions = [TopicPartition("t", number) for number in range(count)]
    for partition in partitions:
        world.commit(1, tp=partition)
    return world, partitions


def test_a_large_group_is_deleted_in_steps() -> None:
    world, _ = large_group()
    steps = world.coordinator.delete_group("g")
    next(steps)
    assert len(world.group().offsets.committed) == OFFSETS_IN_A_BATCH + 1
    world.commit(1, tp=TopicPartition("late", 0))
    assert finish(steps) == 0
    assert not world.has_group()
    world.restart()
    assert not world.has_group()


@pytest.mark.parametrize(("event", "expected"), [("join", 68), ("delete", 69), ("move", 16)])
def test_a_large_group_that_changes_while_it_is_deleted(event: str, expected: int) -> None:
    world, _ = large_group()
    steps = world.coordinator.delete_group("g")
    next(steps)
    if event == "join":
        world.joined()
    elif event == "delete":
        world.delete_groups(["g"])
    else:
        world.resign(PARTITION, 1)
    assert finish(steps) == expected


@pytest.mark.parametrize(("event", "expected"), [("", 0), ("join", 86), ("delete", 0), ("move", 16)])
def test_a_group_that_changes_while_its_offsets_are_deleted(event: str, expected: int) -> None:
    world, partitions = large_group()
    steps = world.coordinator.delete_offsets("g", partitions)
    next(steps)
    if event == "join":
        world.joined()
    elif event == "delete":
        world.delete_groups(["g"])
    elif event == "move":
        world.resign(PARTITION, 1)
    error_code, errors = finish(steps)
    assert (error_code, errors[partitions[0]], errors[partitions[-1]]) == (0, 0, expected)


def test_offsets_of_deleted_topics_are_removed() -> None:
    world = World()
    world.commit(1)
    world.commit(2, tp=OTHER)
    world.commit(3, group_id="h", tp=OTHER)
    for listener in world.broker.metadata_listeners:
        listener(world.broker.image, [])
        listener(world.broker.image, [TP])
    assert (world.fetch(), world.fetch(tp=OTHER), world.fetch("h", OTHER)) == (-1, 2, 3)


def test_any_deleted_topic_deletes_every_empty_group_without_offsets() -> None:
    world = World()
    world.commit(1, group_id="h", tp=OTHER)
    (member_id,) = world.stable()
    for listener in world.broker.metadata_listeners:
        listener(world.broker.image, [TP])
    assert world.has_group()
    finish(world.coordinator.classic.leave("g", [LeavingMember(member_id)]))
    assert world.group().state.value == "Empty"
    for listener in world.broker.metadata_listeners:
        listener(world.broker.image, [TP])
    assert not world.has_group()
    assert world.fetch("h", OTHER) == 1


@pytest.mark.parametrize("metadata", ["", "m"])
def test_a_commit_that_is_acknowledged_after_its_group_was_deleted_does_not_bring_it_back(metadata: str) -> None:
    world = World()
    world.commit(1)
    world.broker.is_slow = True
    late = world.commit(CommittedOffset(2, metadata=metadata))
    assert world.delete_groups(["g"]) == {"g": 0}
    world.broker.acknowledge()
    assert late.value == {TP: 0}
    assert not world.has_group()


def expired(group: ClassicGroup, now_ms: int) -> list[TopicPartition]:
    return expired_offsets(group, group.offsets.committed, now_ms, 1_000)


def settled(**fields: Any) -> tuple[World, ClassicGroup]:
    world = World()
    world.stable(**fields)
    for place, tp in enumerate((TP, OTHER)):
        world.group().offsets.replay(tp, 100 + place, CommittedOffset(1, commit_timestamp_ms=5_000))
    return world, world.group()


def test_consumers_with_members_lose_only_offsets_of_unsubscribed_topics() -> None:
    _, group = settled()
    assert expired(group, 5_999) == []
    assert expired(group, 6_000) == [OTHER]


@pytest.mark.parametrize("fields", [{"protocol_type": "connect"}, {"protocols": (("range", b"unreadable"),)}])
def test_members_with_unknown_subscriptions_lose_no_offsets(fields: dict[str, Any]) -> None:
    _, group = settled(**fields)
    assert expired(group, 10**15) == []


def test_offsets_of_an_empty_group_expire_counted_from_when_it_became_empty() -> None:
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
    group = bare_group()
    group.offsets.replay(TP, 0, CommittedOffset(1, commit_timestamp_ms=5_000))
    assert expired(group, 5_999) == []
    assert expired(group, 6_000) == [TP]


def test_a_commit_with_the_smallest_timestamp_does_not_expire() -> None:
    """Kafka's difference of the two times wraps."""
    group = bare_group()
    group.offsets.replay(TP, 0, CommittedOffset(1, commit_timestamp_ms=-(2**63)))
    group.offsets.replay(OTHER, 1, CommittedOffset(1, commit_timestamp_ms=-(2**62)))
    assert expired(group, 6_000) == [OTHER]


def test_the_retention_time_of_a_commit_takes_precedence() -> None:
    group = bare_group()
    group.offsets.replay(TP, 0, CommittedOffset(1, commit_timestamp_ms=5_000, expire_timestamp_ms=9_000))
    assert expired(group, 8_999) == []
    assert expired(group, 9_000) == [TP]


def test_an_offset_with_a_pending_commit_stays() -> None:
    group = bare_group()
    group.offsets.replay(TP, 0, CommittedOffset(1, commit_timestamp_ms=5_000))
    group.offsets.append_started([TP], 200)
    assert expired(group, 10**15) == []


def test_offsets_of_a_newly_subscribed_topic_stay() -> None:
    world, group = settled()
    member_id = next(iter(group.members))
    generation = world.joined(member_id, protocols=(("range", subscription("other")),)).generation_id
    world.sync(member_id, generation)
    assert expired(group, 6_000) == [TP]


def test_no_offsets_expire_during_a_rebalance() -> None:
    """Members that have not joined again yet may subscribe to any topic (KAFKA-13636)."""
    world, group = settled()
    member_id = next(iter(group.members))
    waiting = world.join()
    assert group.state.value == "PreparingRebalance"
    assert expired(group, 10**15) == []
    generation = world.joined(member_id).generation_id
    assert group.state.value == "CompletingRebalance"
    assert expired(group, 10**15) == []
    world.sync(waiting.value.member_id, generation)
    world.sync(member_id, generation)
    assert expired(group, 6_000) == [OTHER]


@pytest.mark.parametrize("way", ["topic", "offset", "group"])
@pytest.mark.parametrize("also_plain", [False, True])
@pytest.mark.parametrize("is_slow", [False, True])
def test_offsets_of_an_open_transaction_are_removed_too(way: str, also_plain: bool, is_slow: bool) -> None:
    """Else a new topic of the same name would be read from the old offset on, when the transaction commits."""
    world = World()
    if also_plain:
        world.commit(3)
    call = CommitCall("g", "", -1, {TP: world.committed(5), OTHER: world.committed(6)})
    world.broker.is_slow = is_slow
    world.coordinator.commit_offsets_in_transaction(call, Producer(7, 2, 0))
    world.broker.is_slow = False
    if way == "group":
        assert world.delete_groups(["g"]) == {"g": 0}
    elif way == "offset":
        assert finish(world.coordinator.delete_offsets("g", [TP])) == (0, {TP: 0})
    else:
        for listener in world.broker.metadata_listeners:
            listener(world.broker.image, [TP])
    world.broker.acknowledge()
    expected = (-1, -1) if way == "group" else (-1, 6)
    world.log.append(encode_marker(ControlType.COMMIT, Marker(7, 2, 0), world.clock.now_ms()))
    world.coordinator.transaction_ended(0, 7, is_commit=True)
    assert (world.fetch(), world.fetch(tp=OTHER)) == expected
    world.restart()
    assert (world.fetch(), world.fetch(tp=OTHER)) == expected


def test_offsets_that_a_transaction_commits_do_not_expire() -> None:
    world = World()
    world.commit(3)
    call = CommitCall("g", "", -1, {TP: world.committed(5)})
    world.coordinator.commit_offsets_in_transaction(call, Producer(7, 2, 0))
    world.clock.advance(8 * 86_400_000)
    assert world.fetch() == 3
    world.coordinator.transaction_ended(0, 7, is_commit=True)
    assert world.fetch() == 5


def test_a_group_with_very_many_offsets_of_a_transaction_is_deleted() -> None:
    world = World()
    partitions = [TopicPartition("t", number) for number in range(3 * OFFSETS_IN_A_BATCH)]
    call = CommitCall("g", "", -1, dict.fromkeys(partitions, world.committed(5)))
    world.coordinator.commit_offsets_in_transaction(call, Producer(7, 2, 0))
    for each in partitions[:5]:
        world.commit(1, tp=each)
    assert world.delete_groups(["g"]) == {"g": 0}
    tombstones = [record for record in world.log.records() if record.value is None]
    assert len(tombstones) == len(partitions)
    assert not world.has_group()


def test_a_commit_that_is_under_way_is_removed_with_its_topic() -> None:
    world = World()
    world.broker.is_slow = True
    world.commit(5)
    for listener in world.broker.metadata_listeners:
        listener(world.broker.image, [TP])
    world.broker.acknowledge()
    assert world.fetch() == -1
    world.restart()
    assert world.fetch() == -1


def commit_many(world: World, partitions: list[TopicPartition], *, group_id: str = "g", in_transaction: bool) -> None:
    """Commit 100 partitions in one batch, as often as necessary."""
    for piece in pieces(partitions, 100):
        call = CommitCall(group_id, "", -1, {each: world.committed(5) for each in piece})
        if in_transaction:
            world.coordinator.commit_offsets_in_transaction(call, Producer(7, 2, 0))
        else:
            world.coordinator.commit_offsets(call)


@pytest.mark.parametrize("in_transaction", [False, True])
def test_a_group_with_very_many_commits_under_way_is_deleted_in_steps(in_transaction: bool) -> None:
    world = World()
    world.log.config.max_message_bytes = 10_000
    world.broker.is_slow = True
    partitions = [TopicPartition("t", number) for number in range(3_000)]
    commit_many(world, partitions, in_transaction=in_transaction)
    steps = world.coordinator.delete_group("g")
    next(steps)
    assert len([record for record in world.log.records() if record.value is None]) <= OFFSETS_IN_A_BATCH
    commit_many(world, partitions[:1] + partitions[-1:], in_transaction=in_transaction)
    assert finish(steps) == 0
    assert not world.has_group()
    tombstones = Counter(record.key for record in world.log.records() if record.value is None)
    assert tombstones == {offset_key("g", each): 2 if each == partitions[0] else 1 for each in partitions}
    world.broker.acknowledge()
    world.log.append(encode_marker(ControlType.COMMIT, Marker(7, 2, 0), world.clock.now_ms()))
    world.restart()
    assert not world.has_group()


@pytest.mark.parametrize("limit", ["max_message_bytes", "segment_bytes", ""])
@pytest.mark.parametrize("way", ["group", "offsets", "retention", "topic"])
def test_no_batch_of_tombstones_is_too_large_for_the_log(limit: str, way: str) -> None:
    """A group id may have 32 kB, and the limit may be lower than when the offsets were committed."""
    world = World(offsets_retention_minutes=60)
    group_id = "g" if limit else "g" * 32_000
    partitions = [TopicPartition("t", number) for number in range(100)]
    for each in partitions:
        world.commit(5, group_id=group_id, tp=each)
    written = len(world.log.batches)
    if limit:
        setattr(world.log.config, limit, 1_000)
    if way == "group":
        assert world.delete_groups([group_id]) == {group_id: 0}
    elif way == "offsets":
        assert finish(world.coordinator.delete_offsets(group_id, partitions)) == (0, dict.fromkeys(partitions, 0))
    elif way == "retention":
        world.clock.advance(2 * 3_600_000)
    else:
        for listener in world.broker.metadata_listeners:
            listener(world.broker.image, partitions)
    assert not world.has_group(group_id)
    assert max(map(len, world.log.batches[written:])) <= (1_000 if limit else BATCH_BYTES)
    world.restart()
    assert not world.has_group(group_id)


def test_a_log_that_moves_away_before_the_coordinator_learns_of_it_refuses_the_tombstones() -> None:
    world = World()
    world.commit(5)
    world.broker.absent[PARTITION] = world.broker.error = NotLeaderOrFollowerError("moved")
    assert world.delete_groups(["g"]) == {"g": 16}
    assert finish(world.coordinator.delete_offsets("g", [TP])) == (0, {TP: 16})
    for listener in world.broker.metadata_listeners:
        listener(world.broker.image, [TP])
    assert world.fetch() == 5


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_an_append_that_fails_in_the_middle_leaves_the_remaining_offsets(failing: int) -> None:
    world, partitions = large_group()
    steps = world.coordinator.delete_group("g")
    for _ in range(failing):
        next(steps)
    world.broker.error = KafkaStorageError("disk")
    assert finish(steps) == 16
    world.broker.error = None
    remaining = set(partitions[failing * OFFSETS_IN_A_BATCH :])
    assert world.group().offsets.committed.keys() == remaining
    world.restart()
    assert world.group().offsets.committed.keys() == remaining


@pytest.mark.parametrize("metadata", ["", "m"])
@pytest.mark.parametrize("in_transaction", [False, True])
def test_a_new_group_does_not_get_the_late_commits_of_a_deleted_one(metadata: str, in_transaction: bool) -> None:
    world = World()
    world.broker.is_slow = True
    call = CommitCall("g", "", -1, {TP: world.committed(5, metadata=metadata)})
    if in_transaction:
        late = world.coordinator.commit_offsets_in_transaction(call, Producer(7, 2, 0))
    else:
        late = world.coordinator.commit_offsets(call)
    assert world.delete_groups(["g"]) == {"g": 0}
    world.commit(7, tp=OTHER)
    world.broker.acknowledge()
    assert late.value == {TP: 0}
    world.log.append(encode_marker(ControlType.COMMIT, Marker(7, 2, 0), world.clock.now_ms()))
    world.coordinator.transaction_ended(0, 7, is_commit=True)
    assert (world.fetch(), world.fetch(tp=OTHER)) == (-1, 7)
    world.restart()
    assert (world.fetch(), world.fetch(tp=OTHER)) == (-1, 7)


def test_the_late_record_of_a_deleted_group_does_not_settle_a_new_one_of_the_same_generation() -> None:
    world = World()
    old = world.joined().member_id
    world.broker.is_slow = True
    world.sync(old, 1, assignments={old: b"x"})
    finish(world.coordinator.classic.leave("g", [LeavingMember(old)]))
    assert world.delete_groups(["g"]) == {"g": 0}
    assert world.joined().generation_id == 1
    world.broker.acknowledge()
    assert world.group().state is states.COMPLETING


@pytest.mark.parametrize("in_transaction", [False, True])
@pytest.mark.parametrize("is_slow", [False, True])
def test_commits_for_the_next_topic_of_a_name_stay(in_transaction: bool, is_slow: bool) -> None:
    """The offsets of a deleted topic are removed in steps, between which the topic may be created again."""
    world, partitions = large_group()
    first, *_, deleted, last = partitions
    steps = world.coordinator._remover.topics_deleted({first, deleted, last})
    next(steps)
    world.broker.is_slow = is_slow
    commit_many(world, [first, last], in_transaction=in_transaction)
    finish(steps)
    world.broker.acknowledge()
    world.log.append(encode_marker(ControlType.COMMIT, Marker(7, 2, 0), world.clock.now_ms()))
    world.coordinator.transaction_ended(0, 7, is_commit=True)
    for _ in range(2):
        assert [world.fetch(tp=each) for each in (first, deleted, last)] == [5, -1, 5]
        world.restart()


@pytest.mark.parametrize("was_in_transaction", [False, True])
def test_an_aborted_commit_for_the_next_topic_of_a_name_does_not_keep_the_old_one(was_in_transaction: bool) -> None:
    world = World()

    def commit_in_transaction(offset: int, producer_id: int) -> None:
        call = CommitCall("g", "", -1, {TP: world.committed(offset)})
        world.coordinator.commit_offsets_in_transaction(call, Producer(producer_id, 0, -1))

    if was_in_transaction:
        commit_in_transaction(5, 7)
    else:
        world.commit(5)
    steps = world.coordinator._remover.topics_deleted({TP})
    commit_in_transaction(1, 8)
    finish(steps)
    assert world.fetch() == -1
    world.coordinator.transaction_ended(0, 8, is_commit=False)
    world.coordinator.transaction_ended(0, 7, is_commit=True)
    assert world.fetch() == -1


def test_a_late_commit_for_a_deleted_topic_is_dropped_beside_one_for_the_next() -> None:
    world = World()
    world.broker.is_slow = True
    world.commit(5)
    steps = world.coordinator._remover.topics_deleted({TP})
    call = CommitCall("g", "", -1, {TP: world.committed(1)})
    world.coordinator.commit_offsets_in_transaction(call, Producer(8, 0, -1))
    finish(steps)
    world.broker.acknowledge()
    assert world.fetch() == -1
    world.coordinator.transaction_ended(0, 8, is_commit=True)
    assert world.fetch() == 1


def test_a_partition_that_is_loaded_after_a_topic_was_deleted_keeps_its_offsets() -> None:
    """Its log may have commits for the next topic of the name."""
    world = World()
    world.commit(5)
    steps = world.coordinator._remover.topics_deleted({TP})
    world.resign(PARTITION, 1)
    world.lead(PARTITION, 2)
    finish(steps)
    assert world.fetch() == 5


def test_a_transaction_that_ends_is_work_in_the_background() -> None:
    world = World()
    world.run_later()
    world.restart()
    finish(world.later.pop())
    partitions = [TopicPartition("t", number) for number in range(1_000)]
    commit_many(world, partitions, in_transaction=True)
    world.coordinator.transaction_ended(0, 7, is_commit=True)
    (steps,) = world.later
    next(steps)
    assert 0 < len(world.group().offsets.committed) < len(partitions)
    finish(steps)
    assert len(world.group().offsets.committed) == len(partitions)
