"""Reads the batches of a log file, of any format, one after the other.

Each outer entry of a message set (formats 0 and 1) is a batch; ``records.batch.read_legacy_header`` describes its
header. The CRC of a batch of format 2 is not checked here. The CRC of an entry is checked, since zeros and garbage
look like an entry of format 0.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final

from kafkapy.records.batch import (
    LENGTH_OFFSET,
    LOG_OVERHEAD,
    MAGIC,
    SMALLEST_LENGTH,
    BatchHeader,
    crc_is_valid,
    read_header,
)
from kafkapy.records.errors import CorruptRecordError
from kafkapy.storage.log.log_file import LogFile

SMALLEST_BATCH: Final = SMALLEST_LENGTH + LOG_OVERHEAD
"""Bytes of an entry of format 0 without key and value: no batch of any format is shorter."""

_READ_BYTES: Final = 256 * 1024
_LENGTH: Final = Struct(">i")

Batch = tuple[int, BatchHeader, memoryview]
"""Position in the file, header, bytes."""


def read_batches(log: LogFile, position: int, end: int) -> Iterator[Batch]:
    """Yield the batches from ``position`` to ``end``.

    Raises ``CorruptRecordError`` at bytes that are no batch, or an incomplete one.
    """
    while position < end:
        chunk = _read(log, min(_READ_BYTES, end - position), position)
        at = 0
        while (size := _whole_size(log, chunk, at, end - position - at)) is not None:
            batch = chunk[at : at + size]
            yield position + at, _header(log, batch), batch
            at += size
        if at == 0:
            chunk = _read(log, _LENGTH.unpack_from(chunk, LENGTH_OFFSET)[0] + LOG_OVERHEAD, position)
            yield position, _header(log, chunk), chunk
            at = len(chunk)
        position += at


def _whole_size(log: LogFile, chunk: memoryview, at: int, available: int) -> int | None:
    """Return the size of the batch at ``at``, or None if ``chunk`` doesn't hold all of it."""
    left = len(chunk) - at
    if left < SMALLEST_BATCH:
        if 0 < available < SMALLEST_BATCH:
            raise CorruptRecordError(f"{log.path} ends within a batch's header")
        return None
    size: int = _LENGTH.unpack_from(chunk, at + LENGTH_OFFSET)[0] + LOG_OVERHEAD
    if not SMALLEST_BATCH <= size <= available:
        raise CorruptRecordError(f"{log.path} holds a batch of {size} bytes where {available} are left")
    return size if size <= left else None


def _header(log: LogFile, batch: memoryview) -> BatchHeader:
    header = read_header(batch)
    if header.magic < MAGIC and not crc_is_valid(batch, 0, header):
        raise CorruptRecordError(f"{log.path} holds bytes that are no batch")
    return header


def _read(log: LogFile, size: int, position: int) -> memoryview:
    content = log.read_at(size, position)
    if len(content) < size:
        raise CorruptRecordError(f"{log.path} ends before position {position + size}")
    return memoryview(content)
