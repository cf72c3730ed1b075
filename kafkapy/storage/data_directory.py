"""One of ``log.dirs``: its lock, its identity, its checkpoints and the partitions' folders in it."""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple
from uuid import uuid4

from kafkapy.storage.checkpoints import HIGH_WATERMARK, LOG_START_OFFSET, RECOVERY_POINT, OffsetCheckpoint
from kafkapy.storage.errors import BrokerIdMismatchError, ClusterIdMismatchError, ForeignDirectoryError
from kafkapy.storage.files import Descriptor, Files
from kafkapy.storage.flusher import Flusher
from kafkapy.storage.recovery import Checkpointed
from kafkapy.types import TopicPartition

LOCK_NAME: Final = ".lock"
CLEAN_SHUTDOWN_NAME: Final = ".kafka_cleanshutdown"
META_PROPERTIES_NAME: Final = "meta.properties"
DELETE_SUFFIX: Final = "-delete"
FUTURE_SUFFIX: Final = "-future"
MAX_NAME_LENGTH: Final = 255

_PARTITION = re.compile(r"([a-zA-Z0-9._-]{1,249})-(\d+)")
_RENAMED = re.compile(r".+\.[0-9a-f]{32}-(delete|future)")


class MetaProperties(NamedTuple):
    """Whose directory it is."""

    broker_id: int | None
    cluster_id: str | None


def parse_partition(name: str) -> TopicPartition | None:
    """Return the partition that a folder's name stands for."""
    match = _PARTITION.fullmatch(name)
    return TopicPartition(match[1], int(match[2])) if match else None


class DataDirectory:
    """A folder that one broker uses at a time."""

    def __init__(self, files: Files, path: str) -> None:
        self.path = path
        self.partition_count = 0
        self._files = files
        self._lock: Descriptor | None = None
        self._checkpoints = {
            name: OffsetCheckpoint(files, f"{path}/{name}")
            for name in (RECOVERY_POINT, HIGH_WATERMARK, LOG_START_OFFSET)
        }
        self._written: dict[str, dict[TopicPartition, int]] = {}

    def lock(self) -> None:
        """Make the folder and lock it; raises ``LogDirectoryLockedError``."""
        self._files.make_directory(self.path)
        self._lock = self._files.lock(f"{self.path}/{LOCK_NAME}")

    def unlock(self) -> None:
        """Let another process have the folder."""
        self._lock = None

    # identity

    def read_identity(self) -> MetaProperties | None:
        """Return what ``meta.properties`` says; None when there is none."""
        path = f"{self.path}/{META_PROPERTIES_NAME}"
        if not self._files.exists(path):
            return None
        lines = self._files.read(path).decode("utf-8", "replace").splitlines()
        values = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith(("#", "!")))
        broker_id = values.get("broker.id", "").strip()
        return MetaProperties(
            int(broker_id) if broker_id.isdecimal() else None, values.get("cluster.id", "").strip() or None
        )

    def check_identity(self, expected: MetaProperties) -> None:
        """Raise ``ClusterIdMismatchError`` or ``BrokerIdMismatchError`` if the folder is another's."""
        found = self.read_identity()
        if found is None:
            return
        if found.cluster_id not in (None, expected.cluster_id):
            raise ClusterIdMismatchError(
                f"{self.path} belongs to cluster {found.cluster_id}, this broker to {expected.cluster_id}; "
                "choose another directory or metadata store"
            )
        if found.broker_id not in (None, expected.broker_id):
            raise BrokerIdMismatchError(
                f"{self.path} belongs to broker {found.broker_id}, this is {expected.broker_id}; "
                "set broker.id to match, or choose another directory"
            )

    def write_identity(self, identity: MetaProperties, date: str) -> None:
        """Write ``meta.properties`` unless it says so already; ``date`` is for the reader only."""
        if self.read_identity() != identity:
            content = f"#\n#{date}\nbroker.id={identity.broker_id}\nversion=0\ncluster.id={identity.cluster_id}\n"
            self._files.replace(f"{self.path}/{META_PROPERTIES_NAME}", content.encode())

    # clean shutdown

    def take_clean_marker(self) -> bool:
        """Return whether the last stop was clean, and remove the marker: a crash while loading is unclean too."""
        marker = f"{self.path}/{CLEAN_SHUTDOWN_NAME}"
        clean = self._files.exists(marker)
        self._files.remove(marker)
        return clean

    def mark_clean(self) -> None:
        """Everything is on the disk."""
        self._files.create(f"{self.path}/{CLEAN_SHUTDOWN_NAME}")

    # checkpoints

    def read_checkpoints(self, *, clean: bool) -> dict[TopicPartition, Checkpointed]:
        """Return what the checkpoints say of each partition; raises ``MalformedCheckpointError``."""
        recovery_points, high_watermarks, log_starts = (
            self._checkpoints[name].read() for name in (RECOVERY_POINT, HIGH_WATERMARK, LOG_START_OFFSET)
        )
        partitions = recovery_points.keys() | high_watermarks.keys() | log_starts.keys()
        return {
            each: Checkpointed(
                clean, recovery_points.get(each, 0), log_starts.get(each, 0), high_watermarks.get(each, 0)
            )
            for each in partitions
        }

    def write_checkpoint(self, name: str, offsets: Mapping[TopicPartition, int], flusher: Flusher) -> None:
        """Replace one checkpoint, if it changes; ``flusher`` waits for the disk."""
        if self._written.get(name) != offsets:
            written = dict(offsets)
            flusher.run(lambda: self._checkpoints[name].write(written), lambda: self._written.update({name: written}))

    # partitions

    def list_partitions(self) -> tuple[list[TopicPartition], list[str]]:
        """Return the partitions and the folders that wait for their removal.

        Raises ``ForeignDirectoryError`` on a folder that is neither, as Apache Kafka refuses it.
        """
        partitions = []
        leftovers = []
        for name, size in self._files.list_directory(self.path):
            if size >= 0 or name.endswith(FUTURE_SUFFIX):
                continue
            partition = parse_partition(name)
            if _RENAMED.fullmatch(name):
                leftovers.append(f"{self.path}/{name}")
            elif partition is None:
                raise ForeignDirectoryError(
                    f"{self.path}/{name} is not a partition's folder (topic-partition); move it elsewhere"
                )
            else:
                partitions.append(partition)
        return partitions, leftovers

    def partition_path(self, partition: TopicPartition) -> str:
        """Return the folder of a partition."""
        return f"{self.path}/{partition}"

    def doomed_path(self, partition: TopicPartition) -> str:
        """Return the name that a partition's folder has until it is removed."""
        suffix = f"-{partition.partition}.{uuid4().hex}{DELETE_SUFFIX}"
        return f"{self.path}/{partition.topic[: MAX_NAME_LENGTH - len(suffix)]}{suffix}"
