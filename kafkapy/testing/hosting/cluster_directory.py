"""The directory of a cluster whose data are kept: a folder for each broker, and the cluster's metadata beside them.

DIR/.lock                              held while the cluster runs
DIR/kafkapy-metadata.sqlite, .journal  the metadata of the whole cluster, as a single broker keeps its own
DIR/broker0, DIR/broker1, …            log.dirs of each broker

No partition's folder has such a name, so a single broker that is started on DIR by mistake refuses it.
"""

import os
from typing import Final

from kafkapy.metadata.embedded import FILE_NAME
from kafkapy.platform.files import Files
from kafkapy.storage.data_directory import META_PROPERTIES_NAME, DataDirectory
from kafkapy.testing.errors import BrokerStartError

FOLDER: Final = "broker"


class ClusterDirectory:
    """The kept data of one cluster; it is locked from ``open`` to ``close``."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: Final = os.path.abspath(path)
        self._files = Files()
        self._locked = DataDirectory(self._files, self.path)

    @property
    def store_path(self) -> str:
        """The path of the database with the cluster's metadata."""
        return f"{self.path}/{FILE_NAME}"

    def broker_path(self, broker_id: int) -> str:
        """The data directory of one broker."""
        return f"{self.path}/{FOLDER}{broker_id}"

    def broker_count(self) -> int:
        """How many brokers have kept data here, 0 if none; raises ``OSError``."""
        if not self._files.exists(self.path):
            return 0
        names = [name for name, size in self._files.list_directory(self.path) if size < 0]
        ids = [name.removeprefix(FOLDER) for name in names if name.startswith(FOLDER)]
        found = [int(each) for each in ids if each.isdecimal() and self._has_identity(int(each))]
        return max(found, default=-1) + 1

    def open(self, brokers: int) -> str | None:
        """Make and lock the directory for so many brokers; return the id of the cluster that it has, None if none.

        Raises ``BrokerStartError`` if it has the data of more brokers, of one that is no cluster's, or no metadata for
        its records, and ``LogDirectoryError`` when another process uses it.
        """
        try:
            return self._open(brokers)
        except OSError as error:
            raise BrokerStartError(f"{self.path} can't be used as a data directory: {error.strerror}") from error

    def _open(self, brokers: int) -> str | None:
        if self._files.exists(f"{self.path}/{META_PROPERTIES_NAME}"):
            raise BrokerStartError(
                f"{self.path} is the data directory of a single broker, by its {META_PROPERTIES_NAME}: choose another"
            )
        kept = self.broker_count()
        if kept > brokers:
            raise BrokerStartError(
                f"{self.path} has the data of {kept} brokers: a cluster of {brokers} would miss records, start {kept}"
            )
        self._locked.lock()
        from kafkapy.metadata.store_files import is_stored  # it imports SQLite, which a temporary cluster does not need

        cluster_id = self._cluster_id(kept)
        if cluster_id is not None and not is_stored(self.store_path):
            raise BrokerStartError(
                f"{self.store_path} and its journal are missing: they hold the topics and configurations of cluster"
                f" {cluster_id}, whose records are here; restore them from a backup of the directory"
            )
        return cluster_id

    def _cluster_id(self, brokers: int) -> str | None:
        for broker_id in range(brokers):
            identity = DataDirectory(self._files, self.broker_path(broker_id)).read_identity()
            if identity is not None and identity.cluster_id is not None:
                return identity.cluster_id
        return None

    def close(self) -> None:
        """Release the lock."""
        self._locked.unlock()

    def _has_identity(self, broker_id: int) -> bool:
        return self._files.exists(f"{self.broker_path(broker_id)}/{META_PROPERTIES_NAME}")
