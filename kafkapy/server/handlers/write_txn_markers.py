"""WriteTxnMarkers v0-2: a coordinator ends transactions in partitions that this broker leads.

Not done: v2 names the transaction version, and the epoch of a marker of version 2 could be required to be a later one.

Without an authorizer the sender is not checked, as in Kafka; the partition checks the epochs of producer and
coordinator. Offsets that a transaction committed in ``__consumer_offsets`` become valid, or are dropped, with its
marker. A marker with a negative producer id or epoch that some partition would accept fails the request, as in Apache
Kafka: markers before it are written, and the answer for each partition is UNKNOWN_SERVER_ERROR -1.
Errors, by partition: UNKNOWN_TOPIC_OR_PARTITION 3 (no replica here), NOT_LEADER_OR_FOLLOWER 6, NOT_ENOUGH_REPLICAS 19,
NOT_ENOUGH_REPLICAS_AFTER_APPEND 20, REQUEST_TIMED_OUT 7, UNSUPPORTED_FOR_MESSAGE_FORMAT 43 (an old message format),
INVALID_PRODUCER_EPOCH 47, TRANSACTION_COORDINATOR_FENCED 52, KAFKA_STORAGE_ERROR 56.
"""

import asyncio
from collections.abc import Awaitable
from functools import partial
from typing import TYPE_CHECKING

from kafkapy.coordinator.transaction.marker_writer import Ending
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kafkapy.records.control import Marker
from kafkapy.server.handlers.shared.partition_rows import named_partitions, rows_by_topic
from kafkapy.turns import Steps, in_turns
from kafkapy.types import TopicPartition

if TYPE_CHECKING:
    from kafkapy.server.dispatch.context import RequestContext

Errors = dict[TopicPartition, int]


class _Answers:
    """The results of a request's markers; the request is answered after the last one."""

    def __init__(self) -> None:
        self.by_producer: dict[int, Errors] = {}
        self.waiting = 1
        """Markers that are not written yet, and one more for the loop that starts them."""
        self.future: asyncio.Future[None] | None = None

    def written(self, errors: Errors, topic_partition: TopicPartition, error_code: int) -> None:
        """Record a partition's error code; 0 if its marker is written."""
        errors[topic_partition] = error_code
        self.one_less()

    def one_less(self) -> None:
        """Count one marker as done; answer after the last one."""
        self.waiting -= 1
        if self.waiting == 0 and self.future is not None and not self.future.done():
            self.future.set_result(None)

    def response(self) -> Steps[WriteTxnMarkersResponse]:
        """Build the response; markers of one producer id share an item, as in Kafka."""
        response = WriteTxnMarkersResponse([])
        for producer_id, errors in self.by_producer.items():
            topics = yield from rows_by_topic(
                errors,
                lambda name: WritableTxnMarkerTopicResult(name, []),
                lambda topic, *answer: topic.partitions.append(WritableTxnMarkerPartitionResult(*answer)),
            )
            response.markers.append(WritableTxnMarkerResult(producer_id, topics))
            yield
        return response


def handle(
    context: "RequestContext", request: WriteTxnMarkersRequest
) -> Steps[WriteTxnMarkersResponse | Awaitable[WriteTxnMarkersResponse]]:
    """See the card; a step is a partition's marker."""
    answers = _Answers()
    for marker in request.markers:
        if not _has_producer(marker) and (yield from _is_wanted(context, marker)):
            return (yield from failed(request, ErrorCode.UNKNOWN_SERVER_ERROR))
        yield from _write(context, marker, answers)
    answers.one_less()
    if answers.waiting == 0:
        return (yield from answers.response())
    return _when_written(answers)


async def _when_written(answers: _Answers) -> WriteTxnMarkersResponse:
    answers.future = asyncio.get_running_loop().create_future()
    if answers.waiting:
        await answers.future
    return await in_turns(answers.response())


def _has_producer(marker: WritableTxnMarker) -> bool:
    return marker.producer_id >= 0 and marker.producer_epoch >= 0


def _is_wanted(context: "RequestContext", marker: WritableTxnMarker) -> Steps[bool]:
    """Whether any partition would accept the marker."""
    for topic_partition in (yield from named_partitions(marker.topics)):
        if not context.services.marker_writer.refusal(topic_partition):
            return True
        yield
    return False


def failed(request: WriteTxnMarkersRequest, error_code: int) -> Steps[WriteTxnMarkersResponse]:
    """Answer all partitions with the same error; of markers of one producer id only the last is named, as in Kafka."""
    answers = _Answers()
    for marker in {marker.producer_id: marker for marker in request.markers}.values():
        named = yield from named_partitions(marker.topics)
        answers.by_producer[marker.producer_id] = dict.fromkeys(named, error_code)
        yield
    return (yield from answers.response())


def _write(context: "RequestContext", marker: WritableTxnMarker, answers: _Answers) -> Steps[None]:
    if not any(topic.partition_indexes for topic in marker.topics):
        return  # Kafka's answer leaves out a marker without partitions
    errors = answers.by_producer.setdefault(marker.producer_id, {})
    ending = Ending(
        Marker(marker.producer_id, marker.producer_epoch, marker.coordinator_epoch), marker.transaction_result
    )
    for topic_partition in (yield from named_partitions(marker.topics)):  # one that is named twice gets one marker
        answers.waiting += 1
        answer = context.services.marker_writer.write_marker(topic_partition, ending)
        answer.on_set(partial(answers.written, errors, topic_partition))
        yield
