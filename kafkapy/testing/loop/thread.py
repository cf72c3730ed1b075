"""An event loop in a separate thread, for a broker in a test's process."""

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from kafkapy.clock import SystemClock
from kafkapy.network.loop import BrokerLoop
from kafkapy.testing.errors import BrokerNotRunningError, NotInTimeError
from kafkapy.testing.loop.calls import check_process

T = TypeVar("T")

NOT_RUNNING: Final = "the broker's thread does not run: start() it first"
STOPPED: Final = "the broker was stopped or closed before the call ended"

BEGIN_S: Final = 1.0
"""How long a thread may take to begin, of which ``close`` does not know whether it was started."""


class LoopThread:
    """Runs coroutines for other threads of its process from ``start`` until ``close``.

    The loop is always a ``BrokerLoop``, whatever the test's loop is: the broker watches sockets, which the default loop
    of Windows does not support.
    """

    def __init__(self, name: str) -> None:
        self.process: Final = os.getpid()
        self._ready = threading.Event()
        self._submitting = threading.RLock()
        self._is_wanted = False
        self._is_closed = False
        self._has_ended = False
        self._calls: set[asyncio.Task[Any]] = set()
        self._stopped: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread; its loop runs when this returns. Called once; if Ctrl-C ends it, ``close`` is called."""
        self._is_wanted = True
        self._thread.start()
        self._ready.wait()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=BrokerLoop) as runner:
            runner.run(self._live())

    async def _live(self) -> None:
        stopped = asyncio.Event()
        with self._submitting:
            self._loop, self._stopped = asyncio.get_running_loop(), stopped
            if self._is_closed:
                stopped.set()
        self._ready.set()
        await stopped.wait()
        with self._submitting:
            self._has_ended = True
        for _ in range(2):  # calls that were submitted become tasks, and begin
            await SystemClock().sleep(0)
        calls = tuple(self._calls)
        for call in calls:
            call.cancel()
        if calls:
            await asyncio.wait(calls)

    @property
    def is_running(self) -> bool:
        """Whether ``submit`` takes calls."""
        return self._loop is not None and not self._has_ended

    @property
    def is_inherited(self) -> bool:
        """Whether this process was forked from the one that the thread runs in."""
        return self.process != os.getpid()

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> "Future[T]":
        """Run ``coroutine`` on the loop; cancelling the future cancels it.

        Raises ``BrokerNotRunningError`` in a forked child, before ``start`` and after ``close``, and so does the future
        of a call that has not ended by then.
        """
        if self.is_inherited:
            coroutine.close()
            check_process(self.process)
        with self._submitting:
            if self._loop is None or self._has_ended:
                coroutine.close()
                raise BrokerNotRunningError(NOT_RUNNING)
            return asyncio.run_coroutine_threadsafe(self._result(coroutine), self._loop)

    async def _result(self, coroutine: Coroutine[Any, Any, T]) -> T:
        call = asyncio.current_task()
        assert call is not None, "a coroutine of the loop"
        self._calls.add(call)
        try:
            return await coroutine
        except asyncio.CancelledError:
            if call.cancelling() <= (1 if self._has_ended else 0):  # not by its caller
                raise BrokerNotRunningError(STOPPED) from None
            raise
        finally:
            self._calls.discard(call)

    def call(self, coroutine: Coroutine[Any, Any, T], limit_s: float) -> T:
        """Run ``coroutine`` on the loop and return its result. Raises ``NotInTimeError`` after ``limit_s``."""
        future = self.submit(coroutine)
        try:
            return future.result(limit_s)
        except TimeoutError:
            if future.done():
                raise
            future.cancel()
            raise NotInTimeError(f"the broker did not finish the call within {limit_s:g} s") from None
        except BaseException:
            future.cancel()  # Ctrl-C: the caller no longer waits
            raise

    def close(self) -> None:
        """End the loop, cancelling its tasks, and the thread; may be called repeatedly, and not in a forked child."""
        with self._submitting:
            self._is_closed = True
            if self._loop is not None and self._stopped is not None and not self._has_ended:
                self._loop.call_soon_threadsafe(self._stopped.set)
        if self._is_wanted:
            self._ready.wait(BEGIN_S)  # Ctrl-C during the start: the thread may begin now, and then ends at once
        if self._thread.is_alive():
            self._thread.join()
