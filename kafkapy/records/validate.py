"""Checks produced records and changes them before the leader writes them, as Apache Kafka 2.7.2 does.

This module validates one batch of magic 2 for a log of magic 2, which nearly all producers send. ``validate_legacy.py``
validates an older format in the request or in the log.

The order of the rules, their error codes and messages are those of ``ProduceRequest.validateRecords``,
``Log.analyzeAndValidateRecords`` and ``LogValidator`` there. These differences are intended:

- records whose offsets are not 0, 1, 2, … are INVALID_RECORD; Kafka stores such a plain batch with its wrong offsets,
  and fails with UNKNOWN_SERVER_ERROR on a compressed one;
- the decompressed size is bounded (MESSAGE_TOO_LARGE), and so is the list of records at fault;
- where Kafka fails with UNKNOWN_SERVER_ERROR (an unknown codec, bytes that don't decompress, a record longer than its
  batch, a number that does not end; timestamps or a producer that its encoder refuses), the error code names the fault:
  UNSUPPORTED_COMPRESSION_TYPE, CORRUPT_MESSAGE, INVALID_TIMESTAMP, INVALID_RECORD;
- the sum of base timestamp and delta may not exceed 64 bits (INVALID_RECORD); in Kafka the sum wraps.

The messages are Kafka's, except that faults in a record's structure have fewer different ones.

The validation of a valid batch makes no object per record.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from kafkapy.records.batch import (
    ATTRIBUTES_OFFSET,
    COMPRESSION_MASK,
    CREATE_TIME,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    MAGIC,
    MAGIC_OFFSET,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    WritableBuffer,
    crc_is_valid,
    measure,
    read_header,
    set_max_timestamp,
    write_batch,
)
from kafkapy.records.compression import CODEC_NAMES, ZSTD, compress, decompress
from kafkapy.records.crc import crc32c
from kafkapy.records.errors import (
    CorruptRecordError,
    InvalidRecordError,
    InvalidTimestampError,
    RecordTooLargeError,
    UnsupportedCompressionTypeError,
)
from kafkapy.records.record import MAX_DECOMPRESSED_SIZE, Record, iterate_records
from kafkapy.records.scanner import UsualBatch, check_usual, fault_message, scan
from kafkapy.types import (
    NO_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TopicPartition,
    maker,
)

PRODUCER = -1
"""``compression.type=producer``: keep the codec that the producer chose."""

UNCOMPRESSED_STAYS = (PRODUCER, 0)
"""The values of ``compression.type`` (``uncompressed`` is 0) that leave a batch without a codec as it is."""

MAX_INT64 = 2**63 - 1
MIN_INT64 = -(2**63)
INLINE_DECOMPRESSED_SIZE = 4 * 1024 * 1024
"""Bytes that a client's batch may decompress to on the event loop: some milliseconds of work."""
INLINE_ENCODED_SIZE = 256 * 1024
"""Uncompressed bytes of a batch that may be compressed again on the event loop: gzip takes some milliseconds."""
INLINE_RECORDS = 2000
"""Records of a client's batch that may be checked one by one on the event loop."""
MAX_LISTED_FAULTS = 1000
"""Records that one error names, and the errors of one request in all; Kafka names all, and a small request can
decompress to very many."""
FIRST_VERSION_OF_BATCHES = 3
FIRST_VERSION_OF_ZSTD = 7


