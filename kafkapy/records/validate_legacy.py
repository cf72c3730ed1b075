"""Validates produced records of an old format (message sets), and records for a log of an old format.

The rules are those of Kafka 2.7.2's ``Log.analyzeAndValidateRecords`` and ``LogValidator``. There are four cases:

1. single messages for an uncompressed log of the same format are checked and stamped in place;
2. so is a wrapper of magic 1 whose codec the log keeps and whose inner offsets are 0, 1, 2, …;
3. other records are encoded again in the log's format and codec: one wrapper or one batch for all, or single messages;
4. records with fields that the log's format lacks (producer ids, transactions, headers) are refused.

``validate_entries`` handles valid sets in cases 1 and 2, and in case 3 for a log of magic 2. It is much faster than
``validate_legacy``, which would have the same result.

A single message is a batch: the error is that of the first bad message. In a wrapper all bad messages are listed. These
differences from Kafka are intended, in addition to those that ``validate.py`` names:

- messages whose key or value extends beyond their end are INVALID_RECORD, a timestamp of 2^63-1 for a log of magic 2 is
  INVALID_TIMESTAMP; Kafka stores them;
- where Kafka fails with UNKNOWN_SERVER_ERROR, the code names the fault: UNSUPPORTED_FOR_MESSAGE_FORMAT for headers in
  a log without them, UNSUPPORTED_COMPRESSION_TYPE for zstd in such a log, INVALID_TIMESTAMP for timestamps below -1
  in records that must be encoded again, CORRUPT_MESSAGE for bytes that don't decompress.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final, NamedTuple

from kafkapy.records.batch import (
    HEADER_SIZE,
    LOG_APPEND_TIME,
    MAGIC,
    MAGIC_OFFSET,
    BatchHeader,
    WritableBuffer,
    crc_is_valid,
    iterate_headers,
    measure,
    read_header,
    read_legacy_header,
    write_batch,
)
from kafkapy.records.compression import CODEC_NAMES, ZSTD, compress, decompress
from kafkapy.records.errors import (
    CorruptRecordError,
    InvalidRecordError,
    InvalidTimestampError,
    RecordsError,
    RecordTooLargeError,
    UnsupportedCompressionTypeError,
    UnsupportedForMessageFormatError,
)
from kafkapy.records.record import (
    Entry,
    Record,
    encode_batch,
    encode_legacy,
    iterate_entries,
    iterate_records,
    set_offset,
    set_timestamp,
    wrapped_set,
)
from kafkapy.records.scanner import number_entries, rewrite_entries, scan_entries
from kafkapy.records.validate import (
    INLINE_DECOMPRESSED_SIZE,
    INLINE_ENCODED_SIZE,
    MAX_INT64,
    MIN_INT64,
    PRODUCER,
    LargeBatchError,
    ProducePolicy,
    RecordFault,
    ValidatedBatch,
    check_client_batch,
    check_each_record,
    check_encoded_again,
    may_hold_bad_records,
    misplaced,
    record_fault,
    refuse,
    scan_batch,
    too_large,
)
from kafkapy.types import NO_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP

# Valid produced message sets (magic 0 or 1): checked and prepared for the log without an object per record.
#
# The usual sets of clients are handled here: single messages, or one wrapper, for a log of the same format and codec or
# of magic 2. ``validate_legacy`` handles all others: it checks each message, takes a hundred times as long, and finds
# the error code.


_GROWTH = 32
"""Bytes by which a record of magic 2 may be longer than the message that it is made from."""


def validate_entries(
    records: WritableBuffer, policy: ProducePolicy, now_ms: int, first_offset: int, *, inline: bool = False
) -> ValidatedBatch | None:
    """Do what ``validate_legacy`` does if the set is valid and of a usual kind (see above), else return None.

    Raises:
        CorruptRecordError, InvalidRecordError, RecordTooLargeError: a wrapper can't be decompressed, or decompresses to
            too many bytes.
        RecordTooLargeError: the set is too large as a batch of magic 2.
        LargeBatchError: ``inline`` is set, and the validation takes long.
    """
    size = measure(records)
    if size is None or records[MAGIC_OFFSET] >= MAGIC:
        return None
    header = read_legacy_header(records)
    codec = header.compression
    if codec and (
        codec >= ZSTD or size != len(records) or size > policy.max_batch_size or not crc_is_valid(records, 0, header)
    ):
        return None
    content = _unwrapped(records, header, policy, inline=inline) if codec else memoryview(records)
    scanned = scan_entries(content, header.magic)
    count, _, largest, place, _, in_order, largest_size = scanned
    if (
        count < 1
        or not _is_good(scanned, header, policy, now_ms)
        or (not codec and largest_size > policy.max_batch_size)
    ):
        return None
    stamps = policy.timestamp_type == LOG_APPEND_TIME
    target = codec if policy.compression == PRODUCER else policy.compression
    if policy.magic == MAGIC:
        if inline and target and len(content) > INLINE_ENCODED_SIZE:
            raise LargeBatchError
        return _as_batch(content, scanned, header.magic, target, policy, now_ms)
    if policy.magic != header.magic or target != codec or (codec and not (header.magic and in_order)):
        return None
    if not codec:
        if stamps and header.magic:
            return None
        number_entries(content, first_offset)
        if stamps:
            largest, place = now_ms, 0
        return message_set(records, policy, (first_offset, count), (largest, place))
    largest = now_ms if stamps else largest
    set_offset(records, 0, first_offset + count - 1)
    set_timestamp(records, 0, header, policy.timestamp_type, largest)
    return message_set(records, policy, (first_offset, count), (largest, count - 1), codec)


def _unwrapped(records: WritableBuffer, header: BatchHeader, policy: ProducePolicy, *, inline: bool) -> memoryview:
    max_size = policy.max_decompressed_size
    try:
        return wrapped_set(records, header, min(max_size, INLINE_DECOMPRESSED_SIZE) if inline else max_size)
    except RecordTooLargeError:
        if inline and max_size > INLINE_DECOMPRESSED_SIZE:
            raise LargeBatchError from None
        raise


def _is_good(
    scanned: tuple[int, int, int, int, int, bool, int], header: BatchHeader, policy: ProducePolicy, now_ms: int
) -> bool:
    """Whether no message of the set needs a check of its own."""
    count, smallest, largest, _, null_keys, in_order, _ = scanned
    if header.timestamp_type == LOG_APPEND_TIME or (null_keys and policy.key_required) or smallest < NO_TIMESTAMP:
        return False
    if header.compression and header.magic and not (in_order and header.base_offset in (0, count - 1)):
        return False
    allowed = policy.timestamp_difference_max_ms
    is_timely = now_ms - smallest <= allowed and largest - now_ms <= allowed
    return largest < MAX_INT64 and (is_timely or policy.timestamp_type == LOG_APPEND_TIME)


def _as_batch(
    content: memoryview,
    scanned: tuple[int, int, int, int, int, bool, int],
    magic: int,
    codec: int,
    policy: ProducePolicy,
    now_ms: int,
) -> ValidatedBatch:
    count, largest = scanned[0], scanned[2]
    body = bytearray(len(content) + _GROWTH * count)
    written = memoryview(body)[: rewrite_entries(content, magic, memoryview(body))]
    max_timestamp = now_ms if policy.timestamp_type == LOG_APPEND_TIME else largest
    first = int.from_bytes(content[18:26], "big", signed=True) if magic else NO_TIMESTAMP
    header = BatchHeader(
        0, 0, NO_EPOCH, MAGIC, 0, codec | policy.timestamp_type << 3, count - 1,
        first, max_timestamp, NO_PRODUCER_ID, NO_EPOCH, NO_SEQUENCE, count,
    )  # fmt: skip
    batch = bytearray(write_batch(header, compress(codec, written) if codec else written))
    if len(batch) > policy.max_batch_size:
        raise too_large(len(batch), policy)
    return ValidatedBatch(batch, read_header(batch), max_timestamp, count - 1)


def message_set(
    records: WritableBuffer, policy: ProducePolicy, offsets: tuple[int, int], latest: tuple[int, int], codec: int = 0
) -> ValidatedBatch:
    """A message set with the header that describes all of it: see ``ValidatedBatch``.

    ``offsets`` are the first offset and the number of offsets, ``latest`` the largest timestamp and its record's place.
    """
    (first_offset, count), (max_timestamp, place) = offsets, latest
    header = BatchHeader(
        first_offset, len(records), NO_EPOCH, policy.magic, 0, codec | policy.timestamp_type << 3, count - 1,
        max_timestamp, max_timestamp, NO_PRODUCER_ID, NO_EPOCH, NO_SEQUENCE, count,
    )  # fmt: skip
    return ValidatedBatch(records, header, max_timestamp, place)


INLINE_SIZE: Final = 64 * 1024
"""Bytes of messages that may be checked one by one on the event loop: some milliseconds of work."""


class _Examined(NamedTuple):
    """The facts from the headers of a set; ``size`` in bytes does not count an incomplete batch at the end."""

    magic: int
    compression: int
    size: int


def validate_legacy(
    records: WritableBuffer,
    policy: ProducePolicy,
    now_ms: int,
    first_offset: int,
    *,
    from_client: bool,
    inline: bool = False,
) -> ValidatedBatch:
    """See ``validate.validate_produced``, which calls this where magic 0 or 1 is in the records or in ``policy``."""
    quickly = validate_entries(records, policy, now_ms, first_offset, inline=inline)
    if quickly is not None:
        return quickly
    if inline and _is_long(records):
        raise LargeBatchError
    found = _examine(records, policy, from_client)
    records = memoryview(records)[: found.size]
    target = found.compression if policy.compression == PRODUCER else policy.compression
    if found.magic == policy.magic and found.compression == target:
        if not target:
            return _stamp_messages(records, policy, now_ms, first_offset)
        stamped = _stamp_wrapper(records, policy, now_ms, first_offset) if policy.magic else None
        if stamped is not None:
            return stamped
    return _encode(_read(records, policy, now_ms), target, policy, now_ms, first_offset)


def numbered_again(valid: ValidatedBatch, first_offset: int) -> ValidatedBatch:
    """Return a validated message set with other offsets, from ``first_offset`` on.

    Raises ``LargeBatchError`` for a wrapper of magic 0, whose offsets are inside the compressed data.
    """
    header = valid.header
    if not header.compression:
        number_entries(memoryview(valid.buffer), first_offset)
    elif header.magic:
        set_offset(valid.buffer, 0, first_offset + header.last_offset_delta)
    else:
        raise LargeBatchError
    return valid._replace(header=header._replace(base_offset=first_offset))


def _is_long(records: WritableBuffer) -> bool:
    """Whether the decompressed records are too many bytes to be checked one by one on the event loop."""
    size = 0
    for position, header in iterate_headers(records):
        size += header.size
        if size > INLINE_SIZE:
            return True
        batch = memoryview(records)[position : position + header.size]
        try:
            if header.compression and header.magic < MAGIC:
                wrapped_set(batch, header, INLINE_SIZE)
            elif header.compression:
                decompress(header.compression, batch[HEADER_SIZE:], INLINE_SIZE)
        except RecordTooLargeError:
            return True
        except RecordsError:
            return False  # the validation will raise
    return False


def _examine(records: WritableBuffer, policy: ProducePolicy, from_client: bool) -> _Examined:
    """Check every whole batch without reading its records."""
    first = other = None
    compression = count = size = 0
    for position, header in iterate_headers(records):
        if header.magic == MAGIC and from_client and header.base_offset != 0:
            raise misplaced(header, policy)
        _check_bytes(records, position, header, policy)
        first = first or header
        if header.magic != first.magic:
            other = header
        compression = header.compression or compression
        count += 1
        size = position + header.size
    if first is None:
        raise InvalidRecordError("There is no whole batch")
    if count > 1 and (first.magic == MAGIC or compression):
        raise InvalidRecordError("There is more than one batch, of magic 2 or compressed")
    if other is not None:
        raise InvalidRecordError(f"Messages of magic {first.magic} and {other.magic} are in one set")
    if first.magic == MAGIC:
        _check_batch(first, policy, from_client)
    return _Examined(first.magic, compression, size)


def _check_bytes(records: WritableBuffer, position: int, header: BatchHeader, policy: ProducePolicy) -> None:
    if header.size > policy.max_batch_size:
        raise too_large(header.size, policy)
    if not crc_is_valid(records, position, header):
        raise CorruptRecordError(f"A batch for {policy.topic_partition} has a wrong CRC, not {header.crc}")
    if header.compression >= len(CODEC_NAMES):
        raise UnsupportedCompressionTypeError(f"There is no codec {header.compression}")


def _check_batch(header: BatchHeader, policy: ProducePolicy, from_client: bool) -> None:
    if from_client:
        check_client_batch(header, policy.topic_partition)
    if header.is_transactional or header.has_producer_id:
        kind = "Transactional" if header.is_transactional else "Idempotent"
        raise UnsupportedForMessageFormatError(
            f"{kind} records are not for {policy.topic_partition}, whose format is {policy.magic}"
        )
    check_encoded_again(header, NO_TIMESTAMP, policy)


class _Noted:
    """Collects facts of the records while they are encoded one by one."""

    __slots__ = ("first_offset", "count", "max_timestamp", "place_of_max", "has_headers", "smallest_timestamp")

    def __init__(self, first_offset: int) -> None:
        self.first_offset = first_offset
        self.count = 0
        self.max_timestamp = NO_TIMESTAMP
        self.place_of_max = -1
        self.has_headers = False
        self.smallest_timestamp = 0

    def placed(self, records: Iterable[Record]) -> Iterator[Record]:
        """Note each record and yield it with its new offset."""
        offset = self.first_offset
        for key, value, timestamp, headers, _ in records:
            if timestamp > self.max_timestamp or timestamp < self.smallest_timestamp:
                self.note_timestamp(timestamp)
            if headers:
                self.has_headers = True
            self.count += 1
            yield Record(key, value, timestamp, headers, offset)
            offset += 1

    def note_timestamp(self, timestamp: int) -> None:
        """Note the timestamp of the next record, before that is counted."""
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
            self.place_of_max = self.count
        elif timestamp < self.smallest_timestamp:
            self.smallest_timestamp = timestamp


def _stamp_messages(records: WritableBuffer, policy: ProducePolicy, now_ms: int, first_offset: int) -> ValidatedBatch:
    """Write offsets and timestamps into single messages, in place."""
    noted = _Noted(first_offset)
    appends = policy.timestamp_type == LOG_APPEND_TIME
    for position, header in iterate_headers(records):
        (record,) = _read_batch(records, position, header, policy, now_ms)
        set_offset(records, position, first_offset + noted.count)
        noted.note_timestamp(record.timestamp)
        noted.count += 1
        if header.magic:
            timestamp = now_ms if appends else max(record.timestamp, NO_TIMESTAMP)
            set_timestamp(records, position, header, policy.timestamp_type, timestamp)
    if appends:
        noted.max_timestamp, noted.place_of_max = now_ms, 0
    return _validated(records, noted, policy)


def _stamp_wrapper(
    records: WritableBuffer, policy: ProducePolicy, now_ms: int, first_offset: int
) -> ValidatedBatch | None:
    """Stamp a wrapper of magic 1 in place if its inner offsets are 0, 1, 2, …; return None if they are not."""
    header = read_header(records)
    noted = _Noted(first_offset)
    for record in _read_batch(records, 0, header, policy, now_ms):
        if record.offset != noted.count:
            return None
        noted.note_timestamp(record.timestamp)
        noted.count += 1
    noted.place_of_max = noted.count - 1
    if policy.timestamp_type == LOG_APPEND_TIME:
        noted.max_timestamp = now_ms
    set_offset(records, 0, first_offset + noted.count - 1)
    set_timestamp(records, 0, header, policy.timestamp_type, noted.max_timestamp)
    return _validated(records, noted, policy, header.compression)


def _read(records: WritableBuffer, policy: ProducePolicy, now_ms: int) -> Iterator[Record]:
    """Yield all records of the set, checked against the topic's configuration."""
    for position, header in iterate_headers(records):
        yield from _read_batch(records, position, header, policy, now_ms)


