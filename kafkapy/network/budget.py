"""The memory for incoming requests and unread responses: two budgets of ``queued.max.request.bytes`` each.

- Requests that have arrived in part: the budget counts the size of receive buffers, which grow with the bytes that
  arrive; a large announced length costs nothing. When the budget is used up, connections with frames above
  ``SMALL_FRAME_SIZE`` are not read, except one: the **exempt** connection may exceed the budget until its frame is
  complete, so that there is always progress. The connection with the fewest bytes to come is exempt.
- Responses above ``SMALL_FRAME_SIZE`` that a client has not read yet: they count, and while the budget is used up no
  request whose response may be large is served (``server/dispatch/``). Records that are sent from files don't count,
  bytes that occur in a response several times count once.
- Decoded requests share the second budget until they are answered (``RequestMemory``): a request of more than
  ``INLINE_SLOTS`` values counts with 100 bytes for each of them (``server/dispatch/``). A fetch of more than 100
  partitions that waits for records counts with 1,000 bytes for each of them.

Smaller frames and responses live in buffers that every connection has, and are not counted.

While a connection or request waits for memory, the holders of memory are checked once a second, so that peers that
stall or send slowly can't keep the others waiting. A connection is closed when

- nothing arrived, or was read, for ``STALLED_CHECKS`` seconds,
- its frame or response is still incomplete after ``MOST_CHECKS`` seconds, or
- it waits itself, and its peer has closed it before the frame was complete.

Meanwhile requests that wait for an event must not hold memory: ``RequestMemory.end_waiting`` ends the waiting of a
decoded request (a fetch is answered with the data that is there), and ``relieve`` is called, which ends the waiting for
topics (REQUEST_TIMED_OUT, 7).

An exempt connection from which nothing arrives for a second is no longer exempt. While nothing waits, a slow peer is
only subject to ``connections.max.idle.ms``, as in Apache Kafka.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from kafkapy.clock import Clock, TimerHandle

SMALL_FRAME_SIZE: Final = 65_536
DEFAULT_LIMIT: Final = 1 << 30
"""The limit in bytes if ``queued.max.request.bytes`` is -1; Apache Kafka has no limit then."""

CHECK_MS: Final = 1_000
STALLED_CHECKS: Final = 5
MOST_CHECKS: Final = 30


class Holder(Protocol):
    """A connection's incomplete request, its unread response, or a request to serve, as the budget sees it."""

    @property
    def missing_size(self) -> int:
        """Bytes that are still to come, or to be read."""
        ...

    def memory_granted(self) -> None:
        """Called when the holder may request memory again."""
        ...

    def is_abandoned(self) -> bool:
        """Whether the peer has closed the connection before the frame was complete."""
        ...

    def give_up(self, reason: str) -> None:
        """Close the connection; its memory is released when it is closed."""
        ...


class _AdmissionWaiter:
    """A request that waits until the budget is no longer used up."""

    __slots__ = ("admitted",)

    missing_size = 0

    def __init__(self) -> None:
        self.admitted: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def memory_granted(self) -> None:
        """See ``Holder``."""
        if not self.admitted.done():
            self.admitted.set_result(None)

    def is_abandoned(self) -> bool:
        """See ``Holder``."""
        return False

    def give_up(self, reason: str) -> None:
        """See ``Holder``."""


def _nothing() -> None:
    """Do nothing: the request waits for nothing."""


