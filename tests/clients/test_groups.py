"""Groups, on a running broker."""

import pytest

from kafkapy.clients import groups, topics
from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.errors import RequestFailedError
from kafkapy.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
)
from kafkapy.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from kafkapy.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kafkapy.protocol.primitives import encode


def _join(client: ClusterClient, group: str) -> JoinGroupResponse:
    member_id = ""
    while True:
        request = JoinGroupRequest(
            group, 6000, 6000, member_id, protocol_type="consumer", protocols=[JoinGroupRequestProtocol("range", b"")]
        )
        answer = client.coordinator(group).call(request, JoinGroupResponse)
        if answer.error_code == 0:
            return answer
        member_id = answer.member_id


def test_commit_and_fetch_and_delete(client: ClusterClient) -> None:
    topics.create_topic(client, "read", partitions=2, configs={})
    groups.commit(client, "readers", {("read", 0): 3, ("read", 1): 4})
    assert groups.committed(client, "readers") == {("read", 0): 3, ("read", 1): 4}
    assert groups.describe_group(client, "readers").group_state == "Empty"
    assert "readers" in [group.group_id for group in groups.list_groups(client)]
    groups.require_no_members(client, "readers")
    groups.delete_group(client, "readers")
    assert groups.committed(client, "readers") == {}
    assert groups.describe_group(client, "readers").group_state == "Dead"
    with pytest.raises(RequestFailedError, match=r"group readers does not exist \(GROUP_ID_NOT_FOUND\)"):
        groups.delete_group(client, "readers")


def test_a_group_that_newer_brokers_do_not_know_is_dead(client: ClusterClient, monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = DescribedGroup(error_code=69, error_message="Group none not found.", group_id="none")

    class Coordinator:
        def call(self, request: DescribeGroupsRequest, response_class: object) -> DescribeGroupsResponse:
            return DescribeGroupsResponse(groups=[unknown])

    monkeypatch.setattr(client, "coordinator", lambda _: Coordinator())
    assert groups.describe_group(client, "none").group_state == "Dead"
    groups.require_no_members(client, "none")
    unknown.error_code = 30
    with pytest.raises(RequestFailedError, match="GROUP_AUTHORIZATION_FAILED"):
        groups.describe_group(client, "none")


def test_a_group_with_members_is_refused(client: ClusterClient) -> None:
    joined = _join(client, "busy")
    assert [member.member_id for member in groups.describe_group(client, "busy").members] == [joined.member_id]
    with pytest.raises(RequestFailedError, match=r"group busy: its members must stop first.*NON_EMPTY_GROUP"):
        groups.require_no_members(client, "busy")
    with pytest.raises(RequestFailedError, match="NON_EMPTY_GROUP"):
        groups.delete_group(client, "busy")
    topics.create_topic(client, "busy-topic", configs={})
    with pytest.raises(RequestFailedError, match="group busy, busy-topic-0: "):
        groups.commit(client, "busy", {("busy-topic", 0): 1})


def test_an_invalid_assignment_has_no_partitions() -> None:
    partitions = [
        ConsumerProtocolAssignmentTopicPartition("b", [1, 0]),
        ConsumerProtocolAssignmentTopicPartition("a", [2]),
    ]
    encoded = b"\0\0" + encode(ConsumerProtocolAssignment(partitions), 0)
    assert groups.assigned(encoded) == [("a", 2), ("b", 0), ("b", 1)]
    assert groups.assigned(b"") == []
    assert groups.assigned(b"not of the consumer protocol") == []
