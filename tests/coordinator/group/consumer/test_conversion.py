"""A group with members changes from the classic to the consumer protocol, and back."""

import asyncio

import pytest

from kafkapy.coordinator.answer import Answer
from kafkapy.coordinator.group.classic.calls import JoinResult, LeavingMember, SyncResult
from kafkapy.coordinator.group.consumer.calls import HeartbeatResult
from kafkapy.coordinator.group.consumer.members import CurrentAssignment
from kafkapy.coordinator.group.records import ConsumerGroupKey, decode_key
from kafkapy.metadata.errors import NotEnoughReplicasError, RequestTimedOutError
from kafkapy.metadata.topic_rules import GROUP_METADATA_TOPIC
from kafkapy.protocol.errors import ErrorCode
from kafkapy.records.record import read_records
from kafkapy.turns import Steps, finish, in_turns
from kafkapy.types import TopicPartition
from tests.coordinator.group.consumer.world import MigrationWorld, T, metadata, part, partitions_of, shown
from tests.coordinator.world import TP

REBALANCE = ErrorCode.REBALANCE_IN_PROGRESS
NOT_FOUND = ErrorCode.GROUP_ID_NOT_FOUND
PLACE = TopicPartition(GROUP_METADATA_TOPIC, 0)


def last_keys(world: MigrationWorld) -> list[tuple[str, bool]]:
    """Of the last batch, the classes of the records' keys, and whether they have a value."""
    records = read_records(world.log.batches[-1])
    return [(type(decode_key(each.key or b"")).__name__, each.value is not None) for each in records]


def upgraded() -> tuple[MigrationWorld, str]:
    """A group of a classic member with all partitions and of "c" of the consumer protocol; its classic member's id."""
    world = MigrationWorld()
    member_id = world.classic()
    assert shown(world.enter("c")) == (2, {})
    return world, member_id


def test_an_upgrade_keeps_assignment_and_offsets() -> None:
    world = MigrationWorld()
    member_id = world.classic()
    world.commit(7, member_id, 1)
    assert shown(world.enter("c")) == (2, {})
    assert world.types() == [("consumer", "Reconciling")]
    assert world.epochs_of() == {member_id: (1, True), "c": (2, False)}
    assert world.consumer_group().members[member_id].current == CurrentAssignment(
        1, 1, assigned={T: {0: 1, 1: 1, 2: 1}}
    )
    assert world.fetch() == 7
    assert world.heartbeat(member_id, 1) == REBALANCE
    world.commit(8, member_id, 1)
    before = world.describe()
    world.restart()
    assert world.describe() == before
    assert world.fetch() == 8


def test_the_records_of_an_upgrade_are_those_of_apache_kafka() -> None:
    world, _ = upgraded()
    member, target, current = (f"Consumer{each}Key" for each in ("Member", "Target", "Current"))
    epoch, assignment = "ConsumerGroupKey", "ConsumerAssignmentEpochKey"
    conversion = [member, epoch, target, assignment, current]
    joining = [member, epoch, target, target, assignment, current]
    assert last_keys(world) == [("GroupKey", False), *((each, True) for each in (*conversion, *joining))]


def test_the_records_of_a_downgrade_are_those_of_apache_kafka() -> None:
    world, _ = upgraded()
    world.beat("c", -1)
    member, target, current = (f"Consumer{each}Key" for each in ("Member", "Target", "Current"))
    deleted = [current, current, target, target, "ConsumerAssignmentEpochKey", member, member, "NoneType"]
    assert last_keys(world) == [*((each, False) for each in (*deleted, "ConsumerGroupKey")), ("GroupKey", True)]


