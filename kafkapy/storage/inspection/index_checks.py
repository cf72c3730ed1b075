"""Compares the offset and the time index of a segment with its batches, which are read once."""

from collections.abc import Iterator
from typing import Final

from kafkapy.platform.files import Files
from kafkapy.storage.inspection.findings import ERROR, NOTE, WARNING, Findings
from kafkapy.storage.inspection.index_files import offset_entries, time_entries, zero_tail
from kafkapy.storage.inspection.log_scan import ScannedBatch
from kafkapy.storage.log.index import Index, OffsetIndex, TimeIndex
from kafkapy.types import NO_TIMESTAMP

REBUILT: Final = "; the next start rebuilds the index"
"""Suffix of a finding about a segment whose indexes may lack entries: ``is_settled`` is false."""


def check_shape(files: Files, path: str, kind: type[Index], findings: Findings) -> None:
    """Report a size that is not whole entries, and the zeros that a crashed Kafka leaves behind the entries."""
    size, entry = files.size(path), kind.ENTRY
    if size % entry.size:
        findings.add(ERROR, path, f"{size} bytes are not whole entries of {entry.size}")
    zeros = zero_tail(files, path, entry)
    if zeros > entry.size:
        findings.add(NOTE, path, f"{zeros} bytes of zeros follow the entries, as after a crash of Apache Kafka")


class _IndexCheck:
    """Reads the entries of one index file, one after the other."""

    def __init__(self, path: str, entries: Iterator[tuple[int, int]], findings: Findings, *, is_settled: bool) -> None:
        self.path = path
        self._findings = findings
        self._is_settled = is_settled
        self._entries = entries
        self._entry = next(entries, None)

    def _report(self, message: str, *, position: int | None = None, offset: int | None = None) -> None:
        if self._is_settled:
            self._findings.add(ERROR, self.path, message, position=position, offset=offset)
        else:
            self._findings.add(WARNING, self.path, message + REBUILT, position=position, offset=offset)


class OffsetIndexCheck(_IndexCheck):
    """Every entry must have the last offset of a batch, and the position of that batch or an earlier one."""

    def __init__(
        self, files: Files, path: str, base_offset: int, findings: Findings, *, is_settled: bool = True
    ) -> None:
        check_shape(files, path, OffsetIndex, findings)
        super().__init__(path, offset_entries(files, path, base_offset), findings, is_settled=is_settled)
        self._previous = (base_offset - 1, -1)
        self._reached = False

    def batch(self, scanned: ScannedBatch) -> None:
        """The next batch of the segment."""
        while self._entry is not None:
            offset, position = self._entry
            if offset <= self._previous[0] or position <= self._previous[1]:
                self._report(f"entry {self._entry} does not follow {self._previous}")
                self._next()
                continue
            self._reached = self._reached or scanned.position == position
            if scanned.position < position:
                return
            if not self._reached:
                self._report(f"entry ({offset}, {position}) points between batches", position=position)
            elif scanned.header.last_offset < offset:
                return
            elif scanned.header.last_offset != offset:
                self._report(f"entry ({offset}, {position}): no batch ends with this offset", offset=offset)
            self._next()

    def _next(self) -> None:
        assert self._entry is not None
        self._previous = max(self._entry, self._previous)
        self._entry = next(self._entries, None)
        self._reached = False

    def finish(self, size: int) -> None:
        """The segment has ended after ``size`` bytes."""
        while self._entry is not None:
            self._report(f"entry {self._entry} points beyond the {size} bytes of batches")
            self._next()


class TimeIndexCheck(_IndexCheck):
    """Every entry must have the largest timestamp so far and an offset of the batch that has it."""

    def __init__(
        self, files: Files, path: str, base_offset: int, findings: Findings, *, is_settled: bool = True
    ) -> None:
        check_shape(files, path, TimeIndex, findings)
        super().__init__(path, time_entries(files, path, base_offset), findings, is_settled=is_settled)
        self._previous = (NO_TIMESTAMP - 1, base_offset - 1)
        self._largest = NO_TIMESTAMP

    def batch(self, scanned: ScannedBatch) -> None:
        """The next batch of the segment."""
        header = scanned.header
        largest_before, self._largest = self._largest, max(self._largest, header.max_timestamp)
        while self._entry is not None and self._entry[1] <= header.last_offset:
            timestamp, offset = self._entry
            if timestamp <= self._previous[0] or offset < self._previous[1]:
                self._report(f"entry {self._entry} does not follow {self._previous}")
            elif timestamp != header.max_timestamp:
                self._report(f"offset {offset} has timestamp {header.max_timestamp}, the index says {timestamp}")
            elif timestamp < largest_before:
                self._report(f"entry {self._entry}: timestamp {largest_before} came before")
            self._next()

    def _next(self) -> None:
        assert self._entry is not None
        self._previous = self._entry
        self._entry = next(self._entries, None)

    def finish(self) -> None:
        """The segment has ended; its last entry holds its largest timestamp."""
        while self._entry is not None:
            self._report(f"entry {self._entry} names an offset that is not there")
            self._next()
        if self._is_settled and max(self._previous[0], NO_TIMESTAMP) < self._largest:
            self._findings.add(
                WARNING, self.path, f"the last entry lacks the segment's largest timestamp, {self._largest}"
            )
