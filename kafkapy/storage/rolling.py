"""When a log begins a new segment, and how: the rules of Apache Kafka 2.7's ``LogSegment.shouldRoll``, in its order.

- the append would make the segment larger than ``segment.bytes``;
- its largest timestamp is more than ``segment.ms`` (less the segment's jitter) after that of the segment's first batch;
  the clock decides where that batch has no timestamp; on a compacted topic ``max.compaction.lag.ms`` counts if it is
  shorter, since the active segment is never compacted;
- an index is full;
- its last offset does not fit 31 bits above the base.

An empty segment is left only for its indexes or for an offset.
"""

from typing import TYPE_CHECKING

from kafkapy.records.errors import RecordBatchTooLargeError
from kafkapy.storage.segment import MAX_RELATIVE_OFFSET, AppendedRange, Segment

if TYPE_CHECKING:
    from kafkapy.clock import Clock
    from kafkapy.config.log_config import LogConfig
    from kafkapy.storage.log import Log


def must_roll(log: "Log", segment: Segment, added: AppendedRange) -> bool:
    """Tell whether ``added`` belongs into a new segment.

    Raises ``RecordBatchTooLargeError`` for what no segment may hold.
    """
    _, last_offset, max_timestamp, _, size = added
    if segment.size + size > log.config.segment_bytes:
        check_size(log.config, size)
        return True
    if last_offset - segment.base_offset > MAX_RELATIVE_OFFSET or segment.indexes_are_full:
        return True
    if segment.size == 0:
        return False
    return waited_ms(segment, log.storage.clock, max_timestamp) > log.segment_ms - segment.roll_jitter_ms


def check_size(config: "LogConfig", size: int) -> None:
    """Raise ``RecordBatchTooLargeError`` for what no segment may hold."""
    if size > config.segment_bytes:
        raise RecordBatchTooLargeError(
            f"The batch of {size} bytes is larger than segment.bytes, {config.segment_bytes}"
        )


def segment_ms(config: "LogConfig") -> int:
    """How long a segment collects, in ms."""
    if config.compact and config.max_compaction_lag_ms > 0:
        return min(config.max_compaction_lag_ms, config.segment_ms)
    return config.segment_ms


def waited_ms(segment: Segment, clock: "Clock", max_timestamp: int) -> int:
    """How long ``segment`` has been collecting, by its first batch's timestamp or else by the clock."""
    since = segment.first_timestamp()
    return max_timestamp - since if since >= 0 else clock.now_ms() - segment.created_ms


def roll(log: "Log", base_offset: int) -> Segment:
    """See ``Log.roll``."""
    active = log.segments.active
    if base_offset == active.base_offset:
        return active
    written = active.become_inactive()
    segment = log.new_segment(base_offset)
    state = log.producer_state
    try:
        _create(log, segment)
        state.map_end_offset = base_offset
        snapshot = state.take_snapshot()
    except OSError:
        # The log goes on in the segment that it has: an empty one beside it would hide what comes, after a start.
        state.map_end_offset = log.log_end_offset
        _remove(log, segment)
        raise
    log.segments.add(segment)
    log.tail.clear()
    log.durability.flush_later(base_offset, [*written, snapshot] if snapshot else written)
    return segment


def _remove(log: "Log", segment: Segment) -> None:
    """What is left of ``segment``, which was begun in vain, goes, and snapshots above the log's end with it.

    A start would take either for the log's end, or skip what lies before: if they stay nothing more may be written.
    """
    try:
        segment.remove()
        log.producer_state.delete_snapshots(above=log.log_end_offset)
    except OSError as error:
        log.storage.disk_failed(log.directory, error)


def take_back(log: "Log") -> None:
    """The append that a segment was begun for, beyond a gap, has failed: what comes next may lie within the gap."""
    (segment,) = log.segments.cut(len(log.segments) - 1)
    log.truncations += 1
    log.recovery_point = min(log.recovery_point, log.log_end_offset)
    log.durability.fall_to(log.log_end_offset)
    log.durability.truncated(log.log_end_offset)
    log.producer_state.map_end_offset = log.log_end_offset
    _remove(log, segment)


def begin(log: "Log", base_offset: int) -> Segment:
    """Add a new segment at the log's end; with ``preallocate`` its file has ``segment.bytes`` from the start."""
    segment = log.new_segment(base_offset)
    _create(log, segment)
    log.segments.add(segment)
    return segment


def _create(log: "Log", segment: Segment) -> None:
    segment.create(log.config.segment_bytes if log.config.preallocate else 0)
