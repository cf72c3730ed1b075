"""A limit on the bytes of requests that have arrived in part, over all connections.

Only what has arrived counts, never what a frame announces: announcing is free for whoever does it. When nothing is
left (``queued.max.request.bytes``), connections with large frames are not read, but for one: it may go on beyond the
limit until its frame is whole, so that something always moves. Small frames live in the connections' own buffers and
pass.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

SMALL_FRAME_SIZE: Final = 65_536
DEFAULT_LIMIT: Final = 1 << 30
"""Bytes, where ``queued.max.request.bytes`` is -1: Apache Kafka has no limit then, we keep one."""


class FrameBudget:
    """The bytes that parts of large frames may take."""

    __slots__ = ("available", "_waiting", "_exempt")

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self.available = limit
        self._waiting: deque[Callable[[], None]] = deque()
        self._exempt: object | None = None

    def take(self, holder: object, size: int, retry: Callable[[], None]) -> bool:
        """Let ``size`` more bytes of the holder's frame in; if not, ``retry`` is called when it may ask again."""
        if self.available <= 0 and self._exempt is not holder:
            if self._exempt is not None:
                self._waiting.append(retry)
                return False
            self._exempt = holder
        self.available -= size
        return True

    def give_back(self, holder: object, size: int) -> None:
        """The holder's frame has been served, or its connection is gone; ``size`` is all that it took."""
        self.available += size
        if self._exempt is holder:
            self._exempt = None
        while self._waiting and (self.available > 0 or self._exempt is None):
            self._waiting.popleft()()
