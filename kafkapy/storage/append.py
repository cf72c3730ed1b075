"""The produce path below the partition: validate, check the producer, roll, write once, take note.

Nothing is noted before the write, and what a failed write left behind is cut off: a refused or failed append leaves
the records as they were. As in Apache Kafka, a segment that is full ends before the producer is checked, so a batch
that is refused for its producer, or was there before, may begin a segment all the same.
"""

import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkapy.config.log_config import LogConfig
from kafkapy.errors import BrokerError
from kafkapy.records.batch import (
    CONTROL_BIT,
    CREATE_TIME,
    LOG_APPEND_TIME,
    MAGIC,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    assign,
    crc_is_valid,
    iterate_headers,
)
from kafkapy.records.control import ControlRecord, read_control
from kafkapy.records.errors import CorruptRecordError
from kafkapy.records.validate import (
    PRODUCER,
    CheckedBatch,
    ProducePolicy,
    ValidatedBatch,
    at_offset,
    validate_own,
    validate_produced,
)
from kafkapy.storage.disk_errors import as_storage_error, storage_error
from kafkapy.storage.errors import OutOfOrderSequenceError, UnexpectedAppendOffsetError
from kafkapy.storage.producer_entry import ProducedBatch
from kafkapy.storage.recall import recall
from kafkapy.storage.rolling import check_size, must_roll, roll, take_back
from kafkapy.storage.segment import MAX_RELATIVE_OFFSET, AppendedRange, Segment
from kafkapy.types import TopicPartition, maker

if TYPE_CHECKING:
    from kafkapy.storage.log import Log

logger = logging.getLogger(__name__)

TAIL_BATCHES: Final = 128
NO_APPEND_TIME: Final = -1


COMPRESSION_TYPES: Final = ("uncompressed", "gzip", "snappy", "lz4", "zstd")


class AppendResult(NamedTuple):
    """Where a batch is; ``log_append_time_ms`` is -1 unless the topic stamps records itself."""

    first_offset: int
    last_offset: int
    max_timestamp: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool
    size: int


_result_of: Final = maker(AppendResult)
_range_of: Final = maker(AppendedRange)


def produce_policy(topic_partition: TopicPartition, config: LogConfig) -> ProducePolicy:
    """Return what ``config`` asks of produced batches."""
    compression = config.compression_type
    return ProducePolicy(
        topic_partition,
        compression=PRODUCER if compression == "producer" else COMPRESSION_TYPES.index(compression),
        timestamp_type=LOG_APPEND_TIME if config.message_timestamp_type == "LogAppendTime" else CREATE_TIME,
        timestamp_difference_max_ms=config.message_timestamp_difference_max_ms,
        key_required=config.compact,
        max_batch_size=config.max_message_bytes,
        magic=config.message_format,
    )


def append_as_leader(
    log: "Log",
    records: memoryview | bytearray | CheckedBatch | ValidatedBatch,
    leader_epoch: int,
    *,
    from_client: bool = True,
) -> AppendResult:
    """Validate one batch, give it its offsets in place, and write it; a ``ValidatedBatch`` is a coordinator's.

    A method of ``Log``. Raises the errors of ``records.validate`` and ``storage.errors``; nothing is written then.
    A client's batch that takes long to validate raises ``LargeBatchError``; it comes back as ``CheckedBatch``. So may
    that, when others have appended in between.
    """
    first_offset = log.log_end_offset
    if isinstance(records, ValidatedBatch):
        valid = validate_own(records, log.policy, log.storage.clock.now_ms, first_offset)
    elif isinstance(records, CheckedBatch):
        valid = at_offset(records, first_offset)
    else:
        now_ms = log.storage.clock.now_ms()
        valid = validate_produced(
            records, log.policy, now_ms, from_client=from_client, first_offset=first_offset, inline=from_client
        )
    batch, header, max_timestamp, max_timestamp_delta = valid
    marker = None
    state = log.producer_state
    last_offset = first_offset + header.last_offset_delta
    size = header.size
    added = _range_of((first_offset, last_offset, max_timestamp, first_offset + max_timestamp_delta, size))
    if header.producer_id >= 0:
        marker, duplicate = _check_producer(log, batch, header, added, from_client=from_client)
        if duplicate is not None:
            return _answer_again(log, duplicate, header)
    if header.magic < MAGIC:
        _forget_epochs(log, size)
    else:
        if not log.leader_epochs.is_latest(leader_epoch, first_offset):
            with as_storage_error(log, "written"):
                log.leader_epochs.assign(leader_epoch, first_offset)
        assign(batch, 0, first_offset, leader_epoch)
    segment = _write(log, batch, added)
    if marker is not None:
        aborted = state.apply_marker(header, marker, first_offset)
        if aborted is not None:
            segment.transaction_index.append(aborted)
    elif header.producer_id >= 0:
        state.apply(header, first_offset)
    _flush_if_due(log)
    append_time = max_timestamp if header.attributes & TIMESTAMP_TYPE_BIT else NO_APPEND_TIME
    return _result_of((first_offset, last_offset, max_timestamp, append_time, log.log_start_offset, False, size))


def _check_producer(
    log: "Log", batch: memoryview | bytearray, header: BatchHeader, added: AppendedRange, *, from_client: bool
) -> tuple[ControlRecord | None, ProducedBatch | None]:
    """Return the marker that the batch is, or the earlier batch that it repeats; raises what its producer may not."""
    state = log.producer_state
    if not header.attributes & CONTROL_BIT:
        check_size(log.config, header.size)
    try:
        if header.attributes & CONTROL_BIT:
            marker = read_control(batch, header)
            state.check_marker(header, marker)
            return marker, None
        duplicate = _check(log, header, from_client=from_client)
    except BrokerError:
        _end_full_segment(log, added)
        raise
    if duplicate is not None:
        _end_full_segment(log, added)
    return None, duplicate


