"""The five codecs of Kafka's batches in one table; each bounds its output before it allocates memory.

=====  =======  ==========================================================================================
codec  name     what is written; what is read
=====  =======  ==========================================================================================
0      none
1      gzip     one member; also several, or one before other bytes
2      snappy   the framing of snappy-java ("xerial"), 32 kB blocks; also a bare snappy block (other clients)
3      lz4      an LZ4 frame of independent 64 kB blocks, as Java's; Kafka's clients read no dependent blocks
4      zstd     one frame, level 3; also several (KIP-110)
=====  =======  ==========================================================================================

Bytes after the compressed data are ignored where Java ignores them. The checksums of the whole content, in gzip and
where an lz4 frame has one, must be right; Java's readers do not read them.
"""

import zlib
from collections.abc import Callable
from functools import partial
from importlib import import_module
from struct import Struct
from typing import Any

from kafkapy.buffers import new_buffer
from kafkapy.records.errors import CorruptRecordError, RecordTooLargeError, UnsupportedCompressionTypeError


class _Codecs:
    """The module ``cramjam``, imported with the first compressed batch: many brokers never get one."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(import_module("cramjam"), name)
        setattr(self, name, found)
        return found


cramjam = _Codecs()

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
"""As ``compression.type`` spells them; the index is the codec's number."""

ReadableBuffer = bytes | bytearray | memoryview

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK = 32 * 1024
_XERIAL_NEXT_HEADER = int.from_bytes(_XERIAL_MAGIC[:4], "big")
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_HEADER = _LZ4_MAGIC + b"\x60\x40\x82"
_LZ4_BLOCK = 64 * 1024
_LZ4_STORED = 1 << 31
_LZ4_END = b"\x00\x00\x00\x00"
_LZ4_FIRST_BLOCK = 7
_LZ4_FIXED_BITS, _LZ4_FIXED_FLAGS = 0xE3, 0x60
"""Version 1, independent blocks; no dictionary, nothing reserved."""
_LZ4_RESERVED_SIZES, _LZ4_SMALLEST_SIZE = 0x8F, 4
_LZ4_BLOCK_CHECKSUM_BIT, _LZ4_CONTENT_SIZE_BIT, _LZ4_CONTENT_CHECKSUM_BIT = 0x10, 0x08, 0x04
_GZIP_WINDOW = 31
_GZIP_MEMBER = b"\x1f\x8b\x08"
_ZSTD_LEVEL = 3
_GZIP_LEVEL = 6

_BIG_INT32 = Struct(">I")
_LITTLE_INT32 = Struct("<I")

_FIRST_GUESS = 16 * 1024
_GROWTH = 4
_NO_ROOM = "failed to write whole buffer"


def compress(codec: int, data: ReadableBuffer) -> bytes:
    """Compress with ``codec`` (0 to 4), in the form that Java's clients write.

    Raises:
        UnsupportedCompressionTypeError: no such codec.
    """
    if codec not in _COMPRESS:
        raise UnsupportedCompressionTypeError(f"There is no codec {codec}")
    return _COMPRESS[codec](data)


def decompress(codec: int, data: ReadableBuffer, max_size: int) -> memoryview:
    """Decompress what ``codec`` (0 to 4) wrote; never more than ``max_size`` bytes, nor memory for more.

    Raises:
        RecordTooLargeError: the output would be larger.
        CorruptRecordError: the bytes are not what the codec writes.
        UnsupportedCompressionTypeError: no such codec.
    """
    if codec not in _DECOMPRESS:
        raise UnsupportedCompressionTypeError(f"There is no codec {codec}")
    return _DECOMPRESS[codec](memoryview(data), max_size)


def _compress_gzip(data: ReadableBuffer) -> bytes:
    return bytes(cramjam.gzip.compress(data, level=_GZIP_LEVEL))


def _compress_zstd(data: ReadableBuffer) -> bytes:
    return bytes(cramjam.zstd.compress(data, level=_ZSTD_LEVEL))


