"""WriteTxnMarkers v0: a coordinator ends transactions in partitions that this broker leads.

Who asks is not checked, as in Kafka without an authorizer; the partition checks the epochs of producer and
coordinator. Offsets that a transaction committed in ``__consumer_offsets`` count, or are dropped, with its marker.
A marker of no producer, or of one without an epoch, that some partition would take fails the request, as in Apache
Kafka: markers before it are written, and the answer for each partition is UNKNOWN_SERVER_ERROR -1.
Errors, by partition: 3 (not here), 6, 19, 20, 7, 43 (an old message format), INVALID_PRODUCER_EPOCH 47,
TRANSACTION_COORDINATOR_FENCED 52, 56.
"""

import asyncio
from collections.abc import Awaitable
from functools import partial
from typing import TYPE_CHECKING

from kafkapy.coordinator.group.results import by_topic
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
from kafkapy.types import TopicPartition

if TYPE_CHECKING:
    from kafkapy.server.context import RequestContext

Errors = dict[TopicPartition, int]


class _Answers:
    """The markers that are not written yet; the answer comes with the last one."""

    def __init__(self) -> None:
        self.by_producer: dict[int, Errors] = {}
        self.waiting = 1
        """One for the loop that hands the markers out."""
        self.future: asyncio.Future[WriteTxnMarkersResponse] | None = None

    def written(self, errors: Errors, tp: TopicPartition, error_code: int) -> None:
        """A partition has its marker, or an error code."""
        errors[tp] = error_code
        self.one_less()

    def one_less(self) -> None:
        """Answer if nothing is left to wait for."""
        self.waiting -= 1
        if self.waiting == 0 and self.future is not None and not self.future.done():
            self.future.set_result(self.response())

    def response(self) -> WriteTxnMarkersResponse:
        """What was written; markers of one producer id share a line, as in Kafka."""
        return WriteTxnMarkersResponse(
            [
                WritableTxnMarkerResult(
                    producer_id,
                    [
                        WritableTxnMarkerTopicResult(
                            name, [WritableTxnMarkerPartitionResult(*each) for each in answers]
                        )
                        for name, answers in by_topic(errors).items()
                    ],
                )
                for producer_id, errors in self.by_producer.items()
            ]
        )


def handle(
    context: "RequestContext", request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse | Awaitable[WriteTxnMarkersResponse]:
    """See the card."""
    answers = _Answers()
    for marker in request.markers:
        if not _has_producer(marker) and _is_wanted(context, marker):
            return _failed(request)
        _write(context, marker, answers)
    answers.one_less()
    if answers.waiting == 0:
        return answers.response()
    answers.future = asyncio.get_running_loop().create_future()
    return answers.future


def _has_producer(marker: WritableTxnMarker) -> bool:
    return marker.producer_id >= 0 and marker.producer_epoch >= 0


def _is_wanted(context: "RequestContext", marker: WritableTxnMarker) -> bool:
    """Whether any partition would take the marker."""
    return any(
        not context.services.marker_writer.refusal(TopicPartition(topic.name, index))
        for topic in marker.topics
        for index in topic.partition_indexes
    )


def _failed(request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    """The same for all that was asked; of markers of one producer id Kafka names the last."""
    answers = _Answers()
    for marker in request.markers:
        answers.by_producer[marker.producer_id] = {
            TopicPartition(topic.name, index): ErrorCode.UNKNOWN_SERVER_ERROR
            for topic in marker.topics
            for index in topic.partition_indexes
        }
    return answers.response()


def _write(context: "RequestContext", marker: WritableTxnMarker, answers: _Answers) -> None:
    if not any(topic.partition_indexes for topic in marker.topics):
        return  # Kafka does not answer to a marker for nothing
    errors = answers.by_producer.setdefault(marker.producer_id, {})
    ending = Ending(
        Marker(marker.producer_id, marker.producer_epoch, marker.coordinator_epoch), marker.transaction_result
    )
    named = (TopicPartition(topic.name, index) for topic in marker.topics for index in topic.partition_indexes)
    for tp in dict.fromkeys(named):  # who is named twice gets one marker
        answers.waiting += 1
        context.services.marker_writer.write(tp, ending, partial(answers.written, errors, tp))
