"""ListOffsets v0-11: the earliest offset, the latest, or the first one with at least a given timestamp.

Done: earliest and latest without touching the disk; by timestamp through the time index (a batch that is compressed or
large is searched on the compute thread); isolation level (latest for read_committed is the last stable offset); the
epoch that the client knows; v0's lists of segment starts; from v6 on the special timestamps: the first record with the
largest timestamp (v7), the earliest offset on the broker (v8), and the ends of what is in tiered storage (v9) and not
yet in it (v11). There is no tiered storage: their offset is -1, and the time-out of v10 is never needed.
Errors: UNKNOWN_SERVER_ERROR -1 (no such isolation level), UNKNOWN_TOPIC_OR_PARTITION 3, UNSUPPORTED_VERSION 35 (a
negative timestamp that the version does not have, from v6 on), LEADER_NOT_AVAILABLE 5 (below v5) or
OFFSET_NOT_AVAILABLE 78 on a new leader, NOT_LEADER_OR_FOLLOWER 6, INVALID_REQUEST 42 (a partition twice),
UNSUPPORTED_FOR_MESSAGE_FORMAT 43 (a format without timestamps), FENCED_LEADER_EPOCH 74, UNKNOWN_LEADER_EPOCH 75.
"""

from collections.abc import Set as AbstractSet
from functools import lru_cache, partial
from typing import Final, NamedTuple

from kafkapy.errors import BrokerError
from kafkapy.metadata.errors import InvalidRequestError, LeaderNotAvailableError, OffsetNotAvailableError
from kafkapy.network.errors import RefusedError
from kafkapy.protocol.constants import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
)
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.message import Message
from kafkapy.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kafkapy.records.errors import RecordsError
from kafkapy.replication.partition import Partition
from kafkapy.replication.replica_manager import ReplicaManager
from kafkapy.server.dispatch.context import RequestContext, Services
from kafkapy.server.dispatch.encoding import Filled, ResponseTemplate
from kafkapy.server.dispatch.forms import REPEATED
from kafkapy.storage.log.log import Log
from kafkapy.storage.log.segment import TimestampOffset
from kafkapy.storage.log.time_search import BatchSearch, LongSearchError
from kafkapy.turns import Steps, turns
from kafkapy.types import NO_EPOCH, NO_OFFSET, NO_TIMESTAMP, READ_COMMITTED, TopicPartition, topic_partition_of

CONSUMER: Final = -1
_FIRST_VERSION_OF_OFFSET_NOT_AVAILABLE: Final = 5
_FIRST_VERSION_WITH_EPOCH: Final = 4
_KNOWN_ANSWERS: Final = 1024
MOST_SEGMENT_STARTS: Final = 10_000_000
"""Offsets in a response of version 0, of 8 bytes each."""
_ENDS: Final = (EARLIEST, LATEST)
_FIRST_VERSION_WITH_SPECIAL_TIMESTAMPS: Final = 6
_FIRST_VERSIONS: Final = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
"""The first version with each special timestamp; in 2.7.2, which knows none, they are times before all records."""
_NEVER: Final = 2**15
_NO_PARTITIONS: Final[AbstractSet[TopicPartition]] = frozenset()


class _Searched(NamedTuple):
    """The result of the search by timestamp so far, and the position where it continues."""

    found: TimestampOffset | None = None
    from_offset: int = 0


_UNSEARCHED: Final = _Searched()


class _Asker(NamedTuple):
    repeated: AbstractSet[TopicPartition]
    version: int
    is_consumer: bool
    isolation_level: int
    starts: "_SegmentStarts | None" = None
    """Those of the request's other partitions, if it has several."""


def handle(context: RequestContext, request: ListOffsetsRequest) -> Message | Steps[Message]:
    """See the card; a request for an end of one partition, as most are, takes no steps."""
    topics = request.topics
    if len(topics) != 1 or len(topics[0].partitions) != 1 or topics[0].partitions[0].timestamp not in _ENDS:
        return _answer_many(context, request)
    version = context.header.api_version
    asker = _Asker(_NO_PARTITIONS, version, request.replica_id == CONSUMER, request.isolation_level)
    (wanted,) = topics[0].partitions
    topic_partition = topic_partition_of((topics[0].name, wanted.partition_index))
    answer = _answer(context.services.replica_manager, asker, topic_partition, wanted)
    if version < _FIRST_VERSION_WITH_EPOCH or answer.error_code:  # an unknown topic's name may be long
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(topics[0].name, [answer])])
    integers = answer.timestamp, answer.offset, answer.leader_epoch
    return Filled(_of_one_partition(version, topic_partition), integers)


