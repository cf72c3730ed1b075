"""Compares all files of a partition's folder with its batches, in one pass over each segment."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kafkapy.platform.files import Files
from kafkapy.records.batch import MAGIC, BatchHeader
from kafkapy.records.errors import CorruptRecordError, InvalidRecordError, RecordTooLargeError
from kafkapy.records.errors import UnsupportedCompressionTypeError as UnknownCodecError
from kafkapy.records.record import read_records
from kafkapy.storage.checkpoints import decode
from kafkapy.storage.errors import MalformedCheckpointError
from kafkapy.storage.inspection.findings import ERROR, NOTE, WARNING, Findings
from kafkapy.storage.inspection.index_checks import OffsetIndexCheck, TimeIndexCheck
from kafkapy.storage.inspection.log_scan import LogScan, ScannedBatch
from kafkapy.storage.inspection.producer_checks import SnapshotChecks, TransactionIndexCheck, Transactions
from kafkapy.storage.log.leader_epochs import LEADER_EPOCHS_NAME
from kafkapy.storage.log.producer_state import SUFFIX as SNAPSHOT_SUFFIX
from kafkapy.storage.log.segment import (
    BASE_DIGITS,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
)
from kafkapy.storage.partition_metadata import PARTITION_METADATA_NAME
from kafkapy.storage.recovery.replace import SWAP_SUFFIX

LEFTOVERS: Final = {
    ".deleted": "a deleted segment's file; the next start removes it",
    ".cleaned": "an unfinished compaction's file; the next start removes it",
    ".swap": "an unfinished compaction's file; the next start finishes it",
    ".tmp": "an unfinished write; the next start removes it",
}
_OF_A_SEGMENT: Final = (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)

LOG_SWAP_SUFFIX: Final = LOG_SUFFIX + SWAP_SUFFIX
_SWAP_THEN: Final = "; the next start replaces undamaged files by this one, unless all of them are there"
_REMADE: Final = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX, SNAPSHOT_SUFFIX, LEADER_EPOCHS_NAME)


class Extent(NamedTuple):
    """The extent of a partition: its first segment's base offset, the offset after its last record, its bytes."""

    start_offset: int
    end_offset: int
    size: int


@dataclass(slots=True)
class Options:
    """The depth of a check, the state of the directory, and a callback.

    ``deep``: also read the records of each batch. ``is_clean``: the last stop was clean. ``is_in_use``: a broker is
    writing, so the last segment's indexes may lack entries. ``progress`` is called with the number of bytes read.
    """

    deep: bool = True
    is_clean: bool = True
    is_in_use: bool = False
    progress: Callable[[int], None] = field(default=lambda _bytes: None)


def check_partition(files: Files, directory: str, findings: Findings, options: Options) -> Extent:
    """Check everything in a partition's folder."""
    return PartitionCheck(files, directory, findings, options).run()


def check_file(files: Files, path: str, findings: Findings, options: Options) -> None:
    """Check one file of a partition, an index against the ``.log`` beside it."""
    directory, _, name = path.rpartition("/")
    found = Findings()
    base = name[:BASE_DIGITS]
    check = PartitionCheck(files, directory, found, options, only=int(base) if base.isdecimal() else None)
    check.run()
    findings.extend(each for each in found if each.path == path)


