"""Message sets: the formats of magic 0 (Kafka 0.7 to 0.9) and magic 1 (0.10), in which a record is its own batch.

A set is entries back to back, without a header of its own. One entry, big-endian (KIP-31, KIP-32)::

    0   offset      int64
    8   length      int32      bytes that follow this field
    12  crc         uint32     CRC-32 (not CRC-32C) of everything from byte 16 to the entry's end: the offset is outside
    16  magic       int8       0 or 1
    17  attributes  int8       bits 0-2 compression (0 to 3); magic 1: bit 3 timestamp type
    18  timestamp   int64 ms   magic 1 only
        key         int32 length (-1: null), bytes
        value       int32 length (-1: null), bytes

A compressed entry is a wrapper: its key is null, its value a whole message set, compressed. Its offset is that of its
last inner entry, its timestamp the largest of theirs. Inner offsets are the real ones in magic 0, which must be
compressed anew for that; in magic 1 they count from the first one (0, 1, 2, …), and the wrapper's offset says where
they end. A wrapper of offset 0 is what some producers send: its inner offsets are taken as they are. If the wrapper
says LogAppendTime, its timestamp is that of all records in it. LZ4 in magic 0 has a quirk (``lz4_frame.py``).
"""

from collections.abc import Iterable, Iterator, Sequence
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from kafkapy.records.batch import (
    COMPRESSION_MASK,
    CREATE_TIME,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC_OFFSET,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    SMALLEST_LENGTH,
    TIMESTAMP_TYPE_BIT,
    UNKNOWN_COUNT,
    BatchHeader,
    ReadableBuffer,
    WritableBuffer,
    crc32_of,
    measure,
)
from kafkapy.records.compression import CODEC_NAMES, LZ4, ZSTD, compress, decompress
from kafkapy.records.errors import CorruptRecordError, InvalidRecordError, UnsupportedCompressionTypeError
from kafkapy.records.lz4_frame import with_old_checksum, with_right_checksum
from kafkapy.records.record import MAX_DECOMPRESSED_SIZE, Record

ATTRIBUTES_OFFSET = 17
TIMESTAMP_OFFSET = 18
_CRC_OFFSET = 12
_KEY_OFFSETS = (18, 26)
_SMALLEST_SIZES = (26, 34)
_ATTRIBUTE_MASKS = (COMPRESSION_MASK, COMPRESSION_MASK | TIMESTAMP_TYPE_BIT)

_OFFSET_LENGTH = Struct(">qi")
_OFFSET = Struct(">q")
_HEADER = Struct(">qiIbbq")
_INT32 = Struct(">i")
_CRC = Struct(">I")
_AFTER_CRC = (Struct(">bb"), Struct(">bbq"))
_NULL = _INT32.pack(-1)


class Entry(NamedTuple):
    """One record of a message set, read deep. ``offset`` is absolute, ``timestamp`` the wrapper's if that counts.

    ``magic`` and ``attributes`` are the entry's own, ``crc_is_valid`` says that its own CRC is right.
    """

    offset: int
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    crc_is_valid: bool


def read_legacy_header(buffer: ReadableBuffer, position: int = 0) -> BatchHeader:
    """Read the entry at ``position`` as the header of a batch; the CRC is not looked at (``crc_is_valid`` does).

    ``base_offset`` is the entry's offset field: of a wrapper, the *last* record's offset. Magic 0 has no timestamp
    (-1); ``record_count`` is 1, or ``UNKNOWN_COUNT`` for a wrapper; attribute bits without a meaning are cleared.

    Raises:
        CorruptRecordError: no whole entry, or too short for its format.
    """
    size = measure(buffer, position)
    magic = buffer[position + MAGIC_OFFSET] if size else -1
    if size is None or magic not in (0, 1) or size < _SMALLEST_SIZES[magic]:
        raise CorruptRecordError(f"No whole entry of a message set is at {position}")
    offset, _, crc, _, attributes, timestamp = _HEADER.unpack_from(buffer, position)
    attributes &= _ATTRIBUTE_MASKS[magic]
    if not magic:
        timestamp = NO_TIMESTAMP
    count = UNKNOWN_COUNT if attributes & COMPRESSION_MASK else 1
    return BatchHeader(
        offset, size, NO_LEADER_EPOCH, magic, crc, attributes, 0, timestamp, timestamp,
        NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE, count,
    )  # fmt: skip


