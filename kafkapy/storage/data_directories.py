"""The data directories of a broker: their locks, their identity, and which of them are offline."""

import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from kafkapy.platform.disk_errors import is_full
from kafkapy.platform.errors import KafkaStorageError, LogDirectoryError
from kafkapy.platform.files import Files
from kafkapy.storage.data_directory import DataDirectory, MetaProperties
from kafkapy.storage.errors import LogDirNotFoundError

logger: Final = logging.getLogger(__name__)


class DataDirectories:
    """``log.dirs``. A directory that can't be used is offline until the next start; the others stay in use."""

    def __init__(self, files: Files, paths: Sequence[str]) -> None:
        self._directories = [DataDirectory(files, path.rstrip("/") or "/") for path in paths]
        self._files = files
        self._locked = False

    def __iter__(self) -> Iterator[DataDirectory]:
        return iter(self._directories)

    @property
    def online(self) -> list[DataDirectory]:
        """The directories that can be used."""
        return [directory for directory in self._directories if directory.failure is None]

    @property
    def offline(self) -> list[DataDirectory]:
        """The directories that can't be used."""
        return [directory for directory in self._directories if directory.failure is not None]

    def containing(self, path: str) -> DataDirectory | None:
        """Return the directory that ``path`` is, or that contains it."""
        for directory in self._directories:
            if path == directory.path or path.startswith(directory.path + "/"):
                return directory
        return None

    def named(self, path: str) -> DataDirectory:
        """Return the directory of exactly this absolute path, as Apache Kafka does.

        Raises ``LogDirNotFoundError``, and ``KafkaStorageError`` if the directory is offline.
        """
        for directory in self._directories:
            if directory.absolute_path == path:
                if directory.failure is not None:
                    raise KafkaStorageError(f"the data directory {path} is offline")
                return directory
        raise LogDirNotFoundError(f"{path!r} is none of log.dirs")

    def check_one_works(self) -> None:
        """Raise ``LogDirectoryError``, with every reason, when all are offline."""
        if not self.online:
            reasons = [f"{each.path} can't be used as a data directory: {each.failure}" for each in self]
            raise LogDirectoryError("; ".join(reasons))

    def lock(self, fail: Callable[[DataDirectory, OSError], None]) -> MetaProperties | None:
        """Make and lock the directories, unless that is done; return their identity, or None when they are new.

        ``fail`` is called for each directory that can't be used. Raises ``LogDirectoryLockedError``, and
        ``LogDirectoryError`` when they belong to different brokers, one is listed twice, or none can be used.
        """
        if len({os.path.realpath(directory.path) for directory in self}) < len(self._directories):
            raise LogDirectoryError("log.dirs names one directory twice; name each once")
        found: set[MetaProperties] = set()
        for directory in self:
            try:
                if not self._locked:
                    directory.lock()
                identity = directory.read_identity()
            except OSError as error:
                fail(directory, error)
            else:
                found |= {identity} if identity else set()
        self._locked = True
        self.check_one_works()
        if len(found) > 1:
            raise LogDirectoryError(
                f"The data directories belong to different brokers by their meta.properties: {sorted(map(str, found))}"
            )
        return found.pop() if found else None

    @property
    def are_locked(self) -> bool:
        """Whether ``lock`` was called."""
        return self._locked

    def unlock(self) -> None:
        """Release the locks."""
        for directory in self:
            directory.unlock()
        self._locked = False

    def check_identity(self, broker_id: int, cluster_id: str) -> None:
        """Raise ``ClusterIdMismatchError`` or ``BrokerIdMismatchError`` when a directory is another broker's."""
        for directory in self.online:
            directory.check_identity(MetaProperties(broker_id, cluster_id))

    def write_identity(self, broker_id: int, cluster_id: str, now_ms: int) -> None:
        """Write the broker's identity into each directory; called once the broker is registered."""
        self.check_identity(broker_id, cluster_id)
        date = time.strftime("%a %b %d %H:%M:%S UTC %Y", time.gmtime(now_ms // 1000))
        for directory in self.online:
            try:
                directory.write_identity(MetaProperties(broker_id, cluster_id), date)
            except OSError as error:
                if not is_full(error):
                    raise
                logger.error("%s has no meta.properties yet, the next start will try again: %s", directory.path, error)
