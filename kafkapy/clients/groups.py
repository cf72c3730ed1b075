"""Consumer groups: list, describe, delete, and their committed offsets."""

from collections.abc import Mapping
from typing import Final

from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.errors import RequestFailedError, check
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.consumer_protocol import ConsumerProtocolAssignment
from kafkapy.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kafkapy.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from kafkapy.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kafkapy.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kafkapy.protocol.primitives import ProtocolError, Reader

DEAD: Final = "Dead"
NO_MEMBERS: Final = frozenset({"Empty", DEAD})
Place = tuple[str, int]
"""Topic and partition."""


def list_groups(client: ClusterClient) -> list[ListedGroup]:
    """The groups of all brokers, by id."""
    found = []
    for node_id in client.node_ids():
        answer = client.node(node_id).call(ListGroupsRequest(), ListGroupsResponse)
        check(answer.error_code, what=f"broker {node_id}")
        found += answer.groups
    return sorted(found, key=lambda group: group.group_id)


def describe_group(client: ClusterClient, group_id: str) -> DescribedGroup:
    """A group's state and members; an unknown group is in the state Dead."""

    def attempt() -> DescribedGroup:
        answer = client.coordinator(group_id).call(DescribeGroupsRequest([group_id]), DescribeGroupsResponse)
        (found,) = answer.groups
        if found.error_code == ErrorCode.GROUP_ID_NOT_FOUND:  # from version 6 on (KIP-1043)
            found.group_state = DEAD
        else:
            check(found.error_code, what=f"group {group_id}")
        return found

    return client.retrying(attempt)


def assigned(member_assignment: bytes) -> list[Place]:
    """The partitions in an assignment of the consumer protocol; empty for another protocol's."""
    try:
        reader = Reader(member_assignment)
        version = reader.read_int16()
        assignment = ConsumerProtocolAssignment.read(reader, min(version, 3))
    except ProtocolError:
        return []
    return sorted((topic.topic, index) for topic in assignment.assigned_partitions for index in topic.partitions)


def committed(client: ClusterClient, group_id: str) -> dict[Place, int]:
    """The committed offset of each partition that has one."""

    def attempt() -> dict[Place, int]:
        answer = client.coordinator(group_id).call(OffsetFetchRequest(group_id, None), OffsetFetchResponse)
        check(answer.error_code, what=f"group {group_id}")
        return {
            (topic.name, partition.partition_index): partition.committed_offset
            for topic in answer.topics
            for partition in topic.partitions
            if partition.committed_offset >= 0
        }

    return client.retrying(attempt)


def commit(client: ClusterClient, group_id: str, offsets: Mapping[Place, int]) -> None:
    """Set a group's offsets from outside; raises RequestFailedError, also if the group has members."""
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, index), offset in offsets.items():
        topics.setdefault(topic, []).append(OffsetCommitRequestPartition(index, offset, committed_metadata=""))
    request = OffsetCommitRequest(
        group_id, topics=[OffsetCommitRequestTopic(topic, partitions=rows) for topic, rows in topics.items()]
    )

    def attempt() -> None:
        answer = client.coordinator(group_id).call(request, OffsetCommitResponse)
        for topic in answer.topics:
            for partition in topic.partitions:
                check(partition.error_code, what=f"group {group_id}, {topic.name}-{partition.partition_index}")

    client.retrying(attempt)


def delete_group(client: ClusterClient, group_id: str) -> None:
    """Delete a group without members and its offsets; raises RequestFailedError."""

    def attempt() -> None:
        answer = client.coordinator(group_id).call(DeleteGroupsRequest([group_id]), DeleteGroupsResponse)
        check(answer.results[0].error_code, what=f"group {group_id}")

    client.retrying(attempt)


def require_no_members(client: ClusterClient, group_id: str) -> None:
    """Raise RequestFailedError (NON_EMPTY_GROUP) if the group has members."""
    state = describe_group(client, group_id).group_state
    if state not in NO_MEMBERS:
        message = f"its members must stop first, it is {state}"
        raise RequestFailedError(ErrorCode.NON_EMPTY_GROUP, message, what=f"group {group_id}")
