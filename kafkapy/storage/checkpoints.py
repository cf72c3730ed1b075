"""Checkpoint files: small texts, replaced as a whole.

Line 1 is the version (0), line 2 the number of entries, then an entry each line: ``topic partition offset`` for the
three (with the cleaner four) offset checkpoints of a data directory, ``epoch startoffset`` for a partition's leader
epochs. Written to ``<name>.tmp``, fsynced, renamed, directory fsynced.
"""

import os
import re
from collections.abc import Iterable, Mapping
from typing import Final

from kafkapy.storage.errors import MalformedCheckpointError
from kafkapy.storage.files import Files
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


class OffsetCheckpoint:
    """An offset for each partition of a data directory."""

    __slots__ = ("path", "_files")

    def __init__(self, files: Files, path: str) -> None:
        self.path = path
        self._files = files

    def read(self) -> dict[TopicPartition, int]:
        """Return what was written last; nothing when there is no file.

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
        """Remove the file, and wait until that is on the disk."""
        self._files.remove(self.path)
        self._files.sync_path(os.path.dirname(self.path))

    def write(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Replace the file."""
        self._files.replace(
            self.path, encode(f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items())
        )
