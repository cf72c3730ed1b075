"""Members join, take over partitions and leave. Apache Kafka 4.4.0 answered the same requests in the same way."""

from typing import Any

import pytest

from kafkapy.protocol.errors import ErrorCode
from kafkapy.turns import finish
from tests.coordinator.group.consumer.world import ConsumerWorld, T, U, shown

NO_SUBSCRIPTION = "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
UNKNOWN_MEMBER, FENCED_MEMBER = ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH


def test_a_second_member_waits_until_the_first_one_has_revoked() -> None:
    world = ConsumerWorld()
    assert shown(world.enter("a")) == (2, {T: [0, 1, 2]})
    assert world.state() == ("Stable", 2, 2)
    assert world.epochs("a", 2) == (2, None)
    assert shown(world.enter("b")) == (3, {})
    assert world.state() == ("Reconciling", 3, 3)
    assert world.epochs("a", 2) == (2, {T: [0, 1]})
    assert world.epochs("a", 2) == (2, None)
    assert world.epochs("b", 3) == (3, None)
    assert world.epochs("a", 2, owned={T: [0, 1]}) == (3, None)
    assert world.epochs("b", 3) == (3, {T: [2]})
    assert world.state() == ("Stable", 3, 3)
    assert world.epochs("b", 3, topic_names=("t", "u")) == (4, {T: [2], U: [0, 1]})
    assert world.state() == ("Reconciling", 4, 4)
    assert world.epochs("a", 3) == (4, None)
    assert world.beat("b", -1) == (0, None, "b", -1, 0, None)
    assert world.state() == ("Assigning", 5, 4)
    assert world.epochs("a", 4) == (5, {T: [0, 1, 2]})
    assert world.beat("a", -1).error_code == 0
    assert world.state() == ("Empty", 6, 6)


def test_a_full_request_and_a_member_that_joins_again_get_the_whole_assignment() -> None:
    world = ConsumerWorld()
    world.enter("a")
    full = world.enter_call(owned={T: [0, 1, 2]})
    assert world.epochs("a", 2, **full) == (2, {T: [0, 1, 2]})
    assert shown(world.enter("a")) == (2, {T: [0, 1, 2]})
    assert shown(world.enter("a", topic_names=("u",))) == (3, {U: [0, 1]})
    assert shown(world.enter("b", topic_names=())) == (3, {})


def test_a_member_that_has_to_revoke_again_keeps_its_place() -> None:
    world = ConsumerWorld()
    world.enter("a", topic_names=("t", "u"))
    world.enter("b", topic_names=("t",))
    assert world.epochs("a", 2) == (2, {T: [0], U: [0, 1]})
    world.enter("c", topic_names=("u",))
    assert world.epochs("a", 2, owned={T: [0], U: [0, 1]})[0] == 2
    assert world.epochs("b", 3)[1] == {T: [1, 2]}


def test_each_revocation_has_the_whole_rebalance_timeout() -> None:
    world = ConsumerWorld()
    world.enter("a", topic_names=("t", "u"))
    world.enter("b", topic_names=("t",))
    world.beat("a", 2)
    world.clock.advance(20_000)
    world.enter("c", topic_names=("u",))
    world.beat("a", 2, owned={T: [0], U: [0, 1]})
    world.clock.advance(20_000)
    assert "a" in world.consumer_group().members
    world.clock.advance(10_000)
    assert "a" not in world.consumer_group().members


@pytest.mark.parametrize(
    ("member_epoch", "fields", "error_code", "message"),
    [
        (0, {"group_id": " "}, 42, "GroupId can't be empty."),
        (0, {"instance_id": ""}, 42, "InstanceId can't be empty."),
        (0, {"rack_id": ""}, 42, "RackId can't be empty."),
        (0, {"rebalance_timeout_ms": -1}, 42, "RebalanceTimeoutMs must be provided in first request."),
        (0, {"owned": None}, 42, "TopicPartitions must be empty when (re-)joining."),
        (0, {"owned": {T: [0]}}, 42, "TopicPartitions must be empty when (re-)joining."),
        (0, {"topic_names": None}, 42, NO_SUBSCRIPTION),
        (-2, {}, 42, "InstanceId can't be null."),
        (-3, {}, 42, "MemberEpoch is invalid."),
        (0, {"server_assignor": "x"}, 112, "ServerAssignor x is not supported. Supported assignors: uniform, range."),
        (1, {}, 69, "Consumer group g not found."),
        (-1, {}, 69, "Group g not found."),
    ],
)  # fmt: skip
def test_requests_that_are_refused(member_epoch: int, fields: dict[str, Any], error_code: int, message: str) -> None:
    world = ConsumerWorld()
    result = world.beat("a", member_epoch, **world.enter_call(**fields))
    assert (result.error_code, result.error_message) == (error_code, message)
    assert not world.has_group()
    assert world.log.log_end_offset == 0


