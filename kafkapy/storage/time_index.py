"""``….timeindex``: from a timestamp to an offset. Entry: timestamp i64 (ms), relative offset i32.

An entry (T, O) says that no record before the batch at O has a timestamp above T.
"""

from struct import Struct
from typing import Final

from kafkapy.storage.errors import CorruptIndexError
from kafkapy.storage.files import Files
from kafkapy.storage.index import Index, IndexCache

NO_TIMESTAMP: Final = -1


class TimeIndex(Index):
    """Both timestamps and offsets grow; the last entry of a closed segment holds its largest timestamp."""

    ENTRY = Struct(">qi")

    __slots__ = ("last_timestamp", "last_offset")

    def __init__(self, files: Files, cache: IndexCache, path: str, base_offset: int, max_bytes: int) -> None:
        super().__init__(files, cache, path, base_offset, max_bytes)
        self.full_from -= 1  # one slot is kept for the entry that closes the segment
        self.last_timestamp = NO_TIMESTAMP
        self.last_offset = base_offset

    def load(self, size: int) -> None:
        """See ``Index.load``; timestamps grow, so an index of several zeros is corrupt."""
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
