"""A thread that keeps the session with a ZooKeeper alive while the event loop is in a long step.

The loop itself pings when nothing was sent for a quarter of the session's time-out. A step that takes longer than that
would let the session expire, although the broker works: on a machine without a free processor, a tenth of a second of
work takes seconds. The thread needs a few milliseconds of the process for a ping, and uses only the connection. A loop
that does not come back for ``LONGEST_STEP_S`` counts as dead: then the session expires, and others take over.
"""

import threading
from typing import Final

from kafkapy.clock import Clock
from kafkapy.metadata.zookeeper_connection import ServerConnection

LONGEST_STEP_S: Final = 30.0


class Heartbeat:
    """Pings on the connection of the last ``beat``. ``start`` begins the thread, which repeats ``look``."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._connection: ServerConnection | None = None
        self._quiet_s = 1.0
        self._beat_s = clock.monotonic_s()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="zookeeper-heartbeat", daemon=True)

    def start(self) -> None:
        """Begin to ping."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()

    def beat(self, connection: ServerConnection, timeout_ms: float) -> None:
        """Note, on the event loop, that it runs, and the connection and time-out of the session."""
        self._quiet_s = timeout_ms / 3_000  # later than the loop, which is not disturbed
        self._connection = connection
        self._beat_s = self._clock.monotonic_s()

    def look(self) -> None:
        """Ping if the loop should have done so."""
        connection = self._connection
        if connection is not None and self._clock.monotonic_s() - self._beat_s < LONGEST_STEP_S:
            connection.ping_after(self._quiet_s)

    def _run(self) -> None:
        while not self._stopped.wait(self._quiet_s / 4):
            self.look()
