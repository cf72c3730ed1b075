"""An event loop in a separate thread, for a broker in a test's process."""

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from kafkapy.network.loop import BrokerLoop
from kafkapy.testing.errors import NotInTimeError
from kafkapy.testing.loop_calls import check_process

T = TypeVar("T")


class LoopThread:
    """Runs coroutines for other threads of its process from its creation until ``close``.

    The loop is always a ``BrokerLoop``, whatever the test's loop is: the broker watches sockets, which the default loop
    of Windows does not support.
    """

    def __init__(self, name: str) -> None:
        self.process: Final = os.getpid()
        self._ready = threading.Event()
        self._stopped: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        self._ready.wait()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=BrokerLoop) as runner:
            runner.run(self._live())

    async def _live(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopped = asyncio.Event()
        self._ready.set()
        await self._stopped.wait()

    @property
    def is_inherited(self) -> bool:
        """Whether this process was forked from the one that the thread runs in."""
        return self.process != os.getpid()

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> "Future[T]":
        """Run ``coroutine`` on the loop; cancelling the future cancels it.

        Raises ``BrokerNotRunningError`` in a forked child.
        """
        if self.is_inherited:
            coroutine.close()
            check_process(self.process)
        assert self._loop is not None, "set before __init__ returns"
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

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
        if self._thread.is_alive():
            assert self._loop is not None
            assert self._stopped is not None
            self._loop.call_soon_threadsafe(self._stopped.set)
            self._thread.join()
