"""The only place that reads the wall clock.

Everything that depends on time takes a ``Clock``; tests hand in one that they advance themselves.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Protocol


class TimerHandle(Protocol):
    """A callback that will run later unless it is cancelled."""

    def cancel(self) -> None:
        """Make sure that the callback does not run; calling it twice, or after it ran, does nothing."""
        ...


class Clock(Protocol):
    """Wall-clock time, durations and timers."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch, as Kafka's timestamps count them."""
        ...

    def monotonic_s(self) -> float:
        """Seconds from an arbitrary start that never goes back: for measuring durations."""
        ...

    def machine_s(self) -> float:
        """As ``monotonic_s``, to measure the machine: the time that a test adds to a moving clock does not count."""
        ...

    def call_later(self, delay_ms: float, callback: Callable[..., object], *args: Any) -> TimerHandle:
        """Run ``callback(*args)`` on the event loop after ``delay_ms``; needs a running loop."""
        ...

    async def sleep(self, delay_ms: float) -> None:
        """Wait ``delay_ms``."""
        ...


class SystemClock:
    """The machine's clock and the running asyncio loop's timers."""

    __slots__ = ()

    def now_ms(self) -> int:
        """See ``Clock.now_ms``."""
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        """See ``Clock.monotonic_s``."""
        return time.monotonic()

    def machine_s(self) -> float:
        """See ``Clock.machine_s``."""
        return time.monotonic()

    def call_later(self, delay_ms: float, callback: Callable[..., object], *args: Any) -> TimerHandle:
        """See ``Clock.call_later``."""
        return asyncio.get_running_loop().call_later(delay_ms / 1000, callback, *args)

    async def sleep(self, delay_ms: float) -> None:
        """See ``Clock.sleep``."""
        await asyncio.sleep(delay_ms / 1000)
