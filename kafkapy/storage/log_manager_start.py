"""The start of a broker's logs: all data directories are read before any of them is changed.

An error of one directory's disk takes that directory offline, and the start continues with the others. A problem that
the operator must decide (a foreign folder, one partition twice) stops the start; the marks of a clean stop are kept.
"""

import logging
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from kafkapy.config.log_config import LogConfig
from kafkapy.platform.disk_errors import is_full
from kafkapy.platform.errors import KafkaStorageError, LogDirectoryError
from kafkapy.platform.flusher import INLINE
from kafkapy.storage.checkpoints import RECOVERY_POINT, Checkpointed
from kafkapy.storage.data_directory import DataDirectory, PartitionFolders
from kafkapy.storage.log_manager import LogManager
from kafkapy.storage.lowered_checkpoints import lower_all_checkpoints
from kafkapy.turns import Steps, finish
from kafkapy.types import TopicPartition

logger = logging.getLogger(__name__)


def load_logs(logs: LogManager, config_of: Callable[[str], LogConfig] | None = None) -> None:
    """Open every log, and recover those of a directory whose last stop was unclean.

    ``config_of`` returns the configuration of a topic; ``parallel_recovery`` does the same with worker processes.
    Raises ``LogDirectoryError`` and ``KafkaStorageError`` with a message for the operator.
    """
    if not logs.directories.are_locked:
        logs.lock()
    finish(load_found(logs, survey(logs), config_of or (lambda _topic: logs.config)))


class Found(NamedTuple):
    """The content of one data directory."""

    directory: DataDirectory
    clean: bool
    checkpoints: dict[TopicPartition, Checkpointed]
    folders: PartitionFolders

    @property
    def partitions(self) -> list[TopicPartition]:
        """The partitions whose current logs are there."""
        return self.folders.partitions

    @property
    def paths(self) -> list[tuple[TopicPartition, str]]:
        """The partitions with their folders, current logs and future replicas."""
        current = [(partition, self.directory.partition_path(partition)) for partition in self.partitions]
        return [*current, *self.folders.futures.items()]

    def checkpointed(self, partition: TopicPartition) -> Checkpointed:
        """Return the checkpointed offsets of a partition, known before its files are read."""
        return self.checkpoints.get(partition, Checkpointed(self.clean))


def survey(logs: LogManager) -> list[Found]:
    """Read the names in every directory; raises ``LogDirectoryError`` for a problem that the operator must decide."""
    found = [each for directory in logs.directories.online if (each := _survey(logs, directory)) is not None]
    _refuse_twins(found)
    _keep_one_copy(found)
    _name_missing(found)
    for each in found:
        if each.paths and not each.clean:
            logger.warning("Recovering %d logs of %s after an unclean stop", len(each.paths), each.directory.path)
    return found


def load_found(
    logs: LogManager,
    found: Sequence[Found],
    config_of: Callable[[str], LogConfig],
    recovered: Collection[str] = (),
) -> Steps[None]:
    """Open the partitions found, without reading those in the folders ``recovered`` again. See ``load_logs``.

    A step is a log: many small ones may take seconds to recover.
    """
    for each in found:
        yield from _load_directory(logs, each, config_of, recovered)
    logs.directories.check_one_works()


def _survey(logs: LogManager, directory: DataDirectory) -> Found | None:
    try:
        clean = directory.is_clean()
        return Found(directory, clean, directory.read_checkpoints(clean=clean), directory.list_partitions())
    except OSError as error:
        logs.fail(directory, error)
        return None


def _name_missing(found: list[Found]) -> None:
    """Log the partitions that have a recovery point and no folder."""
    there = {partition for each in found for partition, _ in each.paths}
    for each in found:
        for partition, checkpointed in each.checkpoints.items():
            if checkpointed.recovery_point > 0 and partition not in there:
                logger.error(
                    "%s is missing: its records up to offset %d are lost%s",
                    each.directory.partition_path(partition),
                    checkpointed.recovery_point,
                    "" if each.clean else ", unless its topic was deleted before the stop",
                )


def _refuse_twins(found: list[Found]) -> None:
    homes: dict[TopicPartition, DataDirectory] = {}
    for each in found:
        for partition in each.partitions:
            home = homes.setdefault(partition, each.directory)
            if home is not each.directory:
                raise LogDirectoryError(
                    f"{partition} is in two data directories; remove one of {home.partition_path(partition)} "
                    f"and {each.directory.partition_path(partition)}"
                )


def _keep_one_copy(found: list[Found]) -> None:
    """Drop a partition's second future replica, and one in the current log's directory; a start would continue both.

    Both are copies. Apache Kafka refuses two future replicas of a partition.
    """
    kept: set[TopicPartition] = set()
    for each in found:
        for partition, path in list(each.folders.futures.items()):
            if partition in kept or partition in each.partitions:
                logger.warning("%s is removed: there is a better copy of %s", path, partition)
                del each.folders.futures[partition]
                each.folders.leftovers.append(path)
            else:
                kept.add(partition)


def _load_directory(
    logs: LogManager,
    found: Found,
    config_of: Callable[[str], LogConfig],
    recovered: Collection[str],
) -> Steps[None]:
    directory = found.directory
    try:
        directory.remove_clean_marker()
        for partition, path in found.paths:
            yield
            if directory.failure is not None:
                return  # since the last step; the logs that were opened are closed
            config, checkpointed = config_of(partition.topic), found.checkpointed(partition)
            if path in recovered:
                checkpointed = checkpointed._replace(recovered=True)
            if partition in found.folders.futures:
                logs.open_future(directory, path, partition, config, checkpointed)
                logger.info("%s is being moved to %s; copying goes on", partition, directory.path)
            else:
                logs.open(directory, partition, config, checkpointed)
        lower_all_checkpoints(logs)
        _raise_recovery_points(logs, directory)
    except OSError as error:
        logs.fail(directory, error)
    except KafkaStorageError as error:
        if not isinstance(error.__cause__, OSError):
            raise
        logs.fail(directory, error.__cause__)
    else:
        for path in found.folders.leftovers:
            logs.remove_later(path)


def _raise_recovery_points(logs: LogManager, directory: DataDirectory) -> None:
    """Write the recovery points if an unclean start has moved one: see ``recovery.load``. A full disk may refuse it.

    Raises ``OSError``.
    """
    offsets = logs.offsets(RECOVERY_POINT)[directory.path]
    if any(offset > directory.written_offset(RECOVERY_POINT, partition) for partition, offset in offsets.items()):
        try:
            directory.write_checkpoint(RECOVERY_POINT, offsets, INLINE)
        except OSError as error:
            if not is_full(error):
                raise