@pytest.mark.parametrize("by", ["leave", "session", "leave group"])
def test_a_downgrade_keeps_assignment_and_offsets(by: str) -> None:
    world, member_id = upgraded()
    assert world.join_as(member_id, owned={"t": [0, 1]}).value.generation_id == 2
    world.sync(member_id, 2)
    world.commit(7, member_id, 2)
    if by == "leave":
        assert world.beat("c", -1).error_code == 0
    elif by == "leave group":
        assert world.leave(LeavingMember("c")) == (0, [0])
    else:
        for _ in range(10):
            assert world.heartbeat(member_id, 2) in (0, REBALANCE)
            world.clock.advance(5_000)
    assert world.types() == [("classic", "PreparingRebalance")]
    group = world.group()
    assert (group.generation_id, group.protocol_name, group.members.leader_id) == (2, "range", member_id)
    assert partitions_of(group.members[member_id].assignment) == {"t": [0, 1]}
    assert group.subscribed == {"t"}
    assert world.fetch() == 7
    assert world.heartbeat(member_id, 2) == REBALANCE
    joined = world.join_as(member_id).value
    assert (joined.generation_id, joined.leader_id) == (3, member_id)
    world.restart()
    assert world.types() == [("classic", "Stable")]
    assert world.heartbeat(member_id, 2) == 0
    assert world.fetch() == 7


def test_partitions_stay_with_their_member_over_two_changes() -> None:
    world, member_id = upgraded()
    assert world.join_as(member_id, owned={"t": [0, 1, 2]}).value.generation_id == 1  # it has to revoke one
    world.beat("c", -1)
    assert partitions_of(world.group().members[member_id].assignment) == {"t": [0, 1, 2]}
    assert shown(world.enter("d")) == (3, {})


def test_a_member_that_keeps_partitions_over_a_rebalance_has_them_after_an_upgrade() -> None:
    world = MigrationWorld()
    one = world.classic()
    joining = world.join_as()
    assert world.join_as(one, owned={"t": [0, 1, 2]}).value.generation_id == 2
    two = joining.value.member_id
    world.leave(LeavingMember(two))
    assert world.group().members[one].assignment == b""
    assert shown(world.enter("c")) == (3, {})
    assert world.consumer_group().members[one].current.held == {T: frozenset({0, 1, 2})}


def test_a_partition_that_two_members_claim_stays_with_one() -> None:
    world = MigrationWorld()
    one = world.classic()
    joining = world.join_as("", owned={"t": [2]})
    world.join_as(one, owned={"t": [0, 1, 2]})
    two = joining.value.member_id
    third = world.join_as()
    assert not third.is_set
    world.enter("c")
    members = world.consumer_group().members
    held = [each.current.held.get(T, frozenset()) for each in (members[one], members[two])]
    assert sorted(number for each in held for number in each) == [0, 1, 2]


def test_a_group_goes_back_and_forth() -> None:
    world, member_id = upgraded()
    for epoch in (2, 4, 6):
        world.beat("c", -1)
        assert world.join_as(member_id).value.generation_id == epoch + 1
        parts = {member_id: part(t=[0, 1, 2])}
        assert world.sync(member_id, epoch + 1, assignments=parts).value.error_code == 0
        assert shown(world.enter("c")) == (epoch + 2, {})
    world.restart()
    assert world.state() == ("Reconciling", 8, 8)
    world.leave(LeavingMember(member_id), LeavingMember("c"))
    assert world.state() == ("Empty", 9, 9)


def test_the_memory_of_a_group_that_was_converted_is_released() -> None:
    world, member_id = upgraded()
    world.beat("c", -1)
    world.leave(LeavingMember(member_id))
    world.delete_groups(["g"])
    assert world.coordinator._runtime.budget.used_bytes == 0


def test_members_of_the_former_group_have_no_time_outs_any_more() -> None:
    world = MigrationWorld()
    member_id = world.classic()
    pending = world.join_as(requires_known_member_id=True).value.member_id
    former = world.group()
    world.enter("c")
    assert former.is_dead
    for _ in range(5):
        assert world.heartbeat(member_id, 1) == REBALANCE
        world.clock.advance(5_000)
    assert set(world.epochs_of()) == {member_id, "c"}
    assert world.join_as(pending).value.error_code == 0


