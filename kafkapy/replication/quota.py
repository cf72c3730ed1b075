"""A limit of the bytes per second that this broker copies (KIP-73).

A rate is measured over *samples*: one sample has the bytes of one window of ``replication.quota.window.size.seconds``,
and the last ``replication.quota.window.num`` samples count. Bytes are recorded after they were copied, whatever the
rate is; before the next ones the caller asks whether the rate is above the limit. So bytes are copied in bursts, and
the limit holds on average.

The rate is the bytes of the samples divided by the time since the oldest one began, at least one window. A sample that
is older than all windows together is emptied when the rate is computed, and begins again at that moment. These are the
rules of ``SimpleRate`` in Apache Kafka.
"""

from typing import Final

from kafkapy.clock import Clock

UNLIMITED: Final = 2**63 - 1
"""Bytes per second of a quota that nothing limits: the largest value of the keys."""


class _Sample:
    """The bytes that were recorded since ``start_ms``."""

    __slots__ = ("start_ms", "size")

    def __init__(self, start_ms: int) -> None:
        self.start_ms = start_ms
        self.size = 0

    def restart(self, now_ms: int) -> None:
        """Forget the bytes and begin again."""
        self.start_ms = now_ms
        self.size = 0


class ReplicationQuota:
    """Measures bytes per second on ``clock`` and compares them with a limit; ``window_count`` and ``window_s`` >= 1."""

    __slots__ = ("limit", "_clock", "_window_count", "_window_ms", "_samples", "_current")

    def __init__(self, clock: Clock, *, window_count: int = 11, window_s: int = 1) -> None:
        self.limit = UNLIMITED
        """Bytes per second, which may be set at any time."""
        self._clock = clock
        self._window_count = window_count
        self._window_ms = window_s * 1000
        self._samples: list[_Sample] = []
        self._current = 0

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit."""
        return self.limit != UNLIMITED

    def record(self, size: int) -> None:
        """Count ``size`` bytes as copied now."""
        now_ms = self._now_ms()
        samples = self._samples
        if not samples:
            samples.append(_Sample(now_ms))
        elif now_ms - samples[self._current].start_ms >= self._window_ms:
            self._current = (self._current + 1) % self._window_count
            if self._current == len(samples):
                samples.append(_Sample(now_ms))
            else:
                samples[self._current].restart(now_ms)
        samples[self._current].size += size

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

    def _measured(self) -> tuple[int, int]:
        """Return the bytes that count, and the time that they are divided by, in milliseconds."""
        now_ms = self._now_ms()
        if not self._samples:
            self._samples.append(_Sample(now_ms))
        for sample in self._samples:
            if now_ms - sample.start_ms >= self._window_count * self._window_ms:
                sample.restart(now_ms)
        oldest_ms = min(sample.start_ms for sample in self._samples)
        return sum(sample.size for sample in self._samples), max(now_ms - oldest_ms, self._window_ms)

    def _now_ms(self) -> int:
        return int(self._clock.monotonic_s() * 1000)
