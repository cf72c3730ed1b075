"""Produce v0-13.

Done: acks 0, 1 and -1; many topics and partitions, each with its own error; idempotent producers; every codec; both
timestamp types; message sets of formats 0 and 1 (v0-2 take any format, later ones a batch of format 2), written as the
format of the topic's ``message.format.version``.
Transactional batches need a transactional id in the request (53 without one). The coordinator has to confirm the
transaction that a batch begins in the partition (``transaction.partition.verification.enable``, KIP-890); a batch that
repeats one in the log is answered without that. From v12 on the partition is added to the transaction then, which
begins it (transaction version 2).
From v10 on an answer has the leader beside NOT_LEADER_OR_FOLLOWER (KIP-951).
From v13 on topics are named by id (KIP-516): of a topic that is gone, or replaced by another, nothing is appended.
With acks=0 there is no answer, and an error closes the connection, as in Kafka. Below v3 the connection is also closed,
before anything is appended, when a partition's records don't begin with a whole batch; later versions get an error for
the partition, as of Kafka 4 (2.7.2 closes the connection).
Errors: CORRUPT_MESSAGE 2, UNKNOWN_TOPIC_OR_PARTITION 3, NOT_LEADER_OR_FOLLOWER 6, REQUEST_TIMED_OUT 7,
MESSAGE_TOO_LARGE 10, INVALID_TOPIC_EXCEPTION 17, RECORD_LIST_TOO_LARGE 18, NOT_ENOUGH_REPLICAS 19,
NOT_ENOUGH_REPLICAS_AFTER_APPEND 20, INVALID_REQUIRED_ACKS 21, INVALID_TIMESTAMP 32, UNSUPPORTED_FOR_MESSAGE_FORMAT 43,
OUT_OF_ORDER_SEQUENCE_NUMBER 45, INVALID_PRODUCER_EPOCH 47, INVALID_TXN_STATE 48,
INVALID_PRODUCER_ID_MAPPING 49, TRANSACTIONAL_ID_AUTHORIZATION_FAILED 53, KAFKA_STORAGE_ERROR 56,
UNSUPPORTED_COMPRESSION_TYPE 76, INVALID_RECORD 87, UNKNOWN_TOPIC_ID 100, TRANSACTION_ABORTABLE 120 (below v11:
INVALID_TXN_STATE 48).
"""

import asyncio
from functools import lru_cache, partial
from struct import Struct
from typing import Final
from uuid import UUID

from kafkapy.coordinator.transaction.transaction import ProducerIdAndEpoch
from kafkapy.errors import BrokerError
from kafkapy.metadata.errors import (
    InvalidRequiredAcksError,
    InvalidTopicError,
    TransactionalIdAuthorizationFailedError,
    UnknownTopicIdError,
)
from kafkapy.metadata.topic_rules import INTERNAL_TOPICS
from kafkapy.network.errors import RefusedError, UnansweredFailureError
from kafkapy.platform.disk_errors import as_storage_error
from kafkapy.platform.errors import KafkaStorageError
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.message import ZERO_UUID, Message, Records
from kafkapy.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
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
    FIRST_VERSION_OF_BATCHES,
    FIRST_VERSION_OF_ZSTD,
    MAX_LISTED_FAULTS,
    CheckedBatch,
    LargeBatchError,
    ProducePolicy,
    check_produce_version,
    validate_produced,
)
from kafkapy.replication.partition import ALL_IN_SYNC, Partition
from kafkapy.replication.replica_manager import PendingAck
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.server.dispatch.encoding import Filled, ResponseTemplate
from kafkapy.server.dispatch.forms import RECORDS, Pattern, Vary
from kafkapy.server.handlers.shared.confirmation import (
    Confirmation,
    ConfirmationRules,
)
from kafkapy.server.handlers.shared.endpoints import CurrentLeaders
from kafkapy.server.handlers.shared.partition_rows import ROWS_IN_A_STEP
from kafkapy.storage.errors import UnrecalledBatchError, UnverifiedBatchError
from kafkapy.storage.log.log import Log
from kafkapy.turns import Steps, turns
from kafkapy.types import NO_OFFSET, NO_TIMESTAMP, TopicPartition, topic_partition_of

