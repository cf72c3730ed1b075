"""The target's side of a mirror: batches with the mirror's own producer id, at least once or in transactions.

Both ways use sequence numbers. So several requests may be under way on a connection: if a batch is refused, the broker
refuses those behind it too, and the order of a partition's records is kept. This holds when the partition has a batch
of the producer; before, a broker takes any sequence number, so only the first batch of a partition is in flight.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.errors import ClientError, RequestFailedError, check
from kafkapy.clients.mirror import positions as mirror_positions
from kafkapy.clients.mirror.common import (
    MirrorError,
    Place,
    by_leader,
    by_topic,
    check_producer,
    passes,
)
from kafkapy.clients.mirror.positions import Position
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kafkapy.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from kafkapy.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkapy.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from kafkapy.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from kafkapy.records.batch import MAGIC
from kafkapy.records.forward import Forwarded, divided, stamp
from kafkapy.types import NO_OFFSET

DEPTH: Final = 5
"""Requests that may be under way on a connection: brokers keep the sequences of so many batches."""
PRODUCE_TIMEOUT_MS: Final = 30_000
TRANSACTION_TIMEOUT_MS: Final = 60_000
_LEGACY_VERSION: Final = 2
"""The newest version of Produce that takes magic 0 and 1."""
_ONE_TRANSACTION_VERSION: Final = 3
"""The newest version of AddPartitionsToTxn that is for one transaction."""
_END_VERSION: Final = 4
"""From EndTxn 5, TxnOffsetCommit 5 and Produce 12 on, each end of a transaction raises the epoch (KIP-890)."""
_TXN_OFFSETS_VERSION: Final = 4
_TXN_PRODUCE_VERSION: Final = 11
_FIRST_WITH_EPOCH: Final = 3
"""The first version of InitProducerId by which a producer that is fenced is told so (KIP-360)."""
_MODULUS: Final = 1 << 31
_TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
_REFUSED: Final[dict[int, tuple[str, str]]] = {
    ErrorCode.INVALID_TIMESTAMP: (
        "message.timestamp.difference.max.ms (since Kafka 3.6 message.timestamp.before.max.ms and …after.max.ms)",
        "a record's timestamp is too far from the time of the broker",
    ),
    ErrorCode.INVALID_RECORD: ("cleanup.policy", "with cleanup.policy=compact every record needs a key"),
}
"""Why a target never takes a batch, and the key that decides."""
_NOTHING_TO_ABORT: Final = frozenset({ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_ID_MAPPING})
_CONCURRENT: Final = frozenset({ErrorCode.CONCURRENT_TRANSACTIONS})

Wave = dict[Place, Forwarded]
"""At most one batch of each partition, as a Produce request has."""
Acknowledged = Callable[[Place, Forwarded, int], None]
"""Called for each batch that is done, with the target's offset of its first record (NO_OFFSET: not known)."""


