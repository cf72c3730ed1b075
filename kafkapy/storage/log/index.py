"""The offset and the time index: append-only arrays of fixed-size entries, which are written late.

Entries are collected in memory and written to the file a page at a time, at a roll, a flush or a clean close. A crash
may lose them: recovery rebuilds the indexes of every segment that reaches beyond the recovery point, and the recovery
point moves only after the entries below it were written. Entries in the file are read when a lookup needs them, and
kept while ``IndexCache`` has room.
"""

from contextlib import suppress
from struct import Struct
from typing import ClassVar, Final

from kafkapy.platform.disk_errors import is_full
from kafkapy.platform.files import Files
from kafkapy.storage.errors import CorruptIndexError
from kafkapy.types import NO_TIMESTAMP

PAGE_BYTES: Final = 4096
DEFAULT_CACHE_BYTES: Final = 8 * 1024 * 1024


class IndexCache:
    """The index files that are in memory; the oldest are evicted when they exceed ``max_bytes`` together."""

    def __init__(self, max_bytes: int = DEFAULT_CACHE_BYTES) -> None:
        self.max_bytes = max_bytes
        self.bytes = 0
        self._content: dict[str, bytes] = {}

    def get(self, files: Files, path: str, size: int) -> bytes:
        """Return the first ``size`` bytes of ``path``."""
        content = self._content.get(path)
        if content is not None and len(content) == size:
            return content
        self.drop(path)
        content = files.read(path, size)
        self._content[path] = content
        self.bytes += size
        while self.bytes > self.max_bytes:
            self.drop(next(iter(self._content)))
        return content

    def drop(self, path: str) -> None:
        """Evict ``path``, because the file was changed or removed."""
        content = self._content.pop(path, None)
        if content is not None:
            self.bytes -= len(content)


