"""Produce v0-8.

Done: acks 0, 1 and -1; many topics and partitions, each with its own error; idempotent producers; every codec; both
timestamp types; message sets of formats 0 and 1 (v0-2 take any format, later ones a batch of format 2), written as the
format of the topic's ``message.format.version``.
Transactional batches need a transactional id in the request (53 without one); as in 2.7 it is not checked with the
coordinator that the transaction is open.
With acks=0 there is no answer, and an error closes the connection, as in Kafka. The connection is also closed, before
anything is appended, when a partition's records don't begin with a whole batch.
Errors: CORRUPT_MESSAGE 2, UNKNOWN_TOPIC_OR_PARTITION 3, NOT_LEADER_OR_FOLLOWER 6, REQUEST_TIMED_OUT 7,
MESSAGE_TOO_LARGE 10, INVALID_TOPIC_EXCEPTION 17, RECORD_LIST_TOO_LARGE 18, NOT_ENOUGH_REPLICAS 19,
NOT_ENOUGH_REPLICAS_AFTER_APPEND 20, INVALID_REQUIRED_ACKS 21, INVALID_TIMESTAMP 32, UNSUPPORTED_FOR_MESSAGE_FORMAT 43,
OUT_OF_ORDER_SEQUENCE_NUMBER 45, INVALID_PRODUCER_EPOCH 47, INVALID_TXN_STATE 48,
TRANSACTIONAL_ID_AUTHORIZATION_FAILED 53, KAFKA_STORAGE_ERROR 56, UNSUPPORTED_COMPRESSION_TYPE 76, INVALID_RECORD 87.
"""

import asyncio
from functools import partial
from struct import Struct
from typing import Final

from kafkapy.errors import BrokerError
from kafkapy.metadata.errors import InvalidRequiredAcksError, InvalidTopicError, TransactionalIdAuthorizationFailedError
from kafkapy.metadata.topic_rules import INTERNAL_TOPICS
from kafkapy.network.errors import RefusedError, UnansweredFailureError
from kafkapy.network.session import Session
from kafkapy.platform.disk_errors import as_storage_error
from kafkapy.platform.errors import KafkaStorageError
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kafkapy.protocol.primitives import encode
from kafkapy.records.batch import (
    ATTRIBUTES_OFFSET,
    HEADER_SIZE,
    LENGTH_OFFSET,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_OFFSET,
    TRANSACTIONAL_BIT,
    measure,
)
from kafkapy.records.errors import CorruptRecordError, InvalidRecordError, InvalidTimestampError, RecordsError
from kafkapy.records.validate import (
    FIRST_VERSION_OF_ZSTD,
    MAX_LISTED_FAULTS,
    CheckedBatch,
    LargeBatchError,
    ProducePolicy,
    check_produce_version,
    validate_produced,
)
from kafkapy.replication.partition import ALL_IN_SYNC
from kafkapy.replication.replica_manager import PendingAck, ReplicaManager
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.server.dispatch.encoded import SIZE_AND_CORRELATION_ID
from kafkapy.server.dispatch.forms import (
    CONTENT_PLACE,
    CORRELATION_ID,
    LARGEST_FORM_SIZE,
    Form,
    keep,
    note_repeat,
)
from kafkapy.server.handlers.shared.partition_rows import ROWS_IN_A_STEP
from kafkapy.storage.errors import UnrecalledBatchError
from kafkapy.storage.log.log import AppendResult, Log
from kafkapy.turns import Steps, turns
from kafkapy.types import NO_OFFSET, TopicPartition, topic_partition_of

