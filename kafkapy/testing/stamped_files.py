"""Files whose times of modification are those of a clock that a test has moved.

Apache Kafka tells by them when records without timestamps are old, and how long deletion markers have been in a
compacted log; the workers that compact see them too.
"""

import os

from kafkapy.storage.files import Descriptor, Files
from kafkapy.testing.moving_clock import MovingClock


class StampedFiles(Files):
    """The usual files; while ``clock`` is ahead of the machine's, what is written bears its time."""

    def __init__(self, clock: MovingClock) -> None:
        super().__init__()
        self._clock = clock

    def write_at(self, descriptor: Descriptor, data: bytes | bytearray | memoryview, position: int) -> None:
        """See ``Files.write_at``."""
        super().write_at(descriptor, data, position)
        if self._clock.added_ms:
            now_ns = self._clock.now_ms() * 1_000_000
            os.utime(descriptor.number, ns=(now_ns, now_ns))
