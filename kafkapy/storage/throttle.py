"""Work that reads and writes no more than so many bytes a second, as Apache Kafka's ``Throttler`` counts them."""

from collections.abc import Callable
from typing import Final

INTERVAL_S: Final = 0.3
LONGEST_S: Final = 86_400.0
"""How long it waits at a time, however low the rate is: Apache Kafka sleeps for ever at a rate of 0."""


class Throttle:
    """Waits, every 0.3 s, for as long as was worked too fast. ``now_s`` is a clock, ``wait`` takes seconds."""

    def __init__(self, bytes_per_second: float, now_s: Callable[[], float], wait: Callable[[float], object]) -> None:
        self._rate = bytes_per_second
        self._now_s = now_s
        self._wait = wait
        self._since_s = now_s()
        self._bytes = 0

    def worked(self, size: int) -> None:
        """So many bytes were read or written."""
        self._bytes += size
        elapsed_s = self._now_s() - self._since_s
        if elapsed_s < INTERVAL_S:
            return
        surplus_s = self._bytes / self._rate - elapsed_s if self._rate > 0 else LONGEST_S
        if surplus_s > 0:
            self._wait(min(surplus_s, LONGEST_S))
        self._since_s = self._now_s()
        self._bytes = 0
