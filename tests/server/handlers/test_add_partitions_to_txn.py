import pytest

from kafkapy.coordinator.transaction.transaction import ProducerIdAndEpoch
from kafkapy.metadata.topic_rules import GROUP_METADATA_TOPIC
from kafkapy.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kafkapy.server.handlers import add_partitions_to_txn
from tests.coordinator.transaction.world import OTHER
from tests.coordinator.world import TP
from tests.server.handlers.transactions_context import TransactionAsker

Answers = dict[tuple[str, int], int]


def ask(
    asker: TransactionAsker, producer: ProducerIdAndEpoch, topics: dict[str, list[int]], version: int = 2
) -> Answers:
    request = AddPartitionsToTxnRequest(
        [], "x", *producer, [AddPartitionsToTxnTopic(*topic) for topic in topics.items()]
    )
    response = asker.ask(add_partitions_to_txn, request, version)
    return {
        (topic.name, each.partition_index): each.partition_error_code
        for topic in response.results_by_topic_v3_and_below
        for each in topic.results_by_partition
    }


@pytest.mark.parametrize("version", range(3))
def test_partitions_are_added(version: int) -> None:
    asker = TransactionAsker()
    producer = asker.transactions.producer()
    assert ask(asker, producer, {"t": [0, 1]}, version) == {("t", 0): 0, ("t", 1): 0}
    assert asker.transactions.transaction().data.partitions == (TP, OTHER)


@pytest.mark.parametrize(
    ("topics", "expected"),
    [
        ({"t": [0, 9], "u": [0]}, {("t", 0): 55, ("t", 9): 3, ("u", 0): 3}),
        ({"t": [0], GROUP_METADATA_TOPIC: [0]}, {("t", 0): 55, (GROUP_METADATA_TOPIC, 0): 29}),
    ],
)
def test_no_partition_is_added_if_one_is_refused(topics: dict[str, list[int]], expected: Answers) -> None:
    asker = TransactionAsker()
    assert ask(asker, asker.transactions.producer(), topics) == expected
    assert asker.transactions.transaction().data.partitions == ()


@pytest.mark.parametrize(("version", "code"), [(1, 47), (2, 90)])
def test_a_producer_that_was_replaced(version: int, code: int) -> None:
    asker = TransactionAsker()
    old = asker.transactions.producer()
    asker.transactions.producer()
    assert ask(asker, old, {"t": [0]}, version) == {("t", 0): code}


def test_a_request_without_partitions_is_answered_without_partitions() -> None:
    asker = TransactionAsker()
    assert ask(asker, asker.transactions.producer(), {}) == {}