NO_ACKS: Final = 0
VALID_ACKS: Final = (-1, 0, 1)
FIRST_VERSION_OF_STORAGE_ERROR: Final = 4
"""Older clients would not retry after KAFKA_STORAGE_ERROR: they get NOT_LEADER_OR_FOLLOWER and look for a leader."""
FIRST_VERSION_WITH_LOG_START: Final = 5
FIRST_VERSION_WITH_LEADERS: Final = 10
FIRST_VERSION_WITH_TOPIC_IDS: Final = 13
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
LONG_WORK: Final = (LargeBatchError, UnrecalledBatchError, UnverifiedBatchError)
"""The errors of an append that has to be tried again after work that takes long."""
_CONFIRMATION: Final = ConfirmationRules(11, 12, ErrorCode.NOT_ENOUGH_REPLICAS)
_SMALLEST_PARSED_SIZE: Final = 51
"""Bytes of a batch of format 2 that Kafka reads while it parses the request: up to the producer's id."""
_BATCH: Final = Struct(">8xi4xb4xh")
"""Length, magic and attributes of a batch of format 2."""
_NO_BATCH: Final = (0, 0, 0)
_NO_RECORDS: Final = memoryview(b"")
_KNOWN_TOPICS: Final = 1024
MOST_NAMED_FAILURES: Final = 10

IS_PIPELINED: Final = True
"""See ``dispatch/routes.py``: the records are in the log when the handler returns, the next ones come behind them."""

_Row = tuple[int, int, int, int, int] | tuple[int, int, int, int, int, list[BatchIndexAndErrorMessage], str]
"""The arguments of a ``PartitionProduceResponse``; with texts only if records were rejected."""
_PLAIN_LENGTH: Final = 5

Answer = Message | asyncio.Future[Message] | None
LongWorkError = LargeBatchError | UnrecalledBatchError | UnverifiedBatchError


def handle(context: RequestContext, request: ProduceRequest) -> Answer | Steps[Answer]:
    """See the card; each partition is appended to once, the last batch, as in Kafka."""
    appends = _Appends(context, request)
    topics = request.topic_data
    if len(topics) != 1 or len(topics[0].partition_data) != 1:
        return _append_many(appends, topics)
    (data,) = topics[0].partition_data
    topic_partition = topic_partition_of((topics[0].name, data.index))
    records = appends.examine(topic_partition, data)
    try:
        appends.append(topic_partition, records)
    except LONG_WORK as error:
        return _append_long(appends, topic_partition, records, error.with_traceback(None))
    return appends.answer()


def _append_many(appends: "_Appends", topics: list[TopicProduceData]) -> Steps[Answer]:
    """Append to any number of partitions; a step is a partition. All are examined before anything is appended."""
    batches: dict[TopicPartition, memoryview] = {}
    for topic in topics:
        for data in topic.partition_data:
            topic_partition = topic_partition_of((topic.name, data.index))
            batches[topic_partition] = appends.examine(topic_partition, data)
            if len(batches) % ROWS_IN_A_STEP == 0:
                yield
    for topic_partition, records in batches.items():
        if appends.rows:
            yield
        try:
            appends.append(topic_partition, records)
        except LONG_WORK as error:
            yield from appends.append_in_steps(topic_partition, records, error.with_traceback(None))
    return appends.answer()


def _append_long(
    appends: "_Appends", topic_partition: TopicPartition, records: memoryview, reason: LongWorkError
) -> Steps[Answer]:
    yield from appends.append_in_steps(topic_partition, records, reason)
    return appends.answer()


