"""Files whose times of modification are those of a clock that a test has moved.

Apache Kafka tells by them when records without timestamps are old, and how long deletion markers have been in a
compacted log; the workers that compact see them too.
"""

import os
from contextlib import suppress
from typing import Final
from weakref import WeakKeyDictionary

from kafkapy.storage.io.files import Descriptor, Files
from kafkapy.testing.moving_clock import MovingClock

STAMPS_OPEN_FILES: Final = os.utime in os.supports_fd
"""Whether the system stamps a file by its descriptor; elsewhere it is done by the name that it was opened by."""


class StampedFiles(Files):
    """The usual files; while ``clock`` is ahead of the machine's, what is written bears its time."""

    def __init__(self, clock: MovingClock) -> None:
        super().__init__()
        self._clock = clock
        self._paths: WeakKeyDictionary[Descriptor, str] = WeakKeyDictionary()

    def open(self, path: str, flags: int = os.O_RDWR) -> Descriptor:
        """See ``Files.open``."""
        descriptor = super().open(path, flags)
        if not STAMPS_OPEN_FILES:
            self._paths[descriptor] = path
        return descriptor

    def write_at(self, descriptor: Descriptor, data: bytes | bytearray | memoryview, position: int) -> None:
        """See ``Files.write_at``."""
        super().write_at(descriptor, data, position)
        if self._clock.added_ms:
            now_ns = self._clock.now_ms() * 1_000_000
            with suppress(FileNotFoundError):  # it has another name by now, and keeps the time of its writing
                os.utime(descriptor.number if STAMPS_OPEN_FILES else self._paths[descriptor], ns=(now_ns, now_ns))
