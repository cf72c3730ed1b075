"""A flusher that does nothing until the test calls ``catch_up``."""

from collections import deque
from collections.abc import Callable, Iterator


class SlowFlusher:
    """See ``storage.flusher.Flusher``."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[Callable[[], None], Callable[[], None]]] = deque()

    def flush(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        self.waiting.append((work, done))

    def run(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        self.waiting.append((work, done))

    def run_gently(self, steps: Iterator[None]) -> None:
        self.run(lambda: deque(steps, 0).clear(), lambda: None)

    def catch_up(self) -> None:
        """Do the work that is waiting now."""
        for _ in range(len(self.waiting)):
            work, done = self.waiting.popleft()
            work()
            done()

    def close(self) -> None:
        while self.waiting:
            self.catch_up()