@dataclass(frozen=True, slots=True)
class ProducePolicy:
    """The rules of a partition's configuration for produced batches. Build it once, not per request.

    ``compression`` is a codec's number or ``PRODUCER``; ``key_required`` is true for compacted topics; sizes are in
    bytes; ``magic`` is the format of the log by ``message.format.version``.
    """

    topic_partition: TopicPartition
    compression: int = PRODUCER
    timestamp_type: int = CREATE_TIME
    timestamp_difference_max_ms: int = MAX_INT64
    key_required: bool = False
    max_batch_size: int = 1_048_588
    max_decompressed_size: int = MAX_DECOMPRESSED_SIZE
    magic: int = MAGIC
    most_usual_size: int = field(init=False)
    """The largest batch that ``usual_batch`` may accept: 0 if the configuration requires to change every batch."""

    def __post_init__(self) -> None:
        keeps = self.magic == MAGIC and self.timestamp_type == CREATE_TIME and self.compression in UNCOMPRESSED_STAYS
        object.__setattr__(self, "most_usual_size", min(self.max_batch_size, INLINE_DECOMPRESSED_SIZE) if keeps else 0)


class ValidatedBatch(NamedTuple):
    """Records that can be written. A batch of magic 2 still needs its offset (``batch.assign``), a message set doesn't.

    ``buffer`` has the records passed in, without trailing bytes, or new bytes if the records had to be encoded again.
    ``header`` is the header of ``buffer``. For a message set (magic 0 or 1) it describes all entries as one batch: from
    the first offset to the last, ``size`` bytes in all, bit 3 of the attributes set where the topic has LogAppendTime.
    ``max_timestamp_offset`` counts from the base offset (-1: no timestamp).
    """

    buffer: WritableBuffer
    header: BatchHeader
    max_timestamp: int
    max_timestamp_offset: int


class CheckedBatch(NamedTuple):
    """A client's batch that was validated, but could not be appended at once.

    ``first_offset`` is the log end offset at the time of the validation. ``guard`` is that of the verification of the
    transaction that the batch begins (``storage.log.producer_state``).
    """

    valid: ValidatedBatch
    first_offset: int = 0
    guard: object | None = None


class LargeBatchError(Exception):
    """The validation of a client's batch takes long. Nothing was changed or written.

    The batch is larger than ``INLINE_DECOMPRESSED_SIZE`` or decompresses to more, or more than ``INLINE_ENCODED_SIZE``
    bytes must be compressed again, or more than ``INLINE_RECORDS`` records must be checked one by one.

    Call ``validate_produced`` without ``inline``, away from the event loop, and append the result as ``CheckedBatch``.
    """


validated_batch_of = maker(ValidatedBatch)
"""Makes a ``ValidatedBatch`` of a tuple of its four fields."""


class Scanned(NamedTuple):
    """The result of the scan of one batch; ``body`` has its decompressed records.

    ``max_timestamp_place`` is the number of the first record with the largest timestamp.
    """

    body: memoryview
    min_timestamp: int
    max_timestamp: int
    max_timestamp_place: int
    null_keys: int
    in_order: bool


def check_produce_version(records: WritableBuffer, version: int) -> None:
    """Check the rules of the produce request's version: exactly one batch of magic 2, zstd from version 7 on.

    Versions 0 to 2 may have any format, any number of batches, and none.

    Raises:
        InvalidRecordError: no whole batch, another magic, more than one batch.
        UnsupportedCompressionTypeError: zstd before version 7.
        CorruptRecordError: the bytes can't be a batch.
    """
    if version < FIRST_VERSION_OF_BATCHES:
        return
    size = measure(records)
    prefix = f"Version {version} of Produce"
    if size is None:
        raise InvalidRecordError(f"{prefix} takes one whole batch, and there is none")
    if records[MAGIC_OFFSET] != MAGIC:
        raise InvalidRecordError(f"{prefix} takes magic 2 only")
    if version < FIRST_VERSION_OF_ZSTD and size > HEADER_SIZE and _codec_at(records) == ZSTD:
        raise UnsupportedCompressionTypeError(f"{prefix} does not know zstd")
    if size < len(records) and measure(records, size) is not None:
        raise InvalidRecordError(f"{prefix} takes one batch, and there are more")


def _codec_at(records: WritableBuffer) -> int:
    return records[ATTRIBUTES_OFFSET + 1] & COMPRESSION_MASK