@lru_cache(maxsize=_KNOWN_ANSWERS)
def _of_one_partition(version: int, topic_partition: TopicPartition) -> ResponseTemplate:
    """The answer for a partition that exists, without an error."""
    topic, index = topic_partition

    def make(timestamp: int, offset: int, leader_epoch: int) -> ListOffsetsResponse:
        row = ListOffsetsPartitionResponse(index, 0, [], timestamp, offset, leader_epoch)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(topic, [row])])

    return ResponseTemplate(make, "qqi", version)


PATTERN: Final = REPEATED
"""Monitors request the same ends again and again."""


def _answer_many(context: RequestContext, request: ListOffsetsRequest) -> Steps[Message]:
    """A step is a partition."""
    repeated = yield from _repeated(request)
    asker = _Asker(
        repeated,
        context.header.api_version,
        request.replica_id == CONSUMER,
        request.isolation_level,
        _SegmentStarts(),
    )
    results = []
    for topic in request.topics:
        answers = []
        for partition in topic.partitions:
            topic_partition = TopicPartition(topic.name, partition.partition_index)
            answer = yield from _answer_in_steps(context.services, asker, topic_partition, partition)
            answers.append(answer)
            yield
        results.append(ListOffsetsTopicResponse(topic.name, answers))
    return ListOffsetsResponse(topics=results)


def _answer_in_steps(
    services: Services, asker: _Asker, topic_partition: TopicPartition, wanted: ListOffsetsPartition
) -> Steps[ListOffsetsPartitionResponse]:
    """As ``_answer``; batches that take long to search are searched on the compute thread, one after the other.

    The log may be truncated, moved or deleted during the search: each batch's bytes are therefore read before, and the
    partition is looked up again.
    """
    searched = _UNSEARCHED
    while True:
        try:
            return _answer(services.replica_manager, asker, topic_partition, wanted, searched)
        except LongSearchError as error:
            search = error.search
        searching = services.compute.run(partial(_run, search))
        turns().wait_for(searching)
        yield
        found = searching.result()
        if isinstance(found, RecordsError):
            return ListOffsetsPartitionResponse(wanted.partition_index, found.error_code)
        searched = _Searched(found, search.next_offset)


def _run(search: BatchSearch) -> TimestampOffset | RecordsError | None:
    """Search on the compute thread. An error is returned: raised, its traceback and its future would be a cycle."""
    try:
        return search.run()
    except RecordsError as error:
        return error.with_traceback(None)


def _answer(
    replicas: ReplicaManager,
    asker: _Asker,
    topic_partition: TopicPartition,
    wanted: ListOffsetsPartition,
    searched: _Searched = _UNSEARCHED,
) -> ListOffsetsPartitionResponse:
    """Answer one partition; raises ``LongSearchError`` unless the request is for an end."""
    try:
        if asker.repeated and asker.version > 0 and topic_partition in asker.repeated:
            raise InvalidRequestError(f"{topic_partition} is named more than once")
        if asker.is_consumer and asker.isolation_level not in (0, READ_COMMITTED):
            return ListOffsetsPartitionResponse(wanted.partition_index, ErrorCode.UNKNOWN_SERVER_ERROR)  # as Kafka
        if _is_unsupported(asker.version, wanted.timestamp):
            return ListOffsetsPartitionResponse(wanted.partition_index, ErrorCode.UNSUPPORTED_VERSION)
        partition = replicas.partition(topic_partition)
        partition.check_leader(wanted.current_leader_epoch)
        bound = _bound(partition, asker)
        if asker.version == 0:
            starts = asker.starts or _SegmentStarts()
            offsets = starts.find(partition.log, bound if asker.is_consumer else None, wanted)
            return ListOffsetsPartitionResponse(wanted.partition_index, old_style_offsets=offsets)
        offset, timestamp = _find(partition, asker, wanted.timestamp, bound, searched)
    except BrokerError as error:
        return ListOffsetsPartitionResponse(wanted.partition_index, error.error_code)
    has_epoch = asker.version >= _FIRST_VERSION_WITH_EPOCH
    epoch = _epoch(partition, wanted.timestamp, offset) if has_epoch else NO_EPOCH
    return ListOffsetsPartitionResponse(
        wanted.partition_index, 0, timestamp=timestamp, offset=offset, leader_epoch=epoch
    )


