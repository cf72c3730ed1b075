"""While records of a group wait for other replicas, further decisions on it wait too."""

from kafkapy.metadata.errors import NotEnoughReplicasError
from kafkapy.metadata.topic_rules import GROUP_METADATA_TOPIC
from kafkapy.protocol.errors import ErrorCode
from kafkapy.types import TopicPartition
from tests.coordinator.group.consumer.world import ConsumerWorld, T, shown


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
    world.resign(TopicPartition(GROUP_METADATA_TOPIC, 0), None)
    world.broker.acknowledge()
    assert (first.value.error_code, second.value.error_code) == (0, ErrorCode.NOT_COORDINATOR)
    assert world.coordinator.consumer.expire_member("g", "b") == ErrorCode.NOT_COORDINATOR
