import asyncio

import pytest

from kafkapy.metadata.errors import NotEnoughReplicasError, UnknownTopicOrPartitionError
from kafkapy.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kafkapy.server.handlers import write_txn_markers
from kafkapy.turns import finish
from tests.coordinator.transaction.world import OTHER, markers
from tests.coordinator.world import TP
from tests.server.handlers.transactions_context import TransactionAsker

Answer = tuple[int, dict[str, dict[int, int]]]


def marker(producer_id: int, *indexes: int, commit: bool = True) -> WritableTxnMarker:
    return WritableTxnMarker(producer_id, 2, commit, [WritableTxnMarkerTopic("t", list(indexes))], 5)


def answers(response: WriteTxnMarkersResponse) -> list[Answer]:
    return [
        (
            each.producer_id,
            {topic.name: {p.partition_index: p.error_code for p in topic.partitions} for topic in each.topics},
        )
        for each in response.markers
    ]


def test_markers_are_written() -> None:
    asker = TransactionAsker()
    request = WriteTxnMarkersRequest([marker(7, 0, 1), marker(8, 0, commit=False), marker(7, 0)])
    assert answers(asker.ask(write_txn_markers, request, 0)) == [
        (7, {"t": {0: 0, 1: 0}}),
        (8, {"t": {0: 0}}),
    ]
    assert markers(asker.transactions.broker.log(TP)) == [(1, 7, 2, 5), (0, 8, 2, 5), (1, 7, 2, 5)]
    assert markers(asker.transactions.broker.log(OTHER)) == [(1, 7, 2, 5)]


def test_a_partition_that_is_named_twice_gets_one_marker() -> None:
    asker = TransactionAsker()
    request = WriteTxnMarkersRequest([marker(7, 0, 0)])
    request.markers[0].topics.append(WritableTxnMarkerTopic("t", [0]))
    assert answers(asker.ask(write_txn_markers, request, 0)) == [(7, {"t": {0: 0}})]
    assert markers(asker.transactions.broker.log(TP)) == [(1, 7, 2, 5)]


def test_each_partition_has_its_own_error() -> None:
    asker = TransactionAsker()
    asker.transactions.broker.errors[OTHER] = NotEnoughReplicasError()
    request = WriteTxnMarkersRequest([marker(7, 0, 1)])
    assert answers(asker.ask(write_txn_markers, request, 0)) == [(7, {"t": {0: 0, 1: 19}})]


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (WriteTxnMarkersRequest([]), []),
        (WriteTxnMarkersRequest([WritableTxnMarker(7)]), []),
        (WriteTxnMarkersRequest([marker(-1, 1)]), [(-1, {"t": {1: 3}})]),
    ],
)
def test_markers_that_no_partition_takes_are_not_written(
    request_: WriteTxnMarkersRequest, expected: list[Answer]
) -> None:
    asker = TransactionAsker()
    asker.transactions.broker.absent[OTHER] = UnknownTopicOrPartitionError("")
    assert answers(asker.ask(write_txn_markers, request_, 0)) == expected


@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, 2), (8, -1)])
def test_a_marker_without_a_producer_fails_the_request_after_earlier_markers_are_written(
    producer_id: int, epoch: int
) -> None:
    asker = TransactionAsker()
    wrong = marker(producer_id, 0, 9)
    wrong.producer_epoch = epoch
    request = WriteTxnMarkersRequest([marker(7, 0), wrong, marker(9, 0), WritableTxnMarker(10), marker(7, 9)])
    assert answers(asker.ask(write_txn_markers, request, 0)) == [
        (7, {"t": {9: -1}}),
        (producer_id, {"t": {0: -1, 9: -1}}),
        (9, {"t": {0: -1}}),
        (10, {}),
    ]
    assert markers(asker.transactions.broker.log(TP)) == [(1, 7, 2, 5)]


@pytest.mark.parametrize("is_gone", [False, True])
def test_the_answer_waits_for_the_last_one(is_gone: bool) -> None:
    async def scenario() -> None:
        asker = TransactionAsker()
        broker = asker.transactions.broker
        broker.slow.add(OTHER)
        steps = write_txn_markers.handle(asker.context(0), WriteTxnMarkersRequest([marker(7, 0, 1)]))
        response = finish(steps)
        assert not isinstance(response, WriteTxnMarkersResponse)
        waiting = asyncio.ensure_future(response)
        await asyncio.sleep(0)
        assert not waiting.done()
        if is_gone:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        broker.acknowledge()
        if not is_gone:
            assert answers(await waiting) == [(7, {"t": {0: 0, 1: 0}})]

    asyncio.run(scenario())
