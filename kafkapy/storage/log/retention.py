"""Deletes old segments of a log by the rules of Apache Kafka 2.7's ``Log.deleteOldSegments``.

From the oldest on, a segment is deleted if all of it is below the high watermark and one of these conditions holds:

- ``delete`` is among the cleanup policies, and its largest timestamp is more than ``retention.ms`` ago (the file's time
  of modification, where its records have no timestamps);
- ``delete`` is among them, and without it the log still has ``retention.bytes``;
- the next segment begins at or below the log's start, so that it holds nothing that can be read (DeleteRecords).

The active segment is deleted too if it meets a condition and has records: a new one is started first. A deletion moves
the log's start and drops leader epochs and producer snapshots below it; the files are removed after
``file.delete.delay.ms``.

A log may have tens of thousands of segments, as a client chooses ``segment.bytes``. So a deletion is done in steps, and
each step looks again at the log's first segments. If the log was truncated, or its segments or configuration were
changed between two steps, the deletion by this condition ends there: the rest is deleted the next time. After a crash
of the process between two steps, the log begins with the first remaining segment.
"""

import logging
from collections.abc import Callable
from typing import Final

from kafkapy.platform.disk_errors import as_storage_error, is_passing
from kafkapy.storage.log.log import SEGMENTS_IN_A_STEP, Log
from kafkapy.storage.log.segment import Segment
from kafkapy.turns import Steps

logger: Final = logging.getLogger(__name__)


def delete_old_segments(log: Log) -> Steps[int]:
    """Delete the old segments of ``log``, some in each step; return their number.

    The caller must not continue with the steps when the log was deleted or went offline, or when it is being compacted.
    Raises ``KafkaStorageError`` for an error of the disk; the remaining segments are deleted the next time.
    """
    with as_storage_error(log, "trimmed"):
        deleted = yield from _delete_by_time(log)
        deleted += yield from _delete_by_size(log)
        deleted += yield from _delete_below_start(log)
        log.leader_epochs.write_again(may_wait=True)
        return deleted


def _delete_by_time(log: Log) -> Steps[int]:
    retention_ms = log.config.retention_ms
    if retention_ms < 0 or not log.config.delete:
        return 0
    oldest_ms = log.storage.clock.now_ms() - retention_ms
    return (
        yield from _delete_while(
            log, lambda segment, _: segment.largest_timestamp < oldest_ms, "are older than retention.ms"
        )
    )


def _delete_by_size(log: Log) -> Steps[int]:
    retention_bytes = log.config.retention_bytes
    if retention_bytes < 0 or not log.config.delete:
        return 0
    surplus = log.size_bytes - retention_bytes  # bytes that are appended between two steps count in the next round

    def is_surplus(segment: Segment, _: Segment | None) -> bool:
        nonlocal surplus
        surplus -= segment.size
        return surplus >= 0

    return (yield from _delete_while(log, is_surplus, "are more than retention.bytes"))


def _delete_below_start(log: Log) -> Steps[int]:
    return (
        yield from _delete_while(
            log,
            lambda _, following: following is not None and following.base_offset <= log.log_start_offset,
            "lie below the log's start",
        )
    )


def _delete_while(log: Log, is_due: Callable[[Segment, Segment | None], bool], reason: str) -> Steps[int]:
    """Delete the first segments, as long as they are due; ``is_due`` gets each one once, with the one after it."""
    deleted = 0
    try:
        while due := _due_segments(log, is_due):
            if len(due) == len(log.segments) and not _begin_another(log):
                due.pop()  # the disk has no space for a new active segment: deleting the older ones frees some
            log.delete_oldest_segments(due)
            deleted += len(due)
            if len(due) < SEGMENTS_IN_A_STEP:
                break
            before = _state(log)
            yield
            if _state(log) != before:
                break
    finally:
        if deleted:
            start_offset = log.log_start_offset
            logger.info(
                "%s begins at offset %d now: %d of its segments %s", log.topic_partition, start_offset, deleted, reason
            )
    return deleted


def _state(log: Log) -> tuple[object, ...]:
    """The state on which the due segments depend, except new batches; an append or a roll does not change it."""
    return log.segments.first, log.truncations, log.config


def _begin_another(log: Log) -> bool:
    """Roll ``log`` unless the disk is full; raises ``OSError`` for other errors."""
    try:
        log.roll()
    except OSError as error:
        if not is_passing(error):
            raise
        return False
    return True


def _due_segments(log: Log, is_due: Callable[[Segment, Segment | None], bool]) -> list[Segment]:
    """Return the first segments, if they are due: at most as many as one step deletes."""
    due: list[Segment] = []
    oldest = log.segments.oldest(SEGMENTS_IN_A_STEP + 1)
    for place, segment in enumerate(oldest[:SEGMENTS_IN_A_STEP]):
        following = oldest[place + 1] if place + 1 < len(oldest) else None
        end_offset = log.log_end_offset if following is None else following.base_offset
        is_empty_end = following is None and segment.size == 0
        if log.high_watermark < end_offset or is_empty_end or not is_due(segment, following):
            break
        due.append(segment)
    return due
