"""Work that nobody waits for, done by whichever of two threads gets on with it.

The first thread runs under Linux's idle policy: a broker that has something to do takes its processor at once, as if
nothing ran there, while it would let a merely nice one end its slice of some milliseconds. But where others keep every
processor busy such a thread stands still, and without a privilege it can't leave that policy again. So work is a
generator of short steps, which both threads can go on with: when the first has waited for a processor more than twice
as long as it has run, the second, as nice as its process is, takes over for a while. Where the system has no such
policy, or doesn't tell how long a thread has waited, the second does everything.
"""

import math
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from kafkapy.clock import Clock, SystemClock
from kafkapy.storage.io import portable
from kafkapy.storage.io.portable import ThreadTimes

T = TypeVar("T")
Steps = Generator[None, None, T]
"""Work in steps of some milliseconds, and what it comes to."""

SYSTEM: Final = SystemClock()
LONGEST_WAIT: Final = 2
"""How many times as long as it runs the idle thread may wait: work takes three times as long as it would alone."""
WINDOW_NS: Final = 500_000_000
"""How long it runs and waits before that is looked at: some twenty slices of the scheduler."""
NICE_S: Final = 15.0
"""For how long the other thread has the work then; each further look at the idle one costs a second or two."""


class Patience:
    """The two threads of one process; ``finish`` is called on the nice one, for one work after the other."""

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

    def finish(self, steps: Steps[T]) -> T:
        """Do all ``steps``; return what they come to, or raise what they raise."""
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
        """Go on, on the idle thread, as long as it has its share; return until when the other shall."""
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
