"""Where a trace's lines go: a thread of their own writes them, so that a slow terminal holds up no client.

The bytes that wait are bounded. What there is no room for is left out, and the next line that there is room for says
how many that were.
"""

import os
import threading
from collections import deque
from typing import Final

WAITING_BYTES: Final = 2 << 20
LAST_LINES_S: Final = 1.0
"""How long the end of a broker waits for lines that are not written yet."""


class TraceOutput:
    """Writes lines to a descriptor."""

    def __init__(self, descriptor: int, waiting_bytes: int = WAITING_BYTES) -> None:
        self.left_out = 0
        """Lines that there was no room for, and no line yet to say so."""
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
        """Whether a line would be left out now: nobody need make it."""
        return self._is_broken or self._size >= self._limit

    def write(self, line: str) -> None:
        """Write a line when its turn comes, or count it as left out."""
        if self.is_full:
            self.left_out += 1
            return
        data = f"{line}\n".encode(errors="replace")
        with self._changed:
            self._lines.append(data)
            self._size += len(data)
            self._changed.notify()

    def close(self) -> None:
        """Write what waits, if that is soon done, and end the thread; it ends with the process if nobody reads."""
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
            self._is_broken = True  # whoever read is gone, as `| head` is after its lines
