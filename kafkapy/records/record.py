"""Records as values, for those who read and write a few: coordinators, the command line, tests.

The broker's own path leaves records as bytes (``batch.py``, ``validate.py``). One record, magic 2::

    length           varint     bytes that follow
    attributes       int8       0
    timestamp_delta  varlong    ms, from the batch's base timestamp
    offset_delta     varint     from the batch's base offset
    key              varint length (-1: null), bytes
    value            varint length (-1: null), bytes
    headers          varint count, then each: varint length, key (UTF-8), varint length (-1: null), value
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypedDict, Unpack

from kafkapy.records.batch import (
    CONTROL_BIT,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    BatchHeader,
    ReadableBuffer,
    read_header,
    write_batch,
)
from kafkapy.records.compression import compress, decompress
from kafkapy.records.errors import InvalidRecordError
from kafkapy.records.varint import read_varint, read_varlong, write_varint

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
    """What ``encode_batch`` may be told about the batch; what is missing has the default that the format names."""

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
        0,  # size and CRC are written as they come out
        fields.get("partition_leader_epoch", NO_LEADER_EPOCH),
        MAGIC,
        0,
        _attributes(fields),
        delta,
        base_timestamp,
        fields.get("max_timestamp", largest),
        fields.get("producer_id", NO_PRODUCER_ID),
        fields.get("producer_epoch", NO_PRODUCER_EPOCH),
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
    """The batch that compaction leaves where every record of ``header``'s batch went.

    It keeps offsets, producer, sequence and epoch, so that none is lost; no compression, no base timestamp.
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

    In a batch with LogAppendTime every record has the batch's max timestamp, as Kafka's consumers see it. For what is
    of magic 0 or 1 see ``legacy.iterate_entries``, its errors too.

    Raises:
        InvalidRecordError: the records are not what the header announces.
        CorruptRecordError: neither header nor compressed data can be read. (The CRC is ``crc_is_valid``'s to check.)
        RecordTooLargeError: more than ``max_size`` bytes after decompression.
    """
    return list(iterate_records(batch, header, position, max_size))


def iterate_records(
    batch: ReadableBuffer,
    header: BatchHeader | None = None,
    position: int = 0,
    max_size: int = MAX_DECOMPRESSED_SIZE,
) -> Iterator[Record]:
    """As ``read_records``, one by one: a batch from anywhere can unpack to millions."""
    header = header or read_header(batch, position)
    if header.magic < MAGIC:
        from kafkapy.records.legacy import iterate_legacy_records  # which imports this module

        yield from iterate_legacy_records(batch, header, position, max_size)
        return
    if header.record_count < 0:
        raise InvalidRecordError(f"A batch can't have a record count {header.record_count}")
    content = memoryview(batch)[position + HEADER_SIZE : position + header.size]
    # bytes are indexed and sliced in half the time that a view takes
    body = bytes(decompress(header.compression, content, max_size) if header.compression else content)
    place = 0
    for _ in range(header.record_count):
        record, place = _read_record(body, place, header)
        yield record
    if place != len(body):
        raise InvalidRecordError("The batch goes on after its last record")


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
    if place < end and body[place] == 0:  # as most have none
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
        raise InvalidRecordError("A record's fields go beyond its end")
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
