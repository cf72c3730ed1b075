"""Versions of requests that Kafka has added since 2.7: kafkapy answers them as 4.4.0 (`--target kafka-4.4.0`) does."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from compat_tests.data_path.frames import NOW_MS, new_topic, produce
from compat_tests.groups.wire import Wire, find_coordinator, join_request
from harness.process import Broker
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
from kafkapy.protocol.messages.delete_groups import DeleteGroupsRequest
from kafkapy.protocol.messages.describe_cluster import DescribeClusterRequest
from kafkapy.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkapy.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kafkapy.protocol.messages.list_groups import ListGroupsRequest
from kafkapy.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkapy.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kafkapy.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kafkapy.records.record import Record, encode_batch

pytestmark = pytest.mark.differs("kafka-2.7.2", reason="it has none of these versions")
UNSUPPORTED = int(ErrorCode.UNSUPPORTED_VERSION)
UNKNOWN = (0, -1, -1, -1)
IS_OF_4 = pytest.mark.differs("kafka-3.9.1", reason="the version is of 4.0 or later")


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    with Wire(broker.bootstrap) as wire:
        yield wire


def _offset(wire: Wire, topic: str, timestamp: int, version: int) -> tuple[int, int, int, int]:
    """Error code, timestamp, offset and epoch."""
    asked = [ListOffsetsTopic(topic, [ListOffsetsPartition(0, -1, timestamp)])]
    request = ListOffsetsRequest(-1, 0, asked, timeout_ms=1000 if version >= 10 else 0)
    (answer,) = wire.ask(request, version).topics[0].partitions
    return answer.error_code, answer.timestamp, answer.offset, answer.leader_epoch


def _written(wire: Wire) -> str:
    """A topic whose largest timestamp is that of offsets 1 and 3."""
    topic = new_topic(wire)
    for times in ((10, 50, 30, 50), (20,)):
        records = [Record(None, b"v", NOW_MS + after, (), at) for at, after in enumerate(times)]
        assert produce(wire, topic, bytes(encode_batch(records)))[0] == 0
    return topic


FIRST_VERSIONS = {-3: 7, -4: 8, -5: 9}


@pytest.mark.parametrize("version", [6, 7, 8, 9])
def test_special_timestamps_need_their_versions(wire: Wire, version: int) -> None:
    topic = _written(wire)
    assert _offset(wire, topic, -1, version) == (0, -1, 5, 0)
    found = {timestamp: _offset(wire, topic, timestamp, version) for timestamp in (-3, -4, -5, -7)}
    whole = {-3: (0, NOW_MS + 50, 1, 0), -4: (0, -1, 0, 0), -5: UNKNOWN}
    refused = (UNSUPPORTED, -1, -1, -1)
    assert found == {
        timestamp: whole[timestamp] if version >= FIRST_VERSIONS.get(timestamp, 99) else refused for timestamp in found
    }


@IS_OF_4
def test_the_last_version_of_list_offsets(wire: Wire) -> None:
    written, empty = _written(wire), new_topic(wire)
    assert _offset(wire, written, NOW_MS + 15, 11) == (0, NOW_MS + 50, 1, 0)
    assert _offset(wire, written, -6, 11) == UNKNOWN
    assert _offset(wire, written, -6, 10)[0] == UNSUPPORTED
    assert [_offset(wire, empty, each, 11) for each in (-3, -4, -5)] == [UNKNOWN, (0, -1, 0, 0), UNKNOWN]
    assert _offset(wire, "nowhere-x", -3, 11)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_end_of_an_epoch(wire: Wire) -> None:
    topic = _written(wire)
    request = OffsetForLeaderEpochRequest(-1, [OffsetForLeaderTopic(topic, [OffsetForLeaderPartition(0, -1, 0)])])
    (answer,) = wire.ask(request, 4).topics[0].partitions
    assert (answer.error_code, answer.leader_epoch, answer.end_offset) == (0, 0, 5)


@pytest.mark.parametrize("key_type", [0, 1])
@pytest.mark.parametrize("version", [4, 5, 6])
def test_several_coordinators_are_found_at_once(wire: Wire, broker: Broker, version: int, key_type: int) -> None:
    keys = ["a", "", "b", "a"]
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=keys)
    while True:
        rows = wire.ask(request, version).coordinators
        if not any(each.error_code for each in rows):
            break
        assert {each.error_code for each in rows} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
        wire.has_answer(0.05)
    assert [(each.key, each.host, each.port, each.error_message) for each in rows] == [
        (key, "127.0.0.1", broker.port, "") for key in keys
    ]
    assert wire.ask(FindCoordinatorRequest(key_type=key_type, coordinator_keys=[]), version).coordinators == []


def test_an_unknown_kind_of_coordinator_is_refused(wire: Wire) -> None:
    (row,) = wire.ask(FindCoordinatorRequest(key_type=7, coordinator_keys=["x"]), 4).coordinators
    assert (row.key, row.error_code, row.node_id, row.port) == ("x", ErrorCode.INVALID_REQUEST, -1, -1)


def _group(wire: Wire, topic: str) -> str:
    """A group without members that has committed 5."""
    group = f"later-{time.monotonic_ns()}"
    find_coordinator(wire, group)
    committed = [OffsetCommitRequestTopic(topic, partitions=[OffsetCommitRequestPartition(0, 5)])]
    assert wire.ask(OffsetCommitRequest(group, topics=committed), 8).topics[0].partitions[0].error_code == 0
    return group


@pytest.mark.parametrize("version", [8, 9])
def test_offsets_of_several_groups_are_fetched_at_once(wire: Wire, version: int) -> None:
    topic = new_topic(wire)
    group = _group(wire, topic)
    named = [
        OffsetFetchRequestTopics(topic, partition_indexes=[0, 9]),
        OffsetFetchRequestTopics("nowhere-x", partition_indexes=[0]),
    ]
    asked = [(group, named), ("missing-x", None), (group, None)]
    answer = wire.ask(
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(each, topics=topics) for each, topics in asked]), version
    )
    found = [
        (
            row.group_id,
            row.error_code,
            [
                (each.name, part.partition_index, part.committed_offset, part.error_code)
                for each in row.topics
                for part in each.partitions
            ],
        )
        for row in answer.groups
    ]
    five = (topic, 0, 5, 0)
    assert found == [
        (group, 0, [five, (topic, 9, -1, 0), ("nowhere-x", 0, -1, 0)]),
        ("missing-x", 0, []),
        (group, 0, [five]),
    ]
    assert wire.ask(OffsetFetchRequest(groups=[]), version).groups == []


@IS_OF_4
def test_a_group_that_does_not_exist_is_an_error(wire: Wire) -> None:
    find_coordinator(wire, "missing-x")
    assert wire.ask(DescribeGroupsRequest(["missing-x"]), 5).groups[0].error_code == 0
    (row,) = wire.ask(DescribeGroupsRequest(["missing-x"]), 6).groups
    assert (row.error_code, row.error_message, row.group_state) == (69, "Group missing-x not found.", "Dead")
    (deleted,) = wire.ask(DeleteGroupsRequest(["missing-x"]), 3).results
    assert (deleted.error_code, deleted.error_message) == (69, None)


def test_groups_are_listed_by_type(wire: Wire) -> None:
    group = _group(wire, new_topic(wire))

    def listed(states: list[str], types: list[str]) -> Any:
        answer = wire.ask(ListGroupsRequest(states, types), 5)
        assert answer.error_code == 0
        return [(each.group_state, each.group_type) for each in answer.groups if each.group_id == group]

    found = [("Empty", "classic")]
    assert listed([], []) == listed([], ["Classic"]) == listed(["empty"], ["share", "classic"]) == found
    assert listed([], ["consumer"]) == listed([], ["nope"]) == listed(["nope"], []) == listed(["Stable"], []) == []


def test_a_member_joins_and_leaves_with_a_reason(wire: Wire) -> None:
    group = f"reason-{time.monotonic_ns()}"
    find_coordinator(wire, group)
    request = join_request(group)
    request.reason = "it starts"
    first = wire.ask(request, 8)
    assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
    request.member_id = first.member_id
    joined = wire.ask(request, 8)
    assert (joined.error_code, joined.leader, len(joined.members)) == (0, first.member_id, 1)
    left = wire.ask(LeaveGroupRequest(group, members=[MemberIdentity(first.member_id, None, "it ends")]), 5)
    assert [(each.member_id, each.error_code) for each in left.members] == [(first.member_id, 0)]


@IS_OF_4
def test_a_client_names_the_broker_that_it_expects(wire: Wire) -> None:
    answer = wire.ask(DescribeClusterRequest(), 0)
    (broker,) = answer.brokers

    def asked(cluster_id: str | None, node_id: int) -> int:
        return int(wire.ask(ApiVersionsRequest("a", "1", cluster_id, node_id), 5).error_code)

    assert asked(None, -1) == asked(answer.cluster_id, broker.broker_id) == 0
    rebootstrap = int(ErrorCode.REBOOTSTRAP_REQUIRED)
    assert asked(answer.cluster_id, 99) == asked("another", broker.broker_id) == rebootstrap
    assert asked(None, 99) == asked("another", -1) == asked("", -1) == ErrorCode.INVALID_REQUEST


def test_log_directories_have_sizes(wire: Wire) -> None:
    topic, _ = new_topic(wire), new_topic(wire)
    (row,) = wire.ask(DescribeLogDirsRequest([DescribableLogDirTopic(topic, [0])]), 4).results
    assert [each.name for each in row.topics] == [topic]
    assert 0 < row.usable_bytes < row.total_bytes
    assert wire.ask(DescribeLogDirsRequest([]), 4).results[0].topics == []


@IS_OF_4
def test_no_log_directory_is_cordoned(wire: Wire) -> None:
    assert [each.is_cordoned for each in wire.ask(DescribeLogDirsRequest([]), 5).results] == [False]
