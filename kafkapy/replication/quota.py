"""A limit of the bytes per second that this broker copies (KIP-73).

Bytes are recorded after they were copied, whatever the rate is; before the next ones the caller asks whether the rate
is above the limit. So bytes are copied in bursts, and the limit holds on average. The rate is the bytes of the samples
(``quotas/rates.py``) divided by the time since the oldest one began, at least one window, as ``SimpleRate`` in Apache
Kafka.
"""

from typing import Final

from kafkapy.clock import Clock
from kafkapy.quotas.rates import Samples

UNLIMITED: Final = 2**63 - 1
"""Bytes per second of a quota that nothing limits: the largest value of the keys."""


class ReplicationQuota:
    """Measures bytes per second on ``clock`` and compares them with a limit; ``window_count`` and ``window_s`` >= 1."""

    __slots__ = ("limit", "_clock", "_samples")

    def __init__(self, clock: Clock, *, window_count: int = 11, window_s: int = 1) -> None:
        self.limit = UNLIMITED
        """Bytes per second, which may be set at any time."""
        self._clock = clock
        self._samples = Samples(window_count, window_s * 1000)

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit."""
        return self.limit != UNLIMITED

    def record(self, size: int) -> None:
        """Count ``size`` bytes as copied now."""
        self._samples.record(size, self._now_ms())

    @property
    def is_exceeded(self) -> bool:
        """Whether the rate is above the limit; equal to it is not."""
        if not self.is_limited:
            return False
        size, elapsed_ms = self._measured()
        return size * 1000 > self.limit * elapsed_ms

    @property
    def bytes_per_second(self) -> float:
        """The rate now."""
        size, elapsed_ms = self._measured()
        return size * 1000 / elapsed_ms

    def _measured(self) -> tuple[float, int]:
        size, elapsed_ms = self._samples.measured(self._now_ms())
        return size, max(elapsed_ms, self._samples.window_ms)

    def _now_ms(self) -> int:
        return int(self._clock.monotonic_s() * 1000)
