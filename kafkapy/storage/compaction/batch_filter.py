"""Decides for each batch what compaction keeps: all of it, some of its records, an empty batch, or nothing.

The rules are Apache Kafka 4.1's (``Cleaner``, ``MemoryRecords.filterTo``). A batch that keeps all its records stays as
it is. A batch that keeps some is written again with the same offsets, producer, sequence, leader epoch and compression;
its timestamp deltas count from the first record kept. A batch that keeps none stays as an empty batch if it is

- the last one of its producer, so that sequence and epoch are known;
- the last one of the part that is compacted: else no batch might reach the log's end, at which readers arrive only by
  a batch (KAFKA-17076).

A control batch is kept or removed as a whole.

**Delete horizon** (KIP-534). The first compaction that keeps a tombstone, or a marker that no batch needs any more,
writes into its batch when it may be removed: ``delete.retention.ms`` later. The attribute bit 6 says that the batch's
base timestamp is that time; the deltas count from it, so that readers of every release see the same timestamps. A batch
keeps its horizon for as long as it exists. Apache Kafka sets it from 3.1 on; 2.7 neither sets nor reads it. Tombstones
in message sets, which have no such field, go by their segment's age (``retain_legacy_deletes``).
"""

from collections.abc import Callable, Iterable, Mapping
from heapq import heapify, heappop
from typing import Final, NamedTuple

from kafkapy.records.batch import (
    COMPRESSION_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    MAGIC,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    ReadableBuffer,
    crc_is_valid,
    write_batch,
)
from kafkapy.records.compression import compress, decompress
from kafkapy.records.control import ControlType, read_control
from kafkapy.records.errors import CorruptRecordError
from kafkapy.records.record import MAX_DECOMPRESSED_SIZE, Record, encode_empty_batch, encode_legacy, read_entries
from kafkapy.storage.compaction.offset_map import KeptRecords, OffsetMap, all_records
from kafkapy.storage.log.transaction_index import AbortedTransaction
from kafkapy.types import NO_TIMESTAMP

# The state of transactions while compaction reads a log: which data batches are void and which markers must stay.
#
# The batches of an aborted transaction are void. Its marker stays as long as one of them does (a producer's last batch
# stays as an empty one); then its entry is written to the new transaction index. The marker of a committed transaction
# stays until a compaction finds no batch of the transaction. A marker that need not stay is removed after its batch's
# delete horizon.


def _forget(_entry: AbortedTransaction) -> None:
    """Ignore an entry: used while no index is written."""


