"""Members of the classic protocol in a consumer group."""

from typing import Any

import pytest

from kafkapy.coordinator.group.calls import CommitCall, Producer
from kafkapy.coordinator.group.classic.calls import LeavingMember
from kafkapy.metadata.errors import NotEnoughReplicasError
from kafkapy.metadata.topic_rules import GROUP_METADATA_TOPIC
from kafkapy.protocol.errors import ErrorCode
from kafkapy.turns import finish
from kafkapy.types import TopicPartition
from tests.coordinator.group.consumer.world import MigrationWorld, T, metadata, partitions_of, shown

REBALANCE = ErrorCode.REBALANCE_IN_PROGRESS
INCONSISTENT = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
FULL = ErrorCode.GROUP_MAX_SIZE_REACHED


def mixed_world(**fields: Any) -> MigrationWorld:
    """Member "c" of the consumer protocol with all partitions, and "m" of the classic one, which waits for its part."""
    world = MigrationWorld()
    world.enter("c")
    assert world.join_as("m", **fields).value[:3] == (0, "m", 3)
    return world


def settled_world() -> MigrationWorld:
    world = mixed_world()
    assert world.epochs("c", 2) == (2, {T: [0, 1]})
    assert world.epochs("c", 2, owned={T: [0, 1]}) == (3, None)
    assert world.join_as("m").value.generation_id == 3
    assert partitions_of(world.sync("m", 3).value.assignment) == {"t": [2]}
    return world


def revoking_world() -> tuple[MigrationWorld, str]:
    """A classic member with all partitions, and "c" of the consumer protocol, which has to get one of them."""
    world = MigrationWorld()
    member_id = world.classic()
    world.enter("c")
    assert world.sync(member_id, 1).value.error_code == REBALANCE
    assert world.join_as(member_id, owned={"t": [0, 1, 2]}).value.generation_id == 1
    return world, member_id


def test_a_member_gets_its_partitions_when_another_has_revoked_them() -> None:
    world = mixed_world()
    assert partitions_of(world.sync("m", 3).value.assignment) == {}
    assert world.heartbeat("m", 3) == 0
    world.beat("c", 2)
    assert world.heartbeat("m", 3) == 0
    world.beat("c", 2, owned={T: [0, 1]})
    assert world.heartbeat("m", 3) == REBALANCE
    joined = world.join_as("m").value
    assert (joined.generation_id, joined.protocol_type, joined.protocol_name, joined.leader_id) == (
        3, "consumer", "range", "",
    )  # fmt: skip
    synced = world.sync("m", 3, protocol_type="consumer", protocol_name="range").value
    assert (synced.protocol_type, synced.protocol_name) == ("consumer", "range")
    assert partitions_of(synced.assignment) == {"t": [2]}
    assert world.heartbeat("m", 3) == 0
    assert world.epochs_of() == {"c": (3, False), "m": (3, True)}
    assert world.state() == ("Stable", 3, 3)


def test_a_member_revokes_partitions_by_joining_again() -> None:
    world, member_id = revoking_world()
    assert world.heartbeat(member_id, 1) == REBALANCE
    assert partitions_of(world.sync(member_id, 1).value.assignment) == {"t": [0, 1]}
    assert world.heartbeat(member_id, 1) == REBALANCE
    assert world.join_as(member_id, owned={"t": [0, 1]}).value.generation_id == 2
    assert world.heartbeat(member_id, 2) == 0
    assert world.epochs("c", 2) == (2, {T: [2]})


def test_a_subscription_of_a_classic_member_changes_the_group() -> None:
    world = settled_world()
    assert world.join_as("m", "u", owned={"t": [2]}).value.generation_id == 3
    assert world.state() == ("Reconciling", 4, 4)
    assert world.join_as("m", "u").value.generation_id == 4
    assert partitions_of(world.sync("m", 4).value.assignment) == {"u": [0, 1]}
    assert world.epochs("c", 3) == (4, {T: [0, 1, 2]})