NO_ACKS: Final = 0
VALID_ACKS: Final = (-1, 0, 1)
WITH_ANSWER: Final = (-1, 1)
REMEMBERED_VERSIONS: Final = (7, 8)
"""The versions that producers use now, and whose records and responses ``RepeatedProduce`` knows the places of."""
ADMIN_CLIENT: Final = "__admin_client"
"""The client id that may write to internal topics, as in Kafka."""
WITHOUT_LOG_START: Final = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Errors that Kafka answers without the partition's log start offset."""
VALIDATIONS_BESIDE_THE_LOOP: Final = 3
"""Times that a batch is validated on the compute thread, again because other appends have taken its offsets."""
FIRST_VERSION_OF_STORAGE_ERROR: Final = 4
"""Older clients would not retry after KAFKA_STORAGE_ERROR: they get NOT_LEADER_OR_FOLLOWER and look for a leader."""
LONG_WORK: Final = (LargeBatchError, UnrecalledBatchError)
"""The errors of an append that has to be tried again after work that takes long."""
_SMALLEST_PARSED_SIZE: Final = 51
"""Bytes of a batch of format 2 that Kafka reads while it parses the request: up to the producer's id."""
_LENGTH: Final = Struct(">i")

IS_PIPELINED: Final = True
"""See ``dispatch.Route``: the records are in the log when the handler returns, so the next ones come behind them."""

Answer = ProduceResponse | asyncio.Future[ProduceResponse | None] | None
LongWorkError = LargeBatchError | UnrecalledBatchError


def examine(request: ProduceRequest, version: int) -> tuple[bool, bool]:
    """Tell whether each partition's records are just one batch of format 2, and whether any batch is transactional.

    Raises:
        RefusedError: records don't begin with a whole batch; it ends the connection, as Kafka fails to parse such a
            request.
    """
    all_plain = version >= FIRST_VERSION_OF_ZSTD
    any_transactional = False
    for topic in request.topic_data:
        for partition in topic.partition_data:
            records: memoryview | None = partition.records  # type: ignore[assignment]  # as it was read
            if records is None:
                raise RefusedError(f"records of {topic.name}-{partition.index} are null")
            size = len(records)
            plain = size >= HEADER_SIZE and _LENGTH.unpack_from(records, LENGTH_OFFSET)[0] + LOG_OVERHEAD == size
            if not plain or records[MAGIC_OFFSET] != MAGIC:
                all_plain = False
                _refuse_unparsable(topic.name, partition.index, records)
            if records[MAGIC_OFFSET] == MAGIC and records[ATTRIBUTES_OFFSET + 1] & TRANSACTIONAL_BIT:
                any_transactional = True
    return all_plain, any_transactional


def _refuse_unparsable(topic: str, index: int, records: memoryview) -> None:
    try:
        size = measure(records)
    except CorruptRecordError as error:
        raise RefusedError(f"records of {topic}-{index} are no batch: {error}") from error
    if size is None or (records[MAGIC_OFFSET] == MAGIC and size < _SMALLEST_PARSED_SIZE):
        raise RefusedError(f"records of {topic}-{index} hold no whole batch")


