"""A limit on the bytes of requests that are arriving at the same time, over all connections.

As Apache Kafka's memory pool (``queued.max.request.bytes``): a large frame is let in while there is anything left,
with all of its announced size, so that a frame that has begun can always be finished; the next ones wait their turn.
Small frames live in the connections' own buffers and pass.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

SMALL_FRAME_SIZE: Final = 65_536
DEFAULT_LIMIT: Final = 1 << 30
"""Bytes, where ``queued.max.request.bytes`` is -1: Apache Kafka has no limit then, we keep one."""


class FrameBudget:
    """The bytes that large frames may take."""

    __slots__ = ("available", "_waiting")

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self.available = limit
        self._waiting: deque[Callable[[], None]] = deque()

    def take(self, size: int, retry: Callable[[], None]) -> bool:
        """Let a frame of ``size`` bytes in; if not, ``retry`` is called when it is worth asking again."""
        if self.available <= 0:
            self._waiting.append(retry)
            return False
        self.available -= size
        return True

    def give_back(self, size: int) -> None:
        """A frame has been served, or its connection is gone."""
        self.available += size
        while self._waiting and self.available > 0:
            self._waiting.popleft()()