@pytest.mark.parametrize("is_joining", [True, False])
def test_requests_that_wait_are_told_to_join_again(is_joining: bool) -> None:
    world = MigrationWorld()
    member_id = world.classic()
    world.broker.is_slow = True
    if is_joining:
        waiting: Answer[JoinResult] | Answer[SyncResult] = world.join_as()
    else:
        world.join_as(member_id)
        waiting = world.sync(member_id, 2, assignments={member_id: part(t=[0, 1])})
    assert not waiting.is_set
    entered = world.send("c", 0, **world.enter_call())
    assert waiting.value.error_code == REBALANCE
    world.broker.acknowledge()
    assert entered.value.error_code == 0
    assert world.heartbeat(member_id, 1 if is_joining else 2) == REBALANCE


def test_a_member_has_waited_longer_than_its_session() -> None:
    world = MigrationWorld()
    one = world.classic()
    joining = world.join_as()
    world.join_as(one)
    two = joining.value.member_id
    assert world.sync(one, 2, assignments={one: part(t=[0]), two: part(t=[1, 2])}).value.error_code == 0
    waiting = world.join_as(two, owned={"t": [1]})
    for _ in range(3):
        world.clock.advance(5_000)
        assert world.heartbeat(one, 2) == REBALANCE
    assert not waiting.is_set
    world.enter("c")
    assert waiting.value.error_code == REBALANCE
    assert set(world.epochs_of()) == {one, two, "c"}


def test_an_upgrade_before_the_first_generation() -> None:
    world = MigrationWorld(group_initial_rebalance_delay_ms=3_000)
    waiting = world.join_as()
    _, first = shown(world.enter("c"))
    assert waiting.value.error_code == REBALANCE
    member_id = waiting.value.member_id
    assert world.epochs_of() == {member_id: (1, True), "c": (2, False)}
    assert world.join_as(member_id).value.generation_id == 2
    second = partitions_of(world.sync(member_id, 2).value.assignment)
    assert first is not None
    assert sorted([*first[T], *second["t"]]) == [0, 1, 2]


def test_a_member_that_lacks_the_chosen_protocol_is_converted_too() -> None:
    world = MigrationWorld()
    both = (("range", metadata("t")), ("sticky", metadata("t")))
    member_id = world.classic(protocols=both)
    waiting = world.join_as(protocols=both[1:])
    assert shown(world.enter("c")) == (2, {})
    assert set(world.epochs_of()) == {member_id, waiting.value.member_id, "c"}


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        (part(b"mine", t=[0]), "an unsupported custom assignor is in use"),
        (b"\0", "the embedded consumer protocol is malformed"),
    ],
)
def test_groups_that_are_not_upgraded(assignment: bytes, message: str) -> None:
    world = MigrationWorld()
    member_id = world.classic(assignment)
    refused = world.enter("c")
    assert refused.error_code == NOT_FOUND
    assert message in (refused.error_message or "")
    assert world.heartbeat(member_id, 1) == 0


def test_members_without_an_assignment_are_upgraded() -> None:
    for assignment in (b"", part(b"", t=[0]), part(gone=[0])):
        world = MigrationWorld()
        world.classic(assignment)
        assert world.enter("c").error_code == 0


def test_only_joins_upgrade() -> None:
    world = MigrationWorld()
    world.classic()
    for epoch in (1, -1):
        refused = world.beat("c", epoch)
        assert (refused.error_code, refused.error_message) == (NOT_FOUND, "Group g is not a consumer group.")


def test_groups_of_others_are_not_upgraded() -> None:
    world = MigrationWorld()
    world.join(protocol_type="connect")
    assert "does not use the consumer embedded protocol" in (world.enter("c").error_message or "")


