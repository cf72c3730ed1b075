"""The clean, dirty and uncleanable parts of a log, by the rules of Apache Kafka 2.7's ``LogCleanerManager``.

    log start … first dirty offset       clean: compacted before
    … first uncleanable offset           dirty: will be compacted
    … end                                uncleanable: from the first segment on that is active, holds the last stable
                                         offset, holds records that are not on the disk yet, or holds a record younger
                                         than ``min.compaction.lag.ms``

The last stable offset is never above the high watermark; 2.7 checks only open transactions, later releases both. A
record that is not on the disk yet supersedes none: in Apache Kafka a power failure could take both.
"""

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkapy.storage.log.segment import Segment

if TYPE_CHECKING:
    from kafkapy.storage.log.log import Log

logger: Final = logging.getLogger(__name__)
_NEVER_MS: Final = 2**63 - 1


class Cleanable(NamedTuple):
    """The result for one log. ``is_overdue``: a dirty record is older than ``max.compaction.lag.ms``."""

    log: "Log"
    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    is_overdue: bool

    @property
    def ratio(self) -> float:
        """The dirty bytes divided by the clean and dirty bytes."""
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    @property
    def is_due(self) -> bool:
        """Whether the log has enough dirty bytes, or has been dirty for long enough."""
        if not self.cleanable_bytes:
            return False
        return self.is_overdue or self.ratio > self.log.config.min_cleanable_dirty_ratio

    @property
    def may_become_due(self) -> bool:
        """Whether the log can become due without an append."""
        config = self.log.config
        return config.min_compaction_lag_ms > 0 or config.max_compaction_lag_ms != _NEVER_MS


def examine(log: "Log", checkpoint: int | None) -> Cleanable:
    """Measure the parts of ``log``; ``checkpoint`` is the end of the clean part, if known. Raises ``OSError``."""
    segments = log.segments
    first_dirty = _first_dirty_offset(log, checkpoint)
    dirty = _closed_from(log, first_dirty)
    bounds = [log.last_stable_offset, segments.active.base_offset, log.recovery_point]
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        youngest_ms = log.storage.clock.now_ms() - lag_ms
        bounds += [segment.base_offset for segment in dirty if _largest_timestamp(log, segment) > youngest_ms][:1]
    beyond = _closed_from(log, max(first_dirty, min(bounds)))
    first_uncleanable = (beyond[0] if beyond else segments.active).base_offset
    return Cleanable(
        log,
        first_dirty,
        first_uncleanable,
        sum(segment.size for segment in segments if segment.base_offset < first_dirty),
        sum(segment.size for segment in dirty if segment.base_offset < first_uncleanable),
        _is_overdue(log, dirty),
    )


def _first_dirty_offset(log: "Log", checkpoint: int | None) -> int:
    start_offset = log.log_start_offset
    if checkpoint is None or checkpoint < start_offset:
        return start_offset
    if checkpoint > log.log_end_offset:
        logger.warning(
            "%s ends at %d, below the end of its clean part in the checkpoint (%d): it is compacted from its start",
            log.topic_partition,
            log.log_end_offset,
            checkpoint,
        )
        return start_offset
    return checkpoint


def _closed_from(log: "Log", offset: int) -> list[Segment]:
    """The segments below the active one that hold ``offset`` or more."""
    segments = log.segments
    if offset >= segments.active.base_offset:
        return []
    return segments.between(offset, segments.active.base_offset)


def _largest_timestamp(log: "Log", segment: Segment) -> int:
    return segment.max_timestamp if segment.max_timestamp >= 0 else log.storage.files.modified_ms(segment.log.path)


def _is_overdue(log: "Log", dirty: Iterable[Segment]) -> bool:
    lag_ms = log.config.max_compaction_lag_ms
    if lag_ms == _NEVER_MS:
        return False
    firsts = [first for segment in dirty if segment.size and (first := segment.first_timestamp()) > 0]
    return bool(firsts) and min(firsts) < log.storage.clock.now_ms() - max(lag_ms, 0)
