"""Decides for each batch what compaction keeps: all of it, some of its records, an empty batch, or nothing.

The rules are Apache Kafka 2.7's (``Cleaner``, ``MemoryRecords.filterTo``). A batch that keeps all its records stays as
it is. A batch that keeps some is written again with the same offsets, producer, sequence, leader epoch and compression;
its timestamp deltas count from the first record kept. A batch that keeps none stays as an empty batch only if it is the
last one of its producer, so that sequence and epoch are known. A control batch is kept or removed as a whole.
"""

from collections.abc import Callable, Iterable, Mapping
from heapq import heapify, heappop
from typing import NamedTuple

from kafkapy.records.batch import (
    HEADER_SIZE,
    LOG_APPEND_TIME,
    MAGIC,
    BatchHeader,
    ReadableBuffer,
    crc_is_valid,
    write_batch,
)
from kafkapy.records.compression import compress, decompress
from kafkapy.records.control import ControlType, read_control
from kafkapy.records.errors import CorruptRecordError
from kafkapy.records.record import MAX_DECOMPRESSED_SIZE, Record, encode_empty_batch, encode_legacy, read_entries
from kafkapy.storage.compaction.offset_map import KeptRecords, OffsetMap
from kafkapy.storage.log.transaction_index import AbortedTransaction
from kafkapy.types import NO_TIMESTAMP

# The state of transactions while compaction reads a log: which data batches are void and which markers must stay.
#
# The batches of an aborted transaction are void. Its marker stays as long as one of them does (a producer's last batch
# stays as an empty one); then its entry is written to the new transaction index. The marker of a committed transaction
# stays until a compaction finds no batch of the transaction. A marker that need not stay is removed after
# ``delete.retention.ms``.


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


class BatchFilter:
    """Filters batches, which come in the order of their offsets; ``retain_deletes`` is that of the current segment."""

    def __init__(
        self, offsets: OffsetMap, transactions: CleanedTransactions, producers: Mapping[int, LastRecord]
    ) -> None:
        self.retain_deletes = True
        self._offsets = offsets
        self._transactions = transactions
        self._producers = producers

    def keep(self, header: BatchHeader, content: memoryview) -> Kept | None:
        """Return the part of a batch, or of an entry of a message set, that stays; None if nothing does.

        Raises ``CorruptRecordError`` and other ``RecordsError``s for bad bytes.
        """
        if not crc_is_valid(content, 0, header):
            raise CorruptRecordError(f"The CRC of the batch at offset {header.base_offset} is wrong")
        if header.magic < MAGIC:
            return self._keep_legacy(header, content)
        kept = None if self._goes_as_a_whole(header, content) else self._keep_records(header, content)
        if kept is None and header.has_producer_id and self._is_last_of_its_producer(header):
            return _whole(encode_empty_batch(header), header, 0)
        return kept

    def _goes_as_a_whole(self, header: BatchHeader, content: memoryview) -> bool:
        if header.is_control:
            return self._transactions.may_go(header, content) and not self.retain_deletes
        return self._transactions.is_void(header)

    def _is_last_of_its_producer(self, header: BatchHeader) -> bool:
        last = self._producers.get(header.producer_id)
        if last is None:
            return False
        if last.data_offset >= 0:
            return header.last_offset == last.data_offset
        return header.is_control and header.producer_epoch == last.epoch

    def _keep_records(self, header: BatchHeader, content: memoryview) -> Kept | None:
        count = header.record_count
        if header.is_control or count == 0:
            return _whole(content, header, count) if count else None
        marked = self._offsets.mark(
            records_body(header, content), count, header.base_offset, retain_deletes=self.retain_deletes
        )
        if marked.count == count:
            return _whole(content, header, count)
        return _rebuilt(header, marked) if marked.count else None

    def _keep_legacy(self, header: BatchHeader, content: memoryview) -> Kept | None:
        entries = read_entries(content, header)
        kept = [
            entry
            for entry in entries
            if self._offsets.keeps(entry.key, entry.offset)
            and (entry.value is not None or self.retain_deletes or entry.offset > self._offsets.latest_offset)
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


def _rebuilt(header: BatchHeader, marked: KeptRecords) -> Kept:
    is_stamped = header.timestamp_type == LOG_APPEND_TIME
    body: ReadableBuffer = marked.rewrite(is_stamped=is_stamped)
    if header.compression:
        body = compress(header.compression, body)
    if is_stamped:
        first = largest = header.max_timestamp
    else:
        first = header.base_timestamp + marked.first_delta
        largest = header.base_timestamp + marked.largest_delta
    anew = header._replace(base_timestamp=first, max_timestamp=largest, record_count=marked.count)
    last_offset = header.base_offset + marked.last_delta
    return Kept(write_batch(anew, body), marked.count, last_offset, largest, header.last_offset)