class TargetWriter:
    """An idempotent producer; positions are committed after the records that they count are acknowledged."""

    is_transactional: bool = False
    _produce_version: int | None = None

    def __init__(
        self, client: ClusterClient, group: str, report: Callable[[str], None] = lambda _line: None
    ) -> None:  # fmt: skip
        self._client = client
        self._group = group
        self._report = report
        self._is_short = False
        self._producer_id = self._epoch = -1
        self._sequences: Counter[Place] = Counter()
        self._set_bytes: dict[str, int] = {}  # what sets of entries of a topic may have, if the target took no more

    def open(self) -> None:
        """Get a producer id, whose sequences begin with 0."""
        self._sequences.clear()

        def attempt() -> InitProducerIdResponse:
            answer = self._client.call(InitProducerIdRequest(None, PRODUCE_TIMEOUT_MS), InitProducerIdResponse)
            check(answer.error_code, what="a producer id of the target")
            return answer

        found = self._client.retrying(attempt)
        self._producer_id, self._epoch = found.producer_id, found.producer_epoch

    def positions(self) -> dict[Place, Position]:
        """The positions that are committed."""
        return mirror_positions.positions(self._client, self._group)

    def write(
        self, queues: Mapping[Place, deque[Forwarded]], leaders: dict[Place, int], acknowledged: Acknowledged
    ) -> None:  # fmt: skip
        """Produce some of the queued batches with acks=all, and take them from their queues.

        Each queue is produced in order. Calls back for each batch that is done, also for those without data: see
        ``Acknowledged``. A set of entries that is too large for the target is put back in parts.

        Raises MirrorError for a batch that the target will never take, RequestFailedError or NoBrokerError else.
        """
        for place, queue in queues.items():
            if place[0] in self._set_bytes and queue and queue[0].magic < MAGIC:
                self._put_back(place, queue, queue.popleft())
        for place, passed in self._send(self._waves(queues, acknowledged), leaders, acknowledged).items():
            self._put_back(place, queues[place], passed)

    def _waves(self, queues: Mapping[Place, deque[Forwarded]], acknowledged: Acknowledged) -> list[Wave]:
        """Take the next batches from the queues: the first wave has the first batch of each, and so on.

        A set of magic 0 or 1 has no sequence number, so it is alone under way in its partition.
        """
        waves: list[Wave] = [{} for _ in range(DEPTH)]
        for place, queue in queues.items():
            depth, most = 0, DEPTH if place in self._sequences else 1
            while queue and depth < most:
                if queue[0].data is None:
                    if depth:
                        break  # the position may pass it only when those before it are acknowledged
                    acknowledged(place, queue.popleft(), NO_OFFSET)
                    continue
                if queue[0].magic < MAGIC and depth:
                    break
                passed = queue.popleft()
                waves[depth][place] = passed
                depth = depth + 1 if passed.magic == MAGIC else DEPTH
        return [wave for wave in waves if wave]

    def _put_back(self, place: Place, queue: deque[Forwarded], passed: Forwarded) -> None:
        queue.extendleft(reversed(divided(passed, self._set_bytes[place[0]])))

    def _send(self, waves: list[Wave], leaders: dict[Place, int], acknowledged: Acknowledged) -> Wave:
        """Returns the sets that were too large, but have parts; ``_set_bytes`` of their topics is half their size then.

        All responses are read before an error is raised: the batches of other partitions that were appended must not be
        sent again.
        """
        refused: Wave = {}
        sent: list[tuple[int, Wave]] = []
        errors: dict[int | Place, ClientError] = {}
        for leader, part in _parts(waves, leaders):
            if leader not in errors:
                try:
                    self._post(leader, part)
                    sent.append((leader, part))
                except ClientError as error:
                    errors[leader] = error
        for leader, part in sent:
            if leader not in errors:
                try:
                    answer = self._client.node(leader).take(ProduceResponse)
                except ClientError as error:
                    errors[leader] = error
                else:
                    refused.update(_collect(answer, part, errors, acknowledged))
        for (topic, _), passed in refused.items():
            half = len(passed.data or b"") // 2
            self._set_bytes[topic] = min(half, self._set_bytes.get(topic, half))
        if errors:
            raise next((each for each in errors.values() if not passes(each)), next(iter(errors.values())))
        return refused

    def _post(self, leader: int, wave: Wave) -> None:
        request = ProduceRequest(self._transactional_id, -1, PRODUCE_TIMEOUT_MS)
        for topic, partitions in by_topic(wave).items():
            data = [PartitionProduceData(index, self._stamped((topic, index), wave)) for index in partitions]
            request.topic_data.append(TopicProduceData(name=topic, partition_data=data))
        is_legacy = any(passed.magic < MAGIC for passed in wave.values())
        self._client.node(leader).post(request, _LEGACY_VERSION if is_legacy else self._produce_version)

    def _stamped(self, place: Place, wave: Wave) -> memoryview:
        passed = wave[place]
        assert passed.data is not None, "only batches with data are sent"
        if passed.magic == 2:
            sequence = self._sequences[place]
            stamp(passed.data, self._producer_id, self._epoch, sequence, is_transactional=self.is_transactional)
            self._sequences[place] = (sequence + passed.record_count) % _MODULUS
        return memoryview(passed.data)

    @property
    def _transactional_id(self) -> str | None:
        return None

    def commit(self, changed: Mapping[Place, Position]) -> None:
        """Store the positions of acknowledged records."""
        self._store(changed, lambda each: mirror_positions.commit(self._client, self._group, each))

    def _store(
        self, changed: Mapping[Place, Position], store: Callable[[Mapping[Place, Position]], None]
    ) -> None:  # fmt: skip
        """Store positions, without their maps of offsets if the target finds their metadata too long."""
        try:
            store(_shortened(changed) if self._is_short else changed)
        except RequestFailedError as error:
            if error.code != ErrorCode.OFFSET_METADATA_TOO_LARGE or self._is_short:
                raise
            self._is_short = True
            self._report(
                "the target refuses the metadata that the mirror keeps with its positions, so offsets of groups can't"
                " be translated after a restart of the mirror: raise offset.metadata.max.bytes there to 4096"
            )
            store(_shortened(changed))