def _read_batch(
    records: WritableBuffer, position: int, header: BatchHeader, policy: ProducePolicy, now_ms: int
) -> Iterator[Record]:
    """Return the records of one batch, or raise one error for all bad records in it."""
    if header.magic == MAGIC:
        if may_hold_bad_records(header, scan_batch(records, header, policy), policy, now_ms):
            check_each_record(records, header, policy, now_ms)
        yield from iterate_records(records, header, max_size=policy.max_decompressed_size)
        return
    entries = iterate_entries(records, header, position, policy.max_decompressed_size)
    earliest, latest = _timestamps_beyond_doubt(header, policy, now_ms)
    key_required, magic = policy.key_required, header.magic
    for place, entry in enumerate(entries):
        offset, own_magic, _, timestamp, key, value, has_valid_crc = entry
        is_plain = own_magic == magic and has_valid_crc and earliest <= timestamp <= latest
        if not is_plain or (key is None and key_required):
            fault = _entry_fault(place, entry, header, policy, now_ms)
            if fault is not None:
                others = (_entry_fault(at, each, header, policy, now_ms) for at, each in enumerate(entries, place + 1))
                refuse(chain((fault,), others))
        yield Record(key, value, timestamp, (), offset)


def _timestamps_beyond_doubt(header: BatchHeader, policy: ProducePolicy, now_ms: int) -> tuple[int, int]:
    """The smallest and largest timestamp of a record that certainly needs no check of its timestamp."""
    if header.timestamp_type == LOG_APPEND_TIME:
        return 0, -1
    if policy.timestamp_type == LOG_APPEND_TIME:
        return MIN_INT64, MAX_INT64
    allowed = policy.timestamp_difference_max_ms
    return now_ms - allowed, now_ms + allowed


