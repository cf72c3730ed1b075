"""A flusher whose disk is slow: the test says when it has caught up."""

from collections import deque
from collections.abc import Callable, Iterator


class SlowFlusher:
    """See ``storage.flusher.Flusher``: work waits in order; what the disk refuses is never done."""

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
