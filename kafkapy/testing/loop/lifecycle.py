"""One ``start`` or ``close`` of a broker at a time, whichever threads and tasks call them."""

import threading
from types import TracebackType

from kafkapy.testing.loop.waiting import pause


class Lifecycle:
    """A lock for threads with ``with``, or for the tasks of event loops with ``async with``.

    A thread that holds it may take it again: a signal handler may close the broker that its thread is starting.
    """

    def __init__(self) -> None:
        self._threads = threading.RLock()
        self._tasks = threading.Lock()

    def __enter__(self) -> None:
        self._threads.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._threads.release()

    async def __aenter__(self) -> None:
        while not self._tasks.acquire(blocking=False):  # its owner may be a task of the same loop
            await pause()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._tasks.release()