class _Appends:
    """The appends of one request: the answers so far, and those that wait for other replicas."""

    __slots__ = ("context", "request", "topic_ids", "acks", "all_plain", "refusal", "rows", "waiting", "faults_left")

    def __init__(self, context: RequestContext, request: ProduceRequest) -> None:
        self.context = context
        self.request = request
        self.topic_ids: dict[str, UUID] | None = None
        """The ids by which the client names the topics; None if it names them by their names."""
        if context.header.api_version >= FIRST_VERSION_WITH_TOPIC_IDS:
            self.topic_ids = {topic.name: topic.topic_id for topic in request.topic_data}
        self.acks = request.acks
        self.all_plain = context.header.api_version >= FIRST_VERSION_OF_ZSTD
        """Whether each partition's records are just one batch of format 2, of a codec that the version knows."""
        self.refusal: BrokerError | None = None
        """The error of all partitions."""
        if request.acks not in VALID_ACKS:
            self.refusal = InvalidRequiredAcksError(f"acks {request.acks} is none of -1, 0, 1")
        self.rows: list[tuple[str, _Row]] = []
        """The answers, with their topics; topics without partitions are not answered."""
        self.waiting: list[tuple[PendingAck, int]] | None = None
        """The appends that are not acknowledged yet, and the places of their answers in ``rows``."""
        self.faults_left = MAX_LISTED_FAULTS
        """Records at fault that the response may still name: a small request can have them in very many partitions."""

    def examine(self, topic_partition: TopicPartition, data: PartitionProduceData) -> memoryview:
        """Return the records of a partition, before anything is appended.

        Below v3 it raises ``RefusedError`` for records that don't begin with a whole batch, which ends the connection,
        as Kafka fails to parse such a request. For later versions ``append`` refuses them.
        """
        sent: memoryview | None = data.records  # type: ignore[assignment]  # as it was read
        is_parsed_first = self.context.header.api_version < FIRST_VERSION_OF_BATCHES
        if sent is None and is_parsed_first:
            raise RefusedError(f"records of {topic_partition} are null")
        records = _NO_RECORDS if sent is None else sent
        size = len(records)
        length, magic, attributes = _BATCH.unpack_from(records) if size >= HEADER_SIZE else _NO_BATCH
        if length + LOG_OVERHEAD != size or magic != MAGIC:
            self.all_plain = False
            if is_parsed_first:
                _refuse_unparsable(topic_partition, records)
        if attributes & TRANSACTIONAL_BIT and magic == MAGIC and self.request.transactional_id is None:
            self.refusal = TransactionalIdAuthorizationFailedError("transactional records without an id")
        return records

    def append(self, topic_partition: TopicPartition, records: memoryview, checked: CheckedBatch | None = None) -> None:
        """Append one partition's batch, or the result of its validation, and note the answer.

        Raises the errors of ``LONG_WORK`` for one that ``append_in_steps`` has to append.
        """
        replicas, acks = self.context.services.replica_manager, self.acks
        log_start_offset = NO_OFFSET
        try:
            partition = replicas.partitions.get(topic_partition)
            if partition is None or self.refusal is not None or not self.all_plain:
                partition = self._partition_for(topic_partition, records)
            topic, index = topic_partition
            if self.topic_ids is not None and not replicas.has_topic_id(topic, self.topic_ids[topic]):
                raise UnknownTopicIdError(f"{topic} was replaced by another topic")
            if topic in INTERNAL_TOPICS and self.context.header.client_id != ADMIN_CLIENT:
                raise InvalidTopicError(f"clients can't write to {topic}")
            log = partition.log
            log_start_offset = log.log_start_offset  # for the answer if the log itself refuses the batch
            result = replicas.append_to(partition, checked or records, required_acks=acks)
        except BrokerError as error:
            self._refused(topic_partition, error, log_start_offset)
            return
        first_offset, last_offset, _, append_time_ms, log_start_offset, _, _ = result
        self.rows.append((topic, (index, 0, first_offset, append_time_ms, log_start_offset)))
        if log.durability.is_owing or (acks == ALL_IN_SYNC and partition.remotes):
            self._await(PendingAck(topic_partition, last_offset + 1, acks))

    def _await(self, awaited: PendingAck) -> None:
        """Let the last answer wait for other replicas, or the disk, unless they have the records already."""
        if self.acks != NO_ACKS and not self.context.services.replica_manager.is_acknowledged(awaited):
            self.waiting = self.waiting or []
            self.waiting.append((awaited, len(self.rows) - 1))

    def _partition_for(self, topic_partition: TopicPartition, records: memoryview) -> Partition:
        """Return the partition to append to; raise the error for records that must not be, in Kafka's order."""
        refusal = self.refusal
        if refusal is not None and isinstance(refusal, TransactionalIdAuthorizationFailedError):
            raise refusal
        partition = self.context.services.replica_manager.partition(topic_partition)
        if not self.all_plain:
            check_produce_version(records, self.context.header.api_version)
        if refusal is not None:
            raise refusal
        return partition

    def append_in_steps(
        self, topic_partition: TopicPartition, records: memoryview, reason: LongWorkError
    ) -> Steps[None]:
        """Do the long work for which an append of one partition's batch failed, then append it."""
        partition = self.context.services.replica_manager.partitions.get(topic_partition)
        if partition is None:
            return self.append(topic_partition, records)
        validations = 0
        checked: CheckedBatch | BrokerError | None
        while True:
            log = partition.log  # another one if the partition was moved to another data directory before this append
            if isinstance(reason, UnrecalledBatchError):
                checked = yield from _recalled(log, reason.checked)
            elif isinstance(reason, UnverifiedBatchError):
                checked = yield from self._confirmed(topic_partition, reason.checked)
            else:
                validations += 1
                checked = yield from self._validated(log, records, validations)
            if isinstance(checked, BrokerError):
                return self._refused(topic_partition, checked, log.log_start_offset)
            if checked is None:
                return None
            try:
                return self.append(topic_partition, records, checked)
            except LONG_WORK as again:  # also because another append took its offsets, which are compressed
                reason = again.with_traceback(None)  # the traceback would be a cycle

    def _confirmed(self, topic_partition: TopicPartition, checked: CheckedBatch) -> Steps[CheckedBatch | None]:
        """Ask the coordinator of the transaction that a batch begins; for an error note the answer, and return None."""
        header, transactional_id = checked.valid.header, self.request.transactional_id
        assert transactional_id is not None, "examined"
        confirmation = Confirmation(transactional_id, self.context.header.api_version, _CONFIRMATION)
        producer = ProducerIdAndEpoch(header.producer_id, header.producer_epoch)
        error_code = yield from confirmation.ask(self.context.services, producer, topic_partition)
        if not error_code:
            return checked
        topic, index = topic_partition
        self.rows.append((topic, (index, error_code, NO_OFFSET, NO_TIMESTAMP, NO_OFFSET)))
        return None

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

    def _refused(self, topic_partition: TopicPartition, error: BrokerError, log_start_offset: int) -> None:
        """Note the answer for a partition whose batch was refused; it names rejected records (KIP-467)."""
        code = error.error_code
        if isinstance(error, RecordsError) or error is self.refusal:
            self.context.log_refusal(f"records for {topic_partition}", error)
        if code in WITHOUT_LOG_START:
            log_start_offset = NO_OFFSET
        if code == ErrorCode.KAFKA_STORAGE_ERROR and self.context.header.api_version < FIRST_VERSION_OF_STORAGE_ERROR:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        topic, index = topic_partition
        row: _Row = (index, code, NO_OFFSET, NO_TIMESTAMP, log_start_offset)
        if isinstance(error, InvalidRecordError | InvalidTimestampError) and error.record_errors:
            faults = [BatchIndexAndErrorMessage(at, message) for at, message in error.record_errors[: self.faults_left]]
            self.faults_left -= len(faults)
            row = (*row, faults, str(error))
        self.rows.append((topic, row))

    def answer(self) -> Answer:
        """Answer the request, when all that waits is acknowledged, or after the request's timeout."""
        if self.acks == NO_ACKS:
            self._check_unanswered()
            return None
        if self.waiting is None:
            return self._response()
        waiting = [awaited for awaited, _ in self.waiting]
        replicas = self.context.services.replica_manager
        return replicas.when_acknowledged(waiting, self.request.timeout_ms, self._acknowledged)

    def _acknowledged(self, errors: list[BrokerError | None]) -> Message:
        assert self.waiting is not None, "it was waited"
        for (_, place), error in zip(self.waiting, errors, strict=True):
            if error is not None:
                topic, (index, _, *others) = self.rows[place]
                self.rows[place] = topic, (index, error.error_code, *others)
        return self._response()

    def _response(self) -> Message:
        rows, topic_ids, version = self.rows, self.topic_ids, self.context.header.api_version
        if len(rows) == 1 and version >= FIRST_VERSION_WITH_LOG_START:  # as nearly all of a producer's requests
            ((topic, row),) = rows
            if len(row) == _PLAIN_LENGTH and not row[1]:  # an unknown topic's name may be long: no template keeps it
                topic_id = None if topic_ids is None else topic_ids[topic]
                return Filled(_of_one_partition(version, topic, topic_id), row)
        leaders = CurrentLeaders(self.context)
        topics: dict[str, TopicProduceResponse] = {}
        for topic, row in rows:
            answered = topics.get(topic)
            if answered is None:
                answered = topics[topic] = TopicProduceResponse(topic, partition_responses=[])
                if topic_ids is not None:
                    answered.topic_id = topic_ids[topic]
            answered.partition_responses.append(PartitionProduceResponse(*row))
            if row[1] == ErrorCode.NOT_LEADER_OR_FOLLOWER and version >= FIRST_VERSION_WITH_LEADERS:
                leader = leaders.of(TopicPartition(topic, row[0]))
                answered.partition_responses[-1].current_leader = LeaderIdAndEpoch(*leader)
        endpoints = [NodeEndpoint(*each) for each in leaders.addresses.values()]
        return ProduceResponse(list(topics.values()), node_endpoints=endpoints)

    def _check_unanswered(self) -> None:
        """End the connection of a request without an answer if it failed: the client would not know otherwise."""
        failures = [f"{topic}-{row[0]} error {row[1]}" for topic, row in self.rows if row[1]]
        if failures:
            text = ", ".join(failures[:MOST_NAMED_FAILURES])
            raise UnansweredFailureError(f"a produce request with acks=0 failed: {text}")


