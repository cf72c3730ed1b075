"""Produced message sets (magic 0 or 1) that are as they should be: checked and made ready without an object per record.

What clients send passes here: single messages, or one wrapper, for a log of the same format and codec or for one of
magic 2. Whatever is odd is left to ``validate_legacy.py``, which looks at one message after the other, is a hundred
times as slow, and finds the error code.
"""

from kafkapy.records.batch import (
    LOG_APPEND_TIME,
    MAGIC,
    MAGIC_OFFSET,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
    WritableBuffer,
    crc_is_valid,
    measure,
    read_header,
    read_legacy_header,
    write_batch,
)
from kafkapy.records.compression import ZSTD, compress
from kafkapy.records.errors import RecordTooLargeError
from kafkapy.records.legacy import set_offset, set_timestamp, wrapped_set
from kafkapy.records.scanner import number_entries, rewrite_entries, scan_entries
from kafkapy.records.validate import (
    INLINE_DECOMPRESSED_SIZE,
    INLINE_ENCODED_SIZE,
    MAX_INT64,
    PRODUCER,
    LargeBatchError,
    ProducePolicy,
    ValidatedBatch,
    too_large,
)

_GROWTH = 32
"""Bytes that a record of magic 2 may be longer than the message that it was."""


def validate_entries(
    records: WritableBuffer, policy: ProducePolicy, now_ms: int, first_offset: int, *, inline: bool = False
) -> ValidatedBatch | None:
    """Do what ``validate_legacy`` does where the set is good and the way is one of those above, else return None.

    Raises:
        CorruptRecordError, InvalidRecordError, RecordTooLargeError: a wrapper can't be decompressed, or only to more
            than the bound.
        RecordTooLargeError: the set is too large as a batch of magic 2.
        LargeBatchError: ``inline`` is set, and it takes long.
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
    """Whether nothing in the set needs a closer look."""
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
        0, 0, NO_LEADER_EPOCH, MAGIC, 0, codec | policy.timestamp_type << 3, count - 1,
        first, max_timestamp, NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE, count,
    )  # fmt: skip
    batch = bytearray(write_batch(header, compress(codec, written) if codec else written))
    if len(batch) > policy.max_batch_size:
        raise too_large(len(batch), policy)
    return ValidatedBatch(batch, read_header(batch), max_timestamp, count - 1)


def message_set(
    records: WritableBuffer, policy: ProducePolicy, offsets: tuple[int, int], latest: tuple[int, int], codec: int = 0
) -> ValidatedBatch:
    """A message set with the header that stands for the whole: see ``ValidatedBatch``.

    ``offsets`` are the first one and how many they are, ``latest`` the largest timestamp and its record's place.
    """
    (first_offset, count), (max_timestamp, place) = offsets, latest
    header = BatchHeader(
        first_offset, len(records), NO_LEADER_EPOCH, policy.magic, 0, codec | policy.timestamp_type << 3, count - 1,
        max_timestamp, max_timestamp, NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE, count,
    )  # fmt: skip
    return ValidatedBatch(records, header, max_timestamp, place)
