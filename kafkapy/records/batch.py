"""Record batches of every format as one view; the layout of magic 2, a 61-byte header in place, stands here.

Layout, big-endian (Apache Kafka's documentation, "Record Batch"; KIP-98)::

    0   base_offset            int64      offset of the first record
    8   length                 int32      bytes that follow this field: the batch's size less 12
    12  partition_leader_epoch int32      set by the leader; the CRC does not cover it, so it need not be recomputed
    16  magic                  int8       2
    17  crc                    uint32     CRC-32C of everything from byte 21 to the batch's end
    21  attributes             int16      bits 0-2 compression, 3 timestamp type, 4 transactional, 5 control,
                                      6 delete horizon
    23  last_offset_delta      int32      last offset less base offset; compaction keeps it when records go
    27  base_timestamp         int64 ms   from which the records' deltas count: the first timestamp, or the delete
                                      horizon if bit 6 is set (KIP-534, Apache Kafka 3.1 and later)
    35  max_timestamp          int64 ms   largest timestamp, or the append time if bit 3 is set
    43  producer_id            int64      -1: none
    51  producer_epoch         int16
    53  base_sequence          int32      of the first record; grows by one for each record, wraps at 2^31-1
    57  record_count           int32
    61  records                           compressed as one block if bits 0-2 say so

An entry of a message set (magic 0 and 1, ``record.py``) is a batch too, and ``BatchHeader`` shows it as one; functions
that write are for magic 2 only. Every function works on bytes, bytearray or memoryview and copies nothing.
"""

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from kafkapy.records.crc import crc32c
from kafkapy.records.errors import CorruptRecordError
from kafkapy.types import NO_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP, maker

ReadableBuffer = bytes | bytearray | memoryview
WritableBuffer = bytearray | memoryview

HEADER_SIZE = 61
LOG_OVERHEAD = 12
LENGTH_OFFSET = 8
LEADER_EPOCH_OFFSET = 12
MAGIC_OFFSET = 16
CRC_OFFSET = 17
ATTRIBUTES_OFFSET = 21
MAX_TIMESTAMP_OFFSET = 35
MAGIC = 2
SMALLEST_LENGTH = 14
"""The smallest length in any format: that of a message of magic 0 without key and value (Kafka's record overhead)."""

COMPRESSION_MASK = 0x07
TIMESTAMP_TYPE_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

CREATE_TIME = 0
LOG_APPEND_TIME = 1

UNKNOWN_COUNT = -1
"""``record_count`` of a wrapper in a message set: the count is not known before the wrapper is decompressed."""
SEQUENCE_MODULUS = 1 << 31

_HEADER = Struct(">qiibIhiqqqhii")
_UP_TO_CRC = Struct(">qiibI")
_CRC = Struct(">I")
_OFFSET = Struct(">q")
_INT32 = Struct(">i")
_ATTRIBUTES = Struct(">h")
_AFTER_CRC = Struct(">hiqqqhii")
_LEGACY_HEADER = Struct(">qiIbbq")
LEGACY_ATTRIBUTE_MASKS = (COMPRESSION_MASK, COMPRESSION_MASK | TIMESTAMP_TYPE_BIT)
"""Attribute bits that mean something in magic 0 and in magic 1."""
_SMALLEST_LEGACY_SIZES = (26, 34)
unpack_header = _HEADER.unpack_from
"""The fields of a header of magic 2 as they are stored: those of ``BatchHeader``, with the length for the size."""
unpack_legacy_header = _LEGACY_HEADER.unpack_from
"""Offset, length, CRC, magic, attributes and (magic 1 only) timestamp of an entry: see ``record.py``."""


class BatchHeader(NamedTuple):
    """The fields of one batch's header; ``size`` is the whole batch in bytes, its first 12 included.

    ``read_legacy_header`` says what they are for an entry of magic 0 or 1.
    """

    base_offset: int
    size: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def last_offset(self) -> int:
        """The offset of the last record, also of one that compaction has removed."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after this batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> int:
        """0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd; 5 to 7 mean nothing yet."""
        return self.attributes & COMPRESSION_MASK

    @property
    def timestamp_type(self) -> int:
        """0 CreateTime, 1 LogAppendTime."""
        return (self.attributes & TIMESTAMP_TYPE_BIT) >> 3

    @property
    def is_transactional(self) -> bool:
        """Whether the records belong to a transaction."""
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        """Whether the batch holds a control record (see ``control.py``) in place of data."""
        return self.attributes & CONTROL_BIT != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time from which compaction may remove the batch's tombstones or marker; None if it is not set yet."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None

    @property
    def has_producer_id(self) -> bool:
        """Whether an idempotent or transactional producer wrote it."""
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record, or -1 without one; after 2^31-1 comes 0."""
        if self.base_sequence < 0:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) % SEQUENCE_MODULUS


