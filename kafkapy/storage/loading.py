"""The start of a broker's logs: look at every data directory first, touch them only when all of it may be touched.

What one directory's disk refuses takes that directory offline and the others go on. What says that somebody has to
decide (a foreign folder, one partition twice) stops the start, with the marks of a clean stop still in place.
"""

import logging
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkapy.config.log_config import LogConfig
from kafkapy.storage import stale_checkpoints
from kafkapy.storage.data_directory import DataDirectory
from kafkapy.storage.errors import KafkaStorageError, LogDirectoryError
from kafkapy.storage.recovery import Checkpointed
from kafkapy.types import TopicPartition

if TYPE_CHECKING:
    from kafkapy.storage.log_directory import LogManager

logger: Final = logging.getLogger(__name__)


class Found(NamedTuple):
    """What lies in one data directory."""

    directory: DataDirectory
    clean: bool
    checkpoints: dict[TopicPartition, Checkpointed]
    partitions: list[TopicPartition]
    leftovers: list[str]

    def checkpointed(self, partition: TopicPartition) -> Checkpointed:
        """What is known of a partition before its files are read."""
        return self.checkpoints.get(partition, Checkpointed(self.clean))


def survey(logs: "LogManager") -> list[Found]:
    """Look at every directory; raises ``LogDirectoryError`` when somebody has to decide."""
    found = [each for directory in logs.directories.online if (each := _survey(logs, directory)) is not None]
    _refuse_twins(found)
    _name_missing(found)
    for each in found:
        if each.partitions and not each.clean:
            logger.warning("Recovering %d logs of %s after an unclean stop", len(each.partitions), each.directory.path)
    return found


def load(
    logs: "LogManager",
    found: Sequence[Found],
    config_of: Callable[[str], LogConfig],
    mended: Collection[TopicPartition] = (),
) -> None:
    """Open what was found, without reading again what is ``mended``. See ``LogManager.load``."""
    for each in found:
        _load_directory(logs, each, config_of, mended)
    logs.directories.check_one_works()


def _survey(logs: "LogManager", directory: DataDirectory) -> Found | None:
    try:
        clean = directory.is_clean()
        return Found(directory, clean, directory.read_checkpoints(clean=clean), *directory.list_partitions())
    except OSError as error:
        logs.fail(directory, error)
        return None


def _name_missing(found: list[Found]) -> None:
    """Log the partitions that have a recovery point and no folder."""
    there = {partition for each in found for partition in each.partitions}
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


def _load_directory(
    logs: "LogManager",
    found: Found,
    config_of: Callable[[str], LogConfig],
    mended: Collection[TopicPartition],
) -> None:
    directory = found.directory
    try:
        directory.remove_clean_marker()
        for partition in found.partitions:
            checkpointed = found.checkpointed(partition)
            if partition in mended:
                checkpointed = checkpointed._replace(mended=True)
            logs.open(directory, partition, config_of(partition.topic), checkpointed)
        stale_checkpoints.lower_all(logs)
    except OSError as error:
        logs.fail(directory, error)
    except KafkaStorageError as error:
        if not isinstance(error.__cause__, OSError):
            raise
        logs.fail(directory, error.__cause__)
    else:
        for path in found.leftovers:
            logs.remove_later(path)
