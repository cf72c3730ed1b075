"""Flushes the parts of a log, tracks the offsets that are on the disk, and delays acknowledgements until theirs is.

Two marks move when an fsync that began after the writes has ended well: ``data_offset``, below which all batches are in
the ``.log`` files on the disk, and the log's recovery point, below which the indexes are too. A log has one running
fsync at a time; all requests for a flush that arrive during an fsync share the next one.

Flushes are requested by a roll, ``flush.messages`` and ``flush.ms`` as in Apache Kafka, which move both marks; and,
beyond Apache Kafka, ``kafkapy.flush=ack``, which fsyncs the ``.log`` after each append. No function here blocks the
loop to wait for the disk. The append that reaches ``flush.messages``, for whose fsync Apache Kafka waits, and with
``kafkapy.flush=ack`` every append, is *owed*: before it is on the disk it is not acknowledged, and the high watermark
does not pass it.

The effect of an error depends on its kind (``disk_errors.is_passing``):

- one that passes (no space, quota, memory or descriptors) leads to rewriting, as below;
- every other one (``EIO``, a read-only file system) takes the data directory offline; until the next start its records
  can't be read.

The order of events when an fsync fails:

1. An append is in the page cache. If it is owed it is not acknowledged yet; otherwise it is (``acks=1``) or may be.
2. The fsync fails. Neither mark moves. Requests whose appends wait for the flush get KAFKA_STORAGE_ERROR, also the
   requests that arrived during the fsync. Acknowledged records stay in the log, and only a crash of the machine can
   lose them. After an error that passes they can be read; after any other one when the data directory is online again.
3. After an error that passes the next flush begins with ``resume`` or the next request for one. Linux counts the pages
   that it could not write as clean, and a later fsync succeeds without them. So this flush checks everything above the
   recovery point, writes it again (``Rewriting``) and fsyncs it. Content that fails the check is an ``EIO``.
4. When a flush that was planned after the last failure has succeeded, the marks move.

A crash of the process loses nothing that is in the page cache; a crash of the machine may lose everything above the
marks: owed appends were not acknowledged, others may have been. After a crash of the process between 2 and 4, the
failure is not known. With ``kafkapy.flush=ack`` the next start writes every segment that it reads again (``recovery``).
Without it a later fsync may succeed although bytes are missing, and a crash of the machine then loses them.
"""

import errno
from collections.abc import Callable, Collection, Iterable
from itertools import pairwise
from struct import Struct
from threading import Lock
from typing import Final, NamedTuple, Protocol

from kafkapy.platform.descriptors import Descriptor
from kafkapy.platform.disk_errors import DiskListener, LogOnDisk, storage_error, warn_if_slow
from kafkapy.platform.errors import KafkaStorageError
from kafkapy.platform.files import Files
from kafkapy.platform.flusher import Flusher, sync_all
from kafkapy.records.batch import crc_is_valid
from kafkapy.records.errors import RecordsError
from kafkapy.storage.errors import CorruptSnapshotError
from kafkapy.storage.log.index import OffsetIndex, TimeIndex
from kafkapy.storage.log.leader_epochs import LeaderEpochs
from kafkapy.storage.log.log_file import LogFile
from kafkapy.storage.log.producer_state import SUFFIX as SNAPSHOT_SUFFIX
from kafkapy.storage.log.producer_state import decode_snapshot
from kafkapy.storage.log.segment import Segment, Segments
from kafkapy.storage.log.transaction_index import ENTRY as TRANSACTION_ENTRY
from kafkapy.storage.log.transaction_index import TransactionIndex

# After a failed fsync: check all bytes that may not be on the disk, and write them again.
#
# The pages that the system could not write are clean now: a later fsync would not try again, and they may be dropped
# from memory at any time. The bytes that can still be read are therefore checked (batches by their CRC and order of
# offsets, index entries by their order) and written to the same place once more; then the result of an fsync is
# reliable again. Bytes that can't be read any more, or fail their check, are an input/output error (EIO), which takes
# the data directory offline.


_ORDER: Final[dict[type, tuple[Struct, tuple[int, ...]]]] = {
    OffsetIndex: (OffsetIndex.ENTRY, (0, 1)),
    TimeIndex: (TimeIndex.ENTRY, (0, 1)),
    TransactionIndex: (TRANSACTION_ENTRY, (3, 4)),
}
"""An index's entries, and the fields that must not decrease from entry to entry; in a lost page, all zeros, they do."""


class _PrivateLogFile(LogFile):
    """A ``.log`` for reads and writes of another thread, with a descriptor that no other code closes."""

    __slots__ = ("private_descriptor", "_private_files")

    def __init__(self, files: Files, path: str) -> None:
        super().__init__(files, path)
        self._private_files = files
        self.private_descriptor = files.open(path)

    def read_at(self, size: int, position: int) -> bytes:
        """See ``LogFile.read_at``."""
        return self._private_files.read_at(self.private_descriptor, size, position)