class RequestMemory:
    """The memory of one decoded request, for a ``with`` statement that lasts until the request is answered."""

    __slots__ = ("end_waiting", "_budget")

    missing_size = 0

    def __init__(self, budget: "FrameBudget", end_waiting: Callable[[], None] = _nothing) -> None:
        self.end_waiting = end_waiting
        """Ends the waiting of the request, if that is possible."""
        self._budget = budget

    def __enter__(self) -> "RequestMemory":
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Count nothing more: the request is answered."""
        self._budget.release(self)

    def charge(self, size: int) -> None:
        """Count ``size`` bytes more."""
        self._budget.charge(self, size)

    def memory_granted(self) -> None:
        """See ``Holder``: it never waits."""

    def is_abandoned(self) -> bool:
        """See ``Holder``."""
        return False

    def give_up(self, reason: str) -> None:
        """See ``Holder``."""


class _Usage:
    """The memory of one holder, and its progress at the last checks."""

    __slots__ = ("size", "seen_size", "stalled_checks", "checks")

    def __init__(self) -> None:
        self.size = 0
        self.seen_size = -1
        self.stalled_checks = 0
        self.checks = 0


class FrameBudget:
    """The bytes that large frames may take: of requests, or of responses."""

    __slots__ = ("available", "given_up", "relieve", "_clock", "_usages", "_waiting", "_exempt", "_timer")

    def __init__(self, clock: Clock, limit: int = DEFAULT_LIMIT) -> None:
        self.available = limit
        self.given_up = 0
        """The number of connections that were closed because they kept others waiting."""
        self.relieve: Callable[[], None] = _nothing
        """Called once a second while something waits for memory."""
        self._clock = clock
        self._usages: dict[Holder, _Usage] = {}
        self._waiting: dict[Holder, None] = {}
        self._exempt: Holder | None = None
        self._timer: TimerHandle | None = None

    def take(self, holder: Holder, size: int) -> bool:
        """Whether the holder's buffer may grow by ``size`` bytes; if not, its ``memory_granted`` is called later."""
        if size > self.available and self._exempt is not holder:
            if self._exempt is not None:
                self._wait(holder)
                return False
            self._exempt = holder
        self.charge(holder, size)
        return True

    def charge(self, holder: Holder, size: int) -> None:
        """Count ``size`` bytes that the holder has taken already."""
        self.available -= size
        self._usages.setdefault(holder, _Usage()).size += size

    async def admission(self) -> None:
        """Wait until the budget is not used up."""
        while self.available <= 0:
            request = _AdmissionWaiter()
            self._wait(request)
            await request.admitted

    def _wait(self, holder: Holder) -> None:
        self._waiting[holder] = None
        if self._timer is None:
            self._timer = self._clock.call_later(CHECK_MS, self._check)

    def release(self, holder: Holder) -> None:
        """Release all memory of the holder: its frame has been served, or its connection is closed."""
        self._waiting.pop(holder, None)
        usage = self._usages.pop(holder, None)
        if usage is not None:
            self.available += usage.size
        if self._exempt is holder:
            self._exempt = None
        self._grant()

    def _grant(self) -> None:
        """Let the waiting connections try again, the one with the fewest remaining bytes first."""
        for holder in sorted(self._waiting, key=lambda each: each.missing_size):
            if self._exempt is not None and self.available <= 0:
                return
            if holder in self._waiting and (self.available > 0 or not isinstance(holder, _AdmissionWaiter)):
                del self._waiting[holder]
                holder.memory_granted()

    def _check(self) -> None:
        self._timer = self._clock.call_later(CHECK_MS, self._check) if self._waiting else None
        for holder in tuple(self._waiting):
            if isinstance(holder, _AdmissionWaiter):
                if holder.admitted.cancelled():
                    del self._waiting[holder]
            elif holder.is_abandoned():
                self._close(holder, "the peer closed it in the middle of a request")
        if self._waiting:
            self.relieve()
            self._check_holders()
            self._grant()

    def _check_holders(self) -> None:
        for holder, usage in tuple(self._usages.items()):
            if holder in self._waiting:
                continue  # its socket is not read, so its peer can't be slow
            size = holder.missing_size
            if isinstance(holder, RequestMemory):
                holder.end_waiting()
            if not size:  # the request is complete and being served, for as long as that takes
                if holder is self._exempt:
                    self._exempt = None
                continue
            usage.checks += 1
            usage.stalled_checks = usage.stalled_checks + 1 if size == usage.seen_size else 0
            usage.seen_size = size
            if usage.stalled_checks >= STALLED_CHECKS:
                self._close(holder, "its peer stalled while others waited for memory")
            elif usage.checks >= MOST_CHECKS:
                self._close(holder, "its peer was too slow while others waited for memory")
            elif usage.stalled_checks and holder is self._exempt:
                self._exempt = None

    def _close(self, holder: Holder, reason: str) -> None:
        self.given_up += 1
        holder.give_up(reason)
