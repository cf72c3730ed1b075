"""A clean stop of a log in two steps, so that the files of many logs can be fsynced together in between."""

from typing import TYPE_CHECKING

from kafkapy.storage.flusher import sync_all

if TYPE_CHECKING:
    from kafkapy.storage.log import Log


def close(log: "Log") -> None:
    """See ``Log.close``."""
    sync_all(log.storage.files, finish(log))
    finished(log)


def finish(log: "Log") -> list[str]:
    """Write the producer snapshot and the final index entries; return the paths to fsync before ``finished``."""
    log.producer_state.map_end_offset = log.log_end_offset
    snapshot = log.producer_state.take_snapshot()
    log.segments.active.become_inactive()
    paths = log.paths_to_sync(log.log_end_offset, log.recovery_point) if log.log_end_offset > log.recovery_point else []
    return [*paths, snapshot] if snapshot else paths


def finished(log: "Log") -> None:
    """Everything is durable: the recovery point is the end; let go of descriptors."""
    log.flushed_up_to(log.log_end_offset, log.truncations, log.recovery_point)
    log.release()
