"""Lowers checkpoints that are above a log's offsets: after a crash a start would trust or drop records because of them.

A recovery point above the end of a log that was truncated (or lost its tail, or is a new log with the name of a
deleted topic) makes the next start trust records that came later and were never flushed; a log start above the end
drops them. So the file is written *before* the offsets are lowered; Apache Kafka does it after a truncation and a
deletion.
"""

from collections.abc import Iterable
from typing import Protocol

from kafkapy.platform.disk_errors import is_full
from kafkapy.platform.flusher import INLINE
from kafkapy.storage.checkpoints import HIGH_WATERMARK, LOG_START_OFFSET, RECOVERY_POINT
from kafkapy.storage.data_directories import DataDirectories
from kafkapy.storage.data_directory import DataDirectory
from kafkapy.storage.log.log import Log
from kafkapy.types import TopicPartition


class CheckpointedLogs(Protocol):
    """The part of ``LogManager`` that is used here."""

    @property
    def directories(self) -> DataDirectories:
        """The data directories that have the checkpoints."""

    def offsets(self, name: str) -> dict[str, dict[TopicPartition, int]]:
        """Return, for each data directory, the present content of its checkpoint ``name``."""

    def all_logs(self) -> Iterable[Log]:
        """Return every log."""

    def future_logs(self) -> Iterable[Log]:
        """Return every future replica."""


def lower_checkpoints(logs: CheckpointedLogs, log: Log) -> None:
    """Lower the checkpoints to ``log``'s recovery point and start, which were lowered, before its files are cut.

    If a full disk has no space for the new recovery points, the file with the old ones is removed. Raises ``OSError``.
    """
    directory = logs.directories.containing(log.directory)
    if directory is not None:
        partition = log.topic_partition
        for name, offset in ((RECOVERY_POINT, log.recovery_point), (LOG_START_OFFSET, log.log_start_offset)):
            if directory.written_offset(name, partition) > offset:
                try:
                    directory.write_checkpoint(name, logs.offsets(name)[directory.path], INLINE)
                except OSError as error:
                    if name != RECOVERY_POINT or not is_full(error):
                        raise
                    directory.remove_checkpoint(name)


def lower_all_checkpoints(logs: CheckpointedLogs) -> None:
    """Lower the checkpoints after all logs were loaded: some may have lost their end, or all records.

    Raises ``OSError``.
    """
    for log in (*logs.all_logs(), *logs.future_logs()):
        lower_checkpoints(logs, log)


def forget_checkpoints(logs: CheckpointedLogs, directory: DataDirectory, partition: TopicPartition) -> None:
    """Remove the checkpointed offsets of an earlier partition of this name before ``partition`` is created.

    Raises ``OSError``.
    """
    for name in (RECOVERY_POINT, LOG_START_OFFSET, HIGH_WATERMARK):
        if directory.written_offset(name, partition) > 0:
            directory.write_checkpoint(name, logs.offsets(name)[directory.path], INLINE)
