from kafkapy.coordinator.group.calls import GroupDescription, GroupListing
from kafkapy.coordinator.group.classic.calls import LeavingMember
from kafkapy.metadata.topic_rules import GROUP_METADATA_TOPIC
from kafkapy.turns import finish
from kafkapy.types import TopicPartition
from tests.coordinator.world import TP, World

PARTITION = TopicPartition(GROUP_METADATA_TOPIC, 0)


def test_requests_of_members_while_loading() -> None:
    world = World()
    world.coordinator._runtime.shards[0].is_loading = True
    assert world.join().value.error_code == 14
    assert world.sync("m", 1).value.error_code == 27
    assert world.heartbeat("m", 1) == 0
    assert finish(world.coordinator.classic.leave("g", [LeavingMember("m")])) == (14, [])
    assert world.commit().value == {TP: 14}
    assert finish(world.coordinator.describe_group("g")) == GroupDescription(14, "g")
    assert world.delete_groups(["g"]) == {"g": 14}
    assert finish(world.coordinator.delete_offsets("g", [TP])) == (14, {})
    assert finish(world.coordinator.list_groups()) == (14, [])


def test_requests_to_a_broker_that_does_not_lead_the_partition() -> None:
    world = World(leads=False)
    assert world.join().value.error_code == 16
    assert world.sync("m", 1).value.error_code == 16
    assert world.heartbeat("m", 1) == 16
    assert finish(world.coordinator.classic.leave("g", [LeavingMember("m")])) == (16, [])
    assert finish(world.coordinator.list_groups()) == (0, [])


def test_requests_to_a_coordinator_that_was_shut_down() -> None:
    world = World()
    world.coordinator.shutdown()
    assert world.join().value.error_code == 15
    assert finish(world.coordinator.list_groups()) == (15, [])
    assert world.clock.pending_timers() == 0
    world.coordinator.shutdown()


def test_an_unknown_group() -> None:
    world = World()
    assert finish(world.coordinator.classic.leave("g", [LeavingMember("m"), LeavingMember("", "i")])) == (0, [25, 25])
    assert world.sync("m", 1).value.error_code == 25
    assert world.heartbeat("m", 1) == 25
    assert finish(world.coordinator.describe_group("g")) == GroupDescription(0, "g", "Dead")


def test_an_empty_group_id() -> None:
    world = World()
    assert world.coordinator.classic.heartbeat("", 1, "m") == 24
    assert finish(world.coordinator.classic.leave("", [LeavingMember("m")])) == (24, [])


def test_groups_are_listed_by_state() -> None:
    world = World()
    world.stable()
    world.commit(group_id="offsets")
    settled, plain = GroupListing("g", "consumer", "Stable", "classic"), GroupListing("offsets", "", "Empty", "classic")
    assert finish(world.coordinator.list_groups()) == (0, [settled, plain])
    assert finish(world.coordinator.list_groups(["Stable", "Dead"])) == (0, [settled])
    assert finish(world.coordinator.list_groups(["stable"])) == (0, [])
    assert finish(world.coordinator.describe_group("g")).state == "Stable"


def test_leadership_of_other_topics_is_ignored() -> None:
    world = World(leads=False)
    world.lead(TopicPartition("t", 0), 0)
    assert world.join().value.error_code == 16
    world.lead(PARTITION, 0)
    world.resign(TopicPartition("t", 0), 1)
    assert world.joined().error_code == 0


def test_groups_are_loaded_again_when_leadership_is_regained() -> None:
    world = World()
    world.commit(5)
    world.lead(PARTITION, 3)
    world.resign(PARTITION, 2)
    assert world.fetch() == 5  # the message was of an earlier epoch
    waiting = world.join(), world.join()
    world.resign(PARTITION, 4)
    assert waiting[1].value.error_code == 16
    assert world.join().value.error_code == 16
    world.resign(PARTITION, 4)
    world.lead(PARTITION, 5)
    assert world.fetch() == 5
    world.resign(PARTITION, None)
    assert world.join().value.error_code == 16


def test_a_group_that_lost_its_coordinator_between_two_steps_is_not_written() -> None:
    world = World()
    world.stable()
    group = world.group()
    world.resign(PARTITION, None)
    seen: list[int] = []
    world.coordinator.classic._store(group, {}).on_set(seen.append)
    assert seen == [16]


def test_the_topic_is_created_with_the_configured_partitions() -> None:
    world = World(leads=False, offsets_topic_num_partitions=4)
    assert world.coordinator.partition_for("g-dyn") == 3


def test_expire_member() -> None:
    world = World()
    (member_id,) = world.stable()
    assert world.coordinator.classic.expire_member("nobody", member_id) == 25
    assert world.coordinator.classic.expire_member("g", "nobody") == 25
    assert world.coordinator.classic.expire_member("g", member_id) == 0
    assert world.heartbeat(member_id, 1) == 25
