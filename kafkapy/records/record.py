"""Records as Python values, for code that reads and writes few of them: coordinators, the command line, tests.

Produce and fetch leave records as bytes (``batch.py``, ``validate.py``). One record, magic 2::

    length           varint     bytes that follow
    attributes       int8       0
    timestamp_delta  varlong    ms, from the batch's base timestamp
    offset_delta     varint     from the batch's base offset
    key              varint length (-1: null), bytes
    value            varint length (-1: null), bytes
    headers          varint count, then each: varint length, key (UTF-8), varint length (-1: null), value
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from struct import Struct
from typing import NamedTuple, TypedDict, Unpack
from zlib import crc32

from kafkapy.records.batch import (
    COMPRESSION_MASK,
    CONTROL_BIT,
    CREATE_TIME,
    HEADER_SIZE,
    LEGACY_ATTRIBUTE_MASKS,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_OFFSET,
    SMALLEST_LENGTH,
    TRANSACTIONAL_BIT,
    BatchHeader,
    ReadableBuffer,
    WritableBuffer,
    crc32_of,
    read_header,
    read_legacy_header,
    unpack_legacy_header,
    write_batch,
)
from kafkapy.records.compression import CODEC_NAMES, LZ4, ZSTD, CompressStream, compress, compress_stream, decompress
from kafkapy.records.errors import CorruptRecordError, InvalidRecordError, UnsupportedCompressionTypeError
from kafkapy.records.lz4_frame import with_old_checksum, with_right_checksum
from kafkapy.records.varint import read_varint, read_varlong, write_varint
from kafkapy.types import NO_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP

MAX_DECOMPRESSED_SIZE = 64 * 1024 * 1024
"""Bytes that one batch may decompress to, unless the caller says otherwise."""

Headers = Sequence[tuple[str, bytes | None]]


class Record(NamedTuple):
    """One record. ``offset`` is absolute when read from a batch; ``timestamp`` is in ms.

    Header keys that are no UTF-8 keep their bytes as surrogate escapes.
    """

    key: bytes | None
    value: bytes | None
    timestamp: int = NO_TIMESTAMP
    headers: Headers = ()
    offset: int = -1


class BatchFields(TypedDict, total=False):
    """The fields of the batch's header that ``encode_batch`` takes; a missing one has the default of the format."""

    base_offset: int
    partition_leader_epoch: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    compression: int
    timestamp_type: int
    max_timestamp: int
    is_transactional: bool
    is_control: bool
    keep_offsets: bool


def encode_batch(records: Iterable[Record], **fields: Unpack[BatchFields]) -> bytes:
    """Write ``records`` as one batch.

    A record's offset is ``base_offset`` plus its place, unless ``keep_offsets`` takes the records' own (compaction
    leaves gaps). The base timestamp is the first record's, the max timestamp the largest unless it is given (with
    ``timestamp_type`` 1 it is the append time). Without records the batch is empty: it holds no offset.
    """
    base_offset = fields.get("base_offset", 0)
    base_timestamp = largest = NO_TIMESTAMP
    body = bytearray()
    place = delta = -1
    for place, record in enumerate(records):  # counted below
        if place == 0:
            base_timestamp = largest = record.timestamp
        largest = max(largest, record.timestamp)
        delta = record.offset - base_offset if fields.get("keep_offsets") else place
        write_record(body, record, record.timestamp - base_timestamp, delta)
    compression = fields.get("compression", 0)
    header = BatchHeader(
        base_offset,
        0,  # size and CRC are computed by ``write_batch``
        fields.get("partition_leader_epoch", NO_EPOCH),
        MAGIC,
        0,
        _attributes(fields),
        delta,
        base_timestamp,
        fields.get("max_timestamp", largest),
        fields.get("producer_id", NO_PRODUCER_ID),
        fields.get("producer_epoch", NO_EPOCH),
        fields.get("base_sequence", NO_SEQUENCE),
        place + 1,
    )
    return write_batch(header, compress(compression, body) if compression else body)


