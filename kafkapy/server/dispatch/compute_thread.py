"""One thread beside the event loop for long computations that touch no state of the broker."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class ComputeThread:
    """Decodes and encodes large messages, validates and searches large batches; started for the first of them.

    The interpreter switches between the thread and the loop each millisecond (``lifecycle/interpreter.py``). More
    threads would only add to the time that the loop waits for the interpreter.
    """

    __slots__ = ("run_count", "_executor")

    def __init__(self) -> None:
        self.run_count = 0
        """How many computations were started."""
        self._executor: ThreadPoolExecutor | None = None

    def run(self, function: Callable[[], T]) -> "asyncio.Future[T]":
        """Return a future of the function's result."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, "kafkapy-compute")
        self.run_count += 1
        return asyncio.get_running_loop().run_in_executor(self._executor, function)

    def close(self) -> None:
        """Stop the thread; functions that have not been started are cancelled."""
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
            self._executor = None
