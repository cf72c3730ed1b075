"""Fair shares of the event loop: long work runs in slices, and other connections are served between two slices.

Three kinds of work may take longer than a slice, and all of them wait in the one queue of their loop:

- a handler that is a generator: each ``yield`` is a place where it may be paused, its return value is the response;
- a coroutine that goes through a long list with ``async for … in OneByOne(…)``, or calls ``await pause()`` between two
  elements. After an event it may ``begin`` a new slice, so that short work is not queued;
- a connection that sends many requests without waiting for the responses.

Each iteration of the event loop takes at most one entry from the queue and gives it ``SLICE_S``. The delay of a small
request therefore does not grow with the number of long ones. One step (the work between two places to pause) must stay
short, some hundred microseconds; nothing can interrupt it.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")
R = TypeVar("R")
Steps = Generator[None, None, T]
"""Work with places to pause: each ``yield`` is one, the generator's return value is the result."""

MaybeSteps: TypeAlias = T | Steps[T]
"""The result of work, or the steps to it where there is much to do."""

Continuation = Callable[["asyncio.Future[Any] | None", Steps[T]], Coroutine[Any, Any, R]]
"""Returns the coroutine that runs the steps that are left after the first slice; see ``Turns.run``."""

FIRST_SLICE_S: Final = 0.001
"""Seconds of work before a request or a connection goes to the queue: many may start in one iteration."""

UNTIMED_STEPS: Final = 6
"""Steps before the first look at the time."""

SLICE_S: Final = 0.005
"""Seconds of work for an entry of the queue."""

PIECE: Final = 64
"""Elements between two places to pause, where each costs some microseconds."""


def pieces(elements: Sequence[T], size: int = PIECE) -> Iterator[Sequence[T]]:
    """Cut a long list into parts of ``size``, between which its work may be paused."""
    for start in range(0, len(elements), size):
        yield elements[start : start + size]


class Turns:
    """The queue of one event loop's long work."""

    __slots__ = ("now_s", "_loop", "_queue", "_slice_end_s", "_awaited", "__weakref__")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.now_s: Callable[[], float] = loop.time
        """The loop's time in seconds: slices are measured in real time, whatever clock the broker has."""
        self._loop = loop
        self._queue: deque[Callable[[], None]] = deque()
        self._slice_end_s = 0.0
        self._awaited: asyncio.Future[Any] | None = None

    @property
    def is_over(self) -> bool:
        """Whether the current slice has ended: the running work should go to the queue."""
        return self.now_s() >= self._slice_end_s

    def begin(self, slice_s: float | None = None) -> None:
        """Start a slice now, of ``FIRST_SLICE_S`` unless told otherwise."""
        self._slice_end_s = self.now_s() + (FIRST_SLICE_S if slice_s is None else slice_s)

    def run(self, steps: Steps[T], continuation: Continuation[T, R]) -> "T | asyncio.Task[R]":
        """Run ``steps``: return their result if a first slice is enough for them, else a task for the other steps.

        ``continuation`` gets the steps and the future that they wait for, or None, and returns the task's coroutine.
        Raises an error of the steps within the first slice. The first steps are not timed: most requests have no more.
        """
        try:
            for _ in range(UNTIMED_STEPS):
                next(steps)
                if self._awaited is not None:
                    break
            else:
                self.begin()
                now_s = self.now_s
                while now_s() < self._slice_end_s:
                    next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        return self._loop.create_task(continuation(self.take_awaited(), steps))

    def wait_for(self, awaited: "asyncio.Future[Any]") -> None:
        """End the slice of the running steps, which ``yield`` next: they go on when ``awaited`` is done."""
        self._awaited = awaited
        self._slice_end_s = 0.0

    def end_slice(self) -> None:
        """End the slice of the running steps, which ``yield`` next: they wait for admission, as large requests do."""
        nothing: asyncio.Future[None] = self._loop.create_future()
        nothing.set_result(None)
        self.wait_for(nothing)

    def take_awaited(self) -> "asyncio.Future[Any] | None":
        """Return the future that the paused steps wait for, if any."""
        awaited, self._awaited = self._awaited, None
        return awaited

    def enqueue(self, work: Callable[[], None]) -> None:
        """Call ``work`` in a later iteration of the loop, after the entries that are in the queue already."""
        self._queue.append(work)
        if len(self._queue) == 1:
            self._loop.call_soon(self._run_next)

    def _run_next(self) -> None:
        work = self._queue[0]
        self.begin(SLICE_S)
        try:
            work()
        finally:  # an error of the work goes to the loop's exception handler, and the queue goes on
            self._queue.popleft()
            if self._queue:
                self._loop.call_soon(self._run_next)

    async def next_turn(self) -> None:
        """Wait for a slice."""
        granted: asyncio.Future[None] = self._loop.create_future()

        def grant() -> None:
            if not granted.done():
                granted.set_result(None)

        self.enqueue(grant)
        await granted
        self.begin(SLICE_S)


_turns_by_loop: "WeakKeyDictionary[asyncio.AbstractEventLoop, Turns]" = WeakKeyDictionary()


def turns() -> Turns:
    """Return the queue of the running event loop."""
    loop = asyncio.get_running_loop()
    found = _turns_by_loop.get(loop)
    if found is None:
        found = _turns_by_loop[loop] = Turns(loop)
    return found


def finish(steps: Steps[T]) -> T:
    """Run ``steps``, which call no ``wait_for``, without a pause; return their result or raise their error."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


def while_true(condition: Callable[[], bool], steps: Steps[object]) -> Steps[None]:
    """Do ``steps``, but end them after a pause if ``condition`` is not true any more."""
    for _ in steps:
        yield
        if not condition():
            return


async def pause() -> None:
    """Let other work run if the current slice is over; call it between two elements of a list that may be long."""
    queue = turns()
    if queue.is_over:
        await queue.next_turn()


class OneByOne(AsyncIterator[T]):
    """``async for`` over elements that may be many: other work may run between two of them, see ``pause``.

    There is no pause before the first: work on one element is straight.
    """

    __slots__ = ("_elements", "_has_begun")

    def __init__(self, elements: Iterable[T]) -> None:
        self._elements = iter(elements)
        self._has_begun = False

    async def __anext__(self) -> T:
        """Return the next element."""
        for element in self._elements:
            if self._has_begun:
                await pause()
            self._has_begun = True
            return element
        raise StopAsyncIteration


async def in_turns(steps: Steps[T]) -> T:
    """Run ``steps`` to their end, with pauses; return their result or raise their error."""
    queue = turns()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        if queue.is_over:
            awaited = queue.take_awaited()
            if awaited is not None:
                await asyncio.wait([awaited])
            await queue.next_turn()


async def other_slices(awaited: "asyncio.Future[Any] | None", steps: Steps[T]) -> T:
    """Go on with ``steps`` after their first slice, when ``awaited`` is done; return their result."""
    if awaited is not None:
        await asyncio.wait([awaited])
    await turns().next_turn()
    return await in_turns(steps)


async def _result_of_others(awaited: "asyncio.Future[Any] | None", steps: Steps[T | Awaitable[T]]) -> T:
    result = await other_slices(awaited, steps)
    return await result if isinstance(result, Awaitable) else result


def at_once_or_in_turns(steps: Steps[T | Awaitable[T]]) -> T | Awaitable[T]:
    """Run ``steps``: within a first slice if that is enough, else the rest in a task.

    Raises an error of the steps within the first slice. If they return an awaitable, its result is the result.
    """
    return turns().run(steps, _result_of_others)