def _attributes(fields: BatchFields) -> int:
    return (
        fields.get("compression", 0)
        | fields.get("timestamp_type", 0) << 3
        | (TRANSACTIONAL_BIT if fields.get("is_transactional") else 0)
        | (CONTROL_BIT if fields.get("is_control") else 0)
    )


def encode_empty_batch(header: BatchHeader) -> bytes:
    """The batch that compaction leaves when it removes every record of ``header``'s batch.

    It keeps offsets, largest timestamp, producer, sequence and epoch; it has no compression and no base timestamp, and
    is of magic 2, whatever the other is of: no other magic can be empty.
    """
    attributes = header.attributes & (TRANSACTIONAL_BIT | CONTROL_BIT) | header.timestamp_type << 3
    emptied = header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, record_count=0)
    return write_batch(emptied, b"")


def write_record(output: bytearray, record: Record, timestamp_delta: int, offset_delta: int) -> None:
    """Append one record's bytes."""
    body = bytearray(1)
    write_varint(body, timestamp_delta)
    write_varint(body, offset_delta)
    _write_bytes(body, record.key)
    _write_bytes(body, record.value)
    write_varint(body, len(record.headers))
    for key, value in record.headers:
        _write_bytes(body, key.encode("utf-8", "surrogateescape"))
        _write_bytes(body, value)
    write_varint(output, len(body))
    output += body


def _write_bytes(output: bytearray, value: bytes | None) -> None:
    if value is None:
        output.append(1)
    else:
        write_varint(output, len(value))
        output += value


def read_records(
    batch: ReadableBuffer,
    header: BatchHeader | None = None,
    position: int = 0,
    max_size: int = MAX_DECOMPRESSED_SIZE,
) -> list[Record]:
    """The records of the batch at ``position``, of any magic; keys and values are copies.

    In a batch with LogAppendTime every record has the batch's max timestamp, as Kafka's consumers see it. For magic 0
    and 1 see ``iterate_entries``, also for the errors.

    Raises:
        InvalidRecordError: the records are not what the header announces.
        CorruptRecordError: the header or the compressed data can't be read. (``crc_is_valid`` checks the CRC.)
        RecordTooLargeError: more than ``max_size`` bytes after decompression.
    """
    return list(iterate_records(batch, header, position, max_size))


def iterate_records(
    batch: ReadableBuffer,
    header: BatchHeader | None = None,
    position: int = 0,
    max_size: int = MAX_DECOMPRESSED_SIZE,
) -> Iterator[Record]:
    """As ``read_records``, one by one: a small batch can decompress to millions of records."""
    header = header or read_header(batch, position)
    if header.magic < MAGIC:
        yield from iterate_legacy_records(batch, header, position, max_size)
        return
    if header.record_count < 0:
        raise InvalidRecordError(f"A batch can't have a record count {header.record_count}")
    content = memoryview(batch)[position + HEADER_SIZE : position + header.size]
    # indexing and slicing bytes takes half as long as indexing and slicing a view
    body = bytes(decompress(header.compression, content, max_size) if header.compression else content)
    place = 0
    for _ in range(header.record_count):
        record, place = _read_record(body, place, header)
        yield record
    if place != len(body):
        raise InvalidRecordError("Bytes follow the last record of the batch")


def _read_record(body: bytes, place: int, header: BatchHeader) -> tuple[Record, int]:
    length, start = read_varint(body, place)
    end = start + length
    if not start < end <= len(body):
        raise InvalidRecordError("The batch ends before its last record does")
    timestamp_delta, place = read_varlong(body, start + 1)
    offset_delta, place = read_varint(body, place)
    key, place = _read_bytes(body, place, end)
    value, place = _read_bytes(body, place, end)
    headers: Headers = ()
    if place < end and body[place] == 0:  # most records have no headers
        place += 1
    else:
        headers, place = _read_headers(body, place, end)
    if place != end:
        raise InvalidRecordError(f"A record says that it has {length} bytes, and its fields take {place - start}")
    timestamp = header.base_timestamp + timestamp_delta
    if header.timestamp_type == LOG_APPEND_TIME:
        timestamp = header.max_timestamp
    return Record(key, value, timestamp, headers, header.base_offset + offset_delta), end