def test_a_classic_member_of_a_known_id_leaves_its_expression() -> None:
    world = MigrationWorld()
    world.enter("c", topic_names=None, topic_regex="t.*", rack_id="r")
    world.enter("d")
    joined = world.join_as("c").value
    assert joined.error_code == 0
    described = next(each for each in world.describe().members if each.member_id == "c")
    assert (described.topic_names, described.topic_regex, described.rack_id) == (("t",), "", "r")
    assert described.is_classic
    assert world.beat("c", joined.generation_id).error_code == 0
    assert world.epochs_of()["c"][1] is False  # a heartbeat of the consumer protocol


@pytest.mark.parametrize(
    ("fields", "error_code"),
    [
        ({"protocol_type": "connect"}, INCONSISTENT),
        ({"protocols": ()}, INCONSISTENT),
        ({"protocols": (("other", metadata("t")),)}, INCONSISTENT),
        ({"protocols": (("range", b""),)}, INCONSISTENT),
        ({"protocols": (("range", b"\0"),)}, INCONSISTENT),
        ({"protocols": (("range", b"\xff\xff" + metadata("t")[2:]),)}, INCONSISTENT),
        ({"protocols": tuple((f"p{number}", metadata("t")) for number in range(1_001))}, FULL),
        ({"session_timeout_ms": 5}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"instance_id": "unknown"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_joins_that_are_refused(fields: dict[str, Any], error_code: int) -> None:
    world = settled_world()
    result = world.join_as("x", **fields).value
    assert result.error_code == error_code
    assert set(world.epochs_of()) == {"c", "m"}


def test_metadata_of_a_later_version() -> None:
    world = MigrationWorld()
    world.enter("c")
    later = (("range", b"\x00\x09" + metadata("t", rack="r")[2:] + b"more"),)
    assert world.join("m", protocols=later).value.error_code == 0
    assert [each.rack_id for each in world.describe().members] == [None, "r"]
    assert world.sync("m", 3).value.assignment[:2] == b"\x00\x03"


def test_an_id_is_handed_out_first() -> None:
    world = settled_world()
    given = world.join_as(requires_known_member_id=True).value
    assert given.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert set(world.epochs_of()) == {"c", "m"}
    assert world.join_as(given.member_id, requires_known_member_id=True).value.generation_id == 4
    assert world.join_as().value.generation_id == 5
    assert len(world.epochs_of()) == 4


def test_a_full_group_takes_known_members_only() -> None:
    world = MigrationWorld(group_consumer_max_size=2)
    world.enter("c")
    assert world.join_as("m").value.error_code == 0
    assert world.join_as("n").value.error_code == FULL
    assert world.join_as("m").value.error_code == 0
    world = MigrationWorld(group_consumer_max_size=1)
    world.enter("c", instance_id="i")
    assert world.join_as(instance_id="i").value.error_code == 0


def test_the_bound_on_the_memory_of_all_members() -> None:
    world = MigrationWorld(kafkapy_group_metadata_max_bytes=4_000)
    world.enter("c")
    assert world.join_as("m", protocols=(("range", metadata("t" * 2_000)),)).value.error_code == FULL
    assert world.background.counters.refused_metadata == 1
    assert world.join_as("m").value.error_code == 0


def test_metadata_that_no_batch_can_hold_are_not_read() -> None:
    world = settled_world()
    assert world.join_as("n", protocols=(("range", b"\0" * 2_000_000),)).value.error_code == -1
    assert set(world.epochs_of()) == {"c", "m"}


def test_the_checks_of_sync_and_heartbeat() -> None:
    world = settled_world()
    for member_id, generation, instance_id, error_code in (
        ("nobody", 3, None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("c", 3, None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("m", 3, "i", ErrorCode.UNKNOWN_MEMBER_ID),
        ("m", 2, None, ErrorCode.ILLEGAL_GENERATION),
        ("m", 4, None, ErrorCode.ILLEGAL_GENERATION),
    ):
        assert world.heartbeat(member_id, generation, instance_id) == error_code
        assert world.sync(member_id, generation, instance_id=instance_id).value.error_code == error_code
    for named in ({"protocol_type": "connect"}, {"protocol_name": "other"}):
        assert world.sync("m", 3, **named).value.error_code == INCONSISTENT


def test_members_leave_by_one_request() -> None:
    world = settled_world()
    world.join_as("n")
    world.join_as(instance_id="i")
    unknown, fenced = ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID
    leaving = [("x", None), ("m", None), ("m", None), ("x", "i"), ("", "j"), ("", "i")]
    assert world.leave(*(LeavingMember(*each) for each in leaving)) == (0, [unknown, 0, 0, fenced, unknown, 0])
    assert set(world.epochs_of()) == {"c", "n"}
    assert world.leave(LeavingMember("x")) == (0, [unknown])
    assert world.leave() == (0, [])
    assert world.state() == ("Assigning", 6, 5)
    assert world.leave(LeavingMember("c"), LeavingMember("n")) == (0, [0, 0])
    assert world.state() == ("Empty", 7, 7)
    assert world.join_as().value.error_code == 0
    assert world.types() == [("classic", "CompletingRebalance")]


def test_two_members_of_an_expression_leave_at_once() -> None:
    world = MigrationWorld()
    for member_id in ("c", "d"):
        world.enter(member_id, topic_names=None, topic_regex="t.*")
    world.join_as("m", "u")
    world.enter("e")
    assert world.consumer_group().expressions.topics == {"t.*": frozenset({"t"})}
    assert world.leave(LeavingMember("c"), LeavingMember("d")) == (0, [0, 0])
    assert world.consumer_group().expressions.topics == {}


def test_the_session_of_a_classic_member_is_its_own() -> None:
    world = settled_world()
    world.clock.advance(9_000)
    assert world.heartbeat("m", 3) == 0
    world.clock.advance(9_000)
    assert set(world.epochs_of()) == {"c", "m"}
    world.clock.advance(2_000)
    assert set(world.epochs_of()) == {"c"}


def test_a_member_that_does_not_join_in_time_is_removed() -> None:
    world = settled_world()
    world.enter("d")
    world.beat("c", 3)
    world.beat("c", 3, owned={T: [0]})
    for _ in range(11):
        assert world.heartbeat("m", 3) == REBALANCE
        world.clock.advance(5_000)
        world.beat("c", 4)
        world.beat("d", 4)
    assert "m" in world.epochs_of()
    world.heartbeat("m", 3)
    world.clock.advance(5_000)
    assert "m" not in world.epochs_of()


def test_a_member_that_does_not_synchronize_in_time_is_removed() -> None:
    world = mixed_world(rebalance_timeout_ms=20_000)
    for _ in range(4):
        assert world.heartbeat("m", 3) == 0
        world.clock.advance(5_000)
    assert "m" not in world.epochs_of()


def test_a_member_with_its_assignment_has_no_time_outs_but_its_session() -> None:
    world = settled_world()
    for _ in range(20):
        assert world.heartbeat("m", 3) == 0
        world.beat("c", 3)
        world.clock.advance(5_000)
    assert set(world.epochs_of()) == {"c", "m"}


def test_a_member_that_changes_to_the_consumer_protocol_has_no_classic_time_outs() -> None:
    world = mixed_world(rebalance_timeout_ms=20_000)
    world.beat("c", 2, owned={T: [0, 1]})
    for _ in range(6):
        world.beat("m", 3)
        world.beat("c", world.epochs_of()["c"][0])
        world.clock.advance(5_000)
    assert set(world.epochs_of()) == {"c", "m"}


def test_a_static_member_returns_with_the_classic_protocol() -> None:
    world = MigrationWorld()
    world.enter("c")
    one = world.join_as(instance_id="i").value
    two = world.join_as(instance_id="i").value
    assert two.generation_id == one.generation_id == 3
    assert world.heartbeat(one.member_id, 3, "i") == ErrorCode.FENCED_INSTANCE_ID
    assert world.join_as(one.member_id, instance_id="i").value.error_code == ErrorCode.FENCED_INSTANCE_ID
    assert world.join_as(two.member_id, instance_id="i").value.error_code == 0
    assert set(world.epochs_of()) == {"c", two.member_id}


def test_a_static_member_returns_with_the_consumer_protocol() -> None:
    world = MigrationWorld()
    world.enter("c")
    one = world.join_as(instance_id="i").value.member_id
    assert shown(world.enter("s", instance_id="i")) == (3, {})
    assert world.epochs_of() == {"c": (2, False), "s": (3, False)}
    assert world.heartbeat(one, 3, "i") == ErrorCode.FENCED_INSTANCE_ID


def test_a_return_whose_records_are_refused() -> None:
    world = MigrationWorld()
    world.enter("c")
    one = world.join_as(instance_id="i").value.member_id
    world.broker.error = NotEnoughReplicasError("too few")
    unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.join_as(instance_id="i").value.error_code == unavailable
    assert world.join_as("n").value.error_code == unavailable
    assert world.leave(LeavingMember("", "i")) == (unavailable, [])
    world.broker.error = None
    assert set(world.epochs_of()) == {"c", one}


def test_a_join_that_changes_nothing_writes_nothing() -> None:
    world = settled_world()
    end = world.log.log_end_offset
    assert world.join_as("m", owned={"t": [2]}).value.generation_id == 3
    written = world.log.log_end_offset
    assert written == end + 1  # its metadata have other owned partitions
    assert world.join_as("m", owned={"t": [2]}).value.generation_id == 3
    assert world.log.log_end_offset == written


def test_offsets_of_classic_members() -> None:
    world = settled_world()
    assert world.join_as("m", "t", "u", owned={"t": [2]}).value.generation_id == 4
    for epoch, partition, error_code in (
        (4, 0, 0),
        (4, 2, 0),
        (3, 2, 0),
        (3, 0, ErrorCode.ILLEGAL_GENERATION),
        (2, 2, ErrorCode.ILLEGAL_GENERATION),
        (5, 2, ErrorCode.ILLEGAL_GENERATION),
        (-1, 2, ErrorCode.ILLEGAL_GENERATION),
    ):
        tp = TopicPartition("t", partition)
        assert world.commit(5, "m", epoch, tp=tp).value == {tp: error_code}
    fetch_error = world.coordinator.consumer.fetch_error
    assert fetch_error("g", "m", 4) == 0
    assert fetch_error("g", "m", 3) == ErrorCode.ILLEGAL_GENERATION
    tp = TopicPartition("t", 2)
    call = CommitCall("g", "m", 5, {tp: world.committed(5)}, None)
    answer = world.coordinator.commit_offsets_in_transaction(call, Producer(7, 0, 0))
    assert answer.value == {tp: ErrorCode.ILLEGAL_GENERATION}


def test_offsets_of_partitions_that_are_being_revoked() -> None:
    world, member_id = revoking_world()
    tp = TopicPartition("t", 2)
    assert world.commit(5, member_id, 1, tp=tp).value == {tp: 0}
    assert world.commit(5, member_id, 0, tp=tp).value == {tp: ErrorCode.ILLEGAL_GENERATION}


def test_topics_that_were_deleted_are_not_assigned() -> None:
    world = settled_world()
    world.set_topics()
    assert partitions_of(world.sync("m", 3).value.assignment) == {}
    assert world.consumer_group().targets["m"] == {T: frozenset({2})}


def test_a_restart_restores_classic_members() -> None:
    world = settled_world()
    before = world.describe()
    world.restart()
    assert world.describe() == before
    assert world.heartbeat("m", 3) == 0
    assert partitions_of(world.sync("m", 3).value.assignment) == {"t": [2]}
    world.clock.advance(11_000)
    assert set(world.epochs_of()) == {"c"}


def test_requests_that_wait_for_other_replicas() -> None:
    world = settled_world()
    world.broker.is_slow = True
    beat = world.send("c", 3, topic_names=("t", "u"))
    joined, synced = world.join_as("m", "u"), world.sync("m", 3)
    leave = world.coordinator.classic.leave("g", [LeavingMember("m")])
    assert [each.is_set for each in (beat, joined, synced)] == [False] * 3
    world.broker.acknowledge()
    assert beat.is_set
    assert not joined.is_set
    world.broker.acknowledge()
    assert joined.value.error_code == 0
    assert synced.value.error_code == ErrorCode.ILLEGAL_GENERATION
    world.broker.is_slow = False
    assert finish(leave) == (0, [0])


def test_a_join_after_the_partition_has_moved_away() -> None:
    world = settled_world()
    world.broker.is_slow = True
    beat = world.send("c", 3, topic_names=("t", "u"))
    joined = world.join_as("m")
    world.resign(TopicPartition(GROUP_METADATA_TOPIC, 0), None)
    world.broker.acknowledge()
    assert beat.value.error_code == 0
    assert joined.value.error_code == ErrorCode.NOT_COORDINATOR
