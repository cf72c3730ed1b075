"""Work that reads and writes no more than so many bytes a second, as Apache Kafka's ``Throttler`` counts them."""

from collections.abc import Callable
from typing import Final

INTERVAL_S: Final = 0.3


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
        surplus_s = self._bytes / self._rate - elapsed_s
        if surplus_s > 0:
            self._wait(surplus_s)
        self._since_s = self._now_s()
        self._bytes = 0