class TransactionalWriter(TargetWriter):
    """A transactional producer: records and positions become visible together, with ``commit``."""

    is_transactional = True
    _produce_version = _TXN_PRODUCE_VERSION

    def __init__(
        self,
        client: ClusterClient,
        group: str,
        transactional_id: str,
        report: Callable[[str], None] = lambda _line: None,
    ) -> None:
        super().__init__(client, group, report)
        self._id = transactional_id
        self._what = f"transactional id {transactional_id}"
        self._added: set[Place] = set()

    @property
    def _transactional_id(self) -> str | None:
        return self._id

    def open(self) -> None:
        """Get the next epoch: an open transaction is aborted, other producers with the same id are fenced.

        A writer that has had an epoch aborts its own transaction and says which epoch it had; so it is told when it is
        fenced itself (MirrorFencedError).
        """
        if self._epoch >= 0:
            self._abort()
        self._sequences.clear()
        self._added.clear()

        def attempt() -> InitProducerIdResponse:
            coordinator = self._client.transaction_coordinator(self._id)
            request = InitProducerIdRequest(self._id, TRANSACTION_TIMEOUT_MS)
            if coordinator.version_for(request) >= _FIRST_WITH_EPOCH:
                request.producer_id, request.producer_epoch = self._producer_id, self._epoch
            answer = coordinator.call(request, InitProducerIdResponse)
            check_producer(answer.error_code, self._what)
            return answer

        found = self._client.retrying(attempt, also=_CONCURRENT)
        self._producer_id, self._epoch = found.producer_id, found.producer_epoch

    def _send(self, waves: list[Wave], leaders: dict[Place, int], acknowledged: Acknowledged) -> Wave:
        for wave in waves:
            for place, passed in wave.items():
                if passed.magic < 2:
                    raise MirrorError(
                        f"topic {place[0]}: the source has records of message format {passed.magic}, which can't be in"
                        " a transaction: copy it without --exactly-once"
                    )
        self._add({place for wave in waves for place in wave} - self._added)
        return super()._send(waves, leaders, acknowledged)

    def _add(self, places: Iterable[Place]) -> None:
        topics = [AddPartitionsToTxnTopic(topic, indexes) for topic, indexes in by_topic(sorted(places)).items()]
        if not topics:
            return
        request = AddPartitionsToTxnRequest([], self._id, self._producer_id, self._epoch, topics)

        def attempt() -> None:
            coordinator = self._client.transaction_coordinator(self._id)
            answer = coordinator.call(request, AddPartitionsToTxnResponse, _ONE_TRANSACTION_VERSION)
            for topic in answer.results_by_topic_v3_and_below:
                for each in topic.results_by_partition:
                    check_producer(each.partition_error_code, self._what)

        self._client.retrying(attempt, also=_CONCURRENT)
        self._added.update(places)

    def commit(self, changed: Mapping[Place, Position]) -> None:
        """Add the positions to the transaction and commit it; without records it has the positions alone."""
        offsets = AddOffsetsToTxnRequest(self._id, self._producer_id, self._epoch, self._group)

        def add() -> None:
            answer = self._client.transaction_coordinator(self._id).call(offsets, AddOffsetsToTxnResponse)
            check_producer(answer.error_code, self._what)

        self._client.retrying(add, also=_CONCURRENT)
        self._store(changed, self._commit_positions)
        self._end(committed=True)
        self._added.clear()

    def _abort(self) -> None:
        try:
            self._end(committed=False)
        except RequestFailedError as error:
            if error.code not in _NOTHING_TO_ABORT:
                raise

    def _end(self, *, committed: bool) -> None:
        request = EndTxnRequest(self._id, self._producer_id, self._epoch, committed)

        def attempt() -> None:
            answer = self._client.transaction_coordinator(self._id).call(request, EndTxnResponse, _END_VERSION)
            check_producer(answer.error_code, self._what)

        self._client.retrying(attempt, also=_CONCURRENT)

    def _commit_positions(self, changed: Mapping[Place, Position]) -> None:
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for (topic, index), position in changed.items():
            part = TxnOffsetCommitRequestPartition(index, position.offset, committed_metadata=position.metadata)
            topics.setdefault(topic, []).append(part)
        request = TxnOffsetCommitRequest(self._id, self._group, self._producer_id, self._epoch)
        request.topics = [TxnOffsetCommitRequestTopic(topic, partitions=rows) for topic, rows in topics.items()]

        def attempt() -> None:
            answer = self._client.coordinator(self._group).call(request, TxnOffsetCommitResponse, _TXN_OFFSETS_VERSION)
            for topic in answer.topics:
                for each in topic.partitions:
                    check_producer(each.error_code, f"group {self._group}, {topic.name}-{each.partition_index}")

        self._client.retrying(attempt)