class _Append:
    """The appends of one request: the answers so far, and those that wait for other replicas."""

    __slots__ = (
        "context", "replicas", "version", "acks", "may_write_internal", "all_plain", "refusal", "waiting", "answers",
        "count", "failures", "faults_left",
    )  # fmt: skip

    def __init__(self, context: RequestContext, request: ProduceRequest) -> None:
        self.context = context
        self.replicas: ReplicaManager = context.services.replica_manager
        self.version = context.header.api_version
        self.acks = request.acks
        self.may_write_internal = context.header.client_id == ADMIN_CLIENT
        self.refusal: BrokerError | None = None
        self.all_plain, any_transactional = examine(request, self.version)
        if any_transactional and request.transactional_id is None:
            self.refusal = TransactionalIdAuthorizationFailedError("transactional records without an id")
        elif request.acks not in VALID_ACKS:
            self.refusal = InvalidRequiredAcksError(f"acks {request.acks} is none of -1, 0, 1")
        self.waiting: list[PendingAck] = []
        self.answers: list[PartitionProduceResponse] = []
        self.count = self.failures = 0
        self.faults_left = MAX_LISTED_FAULTS
        """Records at fault that the response may still name: a small request can have them in very many partitions."""

    def append_in_steps(
        self, topic: str, index: int, records: memoryview, reason: LongWorkError
    ) -> Steps[PartitionProduceResponse]:
        """Do the long work for which an append of one partition's batch failed, then append it."""
        partition = self.replicas.partitions.get(TopicPartition(topic, index))
        if partition is None:
            return self.append(topic, index, records)
        validations = 0
        while True:
            log = partition.log  # another one if the partition has moved to another data directory meanwhile
            if isinstance(reason, UnrecalledBatchError):
                checked = yield from _recalled(log, reason.checked)
            else:
                validations += 1
                checked = yield from self._validated(log, records, validations)
            if isinstance(checked, BrokerError):
                return self.refusal_of(topic, index, checked, log.log_start_offset)
            try:
                return self.append(topic, index, records, checked)
            except LONG_WORK as again:  # also because another append took its offsets, which are compressed
                reason = again.with_traceback(None)  # the traceback would be a cycle

    def _validated(self, log: Log, records: memoryview, validations: int) -> Steps[CheckedBatch | BrokerError]:
        """Validate a batch on the compute thread, or here if that was in vain too often.

        ``validations`` counts this validation and those before it.
        """
        services = self.context.services
        check = partial(_checked, records, log.policy, services.clock.now_ms(), log.log_end_offset)
        if validations > VALIDATIONS_BESIDE_THE_LOOP:
            return check()  # the request must not wait for ever
        checking = services.compute.run(check)
        turns().wait_for(checking)
        yield
        return checking.result()

    def append(
        self,
        topic: str,
        index: int,
        records: memoryview,
        checked: CheckedBatch | None = None,
    ) -> PartitionProduceResponse:
        """Append one partition's batch, or the result of its validation.

        Raises the errors of ``LONG_WORK`` for one that ``append_in_steps`` has to append.
        """
        self.count += 1
        topic_partition = topic_partition_of((topic, index))
        log_start_offset = NO_OFFSET
        try:
            if self.refusal is not None and isinstance(self.refusal, TransactionalIdAuthorizationFailedError):
                raise self.refusal
            partition = self.replicas.partition(topic_partition)
            self._refuse(topic, records)
            log_start_offset = partition.log.log_start_offset  # for the answer if the log itself refuses the batch
            result = self.replicas.append_to(partition, checked or records, required_acks=self.acks)
        except BrokerError as error:
            return self.refusal_of(topic, index, error, log_start_offset)
        response = _appended(index, result)
        if self.acks == ALL_IN_SYNC or (partition.log.durability.is_owing and self.acks != NO_ACKS):
            self.await_acks(topic_partition, result, response)
        return response

    def await_acks(
        self, topic_partition: TopicPartition, result: AppendResult, response: PartitionProduceResponse
    ) -> None:
        """Let the answer wait for the other replicas, or the disk, unless they have the records already."""
        awaited = PendingAck(topic_partition, result.last_offset + 1, self.acks)
        if not self.replicas.is_acknowledged(awaited):
            self.waiting.append(awaited)
            self.answers.append(response)

    def refusal_of(self, topic: str, index: int, error: BrokerError, log_start_offset: int) -> PartitionProduceResponse:
        self.failures += 1
        if isinstance(error, RecordsError) or error is self.refusal:
            self.context.log_refusal(f"records for {topic}-{index}", error)
        response = failed(index, error, log_start_offset, self.faults_left)
        self.faults_left -= len(response.record_errors)
        if error.error_code == ErrorCode.KAFKA_STORAGE_ERROR and self.version < FIRST_VERSION_OF_STORAGE_ERROR:
            response.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return response

    def _refuse(self, topic: str, records: memoryview) -> None:
        """Raise the error for records that must not be appended; the checks are in Kafka's order."""
        if not self.all_plain:
            check_produce_version(records, self.version)
        if self.refusal is not None:
            raise self.refusal
        if topic in INTERNAL_TOPICS and not self.may_write_internal:
            raise InvalidTopicError(f"clients can't write to {topic}")


