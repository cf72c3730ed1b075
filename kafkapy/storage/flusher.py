"""Who waits for the disk: fsync releases the GIL, so a thread can do it while the loop goes on."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol

from kafkapy.storage.files import Files

PARALLEL_SYNCS: Final = 8


class Flusher(Protocol):
    """Makes files durable, now or soon."""

    def flush(self, files: Files, paths: Sequence[str], done: Callable[[], None]) -> None:
        """Fsync ``paths`` and call ``done`` on the caller's thread; a path that is gone needs no fsync."""
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
        sync_all(files, paths)
        done()

    def close(self) -> None:
        """See ``Flusher.close``."""


class ThreadFlusher:
    """Waits in one thread of its own; ``done`` runs on the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._threads = ThreadPoolExecutor(1, "kafkapy-flush")

    def flush(self, files: Files, paths: Sequence[str], done: Callable[[], None]) -> None:
        """See ``Flusher.flush``; a failure is reported by the loop's exception handler."""
        future = asyncio.wrap_future(self._threads.submit(sync_all, files, paths), loop=self._loop)
        future.add_done_callback(lambda finished: done() if finished.result() is None else None)

    def close(self) -> None:
        """See ``Flusher.close``."""
        self._threads.shutdown()