def test_large_groups_are_not_converted() -> None:
    world = MigrationWorld(group_consumer_max_size=0)
    world.classic()
    assert "exceeds the consumer group maximum size" in (world.enter("c").error_message or "")
    world = MigrationWorld(group_max_size=1)
    world.enter("c")
    for member_id in ("m", "n"):
        world.join_as(member_id)
    world.beat("c", -1)
    assert world.types() == [("consumer", "Assigning")]


def test_a_group_without_room_in_memory_is_not_converted() -> None:
    world = MigrationWorld(kafkapy_group_metadata_max_bytes=1_200)
    member_id = world.classic()
    assert world.enter("c").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.heartbeat(member_id, 1) == 0


def test_a_group_whose_records_no_batch_can_hold_is_not_converted() -> None:
    world = MigrationWorld()
    member_id = world.classic()
    world.log.config.max_message_bytes = 10
    assert world.enter("c").error_code == -1
    assert world.heartbeat(member_id, 1) == 0
    world.log.config.max_message_bytes = 300
    assert world.enter("c").error_code == -1
    assert world.heartbeat(member_id, 1) == REBALANCE


@pytest.mark.parametrize("policy", ["disabled", "downgrade", "upgrade", "BIDIRECTIONAL"])
def test_the_policy(policy: str) -> None:
    world = MigrationWorld(group_consumer_migration_policy=policy)
    world.classic()
    assert (world.enter("c").error_code == 0) is (policy in ("upgrade", "BIDIRECTIONAL"))
    world = MigrationWorld(group_consumer_migration_policy=policy)
    world.enter("c")
    joined = world.join_as("m").value
    if policy == "disabled":
        assert joined.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return
    world.beat("c", -1)
    is_classic = policy in ("downgrade", "BIDIRECTIONAL")
    assert world.types() == [("classic", "PreparingRebalance") if is_classic else ("consumer", "Assigning")]
    if not is_classic:
        assert world.heartbeat("m", 3) == REBALANCE
        assert world.join_as("m").value.generation_id == 4
        assert partitions_of(world.sync("m", 4).value.assignment) == {"t": [0, 1, 2]}


def test_a_static_member_upgrades_its_group() -> None:
    world = MigrationWorld()
    one = world.classic(instance_id="i")
    assert shown(world.enter("c", instance_id="i")) == (1, {T: [0, 1, 2]})
    assert world.epochs_of() == {"c": (1, False)}
    assert world.heartbeat(one, 1, "i") == ErrorCode.FENCED_INSTANCE_ID
    assert world.join_as(one, instance_id="i").value.error_code == ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_downgrades_its_group() -> None:
    world = MigrationWorld()
    world.enter("c", instance_id="i")
    joined = world.join_as(instance_id="i", protocols=(("range", metadata("t")), ("sticky", metadata("t")))).value
    assert joined.generation_id == 2
    assert world.types() == [("classic", "Stable")]
    assert [name for name, _ in world.group().members[joined.member_id].protocols] == ["range", "sticky"]
    synced = world.sync(joined.member_id, 2, instance_id="i").value
    assert partitions_of(synced.assignment) == {"t": [0, 1, 2]}
    assert world.heartbeat(joined.member_id, 2, "i") == 0
    assert world.beat("c", 2, instance_id="i").error_code == NOT_FOUND
    world.restart()
    assert world.heartbeat(joined.member_id, 2, "i") == 0


def test_a_static_member_with_other_topics_downgrades_its_group() -> None:
    world = MigrationWorld()
    world.enter("c", instance_id="i")
    joined = world.join_as("", "u", instance_id="i").value
    assert (joined.error_code, joined.generation_id) == (0, 0)
    assert world.types() == [("classic", "PreparingRebalance")]
    assert world.heartbeat(joined.member_id, 2, "i") == REBALANCE


