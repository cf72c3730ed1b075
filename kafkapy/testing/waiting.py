"""Waiting for something to become true, for at most so long by the real clock."""

from collections.abc import Callable
from typing import Final, TypeVar

from kafkapy.clock import SystemClock
from kafkapy.testing.errors import NotInTimeError

T = TypeVar("T")

LOOK_EVERY_MS: Final = 2
_CLOCK: Final = SystemClock()


class Deadline:
    """The end of a wait of ``timeout_s`` from now by the machine's time, whatever the broker's clock is moved to."""

    __slots__ = ("timeout_s", "_end_s")

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._end_s = _CLOCK.monotonic_s() + timeout_s

    @property
    def is_over(self) -> bool:
        """Whether it lies behind."""
        return _CLOCK.monotonic_s() > self._end_s


async def until(look: Callable[[], T | None], deadline: Deadline, failure: Callable[[], str]) -> T:
    """Return what ``look`` gives as soon as that is not None.

    Raises ``NotInTimeError`` at the deadline, with the sentence that ``failure`` makes of how things stand then.
    """
    while (found := look()) is None:
        if deadline.is_over:
            raise NotInTimeError(f"not within {deadline.timeout_s:g} s: {failure()}")
        await _CLOCK.sleep(LOOK_EVERY_MS)
    return found
