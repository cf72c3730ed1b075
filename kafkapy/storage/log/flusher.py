"""Threads that wait for the disk: fsync releases the GIL, so a thread can do it while the loop goes on."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from threading import Event
from typing import Final, Protocol

from kafkapy.storage.io.files import Files

logger: Final = logging.getLogger(__name__)

PAUSE_S: Final = 0.002
"""Between two gentle steps of a fraction of that."""


class Flusher(Protocol):
    """Has work that waits for the disk done, now or soon."""

    def flush(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        """Do ``work``, beside others, then call ``done`` on the caller's thread, however it ended.

        ``work`` keeps what the disk refuses; anything else that it raises is a fault of ours, and reported as one.
        """
        ...

    def run(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        """Do ``work`` after all that came before, then call ``done`` on the caller's thread if it went well."""
        ...

    def run_gently(self, steps: Iterator[None]) -> None:
        """Go through ``steps``, which nobody waits for, beside all other work and with a pause after each.

        Those that are left when it is closed are not done.
        """
        ...

    def close(self) -> None:
        """Finish what was begun; what comes after is not done."""
        ...


def sync_all(files: Files, paths: Sequence[str]) -> None:
    """Fsync each of ``paths`` that still exists."""
    for path in paths:
        try:
            files.sync_path(path)
        except FileNotFoundError:
            continue


def sync_in_parallel(files: Files, paths: Sequence[str]) -> None:
    """As ``sync_all``, several at a time: the disk makes one journal commit of them, ten times as fast for many."""
    with ThreadPoolExecutor(files.parallel_syncs, "kafkapy-sync") as threads:
        for finished in [threads.submit(sync_all, files, [path]) for path in paths]:
            finished.result()


class InlineFlusher:
    """Waits on the spot: for tools and tests."""

    def flush(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        """See ``Flusher.flush``."""
        self.run(work, done)

    def run(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        """See ``Flusher.run``."""
        work()
        done()

    def run_gently(self, steps: Iterator[None]) -> None:
        """See ``Flusher.run_gently``; without a pause."""
        deque(steps, maxlen=0)

    def close(self) -> None:
        """See ``Flusher.close``."""


def pause(closed: Event) -> bool:
    """Give others their turn; true as soon as the flusher is closed."""
    return closed.wait(PAUSE_S)


def _finish_unwatched(done: Callable[[], None], finished: asyncio.Future[None]) -> None:
    error = finished.exception()
    if isinstance(error, OSError):
        logger.error("The disk refused a write that was not waited for: %s", error)
        return
    finished.result()
    done()


class ThreadFlusher:
    """Waits in threads of its own, fsyncs beside each other; ``done`` runs on the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pause: Callable[[Event], bool] = pause) -> None:
        """``pause`` waits between gentle steps, and tells whether the event came meanwhile."""
        self._loop = loop
        self._flushes = ThreadPoolExecutor(Files.parallel_syncs, "kafkapy-flush")
        self._works = ThreadPoolExecutor(1, "kafkapy-write")
        for threads in (self._flushes, self._works):
            threads.submit(int)  # one thread that is there: others may be refused later
        self._gentle_works = ThreadPoolExecutor(1, "kafkapy-remove")
        self._pause = pause
        self._closed = Event()

    def flush(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        """See ``Flusher.flush``."""

        def finish(finished: asyncio.Future[None]) -> None:
            done()  # first: otherwise its waiters would never be called
            finished.result()

        self._submit(self._flushes, work, finish)

    def run(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        """See ``Flusher.run``; what the disk refuses is one line in the log, and ``done`` is not called."""
        self._submit(self._works, work, partial(_finish_unwatched, done))

    def run_gently(self, steps: Iterator[None]) -> None:
        """See ``Flusher.run_gently``; what the disk refuses is one line in the log."""

        def work() -> None:
            for _ in steps:
                if self._pause(self._closed):
                    return

        self._submit(self._gentle_works, work, partial(_finish_unwatched, lambda: None))

    def _submit(
        self, threads: ThreadPoolExecutor, work: Callable[[], None], finish: Callable[[asyncio.Future[None]], None]
    ) -> None:
        if self._closed.is_set():
            return
        ended: Future[None] = Future()
        asyncio.wrap_future(ended, loop=self._loop).add_done_callback(finish)

        def attempt() -> None:
            try:
                work()
            except BaseException as error:
                ended.set_exception(error)
                raise
            ended.set_result(None)

        with suppress(RuntimeError):  # the system starts no further thread now; one that is there will come to it
            threads.submit(attempt)

    def close(self) -> None:
        """See ``Flusher.close``."""
        self._closed.set()
        for threads in (self._flushes, self._works, self._gentle_works):
            threads.shutdown()