def _check(log: "Log", header: BatchHeader, *, from_client: bool) -> ProducedBatch | None:
    """As ``ProducerState.check``; after a start the log may have to tell first what a producer sends again."""
    state = log.producer_state
    try:
        return state.check(header, from_client=from_client)
    except OutOfOrderSequenceError:
        with as_storage_error(log, "read"):
            is_recalled = recall(log)
        if not is_recalled:
            raise
    return state.check(header, from_client=from_client)


def _end_full_segment(log: "Log", added: AppendedRange) -> None:
    """Begin another segment, if ``added`` would, although it does not come."""
    with as_storage_error(log, "written"):
        if must_roll(log, log.segments.active, added):
            roll(log, added.first_offset)


def _answer_again(log: "Log", batch: ProducedBatch, header: BatchHeader) -> AppendResult:
    """Answer a repeated batch as it was answered first; 2.7 gives its timestamp as the append time."""
    log.durability.resume()
    return AppendResult(
        batch.first_offset, batch.last_offset, batch.timestamp, batch.timestamp, log.log_start_offset, True, header.size
    )


def append_as_follower(log: "Log", records: bytes | bytearray | memoryview) -> AppendResult:
    """See ``Log.append_as_follower``."""
    batches = list(iterate_headers(records))
    if not batches:
        raise UnexpectedAppendOffsetError(f"No whole batch came for {log.topic_partition}")
    size = batches[-1][0] + batches[-1][1].size
    next_offset = log.log_end_offset
    max_timestamp = max_timestamp_offset = -1
    for position, header in batches:
        if header.base_offset < next_offset or header.last_offset_delta < 0:
            raise UnexpectedAppendOffsetError(
                f"{log.topic_partition} expected offset {next_offset}, a batch begins at {header.base_offset}"
            )
        if not crc_is_valid(records, position, header):
            raise CorruptRecordError(f"The batch at offset {header.base_offset} of {log.topic_partition} is corrupt")
        next_offset = header.next_offset
        if header.max_timestamp > max_timestamp:
            max_timestamp, max_timestamp_offset = header.max_timestamp, header.last_offset
    content = memoryview(records)[:size]
    first_offset = batches[0][1].base_offset
    if batches[0][1].magic < MAGIC:
        # A wrapper names its last offset; its first one is not below the log's end, nor further than a segment reaches.
        first_offset = max(log.log_end_offset, next_offset - 1 - MAX_RELATIVE_OFFSET)
    added = AppendedRange(first_offset, next_offset - 1, max_timestamp, max_timestamp_offset, size)
    for _, header in batches:
        _note_epoch(log, header, size)
    segment = _write(log, content, added)
    for position, header in batches:
        aborted = log.producer_state.replay(header, content[position : position + header.size])
        if aborted is not None:
            segment.transaction_index.append(aborted)
    _flush_if_due(log)
    return AppendResult(first_offset, next_offset - 1, max_timestamp, NO_APPEND_TIME, log.log_start_offset, False, size)


def _note_epoch(log: "Log", header: BatchHeader, size: int) -> None:
    if header.magic < MAGIC:
        _forget_epochs(log, size)
        return
    epochs = log.leader_epochs
    # A batch that was refused after all may have noted its epoch further up, beyond a gap.
    if header.partition_leader_epoch > epochs.latest or header.base_offset < epochs.latest_start_offset:
        with as_storage_error(log, "written"):
            epochs.assign(header.partition_leader_epoch, header.base_offset)


def _forget_epochs(log: "Log", size: int) -> None:
    """A message set has no epoch: what is known of epochs would mislead followers after it, so Kafka drops it too.

    Not for ``size`` bytes that no segment may hold (Kafka does it before it refuses them).
    """
    check_size(log.config, size)
    if log.leader_epochs.entries:
        logger.warning("Forgetting the leader epochs of %s: a message set of an old format came", log.topic_partition)
        with as_storage_error(log, "written"):
            log.leader_epochs.clear()


def _write(log: "Log", content: bytes | bytearray | memoryview, added: AppendedRange) -> Segment:
    segment = log.segments.active
    try:
        if must_roll(log, segment, added):
            segment = roll(log, added.first_offset)
        position = segment.append(content, added, log.config.index_interval_bytes)
    except OSError as error:
        try:
            log.storage.files.truncate(segment.log.path, segment.size)
        except OSError:
            segment.is_preallocated = True  # behind what is written there is more; no other segment may follow on that
        if segment.base_offset > log.log_end_offset:
            take_back(log)
        raise storage_error(log, "written", error) from error
    log.is_failing = False
    log.log_end_offset = added.last_offset + 1
    tail = log.tail
    if len(tail) >= TAIL_BATCHES:
        for offset in list(tail)[: TAIL_BATCHES // 2]:
            del tail[offset]
    tail[added.first_offset] = position
    return segment


def _flush_if_due(log: "Log") -> None:
    durability, messages = log.durability, log.config.flush_messages
    if durability.follows_appends:
        durability.sync_appends()
    elif log.log_end_offset >= messages and durability.unflushed >= messages:  # the latter is never more: saves a call
        durability.flush_messages()
