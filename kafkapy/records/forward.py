"""Fetched batches as they are produced to another broker: their records stay as they are, headers change.

A broker accepts a batch of a producer only if it looks like one of a producer, so these fields change:

- base offset 0 and no leader epoch: the offsets in a compressed batch must count from 0;
- the timestamp type is CreateTime, as brokers refuse LogAppendTime in a produce request. The timestamp of a record with
  LogAppendTime is the batch's max timestamp, its own is the producer's, so such batches are written again;
- producer id, epoch, sequence and the transactional bit are those of the producer that sends it (``stamp``).

Batches with gaps, which compaction leaves, are refused too; their records are written again without the gaps.
Control batches, batches without records and those of aborted transactions are left out.
"""

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final, NamedTuple

from kafkapy.records.batch import (
    ATTRIBUTES_OFFSET,
    COMPRESSION_MASK,
    CRC_OFFSET,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_OFFSET,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    ReadableBuffer,
    assign,
    crc32_of,
    crc_is_valid,
    crc_of,
    iterate_headers,
)
from kafkapy.records.errors import CorruptRecordError
from kafkapy.records.record import encode_batch, encode_legacy, read_records, set_offset
from kafkapy.types import NO_EPOCH, NO_OFFSET

RUN_BYTES: Final = 32 * 1024
"""Entries of magic 0 and 1 are joined to sets of this many bytes; a broker makes one batch of each.

It refuses a set that is larger than the topic's ``max.message.bytes``: see ``divided``.
"""
_LEGACY_CRC_OFFSET: Final = LOG_OVERHEAD
_LEGACY_ATTRIBUTES_OFFSET: Final = MAGIC_OFFSET + 1
_CRC: Final = Struct(">I")
_ATTRIBUTES: Final = Struct(">h")
_PRODUCER: Final = Struct(">qhi")
_PRODUCER_OFFSET: Final = 43


class Forwarded(NamedTuple):
    """A batch (or a set of entries) to produce; ``data`` is None where nothing is to be passed on.

    ``record_count`` is the number of records, ``next_offset`` the source's offset behind them. No record has a lower
    offset than ``first_offset``; where compaction has removed records, the first one may have a higher. The CRC of a
    batch of magic 2 is valid only after ``stamp``.
    """

    data: bytearray | None
    magic: int
    next_offset: int
    record_count: int
    first_offset: int = NO_OFFSET


class _AbortedProducers:
    """Follows the aborted transactions of a Fetch response: pairs of the first offset and the producer id."""

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        self._waiting = sorted(aborted, reverse=True)
        self._open: set[int] = set()

    def leaves_out(self, header: BatchHeader) -> bool:
        """Whether a consumer of committed records does not see the batch; called for each batch in order."""
        while self._waiting and self._waiting[-1][0] <= header.last_offset:
            self._open.add(self._waiting.pop()[1])
        if header.is_control:  # a transaction has one marker, which ends it
            self._open.discard(header.producer_id)
            return True
        return header.is_transactional and header.producer_id in self._open


def forwarded(records: ReadableBuffer, aborted: Iterable[tuple[int, int]] = ()) -> Iterator[Forwarded]:
    """Yield the bytes to produce for each whole batch in ``records``, in order.

    ``aborted`` has first offset and producer id of each aborted transaction, as the Fetch response tells them.

    Raises:
        CorruptRecordError: bytes that are no batch, or a CRC that is wrong: a new CRC would hide the damage.
        InvalidRecordError: a batch with gaps can't be read.
    """
    rules = _AbortedProducers(aborted)
    run: Forwarded | None = None
    for position, header in iterate_headers(records):
        if not crc_is_valid(records, position, header):
            raise CorruptRecordError(f"The batch at offset {header.base_offset} has a wrong CRC")
        each = _one(records, position, header, is_left_out=rules.leaves_out(header))
        if run is not None and _may_join(run, header):
            assert run.data is not None
            assert each.data is not None
            run.data.extend(each.data)
            run = run._replace(next_offset=each.next_offset, record_count=run.record_count + each.record_count)
            continue
        if run is not None:
            yield run
        run = each
        if header.compression or header.magic == MAGIC:
            yield each
            run = None
    if run is not None:
        yield run


