"""Where a trace's lines go: a thread of their own writes them, so that a slow terminal holds up no client.

Lines that wait are bounded. What there is no room for is left out, and the next line that there is room for says how
many that were.
"""

import os
import queue
import threading
from typing import Final

WAITING_LINES: Final = 10_000
LAST_LINES_S: Final = 1.0
"""How long the end of a broker waits for lines that are not written yet."""


class TraceOutput:
    """Writes lines to a descriptor. ``left_out`` says that lines are missing, in the form that they have."""

    def __init__(self, descriptor: int, waiting_lines: int = WAITING_LINES) -> None:
        self.left_out = 0
        """Lines that there was no room for, and no line yet to say so."""
        self._descriptor = descriptor
        self._lines: queue.Queue[str | None] = queue.Queue(waiting_lines)
        self._is_broken = False
        self._thread = threading.Thread(target=self._write_all, name="kafkapy-trace", daemon=True)
        self._thread.start()

    @property
    def is_full(self) -> bool:
        """Whether a line would be left out now: nobody need make it."""
        return self._is_broken or self._lines.full()

    def write(self, line: str) -> None:
        """Write a line when its turn comes, or count it as left out."""
        try:
            self._lines.put_nowait(line)
        except queue.Full:
            self.left_out += 1

    def close(self) -> None:
        """Write what waits, if that is soon done, and end the thread."""
        try:
            self._lines.put(None, timeout=LAST_LINES_S)
        except queue.Full:
            return  # nobody reads: the thread ends with the process
        self._thread.join(LAST_LINES_S)

    def _write_all(self) -> None:
        while (line := self._lines.get()) is not None:
            if not self._is_broken:
                self._write(f"{line}\n".encode(errors="replace"))

    def _write(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError:
            self._is_broken = True  # whoever read is gone, as `| head` is after its lines
