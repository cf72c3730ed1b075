"""A clock whose time changes only when a test advances it."""

import asyncio
import heapq
from collections.abc import Callable
from typing import Any


class ManualTimer:
    """A callback that runs once its time has come, unless it was cancelled before."""

    __slots__ = ("due_ms", "_order", "_callback", "_arguments", "is_cancelled")

    def __init__(self, due_ms: float, order: int, callback: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        self.due_ms = due_ms
        self._order = order
        self._callback = callback
        self._arguments = arguments
        self.is_cancelled = False

    def __lt__(self, other: "ManualTimer") -> bool:
        return (self.due_ms, self._order) < (other.due_ms, other._order)

    def cancel(self) -> None:
        """Make sure that the callback does not run; calling it twice, or after it ran, does nothing."""
        self.is_cancelled = True

    def run(self) -> None:
        """Call the callback."""
        self._callback(*self._arguments)


class ManualClock:
    """A ``kafkapy.clock.Clock`` whose time only ``advance`` moves; it needs no event loop unless ``sleep`` is used.

    Due timers run in the order of their times, those of one instant in the order in which they were set; a timer that
    another one sets runs in the same ``advance`` if it is due within it. A timer with a delay of 0 or less runs in the
    next ``advance`` (``advance(0)`` is enough), as that of an event loop runs in the next iteration.
    """

    __slots__ = ("_start_ms", "_elapsed_ms", "_timers", "_order")

    def __init__(self, start_ms: int = 1_600_000_000_000) -> None:
        self._start_ms = start_ms
        self._elapsed_ms = 0.0
        self._timers: list[ManualTimer] = []
        self._order = 0

    def now_ms(self) -> int:
        """See ``Clock.now_ms``."""
        return self._start_ms + int(self._elapsed_ms)

    def monotonic_s(self) -> float:
        """See ``Clock.monotonic_s``."""
        return self._elapsed_ms / 1000

    def machine_s(self) -> float:
        """See ``Clock.machine_s``."""
        return self._elapsed_ms / 1000

    def call_later(self, delay_ms: float, callback: Callable[..., object], *args: Any) -> ManualTimer:
        """Run ``callback(*args)`` in the ``advance`` that passes ``delay_ms`` from now."""
        self._order += 1
        timer = ManualTimer(self._elapsed_ms + max(delay_ms, 0), self._order, callback, args)
        heapq.heappush(self._timers, timer)
        return timer

    async def sleep(self, delay_ms: float) -> None:
        """Wait until the clock was advanced by ``delay_ms``; 0 waits for one iteration of the event loop."""
        await sleep_by(self.call_later, delay_ms)

    def advance(self, duration_ms: float) -> None:
        """Advance the time by ``duration_ms`` and run the timers that are due by then, each at its own instant."""
        end_ms = self._elapsed_ms + duration_ms
        while self._timers and self._timers[0].due_ms <= end_ms:
            timer = heapq.heappop(self._timers)
            if not timer.is_cancelled:
                self._elapsed_ms = max(self._elapsed_ms, timer.due_ms)
                timer.run()
        self._elapsed_ms = end_ms

    def pending_timers(self) -> int:
        """How many timers are set and not cancelled."""
        return sum(not timer.is_cancelled for timer in self._timers)


async def sleep_by(call_later: Callable[..., ManualTimer], delay_ms: float) -> None:
    """``Clock.sleep`` by a clock's ``call_later``."""
    loop = asyncio.get_running_loop()
    woken = loop.create_future()

    def wake() -> None:
        if not woken.done():
            woken.set_result(None)

    if delay_ms <= 0:
        loop.call_soon(wake)
        await woken
        return
    timer = call_later(delay_ms, wake)
    try:
        await woken
    finally:
        timer.cancel()
