"""Files whose modification times follow a clock that a test has advanced.

As in Apache Kafka, the age of records without timestamps, and of deletion markers in a compacted log, is the age of
their file; worker processes that compact read these times too.
"""

import os
from contextlib import suppress
from typing import Final
from weakref import WeakKeyDictionary

from kafkapy.platform.files import Descriptor, Files
from kafkapy.testing.clock.moving import MovingClock

STAMPS_OPEN_FILES: Final = os.utime in os.supports_fd
"""Whether the system can set a file's times by its descriptor; elsewhere they are set by the name of the open file."""


class StampedFiles(Files):
    """Sets the modification time of written files to that of ``clock`` while that is ahead of the machine's."""

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
            with suppress(FileNotFoundError):  # it was renamed, and keeps the machine's time
                os.utime(descriptor.number if STAMPS_OPEN_FILES else self._paths[descriptor], ns=(now_ns, now_ns))
