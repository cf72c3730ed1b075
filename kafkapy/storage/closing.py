"""A clean stop of a log in two steps, so that the files of many logs can be fsynced together in between."""

import logging
from typing import TYPE_CHECKING, Final

from kafkapy.storage.checkpoints import HIGH_WATERMARK, LOG_START_OFFSET, RECOVERY_POINT
from kafkapy.storage.flusher import InlineFlusher, sync_all, sync_in_parallel

if TYPE_CHECKING:
    from kafkapy.storage.data_directory import DataDirectory
    from kafkapy.storage.log import Log
    from kafkapy.storage.log_directory import LogManager

logger: Final = logging.getLogger(__name__)


def close(log: "Log") -> None:
    """See ``Log.close``."""
    sync_all(log.storage.files, finish(log))
    finished(log)


def finish(log: "Log") -> list[str]:
    """Write the producer snapshot and the final index entries; return the paths to fsync before ``finished``."""
    log.producer_state.map_end_offset = log.log_end_offset
    snapshot = log.producer_state.take_snapshot()
    written = log.segments.active.become_inactive()
    log.leader_epochs.write_again()
    paths = [*log.durability.paths_to_close(), *written]
    return [*paths, snapshot] if snapshot else paths


def finished(log: "Log") -> None:
    """Everything is durable: the recovery point is the end; let go of descriptors."""
    log.durability.closed()
    log.release()


def close_all(logs: "LogManager") -> None:
    """Close every log and mark the data directories whose disks took all of it as clean."""
    by_directory: dict[str | None, list[Log]] = {}
    for log in logs.all_logs():
        by_directory.setdefault(logs.directory_of(log.topic_partition), []).append(log)
    for directory in logs.directories.online:
        try:
            _close_directory(logs, directory, by_directory.get(directory.path, []))
        except OSError as error:
            logger.error(
                "The logs of %s could not be closed cleanly, the next start will recover them: %s",
                directory.path,
                error,
            )


def abandon_all(logs: "LogManager") -> None:
    """Let go of every log and directory as a killed process would: nothing is written, the next start recovers."""
    logs.storage.flusher.close()
    for log in logs.all_logs():
        log.release()
    logs.directories.unlock()


def _close_directory(logs: "LogManager", directory: "DataDirectory", held: list["Log"]) -> None:
    sync_in_parallel(logs.storage.files, [path for log in held for path in finish(log)])
    for log in held:
        finished(log)
        log.delete_old_snapshots()
    for name in (RECOVERY_POINT, HIGH_WATERMARK, LOG_START_OFFSET):
        directory.write_checkpoint(name, logs.offsets(name)[directory.path], InlineFlusher())
    directory.mark_clean()
