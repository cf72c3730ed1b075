"""The five codecs of Kafka's batches behind one table, each with an output that is bounded before memory is taken.

=====  =======  ==========================================================================================
codec  name     what is written; what is read
=====  =======  ==========================================================================================
0      none
1      gzip     one member; also several
2      snappy   the framing of snappy-java ("xerial"), 32 kB blocks; also a bare snappy block (other clients)
3      lz4      an LZ4 frame of independent 64 kB blocks, as Java's; Kafka's clients read no dependent blocks
4      zstd     one frame, level 3; also several (KIP-110)
=====  =======  ==========================================================================================
"""

from collections.abc import Callable
from struct import Struct

import cramjam

from kafkapy.records.errors import CorruptRecordError, RecordTooLargeError, UnsupportedCompressionTypeError

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
_LZ4_INDEPENDENT_BIT = 0x20
_ZSTD_LEVEL = 3

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
    return bytes(cramjam.gzip.compress(data, level=6))


def _compress_zstd(data: ReadableBuffer) -> bytes:
    return bytes(cramjam.zstd.compress(data, level=_ZSTD_LEVEL))


def _compress_snappy(data: ReadableBuffer) -> bytes:
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK]))
        parts += (_BIG_INT32.pack(len(block)), block)
    return b"".join(parts)


def _compress_lz4(data: ReadableBuffer) -> bytes:
    view = memoryview(data)
    parts = [_LZ4_HEADER]
    for start in range(0, len(view), _LZ4_BLOCK):
        plain = view[start : start + _LZ4_BLOCK]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            parts += (_LITTLE_INT32.pack(len(block)), block)
        else:
            parts += (_LITTLE_INT32.pack(len(plain) | _LZ4_STORED), bytes(plain))
    parts.append(_LZ4_END)
    return b"".join(parts)


def _too_large(max_size: int) -> RecordTooLargeError:
    return RecordTooLargeError(f"The batch decompresses to more than {max_size} bytes")


def _decompress_none(data: memoryview, max_size: int) -> memoryview:
    if len(data) > max_size:
        raise _too_large(max_size)
    return data


def _growing(decompress_into: Callable[[memoryview, bytearray], int], data: memoryview, max_size: int) -> memoryview:
    """Decompress into a buffer that grows up to ``max_size``: the codec's library never writes past its end."""
    if not data:
        raise CorruptRecordError("Compressed data is empty")
    size = min(max(_FIRST_GUESS, _GROWTH * len(data)), max_size)
    while True:
        buffer = bytearray(size)
        try:
            written = decompress_into(data, buffer)
        except cramjam.DecompressionError as error:
            if str(error) != _NO_ROOM:
                raise CorruptRecordError(f"Compressed data is corrupt: {error}") from error
        else:
            return memoryview(buffer)[:written]
        if size == max_size:
            raise _too_large(max_size)
        size = min(size * _GROWTH, max_size)
        del buffer  # before the next one is taken: both at once would double the peak


def _decompress_gzip(data: memoryview, max_size: int) -> memoryview:
    return _growing(cramjam.gzip.decompress_into, data, max_size)


def _decompress_zstd(data: memoryview, max_size: int) -> memoryview:
    return _growing(cramjam.zstd.decompress_into, data, max_size)


def _decompress_lz4(data: memoryview, max_size: int) -> memoryview:
    if data[:4] != _LZ4_MAGIC or not data[4:5].tobytes() or not data[4] & _LZ4_INDEPENDENT_BIT:
        raise CorruptRecordError("Compressed data is not an LZ4 frame of independent blocks")
    return _growing(cramjam.lz4.decompress_into, data, max_size)


def _decompress_snappy(data: memoryview, max_size: int) -> memoryview:
    """A bare block, or blocks behind the header of snappy-java; each says its size, so the output is taken once."""
    try:
        blocks = list(_xerial_blocks(data)) if data[:8] == _XERIAL_MAGIC else [data]
        sizes = [cramjam.snappy.decompress_raw_len(block) for block in blocks]
        total = sum(sizes)
        if total > max_size:
            raise _too_large(max_size)
        output = memoryview(bytearray(total))
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
            raise CorruptRecordError("Snappy data ends inside a block's length")
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
    SNAPPY: _compress_snappy,
    LZ4: _compress_lz4,
    ZSTD: _compress_zstd,
}
_DECOMPRESS: dict[int, Callable[[memoryview, int], memoryview]] = {
    NONE: _decompress_none,
    GZIP: _decompress_gzip,
    SNAPPY: _decompress_snappy,
    LZ4: _decompress_lz4,
    ZSTD: _decompress_zstd,
}