def test_a_wrong_epoch_is_fenced_unless_the_last_response_was_lost() -> None:
    world = ConsumerWorld()
    world.enter("a")
    world.enter("b")
    world.beat("a", 2)
    assert world.epochs("a", 2, owned={T: [0, 1]}) == (3, None)
    assert world.epochs("a", 2, owned={T: [0]}) == (3, None)
    for epoch, owned in ((2, None), (2, {U: [0]}), (1, {}), (4, {})):
        assert world.beat("a", epoch, owned=owned).error_code == FENCED_MEMBER
    assert world.beat("x", 3).error_code == world.beat("x", -1).error_code == UNKNOWN_MEMBER


def test_the_topics_of_the_cluster_change() -> None:
    world = ConsumerWorld()
    world.enter("a", topic_names=("t", "v"))
    world.set_topics(t=4)
    assert world.epochs("a", 2) == (3, {T: [0, 1, 2, 3]})
    world.set_topics(t=4)
    assert world.epochs("a", 3) == (3, None)
    world.set_topics(s=1, t=4)  # the topic was created again, with another id
    assert world.epochs("a", 3, owned={}) == (4, {U: [0, 1, 2, 3]})
    assert [each.topic_name for each in world.describe().members[0].assignment] == ["t"]
    world.set_topics()
    assert world.describe().members[0].assignment == ()


def test_members_that_join_within_the_interval_share_an_assignment() -> None:
    world = ConsumerWorld(group_consumer_assignment_interval_ms=1_000)
    world.clock.advance(5_000)
    world.enter("a")
    assert shown(world.enter("b")) == (2, {})
    assert world.state() == ("Assigning", 3, 2)
    assert world.epochs("a", 2, topic_names=("u",)) == (2, {})
    world.clock.advance(1_000)
    assert world.epochs("b", 2)[0] == 4


def test_a_group_has_its_own_intervals_and_timeout() -> None:
    world = ConsumerWorld()
    world.group_overrides["g"] = {"consumer.heartbeat.interval.ms": "6000", "consumer.session.timeout.ms": "60000"}
    assert world.enter("a").heartbeat_interval_ms == 6_000
    assert world.enter("a", group_id="h").heartbeat_interval_ms == 5_000
    world.clock.advance(50_000)
    assert (len(world.describe("g").members), len(world.describe("h").members)) == (1, 0)
    world.group_overrides["g"] = {"consumer.assignment.interval.ms": "1000"}
    assert world.beat("a", 2).heartbeat_interval_ms == 5_000
    assert shown(world.enter("b"))[0] == 3
    assert shown(world.enter("c"))[0] == 3
    assert world.state()[0] == "Assigning"


def test_consumer_groups_that_are_not_served() -> None:
    world = ConsumerWorld(group_coordinator_rebalance_protocols=("classic",))
    assert world.enter("a").error_code == world.describe().error_code == ErrorCode.UNSUPPORTED_VERSION


def test_most_members_choose_the_assignor() -> None:
    world = ConsumerWorld()
    world.enter("a", server_assignor="range")
    assert world.describe().assignor_name == "range"
    world.enter("b")
    world.enter("c", server_assignor="uniform")
    world.enter("d", server_assignor="uniform")
    assert world.describe().assignor_name == "uniform"
    assert world.beat("d", 5, server_assignor="range").member_epoch == 6
    assert world.describe().group_epoch == 6
    assert world.beat("c", 4, server_assignor="range").error_code == 0
    assert world.describe().group_epoch == 6


