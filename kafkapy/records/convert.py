"""Converts batches to an older format, for clients that don't know the newer one.

The rules are those of Kafka 2.7's ``RecordsUtil``. Fields that the older format lacks are left out: headers, producer,
sequence and leader epoch before magic 2, timestamps before magic 1. Each compressed batch becomes one wrapper with the
same codec, each other batch an entry for each record. Offsets stay. Batches that are not newer stay as they are: a
reader of a format also reads the formats before it.
"""

from collections.abc import Iterator

from kafkapy.records.batch import LOG_APPEND_TIME, ReadableBuffer, iterate_headers
from kafkapy.records.compression import ZSTD
from kafkapy.records.errors import UnsupportedCompressionTypeError
from kafkapy.records.record import MAX_DECOMPRESSED_SIZE, encode_legacy_in_steps, iterate_records


def convert(
    records: ReadableBuffer, to_magic: int, *, first_offset: int = 0, max_size: int = MAX_DECOMPRESSED_SIZE
) -> bytes:
    """Convert every whole batch of ``records`` that is newer than ``to_magic`` to that format.

    Control batches and those that hold no record (compaction leaves them) are dropped before magic 2. Uncompressed
    records below ``first_offset`` are dropped too, as a client that asked for that offset expects of single messages;
    wrappers stay whole. ``max_size`` bounds the decompressed bytes of one batch.

    Raises:
        UnsupportedCompressionTypeError: a batch under zstd, which no format before magic 2 knows.
        CorruptRecordError, InvalidRecordError, RecordTooLargeError: the records can't be read.
    """
    return b"".join(convert_in_steps(records, to_magic, first_offset, max_size))


def convert_in_steps(
    records: ReadableBuffer, to_magic: int, first_offset: int = 0, max_size: int = MAX_DECOMPRESSED_SIZE
) -> Iterator[bytes | memoryview]:
    """As ``convert``, but yield pieces of whole entries, some of them empty, each after a few milliseconds of work."""
    view = memoryview(records)
    for position, header in iterate_headers(records):
        if header.magic <= to_magic:
            yield view[position : position + header.size]
            continue
        if header.is_control:
            continue
        if header.compression == ZSTD:
            raise UnsupportedCompressionTypeError(f"A batch under zstd can't be converted to magic {to_magic}")
        listed = iterate_records(records, header, position, max_size)
        if not header.compression:
            listed = (record for record in listed if record.offset >= first_offset)
        append_time = header.max_timestamp if header.timestamp_type == LOG_APPEND_TIME else None
        yield from encode_legacy_in_steps(listed, to_magic, header.compression, append_time)
