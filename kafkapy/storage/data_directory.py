"""One of ``log.dirs``: its lock, its identity, its checkpoints and the partitions' folders in it."""

import logging
import os
import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple
from uuid import UUID, uuid4

from kafkapy.platform.file_lock import HeldLock
from kafkapy.platform.files import TEMPORARY_SUFFIX, Files
from kafkapy.platform.flusher import Flusher
from kafkapy.storage.checkpoints import (
    CLEANER,
    HIGH_WATERMARK,
    LOG_START_OFFSET,
    RECOVERY_POINT,
    Checkpointed,
    CheckpointFile,
    OffsetCheckpoint,
)
from kafkapy.storage.errors import (
    BrokerIdMismatchError,
    ClusterIdMismatchError,
    ForeignDirectoryError,
    MalformedCheckpointError,
    UnknownIdentityVersionError,
)
from kafkapy.storage.partition_metadata import read_topic_id
from kafkapy.types import TopicPartition

logger: Final = logging.getLogger(__name__)

LOCK_NAME: Final = ".lock"
CLEAN_SHUTDOWN_NAME: Final = ".kafka_cleanshutdown"
META_PROPERTIES_NAME: Final = "meta.properties"
DELETE_SUFFIX: Final = "-delete"
FUTURE_SUFFIX: Final = "-future"
MAX_NAME_LENGTH: Final = 255
FUTURE_NAME_LENGTH: Final = len(f".{'0' * 32}{FUTURE_SUFFIX}")
IDENTITY_VERSION: Final = "0"

WITHOUT_CHECKPOINT: Final = {
    RECOVERY_POINT: "after an unclean stop every log is read from its start",
    HIGH_WATERMARK: "high watermarks begin at the logs' starts",
    LOG_START_OFFSET: "logs begin at their first segments",
    CLEANER: "compacted logs are compacted from their starts",
}
"""The effect of a missing checkpoint, by its name."""

_PARTITION = re.compile(r"([a-zA-Z0-9._-]{1,249})-(\d+)")
_RENAMED = re.compile(r"(.+)\.[0-9a-f]{32}-(delete|future)")


class MetaProperties(NamedTuple):
    """The broker and the cluster that a data directory belongs to."""

    broker_id: int | None
    cluster_id: str | None


def parse_partition(name: str) -> TopicPartition | None:
    """Return the partition of a folder's name; None if it is no partition's name."""
    match = _PARTITION.fullmatch(name)
    return TopicPartition(match[1], int(match[2])) if match else None


def fits_future_name(partition: TopicPartition) -> bool:
    """Tell whether the name of the partition's folder is short enough while it is copied to another directory."""
    return len(str(partition)) + FUTURE_NAME_LENGTH <= MAX_NAME_LENGTH


class PartitionFolders(NamedTuple):
    """The folders in a data directory; a future replica is a partition's copy that is not complete yet (KIP-113)."""

    partitions: list[TopicPartition]
    leftovers: list[str]
    """The paths of folders that are to be removed."""
    futures: dict[TopicPartition, str]
    """The paths of the future replicas."""


def remove_empty_folder(files: Files, path: str) -> None:
    """Remove an empty folder at a path where a file must be; raises ``ForeignDirectoryError`` if it is not empty."""
    if not files.is_directory(path):
        return
    if files.list_directory(path):
        raise ForeignDirectoryError(f"{path} is a folder in the place of a file, and not empty; move it elsewhere")
    logger.warning("%s is an empty folder in the place of a file: it is removed, and the file counts as missing", path)
    files.remove_directory(path)


