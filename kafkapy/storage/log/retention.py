"""Deletes old segments of a log by the rules of Apache Kafka 2.7's ``Log.deleteOldSegments``.

From the oldest on, a segment is deleted if all of it is below the high watermark and one of these conditions holds:

- ``delete`` is among the cleanup policies, and its largest timestamp is more than ``retention.ms`` ago (the file's time
  of modification, where its records have no timestamps);
- ``delete`` is among them, and without it the log still has ``retention.bytes``;
- the next segment begins at or below the log's start, so that it holds nothing that can be read (DeleteRecords).

The active segment is deleted too if it meets a condition and has records: a new one is begun first. A deletion moves
the log's start and drops leader epochs and producer snapshots below it; the files are removed after
``file.delete.delay.ms``.
"""

import logging
from collections.abc import Callable
from typing import Final

from kafkapy.storage.io.disk_errors import as_storage_error, is_passing
from kafkapy.storage.log.log import Log
from kafkapy.storage.log.segment import Segment

logger: Final = logging.getLogger(__name__)


def delete_old_segments(log: Log) -> int:
    """Delete the old segments of ``log``; return their number.

    Raises ``KafkaStorageError`` for an error of the disk; the remaining segments are deleted the next time.
    """
    with as_storage_error(log, "trimmed"):
        deleted = 0
        if log.config.delete:
            deleted = _delete_by_time(log) + _delete_by_size(log)
        return deleted + _delete_below_start(log)


def _delete_by_time(log: Log) -> int:
    retention_ms = log.config.retention_ms
    if retention_ms < 0:
        return 0
    oldest_ms = log.storage.clock.now_ms() - retention_ms
    return _delete_while(log, lambda segment, _: segment.largest_timestamp < oldest_ms, "are older than retention.ms")


def _delete_by_size(log: Log) -> int:
    retention_bytes = log.config.retention_bytes
    if retention_bytes < 0:
        return 0
    surplus = log.size_bytes - retention_bytes

    def is_surplus(segment: Segment, _: Segment | None) -> bool:
        nonlocal surplus
        surplus -= segment.size
        return surplus >= 0

    return _delete_while(log, is_surplus, "are more than retention.bytes")


def _delete_below_start(log: Log) -> int:
    start_offset = log.log_start_offset
    return _delete_while(
        log,
        lambda _, following: following is not None and following.base_offset <= start_offset,
        "lie below the log's start",
    )


def _delete_while(log: Log, is_due: Callable[[Segment, Segment | None], bool], reason: str) -> int:
    due = _due_segments(log, is_due)
    if len(due) == len(log.segments) and not _begin_another(log):
        due.pop()  # the disk has no space for a new active segment: deleting the older ones frees some
    if not due:
        return 0
    log.delete_oldest_segments(due)
    logger.info(
        "%s begins at offset %d now: %d of its segments %s", log.topic_partition, log.log_start_offset, len(due), reason
    )
    return len(due)


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
    due: list[Segment] = []
    segments = list(log.segments)
    for place, segment in enumerate(segments):
        following = segments[place + 1] if place + 1 < len(segments) else None
        end_offset = log.log_end_offset if following is None else following.base_offset
        is_empty_end = following is None and segment.size == 0
        if log.high_watermark < end_offset or is_empty_end or not is_due(segment, following):
            break
        due.append(segment)
    return due
