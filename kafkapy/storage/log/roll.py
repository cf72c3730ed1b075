"""The rules by which a log begins a new segment: those of Apache Kafka 2.7's ``LogSegment.shouldRoll``, in its order.

A new segment begins when

- the append would make the segment larger than ``segment.bytes``;
- its last offset does not fit into 31 bits above the base, or an index is full;
- its largest timestamp is more than ``segment.ms`` (less the segment's jitter) after that of the segment's first batch;
  the clock decides where that batch has no timestamp; on a compacted topic ``max.compaction.lag.ms`` counts if it is
  shorter, since the active segment is never compacted.

An empty segment is rolled only because of its indexes or the offset.
"""

from kafkapy.clock import Clock
from kafkapy.config.log_config import LogConfig
from kafkapy.records.errors import RecordBatchTooLargeError
from kafkapy.storage.log.segment import MAX_RELATIVE_OFFSET, AppendedRange, Segment


def must_roll(segment: Segment, added: AppendedRange, config: LogConfig, clock: Clock) -> bool:
    """Return whether ``added`` needs a new segment after ``segment``, the active one.

    Raises ``RecordBatchTooLargeError`` if it is too large for any segment.
    """
    _, last_offset, max_timestamp, _, size = added
    if segment.size + size > config.segment_bytes:
        check_size(config, size)
        return True
    if last_offset - segment.base_offset > MAX_RELATIVE_OFFSET or segment.indexes_are_full:
        return True
    if segment.size == 0:
        return False
    return waited_ms(segment, clock, max_timestamp) > rolling_ms(config) - segment.roll_jitter_ms


def check_size(config: LogConfig, size: int) -> None:
    """Raise ``RecordBatchTooLargeError`` if ``size`` bytes are too large for any segment."""
    if size > config.segment_bytes:
        raise RecordBatchTooLargeError(
            f"The batch of {size} bytes is larger than segment.bytes, {config.segment_bytes}"
        )


def rolling_ms(config: LogConfig) -> int:
    """The time after which a segment is rolled, in ms."""
    if config.compact and config.max_compaction_lag_ms > 0:
        return min(config.max_compaction_lag_ms, config.segment_ms)
    return config.segment_ms


def waited_ms(segment: Segment, clock: Clock, max_timestamp: int) -> int:
    """The age of ``segment`` in ms, by its first batch's timestamp, or by the clock where that has none."""
    since = segment.first_timestamp()
    return max_timestamp - since if since >= 0 else clock.now_ms() - segment.created_ms


def next_base_offset(added: AppendedRange, log_end_offset: int) -> int:
    """The base offset of a segment that begins with ``added``: the log's end.

    A follower's batch may begin after a gap, which compaction has left in the leader's log; Apache Kafka names the
    segment by the batch then. Here no segment begins after a gap, unless the gap is too long for an index: with
    ``kafkapy.flush=ack``, a start treats missing offsets between two segments as lost ones.
    """
    first_offset, last_offset, _, _, _ = added
    return log_end_offset if last_offset - log_end_offset <= MAX_RELATIVE_OFFSET else first_offset