def validate_produced(
    records: WritableBuffer,
    policy: ProducePolicy,
    now_ms: int,
    *,
    from_client: bool = True,
    first_offset: int = 0,
    inline: bool = False,
) -> ValidatedBatch:
    """Check produced records, set timestamp type and max timestamp, and encode them again where the log requires it.

    ``records`` is changed in place. ``from_client`` is false for the broker's own coordinators, which may write control
    batches. ``first_offset`` is the log end offset: message sets get their offsets here, as the offsets can be inside
    the compressed data. With ``inline`` the validation must not take long.

    Raises:
        CorruptRecordError, InvalidRecordError, InvalidTimestampError, RecordTooLargeError,
        UnsupportedCompressionTypeError, UnsupportedForMessageFormatError: see the modules; errors of single records
            carry ``record_errors``.
        LargeBatchError: ``inline`` is set, and the validation takes long.
    """
    _refuse_long(len(records), INLINE_DECOMPRESSED_SIZE, inline=inline)
    if policy.magic != MAGIC or (len(records) > MAGIC_OFFSET and records[MAGIC_OFFSET] < MAGIC):
        from kafkapy.records.validate_legacy import validate_legacy  # which imports this module

        return validate_legacy(records, policy, now_ms, first_offset, from_client=from_client, inline=inline)
    if not from_client and (ready := _own_batch(records, policy)) is not None:
        return ready
    records, header = _the_one_batch(records, policy, from_client)
    if from_client:
        check_client_batch(header, policy.topic_partition)
    scanned = scan_batch(records, header, policy, inline=inline)
    if may_hold_bad_records(header, scanned, policy, now_ms):
        if inline and header.record_count > INLINE_RECORDS:
            raise LargeBatchError
        check_each_record(records, header, policy, now_ms)
    codec = header.compression
    target = codec if policy.compression == PRODUCER or (header.is_control and codec == 0) else policy.compression
    timestamp_type = policy.timestamp_type
    max_timestamp = now_ms if timestamp_type == LOG_APPEND_TIME else scanned.max_timestamp
    if target != codec:
        check_encoded_again(header, scanned.min_timestamp, policy)
        records = _encoded_again(header, scanned, policy, (target, max_timestamp), inline=inline)
        header = read_header(records)
    elif header.max_timestamp != max_timestamp or header.timestamp_type != timestamp_type:
        set_max_timestamp(records, 0, header, timestamp_type, max_timestamp)
        header = read_header(records)
    place = scanned.max_timestamp_place
    if codec or target or timestamp_type == LOG_APPEND_TIME:
        place = header.last_offset_delta
    return validated_batch_of((records, header, max_timestamp, place))


def usual_batch(records: WritableBuffer, policy: ProducePolicy, now_ms: int) -> UsualBatch | None:
    """Return what the log needs of a client's batch that breaks no rule and needs no change; None for any other one.

    These are the checks of ``validate_produced`` for a batch without compression, in a compiled function. For one
    record it takes a fifth of the time.
    """
    if len(records) > policy.most_usual_size:
        return None
    found = check_usual(records, now_ms, policy.timestamp_difference_max_ms, policy.key_required)
    if found is None:
        return None
    return found if crc32c(records[ATTRIBUTES_OFFSET:]) == found[0] else None


def usual_own_batch(batch: ValidatedBatch, policy: ProducePolicy) -> UsualBatch | None:
    """As ``usual_batch`` for a batch that a coordinator has just encoded; None also if it has a producer.

    The rules are those of ``_is_taken_as_it_is``, with one look at the header.
    """
    _, header, max_timestamp, place = batch
    _, size, _, _, crc, attributes, _, base_timestamp, _, producer_id, _, _, count = header
    is_plain = not attributes and producer_id == NO_PRODUCER_ID and 0 <= base_timestamp == max_timestamp
    if not is_plain or size > policy.most_usual_size:
        return None
    return crc, count, max_timestamp, place, NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE, False


