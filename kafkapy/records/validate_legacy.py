"""Produced records where an old format takes part: message sets from the wire, or a log that is kept in one.

The rules are those of Kafka 2.7.2's ``Log.analyzeAndValidateRecords`` and ``LogValidator``, by four roads:

- single messages for an uncompressed log of the same format are checked and stamped in place;
- so is a wrapper of magic 1 whose codec the log keeps and whose inner offsets are 0, 1, 2, …;
- anything else is encoded again as the log's format and codec: one wrapper or one batch for all, or single messages;
- what the log's format can't say is refused: producers' ids, transactions, headers.

A single message is a batch of its own: the first one at fault is the answer. In a wrapper all are listed. What differs
from Kafka, on purpose, beside what ``validate.py`` names:

- messages whose key or value goes beyond their end are INVALID_RECORD; Kafka stores them;
- where Kafka fails with UNKNOWN_SERVER_ERROR, the answer names the fault: UNSUPPORTED_FOR_MESSAGE_FORMAT for headers
  in a log without them, UNSUPPORTED_COMPRESSION_TYPE for zstd in one, INVALID_TIMESTAMP for those below -1 that must be
  encoded again, CORRUPT_MESSAGE for what doesn't decompress.
"""

from collections.abc import Sequence

from kafkapy.records.batch import (
    LOG_APPEND_TIME,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
    WritableBuffer,
    crc_is_valid,
    iterate_headers,
    read_header,
)
from kafkapy.records.compression import CODEC_NAMES
from kafkapy.records.convert import encode_records
from kafkapy.records.errors import (
    CorruptRecordError,
    InvalidRecordError,
    InvalidTimestampError,
    UnsupportedCompressionTypeError,
    UnsupportedForMessageFormatError,
)
from kafkapy.records.legacy import Entry, read_entries, set_offset, set_timestamp
from kafkapy.records.record import Record, read_records
from kafkapy.records.validate import (
    PRODUCER,
    ProducePolicy,
    RecordFault,
    ValidatedBatch,
    check_client_batch,
    check_each_record,
    may_hold_bad_records,
    misplaced,
    record_fault,
    refuse,
    scan_batch,
    too_large,
)

_Batch = tuple[int, BatchHeader]


def validate_legacy(
    records: WritableBuffer, policy: ProducePolicy, now_ms: int, first_offset: int, from_client: bool
) -> ValidatedBatch:
    """See ``validate.validate_produced``, which calls this where magic 0 or 1 is in the records or in ``policy``."""
    batches = _examine(records, policy, from_client)
    position, last = batches[-1]
    records = memoryview(records)[: position + last.size]
    first = batches[0][1]
    source = last.compression
    target = source if policy.compression == PRODUCER else policy.compression
    if first.magic == policy.magic and source == target:
        if not source:
            return _stamp_messages(records, batches, policy, now_ms, first_offset)
        if first.magic == 1:
            return _stamp_wrapper(records, first, policy, now_ms, first_offset)
    listed = [record for each in batches for record in _read(records, each, policy, now_ms)]
    return _encode(listed, target, policy, now_ms, first_offset)


def _examine(records: WritableBuffer, policy: ProducePolicy, from_client: bool) -> list[_Batch]:
    """Every whole batch with its position, checked without a look at its records."""
    batches = []
    for position, header in iterate_headers(records):
        if header.magic == MAGIC and from_client and header.base_offset != 0:
            raise misplaced(header, policy)
        if header.size > policy.max_batch_size:
            raise too_large(header.size, policy)
        if not crc_is_valid(records, position, header):
            raise CorruptRecordError(f"A batch for {policy.topic_partition} has a wrong CRC, not {header.crc}")
        if header.compression >= len(CODEC_NAMES):
            raise UnsupportedCompressionTypeError(f"There is no codec {header.compression}")
        batches.append((position, header))
    if not batches:
        raise InvalidRecordError("There is no whole batch")
    first = batches[0][1]
    if len(batches) > 1 and (first.magic == MAGIC or any(header.compression for _, header in batches)):
        raise InvalidRecordError("There is more than one batch, of magic 2 or compressed")
    for _, header in batches:
        _check_header(header, first.magic, policy, from_client)
    return batches


def _check_header(header: BatchHeader, magic: int, policy: ProducePolicy, from_client: bool) -> None:
    if header.magic != magic:
        raise InvalidRecordError(f"Messages of magic {magic} and {header.magic} are in one set")
    if header.magic == MAGIC and from_client:
        check_client_batch(header, policy.topic_partition)
    if policy.magic < MAGIC and (header.is_transactional or header.has_producer_id):
        kind = "Transactional" if header.is_transactional else "Idempotent"
        raise UnsupportedForMessageFormatError(
            f"{kind} records are not for {policy.topic_partition}, whose format is {policy.magic}"
        )


