"""When replies leave and how much is read ahead: rules that change the cost of a connection, never its replies.

``core.py`` and ``connection.py`` would be correct without them. Each rule has its measured gain beside it, as processor
time of the broker's process for one request.

| rule | where it is applied |
|---|---|
| replies to requests that arrived together leave in one write | ``ConnectionCore.reply`` |
| small replies of several ready connections leave when all are served | ``LateReplies`` |
| requests are read ahead of the one that is served | ``ConnectionCore.has_read_enough`` |
| requests that arrived together are served in slices of time | ``Connection``, ``kafkapy/turns.py`` |
| produce requests are served while earlier ones wait for replicas | ``ConnectionCore.may_overtake`` |
| the selector is polled before the process sleeps | ``network/loop.py`` |
"""

from typing import Final, Protocol

TOGETHER_SIZE: Final = 65_536
"""Bytes of requests that arrived together whose small replies may leave in one write; also the most bytes of such
replies. With 20 requests in a pipeline ApiVersions takes 10.3 instead of 16.5 µs, a produce of 100 bytes 33 instead of
42 µs, and the client has all replies in half the time or less (two shared processors, medians of 5 turns)."""

FEW: Final = 3
"""Replies wait for each other only if so many sockets are ready: one or two are better served at once."""

MOST: Final = 64
"""Connections whose replies wait for each other: some milliseconds of small requests."""

LATE_SIZE: Final = 4096
"""Bytes of requests whose replies may be delayed, so that replies of several connections are sent together."""

READ_AHEAD_SIZE: Final = 65_536
"""Bytes of later requests that are kept while one is being served; then the socket is not read. This is a bound rather
than a gain: with 0, 20 produces in a pipeline that wait for the disk take as long as with 65,536, within the noise."""


MOST_WAITS: Final = 5
"""Requests of a connection whose responses are waited for at the same time. Apache Kafka has one. With three
batches of 64 kB in flight for each partition, acks=all, three brokers together need 37 % less processor time and are
half again as fast, since a follower fetches several batches at once (eight pairs of runs, two processors)."""


class LateReplier(Protocol):
    """A connection with replies that may wait."""

    def flush(self) -> bool:
        """Write the replies that wait; tell whether the connection is about to end."""
        ...


class LateReplies:
    """The connections whose replies leave at the end of an iteration of the event loop.

    An iteration serves the sockets that one call of the selector found ready. A reply that is sent during the iteration
    wakes its client, which uses the processor instead of the broker and sleeps again until the next reply arrives. When
    the replies of an iteration leave one after the other, as they do from a network thread of Apache Kafka, a commit on
    16 connections takes a tenth less processor time (52.5 → 47.5 µs) and one on 64 connections a quarter less (60.8 →
    44.2 µs; two processors, ``bench/results/request-path.md``).
    """

    __slots__ = ("ready_count", "_connections")

    def __init__(self) -> None:
        self.ready_count = 0
        """The number of sockets that this iteration serves; 0 on a loop that does not count them."""
        self._connections: list[LateReplier] = []

    def add(self, connection: LateReplier) -> None:
        """Call its ``flush`` before the loop waits."""
        self._connections.append(connection)
        if len(self._connections) >= MOST:
            self.leave()

    def leave(self) -> bool:
        """Let all replies leave now; tell whether one of the connections is about to end, which the loop has to do."""
        if not self._connections:
            return False
        connections, self._connections = self._connections, []
        ended = False
        for connection in connections:
            ended = connection.flush() or ended
        return ended
