"""While records of a group wait for other replicas, further decisions on it wait too."""

from kafkapy.metadata.errors import NotEnoughReplicasError, RequestTimedOutError
from kafkapy.metadata.topic_rules import GROUP_METADATA_TOPIC
from kafkapy.protocol.errors import ErrorCode
from kafkapy.types import TopicPartition
from tests.coordinator.group.consumer.world import ConsumerWorld, T, shown

PLACE = TopicPartition(GROUP_METADATA_TOPIC, 0)


def test_decisions_are_made_one_after_the_other() -> None:
    world = ConsumerWorld()
    world.broker.is_slow = True
    first, second = world.send("a", 0, **world.enter_call()), world.send("b", 0, **world.enter_call())
    assert world.delete_groups(["g"]) == {"g": ErrorCode.NON_EMPTY_GROUP}
    world.broker.acknowledge()
    assert shown(first.value) == (2, {T: [0, 1, 2]})
    assert not second.is_set
    world.broker.acknowledge()
    assert shown(second.value) == (3, {})


def test_first_records_that_are_refused_leave_no_group() -> None:
    world = ConsumerWorld()
    world.broker.error = NotEnoughReplicasError("too few")
    assert world.enter("a").error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.join().value.error_code == 0


def test_a_member_whose_removal_is_refused_is_removed_later() -> None:
    world = ConsumerWorld()
    world.enter("a")
    world.broker.error = NotEnoughReplicasError("too few")
    world.clock.advance(50_000)
    assert len(world.describe().members) == 1
    world.broker.error = None
    world.clock.advance(50_000)
    assert world.state() == ("Empty", 3, 3)


def test_requests_that_wait_when_the_partition_moves_away() -> None:
    world = ConsumerWorld()
    world.enter("a")
    world.enter("b")
    world.broker.is_slow = True
    first, second = world.send("a", 2), world.send("b", 3, topic_names=("u",))
    assert world.coordinator.consumer.expire_member("g", "b") == 0
    world.resign(PLACE, None)
    world.broker.acknowledge()
    assert (first.value.error_code, second.value.error_code) == (0, ErrorCode.NOT_COORDINATOR)
    assert world.coordinator.consumer.expire_member("g", "b") == ErrorCode.NOT_COORDINATOR


def test_records_whose_acknowledgement_fails_are_in_the_log_and_in_the_state() -> None:
    world = ConsumerWorld()
    world.enter("a")
    world.broker.is_slow = True
    answer = world.send("b", 0, **world.enter_call())
    world.broker.acknowledge(RequestTimedOutError("too slow"))
    assert answer.value.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    before = world.describe()
    assert {each.member_id: each.member_epoch for each in before.members} == {"a": 2, "b": 3}
    world.restart()
    assert world.describe() == before


def test_a_response_waits_for_records_whose_acknowledgement_failed() -> None:
    world = ConsumerWorld()
    world.broker.is_slow = True
    world.send("a", 0, **world.enter_call())
    world.broker.acknowledge(RequestTimedOutError("too slow"))
    answers = [world.send("a", 0, **world.enter_call()), world.send("a", 2)]
    assert not any(each.is_set for each in answers)
    world.broker.acknowledge()
    assert [shown(each.value) for each in answers] == [(2, {T: [0, 1, 2]}), (2, None)]


def test_the_session_of_a_member_whose_first_records_are_late_ends() -> None:
    world = ConsumerWorld()
    world.broker.is_slow = True
    world.send("a", 0, **world.enter_call(instance_id="i"))
    world.broker.acknowledge(RequestTimedOutError("too slow"))
    world.broker.is_slow = False
    world.beat("a", -2, instance_id="i")
    world.broker.is_slow = True
    returned = world.send("b", 0, **world.enter_call(instance_id="i"))
    world.broker.acknowledge(RequestTimedOutError("too slow"))
    assert returned.value.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    world.broker.is_slow = False
    assert [each.member_id for each in world.describe().members] == ["b"]
    world.clock.advance(50_000)
    assert world.describe().members == ()


def test_a_removal_whose_acknowledgement_fails_is_a_removal() -> None:
    world = ConsumerWorld()
    timers = world.clock.pending_timers()
    world.enter("a")
    world.broker.is_slow = True
    assert world.coordinator.consumer.expire_member("g", "a") == 0
    world.broker.acknowledge(RequestTimedOutError("too slow"))
    assert world.describe().members == ()
    assert world.clock.pending_timers() == timers


def test_a_heartbeat_that_waited_before_the_session_ended_keeps_the_member() -> None:
    world = ConsumerWorld()
    world.enter("a")
    world.clock.advance(40_000)
    world.broker.is_slow = True
    other = world.send("b", 0, **world.enter_call())
    waiting = world.send("a", 2)
    world.clock.advance(10_000)
    world.broker.is_slow = False
    world.broker.acknowledge()
    assert (other.value.error_code, waiting.value.error_code) == (0, 0)
    assert len(world.describe().members) == 2


def test_a_member_that_has_revoked_in_time_stays_though_its_records_are_late() -> None:
    world = ConsumerWorld()
    world.enter("a")
    world.enter("b")
    assert world.epochs("a", 2, owned={T: [0, 1, 2]}) == (2, {T: [0, 1]})
    world.clock.advance(29_000)
    world.broker.is_slow = True
    revoked = world.send("a", 2, owned={T: [0, 1]})
    world.clock.advance(5_000)
    world.broker.is_slow = False
    world.broker.acknowledge()
    assert shown(revoked.value) == (3, None)
    assert len(world.describe().members) == 2


def test_a_request_that_waited_for_a_group_that_was_loaded_again_waits_there_too() -> None:
    world = ConsumerWorld()
    world.enter("a")
    world.broker.is_slow = True
    answers = [world.send(each, 0, **world.enter_call()) for each in ("b", "c")]
    world.resign(PLACE, None)
    world.lead(PLACE, 1)
    answers.append(world.send("d", 0, **world.enter_call()))
    world.broker.acknowledge()
    assert [each.is_set for each in answers] == [True, False, True]
    world.broker.acknowledge()
    assert [each.value.error_code for each in answers] == [0, 0, 0]
