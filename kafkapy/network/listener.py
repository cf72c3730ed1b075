"""A bound address: it accepts connections within the limits, closes idle ones, and all of them when the broker stops.

The listener accepts connections itself instead of through ``loop.create_server``, so that a full broker
(``max.connections``, or no descriptors left but those that are kept for files) leaves further clients in the system's
queue, as Apache Kafka does, and connections above ``max.connections.per.ip`` are refused before anything is allocated
for them.
"""

import asyncio
import errno
import logging
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from kafkapy.clock import Clock, TimerHandle
from kafkapy.config.listeners import EndPoint
from kafkapy.network.connection import Connection
from kafkapy.network.dispatcher import Dispatcher
from kafkapy.network.errors import RefusedError
from kafkapy.network.forks import close_in_children
from kafkapy.network.limits import ListenerResources, first_kept_descriptor
from kafkapy.network.loop import late_replies
from kafkapy.network.transport import ConnectionTransport, PlaintextTransport
from kafkapy.protocol.message import ProtocolError

if TYPE_CHECKING:
    from kafkapy.security.authentication import SaslSettings

logger: Final = logging.getLogger(__name__)

OWN_ADDRESS: Final[int] = getattr(socket, "SO_EXCLUSIVEADDRUSE", socket.SO_REUSEADDR)
"""On POSIX a restart need not wait for old connections; on Windows that option would share the port with others."""
BACKLOG: Final = 1024
ACCEPTS_PER_ROUND: Final = 64
NO_DESCRIPTORS_PAUSE_MS: Final = 1000
SWEEPS_PER_IDLE_TIME: Final = 8


class ListenError(Exception):
    """An address can't be bound; the sentence says which one and what to do."""


def bind(endpoint: EndPoint) -> socket.socket:
    """Return a socket bound to the end point, not listening yet. Raises ``ListenError``."""
    # As bytes where that is the same: for a text Python loads the codec of international names, half a megabyte.
    host = (endpoint.host.encode() if endpoint.host.isascii() else endpoint.host) or None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, endpoint.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ListenError(f"{endpoint} can't be listened on: {error.strerror}") from error
    try:
        sock.setsockopt(socket.SOL_SOCKET, OWN_ADDRESS, 1)
        sock.setblocking(False)
        sock.bind(address)
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRINUSE:
            raise ListenError(
                f"port {endpoint.port} of {endpoint.host or 'this machine'} is in use by another process;"
                " stop it, or choose another port"
            ) from error
        raise ListenError(f"{endpoint} can't be listened on: {error.strerror}") from error
    return sock


