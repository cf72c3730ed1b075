"""The broker's event loop: asyncio's, on which small answers leave together, and which is awake for a busy client.

A turn serves the sockets that one look at the selector found ready. An answer that leaves in its midst wakes its
client, who takes from the processor what the other requests need, and sleeps again until the next answer comes. When
the answers of a turn leave one after the other, a commit on 16 connections costs a tenth less of the broker's processor
time or more (two processors; ``bench/results/2026-11-22-loop.md``).
"""

import asyncio
import selectors
from typing import Final, Protocol

from kafkapy.clock import Clock, SystemClock

FEW: Final = 3
"""Sockets that have to be ready together before answers wait for each other: one or two are better served at once."""

MOST: Final = 64
"""Connections that wait for each other: some milliseconds of small requests."""

POLL_S: Final = 200e-6
"""How long to look for the next request before sleeping, as long as an idle Linux guest polls before it halts. On a
virtual machine who sleeps is woken in 30 µs or more, and finds the caches cold; asking the selector takes two."""

QUICK_WAITS: Final = 8
"""Waits, one after the other, that have to end within ``POLL_S`` with a request of the same client before there is any
looking: a burst is not enough, and several clients keep the broker awake by themselves."""


class Answering(Protocol):
    """What is asked of a connection."""

    def flush(self) -> bool:
        """Write the answers that wait; tell whether the connection is to end."""
        ...


class LateAnswers:
    """The connections whose answers leave at the end of the turn."""

    __slots__ = ("ready_count", "_connections")

    def __init__(self) -> None:
        self.ready_count = 0
        """Sockets that this turn serves; 0 on a loop that doesn't tell."""
        self._connections: list[Answering] = []

    def add(self, connection: Answering) -> None:
        """Call its ``flush`` before the loop waits."""
        self._connections.append(connection)
        if len(self._connections) >= MOST:
            self.leave()

    def leave(self) -> bool:
        """Let them all leave now; tell whether one of the connections is to end, which is for the loop to do."""
        if not self._connections:
            return False
        connections, self._connections = self._connections, []
        ended = False
        for connection in connections:
            ended = connection.flush() or ended
        return ended


Ready = list[tuple[selectors.SelectorKey, int]]


class _Selector(selectors.DefaultSelector):
    """Lets the late answers leave before it waits, and counts what is ready."""

    def __init__(self, late: LateAnswers) -> None:
        super().__init__()
        self._late = late

    def select(self, timeout: float | None = None) -> Ready:
        if self._late.leave():
            timeout = 0  # the loop found nothing to do, and has something now
        ready = super().select(timeout) if timeout == 0 else self._wait(timeout)
        self._late.ready_count = len(ready)
        return ready

    def _wait(self, timeout: float | None) -> Ready:
        return super().select(timeout)


class PollingSelector(_Selector):
    """Looks again and again for a moment before it sleeps, while one client asks again as soon as it is answered."""

    def __init__(self, late: LateAnswers, clock: Clock) -> None:
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
    """Watches sockets by a selector on every system: the broker accepts by itself."""

    def __init__(self, *, polls: bool = False) -> None:
        """``polls``: the process is the broker's own, so that nobody in it waits for the interpreter."""
        self.late_answers = LateAnswers()
        super().__init__(PollingSelector(self.late_answers, SystemClock()) if polls else _Selector(self.late_answers))


def late_answers() -> LateAnswers:
    """Those of the running loop; on any other loop than a ``BrokerLoop`` none is ever late."""
    loop = asyncio.get_running_loop()
    return loop.late_answers if isinstance(loop, BrokerLoop) else LateAnswers()
