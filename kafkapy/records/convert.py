"""Batches in another format: what is newer than a client knows is written again as a format that it does.

The rules are those of Kafka 2.7's ``RecordsUtil``. What a format lacks is left out: headers, producer, sequence and
leader epoch before magic 2, timestamps before magic 1. Each batch becomes one of its own, under the same codec: a
wrapper, or an entry for each record where nothing is compressed. Offsets stay. Batches that are not newer stay as
they are: every reader of a format knows those before it.
"""

from collections.abc import Iterator

from kafkapy.records.batch import LOG_APPEND_TIME, ReadableBuffer, iterate_headers
from kafkapy.records.compression import ZSTD
from kafkapy.records.errors import UnsupportedCompressionTypeError
from kafkapy.records.record import MAX_DECOMPRESSED_SIZE, encode_legacy_in_steps, iterate_records


def convert(
    records: ReadableBuffer, to_magic: int, *, first_offset: int = 0, max_size: int = MAX_DECOMPRESSED_SIZE
) -> bytes:
    """Write again, in the format ``to_magic``, every whole batch of ``records`` that is newer.

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
    """As ``convert``, in pieces of whole entries, some of them empty: each has taken a few milliseconds."""
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