def _read_bytes(body: bytes, place: int, limit: int) -> tuple[bytes | None, int]:
    length, place = read_varint(body, place)
    if length < 0:
        return None, place
    end = place + length
    if end > limit:
        raise InvalidRecordError("A record's fields extend beyond its end")
    return body[place:end], end


def _read_headers(body: bytes, place: int, end: int) -> tuple[Headers, int]:
    count, place = read_varint(body, place)
    if not 0 <= count <= end - place:
        raise InvalidRecordError(f"A record can't have {count} headers")
    headers = []
    for _ in range(count):
        key, place = _read_bytes(body, place, end)
        if key is None:
            raise InvalidRecordError("A header has no key")
        value, place = _read_bytes(body, place, end)
        headers.append((key.decode("utf-8", "surrogateescape"), value))
    return tuple(headers), place


# Message sets: the formats of magic 0 (Kafka 0.8 and 0.9) and magic 1 (0.10), in which each record is a batch.
# Kafka 0.7 had another format with a magic byte of 0, without offsets and keys, which is not read.
#
# A set is a sequence of entries without a header for the set. One entry, big-endian (KIP-31, KIP-32)::
#
#     0   offset      int64
#     8   length      int32      bytes that follow this field
#     12  crc         uint32     CRC-32 (not CRC-32C) of everything from byte 16 to the entry's end,
#                                not of the offset
#     16  magic       int8       0 or 1
#     17  attributes  int8       bits 0-2 compression (0 to 3); magic 1: bit 3 timestamp type
#     18  timestamp   int64 ms   magic 1 only
#         key         int32 length (-1: null), bytes
#         value       int32 length (-1: null), bytes
#
# A compressed entry is a wrapper: its key is null, its value a whole message set, compressed. Its offset is that of its
# last inner entry, its timestamp the largest of the inner ones. In magic 0 the inner offsets are absolute, so a broker
# must compress the set again to assign them; in magic 1 they count from the first one (0, 1, 2, …), and the wrapper's
# offset is the last one. Some producers send a wrapper of offset 0: its inner offsets are absolute. If the wrapper has
# LogAppendTime, all records in it have its timestamp. LZ4 in magic 0 has a wrong checksum (``lz4_frame.py``).


__all__ = [
    "Entry",
    "encode_legacy",
    "iterate_entries",
    "iterate_legacy_records",
    "read_entries",
    "read_legacy_header",
    "set_offset",
    "set_timestamp",
]

STEP_RECORDS = 500
STEP_SIZE = 64 * 1024
"""Records and bytes after which an encoding in steps pauses: some milliseconds of work."""

ATTRIBUTES_OFFSET = 17
TIMESTAMP_OFFSET = 18
_CRC_OFFSET = 12
_KEY_OFFSETS = (18, 26)

_OFFSET_LENGTH = Struct(">qi")
_BEFORE_MAGIC = Struct(">qiI")
_OFFSET = Struct(">q")
_INT32 = Struct(">i")
_CRC = Struct(">I")
_AFTER_CRC = (Struct(">bb"), Struct(">bbq"))
_NULL = _INT32.pack(-1)


class Entry(NamedTuple):
    """One record of a message set, wrapped or not. ``offset`` is absolute.

    ``timestamp`` is the wrapper's if that has LogAppendTime. ``magic`` and ``attributes`` are the entry's, not the
    wrapper's; ``crc_is_valid`` says whether the entry's CRC is right.
    """

    offset: int
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    crc_is_valid: bool


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


def iterate_legacy_records(
    buffer: ReadableBuffer,
    header: BatchHeader | None = None,
    position: int = 0,
    max_size: int = MAX_DECOMPRESSED_SIZE,
) -> Iterator[Record]:
    """Yield the records of the entry at ``position``: one, or those in the wrapper; keys and values are copies.

    Raises: as ``iterate_entries``.
    """
    for offset, _, _, timestamp, key, value, _ in iterate_entries(buffer, header, position, max_size):
        yield Record(key, value, timestamp, (), offset)


