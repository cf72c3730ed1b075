"""A flusher with a slow disk: it works when the test calls ``catch_up``."""

from collections import deque
from collections.abc import Callable, Iterator


class SlowFlusher:
    """See ``platform.flusher.Flusher``: work waits in order; ``done`` is not called after an error of the disk."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[Callable[[], None], Callable[[], None]]] = deque()
        self._is_closed = False

    def flush(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        self.run(work, done)

    def run(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        if not self._is_closed:
            self.waiting.append((work, done))

    def run_gently(self, steps: Iterator[None]) -> None:
        self.run(lambda: deque(steps, 0).clear(), lambda: None)

    def catch_up(self, most: int = 1_000) -> None:
        """Do the first ``most`` pieces of work."""
        for _ in range(min(most, len(self.waiting))):
            work, done = self.waiting.popleft()
            try:
                work()
            except OSError:
                continue
            done()

    def close(self) -> None:
        self._is_closed = True
        self.catch_up()
