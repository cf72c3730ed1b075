"""Sends transaction markers to one other broker, which leads their partitions (WriteTxnMarkers, KIP-98)."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from kafkapy.coordinator.answer import Answer
from kafkapy.coordinator.transaction.marker_writer import Ending
from kafkapy.network.peer import BrokerChannel, PeerUnreachableError
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.message import ProtocolError
from kafkapy.types import TopicPartition

if TYPE_CHECKING:
    from kafkapy.protocol.messages.write_txn_markers import WriteTxnMarkersRequest

logger = logging.getLogger(__name__)

VERSION: Final = 0
"""The version of WriteTxnMarkers between brokers of 2.7."""

MarkerErrors = Mapping[TopicPartition, int]
"""The error code of each marker; 0 if it is written."""


class MarkerChannel:
    """Sends markers to other brokers."""

    def __init__(self, peers: BrokerChannel) -> None:
        self._peers = peers
        self._requests: set[asyncio.Task[None]] = set()

    def send(self, broker_id: int, ending: Ending, partitions: Sequence[TopicPartition]) -> Answer[MarkerErrors]:
        """Let the broker write the markers; NETWORK_EXCEPTION for each partition that it does not answer."""
        answer: Answer[MarkerErrors] = Answer()
        sending = self._send(broker_id, ending, partitions, answer)
        request = asyncio.get_running_loop().create_task(sending)
        self._requests.add(request)
        request.add_done_callback(self._requests.discard)
        return answer

    async def _send(
        self, broker_id: int, ending: Ending, partitions: Sequence[TopicPartition], answer: Answer[MarkerErrors]
    ) -> None:
        errors: dict[TopicPartition, int] = dict.fromkeys(partitions, ErrorCode.NETWORK_EXCEPTION)
        try:
            response: Any = await self._peers.send(broker_id, _request(ending, partitions), VERSION)
        except (PeerUnreachableError, ProtocolError) as error:
            logger.warning("Broker %d did not answer about the markers of transactions: %s", broker_id, error)
        else:
            for marker in response.markers:
                for topic in marker.topics:
                    for result in topic.partitions:
                        errors[TopicPartition(topic.name, result.partition_index)] = result.error_code
        answer.set(errors)


def _request(ending: Ending, partitions: Sequence[TopicPartition]) -> "WriteTxnMarkersRequest":
    from kafkapy.protocol.messages.write_txn_markers import (  # a broker without others sends none
        WritableTxnMarker,
        WritableTxnMarkerTopic,
        WriteTxnMarkersRequest,
    )

    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    marker = WritableTxnMarker(
        ending.marker.producer_id,
        ending.marker.producer_epoch,
        ending.is_commit,
        [WritableTxnMarkerTopic(*each) for each in topics.items()],
        ending.marker.coordinator_epoch,
    )
    return WriteTxnMarkersRequest([marker])
