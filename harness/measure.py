"""The processor-seconds and resident memory of a broker's process, read from /proc; medians and percentiles."""

import math
import os
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
GONE = "ZX"


class LoadError(Exception):
    """A load did not do what it was asked to; the message is one line."""


class BrokerGoneError(Exception):
    """The process that is measured has ended."""


def parse_stat(text: str) -> tuple[str, int, int]:
    """State, user and system ticks (all threads, finished children too) of a /proc/<pid>/stat line."""
    fields = text.rpartition(")")[2].split()
    user, system, children_user, children_system = map(int, fields[11:15])
    return fields[0], user + children_user, system + children_system


def parse_resident_kib(text: str, field: str = "VmRSS") -> int:
    """A field of a /proc/<pid>/status file, in KiB; 0 when the kernel gives none."""
    lines = [line for line in text.splitlines() if line.startswith(f"{field}:")]
    return int(lines[0].split()[1]) if lines else 0


class ProcessorTime(NamedTuple):
    """Seconds that a process has used so far."""

    user_s: float
    system_s: float

    @property
    def total_s(self) -> float:
        """Both together."""
        return self.user_s + self.system_s


def processor_time(pid: int) -> ProcessorTime:
    """The processor time of the process so far; raises BrokerGoneError when it has ended."""
    try:
        state, user, system = parse_stat(Path(f"/proc/{pid}/stat").read_text())
    except (FileNotFoundError, ProcessLookupError):
        raise BrokerGoneError(f"process {pid} has ended") from None
    if state in GONE:
        raise BrokerGoneError(f"process {pid} has ended")
    return ProcessorTime(user / TICKS_PER_SECOND, system / TICKS_PER_SECOND)


def resident_mib(pid: int) -> float:
    """Resident memory of the process in MiB; raises BrokerGoneError when it ended."""
    return _status_mib(pid, "VmRSS")


def peak_mib(pid: int) -> float:
    """The most resident memory that the process has had, in MiB; raises BrokerGoneError when it ended."""
    return _status_mib(pid, "VmHWM")


def _status_mib(pid: int, field: str) -> float:
    try:
        return parse_resident_kib(Path(f"/proc/{pid}/status").read_text(), field) / 1024
    except (FileNotFoundError, ProcessLookupError):
        raise BrokerGoneError(f"process {pid} has ended") from None


class Meter:
    """Counts what a process uses between entering and leaving: `user_s`, `system_s`, `processor_s` (both), `wall_s`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.user_s = self.system_s = self.processor_s = 0.0
        self.wall_s = 0.0

    def __enter__(self) -> Self:
        self._wall = time.monotonic()
        self._before = processor_time(self.pid)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        after = processor_time(self.pid)
        self.user_s = after.user_s - self._before.user_s
        self.system_s = after.system_s - self._before.system_s
        self.processor_s = self.user_s + self.system_s
        self.wall_s = time.monotonic() - self._wall


def median(values: Sequence[float]) -> float | None:
    """The middle value; None when nothing was measured."""
    return statistics.median(values) if values else None


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` (0 to 1) of all values don't exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
