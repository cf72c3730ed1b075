"""The loads of the Python libraries: a thread that hands them one numbered record after the other."""

import threading
from collections.abc import Callable
from typing import Protocol

from compat_tests.clients.client import LOAD_PARTITIONS, TIMEOUT_S, KafkaCodeError

PAUSE_S = 0.008


class Taken(Protocol):
    """Called with where a record went, or with why it was lost."""

    def __call__(self, place: tuple[int, int] | None, error: object = None) -> None: ...


class LoadThread:
    """Sends through `send(value, partition, taken)` until it is finished; `end` then waits for what is under way."""

    def __init__(self, send: Callable[[bytes, int, Taken], None], end: Callable[[], object]) -> None:
        self._send = send
        self._end = end
        self._places: dict[int, tuple[int, int]] = {}
        self._failures: list[object] = []
        self._sent = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stopping.wait(PAUSE_S):
                number = self._sent
                self._sent += 1
                self._send(b"%d" % number, number % LOAD_PARTITIONS, self._taken(number))
            self._end()
        except Exception as error:  # noqa: BLE001  (told to the test's thread by finish)
            self._failures.append(error)

    def _taken(self, number: int) -> Taken:
        def taken(place: tuple[int, int] | None, error: object = None) -> None:
            if place is None:
                self._failures.append(error)
            else:
                self._places[number] = place

        return taken

    def acknowledged(self) -> int:
        return len(self._places)

    def finish(self) -> dict[int, tuple[int, int]]:
        self._stopping.set()
        self._thread.join(2 * TIMEOUT_S)
        if self._failures or len(self._places) < self._sent:
            lost = self._sent - len(self._places)
            raise KafkaCodeError(-1, f"{lost} of {self._sent} records were lost: {self._failures[:1]}")
        return self._places
