"""Watches a broker from outside while it is attacked: its log, memory and processor time."""

import os
import re
from pathlib import Path
from typing import Final

from harness.measure import parse_resident_kib, processor_time
from harness.process import ChildProcess

TRACEBACK: Final = "Traceback (most recent call last)"
ESCAPED: Final = re.compile(r"Task exception was never retrieved|Future exception was never retrieved|Unhandled")


class Watch:
    """One broker process; tracebacks are those of its log since the watch began."""

    def __init__(self, broker: ChildProcess) -> None:
        self._broker = broker
        self._position = broker.log_path.stat().st_size if broker.log_path.exists() else 0

    @property
    def _pid(self) -> int:
        assert self._broker.pid is not None
        return self._broker.pid

    def tracebacks(self) -> list[str]:
        """The tracebacks that were logged since the last call, each as one text."""
        with self._broker.log_path.open("rb") as log:
            log.seek(self._position)
            data = log.read()
        data = data[: data.rfind(b"\n") + 1]  # a line that is being written is read with the next call
        self._position += len(data)
        return tracebacks_in(data.decode(errors="replace"))

    def resident_bytes(self) -> int:
        """Resident memory now; 0 if the process has ended."""
        return self._status("VmRSS")

    def peak_bytes(self) -> int:
        """The most resident memory since the last ``forget_peak``; 0 if the process has ended."""
        return self._status("VmHWM")

    def forget_peak(self) -> None:
        """Let the kernel measure the peak from now on."""
        Path(f"/proc/{self._pid}/clear_refs").write_text("5")

    def processor_s(self) -> float:
        """Processor time that the process has used so far."""
        return processor_time(self._pid).total_s

    def _status(self, field: str) -> int:
        try:
            return parse_resident_kib(Path(f"/proc/{self._pid}/status").read_text(), field) * 1024
        except (FileNotFoundError, ProcessLookupError):
            return 0


def tracebacks_in(text: str) -> list[str]:
    """The tracebacks of a log, each with the lines before its first frame and the exception's own."""
    found: list[str] = []
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        if TRACEBACK not in lines[at]:
            if ESCAPED.search(lines[at]) and not any(TRACEBACK in each for each in lines[at : at + 6]):
                found.append(lines[at])
            at += 1
            continue
        end = at + 1
        while end < len(lines) and lines[end].startswith((" ", "\t")):
            end += 1
        found.append("\n".join(lines[max(0, at - 1) : end + 1]))
        at = end + 1
    return found


def place_of(traceback: str) -> str:
    """The identity of a bug: the exception's class and the innermost frame."""
    frames = re.findall(r'File "([^"]+)", line (\d+), in (\S+)', traceback)
    where = f"{os.path.basename(frames[-1][0])}:{frames[-1][1]} {frames[-1][2]}" if frames else "?"
    return f"{traceback.splitlines()[-1].partition(':')[0]} at {where}"


def waited_s(pid: int) -> float:
    """Seconds in which the main thread was ready to run and other programs used the processors."""
    try:
        return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
