"""After a failed fsync: check what is not known to be on the disk, and write it again.

The pages that the system could not write are clean now: a later fsync would not try again, and they may be dropped from
memory at any time. What can still be read is therefore checked (batches by their CRC and order of offsets, index
entries by their order) and put in its place once more; then an fsync tells the truth again. What can't be read any
more is an input/output error, and the data directory goes offline, as after any of these.
"""

import errno
from collections.abc import Collection
from itertools import pairwise
from struct import Struct
from threading import Lock
from typing import Final, NamedTuple, Protocol

from kafkapy.records.batch import crc_is_valid
from kafkapy.records.errors import RecordsError
from kafkapy.storage.descriptors import Descriptor
from kafkapy.storage.errors import CorruptSnapshotError, KafkaStorageError
from kafkapy.storage.files import Files
from kafkapy.storage.log_file import LogFile
from kafkapy.storage.offset_index import OffsetIndex
from kafkapy.storage.producer_state import SUFFIX as SNAPSHOT_SUFFIX
from kafkapy.storage.segment import Segment
from kafkapy.storage.segments import Segments
from kafkapy.storage.snapshot import decode_snapshot
from kafkapy.storage.time_index import TimeIndex
from kafkapy.storage.transaction_index import ENTRY as TRANSACTION_ENTRY
from kafkapy.storage.transaction_index import TransactionIndex

_ORDER: Final[dict[type, tuple[Struct, tuple[int, ...]]]] = {
    OffsetIndex: (OffsetIndex.ENTRY, (0, 1)),
    TimeIndex: (TimeIndex.ENTRY, (0, 1)),
    TransactionIndex: (TRANSACTION_ENTRY, (3, 4)),
}
"""An index's entries, and the fields that never go back from one to the next; zeros, as lost pages read, do."""


class _OwnFile(LogFile):
    """A ``.log`` that another thread reads and writes: with a descriptor that nobody else closes."""

    __slots__ = ("descriptor_of_its_own", "_own_files")

    def __init__(self, files: Files, path: str) -> None:
        super().__init__(files, path)
        self._own_files = files
        self.descriptor_of_its_own = files.open(path)

    def read_at(self, size: int, position: int) -> bytes:
        """See ``LogFile.read_at``."""
        return self._own_files.read_at(self.descriptor_of_its_own, size, position)


class _Batches(NamedTuple):
    """The batches of a segment from ``position`` on."""

    segment: Segment
    file: _OwnFile
    position: int
    end: int


class _Entries(NamedTuple):
    """An index file."""

    path: str
    descriptor: Descriptor
    size: int
    entry: Struct
    growing: tuple[int, ...]


class RewrittenLog(Protocol):
    """What is needed here of a ``log.Log``."""

    @property
    def segments(self) -> Segments:
        """Its segments."""

    def new_segment(self, base_offset: int, suffix: str = "") -> Segment:
        """See ``log.Log``."""


class Rewriting:
    """Of a log's offsets ``start`` to ``end``: made on the log's thread, ``run`` on any.

    ``written`` names other files that an fsync may have failed for: indexes and snapshots, of earlier segments too.
    """

    def __init__(self, log: RewrittenLog, files: Files, start: int, end: int, written: Collection[str] = ()) -> None:
        """Raises ``OSError`` as the disk does."""
        self.is_cancelled = False
        self._files = files
        self._lock = Lock()
        self._batches: list[_Batches] = []
        self._entries: list[_Entries] = []
        self._snapshots = [path for path in written if path.endswith(SNAPSHOT_SUFFIX)]
        beyond = log.segments.between(start, end)
        for segment in log.segments:
            if segment in beyond:
                segment.write_indexes()
                self._add_batches(log, segment, start)
            elif not any(index.path in written for index in _indexes(segment)):
                continue
            self._add_entries(segment)

    def _add_batches(self, log: RewrittenLog, segment: Segment, start: int) -> None:
        try:
            found = segment.translate(start) if start > segment.base_offset else (0, 0)
        except KafkaStorageError as error:
            raise _lost(segment.log.path) from error
        copy = log.new_segment(segment.base_offset)
        copy.log = own = _OwnFile(self._files, segment.log.path)
        self._batches.append(_Batches(copy, own, found[0] if found else segment.size, segment.size))

    def _add_entries(self, segment: Segment) -> None:
        for index in _indexes(segment):
            if self._files.exists(index.path):
                descriptor = self._files.open(index.path)
                size = self._files.size(index.path)
                self._entries.append(_Entries(index.path, descriptor, size, *_ORDER[type(index)]))

    def cancel(self) -> None:
        """The log was cut: write nothing more. A write that is under way ends first."""
        with self._lock:
            self.is_cancelled = True

    def run(self) -> None:
        """Check and write everything again; raises ``OSError``, with ``EIO`` for what is not what was written."""
        try:
            for part in self._batches:
                self._rewrite_batches(part)
            for entries in self._entries:
                self._rewrite_entries(entries)
            for path in self._snapshots:
                self._rewrite_snapshot(path)
        except OSError:
            if not self.is_cancelled:  # else it was cut off
                raise

    def _rewrite_batches(self, part: _Batches) -> None:
        next_offset = part.segment.base_offset
        try:
            for position, header, content in part.segment.batches(part.position, part.end):
                if header.base_offset < next_offset or not crc_is_valid(content, 0, header):
                    raise _lost(part.file.path)
                next_offset = header.next_offset
                self._write(part.file.descriptor_of_its_own, bytes(content), position)
        except RecordsError as error:
            raise _lost(part.file.path) from error

    def _rewrite_entries(self, part: _Entries) -> None:
        content = self._files.read_at(part.descriptor, part.size, 0)
        if len(content) < part.size or len(content) % part.entry.size:
            raise _lost(part.path)
        for earlier, later in pairwise(part.entry.iter_unpack(content)):
            if any(earlier[field] > later[field] for field in part.growing):
                raise _lost(part.path)
        self._write(part.descriptor, content, 0)

    def _rewrite_snapshot(self, path: str) -> None:
        if not self._files.exists(path):
            return  # nobody needed it any more
        descriptor = self._files.open(path)
        content = self._files.read_at(descriptor, self._files.size(path), 0)
        try:
            decode_snapshot(content)
        except CorruptSnapshotError as error:
            raise _lost(path) from error
        self._write(descriptor, content, 0)

    def _write(self, descriptor: Descriptor, content: bytes, position: int) -> None:
        with self._lock:
            if not self.is_cancelled:
                self._files.write_at(descriptor, content, position)


def _indexes(segment: Segment) -> tuple[OffsetIndex, TimeIndex, TransactionIndex]:
    return segment.offset_index, segment.time_index, segment.transaction_index


def _lost(path: str) -> OSError:
    return OSError(errno.EIO, "what an fsync could not write can't be read any more", path)
