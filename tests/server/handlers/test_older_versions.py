from types import SimpleNamespace
from typing import Any

import pytest

from kafkapy.coordinator.group.settings import GroupSettings
from kafkapy.protocol.errors import ErrorCode
from kafkapy.server.handlers.shared.older_versions import fencing_code, refuses_static_member
from tests.coordinator.world import CONFIG


@pytest.mark.parametrize(
    ("version", "expected"), [(1, ErrorCode.INVALID_PRODUCER_EPOCH), (2, ErrorCode.PRODUCER_FENCED)]
)
def test_a_fenced_producer_gets_another_error_in_older_versions(version: int, expected: int) -> None:
    assert fencing_code(ErrorCode.PRODUCER_FENCED, version, 2) == expected
    assert fencing_code(ErrorCode.CONCURRENT_TRANSACTIONS, version, 2) == ErrorCode.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize(
    ("protocol", "instance_id", "expected"),
    [("2.2", "i", True), ("2.2-IV1", "", True), ("2.2", None, False), ("2.3-IV0", "i", False), ("2.7", "i", False)],
)
def test_static_members_are_refused_by_an_older_inter_broker_protocol(
    protocol: str, instance_id: str | None, expected: bool
) -> None:
    settings = GroupSettings.from_config({**CONFIG, "inter.broker.protocol.version": protocol})
    context: Any = SimpleNamespace(services=SimpleNamespace(group_coordinator=SimpleNamespace(settings=settings)))
    assert refuses_static_member(context, instance_id) == expected