def set_offset(buffer: WritableBuffer, position: int, offset: int) -> None:
    """Write the entry's offset (of a wrapper, that of its last record); the CRC doesn't cover it."""
    _OFFSET.pack_into(buffer, position, offset)


def set_timestamp(
    buffer: WritableBuffer, position: int, header: BatchHeader, timestamp_type: int, timestamp: int
) -> None:
    """Write timestamp type, timestamp (ms) and the new CRC into an entry of magic 1, unless they are there already."""
    if header.timestamp_type == timestamp_type and header.max_timestamp == timestamp:
        return
    buffer[position + ATTRIBUTES_OFFSET] = header.compression | timestamp_type << 3
    _OFFSET.pack_into(buffer, position + TIMESTAMP_OFFSET, timestamp)
    _CRC.pack_into(buffer, position + _CRC_OFFSET, crc32_of(buffer, position, header.size))


def read_legacy_records(
    buffer: ReadableBuffer,
    header: BatchHeader | None = None,
    position: int = 0,
    max_size: int = MAX_DECOMPRESSED_SIZE,
) -> list[Record]:
    """The records of the entry at ``position``: one, or those in the wrapper; keys and values are copies.

    Raises: as ``read_entries``.
    """
    return [
        Record(entry.key, entry.value, entry.timestamp, (), entry.offset)
        for entry in read_entries(buffer, header, position, max_size)
    ]


def read_entries(
    buffer: ReadableBuffer,
    header: BatchHeader | None = None,
    position: int = 0,
    max_size: int = MAX_DECOMPRESSED_SIZE,
) -> list[Entry]:
    """The entry at ``position`` itself, or those in the wrapper that it is; CRCs are computed, not insisted on.

    Raises:
        CorruptRecordError: no whole entry, compressed data that can't be read, an inner entry of impossible length.
        InvalidRecordError: key or value go beyond the entry; a wrapper that is empty, holds another wrapper, or whose
            offset is below the last one in it; zstd.
        RecordTooLargeError: more than ``max_size`` bytes after decompression.
        UnsupportedCompressionTypeError: no such codec.
    """
    header = header or read_legacy_header(buffer, position)
    entry = memoryview(buffer)[position : position + header.size]
    if not header.compression:
        return [_read_entry(entry, header.magic)]
    if header.compression == ZSTD:
        raise InvalidRecordError(f"Magic {header.magic} has no zstd")
    _, value = _read_key_and_value(entry, header.magic)
    if value is None:
        raise InvalidRecordError(f"A wrapper of magic {header.magic} has a null value")
    inner = list(_inner_entries(_decompress(header, value, max_size), header))
    if not inner:
        raise InvalidRecordError("A wrapper holds no whole record")
    if any(each.attributes & COMPRESSION_MASK for each in inner):
        raise InvalidRecordError("A wrapper holds a compressed record")
    if header.magic == 0 or header.base_offset == 0:
        return inner
    base_offset = header.base_offset - inner[-1].offset
    if base_offset < 0:
        raise InvalidRecordError(f"A wrapper has offset {header.base_offset}, and its last record {inner[-1].offset}")
    return [each._replace(offset=base_offset + each.offset) for each in inner]


def _decompress(header: BatchHeader, value: memoryview, max_size: int) -> memoryview:
    if header.compression >= len(CODEC_NAMES):
        raise UnsupportedCompressionTypeError(f"There is no codec {header.compression}")
    frame: ReadableBuffer = value
    if header.magic == 0 and header.compression == LZ4:
        frame = with_right_checksum(value)
    return decompress(header.compression, frame, max_size)


