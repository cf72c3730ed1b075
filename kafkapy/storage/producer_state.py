"""The producers of a partition and its open transactions: duplicate detection, and the last stable offset.

State follows the log: ``check`` decides whether a batch may be written, ``apply`` takes note that it was, and
recovery replays batches through the same ``apply``. Snapshots are written at every roll and clean close, so that a
replay begins at the newest one.
"""

from contextlib import suppress

from kafkapy.records.batch import BatchHeader
from kafkapy.records.control import ControlRecord, ControlType, read_control
from kafkapy.storage.errors import CorruptSnapshotError, TransactionCoordinatorFencedError
from kafkapy.storage.files import Files
from kafkapy.storage.producer_entry import NO_OFFSET, ProducedBatch, ProducerEntry
from kafkapy.storage.snapshot import decode_snapshot, encode_snapshot
from kafkapy.storage.transaction_index import AbortedTransaction

SUFFIX = ".snapshot"


class ProducerState:
    """All producers of a partition, by id; ``map_end_offset`` is the log's end that they reflect."""

    __slots__ = (
        "directory",
        "expiration_ms",
        "map_end_offset",
        "snapshot_offsets",
        "producers",
        "_files",
        "unreplicated",
        "unrecalled_below",
        "_ongoing",
    )

    def __init__(self, files: Files, directory: str, expiration_ms: int) -> None:
        self.directory = directory
        self.expiration_ms = expiration_ms
        self.map_end_offset = 0
        self.unrecalled_below = 0
        """Where the snapshot was taken of which ``recall`` has not found what it leaves out; 0 if there is nothing."""
        self.snapshot_offsets: list[int] = []
        self.producers: dict[int, ProducerEntry] = {}
        self._files = files
        self._ongoing: dict[int, int] = {}  # first offset -> producer id, in the order of offsets
        self.unreplicated: dict[int, int] = {}  # first offset -> marker's offset, until the high watermark passes it

    # appending

    def check(self, header: BatchHeader, *, from_client: bool) -> ProducedBatch | None:
        """Decide on a data batch: None to write it, or the remembered batch that it repeats.

        Raises ``InvalidProducerEpochError``, ``OutOfOrderSequenceError`` (clients only), ``InvalidTxnStateError``.
        """
        entry = self.producers.get(header.producer_id)
        if entry is None:
            ProducerEntry(header.producer_id).check_epoch(header.producer_epoch)
            return None
        if from_client:
            duplicate = entry.find_duplicate(header)
            if duplicate is not None:
                return duplicate
        entry.check_epoch(header.producer_epoch)
        if from_client:
            entry.check_sequence(header)
        entry.check_transaction(header)
        return None

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
        entry = self.producers.get(producer_id)
        if entry is None:
            entry = self.producers[producer_id] = ProducerEntry(producer_id)
        return entry

    def apply(self, header: BatchHeader, first_offset: int) -> None:
        """A data batch was written at ``first_offset``."""
        entry = self._entry(header.producer_id)
        entry.add(header, first_offset)
        if header.is_transactional and entry.current_txn_first_offset == NO_OFFSET:
            entry.current_txn_first_offset = first_offset
            self._ongoing[first_offset] = header.producer_id

    def apply_marker(self, header: BatchHeader, marker: ControlRecord, offset: int) -> AbortedTransaction | None:
        """A marker was written at ``offset``; return what the transaction index must hold of it.

        A marker without a transaction (its data went to other partitions) ends one that begins at itself, as in 2.7.
        """
        entry = self._entry(header.producer_id)
        first_offset = offset if entry.current_txn_first_offset == NO_OFFSET else entry.current_txn_first_offset
        entry.adopt_epoch(header.producer_epoch)
        entry.current_txn_first_offset = NO_OFFSET
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp = header.max_timestamp
        self._ongoing.pop(first_offset, None)
        self.unreplicated[first_offset] = offset
        if marker.type != ControlType.ABORT:
            return None
        return AbortedTransaction(header.producer_id, first_offset, offset, min(self._ongoing, default=offset + 1))

    def replay(self, header: BatchHeader, content: memoryview) -> AbortedTransaction | None:
        """Take note of a batch that is in the log; see ``apply_marker``."""
        if header.producer_id < 0 or (header.is_control and header.record_count == 0):
            return None
        if header.is_control:
            return self.apply_marker(header, read_control(content, header), header.base_offset)
        self.apply(header, header.base_offset)
        return None

    # transactions

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the earliest transaction begins that is open, or whose marker is not below the high watermark."""
        if not self._ongoing and not self.unreplicated:
            return None
        return min((*self._ongoing, *self.unreplicated))

    def high_watermark_moved(self, high_watermark: int) -> None:
        """Transactions whose markers are below it are done with."""
        if self.unreplicated:
            self.unreplicated = {f: last for f, last in self.unreplicated.items() if last >= high_watermark}

    def log_start_moved(self, log_start_offset: int) -> None:
        """Records below it are gone, and so go the snapshots; what is known of producers stays."""
        self.unreplicated = {f: last for f, last in self.unreplicated.items() if last >= log_start_offset}
        self.map_end_offset = max(self.map_end_offset, log_start_offset)
        with suppress(OSError):  # then they go the next time
            self.delete_snapshots(below=log_start_offset)

    def remove_expired(self, now_ms: int) -> None:
        """Forget producers that have been silent for ``expiration_ms`` and have no transaction open."""
        self.producers = {i: entry for i, entry in self.producers.items() if not self._is_expired(entry, now_ms)}

    def _is_expired(self, entry: ProducerEntry, now_ms: int) -> bool:
        return entry.current_txn_first_offset == NO_OFFSET and now_ms - entry.last_timestamp >= self.expiration_ms

    # snapshots

    def snapshot_path(self, offset: int) -> str:
        """Return the name of the snapshot at ``offset``."""
        return f"{self.directory}/{offset:020d}{SUFFIX}"

    def take_snapshot(self) -> str | None:
        """Write the state at ``map_end_offset`` unless there is one; return the file's path if it was written.

        Not fsynced: the caller does that before it moves the recovery point.
        """
        offset = self.map_end_offset
        if offset <= (self.snapshot_offsets[-1] if self.snapshot_offsets else 0):
            return None
        path = self.snapshot_path(offset)
        self._files.replace(path, encode_snapshot(self.producers.values()), sync=False)
        self.snapshot_offsets.append(offset)
        return path

    def delete_snapshots(self, *, below: int = 0, above: int = 2**63 - 1) -> None:
        """Remove the snapshots below or above these offsets."""
        for offset in list(self.snapshot_offsets):
            if not below <= offset <= above:
                self._files.remove(self.snapshot_path(offset))
                self.snapshot_offsets.remove(offset)

    def reload(self, log_start_offset: int, log_end_offset: int, now_ms: int) -> None:
        """Go back to the newest good snapshot within the log; the caller replays from ``map_end_offset`` on."""
        self.delete_snapshots(below=log_start_offset + 1, above=log_end_offset)
        self.clear(log_start_offset)
        while self.snapshot_offsets:
            offset = self.snapshot_offsets[-1]
            try:
                entries = decode_snapshot(self._files.read(self.snapshot_path(offset)))
            except CorruptSnapshotError:
                self._files.remove(self.snapshot_path(offset))
                self.snapshot_offsets.pop()
                continue
            self.map_end_offset = self.unrecalled_below = offset
            for entry in entries:
                if not self._is_expired(entry, now_ms):
                    self._restore(entry)
            return

    def _restore(self, entry: ProducerEntry) -> None:
        self.producers[entry.producer_id] = entry
        if entry.current_txn_first_offset != NO_OFFSET:
            self._ongoing[entry.current_txn_first_offset] = entry.producer_id

    def clear(self, offset: int) -> None:
        """Forget everything in memory; the log ends at ``offset``."""
        self.producers = {}
        self._ongoing = {}
        self.unreplicated = {}
        self.unrecalled_below = 0
        self.map_end_offset = offset