def as_validated(records: WritableBuffer, usual: UsualBatch) -> ValidatedBatch:
    """Return the same as ``validate_produced`` for a batch that is usual."""
    _, _, max_timestamp, place, *_ = usual
    return validated_batch_of((records, read_header(records), max_timestamp, place))


def _refuse_long(size: int, most: int, *, inline: bool) -> None:
    if inline and size > most:
        raise LargeBatchError


def _encoded_again(
    header: BatchHeader, scanned: Scanned, policy: ProducePolicy, stamp: tuple[int, int], *, inline: bool
) -> bytearray:
    """Compress the batch with another codec; ``stamp`` is that codec and the max timestamp."""
    _refuse_long(len(scanned.body), INLINE_ENCODED_SIZE, inline=inline)
    target, max_timestamp = stamp
    attributes = header.attributes & 0x30 | policy.timestamp_type << 3 | target
    stamped = header._replace(attributes=attributes, max_timestamp=max_timestamp)
    records = bytearray(write_batch(stamped, compress(target, scanned.body)))
    if len(records) > policy.max_batch_size:
        raise too_large(len(records), policy)
    return records


def at_offset(checked: CheckedBatch, first_offset: int) -> ValidatedBatch:
    """Return the validated batch with offsets from ``first_offset`` on: the log may have grown meanwhile.

    Raises ``LargeBatchError`` where that takes as long as a validation: the batch must be validated again.
    """
    if checked.valid.header.magic == MAGIC or checked.first_offset == first_offset:
        return checked.valid
    from kafkapy.records.validate_legacy import numbered_again  # which imports this module

    return numbered_again(checked.valid, first_offset)


def validate_own(
    batch: ValidatedBatch, policy: ProducePolicy, now_ms: Callable[[], int], first_offset: int
) -> ValidatedBatch:
    """Accept a coordinator's batch unchanged if the topic allows it, else call ``validate_produced``."""
    if policy.magic == MAGIC and _is_taken_as_it_is(batch.header, policy):
        return batch
    return validate_produced(batch.buffer, policy, now_ms(), from_client=False, first_offset=first_offset)


def _the_one_batch(
    records: WritableBuffer, policy: ProducePolicy, from_client: bool
) -> tuple[WritableBuffer, BatchHeader]:
    """Return the only batch, without an incomplete one after it, and its header; size and CRC are checked."""
    size = measure(records)
    if size is None:
        raise InvalidRecordError("There is no whole batch")
    header = _header(records, 0, policy, from_client)
    if size < len(records):
        position = size
        while (size := measure(records, position)) is not None:
            _header(records, position, policy, from_client)
            position += size
        if position > header.size:
            raise InvalidRecordError("There is more than one batch")
        records = memoryview(records)[:position]
    if header.compression >= len(CODEC_NAMES):
        raise UnsupportedCompressionTypeError(f"There is no codec {header.compression}")
    return records, header


def _header(records: WritableBuffer, position: int, policy: ProducePolicy, from_client: bool) -> BatchHeader:
    header = read_header(records, position)
    if from_client and header.magic == MAGIC and header.base_offset != 0:
        raise misplaced(header, policy)
    if header.size > policy.max_batch_size:
        raise too_large(header.size, policy)
    if not crc_is_valid(records, position, header):
        raise CorruptRecordError(f"A batch for {policy.topic_partition} has a wrong CRC, not {header.crc}")
    return header


def _own_batch(records: WritableBuffer, policy: ProducePolicy) -> ValidatedBatch | None:
    """Return a coordinator's batch as ``encode_batch`` made it, or None if it must be validated or changed."""
    header = read_header(records)
    if header.size == len(records) and _is_taken_as_it_is(header, policy) and crc_is_valid(records, 0, header):
        return ValidatedBatch(records, header, header.max_timestamp, 0)
    return None


