"""Transactional ids, on a running broker."""

import pytest

from kafkapy.clients import topics, transactions
from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.errors import RequestFailedError
from kafkapy.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)


def begin(client: ClusterClient, transactional_id: str, topic: str) -> tuple[int, int]:
    """A producer with an open transaction: its id and epoch."""
    topics.create_topic(client, topic, configs={})
    producer = transactions.abort(client, transactional_id, 60_000)
    add_partition(client, transactional_id, producer, topic)
    return producer


def add_partition(client: ClusterClient, transactional_id: str, producer: tuple[int, int], topic: str) -> None:
    """Add partition 0 of a topic to a producer's transaction."""
    request = AddPartitionsToTxnRequest([], transactional_id, *producer, [AddPartitionsToTxnTopic(topic, [0])])
    answer = client.transaction_coordinator(transactional_id).call(request, AddPartitionsToTxnResponse, at_most=3)
    assert answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0


def test_an_open_transaction_is_aborted(client: ClusterClient) -> None:
    producer_id, epoch = begin(client, "etl", "written")
    assert transactions.abort(client, "etl", 60_000) == (producer_id, epoch + 2)


def test_a_refusal_names_the_transactional_id(client: ClusterClient) -> None:
    with pytest.raises(RequestFailedError, match=r"transactional id etl: .*INVALID_TRANSACTION_TIMEOUT"):
        transactions.abort(client, "etl", 0)