def _is_unsupported(version: int, timestamp: int) -> bool:
    is_special = timestamp < EARLIEST and version >= _FIRST_VERSION_WITH_SPECIAL_TIMESTAMPS
    return is_special and version < _FIRST_VERSIONS.get(timestamp, _NEVER)


def _repeated(request: ListOffsetsRequest) -> Steps[set[TopicPartition]]:
    asked: set[TopicPartition] = set()
    repeated: set[TopicPartition] = set()
    for topic in request.topics:
        for each in topic.partitions:
            topic_partition = TopicPartition(topic.name, each.partition_index)
            (repeated if topic_partition in asked else asked).add(topic_partition)
            yield
    return repeated


def _bound(partition: Partition, asker: _Asker) -> int:
    """The latest offset for the sender: the log end offset (follower), high watermark, or last stable offset."""
    log = partition.log
    if not asker.is_consumer:
        return log.log_end_offset
    return log.last_stable_offset if asker.isolation_level == READ_COMMITTED else log.high_watermark


def _find(partition: Partition, asker: _Asker, timestamp: int, bound: int, searched: _Searched) -> tuple[int, int]:
    log = partition.log
    if timestamp < EARLIEST and asker.version >= _FIRST_VERSION_WITH_SPECIAL_TIMESTAMPS:
        if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
            return NO_OFFSET, NO_TIMESTAMP
        timestamp = EARLIEST if timestamp == EARLIEST_LOCAL else log.largest_timestamp
        if timestamp == NO_TIMESTAMP:
            return NO_OFFSET, NO_TIMESTAMP
    if timestamp == EARLIEST:
        return log.log_start_offset, NO_TIMESTAMP
    if timestamp != LATEST:
        found = searched.found or log.lookup_timestamp(timestamp, searched.from_offset, inline=True)
        if found is not None and found.offset < bound:
            return found.offset, found.timestamp
    if asker.is_consumer and log.high_watermark < partition.epoch_start_offset:
        # This leader's offset may be lower than one that the leader before it has returned (KIP-207).
        text = f"the high watermark of {partition.topic_partition} has not reached this leader's epoch"
        if asker.version >= _FIRST_VERSION_OF_OFFSET_NOT_AVAILABLE:
            raise OffsetNotAvailableError(text)
        raise LeaderNotAvailableError(text)
    return (bound if timestamp == LATEST else NO_OFFSET), NO_TIMESTAMP


def _epoch(partition: Partition, timestamp: int, offset: int) -> int:
    if timestamp == LATEST:
        return partition.leader_epoch
    return partition.log.leader_epochs.epoch_for(offset) if offset >= 0 else NO_EPOCH


class _SegmentStarts:
    """Version 0: base offsets of segments. A partition that a request repeats is searched once."""

    __slots__ = ("_times", "_found", "_count")

    def __init__(self) -> None:
        self._times: dict[TopicPartition, list[tuple[int, int]]] = {}
        self._found: dict[tuple[TopicPartition, int, int], list[int]] = {}
        self._count = 0

    def find(self, log: Log, bound: int | None, wanted: ListOffsetsPartition) -> list[int]:
        """Return the starts of the segments that were last changed at the given time or before, newest first.

        The log end offset is listed as a further segment start, with the present time as its time. Offsets above
        ``bound`` are replaced by one ``bound``.

        Raises ``RefusedError`` where a request that repeats partitions would have a response of any size.
        """
        if wanted.max_num_offsets < 0:
            raise BrokerError("the number of offsets is negative")  # an unknown error (-1), as in Kafka
        key = (log.topic_partition, wanted.timestamp, wanted.max_num_offsets)
        found = self._found.get(key)
        if found is None:
            times = self._times.get(log.topic_partition)
            if times is None:
                times = self._times[log.topic_partition] = log.segment_times()
            found = self._found[key] = _segment_starts(times, bound, wanted)
        self._count += len(found)
        if self._count > MOST_SEGMENT_STARTS:
            raise RefusedError(f"the response of ListOffsets has more than {MOST_SEGMENT_STARTS} offsets of segments")
        return found


def _segment_starts(times: list[tuple[int, int]], bound: int | None, wanted: ListOffsetsPartition) -> list[int]:
    times = times[: 1 if wanted.timestamp == EARLIEST else None]
    while times and wanted.timestamp not in (LATEST, EARLIEST) and times[-1][1] > wanted.timestamp:
        times.pop()
    starts = sorted((offset for offset, _ in times[::-1][: wanted.max_num_offsets]), reverse=True)
    if bound is None or not any(start > bound for start in starts):
        return starts
    return [bound, *(start for start in starts if start <= bound)]