class Index:
    """Entries in ascending order; ``size`` bytes of them are in the file and the rest in memory."""

    ENTRY: ClassVar[Struct]

    __slots__ = ("path", "base_offset", "full_from", "entries", "_files", "_cache", "_size", "_pending", "_replaces")

    def __init__(self, files: Files, cache: IndexCache, path: str, base_offset: int, max_bytes: int) -> None:
        self.path = path
        self.base_offset = base_offset
        self.full_from = max_bytes // self.ENTRY.size
        """The number of entries at which the segment must be rolled."""
        self.entries = 0
        self._files = files
        self._cache = cache
        self._size = 0
        self._pending = bytearray()
        self._replaces = False
        """All entries are in memory, and the file is missing or wrong: the next write replaces it."""

    def load(self, size: int) -> None:
        """Open an existing file of ``size`` bytes.

        Raises ``CorruptIndexError`` when the size is not whole entries; the subclass checks the content.
        """
        if size % self.ENTRY.size:
            raise CorruptIndexError(f"{self.path} has {size} bytes, which is not a multiple of {self.ENTRY.size}")
        self._size = size
        self.entries = size // self.ENTRY.size

    def entry(self, slot: int) -> tuple[int, int]:
        """Return the entry at ``slot`` as it is stored."""
        position = slot * self.ENTRY.size
        if position >= self._size:
            first, second = self.ENTRY.unpack_from(self._pending, position - self._size)
        else:
            first, second = self.ENTRY.unpack_from(self._cache.get(self._files, self.path, self._size), position)
        return first, second

    def stored_entry(self, slot: int) -> tuple[int, int]:
        """Read one entry of the file and no other bytes."""
        first, second = self.ENTRY.unpack(self._files.read(self.path, self.ENTRY.size, slot * self.ENTRY.size))
        return first, second

    def stored_ends(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return the first and the last entry of the file, which must have one; a small file is read as a whole."""
        if self._size > PAGE_BYTES:
            return self.stored_entry(0), self.stored_entry(self.entries - 1)
        content = self._files.read(self.path, self._size)
        first: tuple[int, int] = self.ENTRY.unpack_from(content)
        last: tuple[int, int] = self.ENTRY.unpack_from(content, self._size - self.ENTRY.size)
        return first, last

    def floor_slot(self, target: int, field: int) -> int:
        """Return the last slot whose ``field`` (0 or 1) is not above ``target``, or -1."""
        stored = self._size // self.ENTRY.size
        first, low, high = 0, 0, stored
        content: bytes | bytearray = b""
        if stored < self.entries and self.entry(stored)[field] <= target:
            first, low, high, content = stored, stored, self.entries, self._pending
        elif stored:
            content = self._cache.get(self._files, self.path, self._size)
        unpack, size = self.ENTRY.unpack_from, self.ENTRY.size
        while low < high:
            middle = (low + high) // 2
            if unpack(content, (middle - first) * size)[field] <= target:
                low = middle + 1
            else:
                high = middle
        return low - 1

    def _append(self, first: int, second: int) -> None:
        self._pending += self.ENTRY.pack(first, second)
        self.entries += 1
        if len(self._pending) >= PAGE_BYTES:
            # The batch is in the log already. Entries that a full disk refuses are written with the next ones.
            with suppress(OSError):
                self.write()

    def write(self) -> bool:
        """Write the entries that are only in memory to the file; return whether there were any."""
        has_more = self.is_unwritten
        if self._replaces:
            self._files.replace(self.path, bytes(self._pending))
            self._replaces = False
        elif has_more:
            self._files.write(self.path, self._pending, self._size)
        if has_more:
            self._size += len(self._pending)
            self._pending = bytearray()
            self._cache.drop(self.path)
        return has_more

    @property
    def is_unwritten(self) -> bool:
        """Whether the file lacks entries, or is to be replaced."""
        return self._replaces or bool(self._pending)

    def write_later(self, path: str) -> None:
        """Read all entries into memory; the next ``write`` writes them as the file ``path``, which may exist."""
        stored = self._files.read(self.path, self._size) if self._size else b""
        self._pending = bytearray(stored) + self._pending
        self._size = 0
        self._replaces = True
        self.rename(path)

    def keep(self, entries: int) -> None:
        """Cut the index to its first ``entries``."""
        if entries < self.entries:
            self.write()
            self._size = entries * self.ENTRY.size
            self.entries = entries
            self._files.truncate(self.path, self._size)
            self._cache.drop(self.path)

    def reset(self) -> None:
        """Drop all entries and empty the file; on a full disk the old file stays until ``write``."""
        self._pending = bytearray()
        self._size = self.entries = 0
        self._replaces = False
        try:
            self._files.create(self.path)
        except OSError as error:
            if not is_full(error):
                raise
            self._replaces = True
        self._cache.drop(self.path)

    def rename(self, path: str) -> None:
        """Note the file's new name."""
        self.forget()
        self.path = path

    def forget(self) -> None:
        """Drop the entries in memory before the file is removed."""
        self._cache.drop(self.path)


# ``….index``: from an offset to the byte position of a batch at or before it.
#
# Entry: relative offset i32, position i32.


class OffsetIndex(Index):
    """Maps offsets, stored relative to the base, to positions: an entry has an append's last offset and first byte."""

    ENTRY = Struct(">ii")

    __slots__ = ("last_offset", "last_position")

    def __init__(self, files: Files, cache: IndexCache, path: str, base_offset: int, max_bytes: int) -> None:
        super().__init__(files, cache, path, base_offset, max_bytes)
        self.last_offset = base_offset
        self.last_position = 0

    def load(self, size: int) -> None:
        """See ``Index.load``; an index padded with zeros, as a crashed Apache Kafka leaves it, is corrupt too."""
        super().load(size)
        if self.entries:
            relative_offset, position = self.stored_entry(self.entries - 1)
            if relative_offset <= 0 or position <= 0:
                raise CorruptIndexError(f"{self.path} ends with ({relative_offset}, {position})")
            self.last_offset = self.base_offset + relative_offset
            self.last_position = position

    def append(self, offset: int, position: int) -> None:
        """Add an entry; offsets must grow."""
        assert self.entries == 0 or offset > self.last_offset, (offset, self.last_offset)
        self._append(offset - self.base_offset, position)
        self.last_offset = offset
        self.last_position = position

    def lookup(self, offset: int) -> int:
        """Return the position of a batch from which a scan finds ``offset``."""
        if self.entries and offset >= self.last_offset:
            return self.last_position
        slot = self.floor_slot(offset - self.base_offset, 0)
        return 0 if slot < 0 else self.entry(slot)[1]

    def around(self, offset: int) -> tuple[int, int]:
        """Return the result of ``lookup`` and the position of the first entry that is not below ``offset``.

        They are equal if that entry has ``offset`` itself, or if there is none.
        """
        if offset >= self.last_offset or not self.entries:
            return self.last_position, self.last_position
        relative_offset = offset - self.base_offset
        slot = self.floor_slot(relative_offset - 1, 0)
        position = self.entry(slot)[1] if slot >= 0 else 0
        if slot + 1 == self.entries:  # the entries of a damaged file are not in order
            return position, position
        next_offset, following = self.entry(slot + 1)
        return (following if next_offset == relative_offset else position), following

    def offset_from(self, position: int) -> int | None:
        """Return the offset of the first entry at or after ``position``; None if there is none."""
        slot = self.floor_slot(position - 1, 1) + 1
        return self.base_offset + self.entry(slot)[0] if slot < self.entries else None

    def position_before(self, position: int) -> int:
        """Return the highest known position of a batch that is not above ``position``; 0 if there is none."""
        slot = self.floor_slot(position, 1)
        return 0 if slot < 0 else self.entry(slot)[1]

    def truncate_to(self, offset: int) -> None:
        """Drop the entries from ``offset`` on."""
        self.keep(self.floor_slot(offset - 1 - self.base_offset, 0) + 1)
        self._load_last()

    def reset(self) -> None:
        """See ``Index.reset``."""
        super().reset()
        self._load_last()

    def _load_last(self) -> None:
        relative_offset, self.last_position = self.entry(self.entries - 1) if self.entries else (0, 0)
        self.last_offset = self.base_offset + relative_offset


# ``….timeindex``: from a timestamp to an offset. Entry: timestamp i64 (ms), relative offset i32.
#
# An entry (T, O) says that no record before the batch at O has a timestamp above T.


class TimeIndex(Index):
    """Maps timestamps to offsets; both increase. The last entry of a closed segment has its largest timestamp."""

    ENTRY = Struct(">qi")

    __slots__ = ("last_timestamp", "last_offset")

    def __init__(self, files: Files, cache: IndexCache, path: str, base_offset: int, max_bytes: int) -> None:
        super().__init__(files, cache, path, base_offset, max_bytes)
        self.full_from -= 1  # one slot is kept for the entry that closes the segment
        self.last_timestamp = NO_TIMESTAMP
        self.last_offset = base_offset

    def load(self, size: int) -> None:
        """See ``Index.load``; timestamps increase, so an index of several zeros is corrupt."""
        super().load(size)
        if self.entries:
            first, (timestamp, relative_offset) = self.stored_ends()
            if timestamp < first[0] or (timestamp == first[0] and self.entries > 1) or relative_offset < 0:
                raise CorruptIndexError(f"{self.path} ends with ({timestamp}, {relative_offset})")
            self.last_timestamp = timestamp
            self.last_offset = self.base_offset + relative_offset

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Add an entry if ``timestamp`` is above the last one's."""
        if timestamp > self.last_timestamp:
            self._append(timestamp, offset - self.base_offset)
            self.last_timestamp = timestamp
            self.last_offset = offset

    def lookup(self, timestamp: int) -> int:
        """Return an offset from which a scan finds the first record of at least ``timestamp``."""
        slot = self.floor_slot(timestamp, 0)
        return self.base_offset if slot < 0 else self.base_offset + self.entry(slot)[1]

    def truncate_to(self, offset: int) -> None:
        """Drop the entries from ``offset`` on."""
        self.keep(self.floor_slot(offset - 1 - self.base_offset, 1) + 1)
        self._load_last()

    def reset(self) -> None:
        """See ``Index.reset``."""
        super().reset()
        self._load_last()

    def _load_last(self) -> None:
        last = self.entry(self.entries - 1) if self.entries else (NO_TIMESTAMP, 0)
        self.last_timestamp = last[0]
        self.last_offset = self.base_offset + last[1]