class DataDirectory:
    """A folder that one broker uses at a time; ``failure`` is the reason why it is offline, if it is."""

    def __init__(self, files: Files, path: str) -> None:
        self.path = path
        self.absolute_path = path if os.path.isabs(path) else os.path.join(os.getcwd(), path)
        """The path that DescribeLogDirs answers, and by which AlterReplicaLogDirs names the directory."""
        self.partition_count = 0
        self.failure: str | None = None
        self._files = files
        self._lock: HeldLock | None = None
        self._checkpoints = {
            name: CheckpointFile(OffsetCheckpoint(files, f"{path}/{name}"))
            for name in (RECOVERY_POINT, HIGH_WATERMARK, LOG_START_OFFSET, CLEANER)
        }

    def lock(self) -> None:
        """Make the folder and lock it; empty folders in the place of files are removed.

        Raises ``LogDirectoryLockedError``, and ``ForeignDirectoryError`` when such a folder is not empty.
        """
        is_new = not self._files.exists(self.path)
        self._files.make_directory(self.path)
        if is_new:
            self._files.sync_path(os.path.dirname(self.path) or ".")
        remove_empty_folder(self._files, f"{self.path}/{LOCK_NAME}")
        self._lock = self._files.lock(f"{self.path}/{LOCK_NAME}")
        for name in (META_PROPERTIES_NAME, CLEAN_SHUTDOWN_NAME, *self._checkpoints):
            for suffix in ("", TEMPORARY_SUFFIX):
                remove_empty_folder(self._files, f"{self.path}/{name}{suffix}")

    def unlock(self) -> None:
        """Release the lock."""
        self._lock = None

    # identity

    def read_identity(self) -> MetaProperties | None:
        """Return the identity in ``meta.properties``; None when there is no such file, or it lacks the ids.

        Raises ``UnknownIdentityVersionError``.
        """
        path = f"{self.path}/{META_PROPERTIES_NAME}"
        if not self._files.exists(path):
            return None
        lines = self._files.read(path).decode("utf-8", "replace").splitlines()
        pairs = [line.split("=", 1) for line in lines if "=" in line and not line.startswith(("#", "!"))]
        values = {key.strip(): value.strip() for key, value in pairs}
        if "version" in values and values["version"] != IDENTITY_VERSION:
            raise UnknownIdentityVersionError(
                f"{path} is of version {values['version']!r}, this broker knows version {IDENTITY_VERSION}; "
                "choose another directory, or repair the file if it is damaged"
            )
        broker_id = values.get("broker.id", "")
        identity = MetaProperties(
            int(broker_id) if broker_id.isdecimal() else None, values.get("cluster.id") or None
        )  # fmt: skip
        if identity.broker_id is None or identity.cluster_id is None:
            logger.warning("%s is damaged: it lacks the broker's or the cluster's id; it is written again", path)
        return None if identity == (None, None) else identity

    def check_identity(self, expected: MetaProperties) -> None:
        """Raise ``ClusterIdMismatchError`` or ``BrokerIdMismatchError`` if the folder is another broker's."""
        found = self.read_identity()
        if found is None:
            return
        if found.cluster_id not in (None, expected.cluster_id):
            raise ClusterIdMismatchError(
                f"{self.path} belongs to cluster {found.cluster_id} by its {META_PROPERTIES_NAME}, this broker to "
                f"{expected.cluster_id}; choose another directory or metadata store, or remove that file if it is "
                "damaged"
            )
        if found.broker_id not in (None, expected.broker_id):
            raise BrokerIdMismatchError(
                f"{self.path} belongs to broker {found.broker_id} by its {META_PROPERTIES_NAME}, this is "
                f"{expected.broker_id}; set broker.id to match, choose another directory, or remove that file if it "
                "is damaged"
            )

    def write_identity(self, identity: MetaProperties, date: str) -> None:
        """Write ``meta.properties`` unless it has this identity already; ``date`` is a comment in the file."""
        if self.read_identity() != identity:
            content = f"#\n#{date}\nbroker.id={identity.broker_id}\nversion=0\ncluster.id={identity.cluster_id}\n"
            self._files.replace(f"{self.path}/{META_PROPERTIES_NAME}", content.encode())

    # clean shutdown

    def is_clean(self) -> bool:
        """Return whether the last stop was clean."""
        return self._files.exists(f"{self.path}/{CLEAN_SHUTDOWN_NAME}")

    def remove_clean_marker(self) -> None:
        """Remove the mark of a clean stop: from here on a crash, also during the start, is an unclean stop."""
        if self.is_clean():
            # If the file came back after a power failure, a start would trust files that are not on the disk.
            self._files.remove(f"{self.path}/{CLEAN_SHUTDOWN_NAME}")
            self._files.sync_path(self.path)

    def mark_clean(self) -> None:
        """Mark the stop as clean: everything is on the disk."""
        self._files.create(f"{self.path}/{CLEAN_SHUTDOWN_NAME}")

    # checkpoints

    def read_checkpoints(self, *, clean: bool) -> dict[TopicPartition, Checkpointed]:
        """Return the checkpointed offsets of each partition; a damaged checkpoint is ignored with a warning."""
        recovery_points, high_watermarks, log_starts = (
            self.read_checkpoint(name) for name in (RECOVERY_POINT, HIGH_WATERMARK, LOG_START_OFFSET)
        )
        partitions = recovery_points.keys() | high_watermarks.keys() | log_starts.keys()
        try:
            compacted = set(self._checkpoints[CLEANER].read())
        except MalformedCheckpointError:
            compacted = partitions  # any of them may have been; the cleaner's start logs the damage
        return {
            each: Checkpointed(
                clean,
                recovery_points.get(each, 0),
                log_starts.get(each, 0),
                high_watermarks.get(each, 0),
                was_compacted=each in compacted,
            )
            for each in partitions | compacted
        }

    def read_checkpoint(self, name: str) -> dict[TopicPartition, int]:
        """Return the offsets of one checkpoint; a damaged checkpoint is ignored with a warning."""
        try:
            return self._checkpoints[name].read()
        except MalformedCheckpointError as error:
            logger.warning("%s; going on without it: %s", error, WITHOUT_CHECKPOINT[name])
            return {}

    def written_offset(self, name: str, partition: TopicPartition) -> int:
        """Return the highest offset that a crash may leave for a partition in the checkpoint ``name``; 0 if none."""
        return self._checkpoints[name].highest(partition)

    def write_checkpoint(
        self,
        name: str,
        offsets: Mapping[TopicPartition, int],
        flusher: Flusher,
        failed: Callable[[OSError], object] | None = None,
    ) -> None:
        """Replace one checkpoint, if it changes; ``flusher`` waits for the disk.

        ``failed`` is called with an error of the disk; without ``failed`` the ``OSError`` is raised.
        """
        self._checkpoints[name].write(offsets, flusher, failed)

    def remove_checkpoint(self, name: str) -> None:
        """Remove a checkpoint until it is written again; raises ``OSError``."""
        self._checkpoints[name].remove()
        logger.warning("%s/%s is removed, going on without it: %s", self.path, name, WITHOUT_CHECKPOINT[name])

    # partitions

    def list_partitions(self) -> "PartitionFolders":
        """Return the partitions' folders.

        Raises ``ForeignDirectoryError`` for any other folder, which Apache Kafka refuses too.
        """
        found = PartitionFolders([], [], {})
        for name, size in self._files.list_directory(self.path):
            if size >= 0:
                continue
            path = f"{self.path}/{name}"
            renamed = _RENAMED.fullmatch(name)
            partition = parse_partition(renamed[1] if renamed and renamed[2] == "future" else name)
            if renamed and renamed[2] == "delete":
                found.leftovers.append(path)
            elif partition is None:
                raise ForeignDirectoryError(f"{path} is not a partition's folder (topic-partition); move it elsewhere")
            elif renamed is None:
                found.partitions.append(partition)
            elif partition in found.futures:
                logger.warning("%s is removed: %s is another copy of it", path, found.futures[partition])
                found.leftovers.append(path)
            else:
                found.futures[partition] = path
        return found

    def partition_path(self, partition: TopicPartition) -> str:
        """Return the folder of a partition."""
        return f"{self.path}/{partition}"

    def topic_id(self, partition: TopicPartition) -> UUID:
        """Return the id of the topic that the partition's folder belongs to; see ``read_topic_id``."""
        return read_topic_id(self._files, self.partition_path(partition))

    def future_path(self, partition: TopicPartition) -> str:
        """Return the path that the folder of a partition has while it is copied to this directory."""
        return f"{self.path}/{partition}.{uuid4().hex}{FUTURE_SUFFIX}"

    def deleted_path(self, partition: TopicPartition) -> str:
        """Return the path that the folder of a deleted partition has until it is removed."""
        suffix = f"-{partition.partition}.{uuid4().hex}{DELETE_SUFFIX}"
        return f"{self.path}/{partition.topic[: MAX_NAME_LENGTH - len(suffix)]}{suffix}"