class _GzipStream:
    def __init__(self) -> None:
        self._stream = cramjam.gzip.Compressor(level=_GZIP_LEVEL)

    def add(self, data: ReadableBuffer) -> None:
        """Compress the next bytes."""
        self._stream.compress(bytes(data))

    def finish(self) -> bytes:
        """Return all that was compressed."""
        return bytes(self._stream.finish())


class _BlockStream:
    """For codecs whose blocks are independent of each other."""

    def __init__(self, header: bytes, block_size: int, encode: Callable[[ReadableBuffer], bytes], end: bytes) -> None:
        self._parts = [header]
        self._block_size = block_size
        self._encode = encode
        self._end = end
        self._rest = b""

    def add(self, data: ReadableBuffer) -> None:
        """Compress the next bytes."""
        view = memoryview(self._rest + data) if self._rest else memoryview(data)
        whole = len(view) - len(view) % self._block_size
        for start in range(0, whole, self._block_size):
            self._parts.append(self._encode(view[start : start + self._block_size]))
        self._rest = bytes(view[whole:])

    def finish(self) -> bytes:
        """Return all that was compressed."""
        if self._rest:
            self._parts.append(self._encode(self._rest))
        return b"".join((*self._parts, self._end))


CompressStream = _GzipStream | _BlockStream


def _snappy_block(plain: ReadableBuffer) -> bytes:
    block = bytes(cramjam.snappy.compress_raw(plain))
    return _BIG_INT32.pack(len(block)) + block


def _lz4_block(plain: ReadableBuffer) -> bytes:
    block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
    if len(block) < len(plain):
        return _LITTLE_INT32.pack(len(block)) + block
    return _LITTLE_INT32.pack(len(plain) | _LZ4_STORED) + bytes(plain)


def compress_stream(codec: int) -> CompressStream:
    """Return a compressor with the output of ``compress`` that takes the data in pieces: gzip, snappy or lz4 (1 to 3).

    Raises:
        UnsupportedCompressionTypeError: another codec.
    """
    if codec == GZIP:
        return _GzipStream()
    if codec == SNAPPY:
        return _BlockStream(_XERIAL_HEADER, _XERIAL_BLOCK, _snappy_block, b"")
    if codec == LZ4:
        return _BlockStream(_LZ4_HEADER, _LZ4_BLOCK, _lz4_block, _LZ4_END)
    raise UnsupportedCompressionTypeError(f"Message sets don't have codec {codec}")


def _compress_blocks(codec: int, data: ReadableBuffer) -> bytes:
    stream = compress_stream(codec)
    stream.add(data)
    return stream.finish()


def _too_large(max_size: int) -> RecordTooLargeError:
    return RecordTooLargeError(f"The batch decompresses to more than {max_size} bytes")


def _decompress_none(data: memoryview, max_size: int) -> memoryview:
    if len(data) > max_size:
        raise _too_large(max_size)
    return data


def _growing(decompress_into: Callable[[memoryview, memoryview], int], data: memoryview, max_size: int) -> memoryview:
    """Decompress into a buffer that grows up to ``max_size``: the codec's library never writes past its end."""
    if not data:
        raise CorruptRecordError("Compressed data is empty")
    size = min(max(_FIRST_GUESS, _GROWTH * len(data)), max_size)
    while True:
        buffer = new_buffer(size)
        try:
            written = decompress_into(data, buffer)
        except cramjam.DecompressionError as error:
            if str(error) != _NO_ROOM:
                raise CorruptRecordError(f"Compressed data is corrupt: {error}") from error
        else:
            return buffer[:written]
        del buffer  # before the next one is allocated, and before a traceback refers to it
        if size == max_size:
            raise _too_large(max_size)
        size = min(size * _GROWTH, max_size)


def _decompress_gzip(data: memoryview, max_size: int) -> memoryview:
    try:
        return _growing(cramjam.gzip.decompress_into, data, max_size)
    except CorruptRecordError:
        return _decompress_gzip_before_others(data, max_size)