class _Batches(NamedTuple):
    """The batches of a segment from ``position`` on."""

    segment: Segment
    file: _PrivateLogFile
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
    """The part of ``log.Log`` that ``Rewriting`` uses."""

    @property
    def segments(self) -> Segments:
        """The log's segments."""

    def new_segment(self, base_offset: int, suffix: str = "") -> Segment:
        """See ``log.Log``."""


class Rewriting:
    """Checks the offsets ``start`` to ``end`` of a log and writes them again; ``run`` is called on any thread.

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
        copy.log = file = _PrivateLogFile(self._files, segment.log.path)
        self._batches.append(_Batches(copy, file, found[0] if found else segment.size, segment.size))

    def _add_entries(self, segment: Segment) -> None:
        for index in _indexes(segment):
            if self._files.exists(index.path):
                descriptor = self._files.open(index.path)
                size = self._files.size(index.path)
                self._entries.append(_Entries(index.path, descriptor, size, *_ORDER[type(index)]))

    def cancel(self) -> None:
        """Write nothing more, as the log is about to be cut. A write that is running ends first."""
        with self._lock:
            self.is_cancelled = True

    def run(self) -> None:
        """Check everything and write it again.

        Raises ``OSError``, with ``EIO`` if the bytes read are not those written.
        """
        try:
            for part in self._batches:
                self._rewrite_batches(part)
            for entries in self._entries:
                self._rewrite_entries(entries)
            for path in self._snapshots:
                self._rewrite_snapshot(path)
        except OSError:
            if not self.is_cancelled:  # after a cancellation the bytes may have been cut off
                raise

    def _rewrite_batches(self, part: _Batches) -> None:
        next_offset = part.segment.base_offset
        try:
            for position, header, content in part.segment.batches(part.position, part.end):
                if header.base_offset < next_offset or not crc_is_valid(content, 0, header):
                    raise _lost(part.file.path)
                next_offset = header.next_offset
                self._write(part.file.private_descriptor, bytes(content), position)
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
            return  # the snapshot was removed in the meantime
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
    return OSError(errno.EIO, "bytes that an fsync could not write can't be read any more", path)


class FlushingStorage(DiskListener, Protocol):
    """The part of ``log.Storage`` that is used here."""

    @property
    def files(self) -> Files:
        """The file system."""

    @property
    def flusher(self) -> Flusher:
        """The flusher that runs the fsyncs."""


class FlushedLog(LogOnDisk, RewrittenLog, Protocol):
    """The part of ``log.Log`` that ``Durability`` uses."""

    @property
    def storage(self) -> FlushingStorage:
        """The file system and the flusher."""

    @property
    def leader_epochs(self) -> LeaderEpochs:
        """The leader epochs, whose file is flushed with the indexes."""

    @property
    def log_end_offset(self) -> int:
        """See ``log.Log``."""

    @property
    def recovery_point(self) -> int:
        """See ``log.Log``."""

    @property
    def truncations(self) -> int:
        """See ``log.Log``."""

    def advance_recovery_point(self, offset: int) -> None:
        """See ``log.Log``."""

    def paths_to_sync(self, end_offset: int, start: int) -> list[str]:
        """See ``log.Log``."""


class Flush:
    """One fsync of some files; created and ended on the log's thread, ``run`` on any thread."""

    __slots__ = (
        "flush_end", "data_end", "truncations", "refusals", "paths", "new_segments", "rewriting", "error", "_files"
    )  # fmt: skip

    def __init__(
        self, files: Files, ends: tuple[int, int], truncations: int, paths: Iterable[str], new_segments: list[Segment]
    ) -> None:
        self.flush_end, self.data_end = ends
        self.truncations = truncations
        self.refusals = 0
        """The number of fsyncs of this log that had failed when this one was planned."""
        self.paths = list(dict.fromkeys(paths))
        self.new_segments = new_segments
        self.rewriting: Rewriting | None = None
        self.error: OSError | None = OSError(errno.EIO, "the fsync has not ended")
        self._files = files

    def run(self) -> None:
        """Fsync the files and set ``error``; it also stays set if an unexpected exception ends this call."""
        try:
            if self.rewriting is not None:
                self.rewriting.run()
            sync_all(self._files, self.paths)
        except OSError as error:
            self.error = error
        else:
            self.error = None


