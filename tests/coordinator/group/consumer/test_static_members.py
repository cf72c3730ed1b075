from kafkapy.metadata.errors import NotEnoughReplicasError
from kafkapy.protocol.errors import ErrorCode
from tests.coordinator.group.consumer.world import ConsumerWorld, T, shown


def static_world() -> ConsumerWorld:
    world = ConsumerWorld()
    assert shown(world.enter("m1", instance_id="i")) == (2, {T: [0, 1, 2]})
    return world


def test_a_static_member_returns_with_another_member_id() -> None:
    world = static_world()
    assert world.enter("m2", instance_id="i").error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert world.beat("m1", -2, instance_id="i") == (0, None, "m1", -2, 0, None)
    assert world.state() == ("Reconciling", 2, 2)
    assert world.beat("m1", 2, instance_id="i").error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert shown(world.enter("m7", instance_id="k")) == (3, {})
    assert shown(world.enter("m2", instance_id="i")) == (3, {T: [0, 1]})
    assert world.beat("m1", 2, instance_id="i").error_code == ErrorCode.FENCED_INSTANCE_ID
    assert world.epochs("m7", 3) == (3, {T: [2]})
    world.restart()
    assert world.epochs("m2", 3, instance_id="i") == (3, None)
    assert world.beat("m2", -1, instance_id="i").error_code == 0
    assert [each.member_id for each in world.describe().members] == ["m7"]


def test_the_same_member_id_returns() -> None:
    world = static_world()
    world.beat("m1", -2, instance_id="i")
    assert shown(world.enter("m1", instance_id="i")) == (2, {T: [0, 1, 2]})


def test_instance_ids_that_are_unknown_or_of_another_member() -> None:
    world = static_world()
    unknown = world.beat("m9", 2, instance_id="j")
    assert (unknown.error_code, unknown.error_message) == (25, "Instance id j is unknown.")
    fenced = world.beat("m9", -2, instance_id="i")
    assert fenced.error_message == "Static member m9 with instance id i was fenced by member m1."
    assert world.epochs("m1", 2) == (2, None)


def test_a_static_member_that_stays_away_is_removed() -> None:
    world = static_world()
    world.beat("m1", -2, instance_id="i")
    world.clock.advance(46_000)
    assert world.state() == ("Empty", 3, 3)


def test_a_return_whose_records_are_refused() -> None:
    world = static_world()
    world.beat("m1", -2, instance_id="i")
    world.broker.error = NotEnoughReplicasError("too few")
    assert world.enter("m2", instance_id="i").error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.broker.error = None
    assert shown(world.enter("m2", instance_id="i")) == (2, {T: [0, 1, 2]})
