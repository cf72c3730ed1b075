"""Checkpoints that say more than is true any more: after a crash they would make a start trust or drop records.

A recovery point above the end of a log that was truncated (or lost its tail, or is a new one under the name of a
deleted topic) makes the next start trust records that came later and were never flushed; a log start above it drops
them. So the file is written anew *before* offsets fall; Apache Kafka does it after a truncation and a deletion.
"""

from typing import TYPE_CHECKING, Final

from kafkapy.storage.checkpoints import HIGH_WATERMARK, LOG_START_OFFSET, RECOVERY_POINT
from kafkapy.storage.disk_errors import is_full
from kafkapy.storage.flusher import InlineFlusher

if TYPE_CHECKING:
    from kafkapy.storage.data_directory import DataDirectory
    from kafkapy.storage.log import Log
    from kafkapy.storage.log_directory import LogManager
    from kafkapy.types import TopicPartition

_INLINE: Final = InlineFlusher()


def lower(logs: "LogManager", log: "Log") -> None:
    """``log``'s recovery point or start have fallen, and its files follow: no checkpoint may be above them.

    Where a full disk has no space for lower recovery points, the file of the old ones is removed. Raises ``OSError``.
    """
    directory = logs.directories.containing(log.directory)
    if directory is not None:
        partition = log.topic_partition
        for name, offset in ((RECOVERY_POINT, log.recovery_point), (LOG_START_OFFSET, log.log_start_offset)):
            if directory.written_offset(name, partition) > offset:
                try:
                    directory.write_checkpoint(name, logs.offsets(name)[directory.path], _INLINE)
                except OSError as error:
                    if name != RECOVERY_POINT or not is_full(error):
                        raise
                    directory.remove_checkpoint(name)


def lower_all(logs: "LogManager") -> None:
    """All logs are loaded: those that lost their end, or begin anew, may be below what was written.

    Raises ``OSError``.
    """
    for log in logs.all_logs():
        lower(logs, log)


def forget(logs: "LogManager", directory: "DataDirectory", partition: "TopicPartition") -> None:
    """``partition`` is going to be made: nothing that was written of an earlier one of this name may stay.

    Raises ``OSError``.
    """
    for name in (RECOVERY_POINT, LOG_START_OFFSET, HIGH_WATERMARK):
        if directory.written_offset(name, partition) > 0:
            directory.write_checkpoint(name, logs.offsets(name)[directory.path], _INLINE)
