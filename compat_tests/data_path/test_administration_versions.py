"""Newer versions of what administrators and static members send: kafkapy answers as 4.4.0 does."""

import time
from collections.abc import Iterator

import pytest

from compat_tests.data_path.frames import new_topic
from compat_tests.groups.wire import Wire, find_coordinator, join_request, sync_request
from harness.process import Broker
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kafkapy.protocol.messages.describe_cluster import DescribeClusterRequest
from kafkapy.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkapy.protocol.messages.list_transactions import ListTransactionsRequest

pytestmark = pytest.mark.differs("kafka-2.7.2", reason="it has none of these versions")
IS_OF_4 = pytest.mark.differs("kafka-3.9.1", reason="the version is of 4.0 or later")
TOPIC = 2
TRANSACTION = 1


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    with Wire(broker.bootstrap) as wire:
        yield wire


def test_a_static_leader_that_restarts_keeps_the_assignment(wire: Wire) -> None:
    group = f"static-{time.monotonic_ns()}"
    find_coordinator(wire, group)
    first = wire.ask(join_request(group, group_instance_id="i"), 9)
    assert (first.error_code, first.leader, first.skip_assignment) == (0, first.member_id, False)
    parts = {first.member_id: b"part"}
    assert wire.ask(sync_request(group, 1, first.member_id, parts=parts, group_instance_id="i"), 3).error_code == 0
    older = wire.ask(join_request(group, group_instance_id="i"), 8)
    assert (older.generation_id, older.leader, older.members) == (1, first.member_id, [])
    back = wire.ask(join_request(group, group_instance_id="i"), 9)
    assert (back.generation_id, back.leader, back.skip_assignment) == (1, back.member_id, True)
    assert [each.member_id for each in back.members] == [back.member_id]
    assert wire.ask(sync_request(group, 1, back.member_id, group_instance_id="i"), 3).assignment == b"part"


def test_configurations_are_described_in_a_flexible_version(wire: Wire) -> None:
    topic = new_topic(wire)
    wanted = [
        DescribeConfigsResource(TOPIC, topic, ["retention.ms", "cleanup.policy"]),
        DescribeConfigsResource(TOPIC, topic, ["nothing"]),
        DescribeConfigsResource(TOPIC, "nowhere", None),
        DescribeConfigsResource(TOPIC, topic, None),
    ]
    request = DescribeConfigsRequest(wanted, include_synonyms=True, include_documentation=True)
    told = {version: wire.ask(request, version).results for version in (3, 4)}
    for results in told.values():
        assert [each.error_code for each in results] == [0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]
        assert {each.name: each.value for each in results[0].configs} == {
            "retention.ms": "604800000", "cleanup.policy": "delete",
        }  # fmt: skip
        assert results[1].configs == results[2].configs == []
        assert len(results[3].configs) > 20
    older, newer = (
        [[(each.name, each.value, each.config_type, each.documentation) for each in found.configs] for found in results]
        for results in told.values()
    )
    assert older == newer


def _reassign(wire: Wire, topic: str, replicas: list[int] | None, *, may_change_count: bool) -> tuple[int, str]:
    asked = [ReassignableTopic(topic, [ReassignablePartition(0, replicas)])]
    request = AlterPartitionReassignmentsRequest(10_000, may_change_count, asked)
    answer = wire.ask(request, 1)
    assert (answer.error_code, answer.allow_replication_factor_change) == (0, may_change_count)
    (row,) = answer.responses[0].partitions
    return row.error_code, row.error_message


@IS_OF_4
@pytest.mark.parametrize("may_change_count", [True, False])
def test_a_reassignment_tells_whether_it_may_change_the_number_of_replicas(
    wire: Wire, *, may_change_count: bool
) -> None:
    """One broker can't show the refusal: brokers that are not there are refused before."""
    topic = new_topic(wire)
    here = wire.ask(DescribeClusterRequest(), 0).brokers[0].broker_id
    for replicas in ([here, 99], [99], []):
        code, _ = _reassign(wire, topic, replicas, may_change_count=may_change_count)
        assert code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert _reassign(wire, topic, [here], may_change_count=may_change_count)[0] == 0
    assert _reassign(wire, topic, None, may_change_count=may_change_count)[0] == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def _listed(wire: Wire, pattern: str | None) -> tuple[int, set[str]]:
    answer = wire.ask(ListTransactionsRequest(transactional_id_pattern=pattern), 2)
    return answer.error_code, {each.transactional_id for each in answer.transaction_states}


@IS_OF_4
def test_transactions_are_listed_by_a_regular_expression(wire: Wire) -> None:
    start = f"listed-{time.monotonic_ns()}"
    ids = {f"{start}-{end}" for end in ("a", "b", "ab")}
    for each in ids:
        while True:
            found = wire.ask(FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[each]), 6)
            made = wire.ask(InitProducerIdRequest(each, 60_000), 4)
            if not found.coordinators[0].error_code and not made.error_code:
                break
            wire.has_answer(0.1)
    assert _listed(wire, f"{start}-a.?") == (0, {f"{start}-a", f"{start}-ab"})
    assert _listed(wire, f"{start}-") == (0, set())
    assert _listed(wire, "") == _listed(wire, None)
    assert ids <= _listed(wire, "")[1]
    assert _listed(wire, "(") == (ErrorCode.INVALID_REGULAR_EXPRESSION, set())