def _recalled(log: Log, checked: CheckedBatch) -> Steps[CheckedBatch | BrokerError]:
    """Look up the last batches of the log's producers, before ``checked`` is appended; an error is returned."""
    try:
        with as_storage_error(log, "read"):
            yield from log.recall_batches()
    except KafkaStorageError as error:
        return error.with_traceback(None)
    return checked


def _checked(records: memoryview, policy: ProducePolicy, now_ms: int, first_offset: int) -> CheckedBatch | BrokerError:
    """Validate on the compute thread. An error is returned: raised, its traceback and its future would be a cycle."""
    try:
        return CheckedBatch(validate_produced(records, policy, now_ms, first_offset=first_offset), first_offset)
    except BrokerError as error:
        return error.with_traceback(None)


def _appended(index: int, result: AppendResult) -> PartitionProduceResponse:
    return PartitionProduceResponse(index, 0, result.first_offset, result.log_append_time_ms, result.log_start_offset)


def handle(context: RequestContext, request: ProduceRequest) -> Answer | Steps[Answer]:
    """See the card; a request for several partitions takes a step for each."""
    append = _Append(context, request)
    topics = request.topic_data
    if len(topics) != 1 or len(topics[0].partition_data) != 1:
        return _append_all(append, request)
    topic, partition = topics[0].name, topics[0].partition_data[0]
    records: memoryview = partition.records  # type: ignore[assignment]  # as read
    try:
        answer = append.append(topic, partition.index, records)
    except LONG_WORK as error:
        return _append_in_steps(append, request, (topic, partition.index), records, error.with_traceback(None))
    return _answer(append, request, [TopicProduceResponse(topic, partition_responses=[answer])])


def _append_in_steps(
    append: _Append, request: ProduceRequest, named: tuple[str, int], records: memoryview, reason: LongWorkError
) -> Steps[Answer]:
    topic, index = named
    answer = yield from append.append_in_steps(topic, index, records, reason)
    return _answer(append, request, [TopicProduceResponse(topic, partition_responses=[answer])])


def _append_all(append: _Append, request: ProduceRequest) -> Steps[Answer]:
    """Append to each partition once, the last batch as in Kafka. Topics without partitions are not answered."""
    named: dict[str, dict[int, PartitionProduceData]] = {}
    for each in request.topic_data:  # as last_by_topic does; another generator took 5 % of a request for two partitions
        for start in range(0, len(each.partition_data), ROWS_IN_A_STEP):
            if named:
                yield
            piece = each.partition_data[start : start + ROWS_IN_A_STEP]
            named.setdefault(each.name, {}).update({partition.index: partition for partition in piece})
    answered: list[TopicProduceResponse] = []
    for topic, partitions in named.items():
        answers: list[PartitionProduceResponse] = []
        for index, partition in partitions.items():
            if append.count:
                yield
            records: memoryview = partition.records  # type: ignore[assignment]  # as read
            try:
                answer = append.append(topic, index, records)
            except LONG_WORK as error:
                answer = yield from append.append_in_steps(topic, index, records, error.with_traceback(None))
            answers.append(answer)
        answered.append(TopicProduceResponse(topic, partition_responses=answers))
    return _answer(append, request, answered)


def _answer(append: _Append, request: ProduceRequest, topics: list[TopicProduceResponse]) -> Answer:
    response = ProduceResponse(topics)
    if append.acks == NO_ACKS:
        if append.failures:
            raise UnansweredFailureError(_failure_text(response))
        return None
    if append.waiting:
        return _when_acknowledged(append, response, request.timeout_ms)
    return response


