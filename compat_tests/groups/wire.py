"""Requests of groups, as the tests here send them."""

import time
from typing import Any

from harness.wire import Wire
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafkapy.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

TIMEOUT_S = 30
BROKER_IS_NOT_THERE_YET = 38
"""INVALID_REPLICATION_FACTOR"""

__all__ = [
    "RANGE", "Wire", "answer_to_creation", "create_topic", "find_coordinator", "join_request", "sync_request",
]  # fmt: skip

RANGE = b"\x00\x00\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff"


def join_request(group_id: str, member_id: str = "", **fields: Any) -> JoinGroupRequest:
    names = fields.pop("protocols", ("range",))
    defaults: dict[str, Any] = {
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequestProtocol(name, RANGE) for name in names],
    }
    return JoinGroupRequest(group_id=group_id, member_id=member_id, **(defaults | fields))


def sync_request(group_id: str, generation_id: int, member_id: str, **fields: Any) -> SyncGroupRequest:
    parts = fields.pop("parts", {})
    assignments = [SyncGroupRequestAssignment(each, part) for each, part in parts.items()]
    return SyncGroupRequest(group_id, generation_id, member_id, assignments=assignments, **fields)


def find_coordinator(wire: Wire, group_id: str) -> Any:
    """Ask until the coordinator is there: real Kafka creates its topic on the first question."""
    while True:
        response = wire.ask(FindCoordinatorRequest(group_id), 0)
        if response.error_code != 15:
            break
        wire.has_answer(0.1)
    while wire.ask(join_request(group_id, "nobody"), 2).error_code != 25:
        wire.has_answer(0.1)  # 14 or 16: the partition is still being taken over
    return response


def answer_to_creation(wire: Wire, topic: CreatableTopic) -> int:
    """The error code; asked for again while a broker that has just started does not count itself (38)."""
    deadline_s = time.monotonic() + TIMEOUT_S
    code = BROKER_IS_NOT_THERE_YET
    while code == BROKER_IS_NOT_THERE_YET and time.monotonic() < deadline_s:
        code = int(wire.ask(CreateTopicsRequest([topic], timeout_ms=20_000), 4).topics[0].error_code)
    return code


def create_topic(wire: Wire, name: str, partitions: int = 1) -> None:
    """Ask until it is there."""
    assert answer_to_creation(wire, CreatableTopic(name, num_partitions=partitions, replication_factor=1)) in (0, 36)
    wire.has_answer(0.1)
