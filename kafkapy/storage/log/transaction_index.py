"""``….txnindex``: the aborted transactions of a segment, made when the first one is.

Entry, 34 bytes: version i16 (0), producer id i64, first offset i64, last offset i64 (of the abort marker), last
stable offset at that time i64. In the order of last offsets.
"""

from collections.abc import Iterator
from contextlib import suppress
from struct import Struct
from typing import Final, NamedTuple

from kafkapy.storage.errors import CorruptIndexError
from kafkapy.storage.io.files import Files

VERSION: Final = 0
ENTRY: Final = Struct(">hqqqq")


class AbortedTransaction(NamedTuple):
    """A transaction that read_committed consumers must skip."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """Few entries, seldom read: straight from the file."""

    __slots__ = ("path", "size", "_files", "_pending", "_replaces")

    def __init__(self, files: Files, path: str, size: int = 0) -> None:
        self.path = path
        self.size = size
        self._files = files
        self._pending = b""
        """The end of ``size`` that the disk has refused so far: the marker is in the log already."""
        self._replaces = False
        """All entries are in memory, and the file is missing or wrong: the next write puts another in its place."""

    def __iter__(self) -> Iterator[AbortedTransaction]:
        stored = self.size - len(self._pending)
        content = (self._files.read(self.path, stored) if stored else b"") + self._pending
        for version, *fields in ENTRY.iter_unpack(content):
            if version > VERSION:
                raise CorruptIndexError(f"{self.path} has an entry of unknown version {version}")
            yield AbortedTransaction._make(fields)

    def sanity_check(self, base_offset: int) -> None:
        """Raise ``CorruptIndexError`` unless the file can be what its name says."""
        if self.size % ENTRY.size:
            raise CorruptIndexError(f"{self.path} has {self.size} bytes, which is not a multiple of {ENTRY.size}")
        for entry in self:
            if entry.last_offset < base_offset:
                raise CorruptIndexError(f"{self.path} has {entry}, below the segment's base offset {base_offset}")

    def append(self, entry: AbortedTransaction) -> None:
        """Add a transaction that ended after all the others; what the disk refuses waits for the next ``write``."""
        self._pending += ENTRY.pack(VERSION, *entry)
        self.size += ENTRY.size
        with suppress(OSError):
            self.write()

    def write(self) -> bool:
        """Put the entries that are only in memory into the file; return whether there were any."""
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
        """Take all entries into memory; the next ``write`` makes the file ``path`` of them, or replaces it."""
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
        """The file, or the one that is not there yet, has got another name."""
        self.path = path

    def reset(self) -> None:
        """Drop everything."""
        stored = self.size - len(self._pending)
        self._pending = b""
        self.size = 0
        if stored:
            self._files.truncate(self.path, 0)