def _decompress_gzip_before_others(data: memoryview, max_size: int) -> memoryview:
    """Decompress one member and ignore the bytes after it, which are no member, as Java does."""
    member = zlib.decompressobj(_GZIP_WINDOW)
    try:
        output = member.decompress(data, max_size)
    except zlib.error as error:
        raise CorruptRecordError(f"Compressed data is corrupt: {error}") from error
    if not member.eof or member.unused_data[:3] == _GZIP_MEMBER:
        raise CorruptRecordError("Compressed data ends too early, or corrupt data follows it")
    return memoryview(output)


def _decompress_zstd(data: memoryview, max_size: int) -> memoryview:
    return _growing(cramjam.zstd.decompress_into, data, max_size)


def _decompress_lz4(data: memoryview, max_size: int) -> memoryview:
    return _growing(cramjam.lz4.decompress_into, data[: _lz4_frame_end(data)], max_size)


def _lz4_frame_end(data: memoryview) -> int:
    """The position where the frame ends; bytes after it are ignored. Only frames that Java reads are accepted."""
    if len(data) < _LZ4_FIRST_BLOCK or data[:4] != _LZ4_MAGIC:
        raise CorruptRecordError("Compressed data is not an LZ4 frame")
    flags, sizes = data[4], data[5]
    if flags & _LZ4_FIXED_BITS != _LZ4_FIXED_FLAGS or sizes & _LZ4_RESERVED_SIZES or sizes >> 4 < _LZ4_SMALLEST_SIZE:
        raise CorruptRecordError("Compressed data is not an LZ4 frame of independent blocks")
    position = _LZ4_FIRST_BLOCK + (8 if flags & _LZ4_CONTENT_SIZE_BIT else 0)
    after_block = 4 if flags & _LZ4_BLOCK_CHECKSUM_BIT else 0
    while position + 4 <= len(data):
        (size,) = _LITTLE_INT32.unpack_from(data, position)
        position += 4
        if size == 0:
            return position + (4 if flags & _LZ4_CONTENT_CHECKSUM_BIT else 0)
        position += (size & ~_LZ4_STORED) + after_block
    return len(data)


def _decompress_snappy(data: memoryview, max_size: int) -> memoryview:
    """A bare block, or blocks after the header of snappy-java. Each has its size: the output is allocated once."""
    try:
        blocks = list(_xerial_blocks(data)) if data[:8] == _XERIAL_MAGIC else [data]
        sizes = [cramjam.snappy.decompress_raw_len(block) for block in blocks]
        total = sum(sizes)
        if total > max_size:
            raise _too_large(max_size)
        output = new_buffer(total)
        position = 0
        for block, size in zip(blocks, sizes, strict=True):
            cramjam.snappy.decompress_raw_into(block, output[position : position + size])
            position += size
    except cramjam.DecompressionError as error:
        raise CorruptRecordError(f"Compressed data is corrupt: {error}") from error
    return output


def _xerial_blocks(data: memoryview) -> list[memoryview]:
    blocks = []
    position = len(_XERIAL_HEADER)
    while position < len(data):
        if position + 4 > len(data):
            break  # as in Java
        (size,) = _BIG_INT32.unpack_from(data, position)
        if size == _XERIAL_NEXT_HEADER:
            position += len(_XERIAL_HEADER)
            continue
        position += 4
        if size > len(data) - position:
            raise CorruptRecordError("Snappy data ends inside a block")
        blocks.append(data[position : position + size])
        position += size
    return blocks


_COMPRESS: dict[int, Callable[[ReadableBuffer], bytes]] = {
    NONE: bytes,
    GZIP: _compress_gzip,
    SNAPPY: partial(_compress_blocks, SNAPPY),
    LZ4: partial(_compress_blocks, LZ4),
    ZSTD: _compress_zstd,
}
_DECOMPRESS: dict[int, Callable[[memoryview, int], memoryview]] = {
    NONE: _decompress_none,
    GZIP: _decompress_gzip,
    SNAPPY: _decompress_snappy,
    LZ4: _decompress_lz4,
    ZSTD: _decompress_zstd,
}
