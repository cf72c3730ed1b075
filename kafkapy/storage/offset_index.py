"""``….index``: from an offset to the byte position of a batch at or before it.

Entry: relative offset i32, position i32.
"""

from struct import Struct

from kafkapy.storage.errors import CorruptIndexError
from kafkapy.storage.files import Files
from kafkapy.storage.index import Index, IndexCache


class OffsetIndex(Index):
    """Offsets are stored relative to the base; an entry is an append's last offset and the position of its start."""

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
        """Return what ``lookup`` does, and the position of the first entry that is not below ``offset``.

        They are the same where that entry names ``offset`` itself, or there is none.
        """
        if offset >= self.last_offset or not self.entries:
            return self.last_position, self.last_position
        relative_offset = offset - self.base_offset
        slot = self.floor_slot(relative_offset - 1, 0)
        position = self.entry(slot)[1] if slot >= 0 else 0
        if slot + 1 == self.entries:  # a damaged file has lost its order
            return position, position
        next_offset, following = self.entry(slot + 1)
        return (following if next_offset == relative_offset else position), following

    def offset_from(self, position: int) -> int | None:
        """Return the offset of the first entry at or behind ``position``; None if there is none."""
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
