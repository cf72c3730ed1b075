"""Threads that wait for the disk: fsync releases the GIL, so the event loop runs meanwhile."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from threading import Event
from typing import Final, Protocol

from kafkapy.platform.files import Files

logger: Final = logging.getLogger(__name__)

PAUSE_S: Final = 0.002
"""Pause between two gentle steps, each of which takes a fraction of it."""


class Flusher(Protocol):
    """Runs work that waits for the disk, now or soon."""

    def flush(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        """Do ``work``, in parallel with other work, then call ``done`` on the caller's thread, also after an error.

        ``work`` handles errors of the disk itself; any exception that it raises is a bug and reported as one.
        """
        ...

    def run(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        """Do ``work`` after all earlier work, then call ``done`` on the caller's thread if there was no error."""
        ...

    def run_gently(self, steps: Iterator[None]) -> None:
        """Do background ``steps`` in parallel with all other work, with a pause after each.

        Steps that are left when the flusher is closed are not done.
        """
        ...

    def close(self) -> None:
        """Finish the work that was submitted; later work is not done."""
        ...


def sync_all(files: Files, paths: Sequence[str]) -> None:
    """Fsync each of ``paths`` that still exists."""
    for path in paths:
        try:
            files.sync_path(path)
        except FileNotFoundError:
            continue


def sync_in_parallel(files: Files, paths: Sequence[str]) -> None:
    """As ``sync_all``, several at a time: the file system commits them together, ten times as fast for many files."""
    with ThreadPoolExecutor(files.parallel_syncs, "kafkapy-sync") as threads:
        for finished in [threads.submit(sync_all, files, [path]) for path in paths]:
            finished.result()


class InlineFlusher:
    """Does work at once, on the caller's thread: for tools and tests."""

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


INLINE: Final = InlineFlusher()


def pause(closed: Event) -> bool:
    """Pause between steps; return true as soon as the flusher is closed."""
    return closed.wait(PAUSE_S)


def _finish_unwatched(done: Callable[[], None], finished: asyncio.Future[None]) -> None:
    error = finished.exception()
    if isinstance(error, OSError):
        logger.error("The disk refused a write in the background: %s", error)
        return
    finished.result()
    done()


class ThreadFlusher:
    """Does work in separate threads, several fsyncs in parallel; ``done`` runs on the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pause: Callable[[Event], bool] = pause) -> None:
        """``pause`` waits between gentle steps, and returns whether the event was set meanwhile."""
        self._loop = loop
        self._flushes = ThreadPoolExecutor(Files.parallel_syncs, "kafkapy-flush")
        self._works = ThreadPoolExecutor(1, "kafkapy-write")
        for threads in (self._flushes, self._works):
            threads.submit(int)  # starts one thread now: the system may refuse threads later
        self._gentle_works = ThreadPoolExecutor(1, "kafkapy-remove")
        self._pause = pause
        self._closed = Event()

    def flush(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        """See ``Flusher.flush``."""

        def finish(finished: asyncio.Future[None]) -> None:
            done()  # first: if ``result`` raises, requests would wait for ever otherwise
            finished.result()

        self._submit(self._flushes, work, finish)

    def run(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        """See ``Flusher.run``; an error of the disk is logged, and ``done`` is not called."""
        self._submit(self._works, work, partial(_finish_unwatched, done))

    def run_gently(self, steps: Iterator[None]) -> None:
        """See ``Flusher.run_gently``; an error of the disk is logged."""

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

        with suppress(RuntimeError):  # the system can't start another thread now; an existing one does the work later
            threads.submit(attempt)

    def close(self) -> None:
        """See ``Flusher.close``."""
        self._closed.set()
        for threads in (self._flushes, self._works, self._gentle_works):
            threads.shutdown()
