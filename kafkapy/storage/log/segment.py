"""One segment: a ``.log`` with its offset, time and transaction index, from a base offset on.

The index policy is Apache Kafka's to the byte: an append gets an entry only if more than ``index.interval.bytes``
were appended since the last one, and the entry names that append's last offset and first byte. (An interval above 1 MiB
counts as 1 MiB, see ``Log.update_config``.)
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple

from kafkapy.config.log_config import LogConfig
from kafkapy.platform.errors import KafkaStorageError
from kafkapy.platform.files import Files
from kafkapy.records.batch import LENGTH_OFFSET, LOG_OVERHEAD, MAGIC, SMALLEST_LENGTH, BatchHeader
from kafkapy.records.errors import CorruptRecordError
from kafkapy.storage.errors import CorruptIndexError
from kafkapy.storage.log.batches import SMALLEST_BATCH, Batch, read_batches
from kafkapy.storage.log.index import IndexCache, OffsetIndex, TimeIndex
from kafkapy.storage.log.log_file import LogFile
from kafkapy.storage.log.transaction_index import TransactionIndex
from kafkapy.types import NO_TIMESTAMP

BASE_DIGITS: Final = 20
"""The length of a base offset in the names of files."""
LOG_SUFFIX: Final = ".log"
OFFSET_INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TRANSACTION_INDEX_SUFFIX: Final = ".txnindex"
DELETED_SUFFIX: Final = ".deleted"

MAX_RELATIVE_OFFSET: Final = 2**31 - 1
_PARTS: Final = (
    ("log", LOG_SUFFIX),
    ("offset_index", OFFSET_INDEX_SUFFIX),
    ("time_index", TIME_INDEX_SUFFIX),
    ("transaction_index", TRANSACTION_INDEX_SUFFIX),
)
"""A file of a segment: its attribute and the suffix of the file's name."""
_SCAN_BYTES: Final = 8192

_BOUNDS: Final = Struct(">qi4xb6xi")  # base offset, length, magic, last offset delta (which only a batch has)
_OFFSET: Final = Struct(">q")
_LENGTH: Final = Struct(">i")


class TimestampOffset(NamedTuple):
    """The offset of a record that was found by its timestamp."""

    offset: int
    timestamp: int


class AppendedRange(NamedTuple):
    """The offsets and timestamps of batches that are appended to a segment; ``size`` is their number of bytes."""

    first_offset: int
    last_offset: int
    max_timestamp: int
    max_timestamp_offset: int
    size: int