header_of = maker(BatchHeader)
"""Makes a ``BatchHeader`` of a tuple of its fields."""


def read_header(buffer: ReadableBuffer, position: int = 0) -> BatchHeader:
    """Read the header at ``position``, of any magic; the CRC is not checked (``crc_is_valid`` does).

    Raises:
        CorruptRecordError: no whole header, a length that is impossible or beyond the buffer, an unknown magic.
    """
    available = len(buffer) - position
    if available < HEADER_SIZE:
        return _read_other_header(buffer, position)
    base_offset, length, *rest = unpack_header(buffer, position)
    size = length + LOG_OVERHEAD
    if rest[1] != MAGIC or not HEADER_SIZE <= size <= available:
        return _read_other_header(buffer, position)
    return header_of((base_offset, size, *rest))


def _read_other_header(buffer: ReadableBuffer, position: int) -> BatchHeader:
    """Read an entry of a message set; raise ``CorruptRecordError`` if there is none."""
    if len(buffer) > position + MAGIC_OFFSET and buffer[position + MAGIC_OFFSET] < MAGIC:
        return read_legacy_header(buffer, position)
    measure(buffer, position)
    raise CorruptRecordError(f"No whole record batch is at {position}: {len(buffer) - position} bytes are there")


def read_legacy_header(buffer: ReadableBuffer, position: int = 0) -> BatchHeader:
    """Read the entry at ``position`` as the header of a batch; the CRC is not checked (``crc_is_valid`` does).

    ``base_offset`` is the entry's offset field: of a wrapper, the *last* record's offset. Magic 0 has no timestamp
    (-1); ``record_count`` is 1, or ``UNKNOWN_COUNT`` for a wrapper; attribute bits without a meaning are cleared.

    Raises:
        CorruptRecordError: no whole entry, or too short for its format.
    """
    available = len(buffer) - position
    if available >= _LEGACY_HEADER.size:
        offset, length, crc, magic, attributes, timestamp = unpack_legacy_header(buffer, position)
        size = length + LOG_OVERHEAD
        if magic in (0, 1) and _SMALLEST_LEGACY_SIZES[magic] <= size <= available:
            attributes &= LEGACY_ATTRIBUTE_MASKS[magic]
            if not magic:
                timestamp = NO_TIMESTAMP
            count = UNKNOWN_COUNT if attributes & COMPRESSION_MASK else 1
            return BatchHeader(
                offset, size, NO_EPOCH, magic, crc, attributes, 0, timestamp, timestamp,
                NO_PRODUCER_ID, NO_EPOCH, NO_SEQUENCE, count,
            )  # fmt: skip
    raise CorruptRecordError(f"No whole entry of a message set is at {position}")


