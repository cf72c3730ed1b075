"""The way of markers to the leaders of their partitions: a call for this broker's own, WriteTxnMarkers for others."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol

from kafkapy.cluster.peer import BrokerChannel, PeerUnreachableError
from kafkapy.coordinator.group.directory import Metadata
from kafkapy.coordinator.transaction.marker_writer import Ending, MarkerWriter
from kafkapy.coordinator.transaction.shard import TRANSACTION_TOPIC
from kafkapy.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kafkapy.types import TopicPartition

NO_LEADER: Final = -1
GONE: Final = -2
NETWORK_EXCEPTION: Final = 13
VERSION: Final = 0
"""Of WriteTxnMarkers, between brokers of 2.7."""

OWN_AT_ONCE: Final = 32
"""Markers of this broker's partitions that are written one after the other: about a millisecond."""
OTHERS_AT_ONCE: Final = 512
"""Markers in one request to another broker."""

OnWritten = Callable[[Mapping[TopicPartition, int]], None]


class MarkerChannel(Protocol):
    """What the sender of markers needs."""

    def leader_of(self, tp: TopicPartition) -> int:
        """The broker that leads the partition, ``NO_LEADER``, or ``GONE`` when its topic was deleted."""
        ...

    def most_at_once(self, broker_id: int) -> int:
        """How many markers ``write`` takes for the broker without holding the event loop for long."""
        ...

    def write(
        self, broker_id: int, ending: Ending, partitions: Sequence[TopicPartition], on_written: OnWritten
    ) -> None:
        """Have the markers written by the broker; ``on_written`` gets the error code of each partition."""
        ...


class BrokerMarkers:
    """The channel of a running broker."""

    def __init__(self, broker_id: int, metadata: Metadata, writer: MarkerWriter, peers: BrokerChannel) -> None:
        self._broker_id = broker_id
        self._metadata = metadata
        self._writer = writer
        self._peers = peers
        self._requests: set[asyncio.Task[None]] = set()

    def leader_of(self, tp: TopicPartition) -> int:
        """See ``MarkerChannel``. Leadership of this broker is known earlier than the cluster's metadata.

        Only metadata that shows the coordinator's own topic is whole enough to tell what has been deleted.
        """
        if self._writer.leads(tp):
            return self._broker_id
        image = self._metadata.image
        partition = image.partition(tp.topic, tp.partition)
        if partition is not None:
            return int(partition.leader)
        return GONE if TRANSACTION_TOPIC in image.topics else NO_LEADER

    def most_at_once(self, broker_id: int) -> int:
        """See ``MarkerChannel``."""
        return OWN_AT_ONCE if broker_id == self._broker_id else OTHERS_AT_ONCE

    def write(
        self, broker_id: int, ending: Ending, partitions: Sequence[TopicPartition], on_written: OnWritten
    ) -> None:
        """See ``MarkerChannel``."""
        if broker_id != self._broker_id:
            request = asyncio.get_running_loop().create_task(self._ask(broker_id, ending, partitions, on_written))
            self._requests.add(request)
            request.add_done_callback(self._requests.discard)
            return
        for tp in partitions:
            self._writer.write(tp, ending, partial(_tell, on_written, tp))

    async def _ask(
        self, broker_id: int, ending: Ending, partitions: Sequence[TopicPartition], on_written: OnWritten
    ) -> None:
        errors = dict.fromkeys(partitions, NETWORK_EXCEPTION)
        try:
            response: Any = await self._peers.send(broker_id, _request(ending, partitions), VERSION)
        except PeerUnreachableError:
            on_written(errors)
            return
        for marker in response.markers:
            for topic in marker.topics:
                for answer in topic.partitions:
                    errors[TopicPartition(topic.name, answer.partition_index)] = answer.error_code
        on_written(errors)


def _tell(on_written: OnWritten, tp: TopicPartition, error_code: int) -> None:
    on_written({tp: error_code})


def _request(ending: Ending, partitions: Sequence[TopicPartition]) -> WriteTxnMarkersRequest:
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
