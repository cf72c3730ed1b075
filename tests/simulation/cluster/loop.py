"""An event loop with virtual time: it never waits, and one seed decides everything that is left open.

Each call on the loop belongs to a ``Node``, a simulated process: the one in whose context it was scheduled. So the loop
can pause one process while the others go on, and tell after each call whose state may have changed. Calls of one
instant run in the order in which they were scheduled, as asyncio promises. Events that may come in any order in a real
cluster (messages, writes to disks, answers of the metadata store) take a time that the seed draws, and
``kafkapy.turns`` pauses at places that the seed chooses.
"""

import asyncio
import heapq
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, ContextVar, copy_context
from random import Random
from typing import Any, Final, TypeVar

from kafkapy.turns import turns

T = TypeVar("T")

PAUSE_SHARE: Final = 0.3
"""The share of the places to pause at which a slice of the loop's time counts as over."""


UNWINDING_ROUNDS: Final = 5
UNWINDING_TURNS: Final = 100

_unended: Final[list["asyncio.Task[Any]"]] = []
"""Tasks of failed histories that can't be cancelled; they are kept, so that nothing of them runs any more."""


class Node:
    """A simulated process; its name is for the history."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_paused = False
        self.held: list[Call] = []
        """Calls that wait for the end of the pause."""
        self.context = copy_context()
        self.context.run(NODE.set, self)


NODE: ContextVar[Node | None] = ContextVar("NODE", default=None)
"""The process that runs."""


class Call:
    """A scheduled call: ``asyncio.Handle`` and ``asyncio.TimerHandle`` in one."""

    __slots__ = ("when_s", "order", "callback", "args", "context", "node", "is_cancelled")

    def __init__(
        self, when_s: float, order: int, callback: Callable[..., object], args: tuple[Any, ...], context: Context
    ) -> None:
        self.when_s = when_s
        self.order = order
        self.callback = callback
        self.args = args
        self.context = context
        self.node = context.get(NODE)
        self.is_cancelled = False

    def __lt__(self, other: "Call") -> bool:
        return (self.when_s, self.order) < (other.when_s, other.order)

    def cancel(self) -> None:
        self.is_cancelled = True
        self.args = ()

    def cancelled(self) -> bool:
        return self.is_cancelled

    def when(self) -> float:
        return self.when_s


class StuckError(Exception):
    """Nothing is scheduled any more, and what was waited for has not come."""


class SimulatedLoop(asyncio.AbstractEventLoop):
    """``after_call`` is called after each call with the process that it belonged to; what it raises ends the run."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.calls = 0
        """The number of calls that were run."""
        self.after_call: Callable[[Node | None], None] = _nothing
        self.failures: list[dict[str, Any]] = []
        """The contexts of exceptions that no code has handled."""
        self._now_s = 0.0
        self._order = 0
        self._ready: deque[Call] = deque()
        self._timers: list[Call] = []
        self._is_closed = False
        self._unwinds = False

    # running

    def run(self, coroutine: Coroutine[Any, Any, T], context: Context | None = None) -> T:
        """Run until ``coroutine`` is done; return its result."""
        events._set_running_loop(self)
        try:
            turns().now_s = self._unsteady_time
            task = self.create_task(coroutine, context=context)
            while not task.done():
                self._turn()
            return task.result()
        finally:
            self._unwind()
            events._set_running_loop(None)

    def _unwind(self) -> None:
        """Cancel what is still running: the garbage collector would end it later, within another history."""
        self.after_call = _nothing
        self._unwinds = True
        for _ in range(UNWINDING_ROUNDS):
            tasks = asyncio.all_tasks(self)
            if not tasks:
                return
            for task in tasks:
                task.cancel()
            for _ in range(UNWINDING_TURNS):
                if self._ready:
                    self._turn()
        _unended.extend(asyncio.all_tasks(self))

    def _turn(self) -> None:
        ready, timers = self._ready, self._timers
        if not ready:
            while timers and timers[0].is_cancelled:
                heapq.heappop(timers)
            if not timers:
                raise StuckError
            self._now_s = max(self._now_s, timers[0].when_s)
        while timers and timers[0].when_s <= self._now_s:
            ready.append(heapq.heappop(timers))
        for _ in range(len(ready)):
            call = ready.popleft()
            if call.is_cancelled:
                continue
            node = call.node
            if node is not None and node.is_paused and not self._unwinds:
                node.held.append(call)
                continue
            self.calls += 1
            try:
                call.context.run(call.callback, *call.args)
            except Exception as error:  # noqa: BLE001  # as an event loop does
                self.call_exception_handler({"message": f"a call of {node and node.name} failed", "exception": error})
            self.after_call(node)

    def resume(self, node: Node) -> None:
        """End the pause of a process."""
        node.is_paused = False
        held, node.held = node.held, []
        self._ready.extend(held)

    def _unsteady_time(self) -> float:
        return self._now_s + (self.random.random() < PAUSE_SHARE)

    # asyncio's interface

    def time(self) -> float:
        return self._now_s

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Call:  # type: ignore[override]
        call = Call(0.0, 0, callback, args, copy_context() if context is None else context)
        self._ready.append(call)
        return call

    call_soon_threadsafe = call_soon  # type: ignore[assignment]  # there are no threads

    def call_at(self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Call:  # type: ignore[override]
        self._order += 1
        call = Call(when, self._order, callback, args, copy_context() if context is None else context)
        heapq.heappush(self._timers, call)
        return call

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Call:  # type: ignore[override]
        return self.call_at(self._now_s + max(delay, 0.0), callback, *args, context=context)

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Generator[Any, None, T] | Coroutine[Any, Any, T], *, name: str | None = None, context: Any = None
    ) -> "asyncio.Task[T]":
        return asyncio.Task(coro, loop=self, name=name, context=context)  # type: ignore[arg-type]

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> "asyncio.Future[T]":  # type: ignore[override]
        """Run the function after a drawn time, as a thread would beside the loop."""
        future: asyncio.Future[T] = self.create_future()
        self.call_later(self.random.choice((0.001, 0.02)), _run_into, future, func, args)
        return future

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.failures.append(context)

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return self._is_closed

    def close(self) -> None:
        self._is_closed = True
        self._ready.clear()
        self._timers.clear()
        self.failures = []
        self.after_call = _nothing  # ``kafkapy.turns`` keeps a loop, which must not keep the brokers
        self.__dict__.pop("create_connection", None)

    def add_reader(self, fd: Any, callback: Callable[..., object], *args: Any) -> None:  # type: ignore[override]
        """Nobody connects to the real sockets of the listeners."""

    def remove_reader(self, fd: Any) -> bool:
        return True


def _nothing(_: Node | None) -> None: ...


def _run_into(future: "asyncio.Future[T]", function: Callable[..., T], args: tuple[Any, ...]) -> None:
    if not future.done():
        future.set_result(function(*args))


class SimulatedClock:
    """The loop's time as a ``kafkapy.clock.Clock``."""

    START_MS: Final = 1_600_000_000_000

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop

    def now_ms(self) -> int:
        return self.START_MS + int(self._loop.time() * 1000)

    def monotonic_s(self) -> float:
        return self._loop.time()

    def machine_s(self) -> float:
        return self._loop.time()

    def call_later(self, delay_ms: float, callback: Callable[..., object], *args: Any) -> Call:
        return self._loop.call_later(delay_ms / 1000, callback, *args)

    async def sleep(self, delay_ms: float) -> None:
        await asyncio.sleep(delay_ms / 1000)