def iterate_headers(buffer: ReadableBuffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Yield ``(position, header)`` of each whole batch of any magic from ``position`` on.

    An incomplete batch at the buffer's end ends the iteration without an error, as in Kafka (a fetch response may end
    with one). Bytes that can't be a batch raise, as in ``read_header``.
    """
    end = len(buffer)
    while True:
        if end - position >= HEADER_SIZE:  # as nearly all are: a whole batch of magic 2
            base_offset, length, *rest = unpack_header(buffer, position)
            size = length + LOG_OVERHEAD
            if rest[1] == MAGIC and HEADER_SIZE <= size <= end - position:
                yield position, header_of((base_offset, size, *rest))
                position += size
                continue
        size = measure(buffer, position)
        if size is None:
            return
        read = read_header if buffer[position + MAGIC_OFFSET] >= MAGIC else read_legacy_header
        yield position, read(buffer, position)
        position += size


def measure(buffer: ReadableBuffer, position: int = 0) -> int | None:
    """The size of the batch at ``position``, of any magic (0 to 2), or None if the buffer ends before it does.

    The rules are those of Kafka's ``ByteBufferLogInputStream``.

    Raises:
        CorruptRecordError: the length is below 14 or the magic is unknown.
    """
    available = len(buffer) - position
    if available < LOG_OVERHEAD:
        return None
    (length,) = _INT32.unpack_from(buffer, position + LENGTH_OFFSET)
    if length < SMALLEST_LENGTH:
        raise CorruptRecordError(f"A batch can't have a length of {length}: its header alone has {SMALLEST_LENGTH}")
    if available <= MAGIC_OFFSET:
        return None
    magic = buffer[position + MAGIC_OFFSET]
    if magic > MAGIC:
        raise CorruptRecordError(f"No format has magic {magic - 256 if magic > 127 else magic}")
    size = int(length) + LOG_OVERHEAD
    return size if size <= available else None


def crc_of(buffer: ReadableBuffer, position: int, size: int) -> int:
    """The CRC-32C that the batch of ``size`` bytes at ``position`` should carry."""
    return crc32c(memoryview(buffer)[position + ATTRIBUTES_OFFSET : position + size])


def crc32_of(buffer: ReadableBuffer, position: int, size: int) -> int:
    """The CRC-32 that the entry (magic 0 or 1) of ``size`` bytes at ``position`` should carry."""
    return crc32(memoryview(buffer)[position + MAGIC_OFFSET : position + size])


def crc_is_valid(buffer: ReadableBuffer, position: int, header: BatchHeader) -> bool:
    """Whether the stored CRC (CRC-32C, before magic 2 CRC-32) is that of the bytes."""
    compute = crc_of if header.magic >= MAGIC else crc32_of
    return header.crc == compute(buffer, position, header.size)


def assign(buffer: WritableBuffer, position: int, base_offset: int, leader_epoch: int) -> None:
    """Write base offset and leader epoch into the batch; the CRC covers neither and stays valid."""
    _OFFSET.pack_into(buffer, position, base_offset)
    _INT32.pack_into(buffer, position + LEADER_EPOCH_OFFSET, leader_epoch)


def set_max_timestamp(
    buffer: WritableBuffer, position: int, header: BatchHeader, timestamp_type: int, max_timestamp: int
) -> None:
    """Write timestamp type, largest timestamp (ms) and the new CRC; bits without a meaning are cleared, as in Kafka.

    Nothing is written when the batch has that type and timestamp already.
    """
    if header.timestamp_type == timestamp_type and header.max_timestamp == max_timestamp:
        return
    kept = header.attributes & (COMPRESSION_MASK | TRANSACTIONAL_BIT | CONTROL_BIT | DELETE_HORIZON_BIT)
    _ATTRIBUTES.pack_into(buffer, position + ATTRIBUTES_OFFSET, kept | timestamp_type << 3)
    _OFFSET.pack_into(buffer, position + MAX_TIMESTAMP_OFFSET, max_timestamp)
    _CRC.pack_into(buffer, position + CRC_OFFSET, crc_of(buffer, position, header.size))


def own_batch(
    records: bytes | bytearray, count: int, timestamp_ms: int, producer: tuple[int, int, int], attributes: int = 0
) -> tuple[bytearray, BatchHeader]:
    """Build a batch of the broker itself whose records all have one timestamp; return it with its header.

    ``records`` are the bytes of ``count`` records, ``producer`` is id, epoch and base sequence.
    """
    producer_id, epoch, sequence = producer
    fields = attributes, count - 1, timestamp_ms, timestamp_ms, producer_id, epoch, sequence, count
    after_crc = _AFTER_CRC.pack(*fields) + records
    length = ATTRIBUTES_OFFSET - LOG_OVERHEAD + len(after_crc)
    crc = crc32c(after_crc)
    buffer = bytearray(_UP_TO_CRC.pack(0, length, NO_EPOCH, MAGIC, crc))
    buffer += after_crc
    return buffer, header_of((0, LOG_OVERHEAD + length, NO_EPOCH, MAGIC, crc) + fields)  # noqa: RUF005  # faster


def write_batch(header: BatchHeader, records: ReadableBuffer) -> bytes:
    """A batch of ``header`` and the (perhaps compressed) bytes of its records; ``size`` and ``crc`` are computed."""
    after_crc = _AFTER_CRC.pack(*header[5:]) + records
    length = ATTRIBUTES_OFFSET - LOG_OVERHEAD + len(after_crc)
    epoch = header.partition_leader_epoch
    return _UP_TO_CRC.pack(header.base_offset, length, epoch, MAGIC, crc32c(after_crc)) + after_crc