def test_groups_are_bounded() -> None:
    world = ConsumerWorld(group_consumer_max_size=1)
    world.enter("a")
    refused = world.enter("b")
    assert refused.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert refused.error_message == "The consumer group has reached its maximum capacity of 1 members."
    assert world.enter("a").error_code == 0


def test_the_memory_of_all_members_is_bounded_and_released() -> None:
    world = ConsumerWorld(kafkapy_group_metadata_max_bytes=4_000)
    budget = world.coordinator._runtime.budget
    assert world.enter("a").error_code == 0
    refused = world.enter("b", topic_names=tuple(f"topic-{number}" for number in range(100)))
    assert refused.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.background.counters.refused_metadata == 1
    world.beat("a", -1)
    assert world.delete_groups(["g"]) == {"g": 0}
    assert budget.used_bytes == 0
    world.enter("a")
    world.coordinator.shutdown()
    assert budget.used_bytes == 0


def test_sessions_end_without_heartbeats() -> None:
    world = ConsumerWorld()
    world.enter("a")
    world.enter("b")
    world.clock.advance(40_000)
    world.beat("b", 3)
    world.clock.advance(10_000)
    assert [each.member_id for each in world.describe().members] == ["b"]
    assert world.epochs("b", 3) == (4, {T: [0, 1, 2]})
    assert world.coordinator.consumer.expire_member("g", "a") == UNKNOWN_MEMBER
    assert world.coordinator.consumer.expire_member("x", "a") == UNKNOWN_MEMBER
    assert world.coordinator.consumer.expire_member("", "a") == ErrorCode.INVALID_GROUP_ID
    assert world.coordinator.consumer.expire_member("g", "b") == 0
    assert world.state() == ("Empty", 5, 5)


def test_a_member_that_does_not_revoke_is_removed_after_its_rebalance_timeout() -> None:
    world = ConsumerWorld()
    world.enter("a")
    world.enter("b")
    world.beat("a", 2)
    world.clock.advance(20_000)
    world.beat("a", 2)
    world.beat("b", 3)
    world.clock.advance(10_000)
    assert [each.member_id for each in world.describe().members] == ["b"]
    assert world.beat("a", 2).error_code == UNKNOWN_MEMBER
    assert world.epochs("b", 3) == (4, {T: [0, 1, 2]})


def test_the_description_has_partitions_until_they_are_revoked() -> None:
    world = ConsumerWorld()
    world.enter("a")
    world.enter("b")
    assert world.epochs("a", 2) == (2, {T: [0, 1]})
    member = world.describe().members[0]
    assert [each.partitions for each in (*member.assignment, *member.target)] == [(0, 1, 2), (0, 1)]
    world.beat("a", 2, owned={T: [0, 1]})
    assert world.describe().members[0].assignment == member.target


def test_the_groups_in_the_lists() -> None:
    world = ConsumerWorld()
    world.enter("a", rack_id="r", instance_id="i")
    _, listed = finish(world.coordinator.list_groups())
    assert listed == [("g", "consumer", "Stable", "consumer")]
    assert finish(world.coordinator.describe_group("g")).state == "Dead"
    (member,) = world.describe().members
    assert member[:8] == ("a", "i", "r", 2, "client", "/127.0.0.1", ("t",), "")
    assert member.assignment == member.target == ((T, "t", (0, 1, 2)),)
    unknown = world.describe("x")
    assert (unknown.error_code, unknown.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group x not found.")
    assert world.describe("").error_code == ErrorCode.INVALID_GROUP_ID
    assert world.delete_groups(["g"]) == {"g": ErrorCode.NON_EMPTY_GROUP}
    assert "Stable" in repr(world.consumer_group())


def test_the_epoch_before_a_revocation_is_valid_while_the_response_may_be_lost() -> None:
    world = ConsumerWorld()
    world.enter("a")
    world.enter("b")
    world.set_topics(t=4, u=2)
    assert world.epochs("a", 2) == (2, {T: [0, 1]})
    assert world.epochs("b", 3) == (4, {T: [3]})
    assert world.epochs("a", 2, owned={T: [0, 1]}) == (4, None)
    assert world.epochs("a", 2, owned={T: [0, 1]}) == (4, None)
