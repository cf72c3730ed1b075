"""Settings of the Python interpreter for a broker's process: no long pauses, no unused memory.

- **Garbage collection.** CPython's full collection visits every container object and stops the program meanwhile:
  0.1 to 0.3 s with 50,000 groups or a request of 100,000 partitions in memory. It runs when many objects have survived,
  that is, during such a request. The broker's own objects need none: they refer to each other without cycles, or the
  cycles are broken when a connection, a task or a topic ends, and young cycles (an exception and its traceback) are
  found by the collections of the two young generations, which take a millisecond. So full collections run when no
  request has come for a while, and once an hour as a precaution.
- **Freed memory.** The C library keeps memory that large requests have freed, some 25 MB after a few. The broker has
  it return the whole pages to the system if there were large requests since the last time.
- **Switch interval.** A thread that decodes a large message (``server/dispatch/``) holds the interpreter's lock for
  this long before the event loop gets it. Python's default is 5 ms.
"""

import gc
import sys
from collections.abc import Callable
from typing import Final

from kafkapy.clock import Clock, TimerHandle

CHECK_MS: Final = 30_000
"""Interval of the checks whether the broker is idle (no request since the last check) and has freed memory."""

LONGEST_PAUSE_MS: Final = 3_600_000
"""A broker that is never idle runs a full collection after this time."""

SWITCH_INTERVAL_S: Final = 0.001

_NEVER: Final = 2**31 - 1
"""Collections of the middle generation before a full one."""


def return_freed_memory() -> None:
    """Have the C library return freed memory to the system; only glibc can.

    It takes some milliseconds, without the interpreter's lock.
    """
    import ctypes  # a megabyte, which a broker without large requests doesn't need

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class Interpreter:
    """Applies the settings from ``start`` to ``stop``."""

    __slots__ = (
        "_clock", "_request_count", "_large_count", "_return_memory", "_seen_count", "_seen_large_count",
        "_collected_count", "_collected_s", "_timer", "_before",
    )  # fmt: skip

    def __init__(
        self,
        clock: Clock,
        request_count: Callable[[], int],
        large_count: Callable[[], int],
        return_memory: Callable[[], None] = return_freed_memory,
    ) -> None:
        """``request_count`` returns how many requests the broker has served since its start, ``large_count`` how many
        computations for large ones it has started.
        """
        self._clock = clock
        self._request_count = request_count
        self._large_count = large_count
        self._return_memory = return_memory
        self._seen_count = self._seen_large_count = self._collected_count = 0
        self._collected_s = clock.monotonic_s()
        self._timer: TimerHandle | None = None
        self._before = (gc.get_threshold(), sys.getswitchinterval())

    def start(self) -> None:
        """Change the settings; no collection visits the objects that exist now."""
        gc.freeze()
        gc.set_threshold(*self._before[0][:2], _NEVER)
        gc.enable()
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        self._timer = self._clock.call_later(CHECK_MS, self._check)

    def stop(self) -> None:
        """Restore the settings."""
        if self._timer is not None:
            self._timer.cancel()
        gc.unfreeze()
        gc.set_threshold(*self._before[0])
        sys.setswitchinterval(self._before[1])

    def _check(self) -> None:
        """Run a full collection if requests came since the last one, and the broker is idle or the last one is old.

        Return the memory that large requests have freed.
        """
        self._timer = self._clock.call_later(CHECK_MS, self._check)
        count, now_s = self._request_count(), self._clock.monotonic_s()
        is_idle, self._seen_count = count == self._seen_count, count
        is_due = (now_s - self._collected_s) * 1000 >= LONGEST_PAUSE_MS
        if count != self._collected_count and (is_idle or is_due):
            gc.collect()
            self._collected_count, self._collected_s = count, now_s
        large_count = self._large_count()
        if large_count != self._seen_large_count:
            self._seen_large_count = large_count
            self._return_memory()