def test_an_upgrade_that_the_log_refuses() -> None:
    world = MigrationWorld()
    member_id = world.classic()
    waiting = world.join_as()
    world.broker.error = NotEnoughReplicasError("too few")
    assert world.enter("c").error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.broker.error = None
    assert waiting.value.error_code == REBALANCE
    assert world.types() == [("classic", "PreparingRebalance")]
    assert world.heartbeat(member_id, 1) == REBALANCE
    joined = world.join_as(member_id)
    assert not joined.is_set
    world.clock.advance(60_000)
    assert joined.value.generation_id == 2


def test_a_downgrade_that_the_log_refuses() -> None:
    world, member_id = upgraded()
    world.broker.error = NotEnoughReplicasError("too few")
    assert world.beat("c", -1).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.broker.error = None
    assert set(world.epochs_of()) == {member_id, "c"}


def test_requests_wait_for_an_upgrade() -> None:
    world = MigrationWorld()
    member_id = world.classic()
    world.broker.is_slow = True
    committed = world.commit(7, member_id, 1)
    entered = world.send("c", 0, **world.enter_call())
    second = world.send("d", 0, **world.enter_call())
    joined, synced = world.join_as(member_id, owned={"t": [0]}), world.sync(member_id, 1)
    assert world.heartbeat(member_id, 1) == REBALANCE
    later = world.commit(8, member_id, 1)
    assert [each.is_set for each in (entered, second, joined, synced)] == [False] * 4
    world.broker.acknowledge()
    assert committed.value == later.value == {TP: 0}
    assert world.fetch() == 8
    assert entered.value.error_code == 0
    for _ in range(3):
        world.broker.acknowledge()
    assert [each.value.error_code for each in (second, joined)] == [0, 0]
    assert synced.value.error_code in (REBALANCE, ErrorCode.ILLEGAL_GENERATION)
    assert world.types()[0][0] == "consumer"


def test_no_session_ends_while_an_upgrade_waits() -> None:
    world = MigrationWorld()
    member_id = world.classic()
    world.broker.is_slow = True
    world.send("c", 0, **world.enter_call())
    world.clock.advance(60_000)
    world.broker.acknowledge()
    assert set(world.epochs_of()) == {member_id, "c"}


def test_the_partition_moves_away_during_an_upgrade() -> None:
    world = MigrationWorld()
    world.classic()
    world.broker.is_slow = True
    entered = world.send("c", 0, **world.enter_call())
    world.resign(PLACE, None)
    world.broker.acknowledge()
    assert entered.is_set
    assert world.enter("c").error_code == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("is_classic", [True, False])
def test_the_partition_moves_away_while_a_static_member_is_replaced(is_classic: bool) -> None:
    world = MigrationWorld()
    world.enter("c", instance_id="i")
    world.join_as(instance_id="j")
    world.broker.is_slow = True
    if is_classic:
        waiting: Answer[JoinResult] | Answer[HeartbeatResult] = world.join_as(instance_id="i")
    else:
        waiting = world.send("d", 0, **world.enter_call(instance_id="j"))
    world.resign(PLACE, None)
    world.broker.acknowledge()
    assert waiting.value.error_code == ErrorCode.NOT_COORDINATOR


def test_partitions_without_an_owner_are_assigned_in_a_group_of_classic_members() -> None:
    world = MigrationWorld(group_consumer_migration_policy="upgrade")
    world.enter("c")
    assert world.join_as("m").value.generation_id == 3
    world.beat("c", 2, owned={T: [0, 1]})
    world.beat("c", 2, owned={T: [0, 1]})
    assert world.join_as("m").value.generation_id == 3
    assert partitions_of(world.sync("m", 3).value.assignment) == {"t": [2]}
    assert world.heartbeat("m", 3) == 0
    world.beat("c", -1)
    assert world.heartbeat("m", 3) == REBALANCE
    assert world.join_as("m", owned={"t": [2]}).value.generation_id == 4
    assert partitions_of(world.sync("m", 4).value.assignment) == {"t": [0, 1, 2]}


