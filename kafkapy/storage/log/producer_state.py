"""The producers of a partition and its open transactions: duplicate detection, and the last stable offset.

The state follows the log: ``check`` decides whether a batch may be written, ``apply`` records that it was written, and
recovery replays batches through the same ``apply``. Snapshots are written at every roll and clean close, and a replay
begins at the newest one.
"""

from bisect import bisect_left, bisect_right
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from heapq import heappop, heappush
from struct import Struct, error
from typing import Final, NamedTuple

from kafkapy.platform.files import Files
from kafkapy.records.batch import SEQUENCE_MODULUS, BatchHeader
from kafkapy.records.control import ControlRecord, ControlType, read_control
from kafkapy.records.crc import crc32c
from kafkapy.records.scanner import UsualBatch
from kafkapy.storage.errors import (
    CorruptSnapshotError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from kafkapy.storage.log.transaction_index import AbortedTransaction
from kafkapy.turns import Steps
from kafkapy.types import NO_EPOCH, NO_OFFSET, NO_SEQUENCE, maker

# The state of one producer in a partition (``ProducerState`` has all of them), and its rules:
#
# - A batch of a lower epoch than the last one is refused (error code 47); replicated batches are not refused.
# - A new epoch begins with sequence 0. If the producer is unknown, any sequence is allowed.
# - Within an epoch a batch's first sequence follows the last one; after 2^31-1 comes 0. Otherwise it is refused (45).
# - One of the last five batches that is sent again is a duplicate: it gets the same result and is not written again.
# - The first transactional batch opens a transaction; until its marker, non-transactional batches are refused (48).
# - If the log verifies transactions (``Storage.verifies_transactions``), a client's batch opens one only with the guard
#   of a verification that began after the last marker (KIP-890). Until the transaction is open, no batch is written
#   whose sequence is behind that of one which has been seen: the earlier one waits for its verification, or is sent
#   again after that has failed.


BATCHES_TO_KEEP: Final = 5


class ProducedBatch(NamedTuple):
    """One remembered batch."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        """The offset of the batch's first record, which the response to the producer had."""
        return self.last_offset - self.offset_delta

    @property
    def first_sequence(self) -> int:
        """The sequence of the batch's first record."""
        return (self.last_sequence - self.offset_delta) % SEQUENCE_MODULUS


_batch_of: Final = maker(ProducedBatch)


class ProducerEntry:
    """One producer's last batches, epoch and open transaction (``current_txn_first_offset``, -1: none)."""

    __slots__ = (
        "producer_id",
        "producer_epoch",
        "coordinator_epoch",
        "last_timestamp",
        "current_txn_first_offset",
        "batches",
    )

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.producer_epoch = NO_EPOCH
        self.coordinator_epoch = -1
        self.last_timestamp = -1
        self.current_txn_first_offset = NO_OFFSET
        self.batches: list[ProducedBatch] = []

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record, or -1."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def find_duplicate(self, header: BatchHeader) -> ProducedBatch | None:
        """Return the remembered batch that ``header`` repeats."""
        if header.producer_epoch == self.producer_epoch:
            first, last = header.base_sequence, header.last_sequence
            for batch in self.batches:
                if batch.last_sequence == last and batch.first_sequence == first:
                    return batch
        return None

    def check_epoch(self, producer_epoch: int) -> None:
        """Raise ``InvalidProducerEpochError`` if a newer instance has written here."""
        if producer_epoch < self.producer_epoch:
            raise InvalidProducerEpochError(
                f"Epoch {producer_epoch} of producer {self.producer_id} is smaller than the last one seen, "
                f"{self.producer_epoch}"
            )

    def check_sequence(self, header: BatchHeader) -> None:
        """Raise ``OutOfOrderSequenceError`` unless the batch follows the last one."""
        first = header.base_sequence
        if self.producer_epoch == NO_EPOCH:
            return
        if header.producer_epoch != self.producer_epoch:
            if first != 0:
                raise OutOfOrderSequenceError(
                    f"Producer {self.producer_id} begins epoch {header.producer_epoch} with sequence {first}, not 0"
                )
        elif first != self.last_sequence + 1 and not (first == 0 and self.last_sequence == SEQUENCE_MODULUS - 1):
            raise OutOfOrderSequenceError(
                f"Sequence {first} of producer {self.producer_id} does not follow {self.last_sequence}"
            )

    def check_transaction(self, header: BatchHeader) -> None:
        """Raise ``InvalidTxnStateError`` for plain data inside an open transaction."""
        if self.current_txn_first_offset != NO_OFFSET and not header.is_transactional:
            raise InvalidTxnStateError(
                f"Producer {self.producer_id} has a transaction open from offset {self.current_txn_first_offset} "
                "and wrote a batch outside of it"
            )

    def adopt_epoch(self, producer_epoch: int) -> None:
        """Set the epoch; a new epoch has no batches yet."""
        if producer_epoch != self.producer_epoch:
            self.producer_epoch = producer_epoch
            self.batches = []

    def add(self, header: BatchHeader, first_offset: int) -> None:
        """Remember a batch that was written at ``first_offset``."""
        if header.producer_epoch != self.producer_epoch:
            self.adopt_epoch(header.producer_epoch)
        delta = header.last_offset_delta
        self.add_batch(_batch_of((header.last_sequence, first_offset + delta, delta, header.max_timestamp)))

    def add_batch(self, batch: ProducedBatch) -> None:
        """Remember a batch of the present epoch that was written."""
        batches = self.batches
        if len(batches) == BATCHES_TO_KEEP:
            del batches[0]
        batches.append(batch)
        self.last_timestamp = batch.timestamp


# ``….snapshot``: every producer as of the offset in the file's name.
#
# version i16 (1), CRC-32C u32 of everything after it, count i32, then 46 bytes each: producer id i64, epoch i16, last
# sequence i32, last offset i64, offset delta i32 (of the last batch), timestamp i64 (ms), coordinator epoch i32, first
# offset of the open transaction i64 (-1: none). Of the last five batches it has the last; ``recall`` finds the others.


VERSION: Final = 1
EMPTY_SIZE: Final = 10
"""Bytes of a snapshot without producers."""
_HEADER: Final = Struct(">hI")
_COUNT: Final = Struct(">i")
_ENTRY: Final = Struct(">qhiqiqiq")


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """Return the file's content."""
    packed = [_encode_entry(entry) for entry in entries]
    body = b"".join([_COUNT.pack(len(packed)), *packed])
    return _HEADER.pack(VERSION, crc32c(body)) + body


def _encode_entry(entry: ProducerEntry) -> bytes:
    last = entry.batches[-1] if entry.batches else ProducedBatch(-1, NO_OFFSET, 0, -1)
    return _ENTRY.pack(
        entry.producer_id,
        entry.producer_epoch,
        last.last_sequence,
        last.last_offset,
        last.offset_delta,
        entry.last_timestamp,
        entry.coordinator_epoch,
        entry.current_txn_first_offset,
    )


def decode_snapshot(content: bytes) -> list[ProducerEntry]:
    """Return the producers of a file.

    Raises ``CorruptSnapshotError``.
    """
    try:
        version, crc = _HEADER.unpack_from(content)
        (count,) = _COUNT.unpack_from(content, _HEADER.size)
    except error as cause:
        raise CorruptSnapshotError(f"{len(content)} bytes are no producer snapshot") from cause
    if version != VERSION:
        raise CorruptSnapshotError(f"a producer snapshot of unknown version {version}")
    if crc32c(memoryview(content)[_HEADER.size :]) != crc:
        raise CorruptSnapshotError("the producer snapshot's CRC is wrong")
    body = content[_HEADER.size + _COUNT.size :]
    if len(body) != count * _ENTRY.size:
        raise CorruptSnapshotError(f"the producer snapshot announces {count} entries in {len(body)} bytes")
    return [_decode_entry(fields) for fields in _ENTRY.iter_unpack(body)]


def _decode_entry(fields: tuple[int, ...]) -> ProducerEntry:
    producer_id, epoch, sequence, offset, delta, timestamp, coordinator_epoch, txn_first_offset = fields
    entry = ProducerEntry(producer_id)
    entry.producer_epoch = epoch
    entry.last_timestamp = timestamp
    entry.coordinator_epoch = coordinator_epoch
    entry.current_txn_first_offset = txn_first_offset
    if offset >= 0:
        entry.batches.append(ProducedBatch(sequence, offset, delta, timestamp))
    return entry


SUFFIX = ".snapshot"
MAX_PRODUCERS: Final = 100_000
PRODUCERS_IN_A_STEP: Final = 512
"""Producers that are checked between two places to pause: some hundred microseconds."""
SNAPSHOTS_IN_A_STEP: Final = 32
"""Snapshots that are removed between two places to pause: some hundred microseconds."""
OPEN_PASSED_OVER: Final = 8
"""Producers that are checked for each one to evict: the number of those with an open transaction has no limit."""


def ignore_eviction() -> None:
    """Do nothing: the default callback of a log without a broker."""


class Unreplicated(deque[tuple[int, int]]):
    """Transactions that have ended and whose markers are not below the high watermark yet.

    The elements are (marker's offset, first offset), in the order of markers. It is a deque, as each append and each
    fetch checks whether it is empty. Each method takes logarithmic time for each transaction that it adds or removes.
    """

    __slots__ = ("_first_offsets", "_gone")

    def __init__(self) -> None:
        super().__init__()
        self._first_offsets: list[int] = []  # a heap; a removed one leaves it when it is the smallest
        self._gone: list[int] = []  # a heap too

    def add(self, first_offset: int, marker_offset: int) -> None:
        """Add a transaction from ``first_offset`` on that has ended; its marker is the last one so far."""
        self.append((marker_offset, first_offset))
        heappush(self._first_offsets, first_offset)

    @property
    def first_offset(self) -> int:
        """The first offset of the earliest transaction; there must be one."""
        while self._gone and self._gone[0] == self._first_offsets[0]:
            heappop(self._gone)
            heappop(self._first_offsets)
        return self._first_offsets[0]

    def drop_below(self, offset: int) -> None:
        """Remove the transactions whose markers are below ``offset``."""
        while self and self[0][0] < offset:
            heappush(self._gone, self.popleft()[1])
        if not self:
            self._first_offsets.clear()
            self._gone.clear()


class Verification:
    """The question to a coordinator whether a producer has a transaction; the guard of the batches that wait for it."""

    __slots__ = ("producer_epoch", "lowest_sequence")

    def __init__(self, producer_epoch: int, lowest_sequence: int) -> None:
        self.producer_epoch = producer_epoch
        self.lowest_sequence = lowest_sequence
        """The first sequence of the batches that were seen and are not written."""

    def add(self, producer_epoch: int, sequence: int) -> None:
        """A batch waits for the verification; a later epoch begins its sequences again."""
        if producer_epoch > self.producer_epoch:
            self.producer_epoch, self.lowest_sequence = producer_epoch, sequence
        elif producer_epoch == self.producer_epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)


