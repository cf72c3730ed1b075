"""Compares transaction indexes and producer snapshots with the batches, which are read once."""

from collections.abc import Iterable, Iterator

from kafkapy.platform.files import Files
from kafkapy.records.control import ControlType, read_control
from kafkapy.records.errors import CorruptRecordError, InvalidRecordError
from kafkapy.storage.errors import CorruptSnapshotError
from kafkapy.storage.inspection.findings import ERROR, WARNING, Findings
from kafkapy.storage.inspection.index_files import aborted_entries
from kafkapy.storage.inspection.log_scan import ScannedBatch
from kafkapy.storage.log.producer_state import ProducerEntry, decode_snapshot
from kafkapy.storage.log.transaction_index import ENTRY, VERSION, AbortedTransaction


class Transactions:
    """The transactions that are open, from segment to segment."""

    def __init__(self) -> None:
        self.open: dict[int, int] = {}

    def batch(self, scanned: ScannedBatch, findings: Findings, path: str) -> tuple[int, int | None] | None:
        """Note a batch; for an abort marker return (producer id, the transaction's first offset if it is known)."""
        header = scanned.header
        if not header.is_transactional:
            return None
        if not header.is_control:
            self.open.setdefault(header.producer_id, header.base_offset)
            return None
        if scanned.content is None or not scanned.crc_is_valid:
            return None
        try:
            control = read_control(scanned.content, header)
        except (InvalidRecordError, CorruptRecordError) as error:
            findings.add(ERROR, path, f"a control batch that can't be read: {error}", offset=header.base_offset)
            return None
        first_offset = self.open.pop(header.producer_id, None)
        return (header.producer_id, first_offset) if control.type == ControlType.ABORT else None


class TransactionIndexCheck:
    """Every entry must have an abort marker in the segment, and every aborted transaction an entry."""

    def __init__(self, files: Files, path: str, transactions: Transactions, findings: Findings) -> None:
        self.path = path
        self._findings = findings
        self._transactions = transactions
        self._entries: Iterator[AbortedTransaction] = iter(())
        if files.exists(path):
            if files.size(path) % ENTRY.size:
                findings.add(ERROR, path, f"{files.size(path)} bytes are not whole entries of {ENTRY.size}")
            self._entries = self._checked(files)
        self._entry = next(self._entries, None)

    def _checked(self, files: Files) -> Iterator[AbortedTransaction]:
        last = -1
        for version, entry in aborted_entries(files, self.path):
            if version > VERSION:
                self._findings.add(ERROR, self.path, f"an entry of unknown version {version}")
            elif entry.last_offset <= last or entry.first_offset > entry.last_offset:
                self._findings.add(ERROR, self.path, f"{entry} is out of order")
            else:
                last = entry.last_offset
                yield entry

    def batch(self, scanned: ScannedBatch, log_path: str) -> None:
        """The next batch of the segment."""
        aborted = self._transactions.batch(scanned, self._findings, log_path)
        marker = scanned.header.last_offset
        while self._entry is not None and self._entry.last_offset < marker:
            self._misses(self._entry)
        if aborted is None:
            return
        producer_id, first_offset = aborted
        if self._entry is None or self._entry.last_offset != marker:
            if first_offset is not None:
                self._findings.add(
                    ERROR, self.path,
                    f"no entry for the transaction of producer {producer_id} from {first_offset}, aborted at {marker}",
                    offset=marker,
                )  # fmt: skip
            return
        entry = self._entry
        # Compaction removes aborted records: the remaining ones may begin after the transaction's first offset.
        if entry.producer_id != producer_id or (first_offset is not None and entry.first_offset > first_offset):
            self._findings.add(
                ERROR, self.path, f"{entry}: producer {producer_id} aborted there, from {first_offset}", offset=marker
            )
        self._entry = next(self._entries, None)

    def _misses(self, entry: AbortedTransaction) -> None:
        self._findings.add(ERROR, self.path, f"{entry}: no marker is there", offset=entry.last_offset)
        self._entry = next(self._entries, None)

    def finish(self) -> None:
        """The segment has ended."""
        while self._entry is not None:
            self._misses(self._entry)


class SnapshotChecks:
    """Each producer's last batch must be in the log as the snapshots describe it."""

    def __init__(self, files: Files, snapshots: Iterable[tuple[int, str]], findings: Findings) -> None:
        self._findings = findings
        self._wanted: dict[int, list[tuple[str, ProducerEntry]]] = {}
        for offset, path in snapshots:
            try:
                entries = decode_snapshot(files.read(path))
            except CorruptSnapshotError as error:
                findings.add(WARNING, path, f"{error}; a start ignores it")
                continue
            for entry in entries:
                last = entry.batches[-1].last_offset if entry.batches else -1
                if last >= offset:
                    findings.add(ERROR, path, f"producer {entry.producer_id} wrote last at {last}, after the snapshot")
                elif last >= 0:
                    self._wanted.setdefault(last, []).append((path, entry))

    def batch(self, scanned: ScannedBatch) -> None:
        """The next batch of the log."""
        header = scanned.header
        for path, entry in self._wanted.pop(header.last_offset, ()):
            said = (entry.producer_id, entry.producer_epoch, entry.last_sequence)
            there = (header.producer_id, header.producer_epoch, header.last_sequence)
            # A marker after the last batch may have raised the epoch.
            if said[::2] != there[::2] or said[1] < there[1]:
                self._findings.add(
                    ERROR,
                    path,
                    f"says (producer, epoch, sequence) {said} at offset {header.last_offset}, there is {there}",
                )
