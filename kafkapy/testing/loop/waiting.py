"""Waits for a condition, with a time-out by the machine's clock."""

from collections.abc import Callable
from typing import Final, TypeVar

from kafkapy.clock import SystemClock
from kafkapy.testing.errors import NotInTimeError

T = TypeVar("T")

LOOK_EVERY_MS: Final = 2
_CLOCK: Final = SystemClock()


class Deadline:
    """The end of a wait of ``timeout_s`` from now, by the machine's clock, not by the broker's."""

    __slots__ = ("timeout_s", "_end_s")

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._end_s = _CLOCK.monotonic_s() + timeout_s

    @property
    def is_over(self) -> bool:
        """Whether the deadline has passed."""
        return _CLOCK.monotonic_s() > self._end_s


async def pause() -> None:
    """Wait until it is time to look again."""
    await _CLOCK.sleep(LOOK_EVERY_MS)


async def until(look: Callable[[], T | None], deadline: Deadline, failure: Callable[[], str]) -> T:
    """Call ``look`` repeatedly until it returns something other than None, and return that.

    Raises ``NotInTimeError`` at the deadline, with the sentence that ``failure`` returns.
    """
    while (found := look()) is None:
        if deadline.is_over:
            raise NotInTimeError(f"not within {deadline.timeout_s:g} s: {failure()}")
        await pause()
    return found