def _when_acknowledged(
    append: _Append, response: ProduceResponse, timeout_ms: int
) -> "asyncio.Future[ProduceResponse | None]":
    def build(errors: list[BrokerError | None]) -> ProduceResponse | None:
        for partition, error in zip(append.answers, errors, strict=True):
            if error is not None:
                partition.error_code = error.error_code
        return response

    return append.replicas.when_acknowledged(append.waiting, timeout_ms, build)


_BATCH: Final = Struct(">8xi4xb4xh")
"""Length, magic and attributes of a batch of format 2."""
_ANSWERED: Final = Struct(">qqq")
"""Base offset, append time (ms) and log start offset of a response of versions 5 to 8."""


class RepeatedProduce(Form):
    """Requests of one connection for one partition that differ in correlation id and records only.

    Nearly all requests of a producer that writes to one partition do. The response is made from the last one's bytes.
    Errors, acknowledgements to wait for and large batches are answered by ``_Append``, as in the function ``handle``.
    Saves a third of a one-record request's processor time (``bench/results/2026-11-25-repeated-produce.md``).
    """

    __slots__ = (
        "_replicas", "_topic_partition", "_acks", "_timeout_ms", "_is_transactional", "_middle", "_records_place",
        "_response", "_offset_place",
    )  # fmt: skip

    def __init__(self, context: RequestContext, request: ProduceRequest, frame: memoryview, before: int) -> None:
        """``before`` is the position of the records' size."""
        (topic,) = request.topic_data
        topic_partition = TopicPartition(topic.name, topic.partition_data[0].index)
        super().__init__(context)
        self._topic_partition = topic_partition
        self._acks = request.acks
        self._timeout_ms = request.timeout_ms
        self._is_transactional = request.transactional_id is not None
        self._replicas = context.services.replica_manager
        self._records_place = before + _LENGTH.size
        self._middle = bytes(frame[CONTENT_PLACE:before])
        self._response: bytearray | None = None  # the frame of one, made when it is needed
        self._offset_place = 0

    def match(self, frame: memoryview) -> memoryview | None:
        """Return the records, if they are one batch that needs no rule of its own."""
        place = self._records_place
        size = len(frame) - place
        if size < HEADER_SIZE:
            return None
        before = place - _LENGTH.size
        if _LENGTH.unpack_from(frame, before)[0] != size or frame[CONTENT_PLACE:before] != self._middle:
            return None
        length, magic, attributes = _BATCH.unpack_from(frame, place)
        is_plain = length + LOG_OVERHEAD == size and magic == MAGIC
        return frame[place:] if is_plain and (self._is_transactional or not attributes & TRANSACTIONAL_BIT) else None

    def handle(self, records: memoryview, frame: memoryview, session: Session) -> bytearray | Answer | Steps[Answer]:
        """Append the records; return the response's frame, or as the function ``handle``."""
        topic_partition, acks = self._topic_partition, self._acks
        partition = self._replicas.partitions.get(topic_partition)
        if partition is None:
            return handle(self.context(frame, session), self._request(records))
        log_start_offset = partition.log.log_start_offset
        try:
            result = self._replicas.append_to(partition, records, required_acks=acks)
        except (BrokerError, *LONG_WORK) as error:
            return self._beside(self.context(frame, session), records, error.with_traceback(None), log_start_offset)
        if partition.log.durability.is_owing or (acks == ALL_IN_SYNC and partition.remotes):
            return self._waiting(self.context(frame, session), records, result)
        response = self._response
        if response is None:
            response = self._make_response()
        first_offset, _, _, append_time_ms, log_start_offset, _, _ = result
        response[CORRELATION_ID] = frame[CORRELATION_ID]
        _ANSWERED.pack_into(response, self._offset_place, first_offset, append_time_ms, log_start_offset)
        return response[:]

    def _make_response(self) -> bytearray:
        topic, index = self._topic_partition
        response = ProduceResponse([TopicProduceResponse(topic, partition_responses=[PartitionProduceResponse(index)])])
        content = encode(response, self.api[1])
        self._response = bytearray(SIZE_AND_CORRELATION_ID.size) + content
        _LENGTH.pack_into(self._response, 0, len(self._response) - _LENGTH.size)
        # behind the count of topics, topic, count of partitions, index, error code
        self._offset_place = SIZE_AND_CORRELATION_ID.size + 4 + 2 + len(topic.encode()) + 4 + 4 + 2
        return self._response

    def _request(self, records: memoryview) -> ProduceRequest:
        """Return the request as it would be decoded, but for its transactional id, which only decides what fits."""
        topic, index = self._topic_partition
        data = [TopicProduceData(topic, partition_data=[PartitionProduceData(index, records)])]
        transactional_id = "" if self._is_transactional else None
        return ProduceRequest(transactional_id, self._acks, self._timeout_ms, data)

    def _beside(
        self,
        context: RequestContext,
        records: memoryview,
        error: BrokerError | LongWorkError,
        log_start_offset: int,
    ) -> Answer | Steps[Answer]:
        """Answer a batch that was refused, or that ``_Append.append_in_steps`` has to append."""
        request = self._request(records)
        append = _Append(context, request)
        topic, index = self._topic_partition
        if isinstance(error, LONG_WORK):
            return _append_in_steps(append, request, self._topic_partition, records, error)
        response = append.refusal_of(topic, index, error, log_start_offset)
        return _answer(append, request, [TopicProduceResponse(topic, partition_responses=[response])])

    def _waiting(self, context: RequestContext, records: memoryview, result: AppendResult) -> Answer:
        """Answer when the other replicas have the records, or the disk."""
        request = self._request(records)
        append = _Append(context, request)
        topic, index = self._topic_partition
        response = _appended(index, result)
        append.await_acks(self._topic_partition, result, response)
        return _answer(append, request, [TopicProduceResponse(topic, partition_responses=[response])])