class Segment:
    """Batches from ``base_offset`` on; ``size`` bytes of them.

    ``suffix`` is the end of its files' names: empty, ``.cleaned``, ``.swap`` or ``.deleted``.
    """

    __slots__ = (
        "base_offset",
        "created_ms",
        "size",
        "suffix",
        "_stem",
        "log",
        "offset_index",
        "time_index",
        "transaction_index",
        "max_timestamp",
        "max_timestamp_offset",
        "roll_jitter_ms",
        "has_excess",
        "is_new",
        "_bytes_since_index_entry",
        "_rolling_timestamp",
        "_files",
    )

    def __init__(
        self, files: Files, cache: IndexCache, directory: str, base_offset: int, index_bytes: int, created_ms: int
    ) -> None:
        self.base_offset = base_offset
        self.created_ms = created_ms
        self.size = 0
        self.suffix = ""
        self._stem = path = f"{directory}/{base_offset:020d}"
        self.log = LogFile(files, path + LOG_SUFFIX)
        self.offset_index = OffsetIndex(files, cache, path + OFFSET_INDEX_SUFFIX, base_offset, index_bytes)
        self.time_index = TimeIndex(files, cache, path + TIME_INDEX_SUFFIX, base_offset, index_bytes)
        self.transaction_index = TransactionIndex(files, path + TRANSACTION_INDEX_SUFFIX)
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        self.roll_jitter_ms = 0
        self.has_excess = False
        """Whether the file may have bytes after its batches, zeros or a part of one: ``become_inactive`` cuts them."""
        self.is_new = True
        """Whether the file's name may not be on the disk yet."""
        self._bytes_since_index_entry = 0
        self._rolling_timestamp: int | None = None
        self._files = files

    def create(self, preallocated_bytes: int = 0) -> None:
        """Create the three files, empty; the log has ``preallocated_bytes`` zeros, which appends overwrite."""
        self._files.remove(self.transaction_index.path)
        self._files.create(self.log.path)
        self._files.create(self.offset_index.path)
        self._files.create(self.time_index.path)
        if preallocated_bytes:
            self._files.truncate(self.log.path, preallocated_bytes)
            self.has_excess = True

    def create_later(self) -> None:
        """Create no files until there is something to write: a full disk has refused to create them."""
        self.log.is_missing = True
        for index in (self.offset_index, self.time_index):
            index.write_later(index.path)

    def load(self, sizes: dict[str, int]) -> None:
        """Open existing files; ``sizes`` maps their suffixes to their sizes in bytes.

        Raises ``CorruptIndexError`` (or ``KeyError`` for a missing index): then ``recovery`` rebuilds the indexes.
        """
        self.size = sizes[LOG_SUFFIX]
        self.transaction_index.size = sizes.get(TRANSACTION_INDEX_SUFFIX, 0)
        self.offset_index.load(sizes[OFFSET_INDEX_SUFFIX])
        self.time_index.load(sizes[TIME_INDEX_SUFFIX])
        if self.time_index.last_timestamp == 0 and self._begins_after_1970():
            # Zeros have replaced the entries: retention would take the records for old and delete the segment.
            raise CorruptIndexError(f"{self.time_index.path} ends with timestamp 0, the first batch is later")
        self.transaction_index.sanity_check(self.base_offset)
        self.max_timestamp = self.time_index.last_timestamp
        self.max_timestamp_offset = self.time_index.last_offset

    @property
    def lacks_batches(self) -> bool:
        """Whether the loaded indexes have entries for batches beyond the end of the log file."""
        if not self.size:
            return self.time_index.entries > 0 or self.transaction_index.size > 0
        return self.offset_index.last_position >= self.size

    # writing

    def append(self, batches: bytes | bytearray | memoryview, added: AppendedRange, index_interval_bytes: int) -> int:
        """Write ``batches`` at the end, index them if an entry is due, and return their position.

        Raises ``OSError``; the segment's own state is unchanged then.
        """
        _, last_offset, max_timestamp, max_timestamp_offset, size = added
        position = self.size
        self.log.write_at(batches, position)
        if position == 0:
            self._rolling_timestamp = max_timestamp
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = max_timestamp_offset
        if self._bytes_since_index_entry > index_interval_bytes:
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset)
            self._bytes_since_index_entry = 0
        self._bytes_since_index_entry += size
        self.size = position + size
        return position

    def append_within(
        self,
        batches: bytes | bytearray | memoryview,
        added: tuple[int, int, int, int, int],
        config: LogConfig,
        segment_ms: int,
    ) -> int | None:
        """As ``append``, if that takes neither an index entry nor, by the rules of ``Log``, a new segment.

        ``added`` has the fields of an ``AppendedRange``. Otherwise nothing is done, and the result is None: at the
        first append, and once for some ``index.interval.bytes``.
        """
        _, last_offset, max_timestamp, max_timestamp_offset, size = added
        position = self.size
        offsets, times = self.offset_index, self.time_index
        since = self._rolling_timestamp
        if (
            not position  # a recovery may have cut off the batch of which `since` is the timestamp
            or since is None
            or since < 0
            or self._bytes_since_index_entry > config.index_interval_bytes
            or position + size > config.segment_bytes
            or max_timestamp - since > segment_ms - self.roll_jitter_ms
            or last_offset - self.base_offset > MAX_RELATIVE_OFFSET
            or offsets.entries >= offsets.full_from
            or times.entries >= times.full_from
        ):
            return None
        self.log.write_at(batches, position)
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = max_timestamp_offset
        self._bytes_since_index_entry += size
        self.size = position + size
        return position

    def cut_failed_append(self) -> None:
        """Cut off what an append that failed has written; if the disk refuses that too, it is done later."""
        try:
            self._files.truncate(self.log.path, self.size)
        except OSError:
            self.has_excess = True

    def index_again(self, position: int, header: BatchHeader, index_interval_bytes: int) -> None:
        """Index a batch that recovery has found at ``position``, if an entry is due."""
        self._note_timestamp(header)
        if position - self.offset_index.last_position > index_interval_bytes:
            self.offset_index.append(header.last_offset, position)
            self.time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset)

    @property
    def largest_timestamp(self) -> int:
        """The largest timestamp (ms); the file's time of modification where no record has one (format 0)."""
        return self.max_timestamp if self.max_timestamp >= 0 else self.modified_ms

    @property
    def modified_ms(self) -> int:
        """The log file's time of modification, in ms by the file system's clock."""
        return self._files.modified_ms(self.log.path)

    def first_timestamp(self) -> int:
        """The largest timestamp of the first batch (ms; -1: none), from which ``segment.ms`` counts."""
        since = self._rolling_timestamp
        if since is None:
            _, first, _ = next(self.batches(0, self.size))
            since = self._rolling_timestamp = first.max_timestamp
        return since

    def _begins_after_1970(self) -> bool:
        """Whether the first batch has a timestamp above 0; false if it can't be read."""
        try:
            return self.size > 0 and self.first_timestamp() > 0
        except (CorruptRecordError, KafkaStorageError):
            return False

    @property
    def indexes_are_full(self) -> bool:
        """Whether one of the indexes has no room for another entry."""
        offsets, times = self.offset_index, self.time_index  # evaluated at every append, hence no calls
        return offsets.entries >= offsets.full_from or times.entries >= times.full_from

    def become_inactive(self) -> list[str]:
        """Write the time index's final entry and all entries in memory, and cut off the bytes after the batches.

        Returns the paths that were written.
        """
        self.time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset)
        written = self.write_indexes()
        if self.log.is_missing:  # the file's name may hold the offset at which the log begins
            self._files.create(self.log.path)
            self.log.is_missing = False
            written.append(self.log.path)
        if self.has_excess:
            self._files.truncate(self.log.path, self.size)
            self.has_excess = False
            written.append(self.log.path)
        return written

    @property
    def has_unwritten_indexes(self) -> bool:
        """Whether the files of the indexes lack entries, or are to be replaced."""
        return (
            self.offset_index.is_unwritten or self.time_index.is_unwritten or self.transaction_index.is_unwritten
        )  # fmt: skip

    def write_indexes(self) -> list[str]:
        """Write the index entries that are in memory; return the paths that were written."""
        return [index.path for index in (self.offset_index, self.time_index, self.transaction_index) if index.write()]

    def paths_to_sync(self) -> list[str]:
        """Return the files that a flush must fsync."""
        paths = [self.log.path, self.offset_index.path, self.time_index.path]
        return [*paths, self.transaction_index.path] if self.transaction_index.size else paths

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Drop everything from the batch on that holds ``offset``."""
        found = self.translate(offset)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.transaction_index.truncate_to(offset)
        if found is not None:
            self.size = found[0]
            self._files.truncate(self.log.path, self.size)
        if self.size == 0:
            self.created_ms = now_ms
            self._rolling_timestamp = None
        self._bytes_since_index_entry = 0
        self.max_timestamp = self.time_index.last_timestamp
        self.max_timestamp_offset = self.time_index.last_offset
        for _, header, _ in self.batches(self.offset_index.lookup(self.time_index.last_offset), self.size):
            self._note_timestamp(header)

    def _note_timestamp(self, header: BatchHeader) -> None:
        if header.max_timestamp > self.max_timestamp:
            self.max_timestamp = header.max_timestamp
            self.max_timestamp_offset = header.last_offset

    def reset_indexes(self) -> None:
        """Empty the indexes and the values that are derived from the log."""
        self.offset_index.reset()
        self.time_index.reset()
        self.transaction_index.reset()
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = self.base_offset
        self._bytes_since_index_entry = 0

    # reading

    def translate(self, offset: int) -> tuple[int, int] | None:
        """Return (position, size) of the first batch whose last offset is not below ``offset``, or None."""
        position, following = self.offset_index.around(offset)
        if following - position > _SCAN_BYTES:
            found = self._indexed(following, offset)
            if found is not None:
                return found
        unpack = _BOUNDS.unpack_from
        while position < self.size:
            chunk = self.log.read_at(min(_SCAN_BYTES, self.size - position), position)
            at, limit = 0, len(chunk) - _BOUNDS.size
            while at <= limit:
                base_offset, length, magic, delta = unpack(chunk, at)
                if length < SMALLEST_LENGTH:
                    raise KafkaStorageError(f"{self.log.path} holds no batch at position {position + at}")
                if (base_offset + delta if magic == MAGIC else base_offset) >= offset:
                    return position + at, length + LOG_OVERHEAD
                at += length + LOG_OVERHEAD
            if at == 0:
                return self._translate_shortest(chunk, position, offset)
            position += at
        return None

    def _indexed(self, position: int, offset: int) -> tuple[int, int] | None:
        """Return the result of ``translate`` if it is the batch at ``position``: large batches nearly always are."""
        header = self.log.read_at(_BOUNDS.size, position)
        if len(header) == _BOUNDS.size:  # an entry of format 0 may be shorter
            base_offset, length, magic, delta = _BOUNDS.unpack(header)
            if magic == MAGIC and base_offset <= offset <= base_offset + delta:
                return position, length + LOG_OVERHEAD
        return None

    def _translate_shortest(self, chunk: bytes, position: int, offset: int) -> tuple[int, int] | None:
        """As ``translate``, for the one case that its loop can't read: an entry shorter than ``_BOUNDS`` at the end.

        It is an entry of format 0 that has neither key nor value.
        """
        if len(chunk) != SMALLEST_BATCH or position + SMALLEST_BATCH != self.size:
            raise KafkaStorageError(f"{self.log.path} ends before position {self.size}")
        return (position, SMALLEST_BATCH) if _OFFSET.unpack_from(chunk)[0] >= offset else None

    def batch_size(self, position: int) -> int:
        """Return the size of the batch at ``position``."""
        length: int = _LENGTH.unpack(self.log.read_at(_LENGTH.size, position + LENGTH_OFFSET))[0]
        return length + LOG_OVERHEAD

    def batches(self, position: int, end: int) -> Iterator[Batch]:
        """Yield (position, header, bytes) of each batch from ``position`` to ``end``: see ``batches.read_batches``."""
        return read_batches(self.log, position, end)

    def next_offset(self) -> int:
        """Return the offset after the last batch.

        Raises ``CorruptRecordError`` when the file does not end with a whole batch.
        """
        offset = self.base_offset
        start = self.offset_index.last_position
        if start >= self.size and start:
            raise CorruptRecordError(
                f"{self.log.path} has {self.size} bytes, but its offset index points to byte {start}"
            )
        for _, header, _ in self.batches(start, self.size):
            offset = header.next_offset
        return offset

    # rename and remove

    def paths(self) -> list[str]:
        """Return the paths of its files that exist."""
        return [path for part, _ in _PARTS if self._files.exists(path := getattr(self, part).path)]

    def rename(self, suffix: str, *, log_last: bool = False, on_disk: bool = True) -> None:
        """Replace the suffix of its files' names by ``suffix``; the segment stays readable.

        The log is renamed first unless ``log_last``. Without ``on_disk`` the segment has no files yet, and only their
        future names change. Raises ``OSError``; another call continues with the files that were not renamed.
        """
        for name, kind in reversed(_PARTS) if log_last else _PARTS:
            part = getattr(self, name)
            target = self._stem + kind + suffix
            if target != part.path:
                if on_disk and self._files.exists(part.path):
                    self._files.rename(part.path, target)
                part.rename(target)
        self.suffix = suffix

    def move_to(self, directory: str) -> None:
        """Note that its folder was renamed to ``directory``; the segment stays readable."""
        self._stem = f"{directory}/{self.base_offset:020d}"
        for name, kind in _PARTS:
            getattr(self, name).rename(self._stem + kind + self.suffix)

    def remove(self) -> None:
        """Remove its files."""
        self.close()
        for path in self.paths():
            self._files.remove(path)

    def close(self) -> None:
        """Close the descriptor and drop cached index entries."""
        self.log.close()
        self.offset_index.forget()
        self.time_index.forget()


# The segments of a log, by base offset: a list that is replaced and never changed.
#
# A reader or iterator keeps the list of the moment when it began. Deletion, truncation and compaction replace the list,
# so running iterations are not affected; a segment that has left the list stays readable until its files are removed
# (``Log.delete_oldest_segments``). An append changes the active segment and not the list.


class Segments:
    """The sorted segments; the last one is active. A loaded log has at least one."""

    __slots__ = ("_bases", "_segments", "active")

    def __init__(self) -> None:
        self._bases: list[int] = []
        self._segments: list[Segment] = []
        self.active: Segment

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    def _take(self, segments: list[Segment]) -> None:
        bases = [segment.base_offset for segment in segments]
        assert all(bases[place] < bases[place + 1] for place in range(len(bases) - 1)), bases
        self._bases, self._segments = bases, segments
        if segments:
            self.active = segments[-1]

    @property
    def first(self) -> Segment:
        """The oldest segment."""
        return self._segments[0]

    def add(self, segment: Segment) -> None:
        """Add a segment whose base offset is above all others'."""
        assert not self._bases or segment.base_offset > self._bases[-1]
        self._bases, self._segments = [*self._bases, segment.base_offset], [*self._segments, segment]
        self.active = segment

    def replace(self, old: Sequence[Segment], new: Sequence[Segment]) -> None:
        """Replace ``old``, which are neighbours in the list, by ``new``, which may be empty.

        The caller handles the files, and ensures that a segment remains or is added.
        """
        at = self._segments.index(old[0])
        after = at + len(old)
        assert self._segments[at:after] == list(old), "the segments to replace are neighbours"
        self._take([*self._segments[:at], *new, *self._segments[after:]])

    def drop_oldest(self, count: int) -> None:
        """Remove the first ``count`` segments, but not all; the caller handles the files."""
        assert count < len(self._segments), "a segment stays"
        self._bases, self._segments = self._bases[count:], self._segments[count:]

    def oldest(self, count: int) -> list[Segment]:
        """Return the first ``count`` segments, or all if there are fewer."""
        return self._segments[:count]

    def floor(self, offset: int) -> int:
        """Return the number of the segment that ``offset`` falls into, or -1 below the first."""
        return bisect_right(self._bases, offset) - 1

    def starting_at(self, number: int) -> list[Segment]:
        """Return the segments from ``number`` on."""
        return self._segments[max(number, 0) :]

    def between(self, start_offset: int, end_offset: int) -> list[Segment]:
        """Return the segments that hold offsets from ``start_offset`` up to, but not including, ``end_offset``."""
        return self._segments[max(self.floor(start_offset), 0) : bisect_left(self._bases, end_offset)]

    def cut(self, number: int) -> list[Segment]:
        """Remove and return the segments from ``number`` on; the caller ensures that a segment remains or is added."""
        removed = self._segments[number:]
        self._take(self._segments[:number])
        return removed
