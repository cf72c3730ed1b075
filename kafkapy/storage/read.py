"""Finding batches: by offset, by timestamp, and the aborted transactions among them."""

from typing import TYPE_CHECKING, NamedTuple

from kafkapy.records.errors import UnsupportedForMessageFormatError
from kafkapy.records.record import read_records
from kafkapy.storage.disk_errors import as_storage_error, storage_error
from kafkapy.storage.errors import OffsetOutOfRangeError
from kafkapy.storage.files import FileSlice
from kafkapy.storage.segment import Segment, TimestampOffset

if TYPE_CHECKING:
    from kafkapy.storage.log import Log


class LogRead(NamedTuple):
    """Batches found for an offset; the first one may begin below it and the last one be cut short."""

    records: FileSlice | bytes
    segment: Segment | None = None
    """Where the records are; None without any."""


class LogPosition(NamedTuple):
    """Place of an offset in a log's files: a segment, and a byte of its ``.log`` (Apache Kafka's LogOffsetMetadata)."""

    segment_base_offset: int
    position: int


def read(log: "Log", offset: int, max_bytes: int, up_to_offset: int | None, *, min_one_batch: bool) -> LogRead:
    """See ``Log.read``."""
    end_offset = log.log_end_offset
    if not log.log_start_offset <= offset <= end_offset:
        raise OffsetOutOfRangeError(
            f"Offset {offset} of {log.topic_partition} is not within {log.log_start_offset} and {end_offset}"
        )
    limit = end_offset if up_to_offset is None else min(up_to_offset, end_offset)
    if offset >= limit:
        return LogRead(b"")
    segments = log.segments
    active = segments.active
    candidates = [active] if offset >= active.base_offset else segments.starting_at(segments.floor(offset))
    try:
        for segment in candidates:
            found = position_of(log, segment, offset)
            if found is not None:
                start = found[0]
                end = _limit_position(log, segment, limit)
                size = _fitting(segment, found, end, max_bytes, min_one_batch=min_one_batch)
                return LogRead(segment.log.slice(start, size), segment) if size else LogRead(b"")
    except OSError as error:
        raise storage_error(log, "read", error) from error
    return LogRead(b"")


def position_of(log: "Log", segment: Segment, offset: int) -> tuple[int, int | None] | None:
    """Return (position, size if it is known) of the batch with ``offset``; None if ``segment`` ends below it."""
    if segment is log.segments.active:
        position = log.tail.get(offset)
        if position is not None:
            return position, None
    return segment.translate(offset)


def locate(log: "Log", offset: int) -> LogPosition:
    """See ``Log.locate``."""
    active = log.segments.active
    if offset < log.log_end_offset:
        with as_storage_error(log, "read"):
            for segment in log.segments.starting_at(log.segments.floor(offset)):
                found = position_of(log, segment, offset)
                if found is not None:
                    return LogPosition(segment.base_offset, found[0])
    return LogPosition(active.base_offset, active.size)


def _limit_position(log: "Log", segment: Segment, limit: int) -> int:
    if limit == log.log_end_offset:
        return segment.size
    found = position_of(log, segment, limit)
    return segment.size if found is None else found[0]


def _fitting(
    segment: Segment, found: tuple[int, int | None], end: int, max_bytes: int, *, min_one_batch: bool
) -> int:  # fmt: skip
    start, first = found
    available = end - start
    if available <= max_bytes:
        return max(available, 0)
    if first is None:
        first = segment.batch_size(start)
    if first <= max_bytes:
        return max_bytes
    return first if min_one_batch and first <= available else 0


def upper_bound(log: "Log", found: LogRead) -> int:
    """See ``Log.upper_bound``."""
    records, segment = found
    assert segment is not None, "nothing was found: it has no end"
    assert isinstance(records, FileSlice), "what is in a segment is a slice of it"
    with as_storage_error(log, "read"):
        offset = segment.offset_index.offset_from(records.position + records.size)
    if offset is not None:
        return offset
    after = log.segments.starting_at(log.segments.floor(segment.base_offset) + 1)
    return after[0].base_offset if after else log.log_end_offset


def aborted_transactions(log: "Log", start: int, end: int) -> list[tuple[int, int]]:
    """See ``Log.aborted_transactions``."""
    found = []
    with as_storage_error(log, "read"):
        for segment in log.segments.starting_at(log.segments.floor(start)):
            for entry in segment.transaction_index:
                if entry.last_offset >= start and entry.first_offset < end:
                    found.append((entry.producer_id, entry.first_offset))
                if entry.last_stable_offset >= end:
                    return found
    return found


def lookup_timestamp(log: "Log", timestamp_ms: int) -> TimestampOffset | None:
    """See ``Log.lookup_timestamp``."""
    if log.config.message_format == 0:
        raise UnsupportedForMessageFormatError(
            f"{log.topic_partition} has message.format.version {log.config.message_format_version}: no timestamps"
        )
    with as_storage_error(log, "read"):
        for segment in log.segments:
            if segment.size and segment.largest_timestamp >= timestamp_ms:
                return find_timestamp(segment, timestamp_ms, log.log_start_offset)
    return None


def find_timestamp(segment: Segment, timestamp: int, start_offset: int) -> TimestampOffset | None:
    """Return the first record from ``start_offset`` on that is at least as late as ``timestamp`` (ms)."""
    found = segment.translate(max(segment.time_index.lookup(timestamp), start_offset))
    if found is None:
        return None
    for _, header, content in segment.batches(found[0], segment.size):
        if header.max_timestamp >= timestamp:
            for record in read_records(content, header):
                if record.timestamp >= timestamp and record.offset >= start_offset:
                    return TimestampOffset(record.offset, record.timestamp)
    return None


def segment_times(log: "Log") -> list[tuple[int, int]]:
    """Return (first offset, ms of its file's last change) of each segment, then (end, now) unless the last is empty."""
    with as_storage_error(log, "read"):
        times = [(max(each.base_offset, log.log_start_offset), each.modified_ms) for each in log.segments]
    return [*times, (log.log_end_offset, log.storage.clock.now_ms())] if log.segments.active.size else times