def remember(context: RequestContext, request: ProduceRequest, frame: memoryview) -> None:
    """Let the next requests of the connection be compared with this one, if the one before was for the same partition.

    ``frame`` ends with the records. A connection that changes between partitions would gain nothing from a form.
    """
    topics = request.topic_data
    if (
        context.header.api_version not in REMEMBERED_VERSIONS
        or request.acks not in WITH_ANSWER
        or len(topics) != 1
        or len(topics[0].partition_data) != 1
        or topics[0].name in INTERNAL_TOPICS
    ):
        return
    (data,) = topics[0].partition_data
    records: memoryview = data.records  # type: ignore[assignment]  # as read
    before = len(frame) - len(records) - _LENGTH.size
    if before <= LARGEST_FORM_SIZE and note_repeat((topics[0].name, data.index), frame, context.session):
        keep(RepeatedProduce(context, request, frame, before), frame, context.session)


def failed(index: int, error: BrokerError, log_start_offset: int, most_faults: int) -> PartitionProduceResponse:
    """Return the answer for a partition whose batch was refused; it names rejected records (KIP-467)."""
    response = PartitionProduceResponse(index, error.error_code, NO_OFFSET)
    if error.error_code not in WITHOUT_LOG_START:
        response.log_start_offset = log_start_offset
    if isinstance(error, InvalidRecordError | InvalidTimestampError) and error.record_errors:
        response.error_message = str(error)
        response.record_errors = [
            BatchIndexAndErrorMessage(at, message) for at, message in error.record_errors[:most_faults]
        ]
    return response


def _failure_text(response: ProduceResponse) -> str:
    failures = [
        f"{topic.name}-{partition.index} error {partition.error_code}"
        for topic in response.responses
        for partition in topic.partition_responses
        if partition.error_code
    ]
    return f"a produce request with acks=0 failed: {', '.join(failures[:10])}"