def read_entries(
    buffer: ReadableBuffer,
    header: BatchHeader | None = None,
    position: int = 0,
    max_size: int = MAX_DECOMPRESSED_SIZE,
) -> list[Entry]:
    """As ``iterate_entries``, but return a list."""
    return list(iterate_entries(buffer, header, position, max_size))


def iterate_entries(
    buffer: ReadableBuffer,
    header: BatchHeader | None = None,
    position: int = 0,
    max_size: int = MAX_DECOMPRESSED_SIZE,
) -> Iterator[Entry]:
    """Yield the entry at ``position`` or, if it is a wrapper, those in it; a wrong CRC is noted and does not raise.

    The entries are made one by one, as a small wrapper can hold millions.

    Raises:
        CorruptRecordError: no whole entry, compressed data that can't be read, an inner entry of impossible length.
        InvalidRecordError: key or value extend beyond the entry; a wrapper that is empty, holds another wrapper, or
            whose offset is below the last one in it; zstd.
        RecordTooLargeError: more than ``max_size`` bytes after decompression.
        UnsupportedCompressionTypeError: no such codec.
    """
    header = header or read_legacy_header(buffer, position)
    entry = memoryview(buffer)[position : position + header.size]
    if not header.compression:
        yield _read_entry(entry, header.magic, 0)
        return
    data = wrapped_set(entry, header, max_size)
    last_offset = _last_inner_offset(data)
    base_offset = header.base_offset - last_offset if header.magic and header.base_offset else 0
    if base_offset < 0:
        raise InvalidRecordError(f"A wrapper has offset {header.base_offset}, its last record has {last_offset}")
    yield from _inner_entries(data, header, base_offset)


def wrapped_set(entry: ReadableBuffer, header: BatchHeader, max_size: int) -> memoryview:
    """Decompress the message set in the wrapper ``entry``. Raises: see ``iterate_entries``."""
    if header.compression == ZSTD:
        raise InvalidRecordError(f"Magic {header.magic} has no zstd")
    _, value = _read_key_and_value(memoryview(entry), header.magic)
    if value is None:
        raise InvalidRecordError(f"A wrapper of magic {header.magic} has a null value")
    return _decompress(header, value, max_size)


def _decompress(header: BatchHeader, value: memoryview, max_size: int) -> memoryview:
    if header.compression >= len(CODEC_NAMES):
        raise UnsupportedCompressionTypeError(f"There is no codec {header.compression}")
    frame: ReadableBuffer = value
    if header.magic == 0 and header.compression == LZ4:
        frame = with_right_checksum(value)
    return decompress(header.compression, frame, max_size)


def _last_inner_offset(data: memoryview) -> int:
    """The offset field of the last whole entry; an incomplete entry after it is ignored, as in Kafka."""
    position, end = 0, len(data)
    last_offset = None
    while end - position >= LOG_OVERHEAD:
        offset, length = _OFFSET_LENGTH.unpack_from(data, position)
        if length < SMALLEST_LENGTH:
            raise CorruptRecordError(f"A record in a wrapper can't have {length} bytes")
        position += LOG_OVERHEAD + length
        if position > end:
            break
        last_offset = offset
    if last_offset is None:
        raise InvalidRecordError("A wrapper holds no whole record")
    return int(last_offset)


def _inner_entries(data: memoryview, wrapper: BatchHeader, base_offset: int) -> Iterator[Entry]:
    """The whole entries in ``data``, whose lengths ``_last_inner_offset`` has checked."""
    position, end = 0, len(data)
    append_time = wrapper.max_timestamp if wrapper.timestamp_type == LOG_APPEND_TIME else None
    while end - position >= LOG_OVERHEAD:
        start = position
        position += LOG_OVERHEAD + _OFFSET_LENGTH.unpack_from(data, position)[1]
        if position > end:
            return
        entry = _read_entry(data[start:position], data[start + MAGIC_OFFSET], base_offset)
        if entry.attributes & COMPRESSION_MASK:
            raise InvalidRecordError("A wrapper holds a compressed record")
        yield entry if append_time is None or entry.magic != 1 else entry._replace(timestamp=append_time)