def _stamp_messages(
    records: WritableBuffer, batches: Sequence[_Batch], policy: ProducePolicy, now_ms: int, first_offset: int
) -> ValidatedBatch:
    """Single messages stay where they are and get offset and timestamp."""
    max_timestamp, place_of_max = NO_TIMESTAMP, -1
    appends = policy.timestamp_type == LOG_APPEND_TIME
    for place, (position, header) in enumerate(batches):
        (entry,) = read_entries(records, header, position)
        fault = record_fault(0, _record(entry), header, policy, now_ms)
        refuse([fault] if fault else [])
        if entry.timestamp > max_timestamp:
            max_timestamp, place_of_max = entry.timestamp, place
        set_offset(records, position, first_offset + place)
        if header.magic:
            timestamp = now_ms if appends else max(entry.timestamp, NO_TIMESTAMP)
            set_timestamp(records, position, header, policy.timestamp_type, timestamp)
    if appends:
        max_timestamp, place_of_max = now_ms, 0
    header = _summary(records, first_offset, len(batches), policy, max_timestamp)
    return ValidatedBatch(records, header, max_timestamp, place_of_max)


def _stamp_wrapper(
    records: WritableBuffer, header: BatchHeader, policy: ProducePolicy, now_ms: int, first_offset: int
) -> ValidatedBatch:
    """A wrapper of magic 1 stays as it is, if its inner offsets are 0, 1, 2, … as they should."""
    listed = _read(records, (0, header), policy, now_ms)
    if any(record.offset != place for place, record in enumerate(listed)):
        return _encode(listed, header.compression, policy, now_ms, first_offset)
    max_timestamp = max(NO_TIMESTAMP, *(record.timestamp for record in listed))
    if policy.timestamp_type == LOG_APPEND_TIME:
        max_timestamp = now_ms
    set_offset(records, 0, first_offset + len(listed) - 1)
    set_timestamp(records, 0, header, policy.timestamp_type, max_timestamp)
    summary = _summary(records, first_offset, len(listed), policy, max_timestamp, header.compression)
    return ValidatedBatch(records, summary, max_timestamp, len(listed) - 1)


def _read(records: WritableBuffer, batch: _Batch, policy: ProducePolicy, now_ms: int) -> list[Record]:
    """The records of one batch of any format, checked by what the topic's configuration says."""
    position, header = batch
    if header.magic == MAGIC:
        content = memoryview(records)[position : position + header.size]
        if may_hold_bad_records(header, scan_batch(content, header, policy), policy, now_ms):
            check_each_record(content, header, policy, now_ms)
        return read_records(content, header, max_size=policy.max_decompressed_size)
    entries = read_entries(records, header, position, policy.max_decompressed_size)
    faults = (_entry_fault(place, entry, header, policy, now_ms) for place, entry in enumerate(entries))
    refuse([fault for fault in faults if fault is not None])
    return [_record(entry) for entry in entries]


def _record(entry: Entry) -> Record:
    return Record(entry.key, entry.value, entry.timestamp, (), entry.offset)


def _entry_fault(
    place: int, entry: Entry, header: BatchHeader, policy: ProducePolicy, now_ms: int
) -> RecordFault | None:
    if entry.magic != header.magic:
        return RecordFault(place, f"The record has magic {entry.magic}, its wrapper {header.magic}")
    if not entry.crc_is_valid:
        raise CorruptRecordError(f"Record {place} in a wrapper for {policy.topic_partition} has a wrong CRC")
    return record_fault(place, _record(entry), header, policy, now_ms)


def _encode(
    listed: Sequence[Record], compression: int, policy: ProducePolicy, now_ms: int, first_offset: int
) -> ValidatedBatch:
    """Write the records anew, as the log's format and codec."""
    magic, timestamp_type = policy.magic, policy.timestamp_type
    if any(record.timestamp < NO_TIMESTAMP for record in listed):
        raise InvalidTimestampError("Some records have timestamps below -1")
    if magic < MAGIC and any(record.headers for record in listed):
        raise UnsupportedForMessageFormatError(f"Headers are not for {policy.topic_partition}, whose format is {magic}")
    base_offset = first_offset if magic < MAGIC else 0  # of a batch ``assign`` writes the offset
    placed = [record._replace(offset=base_offset + place) for place, record in enumerate(listed)]
    written = bytearray(encode_records(placed, magic, compression, timestamp_type, now_ms))
    for _, header in iterate_headers(written):
        if header.size > policy.max_batch_size:
            raise too_large(header.size, policy)
    timestamps = [record.timestamp if magic else NO_TIMESTAMP for record in listed]
    max_timestamp, place = max(timestamps), len(listed) - 1
    single = magic < MAGIC and not compression
    if timestamp_type == LOG_APPEND_TIME:
        max_timestamp, place = now_ms, 0 if single else place
    elif single and max_timestamp != NO_TIMESTAMP:
        place = timestamps.index(max_timestamp)
    if magic == MAGIC:
        return ValidatedBatch(written, read_header(written), max_timestamp, place)
    summary = _summary(written, first_offset, len(listed), policy, max_timestamp, compression)
    return ValidatedBatch(written, summary, max_timestamp, place)


def _summary(
    records: WritableBuffer,
    first_offset: int,
    count: int,
    policy: ProducePolicy,
    max_timestamp: int,
    compression: int = 0,
) -> BatchHeader:
    """A whole message set as if it were one batch: see ``ValidatedBatch``."""
    attributes = compression | policy.timestamp_type << 3
    return BatchHeader(
        first_offset, len(records), NO_LEADER_EPOCH, policy.magic, 0, attributes, count - 1,
        max_timestamp, max_timestamp, NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE, count,
    )  # fmt: skip