@pytest.mark.parametrize("members", [[], [LeavingMember("c")]])
def test_a_leave_waits_for_an_upgrade_and_for_its_own_records(members: list[LeavingMember]) -> None:
    world = MigrationWorld()
    member_id = world.classic()
    world.broker.is_slow = True
    world.send("c", 0, **world.enter_call())

    async def leave() -> tuple[int, list[int]]:
        leaving = asyncio.ensure_future(in_turns(world.coordinator.classic.leave("g", members)))
        for _ in range(20):
            await asyncio.sleep(0)
            world.broker.acknowledge()
        return await leaving

    assert asyncio.run(leave()) == (0, [0] * len(members))
    assert world.types() == [("classic", "PreparingRebalance") if members else ("consumer", "Reconciling")]
    assert world.heartbeat(member_id, 2 if members else 1) in (REBALANCE, ErrorCode.ILLEGAL_GENERATION)


def test_members_that_leave_while_their_group_is_converted() -> None:
    world, member_id = upgraded()
    leaving = world.coordinator.classic.leave("g", [LeavingMember(member_id)])
    next(leaving)
    world.beat("c", -1)
    assert world.types() == [("classic", "PreparingRebalance")]
    assert finish(leaving) == (0, [0])
    assert world.types() == [("classic", "Empty")]


def test_a_removal_in_steps_does_not_remove_the_group_that_takes_the_place() -> None:
    world, _ = upgraded()
    for number in range(70):
        world.commit(5, tp=TopicPartition("gone", number), member_id="c", generation_id=2, has_member_epoch=True)
    steps: Steps[None] = world.coordinator._remover.topics_deleted({TopicPartition("gone", each) for each in range(70)})
    next(steps)
    world.beat("c", -1)
    finish(steps)
    assert world.types() == [("classic", "PreparingRebalance")]


def test_the_partition_moves_away_while_the_records_of_an_upgrade_are_replayed() -> None:
    world = MigrationWorld()
    world.run_slowly()
    world.finish_later()
    member_id = world.classic()
    world.first_steps = 1
    entered = world.send("c", 0, **world.enter_call())
    while not any(isinstance(decode_key(record.key or b""), ConsumerGroupKey) for record in world.log.records()):
        finish(world.later.pop(0))
    assert world.types() == [("classic", "PreparingRebalance")]
    world.resign(PLACE, None)
    world.finish_later()
    assert entered.is_set
    assert world.coordinator._runtime.budget.used_bytes == 0
    world.lead(PLACE, 1)
    world.finish_later()
    assert set(world.epochs_of()) == {member_id, "c"}


def test_an_upgrade_whose_acknowledgement_fails_is_an_upgrade() -> None:
    world = MigrationWorld()
    member_id = world.classic()
    world.broker.is_slow = True
    entered = world.send("c", 0, **world.enter_call())
    world.broker.acknowledge(RequestTimedOutError("too slow"))
    assert entered.value.error_code == REBALANCE
    assert world.types() == [("consumer", "Reconciling")]
    again = world.send("c", 0, **world.enter_call())
    assert not again.is_set
    world.broker.acknowledge()
    assert again.value.error_code == 0
    world.broker.is_slow = False
    world.clock.advance(60_000)
    assert world.epochs_of() == {}
    assert member_id not in world.consumer_group().members


def test_a_downgrade_whose_acknowledgement_fails_is_a_downgrade() -> None:
    world, member_id = upgraded()
    world.broker.is_slow = True
    left = world.send("c", -1)
    world.broker.acknowledge(RequestTimedOutError("too slow"))
    assert left.value.error_code == REBALANCE
    assert world.types() == [("classic", "PreparingRebalance")]
    assert world.heartbeat(member_id, 2) in (REBALANCE, ErrorCode.ILLEGAL_GENERATION)
