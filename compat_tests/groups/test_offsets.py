import time
from typing import Any

import pytest

from compat_tests.groups.test_membership import stable
from compat_tests.groups.wire import Wire, join_request
from compat_tests.selection.scenarios import IN_KRAFT
from kafkapy.protocol.messages.delete_groups import DeleteGroupsRequest
from kafkapy.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.leave_group import LeaveGroupRequest
from kafkapy.protocol.messages.list_groups import ListGroupsRequest
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkapy.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kafkapy.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic

STAYS_A_WHILE = pytest.mark.differs(
    "kafka-4.4.0", reason="a group whose last offset is deleted goes when offsets are next looked through (KIP-848)"
)


@pytest.fixture
def group(topic_name: str) -> str:
    return topic_name


def commit(wire: Wire, group: str, version: int = 7, topic: str = "t", partition: int = 0, **fields: Any) -> int:
    partitions = [OffsetCommitRequestPartition(partition, 60, committed_metadata=fields.pop("metadata", ""))]
    request = OffsetCommitRequest(
        group_id=group, topics=[OffsetCommitRequestTopic(topic, partitions=partitions)], **fields
    )
    return int(wire.ask(request, version).topics[0].partitions[0].error_code)


def by_member(generation_id: int, member_id: str, instance_id: str | None = None) -> dict[str, Any]:
    return {
        "generation_id_or_member_epoch": generation_id,
        "member_id": member_id,
        "group_instance_id": instance_id,
    }


def fetch(wire: Wire, group: str, version: int = 7, topics: Any = (("t", [0, 5]),)) -> list[Any]:
    wanted = None if topics is None else [OffsetFetchRequestTopic(*each) for each in topics]
    response = wire.ask(OffsetFetchRequest(group, wanted), version)
    assert response.error_code == 0
    return [
        (topic.name, each.partition_index, each.committed_offset, each.metadata, each.error_code)
        for topic in response.topics
        for each in topic.partitions
    ]


def offset_delete(wire: Wire, group: str, topic: str = "t") -> tuple[int, list[int]]:
    request = OffsetDeleteRequest(group, [OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(0)])])
    response = wire.ask(request, 0)
    return response.error_code, [each.error_code for topic in response.topics for each in topic.partitions]


def delete(wire: Wire, *groups: str) -> dict[str, int]:
    return {each.group_id: each.error_code for each in wire.ask(DeleteGroupsRequest(list(groups)), 1).results}


@pytest.mark.differs("kafka-4.4.0", cases=["1"], reason="OffsetCommit begins with version 2 (KIP-896)")
@pytest.mark.parametrize("version", range(1, 9))
def test_commits_without_members(wire: Wire, group: str, version: int) -> None:
    assert commit(wire, group, version, metadata="m") == 0
    assert sorted(fetch(wire, group, min(version, 7))) == [("t", 0, 60, "m", 0), ("t", 5, -1, "", 0)]
    assert fetch(wire, group, topics=None) == [("t", 0, 60, "m", 0)]
    assert fetch(wire, group, topics=()) == []


@pytest.mark.parametrize(
    ("generation_id", "member_id", "expected"), [(0, "", 22), (5, "x", 22), (-1, "x", 0), (-7, "", 0)]
)
def test_first_commits_of_a_group(wire: Wire, group: str, generation_id: int, member_id: str, expected: int) -> None:
    assert commit(wire, group, **by_member(generation_id, member_id)) == expected


@pytest.mark.parametrize(
    ("generation_id", "member", "instance_id", "expected"),
    [
        (1, "known", None, 0),
        (1, "known", "i", 0),
        (0, "known", None, 22),
        (-1, "known", None, 22),
        (-1, "", None, 25),
        (1, "x", None, 25),
        (1, "x", "i", 82),
        (-1, "", "i", 82),
        (-1, "x", "other", 25),
    ],
)
def test_commits_to_a_settled_group(
    wire: Wire, group: str, generation_id: int, member: str, instance_id: str | None, expected: int
) -> None:
    known = stable(wire, group, group_instance_id="i")
    member_id = known if member == "known" else member
    assert commit(wire, group, **by_member(generation_id, member_id, instance_id)) == expected


def test_commits_while_the_leader_assigns_and_after_all_left(wire: Wire, group: str) -> None:
    member_id = wire.ask(join_request(group), 1).member_id
    assert commit(wire, group, **by_member(1, member_id)) == 27
    assert commit(wire, group) == 25
    assert wire.ask(LeaveGroupRequest(group, member_id), 1).error_code == 0
    assert commit(wire, group, **by_member(1, member_id)) == 25
    assert commit(wire, group, **by_member(2, "")) == 25
    assert commit(wire, group) == 0


@pytest.mark.parametrize(
    ("metadata", "expected"), [("x" * 4_096, 0), ("x" * 4_097, 12), ("é" * 4_096, 0), ("😀" * 2_049, 12)]
)
def test_metadata_has_a_limit(wire: Wire, group: str, metadata: str, expected: int) -> None:
    assert commit(wire, group, metadata=metadata) == expected


