"""Requests since Kafka 2.8 that describe brokers, producers, transactions and topics get equal answers.

`--target kafka-3.9.1` and `--target kafka-4.4.0` are Apache Kafka; 2.7.2 has none of these APIs.
"""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from compat_tests.data_path.frames import new_topic
from compat_tests.groups.wire import Wire
from compat_tests.transactions.talk import Talk
from harness.process import Broker
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages import describe_producers, describe_topic_partitions
from kafkapy.protocol.messages.describe_cluster import DescribeClusterRequest
from kafkapy.protocol.messages.describe_producers import DescribeProducersRequest
from kafkapy.protocol.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest
from kafkapy.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kafkapy.protocol.messages.list_client_metrics_resources import ListClientMetricsResourcesRequest
from kafkapy.protocol.messages.list_transactions import ListTransactionsRequest

pytestmark = pytest.mark.differs("kafka-2.7.2", reason="it has none of these APIs")
TOPIC, BROKER, LOGGER = 2, 4, 8
HOUR_MS = 3_600_000


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    with Wire(broker.bootstrap) as wire:
        yield wire


def test_the_cluster_is_described(wire: Wire, broker: Broker) -> None:
    answer = wire.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), 1)
    (only,) = answer.brokers
    assert (answer.error_code, answer.error_message, answer.endpoint_type) == (0, None, 1)
    assert (answer.controller_id, only.host, only.port) == (only.broker_id, "127.0.0.1", broker.port)
    assert len(answer.cluster_id) == 22
    assert answer.cluster_authorized_operations == 8096
    assert wire.ask(DescribeClusterRequest(), 0).cluster_authorized_operations == -(2**31)


@pytest.mark.parametrize(("endpoint_type", "code"), [(2, 114), (7, 115)])
def test_other_endpoints_are_refused(wire: Wire, endpoint_type: int, code: int) -> None:
    answer = wire.ask(DescribeClusterRequest(endpoint_type=endpoint_type), 1)
    assert (answer.error_code, answer.cluster_id, answer.controller_id, answer.brokers) == (code, "", -1, [])
    assert "endpoint" in answer.error_message


@pytest.mark.differs("kafka-3.9.1", reason="version 2 is of 4.0 (KIP-1073)")
def test_no_broker_is_fenced(wire: Wire) -> None:
    answer = wire.ask(DescribeClusterRequest(include_fenced_brokers=True), 2)
    assert [each.is_fenced for each in answer.brokers] == [False]


def _producers(wire: Wire, *topics: tuple[str, list[int]]) -> Any:
    asked = [describe_producers.TopicRequest(name, indexes) for name, indexes in topics]
    return wire.ask(DescribeProducersRequest(asked), 0).topics


def test_producers_and_their_transactions_are_described(wire: Wire) -> None:
    talk = Talk(wire, f"described-{time.monotonic_ns()}")
    producer = talk.producer()
    talk.begin(producer)
    assert talk.write(producer, 0, b"a", b"b") == 0
    ((row,),) = [each.partitions for each in _producers(wire, (talk.topic, [0]))]
    (found,) = row.active_producers
    assert (found.producer_id, found.producer_epoch) == producer
    assert (found.last_sequence, found.coordinator_epoch, found.current_txn_start_offset) == (1, -1, 0)
    assert found.last_timestamp > 0
    (described,) = wire.ask(DescribeTransactionsRequest([talk.name]), 0).transaction_states
    assert (described.error_code, described.transaction_state, described.transaction_timeout_ms) == (
        0,
        "Ongoing",
        60_000,
    )
    assert abs(described.transaction_start_time_ms - time.time() * 1000) < HOUR_MS
    assert (described.producer_id, described.producer_epoch) == producer
    assert [(each.topic, each.partitions) for each in described.topics] == [(talk.topic, [0])]
    talk.ended(producer)
    ended = _ended(wire, talk.name)
    assert (ended.transaction_state, ended.topics) == ("CompleteCommit", [])
    assert ended.transaction_start_time_ms == described.transaction_start_time_ms
    (after,) = _producers(wire, (talk.topic, [0]))[0].partitions[0].active_producers
    assert (after.last_sequence, after.current_txn_start_offset, after.coordinator_epoch) == (1, -1, 0)


def _ended(wire: Wire, name: str) -> Any:
    while True:
        (found,) = wire.ask(DescribeTransactionsRequest([name]), 0).transaction_states
        if found.transaction_state.startswith("Complete"):
            return found
        wire.has_answer(0.02)


def test_partitions_without_producers_are_told_as_they_are_named(wire: Wire) -> None:
    topic = new_topic(wire, 2)
    answer = _producers(wire, (topic, [1, 9, 1]), ("nowhere-x", [0]), (topic, [0]), ("", [0]))
    found = [
        [(each.partition_index, each.error_code, len(each.active_producers)) for each in row.partitions]
        for row in answer
    ]
    assert found == [[(1, 0, 0), (9, 3, 0), (1, 0, 0)], [(0, 3, 0)], [(0, 0, 0)], [(0, 17, 0)]]
    assert [row.name for row in answer] == [topic, "nowhere-x", topic, ""]
    assert answer[0].partitions[1].error_message is None
    assert answer[1].partitions[0].error_message == "This server does not host this topic-partition."


