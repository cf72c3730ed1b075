"""Checkpoint files: small text files that are replaced as a whole.

Line 1 is the version (0), line 2 the number of entries; then each line is an entry: ``topic partition offset`` in the
four offset checkpoints of a data directory, ``epoch startoffset`` in a partition's leader epoch checkpoint. A file is
written as ``<name>.tmp``, fsynced and renamed, and its folder is fsynced.
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from threading import Lock
from typing import Final, NamedTuple

from kafkapy.platform.files import Files
from kafkapy.platform.flusher import Flusher
from kafkapy.storage.errors import MalformedCheckpointError
from kafkapy.types import TopicPartition

VERSION: Final = "0"
RECOVERY_POINT: Final = "recovery-point-offset-checkpoint"
HIGH_WATERMARK: Final = "replication-offset-checkpoint"
LOG_START_OFFSET: Final = "log-start-offset-checkpoint"
CLEANER: Final = "cleaner-offset-checkpoint"

_NUMBER: Final = re.compile(r"-?[0-9]{1,19}")
_INT64: Final = range(-(2**63), 2**63)


def encode(lines: Iterable[str]) -> bytes:
    """Return the file's content for these entries."""
    entries = list(lines)
    return "\n".join([VERSION, str(len(entries)), *entries, ""]).encode()


def decode(content: bytes, fields: int) -> list[list[str]]:
    """Return the entries, each split into its ``fields``; an empty file is an empty checkpoint."""
    lines = content.decode("utf-8", "replace").splitlines()
    if not lines:
        return []
    if lines[0].strip() != VERSION:
        raise MalformedCheckpointError(f"version {lines[0]!r} is not {VERSION}")
    entries = [line.split() for line in lines[2:]]
    if len(lines) < 2 or lines[1].strip() != str(len(entries)):
        raise MalformedCheckpointError(f"{len(entries)} entries do not match the count {lines[1:2]}")
    if any(len(entry) != fields for entry in entries):
        raise MalformedCheckpointError(f"an entry does not have {fields} fields")
    return entries


def number(text: str) -> int:
    """Return an entry's number, a decimal i64; raises ``ValueError``."""
    if not _NUMBER.fullmatch(text) or int(text) not in _INT64:
        raise ValueError(f"{text!r} is no number")
    return int(text)


class Checkpointed(NamedTuple):
    """The offsets of one log in the data directory's checkpoints; a new log begins with zeros."""

    clean: bool = True
    recovery_point: int = 0
    log_start_offset: int = 0
    high_watermark: int = 0
    recovered: bool = False
    """A worker process has recovered the log: its files can be trusted, though they may not be on the disk yet."""
    is_new: bool = False
    """The log is being created: if the disk refuses its files, the creation fails."""
    was_compacted: bool = False
    """Compaction may have removed offsets, whatever the topic's policy is now."""

    @property
    def is_trusted(self) -> bool:
        """Whether the files can be taken as they are."""
        return self.clean or self.recovered


class OffsetCheckpoint:
    """An offset for each partition of a data directory."""

    __slots__ = ("path", "_files")

    def __init__(self, files: Files, path: str) -> None:
        self.path = path
        self._files = files

    def read(self) -> dict[TopicPartition, int]:
        """Return the offsets in the file; none when there is no file.

        Raises ``MalformedCheckpointError``.
        """
        if not self._files.exists(self.path):
            return {}
        try:
            return {
                TopicPartition(topic, number(partition)): number(offset)
                for topic, partition, offset in decode(self._files.read(self.path), 3)
            }
        except (ValueError, MalformedCheckpointError, IsADirectoryError) as error:
            raise MalformedCheckpointError(f"{self.path} is not an offset checkpoint: {error}") from error

    def remove(self) -> None:
        """Remove the file, and wait until the removal is on the disk."""
        self._files.remove(self.path)
        self._files.sync_path(os.path.dirname(self.path))

    def write(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Replace the file."""
        self._files.replace(
            self.path, encode(f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items())
        )


# A checkpoint of a running broker: written when it changes, by the flusher's thread or by the caller.
#
# Two writes of one file can be pending: one in the flusher's thread, and one that has to be on the disk before offsets
# are lowered (``lower_checkpoints``). They are done one after the other, and the file keeps the content of the last
# request, even if its write comes first.


class CheckpointFile:
    """A checkpoint file and its pending writes. Used on the event loop; only ``_put`` runs on another thread."""

    __slots__ = ("_checkpoint", "_lock", "_last_number", "_put_number", "_pending", "_known", "_known_number")

    def __init__(self, checkpoint: OffsetCheckpoint) -> None:
        self._checkpoint = checkpoint
        self._lock = Lock()
        self._last_number = self._put_number = self._known_number = 0
        self._pending: dict[int, dict[TopicPartition, int]] = {}
        self._known: dict[TopicPartition, int] | None = None

    def read(self) -> dict[TopicPartition, int]:
        """Return the offsets in the file; raises ``MalformedCheckpointError``."""
        found = self._checkpoint.read()
        self._known = found or None
        return found

    def highest(self, partition: TopicPartition) -> int:
        """Return the highest offset of a partition that a crash may leave in the file; 0 if none."""
        return max(content.get(partition, 0) for content in (self._known or {}, *self._pending.values()))

    def write(
        self, offsets: Mapping[TopicPartition, int], flusher: Flusher, failed: Callable[[OSError], object] | None
    ) -> None:
        """See ``DataDirectory.write_checkpoint``."""
        if not self._pending and self._known == offsets:
            return
        number = self._last_number = self._last_number + 1
        content = self._pending[number] = dict(offsets)
        refused: list[OSError] = []

        def write() -> None:
            try:
                self._put(content, number)
            except OSError as error:
                refused.append(error)

        def done() -> None:
            del self._pending[number]
            if refused and failed is None:
                raise refused[0]
            if refused and failed is not None:
                failed(refused[0])
            elif number > self._known_number:
                self._known, self._known_number = content, number

        flusher.run(write, done)

    def remove(self) -> None:
        """Remove the file and cancel the pending writes; raises ``OSError``."""
        number = self._last_number = self._last_number + 1
        with self._lock:
            self._checkpoint.remove()
            self._put_number = number
        self._known, self._known_number = None, number

    def _put(self, content: Mapping[TopicPartition, int], number: int) -> None:
        """Replace the file, unless a write with a higher number was done before."""
        with self._lock:
            if number > self._put_number:
                self._checkpoint.write(content)
                self._put_number = number