def _may_join(run: Forwarded, header: BatchHeader) -> bool:
    """Whether an entry may follow those of ``run`` in one set: uncompressed, of the same magic, not too many."""
    assert run.data is not None, "only entries of message sets are collected"
    return not header.compression and header.magic == run.magic and len(run.data) + header.size <= RUN_BYTES


def divided(passed: Forwarded, most_bytes: int) -> list[Forwarded]:
    """The sets of at most so many bytes, or of one entry, that a set of entries can be divided into; else itself."""
    if passed.data is None or passed.magic == MAGIC or len(passed.data) <= most_bytes:
        return [passed]
    found: list[Forwarded] = []
    for position, header in iterate_headers(passed.data):
        entry = passed.data[position : position + header.size]
        data = found[-1].data if found else None
        if data is not None and len(data) + header.size <= most_bytes:
            data.extend(entry)
            found[-1] = found[-1]._replace(next_offset=header.next_offset, record_count=found[-1].record_count + 1)
        else:
            found.append(Forwarded(entry, header.magic, header.next_offset, 1, header.base_offset))
    return found if len(found) > 1 else [passed]  # a wrapper has offsets that are not the source's


def _one(records: ReadableBuffer, position: int, header: BatchHeader, *, is_left_out: bool) -> Forwarded:
    data: bytearray | None
    count, first = header.record_count, header.base_offset
    if is_left_out or not count:
        data, count, first = None, 0, NO_OFFSET
    elif header.magic < MAGIC:
        data, count, first = _legacy(records, position, header)
    elif count != header.last_offset_delta + 1 or header.timestamp_type == LOG_APPEND_TIME:
        data = bytearray(encode_batch(read_records(records, header, position), compression=header.compression))
    else:
        data = bytearray(memoryview(records)[position : position + header.size])
        assign(data, 0, 0, NO_EPOCH)
    return Forwarded(data, header.magic, header.next_offset, count, first)


def _legacy(records: ReadableBuffer, position: int, header: BatchHeader) -> tuple[bytearray, int, int]:
    """An entry, how many records are in it, and the offset of the first.

    Inner offsets of magic 1 must be 0, 1, … on the way to the target, the wrapper's is the last. An entry that is not
    compressed has its append time as its timestamp; in a wrapper only the wrapper has it.
    """
    data = bytearray(memoryview(records)[position : position + header.size])
    count, first = 1, header.base_offset
    if header.compression:
        inner = read_records(data, header)
        count, first = len(inner), inner[0].offset
        has_gaps = [record.offset - inner[0].offset for record in inner] != list(range(count))
        if has_gaps or header.timestamp_type == LOG_APPEND_TIME:
            dense = [record._replace(offset=offset) for offset, record in enumerate(inner)]
            return bytearray(encode_legacy(dense, header.magic, compression=header.compression)), count, first
        set_offset(data, 0, count - 1)
    if header.timestamp_type == LOG_APPEND_TIME:
        data[_LEGACY_ATTRIBUTES_OFFSET] &= ~TIMESTAMP_TYPE_BIT
        _CRC.pack_into(data, _LEGACY_CRC_OFFSET, crc32_of(data, 0, header.size))
    return data, count, first


def stamp(batch: bytearray, producer_id: int, epoch: int, sequence: int, *, is_transactional: bool) -> None:
    """Write the producer that sends a batch of magic 2 (-1, -1, -1: none), and the CRC."""
    (attributes,) = _ATTRIBUTES.unpack_from(batch, ATTRIBUTES_OFFSET)
    attributes = attributes & COMPRESSION_MASK | (TRANSACTIONAL_BIT if is_transactional else 0)
    _ATTRIBUTES.pack_into(batch, ATTRIBUTES_OFFSET, attributes)
    _PRODUCER.pack_into(batch, _PRODUCER_OFFSET, producer_id, epoch, sequence)
    _CRC.pack_into(batch, CRC_OFFSET, crc_of(batch, 0, len(batch)))