class CleanedTransactions:
    """The transactions of one pass over a log, whose batches come in the order of their offsets.

    ``retained`` is called with each entry that stays.
    """

    def __init__(self) -> None:
        self.retained: Callable[[AbortedTransaction], object] = _forget
        self._coming: list[tuple[int, AbortedTransaction]] = []
        self._aborted: dict[int, AbortedTransaction] = {}
        self._seen: set[int] = set()
        self._committed: set[int] = set()

    def add(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Add aborted transactions that the next batches may belong to; adding one again has no effect."""
        self._coming += [(entry.first_offset, entry) for entry in aborted]
        heapify(self._coming)

    def _go_to(self, offset: int) -> None:
        while self._coming and self._coming[0][0] <= offset:
            _, entry = heappop(self._coming)
            self._aborted.setdefault(entry.producer_id, entry)

    def is_void(self, header: BatchHeader) -> bool:
        """Whether a data batch belongs to an aborted transaction."""
        self._go_to(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._aborted:
            self._seen.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def may_go(self, header: BatchHeader, content: ReadableBuffer) -> bool:
        """Whether no batch needs this control batch any more; raises ``InvalidRecordError``."""
        self._go_to(header.last_offset)
        if header.record_count == 0:
            return True
        producer_id = header.producer_id
        control = read_control(content, header).type
        if control == ControlType.ABORT:
            entry = self._aborted.pop(producer_id, None)
            if entry is None or producer_id not in self._seen:
                return True
            self._seen.remove(producer_id)
            self.retained(entry)
            return False
        if control == ControlType.COMMIT and producer_id not in self._committed:
            return True
        self._committed.discard(producer_id)
        return False


class LastRecord(NamedTuple):
    """The end of a producer's batches in the log: the offset of its last data record (-1: markers only), its epoch."""

    data_offset: int
    epoch: int


class Kept(NamedTuple):
    """The kept part of a batch; ``last_offset`` is its last record's, the other two fields are for the time index."""

    content: ReadableBuffer
    records: int
    last_offset: int
    max_timestamp: int
    timestamp_offset: int


class Bounds(NamedTuple):
    """The time of the compaction, ``delete.retention.ms``, and the end of the part of the log that is compacted."""

    now_ms: int
    delete_retention_ms: int
    end_offset: int


_LATEST_MS: Final = 2**63 - 1
_EARLIEST_MS: Final = -(2**63)
_KNOWN_BITS: Final = COMPRESSION_MASK | TIMESTAMP_TYPE_BIT | TRANSACTIONAL_BIT | CONTROL_BIT


class BatchFilter:
    """Filters batches, which come in the order of their offsets.

    ``retain_legacy_deletes``: whether the tombstones of message sets in the current segment stay.
    """

    def __init__(
        self,
        offsets: OffsetMap,
        transactions: CleanedTransactions,
        producers: Mapping[int, LastRecord],
        bounds: Bounds,
    ) -> None:
        self.retain_legacy_deletes = True
        self._offsets = offsets
        self._transactions = transactions
        self._producers = producers
        self._now_ms = bounds.now_ms
        self._new_horizon_ms = min(bounds.now_ms + bounds.delete_retention_ms, _LATEST_MS)
        self._end_offset = bounds.end_offset

    def keep(self, header: BatchHeader, content: memoryview) -> Kept | None:
        """Return the part of a batch, or of an entry of a message set, that stays; None if nothing does.

        Raises ``CorruptRecordError`` and other ``RecordsError``s for bad bytes.
        """
        if not crc_is_valid(content, 0, header):
            raise CorruptRecordError(f"The CRC of the batch at offset {header.base_offset} is wrong")
        if header.magic < MAGIC:
            kept = self._keep_legacy(header, content)
        elif header.is_control:
            kept = self._keep_control(header, content)
        else:
            kept = self._keep_records(header, content)
        if kept is None and (header.next_offset == self._end_offset or self._is_last_of_its_producer(header)):
            return _whole(encode_empty_batch(header), header, 0)
        return kept

    def _is_last_of_its_producer(self, header: BatchHeader) -> bool:
        last = self._producers.get(header.producer_id) if header.has_producer_id else None
        if last is None:
            return False
        if last.data_offset >= 0:
            return header.last_offset == last.data_offset
        return header.is_control and header.producer_epoch == last.epoch

    def _keep_control(self, header: BatchHeader, content: memoryview) -> Kept | None:
        is_needed = not self._transactions.may_go(header, content)
        count, horizon_ms = header.record_count, header.delete_horizon_ms
        if count == 0:
            return None
        if not is_needed and horizon_ms is None:
            return _rebuilt(header, all_records(records_body(header, content), count), self._new_horizon_ms)
        return _whole(content, header, count) if is_needed or not self._is_reached(horizon_ms) else None

    def _keep_records(self, header: BatchHeader, content: memoryview) -> Kept | None:
        count, horizon_ms = header.record_count, header.delete_horizon_ms
        if self._transactions.is_void(header) or count == 0:
            return None
        marked = self._offsets.mark(
            records_body(header, content), count, header.base_offset, retain_deletes=not self._is_reached(horizon_ms)
        )
        if not marked.count:
            return None
        if horizon_ms is None and marked.has_tombstones:
            return _rebuilt(header, marked, self._new_horizon_ms)
        return _whole(content, header, count) if marked.count == count else _rebuilt(header, marked, horizon_ms)

    def _is_reached(self, horizon_ms: int | None) -> bool:
        return horizon_ms is not None and horizon_ms <= self._now_ms

    def _keep_legacy(self, header: BatchHeader, content: memoryview) -> Kept | None:
        entries = read_entries(content, header)
        kept = [
            entry
            for entry in entries
            if self._offsets.keeps(entry.key, entry.offset)
            and (entry.value is not None or self.retain_legacy_deletes or entry.offset > self._offsets.latest_offset)
        ]
        if not kept:
            return None
        # Old producers may have put records of another magic into a wrapper: these are written in the wrapper's magic.
        if len(kept) == len(entries) and all(entry.magic == header.magic for entry in entries):
            return _whole(content, header, len(kept))
        records = [Record(entry.key, entry.value, entry.timestamp, (), entry.offset) for entry in kept]
        is_stamped = header.timestamp_type == LOG_APPEND_TIME
        rebuilt = encode_legacy(
            records,
            header.magic,
            compression=header.compression,
            timestamp_type=header.timestamp_type,
            append_time=header.max_timestamp if is_stamped else NO_TIMESTAMP,
        )
        largest = header.max_timestamp if is_stamped else max(record.timestamp for record in records)
        return Kept(rebuilt, len(records), records[-1].offset, largest, records[-1].offset)


def records_body(header: BatchHeader, content: memoryview) -> bytes:
    """Return the records of a batch of magic 2, decompressed; raises as ``decompress`` does."""
    body = content[HEADER_SIZE:]
    return bytes(decompress(header.compression, body, MAX_DECOMPRESSED_SIZE) if header.compression else body)


def _whole(content: ReadableBuffer, header: BatchHeader, records: int) -> Kept:
    return Kept(content, records, header.last_offset, header.max_timestamp, header.last_offset)


def _rebuilt(header: BatchHeader, marked: KeptRecords, horizon_ms: int | None) -> Kept:
    """Write the records that stay as a batch of ``header``; its base timestamp is ``horizon_ms``, if there is one."""
    is_stamped = header.timestamp_type == LOG_APPEND_TIME
    if is_stamped:
        origin = first = smallest = largest = header.max_timestamp
    else:
        origin = header.base_timestamp
        first, smallest, largest = (
            origin + delta for delta in (marked.first_delta, marked.smallest_delta, marked.largest_delta)
        )
    base = first if horizon_ms is None else horizon_ms
    if not _EARLIEST_MS <= smallest - base <= largest - base <= _LATEST_MS:
        # A producer may have sent any timestamps; with those that no delta can reach, the batch keeps its origin.
        base, horizon_ms = origin, header.delete_horizon_ms
    attributes = header.attributes & _KNOWN_BITS | (0 if horizon_ms is None else DELETE_HORIZON_BIT)
    body: ReadableBuffer = marked.rewrite(base - origin, is_stamped=is_stamped)
    if header.compression:
        body = compress(header.compression, body)
    anew = header._replace(
        attributes=attributes, base_timestamp=base, max_timestamp=largest, record_count=marked.count
    )  # fmt: skip
    last_offset = header.base_offset + marked.last_delta
    return Kept(write_batch(anew, body), marked.count, last_offset, largest, header.last_offset)
