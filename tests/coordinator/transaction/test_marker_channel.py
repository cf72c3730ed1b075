import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from kafkapy.coordinator.transaction.marker_channel import MarkerChannel
from kafkapy.coordinator.transaction.marker_writer import Ending
from kafkapy.network.peer import PeerUnreachableError
from kafkapy.protocol.message import ProtocolError
from kafkapy.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from kafkapy.records.control import Marker
from kafkapy.types import TopicPartition
from tests.coordinator.transaction.world import ELSEWHERE, OTHER
from tests.coordinator.world import TP

ENDING = Ending(Marker(7, 2, 5), is_commit=True)
THIRD = TopicPartition("u", 0)


class Peers:
    """Another broker."""

    def __init__(self, *answers: tuple[str, int, int], failure: Exception | None = None) -> None:
        self.answers, self.failure = answers, failure
        self.requests: list[tuple[int, Any, int]] = []

    async def send(self, broker_id: int, request: Any, version: int) -> Any:
        self.requests.append((broker_id, request, version))
        if self.failure is not None:
            raise self.failure
        topics = [
            WritableTxnMarkerTopicResult(topic, [WritableTxnMarkerPartitionResult(index, code)])
            for topic, index, code in self.answers
        ]
        return WriteTxnMarkersResponse([WritableTxnMarkerResult(7, topics)])


@pytest.mark.parametrize(
    ("peers", "expected"),
    [
        (Peers(("t", 0, 0), ("t", 1, 6)), {TP: 0, OTHER: 6, THIRD: 13}),
        (Peers(failure=PeerUnreachableError("gone")), {TP: 13, OTHER: 13, THIRD: 13}),
        (Peers(failure=ProtocolError("no response")), {TP: 13, OTHER: 13, THIRD: 13}),
    ],
)
def test_markers_for_another_broker(peers: Peers, expected: dict[TopicPartition, int]) -> None:
    async def scenario() -> None:
        answers: list[Mapping[TopicPartition, int]] = []
        asking = MarkerChannel(peers)
        asking.send(ELSEWHERE, ENDING, [TP, THIRD, OTHER]).on_set(answers.append)
        await asyncio.gather(*asking._requests)
        assert answers == [expected]
        ((broker_id, request, version),) = peers.requests
        (marker,) = request.markers
        assert (broker_id, version) == (ELSEWHERE, 0)
        assert (marker.producer_id, marker.producer_epoch, marker.transaction_result) == (7, 2, True)
        assert marker.coordinator_epoch == 5
        assert [(topic.name, topic.partition_indexes) for topic in marker.topics] == [("t", [0, 1]), ("u", [0])]

    asyncio.run(scenario())


def test_requests_are_kept_until_they_are_answered() -> None:
    async def scenario() -> None:
        asking = MarkerChannel(Peers())
        asking.send(ELSEWHERE, ENDING, [TP])
        assert len(asking._requests) == 1
        await asyncio.gather(*asking._requests)
        assert asking._requests == set()

    asyncio.run(scenario())
