"""Dropping the end of a log, or all of it: a follower does that to agree with its leader."""

from typing import TYPE_CHECKING

from kafkapy.storage import recovery
from kafkapy.storage.removal import delete_segment_files
from kafkapy.storage.rolling import begin

if TYPE_CHECKING:
    from kafkapy.storage.log import Log


def truncate_to(log: "Log", offset: int) -> bool:
    """See ``Log.truncate_to``."""
    assert offset >= 0, offset
    if offset >= log.log_end_offset:
        log.leader_epochs.truncate_from_end(offset)
        return False
    if offset < log.segments.first.base_offset:
        truncate_fully_and_start_at(log, offset)
        return True
    if offset < log.segments.active.base_offset:
        log.storage.about_to_cut(log, offset)
    start_offset = min(log.log_start_offset, offset)
    kept = log.segments.floor(offset)
    # The segment that is cut counts as not flushed, so that the next flush makes the cut last, too.
    _lower(log, start_offset, log.segments.starting_at(kept)[0].base_offset)
    delete_segment_files(log, log.segments.cut(kept + 1)[::-1])
    log.segments.active.truncate_to(offset, log.storage.clock.now_ms())
    _finish(log, start_offset, offset)
    log.leader_epochs.truncate_from_end(offset)
    return True


def truncate_fully_and_start_at(log: "Log", offset: int) -> None:
    """See ``Log.truncate_fully_and_start_at``."""
    log.storage.about_to_cut(log, min(offset, log.log_start_offset))
    _lower(log, min(log.log_start_offset, offset), offset)
    delete_segment_files(log, log.segments.cut(0)[::-1])
    begin(log, offset)
    log.producer_state.delete_snapshots(above=-1)
    _finish(log, offset, offset)
    log.leader_epochs.clear()


def _lower(log: "Log", start_offset: int, recovery_point: int) -> None:
    """Checkpoints fall before the files are cut; flushes that were begun count no more."""
    log.truncations += 1
    log.recovery_point = min(log.recovery_point, recovery_point)
    log.durability.fall_to(recovery_point)
    log.log_start_offset = start_offset
    log.storage.offsets_fall(log)


def _finish(log: "Log", start_offset: int, end_offset: int) -> None:
    log.tail.clear()
    log.log_start_offset = start_offset
    log.log_end_offset = end_offset
    log.durability.truncated(end_offset)
    log.high_watermark = min(max(log.high_watermark, start_offset), end_offset)
    log.producer_state.map_end_offset = -1  # whatever it reflects, it is not this log any more
    recovery.rebuild_producer_state(log, end_offset)
    log.producer_state.high_watermark_moved(log.high_watermark)
