"""The APIs since 2.8 that describe the cluster, producers, transactions, resources and topics: bounds and rights.

What they answer to clients with all rights is in ``compat_tests/data_path/test_descriptions.py`` too.
"""

from pathlib import Path
from typing import Any

import pytest

from harness.cases.access_cases import on_id, on_topic
from harness.client import Client
from kafkapy.protocol.constants import AclOperation as Op
from kafkapy.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kafkapy.protocol.messages.describe_cluster import DescribeClusterRequest
from kafkapy.protocol.messages.describe_producers import DescribeProducersRequest
from kafkapy.protocol.messages.describe_producers import TopicRequest as ProducersOfTopic
from kafkapy.protocol.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from kafkapy.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkapy.protocol.messages.list_client_metrics_resources import ListClientMetricsResourcesRequest
from kafkapy.protocol.messages.list_transactions import ListTransactionsRequest
from kafkapy.server.handlers import describe_producers, describe_topic_partitions, describe_transactions
from tests.server.access.guarded import guarded_broker
from tests.server.harness import run, running_broker


async def _begin(client: Client, transactional_id: str, *topics: str) -> None:
    """Begin a transaction with partition 0 of each topic."""
    assert (await client.ask(FindCoordinatorRequest(transactional_id, 1), 3)).error_code == 0
    producer = await client.ask(InitProducerIdRequest(transactional_id, 60_000), 4)
    rows = [AddPartitionsToTxnTopic(topic, [0]) for topic in topics]
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=rows,
    )
    answer = await client.ask(request, 2)
    assert {
        row.partition_error_code for each in answer.results_by_topic_v3_and_below for row in each.results_by_partition
    } == {0}


def _pages(*names: str, limit: int = 2_000, cursor: Cursor | None = None) -> DescribeTopicPartitionsRequest:
    return DescribeTopicPartitionsRequest([TopicRequest(name) for name in names], limit, cursor)


def _rows(answer: Any) -> list[tuple[str, int, list[int]]]:
    return [(row.name, row.error_code, [each.partition_index for each in row.partitions]) for row in answer.topics]


def test_topics_are_paged_through_by_the_cursor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("b", 2)
            await client.create_topic("a", 3)
            answer = await client.ask(_pages(limit=4), 0)
            assert _rows(answer) == [("a", 0, [0, 1, 2]), ("b", 0, [0])]
            assert (answer.next_cursor.topic_name, answer.next_cursor.partition_index) == ("b", 1)
            rest = await client.ask(_pages(cursor=answer.next_cursor), 0)
            assert (_rows(rest), rest.next_cursor) == ([("b", 0, [1])], None)
            monkeypatch.setattr(describe_topic_partitions, "MOST_PARTITIONS", 3)
            full = await client.ask(_pages("b", "a", "b"), 0)
            assert (_rows(full), full.next_cursor.topic_name) == ([("a", 0, [0, 1, 2])], "b")
            assert _rows(await client.ask(_pages("no such name", "none"), 0)) == [
                ("no such name", 17, []),
                ("none", 3, []),
            ]
            assert _rows(await client.ask(_pages("b", cursor=Cursor("a", 0)), 0)) == [("b", 42, [])]
            assert _rows(await client.ask(_pages("b", cursor=Cursor("b", -1)), 0)) == [("b", 42, [])]

    run(scenario())


def test_responses_about_repeated_names_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            await _begin(client, "x", "t")
            monkeypatch.setattr(describe_transactions, "MOST_PARTITIONS", 2)
            answer = await client.ask(DescribeTransactionsRequest(["x", "x"]), 0)
            assert [each.transaction_state for each in answer.transaction_states] == ["Ongoing"] * 2
            other = await Client.connect(broker)
            with pytest.raises(EOFError):
                await other.ask(DescribeTransactionsRequest(["x"] * 3), 0)
            monkeypatch.setattr(describe_producers, "MOST_PRODUCERS", -1)
            with pytest.raises(EOFError):
                await client.ask(DescribeProducersRequest([ProducersOfTopic("t", [0])]), 0)

    run(scenario())


def test_clients_see_what_they_may_describe(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with guarded_broker(tmp_path) as guarded:
            for topic in ("t", "hidden"):
                await guarded.admin.create_topic(topic)
            await _begin(guarded.admin, "x", "t", "hidden")
            await _begin(guarded.admin, "y", "t")
            guarded.allow(on_topic(Op.DESCRIBE, "t"), on_id(Op.DESCRIBE, "x"))
            listed = await guarded.alice.ask(ListTransactionsRequest([], []), 0)
            assert [each.transactional_id for each in listed.transaction_states] == ["x"]
            for pattern, code, ids in (
                (".", 0, ["x"]),
                ("y|z", 0, []),
                ("", 0, ["x"]),
                ("(", 128, []),
            ):
                listed = await guarded.alice.ask(ListTransactionsRequest(transactional_id_pattern=pattern), 2)
                assert (listed.error_code, [each.transactional_id for each in listed.transaction_states]) == (code, ids)
            described = await guarded.alice.ask(DescribeTransactionsRequest(["x", "y"]), 0)
            assert [each.error_code for each in described.transaction_states] == [0, 53]
            assert [topic.topic for topic in described.transaction_states[0].topics] == ["t"]
            assert _rows(await guarded.alice.ask(_pages(), 0)) == [("t", 0, [0])]
            assert _rows(await guarded.alice.ask(_pages("hidden", "t"), 0)) == [("t", 0, [0]), ("hidden", 29, [])]
            cluster = await guarded.alice.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), 0)
            assert (cluster.cluster_authorized_operations, len(cluster.brokers)) == (0, 1)

    run(scenario())


def test_the_cluster_and_its_resources_are_described(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            for endpoint_type, code in ((2, 114), (9, 115)):
                assert (await client.ask(DescribeClusterRequest(endpoint_type=endpoint_type), 1)).error_code == code
            cluster = await client.ask(DescribeClusterRequest(), 2)
            assert [(each.broker_id, each.port) for each in cluster.brokers] == [(0, broker.listeners[0].endpoint.port)]
            assert cluster.controller_id == 0
            found = await client.ask(ListClientMetricsResourcesRequest([]), 1)
            rows = [(each.name, each.resource_type) for each in found.client_metrics_resources]
            assert rows == [("0", 8), ("0", 4), ("t", 2)]
            assert (await client.ask(ListClientMetricsResourcesRequest(), 0)).client_metrics_resources == []
            assert (await client.ask(ListClientMetricsResourcesRequest([3]), 1)).error_code == 35

    run(scenario())