def _read_entry(entry: memoryview, magic: int, base_offset: int) -> Entry:
    """Read the entry that fills ``entry``; a magic above 1 is read like 1."""
    layout = magic and 1
    key, value = _read_key_and_value(entry, layout)
    offset, _, crc, _, attributes, timestamp = unpack_legacy_header(entry)
    return Entry(
        base_offset + offset,
        magic,
        attributes & LEGACY_ATTRIBUTE_MASKS[layout],
        timestamp if magic else NO_TIMESTAMP,
        None if key is None else bytes(key),
        None if value is None else bytes(value),
        crc == crc32(entry[MAGIC_OFFSET:]),
    )


def _read_key_and_value(entry: memoryview, magic: int) -> tuple[memoryview | None, memoryview | None]:
    key, position = _read_entry_bytes(entry, _KEY_OFFSETS[magic])
    return key, _read_entry_bytes(entry, position)[0]


def _read_entry_bytes(entry: memoryview, position: int) -> tuple[memoryview | None, int]:
    start = position + _INT32.size
    if start > len(entry):
        raise InvalidRecordError("A record ends before its key or value does")
    (length,) = _INT32.unpack_from(entry, position)
    if length < 0:
        return None, start
    if length > len(entry) - start:
        raise InvalidRecordError("A record's key or value extends beyond its end")
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

    With ``timestamp_type`` 1 all have ``append_time`` (ms). Headers are left out. Without records the result is empty.

    Raises:
        InvalidRecordError: an offset or a timestamp is over 64 bits, as a sum of base and delta in a bad batch can be.
        UnsupportedCompressionTypeError: zstd, or no such codec.
    """
    fixed_time = append_time if timestamp_type == LOG_APPEND_TIME else None
    return b"".join(encode_legacy_in_steps(records, magic, compression, fixed_time))


def encode_legacy_in_steps(
    records: Iterable[Record], magic: int, compression: int, append_time: int | None
) -> Iterator[bytes]:
    """As ``encode_legacy``, but yield pieces of about ``STEP_RECORDS`` records; the caller may pause between them.

    A compressed set comes in the last piece, and the others are empty. ``append_time`` (ms) is None for CreateTime.
    """
    stream: CompressStream | None = None
    attributes = LOG_APPEND_TIME << 3 if magic and append_time is not None else 0
    output = bytearray()
    largest, base_offset, last_offset = NO_TIMESTAMP, None, 0
    for place, record in enumerate(records, 1):
        key, value, timestamp, _, last_offset = record
        if base_offset is None:
            base_offset = last_offset if magic and compression else 0
            stream = compress_stream(compression) if compression else None
        if append_time is not None:
            timestamp = append_time
        largest = max(largest, timestamp)
        try:
            output += _entry(last_offset - base_offset, magic, attributes, timestamp, key, value)
        except struct.error:
            raise InvalidRecordError(f"Offset {last_offset} or its timestamp {timestamp} is over 64 bits") from None
        if len(output) >= STEP_SIZE or place % STEP_RECORDS == 0:
            yield _taken(output, stream)
            output = bytearray()
    rest = _taken(output, stream)
    if stream is not None:
        content = stream.finish()
        if magic == 0 and compression == LZ4:
            content = with_old_checksum(content)
        rest = _entry(last_offset, magic, attributes | compression, largest, None, content)
    yield rest


def _taken(entries: bytearray, stream: CompressStream | None) -> bytes:
    """Return the entries as bytes; with a ``stream`` add them to it and return nothing."""
    if stream is None:
        return bytes(entries)
    stream.add(entries)
    return b""


def _entry(offset: int, magic: int, attributes: int, timestamp: int, key: bytes | None, value: bytes | None) -> bytes:
    fields = _AFTER_CRC[1].pack(magic, attributes, timestamp) if magic else _AFTER_CRC[0].pack(magic, attributes)
    content = b"".join(
        (
            fields,
            _NULL if key is None else _INT32.pack(len(key)) + key,
            _NULL if value is None else _INT32.pack(len(value)) + value,
        )
    )
    return _BEFORE_MAGIC.pack(offset, _CRC.size + len(content), crc32(content)) + content