def _inner_entries(data: memoryview, wrapper: BatchHeader) -> Iterator[Entry]:
    """The whole entries in ``data``; a piece of another behind them is ignored, as Kafka does."""
    position = 0
    append_time = wrapper.max_timestamp if wrapper.timestamp_type == LOG_APPEND_TIME else None
    while len(data) - position >= LOG_OVERHEAD:
        _, length = _OFFSET_LENGTH.unpack_from(data, position)
        if length < SMALLEST_LENGTH:
            raise CorruptRecordError(f"A record in a wrapper can't have {length} bytes")
        if length > len(data) - position - LOG_OVERHEAD:
            return
        content = data[position : position + LOG_OVERHEAD + length]
        entry = _read_entry(content, content[MAGIC_OFFSET])
        yield entry if append_time is None or entry.magic != 1 else entry._replace(timestamp=append_time)
        position += len(content)


def _read_entry(entry: memoryview, magic: int) -> Entry:
    """Read one entry, which is all of ``entry``; what says to be of a magic above 1 is read as if it were of 1."""
    key, value = _read_key_and_value(entry, min(magic, 1))
    offset, _, crc, _, attributes, timestamp = _HEADER.unpack_from(entry)
    return Entry(
        offset,
        magic,
        attributes & _ATTRIBUTE_MASKS[min(magic, 1)],
        timestamp if magic else NO_TIMESTAMP,
        None if key is None else bytes(key),
        None if value is None else bytes(value),
        crc == crc32(entry[MAGIC_OFFSET:]),
    )


def _read_key_and_value(entry: memoryview, magic: int) -> tuple[memoryview | None, memoryview | None]:
    key, position = _read_bytes(entry, _KEY_OFFSETS[magic])
    return key, _read_bytes(entry, position)[0]


def _read_bytes(entry: memoryview, position: int) -> tuple[memoryview | None, int]:
    start = position + _INT32.size
    if start > len(entry):
        raise InvalidRecordError("A record ends before its key or value does")
    (length,) = _INT32.unpack_from(entry, position)
    if length < 0:
        return None, start
    if length > len(entry) - start:
        raise InvalidRecordError("A record's key or value goes beyond its end")
    return entry[start : start + length], start + length


def encode_legacy(
    records: Iterable[Record],
    magic: int,
    *,
    compression: int = 0,
    timestamp_type: int = CREATE_TIME,
    append_time: int = NO_TIMESTAMP,
) -> bytes:
    """Write ``records``, at their own offsets, as a message set of magic 0 or 1: one wrapper if it is compressed.

    With ``timestamp_type`` 1 all have ``append_time`` (ms). Headers are left out. No records, no bytes.

    Raises:
        UnsupportedCompressionTypeError: zstd, or no such codec.
    """
    listed: Sequence[Record] = list(records)
    if timestamp_type == LOG_APPEND_TIME:
        listed = [record._replace(timestamp=append_time) for record in listed]
    attributes = timestamp_type << 3 if magic else 0
    base_offset = listed[0].offset if listed and magic and compression else 0
    output = bytearray()
    for record in listed:
        _write_entry(output, record._replace(offset=record.offset - base_offset), magic, attributes)
    if not compression or not listed:
        return bytes(output)
    if compression == ZSTD:
        raise UnsupportedCompressionTypeError(f"Magic {magic} has no zstd")
    value = compress(compression, output)
    if magic == 0 and compression == LZ4:
        value = with_old_checksum(value)
    largest = max(record.timestamp for record in listed)
    wrapper = bytearray()
    _write_entry(wrapper, Record(None, value, largest, (), listed[-1].offset), magic, attributes | compression)
    return bytes(wrapper)


def _write_entry(output: bytearray, record: Record, magic: int, attributes: int) -> None:
    after_crc = _AFTER_CRC[magic]
    fields = after_crc.pack(magic, attributes, record.timestamp) if magic else after_crc.pack(magic, attributes)
    key = _NULL if record.key is None else _INT32.pack(len(record.key)) + record.key
    value = _NULL if record.value is None else _INT32.pack(len(record.value)) + record.value
    content = b"".join((fields, key, value))
    output += _OFFSET_LENGTH.pack(record.offset, _CRC.size + len(content)) + _CRC.pack(crc32(content)) + content