class Durability:
    """Plans the fsyncs of one log and records which of its offsets are on the disk. It runs on the log's thread."""

    __slots__ = (
        "follows_appends", "is_owing", "owed_offset", "failure", "listener",
        "_log", "_data_offset", "_flush_wanted", "_data_wanted", "_failed_offset", "_written", "_running",
        "_refusals", "_is_doubtful", "_is_over", "_began_s",
    )  # fmt: skip

    def __init__(self, log: FlushedLog) -> None:
        self.follows_appends = False
        """``kafkapy.flush=ack``."""
        self.is_owing = False
        """Whether an append may have to wait: every request reads this first, and most need no further check."""
        self.owed_offset = 0
        """Appends below this offset wait until they are on the disk."""
        self.failure: KafkaStorageError | None = None
        self.listener: Callable[[], None] | None = None
        """Called when owed appends are on the disk, or were refused."""
        self._log = log
        self._data_offset = self._flush_wanted = self._data_wanted = self._failed_offset = 0
        self._written: list[str] = []
        self._running: Flush | None = None
        self._refusals = 0
        self._is_doubtful = False
        self._is_over = False
        self._began_s = 0.0

    # the fsynced state

    @property
    def data_offset(self) -> int:
        """The offset below which all batches are on the disk."""
        return max(self._data_offset, self._log.recovery_point)

    @property
    def unflushed(self) -> int:
        """The number of offsets for which no flush has been requested (Apache Kafka's ``unflushedMessages``)."""
        return self._log.log_end_offset - max(self._log.recovery_point, self._flush_wanted)

    @property
    def settled_end_offset(self) -> int:
        """The highest offset that this replica allows as the high watermark: no append below it is owed."""
        end_offset, data_offset = self._log.log_end_offset, self.data_offset
        owed = end_offset if self.follows_appends else self.owed_offset
        return end_offset if data_offset >= owed else min(data_offset, end_offset)

    def is_settled(self, next_offset: int) -> bool:
        """Return whether appends below ``next_offset`` may be acknowledged.

        Raises ``KafkaStorageError`` when the disk has refused them.
        """
        if self.data_offset >= next_offset or (next_offset > self.owed_offset and not self.follows_appends):
            return True
        if self.failure is not None and next_offset <= self._failed_offset:
            raise self.failure
        return False

    # requests for a flush

    def configure(self, *, follows_appends: bool) -> None:
        """Apply ``kafkapy.flush``: with ``ack`` all appends in the log become owed, otherwise none is any more."""
        self.follows_appends = follows_appends
        self.sync_if_configured()
        self._notify()

    def sync_if_configured(self) -> None:
        """Make everything in the log owed, if appends are: after the log was opened or its leader changed."""
        if self.follows_appends:
            self.sync_appends()

    def sync_appends(self) -> None:
        """Make everything up to the log's end owed, and fsync it."""
        self.owed_offset = self._data_wanted = self._log.log_end_offset
        self.is_owing = True
        self._begin()

    def flush_messages(self) -> None:
        """Make everything owed after ``flush.messages`` records, and flush it with the indexes."""
        self.owed_offset = self._log.log_end_offset
        self.is_owing = True
        self.flush_later(self.owed_offset)

    def flush_later(self, end_offset: int, written: Iterable[str] = ()) -> None:
        """Flush everything below ``end_offset`` and the paths ``written``; then the recovery point moves there."""
        self._flush_wanted = max(self._flush_wanted, end_offset)
        self._written += written
        self._begin()

    def resume(self) -> None:
        """Repeat a flush that the disk refused, if one was; log a warning if a running one takes long."""
        if self._running is not None:
            warn_if_slow(self._log, self._began_s, "is not done after")
        self._begin()

    def resume_owed(self) -> None:
        """Begin the flush that appends wait for, if they do and none is running."""
        if self.is_owing:
            self._begin()

    def flush(self) -> None:
        """Flush the whole log now, on this thread; raises ``OSError``."""
        self._flush_wanted = self._log.log_end_offset
        if self._flush_wanted <= self._log.recovery_point:
            return
        flush = self._plan()
        flush.run()
        self._end(flush)
        if flush.error is not None:
            raise flush.error

    def paths_to_close(self) -> list[str]:
        """Return the files that must be fsynced before ``closed``, when no flusher works any more.

        Raises ``OSError`` when bytes that an earlier fsync may have lost can't be written again.
        """
        running, self._running = self._running, None
        self._is_doubtful |= running is not None and running.error is not None
        self._flush_wanted = self._log.log_end_offset
        flush = self._plan()
        if flush.rewriting is not None:
            flush.rewriting.run()
        return flush.paths

    def closed(self) -> None:
        """Note that the files of ``paths_to_close`` are on the disk."""
        self._log.advance_recovery_point(self._log.log_end_offset)
        self._is_doubtful = False

    def rewrite_at_next_flush(self) -> None:
        """Have the next flush write all bytes above the marks again, since an fsync alone may not write them."""
        self._is_doubtful = True

    def abandon(self) -> None:
        """Stop using the log's files: the result of a running fsync is ignored, and no fsync begins.

        The files may have been renamed, and a new log may have files of the old names.
        """
        self.fall_to(self._data_offset)
        self._running = None
        self._is_over = True

    def moved(self, old_directory: str, directory: str) -> None:
        """Note that the log's folder was renamed; the result of a running fsync is ignored, and the next one is due."""
        self._written = [directory + path.removeprefix(old_directory) for path in self._written]

    def detach(self) -> None:
        """See ``log.Log.detach``."""
        self.listener = None
        del self._log

    def fall_to(self, offset: int) -> None:
        """Lower the marks to ``offset`` before files are cut."""
        self._data_offset = min(self._data_offset, offset)
        if self._running is not None and self._running.rewriting is not None:
            self._running.rewriting.cancel()

    def truncated(self, end_offset: int) -> None:
        """Note that the log ends at ``end_offset`` now; after a truncation ``resume_owed`` follows, when all is cut.

        The records that stay, or their new end, may have to be fsynced again, because ``fall_to`` has lowered the marks
        to the start of the cut segment. A follower waits for that flush, and only ``resume_owed`` begins it.
        """
        self._flush_wanted = min(self._flush_wanted, end_offset)
        if self.follows_appends:
            self._data_wanted = self.owed_offset = end_offset
        else:
            self._data_wanted = min(self._data_wanted, end_offset)
            self.owed_offset = min(self.owed_offset, end_offset)
        self.is_owing = self.follows_appends or self.data_offset < self.owed_offset

    # one flush

    def _begin(self) -> None:
        log = self._log
        if (
            self._running is not None
            or self._is_over
            or (
                self._flush_wanted <= log.recovery_point and self._data_wanted <= self.data_offset and not self._written
            )
        ):
            return
        self.failure = None
        try:
            flush = self._running = self._plan()
        except OSError as error:
            self._refused(error, max(self._flush_wanted, self._data_wanted))
            return
        self._began_s = log.storage.clock.machine_s()
        log.storage.flusher.flush(flush.run, lambda: self._ended(flush))

    def _plan(self) -> Flush:
        """Write the index entries that a flush needs, and list the files to fsync."""
        log = self._log
        flush_end = max(self._flush_wanted, log.recovery_point)
        data_end = max(self._data_wanted, flush_end)
        if self._is_doubtful:
            flush_end = data_end
        start = log.recovery_point if self._is_doubtful else self.data_offset
        segments = log.segments.between(start, data_end) if data_end > start else []
        paths = [segment.log.path for segment in segments]
        new_segments = [segment for segment in segments if segment.is_new]
        if new_segments:
            # Without the file's name or its folder's name on the disk the bytes would be lost.
            paths += [log.directory, log.directory.rpartition("/")[0]]
        if flush_end > log.recovery_point:
            paths += log.paths_to_sync(flush_end, log.recovery_point)
            log.leader_epochs.wait_for_flush = False
        elif self._written:
            paths.append(log.directory)  # a new snapshot's name
        flush = Flush(
            log.storage.files, (flush_end, data_end), log.truncations, [*paths, *self._written], new_segments
        )  # fmt: skip
        flush.refusals = self._refusals
        if self._is_doubtful:
            flush.rewriting = Rewriting(log, log.storage.files, log.recovery_point, data_end, self._written)
        return flush

    def _ended(self, flush: Flush) -> None:
        if self._running is not flush:
            return  # the log was closed or abandoned in the meantime
        self._running = None
        warn_if_slow(self._log, self._began_s, "took")
        self._end(flush)
        if flush.error is None:
            self._begin()

    def _end(self, flush: Flush) -> None:
        log = self._log
        if flush.error is not None:
            self._is_doubtful = True
            self._refusals += 1
            log.leader_epochs.wait_for_flush |= log.leader_epochs.path in flush.paths
            # Appends that were requested in the meantime are refused too: otherwise they could wait for ever.
            self._refused(flush.error, max(flush.data_end, self._flush_wanted, self._data_wanted))
            return
        if flush.truncations != log.truncations or flush.refusals != self._refusals:
            return  # the flush was for other bytes, or an fsync that failed meanwhile may have lost some of them
        if flush.rewriting is not None:
            self._is_doubtful = flush.rewriting.is_cancelled
        self.failure = None
        for segment in flush.new_segments:
            segment.is_new = False
        self._written = [path for path in self._written if path not in flush.paths]
        self._data_offset = max(self._data_offset, flush.data_end)
        if flush.flush_end > log.recovery_point:
            log.advance_recovery_point(flush.flush_end)
        self._notify()

    def _refused(self, error: OSError, end_offset: int) -> None:
        self.failure = storage_error(self._log, "made durable", error)
        self._failed_offset = end_offset
        self._notify()

    def _notify(self) -> None:
        if self.is_owing:
            self.is_owing = self.follows_appends or self.data_offset < self.owed_offset
            if self.listener is not None:
                self.listener()
