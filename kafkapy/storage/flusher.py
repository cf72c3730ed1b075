"""Who waits for the disk: fsync releases the GIL, so a thread can do it while the loop goes on."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol

from kafkapy.storage.files import Files

PARALLEL_SYNCS: Final = 8

_log: Final = logging.getLogger(__name__)


class Flusher(Protocol):
    """Makes files durable, now or soon."""

    def flush(self, files: Files, paths: Sequence[str], done: Callable[[], None]) -> None:
        """Fsync ``paths`` and call ``done`` on the caller's thread; a path that is gone needs no fsync."""
        ...

    def run(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        """Do other work that waits for the disk and touches no state, then call ``done`` on the caller's thread."""
        ...

    def close(self) -> None:
        """Finish what was begun."""
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
    with ThreadPoolExecutor(PARALLEL_SYNCS, "kafkapy-sync") as threads:
        for finished in [threads.submit(sync_all, files, [path]) for path in paths]:
            finished.result()


class InlineFlusher:
    """Waits on the spot: for tools and tests."""

    def flush(self, files: Files, paths: Sequence[str], done: Callable[[], None]) -> None:
        """See ``Flusher.flush``."""
        self.run(lambda: sync_all(files, paths), done)

    def run(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        """See ``Flusher.run``."""
        work()
        done()

    def close(self) -> None:
        """See ``Flusher.close``."""


class ThreadFlusher:
    """Waits in one thread of its own; ``done`` runs on the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._threads = ThreadPoolExecutor(1, "kafkapy-flush")

    def flush(self, files: Files, paths: Sequence[str], done: Callable[[], None]) -> None:
        """See ``Flusher.flush``; what the disk refuses is one line in the log, and ``done`` is not called."""
        self.run(lambda: sync_all(files, paths), done)

    def run(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        """See ``Flusher.run``; failures as in ``flush``."""

        def finish(finished: asyncio.Future[None]) -> None:
            error = finished.exception()
            if isinstance(error, OSError):
                _log.error("The disk refused a write that was not waited for: %s", error)
                return
            finished.result()
            done()

        asyncio.wrap_future(self._threads.submit(work), loop=self._loop).add_done_callback(finish)

    def close(self) -> None:
        """See ``Flusher.close``."""
        self._threads.shutdown()