def _entry_fault(
    place: int, entry: Entry, header: BatchHeader, policy: ProducePolicy, now_ms: int
) -> RecordFault | None:
    if entry.magic != header.magic:
        return RecordFault(place, f"The record has magic {entry.magic}, its wrapper {header.magic}")
    if not entry.crc_is_valid:
        raise CorruptRecordError(f"Record {place} in a wrapper for {policy.topic_partition} has a wrong CRC")
    record = Record(entry.key, None, entry.timestamp, (), entry.offset)
    return record_fault(place, record, header, policy, now_ms)


def _encode(
    records: Iterable[Record], compression: int, policy: ProducePolicy, now_ms: int, first_offset: int
) -> ValidatedBatch:
    """Encode the records again, in the log's format and codec."""
    is_batch = policy.magic == MAGIC
    noted = _Noted(0 if is_batch else first_offset)  # ``assign`` writes the offset of a batch
    if compression == ZSTD and not is_batch:
        records = list(records)  # zstd is refused when the records are written; a fault of a record comes first
    written = bytearray(_write(noted.placed(records), compression, policy, now_ms))
    _refuse_unrepresentable(noted, policy)
    for _, header in iterate_headers(written):
        if header.size > policy.max_batch_size:
            raise too_large(header.size, policy)
    if not policy.magic:
        noted.max_timestamp = NO_TIMESTAMP
    last = noted.count - 1
    if policy.timestamp_type == LOG_APPEND_TIME:
        noted.max_timestamp, noted.place_of_max = now_ms, last if compression or is_batch else 0
    elif compression or is_batch or noted.max_timestamp == NO_TIMESTAMP:
        noted.place_of_max = last
    if is_batch:
        return ValidatedBatch(written, read_header(written), noted.max_timestamp, last)
    return _validated(written, noted, policy, compression)


