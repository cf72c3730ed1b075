"""Reads a ``.log`` from its beginning, a chunk at a time, up to the first bytes that are no batch."""

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

from kafkapy.platform.files import Files
from kafkapy.records.batch import (
    ATTRIBUTES_OFFSET,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_OFFSET,
    BatchHeader,
    crc_is_valid,
    measure,
    read_header,
)
from kafkapy.records.crc import crc32c
from kafkapy.records.errors import CorruptRecordError

CHUNK_BYTES: Final = 1024 * 1024
MAX_IN_MEMORY: Final = 64 * 1024 * 1024
"""Batches of more bytes are checked without reading them into memory as a whole."""
_PREFIX: Final = MAGIC_OFFSET + 1
_LENGTH: Final = Struct(">i")
_V2: Final = Struct(">qiibIhiqqqhii")
_V01: Final = Struct(">qiIbb")


class ScannedBatch(NamedTuple):
    """One batch; ``content`` is None when it is larger than ``MAX_IN_MEMORY``."""

    position: int
    header: BatchHeader
    crc_is_valid: bool
    content: memoryview | None


class LogScan:
    """Iterates over the batches, once; then ``position`` is their end, and ``problem`` why that is not the file's."""

    def __init__(self, files: Files, path: str) -> None:
        self.path = path
        self.size = files.size(path)
        self.position = 0
        self.problem: str | None = None
        self.is_torn = False
        """Whether the end looks like an incomplete write and not like damage."""
        self._files = files
        self._descriptor = files.open(path, 0)

    def __iter__(self) -> Iterator[ScannedBatch]:
        chunk = memoryview(b"")
        start = 0
        while self.position < self.size:
            at = self.position - start
            if at + _PREFIX > len(chunk) or self._size_in(chunk, at) > len(chunk) - at:
                start, at = self.position, 0
                chunk = memoryview(self._read(max(CHUNK_BYTES, min(self._announced(), MAX_IN_MEMORY)), start))
            scanned = self._batch(chunk, at)
            if scanned is None:
                return
            yield scanned
            self.position += scanned.header.size

    def _read(self, size: int, position: int) -> bytes:
        return self._files.read_at(self._descriptor, min(size, self.size - position), position)

    def _size_in(self, chunk: memoryview, at: int) -> int:
        return int(_LENGTH.unpack_from(chunk, at + 8)[0]) + LOG_OVERHEAD

    def _announced(self) -> int:
        prefix = self._read(LOG_OVERHEAD, self.position)
        return self._size_in(memoryview(prefix), 0) if len(prefix) == LOG_OVERHEAD else 0

    def _batch(self, chunk: memoryview, at: int) -> ScannedBatch | None:
        left = self.size - self.position
        try:
            size = measure(chunk, at)
            if size is not None:
                header = read_header(chunk[at : at + size])
                content = chunk[at : at + size]
                return ScannedBatch(self.position, header, crc_is_valid(content, 0, header), content)
        except CorruptRecordError as error:
            self.problem = str(error)
            return None
        announced = self._size_in(chunk, at) if left >= LOG_OVERHEAD else left + 1
        if announced <= left and left >= _PREFIX:
            return self._large(announced)
        self.is_torn = True
        self.problem = f"{left} bytes are left, which are no whole batch"
        return None

    def _large(self, size: int) -> ScannedBatch:
        prefix = self._read(HEADER_SIZE, self.position)
        if prefix[MAGIC_OFFSET] >= MAGIC:
            base_offset, _, *rest = _V2.unpack(prefix)
            header = BatchHeader(base_offset, size, *rest)
            crc = self._crc(crc32c, ATTRIBUTES_OFFSET, size)
        else:
            offset, _, stored, magic, attributes = _V01.unpack_from(prefix)
            header = BatchHeader(offset, size, -1, magic, stored, attributes, 0, -1, -1, -1, -1, -1, 1)
            crc = self._crc(crc32, MAGIC_OFFSET, size)
        return ScannedBatch(self.position, header, crc == header.crc, None)

    def _crc(self, function: Callable[[bytes, int], int], start: int, size: int) -> int:
        value = 0
        for at in range(self.position + start, self.position + size, CHUNK_BYTES):
            part = self._read(min(CHUNK_BYTES, self.position + size - at), at)
            value = function(part, value)
        return value
