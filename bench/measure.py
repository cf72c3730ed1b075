"""What a broker costs, read from /proc: processor-seconds and resident memory of its process; medians, percentiles."""

import math
import os
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
GONE = "ZX"


class BrokerGoneError(Exception):
    """The process that is measured has ended."""


def parse_stat(text: str) -> tuple[str, int]:
    """State and processor ticks (user and system, all threads, finished children too) of a /proc/<pid>/stat line."""
    fields = text.rpartition(")")[2].split()
    return fields[0], sum(map(int, fields[11:15]))


def parse_resident_kib(text: str) -> int:
    """VmRSS of a /proc/<pid>/status file, in KiB; 0 when the kernel gives none."""
    lines = [line for line in text.splitlines() if line.startswith("VmRSS:")]
    return int(lines[0].split()[1]) if lines else 0


def processor_s(pid: int) -> float:
    """User and system seconds that the process has used so far; raises BrokerGoneError when it ended."""
    try:
        state, ticks = parse_stat(Path(f"/proc/{pid}/stat").read_text())
    except (FileNotFoundError, ProcessLookupError):
        raise BrokerGoneError(f"process {pid} has ended") from None
    if state in GONE:
        raise BrokerGoneError(f"process {pid} has ended")
    return ticks / TICKS_PER_SECOND


def resident_mib(pid: int) -> float:
    """Resident memory of the process in MiB; raises BrokerGoneError when it ended."""
    try:
        return parse_resident_kib(Path(f"/proc/{pid}/status").read_text()) / 1024
    except (FileNotFoundError, ProcessLookupError):
        raise BrokerGoneError(f"process {pid} has ended") from None


class Meter:
    """Counts what a process uses between entering and leaving: `processor_s` and `wall_s`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.processor_s = 0.0
        self.wall_s = 0.0

    def __enter__(self) -> Self:
        self._wall = time.monotonic()
        self._processor = processor_s(self.pid)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.processor_s = processor_s(self.pid) - self._processor
        self.wall_s = time.monotonic() - self._wall


def median(values: Sequence[float]) -> float | None:
    """The middle value; None when nothing was measured."""
    return statistics.median(values) if values else None


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` (0 to 1) of all values don't exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