def _write(records: Iterable[Record], compression: int, policy: ProducePolicy, now_ms: int) -> bytes:
    timestamp_type = policy.timestamp_type
    if policy.magic < MAGIC:
        return encode_legacy(
            records, policy.magic, compression=compression, timestamp_type=timestamp_type, append_time=now_ms
        )
    if timestamp_type == LOG_APPEND_TIME:
        return encode_batch(records, compression=compression, timestamp_type=timestamp_type, max_timestamp=now_ms)
    return encode_batch(records, compression=compression)


def _refuse_unrepresentable(noted: _Noted, policy: ProducePolicy) -> None:
    if noted.smallest_timestamp < NO_TIMESTAMP:
        raise InvalidTimestampError("Some records have timestamps below -1")
    if policy.magic == MAGIC and noted.max_timestamp == MAX_INT64:
        raise InvalidTimestampError("The distance between timestamps is over 64 bits")
    if policy.magic < MAGIC and noted.has_headers:
        raise UnsupportedForMessageFormatError(
            f"Headers are not for {policy.topic_partition}, whose format is {policy.magic}"
        )


def _validated(records: WritableBuffer, noted: _Noted, policy: ProducePolicy, compression: int = 0) -> ValidatedBatch:
    """A message set with the header that describes all of it: see ``ValidatedBatch``."""
    offsets = (noted.first_offset, noted.count)
    return message_set(records, policy, offsets, (noted.max_timestamp, noted.place_of_max), compression)