def _shortened(changed: Mapping[Place, Position]) -> dict[Place, Position]:
    return {place: position.shortened() for place, position in changed.items()}


def _parts(waves: list[Wave], leaders: dict[Place, int]) -> Iterator[tuple[int, Wave]]:
    """The requests for each leader, wave by wave; message sets and batches are in separate requests."""
    for wave in waves:
        for leader, places in by_leader(wave, leaders).items():
            for is_legacy in (False, True):
                part = {place: wave[place] for place in places if (wave[place].magic < MAGIC) is is_legacy}
                if part:
                    yield leader, part


def _collect(
    answer: ProduceResponse, part: Wave, errors: dict[int | Place, ClientError], acknowledged: Acknowledged
) -> Wave:  # fmt: skip
    """Call back for what is written, and add errors; what is behind an error in its partition does not count.

    Returns sets that are too large, but have parts.
    """
    refused: Wave = {}
    for topic in answer.responses:
        for each in topic.partition_responses:
            place = topic.name, each.index
            if place in errors:
                continue
            if each.error_code in _TOO_LARGE and len(divided(part[place], len(part[place].data or b"") // 2)) > 1:
                refused[place] = part[place]
                continue
            try:
                _check_produced(each.error_code, each.error_message, place, part[place])
            except ClientError as error:
                errors[place] = error
            else:
                is_known = each.error_code == ErrorCode.NONE
                acknowledged(place, part[place], each.base_offset if is_known else NO_OFFSET)
    return refused


def _check_produced(code: int, message: str | None, place: Place, passed: Forwarded) -> None:
    what = f"partition {place[0]}-{place[1]} on the target"
    if code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
        return
    if code in _TOO_LARGE:
        raise MirrorError(
            f"topic {place[0]}: a batch of {len(passed.data or b''):,} bytes is larger than max.message.bytes (or"
            f" segment.bytes) of the topic on the target: raise it there with kafkapy configs alter topic {place[0]}"
        )
    if code in _REFUSED:
        key, why = _REFUSED[code]
        raise MirrorError(
            f"topic {place[0]}: the target refuses a batch ({ErrorCode(code).name}): {why}. Change {key} of the topic"
            f" there with kafkapy configs alter topic {place[0]}, or leave the topic out with --topics"
        )
    if code == ErrorCode.KAFKA_STORAGE_ERROR:
        raise RequestFailedError(
            code, "its disk is full or has failed, see log.dirs and the log of the broker", what=what
        )
    if code in {ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED}:
        check_producer(code, what)
        return
    raise RequestFailedError(code, message, what=what)
