from uuid import UUID

import pytest

from kafkapy.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kafkapy.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kafkapy.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafkapy.server.handlers import consumer_group_describe, consumer_group_heartbeat, join_group
from tests.coordinator.group.consumer.world import T, image
from tests.coordinator.world import subscription
from tests.server.handlers.groups_context import Asker


def asker() -> Asker:
    made = Asker()
    made.world.broker.image = image(t=3)
    return made


def join(member_id: str) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        "g", member_id, 0, rebalance_timeout_ms=30_000, subscribed_topic_names=["t"], topic_partitions=[]
    )


@pytest.mark.parametrize("version", [0, 1])
def test_every_version(version: int) -> None:
    made = asker()
    joined = made.ask(consumer_group_heartbeat, join("a"), version)
    assert (joined.error_code, joined.member_id, joined.member_epoch, joined.heartbeat_interval_ms) == (0, "a", 2, 5000)
    assert [(each.topic_id, each.partitions) for each in joined.assignment.topic_partitions] == [(T, [0, 1, 2])]
    beat = ConsumerGroupHeartbeatRequest("g", "a", 2, topic_partitions=[TopicPartitions(T, [0, 1, 2])])
    assert made.ask(consumer_group_heartbeat, beat, version).assignment is None
    described, unknown = made.ask(consumer_group_describe, ConsumerGroupDescribeRequest(["g", "x"]), version).groups
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Stable", 2, 2)
    (member,) = described.members
    assert (member.member_id, member.member_type) == ("a", 1 if version else -1)
    (assigned,) = member.assignment.topic_partitions
    assert (assigned.topic_id, assigned.topic_name, assigned.partitions) == (T, "t", [0, 1, 2])
    assert (unknown.error_code, unknown.error_message) == (69, "Group x not found.")


def test_the_type_of_a_classic_member() -> None:
    made = asker()
    made.ask(consumer_group_heartbeat, join("a"), 1)
    protocols = [JoinGroupRequestProtocol("range", subscription("t"))]
    request = JoinGroupRequest("g", 10_000, 10_000, "m", protocol_type="consumer", protocols=protocols)
    assert made.ask(join_group, request, 7).error_code == 0
    members = made.ask(consumer_group_describe, ConsumerGroupDescribeRequest(["g"]), 1).groups[0].members
    assert {each.member_id: each.member_type for each in members} == {"a": 1, "m": 0}


def test_members_of_version_1_choose_their_ids() -> None:
    made = asker()
    UUID(made.ask(consumer_group_heartbeat, join(""), 0).member_id)
    refused = made.ask(consumer_group_heartbeat, join(""), 1)
    assert (refused.error_code, refused.error_message) == (42, "MemberId can't be empty.")


@pytest.mark.parametrize(("asked", "operations"), [(True, 3400), (False, -(2**31))])
def test_authorized_operations(asked: bool, operations: int) -> None:
    made = asker()
    made.ask(consumer_group_heartbeat, join("a"), 1)
    request = ConsumerGroupDescribeRequest(["g"], include_authorized_operations=asked)
    assert made.ask(consumer_group_describe, request, 1).groups[0].authorized_operations == operations


def test_a_name_that_is_repeated_makes_no_response_larger_than_all_groups() -> None:
    made = asker()
    made.ask(consumer_group_heartbeat, join("a" * 30_000), 1)
    made.world.coordinator._runtime.budget.max_bytes = 100_000
    groups = made.ask(consumer_group_describe, ConsumerGroupDescribeRequest(["g"] * 4), 1).groups
    assert [(group.error_code, len(group.members)) for group in groups] == [(-1, 0)] * 4
