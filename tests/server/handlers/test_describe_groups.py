import pytest

from kafkapy.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember, DescribeGroupsRequest
from kafkapy.server.handlers import describe_groups
from tests.coordinator.world import RANGE, World
from tests.server.handlers.groups_context import Asker


@pytest.mark.parametrize("version", range(6))
def test_every_version(version: int) -> None:
    asker = Asker()
    member_id = asker.world.stable(instance_id="i")[0]
    response = asker.ask(describe_groups, DescribeGroupsRequest(["g", "unknown"]), version)
    instance_id = "i" if version >= 4 else None
    member = DescribedGroupMember(member_id, instance_id, "client", "/127.0.0.1", RANGE[0][1], b"part-0")
    settled, unknown = response.groups
    assert settled == DescribedGroup(
        group_id="g", group_state="Stable", protocol_type="consumer", protocol_data="range", members=[member]
    )
    assert unknown == DescribedGroup(group_id="unknown", group_state="Dead")


@pytest.mark.parametrize(("group_id", "asked", "expected"), [("g", True, 328), ("g", False, -(2**31))])
def test_authorized_operations(group_id: str, asked: bool, expected: int) -> None:
    request = DescribeGroupsRequest([group_id], include_authorized_operations=asked)
    assert Asker().ask(describe_groups, request, 3).groups[0].authorized_operations == expected


def test_a_group_of_another_coordinator_has_no_operations() -> None:
    asker = Asker()
    asker.world.coordinator.shutdown()
    (group,) = asker.ask(describe_groups, DescribeGroupsRequest(["g"], include_authorized_operations=True), 5).groups
    assert (group.error_code, group.group_state, group.authorized_operations) == (15, "", -(2**31))


def test_a_name_that_is_repeated_makes_no_response_larger_than_all_groups() -> None:
    """Apache Kafka refuses all groups in this way where the response would take more than 2^31-1 bytes."""
    asker = Asker(World(kafkapy_group_metadata_max_bytes=100_000))
    asker.world.stable(protocols=(("range", bytes(30_000)),))
    groups = asker.ask(describe_groups, DescribeGroupsRequest(["g"] * 3), 5).groups
    assert [(group.error_code, len(group.members)) for group in groups] == [(0, 1)] * 3
    groups = asker.ask(describe_groups, DescribeGroupsRequest(["g", "h"] * 4), 5).groups
    assert [(group.group_id, group.error_code, group.members) for group in groups] == [("g", -1, []), ("h", -1, [])] * 4
    groups = asker.ask(describe_groups, DescribeGroupsRequest(["h" * 200] * 1000), 5).groups
    assert {group.error_code for group in groups} == {0}


@pytest.mark.parametrize(("version", "code", "text"), [(5, 0, None), (6, 69, "Group missing not found.")])
def test_a_group_that_does_not_exist(version: int, code: int, text: str | None) -> None:
    (group,) = Asker().ask(describe_groups, DescribeGroupsRequest(["missing"]), version).groups
    assert (group.error_code, group.error_message, group.group_state) == (code, text, "Dead")
