"""Runs background work on one of two threads: an idle one, or a nice one if the idle one gets no processor.

The first thread runs under Linux's idle policy. A broker with work to do gets the processor from it at once, while a
thread that is only nice would first finish its slice of some milliseconds. But where other processes keep all
processors busy, an idle thread does not run at all, and without a privilege it can't leave that policy again. So the
work is a generator of short steps that both threads can continue. When the first thread has waited for a processor more
than twice as long as it has run, the second thread, with the niceness of its process, takes over for some time. Where
the system has no such policy, or doesn't measure how long a thread has waited, the second thread does everything.
"""

import math
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from kafkapy.clock import Clock, SystemClock
from kafkapy.platform import portable
from kafkapy.platform.portable import ThreadTimes

T = TypeVar("T")
Steps = Generator[None, None, T]
"""Work in steps of some milliseconds; the generator returns the result."""

SYSTEM: Final = SystemClock()
LONGEST_WAIT: Final = 2
"""The idle thread may wait this many times as long as it runs: the work takes three times as long as it would alone."""
WINDOW_NS: Final = 500_000_000
"""Time that the idle thread runs and waits between two checks of that: about twenty slices of the scheduler."""
NICE_S: Final = 15.0
"""Time that the other thread has the work then; each further trial of the idle thread takes a second or two."""


class IdleRunner:
    """The two threads of one process; ``run`` is called on the nice one, for one piece of work at a time."""

    def __init__(
        self,
        become_idle: Callable[[], ThreadTimes | None] = portable.become_idle,
        clock: Clock = SYSTEM,
    ) -> None:
        self._become_idle = become_idle
        self._now_s = clock.monotonic_s
        self._times: ThreadTimes | None = None
        self._nice_until_s = -math.inf
        self._idle_thread = ThreadPoolExecutor(1, "kafkapy-idle", self._begin)

    def _begin(self) -> None:
        self._times = self._become_idle()

    def run(self, steps: Steps[T]) -> T:
        """Do all ``steps``; return their result, or raise their exception."""
        try:
            while True:
                if self._now_s() < self._nice_until_s:
                    next(steps)
                else:
                    self._nice_until_s = self._idle_thread.submit(self._until_starved, steps).result()
        except StopIteration as end:
            result: T = end.value
            return result

    def _until_starved(self, steps: Steps[T]) -> float:
        """Continue on the idle thread while it gets its share; return the time until which the other shall work."""
        times = self._times
        if times is None:
            return math.inf
        ran_ns, waited_ns = times()
        while True:
            next(steps)
            now_ran_ns, now_waited_ns = times()
            ran, waited = now_ran_ns - ran_ns, now_waited_ns - waited_ns
            if ran + waited >= WINDOW_NS:
                if waited > LONGEST_WAIT * ran:
                    return self._now_s() + NICE_S
                ran_ns, waited_ns = now_ran_ns, now_waited_ns
