"""Writes a trace's lines in a separate thread, so that a slow terminal delays no client.

The waiting bytes are bounded. Lines without room are left out, and the next line that has room says how many they were.
"""

import os
import threading
from collections import deque
from typing import Final

WAITING_BYTES: Final = 2 << 20
LAST_LINES_S: Final = 1.0
"""How long a broker that stops waits until the lines are written."""


class TraceOutput:
    """Writes lines to a descriptor."""

    def __init__(self, descriptor: int, waiting_bytes: int = WAITING_BYTES) -> None:
        self.left_out = 0
        """Lines that were left out since the last line with their number."""
        self._descriptor = descriptor
        self._limit = waiting_bytes
        self._lines: deque[bytes] = deque()
        self._size = 0
        self._changed = threading.Condition()
        self._is_broken = self._is_closed = False
        self._thread = threading.Thread(target=self._write_all, name="kafkapy-trace", daemon=True)
        self._thread.start()

    @property
    def is_full(self) -> bool:
        """Whether a line would be left out now, so that it need not be made."""
        return self._is_broken or self._size >= self._limit

    def write(self, line: str) -> None:
        """Queue a line, or count it as left out."""
        if self.is_full:
            self.left_out += 1
            return
        data = f"{line}\n".encode(errors="replace")
        with self._changed:
            self._lines.append(data)
            self._size += len(data)
            self._changed.notify()

    def close(self) -> None:
        """Write the waiting lines and end the thread; after ``LAST_LINES_S`` leave it to the end of the process."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join(LAST_LINES_S)

    def _write_all(self) -> None:
        while (line := self._next()) is not None:
            self._write(line)
            with self._changed:
                self._size -= len(line)

    def _next(self) -> bytes | None:
        with self._changed:
            self._changed.wait_for(lambda: self._lines or self._is_closed)
            return self._lines.popleft() if self._lines else None

    def _write(self, data: bytes) -> None:
        try:
            while data and not self._is_broken:
                data = data[os.write(self._descriptor, data) :]
        except OSError:
            self._is_broken = True  # the reader has closed it, as `| head` does after its lines
