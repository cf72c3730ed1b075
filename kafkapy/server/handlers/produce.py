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
from functools import lru_cache, partial
from itertools import islice
from struct import Struct
from typing import Final

from kafkapy.errors import BrokerError
from kafkapy.metadata.errors import InvalidRequiredAcksError, InvalidTopicError, TransactionalIdAuthorizationFailedError
from kafkapy.metadata.topic_rules import INTERNAL_TOPICS
from kafkapy.network.errors import RefusedError, UnansweredFailureError
from kafkapy.platform.disk_errors import as_storage_error
from kafkapy.platform.errors import KafkaStorageError
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.message import Message, Records
from kafkapy.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kafkapy.records.batch import (
    HEADER_SIZE,
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
from kafkapy.replication.partition import ALL_IN_SYNC, Partition
from kafkapy.replication.replica_manager import PendingAck, ReplicaManager
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.server.dispatch.encoding import ResponseTemplate
from kafkapy.server.dispatch.forms import RECORDS, Pattern
from kafkapy.server.handlers.shared.partition_rows import ROWS_IN_A_STEP
from kafkapy.storage.errors import UnrecalledBatchError
from kafkapy.storage.log.log import Log
from kafkapy.turns import Steps, turns
from kafkapy.types import NO_OFFSET, TopicPartition, topic_partition_of

NO_ACKS: Final = 0
VALID_ACKS: Final = (-1, 0, 1)
FIRST_VERSION_OF_STORAGE_ERROR: Final = 4
"""Older clients would not retry after KAFKA_STORAGE_ERROR: they get NOT_LEADER_OR_FOLLOWER and look for a leader."""
FIRST_VERSION_WITH_LOG_START: Final = 5
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
LONG_WORK: Final = (LargeBatchError, UnrecalledBatchError)
"""The errors of an append that has to be tried again after work that takes long."""
_SMALLEST_PARSED_SIZE: Final = 51
"""Bytes of a batch of format 2 that Kafka reads while it parses the request: up to the producer's id."""
_BATCH: Final = Struct(">8xi4xb4xh")
"""Length, magic and attributes of a batch of format 2."""
_NO_BATCH: Final = (0, 0, 0)
_KNOWN_TOPICS: Final = 1024
MOST_NAMED_FAILURES: Final = 10

IS_PIPELINED: Final = True
"""See ``dispatch.Route``: the records are in the log when the handler returns, so the next ones come behind them."""

Answer = Message | asyncio.Future[Message] | None
LongWorkError = LargeBatchError | UnrecalledBatchError


def handle(context: RequestContext, request: ProduceRequest) -> Steps[Answer]:
    """See the card; a step is a partition. Each is appended to once, the last batch, as in Kafka."""
    batches, all_plain, any_transactional = yield from examine(request)
    appends = _Appends(context, request, all_plain=all_plain, any_transactional=any_transactional)
    for topic_partition, records in batches.items():
        if appends.count:
            yield
        try:
            row = appends.append(topic_partition, records)
        except LONG_WORK as error:
            row = yield from appends.append_in_steps(topic_partition, records, error.with_traceback(None))
        appends.rows.append((topic_partition, row))
    return appends.answer(request.timeout_ms)


def examine(request: ProduceRequest) -> Steps[tuple[dict[TopicPartition, memoryview], bool, bool]]:
    """Return the records of each partition, before anything is appended.

    And whether all are just one batch of format 2 each, and whether any batch is transactional.

    Raises:
        RefusedError: records don't begin with a whole batch; it ends the connection, as Kafka fails to parse such a
            request.
    """
    batches: dict[TopicPartition, memoryview] = {}
    all_plain, any_transactional = True, False
    for topic in request.topic_data:
        name = topic.name
        for partition in topic.partition_data:
            records: memoryview | None = partition.records  # type: ignore[assignment]  # as it was read
            if records is None:
                raise RefusedError(f"records of {name}-{partition.index} are null")
            size = len(records)
            length, magic, attributes = _BATCH.unpack_from(records) if size >= HEADER_SIZE else _NO_BATCH
            if length + LOG_OVERHEAD != size or magic != MAGIC:
                all_plain = False
                _refuse_unparsable(name, partition.index, records)
            if attributes & TRANSACTIONAL_BIT and magic == MAGIC:
                any_transactional = True
            batches[topic_partition_of((name, partition.index))] = records
            if len(batches) % ROWS_IN_A_STEP == 0:
                yield
    return batches, all_plain, any_transactional


class _Appends:
    """The appends of one request: the answers so far, and those that wait for other replicas."""

    __slots__ = (
        "context", "replicas", "version", "acks", "all_plain", "refusal", "rows", "waiting", "unacknowledged",
        "count", "failures", "faults_left",
    )  # fmt: skip

    def __init__(
        self, context: RequestContext, request: ProduceRequest, *, all_plain: bool, any_transactional: bool
    ) -> None:
        self.context = context
        self.replicas: ReplicaManager = context.services.replica_manager
        self.version = context.header.api_version
        self.acks = request.acks
        self.all_plain = all_plain and self.version >= FIRST_VERSION_OF_ZSTD
        """Whether each partition's records are just one batch of format 2, of a codec that the version knows."""
        self.refusal: BrokerError | None = None
        """The error of all partitions."""
        if any_transactional and request.transactional_id is None:
            self.refusal = TransactionalIdAuthorizationFailedError("transactional records without an id")
        elif request.acks not in VALID_ACKS:
            self.refusal = InvalidRequiredAcksError(f"acks {request.acks} is none of -1, 0, 1")
        self.rows: list[tuple[TopicPartition, PartitionProduceResponse]] = []
        """The answers; topics without partitions are not answered."""
        self.waiting: list[PendingAck] = []
        self.unacknowledged: list[PartitionProduceResponse] = []
        """The answers of ``waiting``, in its order."""
        self.count = self.failures = 0
        self.faults_left = MAX_LISTED_FAULTS
        """Records at fault that the response may still name: a small request can have them in very many partitions."""

    def append(
        self, topic_partition: TopicPartition, records: memoryview, checked: CheckedBatch | None = None
    ) -> PartitionProduceResponse:
        """Append one partition's batch, or the result of its validation.

        Raises the errors of ``LONG_WORK`` for one that ``append_in_steps`` has to append.
        """
        self.count += 1
        log_start_offset = NO_OFFSET
        try:
            partition = self._partition_for(topic_partition, records)
            log = partition.log
            log_start_offset = log.log_start_offset  # for the answer if the log itself refuses the batch
            result = self.replicas.append_to(partition, checked or records, required_acks=self.acks)
        except BrokerError as error:
            return self._refused(topic_partition, error, log_start_offset)
        first_offset, last_offset, _, append_time_ms, log_start_offset, _, _ = result
        row = PartitionProduceResponse(topic_partition[1], 0, first_offset, append_time_ms, log_start_offset)
        is_owing = log.durability.is_owing
        if self.acks != NO_ACKS and (is_owing or (self.acks == ALL_IN_SYNC and partition.remotes)):
            # the other replicas, or the disk, may have the records already
            awaited = PendingAck(topic_partition, last_offset + 1, self.acks)
            if not self.replicas.is_acknowledged(awaited):
                self.waiting.append(awaited)
                self.unacknowledged.append(row)
        return row

    def _partition_for(self, topic_partition: TopicPartition, records: memoryview) -> Partition:
        """Return the partition to append to; raise the error for records that must not be, in Kafka's order."""
        refusal = self.refusal
        if refusal is not None and isinstance(refusal, TransactionalIdAuthorizationFailedError):
            raise refusal
        partition = self.replicas.partitions.get(topic_partition) or self.replicas.partition(topic_partition)
        if not self.all_plain:
            check_produce_version(records, self.version)
        if refusal is not None:
            raise refusal
        if topic_partition[0] in INTERNAL_TOPICS and self.context.header.client_id != ADMIN_CLIENT:
            raise InvalidTopicError(f"clients can't write to {topic_partition[0]}")
        return partition

    def append_in_steps(
        self, topic_partition: TopicPartition, records: memoryview, reason: LongWorkError
    ) -> Steps[PartitionProduceResponse]:
        """Do the long work for which an append of one partition's batch failed, then append it."""
        partition = self.replicas.partitions.get(topic_partition)
        if partition is None:
            return self.append(topic_partition, records)
        validations = 0
        while True:
            log = partition.log  # another one if the partition was moved to another data directory before this append
            if isinstance(reason, UnrecalledBatchError):
                checked = yield from _recalled(log, reason.checked)
            else:
                validations += 1
                checked = yield from self._validated(log, records, validations)
            if isinstance(checked, BrokerError):
                return self._refused(topic_partition, checked, log.log_start_offset)
            try:
                return self.append(topic_partition, records, checked)
            except LONG_WORK as again:  # also because another append took its offsets, which are compressed
                reason = again.with_traceback(None)  # the traceback would be a cycle

    def _validated(self, log: Log, records: memoryview, validations: int) -> Steps[CheckedBatch | BrokerError]:
        """Validate a batch on the compute thread, or on the event loop if the thread has failed too often.

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

    def _refused(
        self, topic_partition: TopicPartition, error: BrokerError, log_start_offset: int
    ) -> PartitionProduceResponse:
        """Return the answer for a partition whose batch was refused; it names rejected records (KIP-467)."""
        self.failures += 1
        if isinstance(error, RecordsError) or error is self.refusal:
            self.context.log_refusal(f"records for {topic_partition}", error)
        row = PartitionProduceResponse(topic_partition.partition, error.error_code, NO_OFFSET)
        if error.error_code not in WITHOUT_LOG_START:
            row.log_start_offset = log_start_offset
        if isinstance(error, InvalidRecordError | InvalidTimestampError) and error.record_errors:
            row.error_message = str(error)
            row.record_errors = [
                BatchIndexAndErrorMessage(at, message) for at, message in error.record_errors[: self.faults_left]
            ]
            self.faults_left -= len(row.record_errors)
        if error.error_code == ErrorCode.KAFKA_STORAGE_ERROR and self.version < FIRST_VERSION_OF_STORAGE_ERROR:
            row.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return row

    def answer(self, timeout_ms: int) -> Answer:
        """Answer the request, when all that waits is acknowledged, or after ``timeout_ms``."""
        if self.acks == NO_ACKS:
            if self.failures:
                raise UnansweredFailureError(f"a produce request with acks=0 failed: {self._failure_text()}")
            return None
        if not self.waiting:
            return self._response()
        return self.replicas.when_acknowledged(self.waiting, timeout_ms, self._acknowledged)

    def _acknowledged(self, errors: list[BrokerError | None]) -> Message:
        for row, error in zip(self.unacknowledged, errors, strict=True):
            if error is not None:
                row.error_code = error.error_code
        return self._response()

    def _response(self) -> Message:
        if self.count == 1 and self.version >= FIRST_VERSION_WITH_LOG_START:  # as nearly all of a producer's requests
            (((topic, index), row),) = self.rows
            if not row.error_code:
                template = _of_one_partition(self.version, topic)
                return template.filled(index, row.base_offset, row.log_append_time_ms, row.log_start_offset)
        rows: dict[str, list[PartitionProduceResponse]] = {}
        for (topic, _), row in self.rows:
            rows.setdefault(topic, []).append(row)
        return ProduceResponse([TopicProduceResponse(topic, partition_responses=each) for topic, each in rows.items()])

    def _failure_text(self) -> str:
        failures = (f"{each} error {row.error_code}" for each, row in self.rows if row.error_code)
        return ", ".join(islice(failures, MOST_NAMED_FAILURES))


@lru_cache(maxsize=_KNOWN_TOPICS)
def _of_one_partition(version: int, topic: str) -> ResponseTemplate:
    """The response for a batch of one partition that was appended."""

    def make(index: int, base_offset: int, append_time_ms: int, log_start_offset: int) -> ProduceResponse:
        row = PartitionProduceResponse(index, 0, base_offset, append_time_ms, log_start_offset)
        return ProduceResponse([TopicProduceResponse(topic, partition_responses=[row])])

    return ResponseTemplate(make, "iqqq", version)


def _refuse_unparsable(topic: str, index: int, records: memoryview) -> None:
    try:
        size = measure(records)
    except CorruptRecordError as error:
        raise RefusedError(f"records of {topic}-{index} are no batch: {error}") from error
    if size is None or (records[MAGIC_OFFSET] == MAGIC and size < _SMALLEST_PARSED_SIZE):
        raise RefusedError(f"records of {topic}-{index} hold no whole batch")


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


def _formats(_: RequestContext, request: ProduceRequest) -> str | None:
    topics = request.topic_data
    is_of_one_partition = len(topics) == 1 and len(topics[0].partition_data) == 1
    return f"i{RECORDS}" if is_of_one_partition else None


def _vary(request: ProduceRequest, integers: tuple[int, ...], records: Records | None) -> ProduceRequest:
    topic = TopicProduceData(request.topic_data[0].name, partition_data=[PartitionProduceData(integers[0], records)])
    return ProduceRequest(request.transactional_id, request.acks, request.timeout_ms, [topic])


PATTERN: Final = Pattern(_formats, _vary)
"""A producer writes to the partitions of one topic, batch after batch."""
