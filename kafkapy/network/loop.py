"""The broker's event loop: asyncio's, with a selector that sends late replies and polls for a busy client.

Before the selector waits, the replies that were kept for the end of the iteration are sent (``LateReplies`` in
``pacing.py``).

While one client sends its next request as soon as it has the response, ``PollingSelector`` looks for that request for
up to ``POLL_S`` before it sleeps. A commit on one connection then takes 119 instead of 180 µs for the same processor
time of 126 µs; while other programs use the processors it takes 105 µs as before, for 7 % more processor time. Reading
a log of 2 GB takes 0.40 instead of 0.46 s per GB (two processors of a virtual machine,
``bench/results/request-path.md``). Polling for any number of clients took 11 % more processor time with two
connections and up to a fifth more with 16.
"""

import asyncio
import os
import selectors
from typing import Final

from kafkapy.clock import Clock, SystemClock
from kafkapy.network.pacing import LateReplies

POLL_S: Final = 200e-6
"""Seconds to look for the next request before sleeping, as long as an idle Linux guest polls before it halts. On a
virtual machine a process that sleeps is woken in 30 µs or more, with cold caches; asking the selector takes 2 µs."""

QUICK_WAITS: Final = 8
"""Successive waits that have to end within ``POLL_S`` with a request of the same client before the selector polls: a
burst is not enough, and with several clients the process sleeps seldom."""


Ready = list[tuple[selectors.SelectorKey, int]]


class _Selector(selectors.DefaultSelector):
    """Sends the late replies before it waits, and counts the sockets that are ready."""

    def __init__(self, late: LateReplies) -> None:
        super().__init__()
        self._late = late

    def select(self, timeout: float | None = None) -> Ready:
        if self._late.leave():
            timeout = 0  # a connection has ended, which gives the loop something to do
        ready = super().select(timeout) if timeout == 0 else self._wait(timeout)
        self._late.ready_count = len(ready)
        return ready

    def _wait(self, timeout: float | None) -> Ready:
        return super().select(timeout)


class PollingSelector(_Selector):
    """Polls for up to ``POLL_S`` before it sleeps, while one client sends each request after the last response."""

    def __init__(self, late: LateReplies, clock: Clock) -> None:
        super().__init__(late)
        self._now_s = clock.monotonic_s
        self._quick_waits = 0
        self._descriptor = -1

    def _wait(self, timeout: float | None) -> Ready:
        began_s = self._now_s()
        ready: Ready = []
        if self._quick_waits >= QUICK_WAITS:
            poll_s = POLL_S if timeout is None else min(POLL_S, timeout)
            look = super(_Selector, self).select
            while not ready and (waited_s := self._now_s() - began_s) < poll_s:
                ready = look(0)
            if timeout is not None:
                timeout = max(timeout - waited_s, 0)
        if not ready:
            ready = super()._wait(timeout)
        self._learn(ready, self._now_s() - began_s)
        return ready

    def _learn(self, ready: Ready, waited_s: float) -> None:
        descriptor = ready[0][0].fd if len(ready) == 1 else -1
        if 0 <= descriptor == self._descriptor and waited_s <= POLL_S:
            self._quick_waits += 1
        else:
            self._quick_waits = 0
            self._descriptor = descriptor


class BrokerLoop(asyncio.SelectorEventLoop):
    """Watches sockets by a selector on every system: the broker calls accept itself."""

    def __init__(self, *, polls: bool = False) -> None:
        """``polls``: the process is the broker's own, so that no other thread needs the interpreter meanwhile."""
        self.late_replies = LateReplies()
        self.process: Final = os.getpid()
        """The process that the loop runs in: a forked child has a copy of it, but not of the thread that runs it."""
        super().__init__(PollingSelector(self.late_replies, SystemClock()) if polls else _Selector(self.late_replies))


def late_replies() -> LateReplies:
    """Return the late replies of the running loop; on any other loop than a ``BrokerLoop`` no reply is late."""
    loop = asyncio.get_running_loop()
    return loop.late_replies if isinstance(loop, BrokerLoop) else LateReplies()
