"""``….txnindex``: the aborted transactions of a segment; the file is created with the first one.

Entry, 34 bytes: version i16 (0), producer id i64, first offset i64, last offset i64 (of the abort marker), last
stable offset at that time i64. The entries are in the order of last offsets.
"""

import os
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import suppress
from struct import Struct
from typing import Final, NamedTuple

from kafkapy.platform.files import Files
from kafkapy.storage.errors import CorruptIndexError

VERSION: Final = 0
ENTRY: Final = Struct(">hqqqq")
_ENTRIES_IN_A_READ: Final = 64


class AbortedTransaction(NamedTuple):
    """A transaction that read_committed consumers must skip."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The index of one segment: few entries, or very many where transactions are aborted again and again."""

    __slots__ = ("path", "size", "_files", "_pending", "_replaces")

    def __init__(self, files: Files, path: str, size: int = 0) -> None:
        self.path = path
        self.size = size
        self._files = files
        self._pending = b""
        """The last entries, included in ``size``, that the disk has refused so far: their markers are in the log."""
        self._replaces = False
        """All entries are in memory, and the file is missing or wrong: the next write replaces it."""

    def __iter__(self) -> Iterator[AbortedTransaction]:
        stored = self.size - len(self._pending)
        return self._decoded((self._files.read(self.path, stored) if stored else b"") + self._pending)

    def ended_from(self, offset: int) -> Iterator[AbortedTransaction]:
        """The transactions whose markers are at ``offset`` or later.

        Reads these only, some at a time, and one entry for each step of the search: every fetch of a read_committed
        consumer does this, and an application that aborts again and again makes a million entries in a segment.

        Raises ``CorruptIndexError`` and ``OSError``.
        """
        stored = (self.size - len(self._pending)) // ENTRY.size
        descriptor = self._files.open(self.path, os.O_RDONLY) if stored else None

        def entries(place: int, count: int) -> Iterator[AbortedTransaction]:
            if place >= stored:
                return self._decoded(self._pending[(place - stored) * ENTRY.size :])
            assert descriptor is not None
            wanted = min(count, stored - place) * ENTRY.size
            content = self._files.read_at(descriptor, wanted, place * ENTRY.size)
            if len(content) < wanted:
                raise CorruptIndexError(f"{self.path} has less than {self.size} bytes")
            return self._decoded(content)

        count = self.size // ENTRY.size
        place = bisect_left(range(count), offset, key=lambda each: next(entries(each, 1)).last_offset)
        while place < count:
            for entry in entries(place, _ENTRIES_IN_A_READ):
                yield entry
                place += 1

    def _decoded(self, content: bytes) -> Iterator[AbortedTransaction]:
        for version, *fields in ENTRY.iter_unpack(content):
            if version > VERSION:
                raise CorruptIndexError(f"{self.path} has an entry of unknown version {version}")
            yield AbortedTransaction._make(fields)

    def sanity_check(self, base_offset: int) -> None:
        """Raise ``CorruptIndexError`` if the file can't be right for the base offset."""
        if self.size % ENTRY.size:
            raise CorruptIndexError(f"{self.path} has {self.size} bytes, which is not a multiple of {ENTRY.size}")
        for entry in self:
            if entry.last_offset < base_offset:
                raise CorruptIndexError(f"{self.path} has {entry}, below the segment's base offset {base_offset}")

    def append(self, entry: AbortedTransaction) -> None:
        """Add a transaction that ended after all the others; an entry that the disk refuses waits for ``write``."""
        self._pending += ENTRY.pack(VERSION, *entry)
        self.size += ENTRY.size
        with suppress(OSError):
            self.write()

    def write(self) -> bool:
        """Write the entries that are only in memory to the file; return whether there were any."""
        has_more = self.is_unwritten
        if self._replaces:
            if self._pending:
                self._files.replace(self.path, self._pending)
            else:
                self._files.remove(self.path)
            self._replaces = False
        elif has_more:
            self._files.write(self.path, self._pending, self.size - len(self._pending))
        self._pending = b""
        return has_more

    @property
    def is_unwritten(self) -> bool:
        """Whether the file lacks entries, or is to be replaced."""
        return self._replaces or bool(self._pending)

    def write_later(self, path: str) -> None:
        """Read all entries into memory; the next ``write`` writes them as the file ``path``, which may exist."""
        self._pending = b"".join(ENTRY.pack(VERSION, *entry) for entry in self)
        self._replaces = True
        self.path = path

    def truncate_to(self, offset: int) -> None:
        """Drop the transactions whose marker is at ``offset`` or later."""
        kept = sum(1 for entry in self if entry.last_offset < offset)
        if kept * ENTRY.size < self.size:
            self.write()
            self.size = kept * ENTRY.size
            self._files.truncate(self.path, self.size)

    def rename(self, path: str) -> None:
        """Note the new name of the file, which may not exist yet."""
        self.path = path

    def reset(self) -> None:
        """Drop all entries and empty the file."""
        stored = self.size - len(self._pending)
        self._pending = b""
        self.size = 0
        if stored:
            self._files.truncate(self.path, 0)