def test_odd_partitions(wire: Wire, group: str) -> None:
    assert commit(wire, group, topic="no-such-topic") == 3
    assert commit(wire, group, partition=9) == 3
    assert commit(wire, group, partition=-1) == 3
    assert commit(wire, "") == 0
    assert fetch(wire, "", topics=None) == [("t", 0, 60, "", 0)]


def test_deleting_groups(wire: Wire, group: str) -> None:
    member_id = stable(wire, group)
    assert delete(wire, group, f"{group}-unknown") == {group: 68, f"{group}-unknown": 69}
    assert wire.ask(LeaveGroupRequest(group, member_id), 1).error_code == 0
    assert commit(wire, group) == 0
    assert delete(wire, group, group) == {group: 0}
    assert fetch(wire, group, topics=None) == []
    assert wire.ask(DescribeGroupsRequest([group]), 5).groups[0].group_state == "Dead"


def test_deleting_offsets(wire: Wire, group: str) -> None:
    assert offset_delete(wire, group) == (69, [])
    assert commit(wire, group) == 0
    assert offset_delete(wire, group, "no-such-topic") == (0, [3])
    assert offset_delete(wire, group) == (0, [0])
    assert offset_delete(wire, "") == (24, [])
    stable(wire, group)
    assert offset_delete(wire, group) == (0, [86])


@STAYS_A_WHILE
def test_a_group_is_deleted_with_its_last_offset(wire: Wire, group: str) -> None:
    assert commit(wire, group) == 0
    assert offset_delete(wire, group) == (0, [0])
    assert offset_delete(wire, group) == (69, [])


def test_deleting_offsets_of_members_that_are_no_consumers(wire: Wire, group: str) -> None:
    stable(wire, group, protocol_type="connect")
    assert offset_delete(wire, group) == (68, [])


@STAYS_A_WHILE
def test_an_offset_deletion_deletes_an_empty_group_without_offsets(wire: Wire, group: str) -> None:
    member_id = stable(wire, group)
    assert wire.ask(LeaveGroupRequest(group, member_id), 1).error_code == 0
    assert offset_delete(wire, group) == (0, [0])
    assert wire.ask(DescribeGroupsRequest([group]), 5).groups[0].group_state == "Dead"


def test_describing_and_listing(wire: Wire, group: str) -> None:
    member_id = stable(wire, group, group_instance_id="i")
    described = wire.ask(DescribeGroupsRequest([group], include_authorized_operations=True), 5).groups[0]
    assert (described.error_code, described.group_state, described.protocol_data) == (0, "Stable", "range")
    (member,) = described.members
    assert (member.member_id, member.group_instance_id, member.client_id) == (member_id, "i", "wire")
    assert (member.client_host, member.member_assignment) == ("/127.0.0.1", b"part")
    unknown = wire.ask(DescribeGroupsRequest([f"{group}-unknown"], include_authorized_operations=True), 5).groups[0]
    assert (unknown.error_code, unknown.group_state) == (0, "Dead")


@pytest.mark.differs(
    "kafka-4.4.0", reason="groups have configurations to be described and altered, too (KIP-848): 3400"
)
def test_operations_on_a_group(wire: Wire, group: str) -> None:
    stable(wire, group)
    for name in (group, f"{group}-unknown"):
        described = wire.ask(DescribeGroupsRequest([name], include_authorized_operations=True), 5).groups[0]
        assert described.authorized_operations == 328


@pytest.mark.parametrize(
    ("wanted", "is_listed"),
    [
        ([], True),
        (["Stable"], True),
        (["Empty"], False),
        pytest.param(
            *(["stable"], False),
            marks=pytest.mark.differs(*IN_KRAFT, reason="names of states are taken in any case (KIP-848)"),
        ),
    ],
)
def test_listing(wire: Wire, group: str, wanted: list[str], is_listed: bool) -> None:
    stable(wire, group)
    deadline_s = time.monotonic() + 10
    # 2.7.2 answers SyncGroup before the group is Stable, and lists groups without their locks.
    while {each.group_id: each.group_state for each in wire.ask(ListGroupsRequest(), 4).groups}[group] != "Stable":
        assert time.monotonic() < deadline_s
    groups = wire.ask(ListGroupsRequest(wanted), 4).groups
    assert (group in [each.group_id for each in groups]) == is_listed


@pytest.mark.differs(*IN_KRAFT, cases=["2--1", "-1--1"], reason="an unknown kind of coordinator: INVALID_REQUEST (42)")
@pytest.mark.parametrize(("key_type", "expected"), [(0, 0), (2, -1), (-1, -1)])
def test_kinds_of_coordinators(wire: Wire, group: str, key_type: int, expected: int) -> None:
    found = wire.ask(FindCoordinatorRequest(group, key_type), 1)
    assert found.error_code == expected
    if expected == 0:
        assert (found.error_message, found.port > 0) == ("NONE", True)
    else:
        assert (found.node_id, found.host, found.port) == (-1, "", -1)
