"""Produce v0-8.

Done: acks 0, 1 and -1; many topics and partitions, each with its own error; idempotent producers; batches of format 2
with every codec; both timestamp types.
Not done: v0-2 are advertised (librdkafka looks for them, KAFKA-18659) but their message sets answer
UNSUPPORTED_FOR_MESSAGE_FORMAT; transactional producers answer INVALID_TXN_STATE 48, as nobody can have begun one.
With acks=0 there is no answer; after an error the connection is closed, as in Kafka.
Errors: 2, 3, 6, 7, 10, 17, 18, 19, 20, 21, 32, 43, 45, 47, 48, 56, 76, 87.
"""

import asyncio
from typing import Final

from kafkapy.cluster.errors import InvalidRequiredAcksError, InvalidTopicError
from kafkapy.cluster.partition import ALL_IN_SYNC
from kafkapy.cluster.replica_manager import Awaited, ReplicaManager
from kafkapy.errors import BrokerError
from kafkapy.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from kafkapy.records.errors import InvalidRecordError, InvalidTimestampError
from kafkapy.records.validate import check_produce_version
from kafkapy.server.context import RequestContext
from kafkapy.server.errors import UnansweredFailureError
from kafkapy.storage.errors import InvalidTxnStateError
from kafkapy.types import TopicPartition

NO_ACKS: Final = 0
VALID_ACKS: Final = (-1, 0, 1)
INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state"})
ADMIN_CLIENT: Final = "__admin_client"
"""The client id that may write to internal topics, as in Kafka."""
_NO_OFFSET: Final = -1

Answer = ProduceResponse | asyncio.Future[ProduceResponse] | None


class _Append:
    """The appends of one request: what was answered so far, and what waits for other replicas."""

    __slots__ = ("replicas", "version", "acks", "may_write_internal", "refusal", "waiting", "answers", "failures")

    def __init__(self, context: RequestContext, request: ProduceRequest) -> None:
        self.replicas: ReplicaManager = context.services.replica_manager
        self.version = context.header.api_version
        self.acks = request.acks
        self.may_write_internal = context.header.client_id == ADMIN_CLIENT
        self.refusal: BrokerError | None = None
        if request.acks not in VALID_ACKS:
            self.refusal = InvalidRequiredAcksError(f"acks {request.acks} is none of -1, 0, 1")
        elif request.transactional_id is not None:
            self.refusal = InvalidTxnStateError("transactions are not served by this broker")
        self.waiting: list[Awaited] = []
        self.answers: list[PartitionProduceResponse] = []
        self.failures = 0

    def append(self, topic: str, index: int, records: memoryview | None) -> PartitionProduceResponse:
        """Append one partition's batch."""
        try:
            if self.refusal is not None:
                raise self.refusal
            topic_partition = TopicPartition(topic, index)
            self.replicas.partition(topic_partition)
            if topic in INTERNAL_TOPICS and not self.may_write_internal:
                raise InvalidTopicError(f"clients can't write to {topic}")
            if records is None:
                records = memoryview(b"")
            check_produce_version(records, self.version)
            result = self.replicas.append(topic_partition, records, required_acks=self.acks)
        except BrokerError as error:
            self.failures += 1
            return failed(index, error)
        response = PartitionProduceResponse(
            index, 0, result.first_offset, result.log_append_time_ms, result.log_start_offset
        )
        if self.acks == ALL_IN_SYNC:
            awaited = Awaited(topic_partition, result.last_offset + 1)
            if not self.replicas.is_acknowledged(awaited):
                self.waiting.append(awaited)
                self.answers.append(response)
        return response


def handle(context: RequestContext, request: ProduceRequest) -> Answer:
    """See the card."""
    append = _Append(context, request)
    response = ProduceResponse(
        [
            TopicProduceResponse(
                name=topic.name,
                partition_responses=[
                    append.append(topic.name, partition.index, partition.records)  # type: ignore[arg-type]  # as read
                    for partition in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )
    if request.acks == NO_ACKS:
        if append.failures:
            raise UnansweredFailureError(_failure_text(response))
        return None
    if append.waiting:
        return _when_acknowledged(append, response, request.timeout_ms)
    return response


def _when_acknowledged(
    append: _Append, response: ProduceResponse, timeout_ms: int
) -> "asyncio.Future[ProduceResponse]":
    waited = append.replicas.wait_for_acks(append.waiting, timeout_ms)
    future: asyncio.Future[ProduceResponse] = asyncio.get_running_loop().create_future()

    def answer(errors: "asyncio.Future[list[BrokerError | None]]") -> None:
        if future.done():
            return
        for partition, error in zip(append.answers, errors.result(), strict=True):
            if error is not None:
                partition.error_code = error.error_code
        future.set_result(response)

    waited.add_done_callback(answer)
    return future


def failed(index: int, error: BrokerError) -> PartitionProduceResponse:
    """Return the answer for a partition whose batch was refused; rejected records are named (KIP-467)."""
    if isinstance(error, InvalidRecordError | InvalidTimestampError):
        return PartitionProduceResponse(
            index,
            error.error_code,
            _NO_OFFSET,
            record_errors=[BatchIndexAndErrorMessage(at, message) for at, message in error.record_errors],
            error_message=str(error),
        )
    return PartitionProduceResponse(index, error.error_code, _NO_OFFSET)


def _failure_text(response: ProduceResponse) -> str:
    failures = [
        f"{topic.name}-{partition.index} error {partition.error_code}"
        for topic in response.responses
        for partition in topic.partition_responses
        if partition.error_code
    ]
    return f"a produce request with acks=0 failed: {', '.join(failures[:10])}"