@lru_cache(maxsize=_KNOWN_TOPICS)
def _of_one_partition(version: int, topic: str, topic_id: UUID | None) -> ResponseTemplate:
    """The response for a batch of one partition, without the texts of rejected records."""

    def make(index: int, error_code: int, base_offset: int, append_time_ms: int, log_start_offset: int) -> Message:
        row = PartitionProduceResponse(index, error_code, base_offset, append_time_ms, log_start_offset)
        return ProduceResponse([TopicProduceResponse(topic, topic_id or ZERO_UUID, [row])])

    return ResponseTemplate(make, "ihqqq", version)


def _refuse_unparsable(topic_partition: TopicPartition, records: memoryview) -> None:
    try:
        size = measure(records)
    except CorruptRecordError as error:
        raise RefusedError(f"records of {topic_partition} are no batch: {error}") from error
    if size is None or (records[MAGIC_OFFSET] == MAGIC and size < _SMALLEST_PARSED_SIZE):
        raise RefusedError(f"records of {topic_partition} hold no whole batch")


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


def _formats(_context: RequestContext, request: ProduceRequest) -> str | None:
    topics = request.topic_data
    is_of_one_partition = len(topics) == 1 and len(topics[0].partition_data) == 1
    return f"i{RECORDS}" if is_of_one_partition else None


def _varying(request: ProduceRequest) -> Vary[ProduceRequest]:
    transactional_id, acks, timeout_ms = request.transactional_id, request.acks, request.timeout_ms
    name, topic_id = request.topic_data[0].name, request.topic_data[0].topic_id

    def vary(integers: tuple[int, ...], records: Records | None) -> ProduceRequest:
        topic = TopicProduceData(name, topic_id, [PartitionProduceData(integers[0], records)])
        return ProduceRequest(transactional_id, acks, timeout_ms, [topic])

    return vary


PATTERN: Final = Pattern(_formats, _varying)
"""A producer writes to the partitions of one topic, batch after batch."""