def test_unknown_transactional_ids_are_refused_one_by_one(wire: Wire) -> None:
    talk = Talk(wire, f"idle-{time.monotonic_ns()}")
    talk.producer()
    answer = wire.ask(DescribeTransactionsRequest([talk.name, "missing-x", "", talk.name]), 0).transaction_states
    found = [(each.error_code, each.transaction_state, each.transaction_start_time_ms) for each in answer]
    idle = (0, "Empty", -1)
    missing, empty = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, ErrorCode.INVALID_REQUEST
    assert found == [idle, (missing, "", 0), (empty, "", 0), idle]


def test_transactions_are_listed_by_state_producer_and_duration(wire: Wire) -> None:
    idle, open_ = Talk(wire, f"listed-{time.monotonic_ns()}"), Talk(wire, f"open-{time.monotonic_ns()}")
    idle_id, _ = idle.producer()
    producer = open_.producer()
    open_.begin(producer)
    names = {idle.name, open_.name}

    def listed(version: int = 0, *fields: Any) -> tuple[list[str], set[str]]:
        answer = wire.ask(ListTransactionsRequest(*fields), version)
        assert answer.error_code == 0
        rows = {each.transactional_id for each in answer.transaction_states}
        return sorted(answer.unknown_state_filters), rows & names

    assert listed(0, [], []) == ([], names)
    assert listed(0, ["Ongoing", "Nope", "ongoing"], []) == (["Nope", "ongoing"], {open_.name})
    assert listed(0, ["Nope"], []) == (["Nope"], set())
    assert listed(0, ["Dead", "Empty", "PrepareEpochFence"], []) == ([], {idle.name})
    assert listed(0, [], [idle_id, 10**15]) == ([], {idle.name})
    assert listed(1, [], [], 0) == ([], names)
    assert listed(1, [], [], HOUR_MS) == ([], {idle.name})  # without a start it is older than any
    open_.end(producer)


@pytest.mark.differs("kafka-3.9.1", reason="it lists client metrics alone (KIP-1142)")
def test_resources_with_configurations_are_listed(wire: Wire) -> None:
    topic = new_topic(wire)
    (broker,) = wire.ask(DescribeClusterRequest(), 0).brokers
    name = str(broker.broker_id)

    def listed(*types: int) -> Any:
        answer = wire.ask(ListClientMetricsResourcesRequest(list(types)), 1)
        assert answer.error_code == 0
        return [(each.name, each.resource_type) for each in answer.client_metrics_resources]

    everything = listed()
    assert everything[:2] == [(name, LOGGER), (name, BROKER)]
    assert (topic, TOPIC) in everything
    assert listed(TOPIC, BROKER)[0] == (name, BROKER)
    assert listed(16, 32) == []
    assert wire.ask(ListClientMetricsResourcesRequest([]), 0).client_metrics_resources == []
    assert wire.ask(ListClientMetricsResourcesRequest([TOPIC, 99]), 1).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_topics_are_described_page_by_page(wire: Wire) -> None:
    first, second = sorted([new_topic(wire, 3), new_topic(wire, 3)])

    def page(names: list[str], limit: int, cursor: tuple[str, int] | None = None) -> tuple[Any, Any]:
        topics = [describe_topic_partitions.TopicRequest(each) for each in names]
        at = None if cursor is None else Cursor(*cursor)
        answer = wire.ask(DescribeTopicPartitionsRequest(topics, limit, at), 0)
        rows = [
            (each.name, each.error_code, [row.partition_index for row in each.partitions]) for each in answer.topics
        ]
        following = answer.next_cursor
        return rows, following and (following.topic_name, following.partition_index)

    both = [second, first]
    assert page(both, 2) == ([(first, 0, [0, 1])], (first, 2))
    assert page(both, 3) == ([(first, 0, [0, 1, 2])], (second, 0))
    assert page(both, 2, (first, 2)) == ([(first, 0, [2]), (second, 0, [0])], (second, 1))
    assert page(both, 0) == page(both, -1) == page(both, 1) == ([(first, 0, [0])], (first, 1))
    assert page(both, 2000, (first, 9)) == ([(first, 0, []), (second, 0, [0, 1, 2])], None)
    named = [second, "zz-missing", "a bad name", second]
    assert page(named, 2000) == ([("a bad name", 17, []), (second, 0, [0, 1, 2]), ("zz-missing", 3, [])], None)
    assert page([second], 2000, (first, 0)) == ([(second, 42, [])], None)
    assert page(both, 2000, (first, -1)) == ([(second, 42, []), (first, 42, [])], None)
    assert page([], 4, (first, 0))[0][0] == (first, 0, [0, 1, 2])


def test_a_described_partition_has_leader_replicas_and_operations(wire: Wire) -> None:
    topic = new_topic(wire)
    (answer,) = wire.ask(DescribeTopicPartitionsRequest([describe_topic_partitions.TopicRequest(topic)]), 0).topics
    (row,) = answer.partitions
    leader = row.leader_id
    assert (row.replica_nodes, row.isr_nodes, row.offline_replicas) == ([leader], [leader], [])
    assert (row.eligible_leader_replicas, row.last_known_elr) == ([], [])
    assert (answer.is_internal, answer.topic_authorized_operations) == (False, 3576)