def _is_taken_as_it_is(header: BatchHeader, policy: ProducePolicy) -> bool:
    """Whether a coordinator's batch, of magic 2, needs neither a change nor a check of its records."""
    return (
        header.size <= policy.max_batch_size
        and policy.compression in UNCOMPRESSED_STAYS
        and policy.timestamp_type == CREATE_TIME
        and not header.attributes & (TIMESTAMP_TYPE_BIT | COMPRESSION_MASK)
        and header.base_timestamp == header.max_timestamp >= 0
    )


def misplaced(header: BatchHeader, policy: ProducePolicy) -> InvalidRecordError:
    """The error for a client's batch whose base offset is not 0."""
    return InvalidRecordError(f"A batch for {policy.topic_partition} begins at offset {header.base_offset}, not at 0")


def too_large(size: int, policy: ProducePolicy) -> RecordTooLargeError:
    """The error for a batch over ``max_batch_size``."""
    return RecordTooLargeError(
        f"A batch for {policy.topic_partition} has {size} bytes; {policy.max_batch_size} is the most."
    )


def check_client_batch(header: BatchHeader, partition: TopicPartition) -> None:
    """Check the header of a client's batch (magic 2); ``usual_batch`` has the same rules.

    Raises:
        InvalidRecordError: count and offsets differ, a control batch, a producer without sequence.
    """
    count = header.record_count
    offsets = f"[{header.base_offset}, {header.last_offset}]"
    if header.last_offset_delta < 0:
        raise InvalidRecordError(f"A batch for {partition} ends before it begins: {offsets}")
    if count <= 0:
        raise InvalidRecordError(f"A batch for {partition} can't have {count} records")
    if header.last_offset_delta + 1 != count:
        raise InvalidRecordError(f"A batch for {partition} has {count} records for the offsets {offsets}")
    if header.is_control:
        raise InvalidRecordError(f"Only the broker may write control records to {partition}")
    if header.has_producer_id and header.base_sequence < 0:
        raise InvalidRecordError(
            f"Producer {header.producer_id} sent a batch for {partition} with sequence {header.base_sequence}"
        )


def check_encoded_again(header: BatchHeader, smallest_timestamp: int, policy: ProducePolicy) -> None:
    """Check the rules of Kafka's encoder for a batch of magic 2; they apply only to a batch that is encoded again.

    Raises:
        InvalidTimestampError: timestamps below -1.
        InvalidRecordError: a producer without epoch or sequence, or an id below -1; a transaction without a producer.
    """
    if smallest_timestamp < NO_TIMESTAMP:
        raise InvalidTimestampError("Some records have timestamps below -1")
    if header.producer_id != NO_PRODUCER_ID:
        is_lacking = header.producer_epoch == NO_EPOCH or header.base_sequence < 0
        if is_lacking or policy.magic < MAGIC:
            raise InvalidRecordError(
                f"Producer {header.producer_id} has epoch {header.producer_epoch}, sequence {header.base_sequence}"
            )
    elif header.is_transactional:
        raise InvalidRecordError("A batch of a transaction has no producer id")


def _decompressed(body: memoryview, codec: int, max_size: int, *, inline: bool) -> memoryview:
    limit = min(max_size, INLINE_DECOMPRESSED_SIZE) if inline else max_size
    try:
        return decompress(codec, body, limit)
    except RecordTooLargeError:
        if limit == max_size:
            raise
        raise LargeBatchError from None


def scan_batch(records: WritableBuffer, header: BatchHeader, policy: ProducePolicy, *, inline: bool = False) -> Scanned:
    """Decompress the records of a batch of magic 2 and check their structure.

    Raises:
        InvalidRecordError, CorruptRecordError, RecordTooLargeError: the records can't be read, or are too large.
        LargeBatchError: ``inline`` is set, and the records decompress to too many bytes.
    """
    body = memoryview(records)[HEADER_SIZE:]
    codec = header.compression
    if codec:
        body = _decompressed(body, codec, policy.max_decompressed_size, inline=inline)
    if header.record_count < 0:
        raise InvalidRecordError(f"A batch can't have a record count {header.record_count}")
    position, smallest, largest, place, null_keys, in_order = scan(body, header.record_count)
    if position < 0:
        raise InvalidRecordError(fault_message(position))
    minimum = header.base_timestamp + smallest
    maximum = header.base_timestamp + largest
    if minimum < MIN_INT64 or maximum > MAX_INT64:
        raise InvalidRecordError("A timestamp is over 64 bits")
    if place < 0 or maximum <= NO_TIMESTAMP:
        maximum = place = NO_TIMESTAMP
    return Scanned(body, minimum, maximum, place, null_keys, in_order)


