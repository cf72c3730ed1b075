"""The disk's threads of a simulated broker: work is done on the loop, after a drawn time."""

from collections import deque
from collections.abc import Callable, Iterator

from tests.simulation.cluster.loop import SimulatedLoop


class SimulatedFlusher:
    """See ``platform.flusher.Flusher``. After ``lose`` nothing is done any more: the process was killed."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop
        self._waiting: dict[int, tuple[Callable[[], None], Callable[[], None], bool]] = {}
        self._number = 0
        self._ordered: deque[int] = deque()
        self._is_closed = False

    def flush(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        self._put(work, done, is_watched=True)

    def run(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        if not self._is_closed:
            self._ordered.append(self._number)
            self._put(work, done, is_watched=False)

    def run_gently(self, steps: Iterator[None]) -> None:
        self._put(lambda: deque(steps, 0).clear(), lambda: None, is_watched=False)

    def _put(self, work: Callable[[], None], done: Callable[[], None], *, is_watched: bool) -> None:
        if not self._is_closed:
            self._waiting[self._number] = work, done, is_watched
            self._loop.call_later(self._loop.random.choice((0.0002, 0.002, 0.03)), self._do, self._number)
            self._number += 1

    def _do(self, number: int) -> None:
        while self._ordered and self._ordered[0] < number and number in self._ordered:
            self._do(self._ordered[0])  # in order, whatever the times
        if number in self._ordered:
            self._ordered.remove(number)
        found = self._waiting.pop(number, None)
        if found is None:
            return
        work, done, is_watched = found
        try:
            work()
        except OSError:
            if is_watched:
                done()
            return
        done()

    def close(self) -> None:
        for number in list(self._waiting):
            self._do(number)
        self._is_closed = True

    def lose(self) -> None:
        self._waiting.clear()
        self._ordered.clear()
        self._is_closed = True