class Listener:
    """One of ``listeners``, with its connections."""

    def __init__(self, endpoint: EndPoint, sock: socket.socket, clock: Clock, shared: ListenerResources) -> None:
        self.name = endpoint.listener_name
        self.limits = shared.limits
        self.budget = shared.budget
        self.response_budget = shared.response_budget
        self.metrics = shared.metrics
        self.late_replies = late_replies()
        self.transport: ConnectionTransport = PlaintextTransport()
        self.sasl: SaslSettings | None = None
        self.clock = clock
        host, port = sock.getsockname()[:2]
        self.endpoint = endpoint._replace(port=port)
        self.address: tuple[str, int] = (host, port)
        self.connections: set[Connection] = set()
        self._socket = sock
        self._counts = shared.counts
        self._rates = shared.rates
        self._dispatcher: Dispatcher | None = None
        self._tasks: set[asyncio.Future[Any]] = set()
        self._accepting = False
        self._first_kept_descriptor = first_kept_descriptor()
        self._sweep_timer: TimerHandle | None = None
        self._rate_timer: TimerHandle | None = None
        """Set while no connection is accepted because of ``max.connection.creation.rate``."""
        self._quiet: dict[Connection, tuple[tuple[int, int, int, int, bool], int]] = {}
        self._all_closed: asyncio.Event = asyncio.Event()
        close_in_children(self)

    def secure(self, transport: ConnectionTransport, sasl: "SaslSettings | None") -> None:
        """Connect new clients with this transport; with ``sasl`` they have to authenticate."""
        self.transport = transport
        self.sasl = sasl

    def listen(self) -> None:
        """Let the system complete connections; they wait until ``start``."""
        self._socket.listen(BACKLOG)

    def start(self, dispatcher: Dispatcher) -> None:
        """Accept and serve connections from now on."""
        self._dispatcher = dispatcher
        self.listen()
        self.resume()
        self._schedule_sweep()

    async def stop(self) -> None:
        """Accept no more connections, close the open ones, and wait until they are closed."""
        self._pause()
        with suppress(OSError):  # it was never listened on, or the system can't: then a new child has to close its copy
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._dispatcher = None
        for timer in (self._sweep_timer, self._rate_timer):
            if timer is not None:
                timer.cancel()
        for connection in tuple(self.connections):
            connection.close("the broker stops", logging.DEBUG)
        self.transport.end_starts()
        if self.connections:
            self._all_closed.clear()
            await self._all_closed.wait()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def close_inherited(self) -> None:
        """See ``forks.SocketOwner``."""
        self._socket.close()
        for connection in self.connections:
            connection.close_inherited()

    # accepting

    def resume(self) -> None:
        """Accept connections again, if the listener was started and has paused."""
        if self._dispatcher is not None and not self._accepting and self._rate_timer is None:
            self._accepting = True
            asyncio.get_running_loop().add_reader(self._socket.fileno(), self._accept)

    def _pause(self) -> None:
        if self._accepting:
            self._accepting = False
            asyncio.get_running_loop().remove_reader(self._socket.fileno())

    def _accept(self) -> None:
        for _ in range(ACCEPTS_PER_ROUND):
            if self._counts.total >= self.limits.max_connections:
                self._pause()
                self._counts.wait(self.resume)
                return
            try:
                sock, address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    raise
                self._wait_for_descriptors(str(error.strerror))
                return
            if sock.fileno() >= self._first_kept_descriptor:
                sock.close()
                self._wait_for_descriptors("the last descriptors are kept for files; raise the limit (ulimit -n)")
                return
            self._take(sock, address)
            throttle_ms = self._rates.throttle_ms(self.name, int(self.clock.monotonic_s() * 1000))
            if throttle_ms:
                self._pause()
                self._rate_timer = self.clock.call_later(throttle_ms, self._resume_by_rate)
                return

    def _resume_by_rate(self) -> None:
        self._rate_timer = None
        self.resume()

    def _wait_for_descriptors(self, reason: str) -> None:
        logger.error("No connection can be accepted on %s for a moment: %s", self.endpoint, reason)
        self._pause()
        self.clock.call_later(NO_DESCRIPTORS_PAUSE_MS, self.resume)

    def _take(self, sock: socket.socket, address: tuple[Any, ...]) -> None:
        host, port = address[:2]
        if not self._counts.admits(host, self.limits):
            self.metrics.connections_refused += 1
            if self.may_log_line():
                reason = "max.connections.per.ip reached"
                logger.warning("Refused a connection of %s:%d on %s: %s", host, port, self.name, reason)
            sock.close()
            return
        assert self._dispatcher is not None
        sock.setblocking(False)
        self._counts.add(host)
        self.metrics.connections_accepted += 1
        connection = Connection(self, self._dispatcher, (host, port), sock)
        self.connections.add(connection)
        self.keep_until_done(asyncio.get_running_loop().create_task(self._start(sock, connection)))

    def may_log_line(self) -> bool:
        """Whether a line may be logged that a client has caused, see ``PeerLines``."""
        return self.metrics.peer_lines.may_log(self.clock.monotonic_s())

    async def _start(self, sock: socket.socket, connection: Connection) -> None:
        """Start the connection; if its transport can't, as after a failed handshake, it ends here."""
        if self._dispatcher is None:
            sock.close()
            self.closed(connection)
            return
        try:
            await self.transport.start(sock, connection)
        except OSError as error:
            self.metrics.connections_failed += 1
            if self.may_log_line():
                logger.info("Closed the connection of %s: it could not be started: %s", connection.session, error)
            self.closed(connection)

    def keep_until_done(self, task: "asyncio.Future[Any]") -> None:
        """Keep a reference to a task until it is done: the event loop has only a weak one."""
        self._tasks.add(task)
        task.add_done_callback(self._task_done)

    def _task_done(self, task: "asyncio.Future[Any]") -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            result = task.result()
            if isinstance(result, asyncio.Future):  # of a request that waits for an event
                result.cancel()
        elif not isinstance(error, ProtocolError | RefusedError):  # these only close the connection, which is closed
            logger.error("A request failed after its client had closed the connection", exc_info=error)

    # called by connections

    def opened(self, connection: Connection) -> None:
        """The connection has its transport."""
        if self._dispatcher is None:
            connection.close("the broker stops", logging.DEBUG)

    def closed(self, connection: Connection) -> None:
        """The connection is closed."""
        self.connections.discard(connection)
        self._quiet.pop(connection, None)
        self._counts.remove(connection.session.peer_host)
        if not self.connections:
            self._all_closed.set()
        self.resume()

    # idle connections

    def _schedule_sweep(self) -> None:
        pause_ms = max(self.limits.max_idle_ms / SWEEPS_PER_IDLE_TIME, 1)
        self._sweep_timer = self.clock.call_later(pause_ms, self._sweep)

    def _sweep(self) -> None:
        """Close connections on which nothing moved for the idle time: the client sends nothing, or reads nothing."""
        for connection in tuple(self.connections):
            progress = connection.progress()
            before, sweeps = self._quiet.get(connection, (None, 0))
            is_waiting = progress[-1]
            sweeps = sweeps + 1 if progress == before and not is_waiting else 0
            self._quiet[connection] = (progress, sweeps)
            if sweeps == 1:
                connection.free_buffer()
            if sweeps >= SWEEPS_PER_IDLE_TIME:
                self.metrics.idle_closed += 1
                connection.close("nothing moved for connections.max.idle.ms", logging.INFO)
        self._schedule_sweep()