def may_hold_bad_records(header: BatchHeader, scanned: Scanned, policy: ProducePolicy, now_ms: int) -> bool:
    """Whether each record must be checked; the smallest and largest values of the scan show that no record is bad."""
    if header.timestamp_type == LOG_APPEND_TIME or not scanned.in_order or (scanned.null_keys and policy.key_required):
        return True
    allowed = policy.timestamp_difference_max_ms
    return policy.timestamp_type == CREATE_TIME and (
        now_ms - scanned.min_timestamp > allowed or scanned.max_timestamp - now_ms > allowed
    )


def check_each_record(records: WritableBuffer, header: BatchHeader, policy: ProducePolicy, now_ms: int) -> None:
    """Check keys, timestamps and offsets of the records one by one.

    Raises:
        InvalidTimestampError: the timestamps of some records are refused.
        InvalidRecordError: some records are refused for another reason only.
    """
    refuse(
        record_fault(place, record, header, policy, now_ms) or _offset_fault(place, record, header)
        for place, record in enumerate(iterate_records(records, header, max_size=policy.max_decompressed_size))
    )


class RecordFault(NamedTuple):
    """The fault of the record at ``place`` in the batch, and whether it is a fault of its timestamp."""

    place: int
    message: str
    of_timestamp: bool = False


def refuse(faults: Iterable[RecordFault | None]) -> None:
    """Raise the error of ``check_each_record`` if there are faults; it lists at most ``MAX_LISTED_FAULTS``."""
    found = list(islice((fault for fault in faults if fault is not None), MAX_LISTED_FAULTS))
    errors = [(fault.place, fault.message) for fault in found]
    if any(fault.of_timestamp for fault in found):
        raise InvalidTimestampError(f"Timestamps of some records are refused: {errors[0][1]}", errors)
    if errors:
        raise InvalidRecordError(f"Some records are refused: {errors[0][1]}", errors)


def record_fault(
    place: int, record: Record, header: BatchHeader, policy: ProducePolicy, now_ms: int
) -> RecordFault | None:
    """Check a record of a batch of any format against the topic's configuration; return its fault or None."""
    if policy.key_required and record.key is None:
        return RecordFault(place, f"{policy.topic_partition} is compacted: its records need keys")
    message = _timestamp_fault(record, header, policy, now_ms)
    return None if message is None else RecordFault(place, message, of_timestamp=True)


def _offset_fault(place: int, record: Record, header: BatchHeader) -> RecordFault | None:
    expected = header.base_offset + place
    if record.offset == expected:
        return None
    return RecordFault(place, f"The record has offset {record.offset} in the place of {expected}")


def _timestamp_fault(record: Record, header: BatchHeader, policy: ProducePolicy, now_ms: int) -> str | None:
    allowed = policy.timestamp_difference_max_ms
    timestamp = record.timestamp
    is_bounded = policy.timestamp_type == CREATE_TIME and timestamp != NO_TIMESTAMP and allowed < MAX_INT64
    if is_bounded and abs(timestamp - now_ms) > allowed:
        return f"Offset {record.offset} has timestamp {timestamp}; {now_ms - allowed} to {now_ms + allowed} is allowed"
    if header.timestamp_type == LOG_APPEND_TIME:
        return f"Offset {record.offset} is marked LogAppendTime, which only the broker may set"
    return None
