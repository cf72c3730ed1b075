"""A clock that runs with the machine's time and that a test can advance, so that days pass at once.

It shows the machine's time plus all that ``advance`` has added. Its timers run on the broker's event loop, at their
time or within an ``advance``.
"""

import asyncio
import heapq
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from kafkapy.testing.clock.manual import ManualTimer, sleep_by
from kafkapy.testing.loop.calls import call_on

if TYPE_CHECKING:
    from datetime import timedelta

LONGEST_ADVANCE_MS: Final = 1000 * 366 * 86_400_000
"""A thousand years: a longer time is taken for a mistake."""
MOST_REPEATS: Final = 8
"""How often a timer that sets itself again runs within one ``advance``; then it runs once more at the end."""


class MovingTimer(ManualTimer):
    """``repeats`` counts the timers of the same ``advance`` that led to this one, each set by the one before."""

    __slots__ = ("repeats",)

    def __init__(
        self, due_ms: float, order: int, callback: Callable[..., object], arguments: tuple[Any, ...], repeats: int
    ) -> None:
        super().__init__(due_ms, order, callback, arguments)
        self.repeats = repeats


class MovingClock:
    """A ``kafkapy.clock.Clock`` of one broker. ``advance`` and the times may be used from any thread."""

    def __init__(self) -> None:
        self._added_ms = 0.0
        self._timers: list[MovingTimer] = []
        self._order = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._armed: asyncio.TimerHandle | None = None
        self._repeats = 0
        self._is_advancing = False

    @property
    def added_ms(self) -> float:
        """How far the clock is ahead of the machine's."""
        return self._added_ms

    def now_ms(self) -> int:
        """See ``Clock.now_ms``."""
        return time.time_ns() // 1_000_000 + int(self._added_ms)  # noqa: TID251  # the clock of a test

    def monotonic_s(self) -> float:
        """See ``Clock.monotonic_s``."""
        return self._now_ms() / 1000

    def machine_s(self) -> float:
        """See ``Clock.machine_s``."""
        return time.monotonic()  # noqa: TID251  # the machine takes this time, whatever a test adds

    def call_later(self, delay_ms: float, callback: Callable[..., object], *args: Any) -> MovingTimer:
        """Run ``callback(*args)`` on the running loop, ``delay_ms`` of this clock's time from now."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # timers of a loop that has ended will never run
            self._loop, self._timers, self._armed = loop, [], None
        self._order += 1
        timer = MovingTimer(self._now_ms() + max(delay_ms, 0), self._order, callback, args, self._repeats)
        heapq.heappush(self._timers, timer)
        if self._timers[0] is timer and not self._is_advancing:
            self._arm()
        return timer

    async def sleep(self, delay_ms: float) -> None:
        """See ``Clock.sleep``; 0 waits for one iteration of the event loop."""
        await sleep_by(self.call_later, delay_ms)

    def advance(self, duration_ms: "float | timedelta") -> None:
        """Advance the time by ``duration_ms``; when this returns, all due timers have run.

        Due timers run in order, each at its own instant. A timer that sets itself again runs at most ``MOST_REPEATS``
        times and once at the end: a check every five seconds does not run a million times for two months.
        Work that timers only start (answers, files that are written, other processes) may end later.
        Raises ``ValueError`` for a negative time and for more than a thousand years.
        """
        if not isinstance(duration_ms, int | float):
            from datetime import timedelta  # a caller with a timedelta has imported it

            duration_ms = duration_ms / timedelta(milliseconds=1)
        if not 0 <= duration_ms <= LONGEST_ADVANCE_MS or math.isnan(duration_ms):
            raise ValueError(f"a clock can be advanced by 0 to {LONGEST_ADVANCE_MS} ms, not by {duration_ms}")
        call_on(self._loop, lambda: self._advance(float(duration_ms)))

    def _advance(self, duration_ms: float) -> None:
        if self._is_advancing:
            raise RuntimeError("a timer's callback can't advance the clock that runs it")
        end_ms = self._now_ms() + duration_ms
        final_added_ms = self._added_ms + duration_ms
        self._is_advancing = True
        try:
            self._run_until(end_ms)
        finally:
            self._is_advancing, self._repeats = False, 0
            self._added_ms = final_added_ms
            for timer in self._timers:
                timer.repeats = 0
            self._arm()

    def _run_until(self, end_ms: float) -> None:
        at_end: list[MovingTimer] = []
        while self._timers and self._timers[0].due_ms <= end_ms:
            timer = heapq.heappop(self._timers)
            if timer.is_cancelled:
                continue
            if timer.repeats >= MOST_REPEATS:
                at_end.append(timer)
                continue
            self._run(timer, timer.due_ms)
        for timer in at_end:
            if not timer.is_cancelled:
                self._run(timer, end_ms)

    def _run(self, timer: MovingTimer, at_ms: float) -> None:
        """Run ``timer`` with the clock at ``at_ms``, unless it is later already."""
        self._added_ms += max(at_ms - self._now_ms(), 0)
        self._repeats = timer.repeats + 1 if self._is_advancing else 0
        assert self._loop is not None, "it was set when the timer was"
        try:
            timer.run()
        except Exception as error:  # noqa: BLE001  # as an event loop does: it must not keep the others from running
            self._loop.call_exception_handler({"message": f"A timer failed: {timer}", "exception": error})

    def _now_ms(self) -> float:
        return time.monotonic() * 1000 + self._added_ms  # noqa: TID251  # the clock of a test

    # the machine's time

    def _arm(self) -> None:
        """Have the loop call ``_due`` when the first timer is due."""
        if self._armed is not None:
            self._armed.cancel()
            self._armed = None
        while self._timers and self._timers[0].is_cancelled:
            heapq.heappop(self._timers)
        if self._timers and self._loop is not None and not self._loop.is_closed():
            delay_s = max(self._timers[0].due_ms - self._now_ms(), 0) / 1000
            self._armed = self._loop.call_later(delay_s, self._due)

    def _due(self) -> None:
        self._armed = None
        now_ms = self._now_ms()
        due = []
        while self._timers and self._timers[0].due_ms <= now_ms:
            due.append(heapq.heappop(self._timers))
        self._arm()
        for timer in due:  # timers that these set run in the loop's next iteration
            if not timer.is_cancelled:
                self._run(timer, timer.due_ms)
