"""Reads the whole batches of a damaged segment: the bytes between two of them are skipped and reported.

A read by offset (``Log.read``) follows the lengths of the batches, so after a wrong length it finds no batch. Here each
batch must have a valid CRC and fitting offsets, and after a damaged one the bytes are searched for the next.
"""

from collections.abc import Callable, Generator
from struct import Struct
from typing import Final, NamedTuple, Protocol

from kafkapy.platform.disk_errors import LogOnDisk, as_storage_error
from kafkapy.records.batch import (
    HEADER_SIZE,
    LENGTH_OFFSET,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_OFFSET,
    BatchHeader,
    crc_is_valid,
    read_header,
)
from kafkapy.records.errors import CorruptRecordError
from kafkapy.storage.log.batches import SMALLEST_BATCH
from kafkapy.storage.log.segment import Segment, Segments

RUN_BYTES: Final = 65_536
"""About this many bytes of batches are passed on at a time, and searched in one step."""
CANDIDATES: Final = 64
"""Positions that are tried in one step."""
_LENGTH: Final = Struct(">i")
_MAGIC_BYTE: Final = bytes([MAGIC])


class SalvagedLog(LogOnDisk, Protocol):
    """The part of ``log.Log`` that is used here."""

    @property
    def segments(self) -> Segments:
        """The log's segments."""

    @property
    def log_end_offset(self) -> int:
        """The offset after the last record."""


class Damage(NamedTuple):
    """Bytes of a segment that are no batch, in the place of the offsets from ``offset`` to ``next_offset``."""

    path: str
    position: int
    size: int
    offset: int
    next_offset: int


def salvage(
    log: SalvagedLog,
    offset: int,
    take: Callable[[bytes], Generator[None, None, object]],
    damaged: Callable[[Damage], None],
) -> Generator[None, None, int]:
    """Pass the whole batches of the segment of ``offset``, from there on, to ``take``; return the next segment's start.

    ``damaged`` is called with the bytes between them. Each ``yield`` is a place to pause. Raises ``KafkaStorageError``
    when the disk can't be read.
    """
    segments = log.segments.starting_at(log.segments.floor(offset))
    limit = segments[1].base_offset if len(segments) > 1 else log.log_end_offset
    with as_storage_error(log, "read"):
        position = segments[0].offset_index.lookup(offset)
    search = _Search(log, segments[0], limit)
    expected = segments[0].base_offset
    while position < search.end:
        run = bytearray()
        found = search.batch_at(position, expected)
        while found is not None and len(run) < RUN_BYTES:
            header, content = found
            expected = header.next_offset
            position += header.size
            if expected > offset:
                run += content
            found = search.batch_at(position, expected)
        if run:
            yield from take(bytes(run))
        yield
        if found is None and position < search.end:
            start, position = position, (yield from search.next_batch(position, expected))
            after = search.batch_at(position, expected)
            next_offset = limit if after is None else after[0].base_offset
            damaged(Damage(segments[0].log.path, start, position - start, expected, next_offset))
    return limit


class _Search:
    """Looks for whole batches in a segment as it was when the search began."""

    def __init__(self, log: SalvagedLog, segment: Segment, limit: int) -> None:
        self.end = segment.size
        self._log = log
        self._segment = segment
        self._limit = limit

    def batch_at(self, position: int, expected: int) -> tuple[BatchHeader, bytes] | None:
        """Return the batch at ``position`` if it is whole, has a valid CRC and no offset below ``expected``."""
        with as_storage_error(self._log, "read"):
            start = self._segment.log.read_at(HEADER_SIZE, position)
            if len(start) < SMALLEST_BATCH:
                return None
            size: int = _LENGTH.unpack_from(start, LENGTH_OFFSET)[0] + LOG_OVERHEAD
            if not SMALLEST_BATCH <= size <= self.end - position:
                return None
            content = self._segment.log.read_at(size, position)
        try:
            header = read_header(content)
        except CorruptRecordError:
            return None
        fits = expected <= header.base_offset <= header.last_offset < self._limit
        return (header, content) if fits and crc_is_valid(content, 0, header) else None

    def next_batch(self, position: int, expected: int) -> Generator[None, None, int]:
        """Return the position of the next whole batch of magic 2 after the damaged one at ``position``, or the end."""
        with as_storage_error(self._log, "read"):
            length = self._segment.log.read_at(_LENGTH.size, position + LENGTH_OFFSET)
        if len(length) == _LENGTH.size:  # if its length is right, no bytes inside it are taken for a batch
            after = position + _LENGTH.unpack(length)[0] + LOG_OVERHEAD
            if after > position and self.batch_at(after, expected) is not None:
                return int(after)
        position += 1
        tried = 0
        while position < self.end:
            with as_storage_error(self._log, "read"):
                chunk = self._segment.log.read_at(RUN_BYTES, position + MAGIC_OFFSET)
            at = chunk.find(_MAGIC_BYTE)
            while at >= 0:
                if self.batch_at(position + at, expected) is not None:
                    return position + at
                tried += 1
                if tried % CANDIDATES == 0:
                    yield
                at = chunk.find(_MAGIC_BYTE, at + 1)
            position += RUN_BYTES
            yield
        return self.end