class ProducerState:
    """All producers of a partition, by id, as of the log end offset ``map_end_offset``."""

    __slots__ = (
        "directory",
        "expiration_ms",
        "map_end_offset",
        "snapshot_offsets",
        "producers",
        "_files",
        "unreplicated",
        "unrecalled_below",
        "search",
        "_ongoing",
        "_max_producers",
        "_evicted",
        "_verifications",
    )

    def __init__(
        self,
        files: Files,
        directory: str,
        expiration_ms: int,
        max_producers: int = MAX_PRODUCERS,
        evicted: Callable[[], None] = ignore_eviction,
    ) -> None:
        """``evicted`` is called for each producer that is evicted because there are more than ``max_producers``."""
        self.directory = directory
        self.expiration_ms = expiration_ms
        self.map_end_offset = 0
        self.unrecalled_below = 0
        """The offset of a snapshot that ``recall`` has not completed yet; 0 if there is none."""
        self.search: Iterator[None] | None = None
        """The search of ``recall`` that is running."""
        self.snapshot_offsets: list[int] = []
        self.producers: OrderedDict[int, ProducerEntry] = OrderedDict()
        """The producers by id; the one whose last batch is oldest comes first."""
        self._max_producers = max_producers
        self._evicted = evicted
        self._files = files
        self._ongoing: OrderedDict[int, int] = OrderedDict()  # first offset -> producer id, in the order of offsets
        self._verifications: OrderedDict[int, Verification] = OrderedDict()
        """The verifications that have begun, by producer id."""
        self.unreplicated = Unreplicated()

    # appending

    def check(self, header: BatchHeader, *, from_client: bool) -> ProducedBatch | None:
        """Decide on a data batch: None to write it, or the remembered batch that it repeats.

        Raises ``InvalidProducerEpochError``, ``OutOfOrderSequenceError`` (clients only), ``InvalidTxnStateError``.
        """
        entry = self.producers.get(header.producer_id)
        if entry is None:
            ProducerEntry(header.producer_id).check_epoch(header.producer_epoch)
            if from_client:
                self._check_first(header)
            return None
        if from_client:
            duplicate = entry.find_duplicate(header)
            if duplicate is not None:
                return duplicate
        entry.check_epoch(header.producer_epoch)
        if from_client:
            self._check_first(header)
            entry.check_sequence(header)
        entry.check_transaction(header)
        return None

    def _check_first(self, header: BatchHeader) -> None:
        """Raise ``OutOfOrderSequenceError`` for a batch behind one that is not written because it is not verified."""
        verification = self._verifications.get(header.producer_id)
        if verification is not None and header.base_sequence > verification.lowest_sequence:
            raise OutOfOrderSequenceError(
                f"Sequence {header.base_sequence} of producer {header.producer_id}: "
                f"{verification.lowest_sequence} was seen and is not written yet"
            )

    def guard(self, producer_id: int, producer_epoch: int, sequence: int) -> "Verification":
        """Return the guard of the verification that is pending for a producer's next transaction, or begin one.

        The batch that has to be verified begins with ``sequence``. A marker of the producer, the beginning of its
        transaction and ``forget_verification`` end the verification: a later answer to it is about an earlier
        transaction. One that fails is kept, as in Apache Kafka; if there are too many, the first ones are dropped.
        """
        found = self._verifications.get(producer_id)
        if found is None:
            found = self._verifications[producer_id] = Verification(producer_epoch, sequence)
            if len(self._verifications) > self._max_producers:
                self._verifications.popitem(last=False)
        found.add(producer_epoch, sequence)
        return found

    def is_verified(self, producer_id: int, producer_epoch: int, guard: object | None = None) -> bool:
        """Whether the producer may write here: its transaction is open already, or was verified with ``guard``.

        An open transaction of another epoch is an earlier one, whose marker is still to come.
        """
        entry = self.producers.get(producer_id)
        is_open = (
            entry is not None and entry.current_txn_first_offset != NO_OFFSET and entry.producer_epoch == producer_epoch
        )
        return is_open or (guard is not None and self._verifications.get(producer_id) is guard)

    def forget_verification(self, producer_id: int) -> None:
        """End the verification that is pending for the producer."""
        self._verifications.pop(producer_id, None)

    def check_marker(self, header: BatchHeader, marker: ControlRecord) -> None:
        """Decide on a coordinator's marker.

        Raises ``InvalidProducerEpochError``, ``TransactionCoordinatorFencedError``.
        """
        entry = self.producers.get(header.producer_id)
        if entry is not None:
            entry.check_epoch(header.producer_epoch)
            if entry.coordinator_epoch > marker.coordinator_epoch:
                raise TransactionCoordinatorFencedError(
                    f"Marker of coordinator epoch {marker.coordinator_epoch} for producer {header.producer_id}: "
                    f"epoch {entry.coordinator_epoch} was seen"
                )

    def _entry(self, producer_id: int) -> ProducerEntry:
        producers = self.producers
        entry = producers.get(producer_id)
        if entry is not None:
            producers.move_to_end(producer_id)
            return entry
        if len(producers) >= self._max_producers:
            self._evict(len(producers) - self._max_producers + 1)
        entry = producers[producer_id] = ProducerEntry(producer_id)
        return entry

    def _evict(self, count: int) -> None:
        """Evict the producers whose last batches are oldest; those with an open transaction stay."""
        for _ in range(min(count + OPEN_PASSED_OVER, len(self.producers))):
            producer_id, entry = self.producers.popitem(last=False)
            if entry.current_txn_first_offset != NO_OFFSET:
                self.producers[producer_id] = entry  # at the end, so that it is not checked again soon
                continue
            self._evicted()
            count -= 1
            if not count:
                return

    def apply(self, header: BatchHeader, first_offset: int) -> None:
        """Record that a data batch was written at ``first_offset``."""
        entry = self._entry(header.producer_id)
        entry.add(header, first_offset)
        if header.is_transactional and entry.current_txn_first_offset == NO_OFFSET:
            self._begin_transaction(entry, first_offset)

    def _begin_transaction(self, entry: ProducerEntry, first_offset: int) -> None:
        entry.current_txn_first_offset = first_offset
        self._ongoing[first_offset] = entry.producer_id
        self._verifications.pop(entry.producer_id, None)

    def follows(self, usual: UsualBatch) -> bool:
        """Whether a client's batch has the sequence after the producer's last one, and so need not be checked.

        This is the case for nearly every batch. If the answer is false, ``check`` decides. A batch that follows repeats
        none of the last five, and no newer instance of the producer has written. One that begins a transaction is
        checked, as it may have to be verified.
        """
        _, count, _, _, producer_id, producer_epoch, base_sequence, is_transactional = usual
        entry = self.producers.get(producer_id)
        return (
            entry is not None
            and producer_epoch == entry.producer_epoch
            and len(entry.batches) > 0
            and base_sequence == entry.batches[-1].last_sequence + 1
            and base_sequence + count <= SEQUENCE_MODULUS
            and is_transactional == (entry.current_txn_first_offset != NO_OFFSET)
        )

    def apply_following(self, usual: UsualBatch, last_offset: int) -> None:
        """As ``apply`` for a batch of which ``follows`` is true; its last record has ``last_offset``."""
        _, count, max_timestamp, _, producer_id, _, base_sequence, _ = usual
        producers = self.producers
        entry = producers[producer_id]
        producers.move_to_end(producer_id)
        entry.add_batch(_batch_of((base_sequence + count - 1, last_offset, count - 1, max_timestamp)))

    def apply_marker(self, header: BatchHeader, marker: ControlRecord, offset: int) -> AbortedTransaction | None:
        """Record that a marker was written at ``offset``; return the entry for the transaction index, if any.

        A marker without a transaction here (its data is in other partitions) counts as one that begins at the marker,
        as in 2.7.
        """
        entry = self._entry(header.producer_id)
        self._verifications.pop(header.producer_id, None)
        first_offset = offset if entry.current_txn_first_offset == NO_OFFSET else entry.current_txn_first_offset
        entry.adopt_epoch(header.producer_epoch)
        entry.current_txn_first_offset = NO_OFFSET
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp = header.max_timestamp
        self._ongoing.pop(first_offset, None)
        self.unreplicated.add(first_offset, offset)
        if marker.type != ControlType.ABORT:
            return None
        return AbortedTransaction(header.producer_id, first_offset, offset, next(iter(self._ongoing), offset + 1))

    def replay(self, header: BatchHeader, content: memoryview) -> AbortedTransaction | None:
        """Apply a batch that is in the log; see ``apply_marker``."""
        if header.producer_id < 0 or (header.is_control and header.record_count == 0):
            return None
        if header.is_control:
            return self.apply_marker(header, read_control(content, header), header.base_offset)
        self.apply(header, header.base_offset)
        return None

    # transactions

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the earliest transaction that is open or whose marker is not below the high watermark.

        Each fetch reads it: the time does not depend on the number of open transactions.
        """
        ongoing, unreplicated = self._ongoing, self.unreplicated
        if not ongoing:
            return unreplicated.first_offset if unreplicated else None
        first: int = next(iter(ongoing))
        return min(first, unreplicated.first_offset) if unreplicated else first

    def high_watermark_moved(self, high_watermark: int) -> None:
        """Remove the ended transactions whose markers are below the high watermark."""
        self.unreplicated.drop_below(high_watermark)

    def log_start_moved(self, log_start_offset: int) -> None:
        """Delete snapshots below the log's new start; the state of producers stays.

        There may be thousands: the next call, or ``Log.delete_old_snapshots``, deletes the remaining ones.
        """
        self.unreplicated.drop_below(log_start_offset)
        self.map_end_offset = max(self.map_end_offset, log_start_offset)
        with suppress(OSError):  # they are deleted the next time
            self.delete_oldest_snapshots(log_start_offset)

    def remove_expired(self, now_ms: int) -> Steps[None]:
        """Remove producers without a batch for ``expiration_ms`` and without an open transaction.

        Producers that are added between two steps are not checked until the next time.
        """
        producer_ids = list(self.producers)
        for start in range(0, len(producer_ids), PRODUCERS_IN_A_STEP):
            producers = self.producers  # a truncation replaces it
            for producer_id in producer_ids[start : start + PRODUCERS_IN_A_STEP]:
                entry = producers.get(producer_id)
                if entry is not None and self._is_expired(entry, now_ms):
                    del producers[producer_id]
            yield

    def _is_expired(self, entry: ProducerEntry, now_ms: int) -> bool:
        return entry.current_txn_first_offset == NO_OFFSET and now_ms - entry.last_timestamp >= self.expiration_ms

    # snapshots

    def move_to(self, directory: str) -> None:
        """Note that the folder of the snapshots was renamed to ``directory``."""
        self.directory = directory

    def snapshot_path(self, offset: int) -> str:
        """Return the path of the snapshot at ``offset``."""
        return f"{self.directory}/{offset:020d}{SUFFIX}"

    def take_snapshot(self) -> str | None:
        """Write a snapshot at ``map_end_offset`` unless it exists; return the file's path if it was written.

        The file is not fsynced: the caller does that before it moves the recovery point.
        """
        offset = self.map_end_offset
        if offset <= (self.snapshot_offsets[-1] if self.snapshot_offsets else 0):
            return None
        path = self.snapshot_path(offset)
        self._files.replace(path, encode_snapshot(self.producers.values()), sync=False)
        self.snapshot_offsets.append(offset)
        return path

    def delete_snapshots(self, *, below: int = 0, above: int = 2**63 - 1) -> None:
        """Remove the snapshots below or above these offsets; raises ``OSError``."""
        offsets = self.snapshot_offsets
        self._remove_snapshots(0, bisect_left(offsets, below))
        self._remove_snapshots(bisect_right(offsets, above), len(offsets))

    def delete_oldest_snapshots(self, below: int) -> bool:
        """Remove some of the snapshots below this offset; return whether there may be more. Raises ``OSError``."""
        count = min(bisect_left(self.snapshot_offsets, below), SNAPSHOTS_IN_A_STEP)
        self._remove_snapshots(0, count)
        return count == SNAPSHOTS_IN_A_STEP

    def _remove_snapshots(self, start: int, end: int) -> None:
        removed = start
        try:
            for offset in self.snapshot_offsets[start:end]:
                self._files.remove(self.snapshot_path(offset))
                removed += 1
        finally:
            del self.snapshot_offsets[start:removed]

    def reload(self, log_start_offset: int, log_end_offset: int, now_ms: int) -> None:
        """Load the newest valid snapshot within the log; the caller replays from ``map_end_offset`` on.

        Thousands may be at or below the log's start: ``Log.delete_old_snapshots`` removes the remaining ones.
        """
        self.delete_snapshots(above=log_end_offset)
        self.delete_oldest_snapshots(log_start_offset + 1)
        self.clear(log_start_offset)
        while self.snapshot_offsets and self.snapshot_offsets[-1] > log_start_offset:
            offset = self.snapshot_offsets[-1]
            try:
                entries = decode_snapshot(self._files.read(self.snapshot_path(offset)))
            except CorruptSnapshotError:
                self._files.remove(self.snapshot_path(offset))
                self.snapshot_offsets.pop()
                continue
            self.map_end_offset = self.unrecalled_below = offset
            kept = [entry for entry in entries if not self._is_expired(entry, now_ms)]
            kept.sort(key=lambda entry: entry.last_timestamp)
            self.producers.update((entry.producer_id, entry) for entry in kept)
            open_since = ((entry.current_txn_first_offset, entry.producer_id) for entry in kept)
            self._ongoing.update(sorted(each for each in open_since if each[0] != NO_OFFSET))
            if len(kept) > self._max_producers:
                self._evict(len(kept) - self._max_producers)
            return

    def end_recall(self) -> None:
        """Note that the batches that the snapshot leaves out have been looked up."""
        self.search = None
        self.unrecalled_below = 0

    def clear(self, offset: int) -> None:
        """Drop the state in memory; the log ends at ``offset``."""
        self.producers = OrderedDict()
        self._ongoing = OrderedDict()
        self._verifications = OrderedDict()
        self.unreplicated = Unreplicated()
        self.end_recall()
        self.map_end_offset = offset
