"""What the broker counts: plain numbers that cost an addition each."""

from collections import Counter


class Metrics:
    """Counters since the broker's start; ``requests`` by handler name."""

    __slots__ = ("requests", "connections_accepted", "connections_refused", "connections_failed", "idle_closed")

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.connections_accepted = 0
        self.connections_refused = 0
        """Turned away by a connection limit."""
        self.connections_failed = 0
        """Closed by the broker because of what the peer sent, or because a handler failed."""
        self.idle_closed = 0
        """Closed because nothing moved for ``connections.max.idle.ms``."""