class PartitionCheck:
    """One run over a folder."""

    def __init__(
        self, files: Files, directory: str, findings: Findings, options: Options, only: int | None = None
    ) -> None:
        """With ``only``, an offset, just the files with that offset in their names are checked."""
        self._only = only
        self._files = files
        self._directory = directory
        self._findings = findings
        self._options = options
        self._segments: dict[int, set[str]] = {}
        self._active_base = -1
        self._snapshots: list[tuple[int, str]] = []
        self._transactions = Transactions()
        self._epochs: list[tuple[int, int]] = []
        self._next_offset = -1

    def run(self) -> Extent:
        """See ``check_partition``."""
        self._list()
        self._read_epochs()
        snapshots = SnapshotChecks(self._files, self._snapshots, self._findings)
        size = 0
        bases = sorted(base for base, suffixes in self._segments.items() if LOG_SUFFIX in suffixes)
        for base_offset in bases:
            size += self._check_segment(base_offset, snapshots, is_last=base_offset == self._active_base)
        start = bases[0] if bases else 0
        self._check_epochs(max(self._next_offset, start))
        return Extent(start, max(self._next_offset, start), size)

    def _list(self) -> None:
        listing = self._files.list_directory(self._directory)
        for name in [name for name, size in listing if size < 0]:
            self._name_folder(f"{self._directory}/{name}", name)
        for name in [name for name, size in listing if size >= 0]:
            path = f"{self._directory}/{name}"
            base, suffix = name[:BASE_DIGITS], name[BASE_DIGITS:]
            if name.endswith(LOG_SUFFIX) and base.isdecimal():
                self._active_base = max(self._active_base, int(base))
            if self._only is not None and base.isdecimal() and int(base) != self._only:
                continue
            leftovers = [text for end, text in LEFTOVERS.items() if name.endswith(end)]
            if leftovers:
                self._findings.add(NOTE, path, leftovers[0])
                if name.endswith(LOG_SWAP_SUFFIX):
                    check_swap(self._files, path, self._findings)
            elif base.isdecimal() and suffix in _OF_A_SEGMENT:
                self._segments.setdefault(int(base), set()).add(suffix)
            elif base.isdecimal() and suffix == SNAPSHOT_SUFFIX:
                self._snapshots.append((int(base), path))
            elif name not in (LEADER_EPOCHS_NAME, PARTITION_METADATA_NAME):
                self._findings.add(NOTE, path, "no file of a log; brokers leave it alone")
        self._name_orphans(
            {name[:BASE_DIGITS] for name, _ in listing if LOG_SUFFIX in name and name.endswith(DELETED_SUFFIX)}
        )

    def _name_folder(self, path: str, name: str) -> None:
        if name.endswith(LOG_SUFFIX):
            self._findings.add(ERROR, path, "a folder in the place of a segment: the segment's records are lost")
        elif name.endswith(_REMADE):
            self._findings.add(WARNING, path, "a folder in the place of a file, which the next start makes")
        else:
            self._findings.add(NOTE, path, "a folder; brokers leave it alone")

    def _name_orphans(self, renamed: Collection[str]) -> None:
        """``renamed`` has the base offsets, as in the files' names, of segments that were being deleted."""
        for base_offset, suffixes in self._segments.items():
            if LOG_SUFFIX not in suffixes:
                path = f"{self._directory}/{base_offset:020d}"
                if f"{base_offset:020d}" not in renamed:
                    self._findings.add(
                        ERROR, path + LOG_SUFFIX, f"is missing: its records from {base_offset} on are lost"
                    )
                for suffix in sorted(suffixes):
                    self._findings.add(WARNING, path + suffix, "an index without its log; the next start removes it")

    def _check_segment(self, base_offset: int, snapshots: SnapshotChecks, *, is_last: bool) -> int:
        path = f"{self._directory}/{base_offset:020d}"
        # The indexes of the segment that is being written, or was at a crash, may lack entries: a start rebuilds them.
        is_settled = not is_last or (self._options.is_clean and not self._options.is_in_use)
        if self._next_offset > base_offset:
            self._findings.add(ERROR, path + LOG_SUFFIX, f"begins before {self._next_offset}, where the last one ends")
        elif 0 <= self._next_offset < base_offset:
            self._findings.add(
                NOTE, path + LOG_SUFFIX, f"no offsets from {self._next_offset} on: compacted, or a file is missing"
            )
        self._next_offset = max(self._next_offset, base_offset)
        scan = LogScan(self._files, path + LOG_SUFFIX)
        offset_index = self._offset_index(path, base_offset, is_settled=is_settled)
        time_index = self._time_index(path, base_offset, is_settled=is_settled)
        aborted = TransactionIndexCheck(
            self._files, path + TRANSACTION_INDEX_SUFFIX, self._transactions, self._findings
        )
        for scanned in scan:
            self._check_batch(scanned, scan.path)
            for check in (offset_index, time_index, snapshots):
                if check is not None:
                    check.batch(scanned)
            aborted.batch(scanned, scan.path)
            self._options.progress(scanned.header.size)
        self._end(scan, is_last=is_last)
        if offset_index is not None:
            offset_index.finish(scan.position)
        if time_index is not None:
            time_index.finish()
        aborted.finish()
        return scan.size

    def _offset_index(self, path: str, base_offset: int, *, is_settled: bool) -> OffsetIndexCheck | None:
        if OFFSET_INDEX_SUFFIX in self._segments[base_offset]:
            return OffsetIndexCheck(
                self._files, path + OFFSET_INDEX_SUFFIX, base_offset, self._findings, is_settled=is_settled
            )
        self._findings.add(WARNING, path + OFFSET_INDEX_SUFFIX, "is missing; the next start makes it")
        return None

    def _time_index(self, path: str, base_offset: int, *, is_settled: bool) -> TimeIndexCheck | None:
        if TIME_INDEX_SUFFIX in self._segments[base_offset]:
            return TimeIndexCheck(
                self._files, path + TIME_INDEX_SUFFIX, base_offset, self._findings, is_settled=is_settled
            )
        self._findings.add(WARNING, path + TIME_INDEX_SUFFIX, "is missing; the next start makes it")
        return None

    def _end(self, scan: LogScan, *, is_last: bool) -> None:
        if scan.problem is None:
            return
        severity, then = ERROR, ""
        if is_last and scan.is_torn:
            severity, then = (NOTE, "; it is being written") if self._options.is_in_use else (
                WARNING, "; the next start cuts them off")  # fmt: skip
        self._findings.add(severity, scan.path, scan.problem + then, position=scan.position)
        self._options.progress(scan.size - scan.position)

    def _check_batch(self, scanned: ScannedBatch, path: str) -> None:
        header = scanned.header
        where = {"position": scanned.position, "offset": header.base_offset}
        if not scanned.crc_is_valid:
            self._findings.add(ERROR, path, "the batch's CRC is wrong", **where)
        elif self._options.deep:
            self._check_records(scanned, path)
        if header.base_offset < self._next_offset or header.last_offset_delta < 0:
            self._findings.add(
                ERROR, path, f"offset {header.base_offset}, at least {self._next_offset} was expected", **where
            )
        self._next_offset = max(self._next_offset, header.next_offset)
        self._check_epoch(header, path)

    def _check_records(self, scanned: ScannedBatch, path: str) -> None:
        header, where = scanned.header, {"position": scanned.position, "offset": scanned.header.base_offset}
        if scanned.content is None:
            self._findings.add(NOTE, path, f"a batch of {header.size} bytes: its records were not checked", **where)
            return
        try:
            offsets = [record.offset for record in read_records(scanned.content, header)]
        except (CorruptRecordError, InvalidRecordError, RecordTooLargeError, UnknownCodecError) as error:
            self._findings.add(ERROR, path, f"the batch's records can't be read: {error}", **where)
            return
        if header.magic >= MAGIC and offsets != sorted(set(offsets)):
            self._findings.add(ERROR, path, "the batch's records are not in the order of offsets", **where)
        elif offsets and (
            offsets[-1] > header.last_offset or (header.magic >= MAGIC and offsets[0] < header.base_offset)
        ):
            self._findings.add(ERROR, path, f"the batch holds offsets {offsets[0]} to {offsets[-1]}", **where)

    def _read_epochs(self) -> None:
        path = f"{self._directory}/{LEADER_EPOCHS_NAME}"
        if not self._files.exists(path):
            return
        try:
            self._epochs = [(int(epoch), int(start)) for epoch, start in decode(self._files.read(path), 2)]
        except (ValueError, MalformedCheckpointError) as error:
            self._findings.add(WARNING, path, f"{error}; the next start makes it from the batches")
            return
        for before, entry in zip(self._epochs, self._epochs[1:], strict=False):
            if entry[0] <= before[0] or entry[1] < before[1]:
                self._findings.add(ERROR, path, f"epoch {entry[0]} from {entry[1]} does not follow {before}")

    def _check_epoch(self, header: BatchHeader, path: str) -> None:
        """Check that a batch's epoch begins at or below the batch, and the next epoch above."""
        if not self._epochs or header.magic < MAGIC or header.partition_leader_epoch < 0:
            return
        begun = [epoch for epoch, start in self._epochs if start <= header.base_offset]
        if header.base_offset >= self._epochs[0][1] and begun[-1] != header.partition_leader_epoch:
            self._findings.add(
                ERROR, path, f"leader epoch {header.partition_leader_epoch}, {LEADER_EPOCHS_NAME} says {begun[-1]}",
                offset=header.base_offset,
            )  # fmt: skip

    def _check_epochs(self, end_offset: int) -> None:
        for epoch, start in self._epochs:
            if start > end_offset:
                path = f"{self._directory}/{LEADER_EPOCHS_NAME}"
                self._findings.add(WARNING, path, f"epoch {epoch} begins at {start}, the log ends at {end_offset}")


def check_swap(files: Files, path: str, findings: Findings) -> None:
    """Check each batch of a compaction's ``.log.swap``, which is to replace older segments."""
    scan = LogScan(files, path)
    next_offset = 0
    for scanned in scan:
        header = scanned.header
        where = {"position": scanned.position, "offset": header.base_offset}
        if not scanned.crc_is_valid:
            findings.add(ERROR, path, f"the batch's CRC is wrong{_SWAP_THEN}", **where)
        elif header.base_offset < next_offset:
            findings.add(
                ERROR, path, f"offset {header.base_offset}, at least {next_offset} was expected{_SWAP_THEN}", **where
            )
        next_offset = max(next_offset, header.next_offset)
    if scan.problem is not None:
        findings.add(ERROR, path, scan.problem + _SWAP_THEN, position=scan.position)
