"""Rates over samples, and buckets of tokens: how Apache Kafka measures what its quotas limit.

One sample has the amount of one window, and the last ``window_count`` samples count. A sample that is older than all
windows together is emptied when the rate is computed, and begins again at that moment (``SampledStat``). Times are in
milliseconds of any clock that does not go back.
"""

import math
from typing import Final

LONGEST_THROTTLE_MS: Final = 2**31 - 1
"""What the field of a response can say."""


class _Sample:
    """The amount that was recorded since ``start_ms``."""

    __slots__ = ("start_ms", "amount")

    def __init__(self, start_ms: int) -> None:
        self.start_ms = start_ms
        self.amount = 0.0

    def restart(self, now_ms: int) -> None:
        """Forget the amount and begin again."""
        self.start_ms = now_ms
        self.amount = 0.0


class Samples:
    """The amounts of the last ``window_count`` windows of ``window_ms``, both at least 1."""

    __slots__ = ("window_count", "window_ms", "_samples", "_current")

    def __init__(self, window_count: int, window_ms: int) -> None:
        self.window_count = window_count
        self.window_ms = window_ms
        self._samples: list[_Sample] = []
        self._current = 0

    def record(self, amount: float, now_ms: int) -> None:
        """Count an amount now; a negative one takes an earlier one back."""
        samples = self._samples
        if not samples:
            samples.append(_Sample(now_ms))
        elif now_ms - samples[self._current].start_ms >= self.window_ms:
            self._current = (self._current + 1) % self.window_count
            if self._current == len(samples):
                samples.append(_Sample(now_ms))
            else:
                samples[self._current].restart(now_ms)
        samples[self._current].amount += amount

    def measured(self, now_ms: int) -> tuple[float, int]:
        """Return the amount that counts, and the milliseconds since the oldest sample began."""
        if not self._samples:
            self._samples.append(_Sample(now_ms))
        for sample in self._samples:
            if now_ms - sample.start_ms >= self.window_count * self.window_ms:
                sample.restart(now_ms)
        oldest_ms = min(sample.start_ms for sample in self._samples)
        return sum(sample.amount for sample in self._samples), now_ms - oldest_ms


class Rate(Samples):
    """An amount a second, as ``Rate`` in Apache Kafka: over all windows but the current one, also at its beginning."""

    __slots__ = ()

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """Return how long nothing may be recorded until the rate is at its limit again; 0 if it is not above it."""
        amount, elapsed_ms = self.measured(now_ms)
        missing = self.window_count - 1 - elapsed_ms // self.window_ms
        if missing > 0:
            elapsed_ms += missing * self.window_ms
        if elapsed_ms == 0:  # one window alone, which has just begun
            return LONGEST_THROTTLE_MS if amount > 0 else 0
        rate = amount * 1000 / elapsed_ms
        if rate <= limit:
            return 0
        if limit <= 0:
            return LONGEST_THROTTLE_MS
        return min(_rounded((rate - limit) / limit * elapsed_ms), LONGEST_THROTTLE_MS)


class TokenBucket:
    """A limit that saves what is not used, up to all windows together (KIP-599); it may be overdrawn once."""

    __slots__ = ("_window_s", "_tokens", "_refilled_ms")

    def __init__(self, window_count: int, window_ms: int) -> None:
        self._window_s = window_count * window_ms / 1000
        self._tokens = 0.0
        self._refilled_ms: int | None = None

    def take(self, amount: float, limit: float, now_ms: int) -> None:
        """Take tokens, of which ``limit`` come each second."""
        self._refill(limit, now_ms)
        self._tokens -= amount

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """Return when the bucket is no longer overdrawn; 0 if it is not."""
        self._refill(limit, now_ms)
        if self._tokens >= 0:
            return 0
        return LONGEST_THROTTLE_MS if limit <= 0 else min(_rounded(-self._tokens / limit * 1000), LONGEST_THROTTLE_MS)

    def _refill(self, limit: float, now_ms: int) -> None:
        most = self._window_s * limit
        if self._refilled_ms is None:
            self._tokens = most
        else:
            self._tokens = min(most, self._tokens + limit * (now_ms - self._refilled_ms) / 1000)
        self._refilled_ms = now_ms


def _rounded(number: float) -> int:
    """As ``Math.round``: a half goes up."""
    return math.floor(number + 0.5) if number < LONGEST_THROTTLE_MS else LONGEST_THROTTLE_MS
