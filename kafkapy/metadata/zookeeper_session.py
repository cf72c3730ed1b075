"""A session with a ZooKeeper, on the event loop: requests, watches, and one connection after the other.

kazoo encodes and decodes the messages (``kazoo.protocol.serialization``). Its client is not used: it forgets watches
with each connection, passes watches and answers on from two threads, so that their order is lost, and accepts
requests while it connects again, before it is known what has become of the earlier ones. Here everything happens on
the loop that owns the broker's state, in the order in which the server sent it.

The states of the session:

    CONNECTING   There is no connection, or the server has not accepted the session on it. Calls wait in ``_queue``.
    RESUMING     The session continues on another connection: watches are set again, writes without an answer are
                 looked up. Calls still wait.
    USABLE       Requests go out as they come, at most ``max_in_flight`` without an answer, which come in that order.
    CLOSED       Every call raises StoreClosedError.

                       new session                        connection lost
    CONNECTING ──────────────────────────────▶ USABLE ──────────────────────────▶ CONNECTING
        │  ▲                                     ▲
        │  └──── session expired (EXPIRED) ──┐   │ all is settled
        └──── same session ──▶ RESUMING ─────┴───┘

The steps after a lost connection, in this order:

1. Requests without an answer are kept (``_unanswered``); ``_seen_zxid`` is the last change that the server told of.
2. The servers are tried one after the other, with a growing pause, until one accepts the session.
3. SetWatches makes the server tell of each watched node that has changed after ``_seen_zxid``: no change is lost,
   and watches fire before any answer that could show the change.
4. The writes without an answer are looked up, oldest first (``results_if_done``). The server handles the requests of a
   session in order, so the first one that was not done ends the search: it and all later ones are sent again, with the
   reads, before the newer requests.

The steps when the server reports that the session has expired; its ephemeral nodes and its watches are removed by then:
Listeners get EXPIRED, then the writes without an answer fail with SessionExpiredError, since it is unknown whether they
were made; reads, and calls that had not been sent, wait for the next session, which is opened at once. Listeners get
RENEWED when it is open. While no server can be reached, it is unknown whether the session has expired; the broker
continues to serve, and versions and epochs keep its writes from harming those of another one.

A broker that ends without ``close`` (or without a connection then) stays registered until ZooKeeper has not heard of
its session for the session's time-out.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Generator, Sequence
from random import Random
from typing import Any, Final, NamedTuple

from kazoo.protocol import serialization
from kazoo.protocol.serialization import Connect, ReplyHeader, int_struct

from kafkapy.clock import Clock, TimerHandle
from kafkapy.metadata.store import (
    EventKind,
    Node,
    Operation,
    Outcome,
    Result,
    SessionEvent,
    SessionExpiredError,
    SessionListener,
    StoreClosedError,
    StoreError,
    StoreRefusedError,
    StoreUnreachableError,
    Watch,
    WatchEvent,
)
from kafkapy.metadata.tree import Watches
from kafkapy.metadata.zookeeper_address import ZooKeeperAddress
from kafkapy.metadata.zookeeper_connection import PING, XID_PING, ServerConnection, SetWatches
from kafkapy.metadata.zookeeper_heartbeat import Heartbeat
from kafkapy.metadata.zookeeper_identities import IdentityAnswer, IdentityRefusedError, identification
from kafkapy.metadata.zookeeper_operations import (
    NO_NODE,
    SASL_REQUIRED,
    SESSION_EXPIRED,
    SESSION_MOVED,
    TreeRoot,
    error_of,
    results_if_done,
    session_number,
    stat_of,
)
from kafkapy.security.settings import OPEN_ZOOKEEPER, ZooKeeperSecurity

MAX_REQUEST_SIZE: Final = 0xFFFFF
"""What ZooKeeper accepts (``jute.maxbuffer``): it closes the connection of a client that sends more."""
WATCHES_OF_A_REQUEST: Final = 128 * 1024
"""Bytes of paths in one SetWatches."""
MOMENT_ATTEMPTS: Final = 3
"""How often many nodes are read again because some changed meanwhile."""
BACKOFF_MS: Final = 50
BACKOFF_MAX_MS: Final = 1_000
CLOSE_MS: Final = 2_000
"""How long ``close`` waits for the server."""

_XID_EVENT: Final = -1
_XID_WATCHES: Final = -8
_MAX_XID: Final = 2**31 - 1
_NO_PASSWORD: Final = bytes(16)
_EVENT_KINDS: Final = {1: EventKind.CREATED, 2: EventKind.DELETED, 3: EventKind.CHANGED, 4: EventKind.CHILDREN}

logger = logging.getLogger(__name__)


class ZooKeeperSettings(NamedTuple):
    """The configuration of the session; times in milliseconds."""

    session_timeout_ms: int = 18_000
    connection_timeout_ms: int = 18_000
    """How long ``open`` waits for the first session."""
    max_in_flight: int = 10
    security: ZooKeeperSecurity = OPEN_ZOOKEEPER


class _Request:
    """A request and the future of its response."""

    __slots__ = ("message", "payload", "path", "answer", "operations", "watch", "xid", "seen_zxid", "is_look_up")

    def __init__(self, message: Any, path: str, answer: "asyncio.Future[Any]") -> None:
        self.message = message
        self.payload: bytes = int_struct.pack(message.type) + message.serialize()
        self.path = path
        self.answer = answer
        self.operations: Sequence[Operation] = ()
        """The operation of a write; a read has none."""
        self.watch: Watch | None = None
        self.xid = 0
        self.seen_zxid = 0
        self.is_look_up = False


class Read(NamedTuple):
    """The answer to a read: ``value`` is None for a node that is not there, ``zxid`` the last change it may show."""

    value: Any
    zxid: int


class ZooKeeperSession:
    """One session, and another one after it has expired. ``open`` comes first.

    Reads and writes are futures; those of one caller are done in the order of the calls.
    """

    def __init__(self, address: ZooKeeperAddress, clock: Clock, random: Random, settings: ZooKeeperSettings) -> None:
        self._address = address
        self._clock = clock
        self._random = random
        self._settings = settings
        self._root = TreeRoot(address.chroot, settings.security.protects_nodes)
        self._listeners: list[SessionListener] = []
        self.heartbeat: Final = Heartbeat(clock)
        # The session.
        self._number = 0
        self._id = 0
        self._password = _NO_PASSWORD
        self._timeout_ms = settings.session_timeout_ms
        self._seen_zxid = 0
        self._watches = Watches()
        self._absent: set[str] = set()
        """Watched nodes that were not there when they were last read: their creation is waited for."""
        # The connection.
        self._connection: ServerConnection | None = None
        self._accepted: asyncio.Future[None] | None = None
        self._identifying: Generator[bytes, IdentityAnswer, None] | None = None
        """Presents the session's identities on this connection, until the server has accepted them."""
        self._xid = 0
        self._failures = 0
        self._last_failure = "no attempt was made"
        self._beat: TimerHandle | None = None
        # Requests, oldest first: without an answer from an earlier connection, sent, and not sent.
        self._unanswered: list[_Request] = []
        self._in_flight: deque[_Request] = deque()
        self._queue: deque[_Request] = deque()
        self._is_usable = False
        self._is_closed = False
        self._running: asyncio.Task[None] | None = None
        self._resuming: asyncio.Task[None] | None = None
        self._first_session: asyncio.Future[None] | None = None

    @property
    def number(self) -> int:
        """The session's id, as a positive number; another one in each session, 0 before the first."""
        return self._number

    @property
    def is_usable(self) -> bool:
        """Whether requests are sent at once: the server has accepted the session on the present connection."""
        return self._is_usable

    @property
    def timeout_ms(self) -> int:
        """How long ZooKeeper keeps the session without hearing of it, as negotiated."""
        return self._timeout_ms

    @property
    def password(self) -> bytes:
        """With the id, what another connection needs to take over the session."""
        return self._password

    def add_listener(self, listener: SessionListener) -> None:
        """See ``MetadataStore.add_session_listener``."""
        self._listeners.append(listener)

    async def open(self) -> None:
        """Open the first session; raises StoreUnreachableError, StoreRefusedError (of its identities)."""
        limit_ms = self._settings.connection_timeout_ms
        first = self._first_session = asyncio.get_running_loop().create_future()
        self._running = asyncio.create_task(self._keep_connected(), name="zookeeper-session")
        late = self._clock.call_later(limit_ms, first.cancel)
        try:
            await asyncio.wait([first])
        finally:
            late.cancel()
            if not first.done() or first.cancelled() or first.exception() is not None:
                await self.close()
        if first.cancelled():
            has_tls = self._settings.security.tls is not None
            keys = "are zookeeper.connect and zookeeper.ssl.*" if has_tls else "is zookeeper.connect"
            raise StoreUnreachableError(
                f"no ZooKeeper answers at {self._address.servers} within {limit_ms} ms ({self._last_failure}): is it "
                f"running, and {keys} right?"
            )
        first.result()

    async def close(self) -> None:
        """End the session; what waits for an answer fails with StoreClosedError. Closing twice does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        self.heartbeat.stop()
        connection = self._connection
        for request in (*self._unanswered, *self._in_flight, *self._queue):
            _fail(request, StoreClosedError("/"))
        if connection is not None and self._accepted is not None and self._accepted.done():
            connection.send(int_struct.pack(self._next_xid()) + int_struct.pack(serialization.Close.type))
            late = self._clock.call_later(CLOSE_MS, connection.abort, "the server did not end the session in time")
            await asyncio.wait([connection.closed])
            late.cancel()
        elif self._number:
            logger.warning(
                "ZooKeeper can't be reached: the session stays open there for up to %d ms more", self._timeout_ms
            )
        tasks = [task for task in (self._running, self._resuming) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # Requests.

    def get(self, path: str, watch: Watch | None) -> "asyncio.Future[Read]":
        """Ask for a node; the value is a Node."""
        return self._read(serialization.GetData(self._root.path(path), watch is not None), path, watch)

    def exists(self, path: str, watch: Watch | None, root: TreeRoot | None = None) -> "asyncio.Future[Read]":
        """Ask for a node's stat; the value is a NodeStat. ``watch`` may wait for the node to be created.

        ``root`` is where the path begins, if not at the store's root.
        """
        return self._read(serialization.Exists((root or self._root).path(path), watch is not None), path, watch)

    def children(self, path: str, watch: Watch | None) -> "asyncio.Future[Read]":
        """Ask for the names below a node; the value is a list."""
        return self._read(serialization.GetChildren(self._root.path(path), watch is not None), path, watch)

    def _read(self, message: Any, path: str, watch: Watch | None) -> "asyncio.Future[Read]":
        request = self._request(message, path)
        request.watch = watch
        self._submit(request)
        return request.answer

    def write(self, operations: Sequence[Operation], root: TreeRoot | None = None) -> "asyncio.Future[Outcome]":
        """Do all the operations or none; ``root`` is where their paths begin, if not at the store's root.

        The future has the results, or the error of the operation that was refused. It fails with SessionEndedError when
        their outcome is unknown.
        """
        root = root or self._root
        request = self._request(root.message(operations), operations[0].path if operations else "/")
        request.operations = operations
        size = len(request.payload)
        if not operations:
            request.answer.set_result([])
        elif size > MAX_REQUEST_SIZE:
            reason = f"{size} bytes for {request.path} are more than ZooKeeper accepts at once ({MAX_REQUEST_SIZE})"
            request.answer.set_result(StoreRefusedError(request.path, reason))
        else:
            self._submit(request)
        return request.answer

    def _request(self, message: Any, path: str) -> _Request:
        if self._is_closed:
            raise StoreClosedError("/")
        return _Request(message, path, asyncio.get_running_loop().create_future())

    def _submit(self, request: _Request) -> None:
        while self._queue and self._queue[0].answer.done():  # its caller has timed out
            self._queue.popleft()
        self._queue.append(request)
        self._pump()

    def _pump(self) -> None:
        while self._is_usable and self._queue and len(self._in_flight) < self._settings.max_in_flight:
            request = self._queue.popleft()
            if not request.answer.done():  # a caller that was cancelled needs nothing
                self._send(request)

    def _send(self, request: _Request) -> None:
        assert self._connection is not None, "requests are sent while there is a connection"
        request.xid, request.seen_zxid = self._next_xid(), self._seen_zxid
        self._in_flight.append(request)
        self._connection.send(int_struct.pack(request.xid) + request.payload)

    def _next_xid(self) -> int:
        self._xid = self._xid % _MAX_XID + 1
        return self._xid

    # The server's messages.

    def _received(self, payload: bytes) -> None:
        header, offset = ReplyHeader.deserialize(payload, 0)
        if header.xid == _XID_EVENT:
            self._watched(payload, offset)
        elif self._identifying is not None and header.xid != XID_PING:
            self._identify(IdentityAnswer(header.err, payload[offset:]))
        elif header.xid not in (XID_PING, _XID_WATCHES) and not self._is_closed:
            self._answered(header, payload, offset)

    def _watched(self, payload: bytes, offset: int) -> None:
        event, _ = serialization.Watch.deserialize(payload, offset)
        kind = _EVENT_KINDS.get(event.type)
        if kind is None or self._is_closed:
            return
        path = self._root.own_path(event.path)
        self._absent.discard(path)
        self._watches.fire([WatchEvent(kind, path)])

    def _answered(self, header: Any, payload: bytes, offset: int) -> None:
        if not self._in_flight or header.xid != self._in_flight[0].xid:
            raise ValueError(f"an answer to request {header.xid}, which is not the oldest")
        if header.err in (SESSION_EXPIRED, SESSION_MOVED):
            self._disconnect("it does not serve the session any more")
            return
        if header.err == SASL_REQUIRED:
            self._require_login()
            return
        request = self._in_flight[0]
        self._seen_zxid = max(self._seen_zxid, header.zxid)
        if not request.answer.done():
            if request.operations:
                self._answer_write(request, header.err, payload, offset)
            else:
                self._answer_read(request, header, payload, offset)
        self._in_flight.popleft()
        self._pump()

    def _answer_write(self, request: _Request, error: int, payload: bytes, offset: int) -> None:
        if error:
            request.answer.set_result(error_of(error, request.path))
        else:
            answers = request.message.deserialize(payload, offset)
            request.answer.set_result(self._root.outcome(request.operations, answers))

    def _answer_read(self, request: _Request, header: Any, payload: bytes, offset: int) -> None:
        is_absent = header.err == NO_NODE
        if header.err and not is_absent:
            request.answer.set_exception(error_of(header.err, request.path))
            return
        value = None if is_absent else _value(request.message, payload, offset)
        if request.watch is not None:
            self._arm(request, request.watch, is_absent=is_absent)
        request.answer.set_result(Read(value, header.zxid))

    def _arm(self, request: _Request, watch: Watch, *, is_absent: bool) -> None:
        """The server watches the node from this answer on."""
        if isinstance(request.message, serialization.GetChildren):
            if not is_absent:
                self._watches.add_children(request.path, watch)
        elif not is_absent:
            self._absent.discard(request.path)
            self._watches.add_data(request.path, watch)
        elif isinstance(request.message, serialization.Exists):
            self._absent.add(request.path)
            self._watches.add_data(request.path, watch)

    # Connections, one after the other.

    async def _keep_connected(self) -> None:
        while True:
            servers = self._address.hosts
            self._random.shuffle(servers)
            for host, port in servers:
                reason = await self._attend(host, port, len(servers))
                self._lost(f"{host}:{port}: {reason}")
                await self._clock.sleep(self._backoff_ms())

    def _backoff_ms(self) -> float:
        longest_ms: int = min(BACKOFF_MAX_MS, BACKOFF_MS * 2 ** min(self._failures, 10))
        return longest_ms * (0.5 + self._random.random() / 2)

    async def _attend(self, host: str, port: int, servers: int) -> str:
        """Connect to a server and stay until the connection is over; returns why it is."""
        connection = self._connection = self._new_connection(host)
        accepted = self._accepted = asyncio.get_running_loop().create_future()
        limit_ms = self._timeout_ms / servers
        opening = asyncio.ensure_future(self._open_connection(connection, host, port))
        late = self._clock.call_later(limit_ms, opening.cancel)
        self._failures += 1
        try:
            await asyncio.wait([opening])
            if opening.cancelled():
                return f"no answer within {limit_ms:.0f} ms"
            refused = opening.result()
            if refused is not None:
                return refused
            if accepted.done():
                self._failures = 0
            return await connection.closed
        finally:
            late.cancel()
            opening.cancel()
            if self._beat is not None:
                self._beat.cancel()
            connection.abort("this broker has closed the connection")

    def _new_connection(self, host: str) -> ServerConnection:
        tls = None
        if self._settings.security.tls is not None:
            from kafkapy.metadata.zookeeper_tls import TlsChannel

            tls = TlsChannel(self._settings.security.tls, host)
        return ServerConnection(self._clock, self._connect_answered, tls)

    async def _open_connection(self, connection: ServerConnection, host: str, port: int) -> str | None:
        """Connect, and present the session; returns when the server has accepted it, or with what went wrong."""
        try:
            await asyncio.get_running_loop().create_connection(lambda: connection, host, port)
        # UnicodeError: a name that can't be one of a host; RuntimeError: no thread in which to look for its address
        except (OSError, UnicodeError, RuntimeError) as error:
            return f"no connection: {getattr(error, 'strerror', None) or error}"
        ready: list[asyncio.Future[Any]] = [connection.opened, connection.closed]
        await asyncio.wait(ready, return_when=asyncio.FIRST_COMPLETED)
        timeout_ms = self._settings.session_timeout_ms
        connect = Connect(0, self._seen_zxid, timeout_ms, self._id, self._password, False)
        connection.send(bytes(connect.serialize()))
        assert self._accepted is not None, "it is made with the connection"
        ends: list[asyncio.Future[Any]] = [self._accepted, connection.closed]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        return None

    def _connect_answered(self, payload: bytes) -> None:
        """The server has accepted the session, opened a new one, or says that the session has expired."""
        answer, _ = Connect.deserialize(payload, 0)
        connection = self._connection
        assert connection is not None, "the answer came on it"
        if answer.time_out <= 0:
            self._disconnect("the session has expired")
            self._failures = 0
            self._expire()
            return
        connection.receive = self._received
        self._id, self._password, self._timeout_ms = answer.session_id, answer.passwd, answer.time_out
        self._xid = 0
        self._keep_alive(connection)
        self._identifying = identification(self._settings.security)
        self._identify(None)

    def _identify(self, answer: IdentityAnswer | None) -> None:
        """Present the session's next identity, after the answer to the one before; after all, enter the session."""
        assert self._identifying is not None, "the server answers to an identity"
        assert self._connection is not None, "the answer came on it"
        try:
            payload = next(self._identifying) if answer is None else self._identifying.send(answer)
        except StopIteration:
            self._identifying = None
            self._enter(self._connection)
        except IdentityRefusedError as error:
            self._refused(str(error))
        else:
            self._connection.send(payload)

    def _refused(self, reason: str) -> None:
        """The server does not accept the session's identities: no further attempt before the first session."""
        self._disconnect(reason)
        first = self._first_session
        if first is not None and not first.done():
            sentence = f"the ZooKeeper at {self._address.servers} refuses this broker: {reason}"
            first.set_exception(StoreRefusedError("/", sentence))

    def _enter(self, connection: ServerConnection) -> None:
        """The connection can be used, for a new session or for the one that continues."""
        if self._accepted is not None and not self._accepted.done():
            self._accepted.set_result(None)
        if session_number(self._id) != self._number:
            self._begin()
        else:
            logger.info("ZooKeeper can be reached again; the session goes on")
            self._set_watches(connection)
            self._resuming = asyncio.create_task(self._resume(), name="zookeeper-resume")

    def _begin(self) -> None:
        """A new session is there."""
        is_first = self._number == 0
        self._number = session_number(self._id)
        self._is_usable = True
        if is_first:
            logger.info("Connected to ZooKeeper at %s", self._address)
        else:
            self._tell(SessionEvent.RENEWED)
        if self._first_session is not None and not self._first_session.done():
            self._first_session.set_result(None)
        self._pump()

    def _lost(self, reason: str) -> None:
        """The connection is closed; the session may continue on another one."""
        was_usable = self._is_usable
        self._is_usable = False
        self._connection = None
        self._identifying = None
        if self._resuming is not None:
            self._resuming.cancel()
        for request in self._in_flight:
            if request.is_look_up:
                request.answer.cancel()
            else:
                self._unanswered.append(request)
        self._in_flight.clear()
        if was_usable and not self._is_closed:
            logger.warning("The connection to ZooKeeper is lost, trying again: %s", reason)
        elif self._failures == 1 and not self._is_closed:
            logger.warning("No ZooKeeper yet, trying again: %s", reason)
        self._last_failure = reason

    def _disconnect(self, reason: str) -> None:
        if self._connection is not None:
            self._connection.abort(reason)

    def _keep_alive(self, connection: ServerConnection) -> None:
        """Ping when no message was sent for a while, close a connection on which none was received."""
        now_s = self._clock.monotonic_s()
        timeout_s = self._timeout_ms / 1000
        if now_s - connection.heard_s >= timeout_s * 2 / 3:
            connection.abort(f"nothing was heard of it for {now_s - connection.heard_s:.1f} s")
            return
        if now_s - connection.sent_s >= timeout_s / 4:
            connection.send(PING)
        self.heartbeat.beat(connection, self._timeout_ms)
        self._beat = self._clock.call_later(self._timeout_ms / 6, self._keep_alive, connection)

    def _require_login(self) -> None:
        """The server opens a session for each client, but serves only clients that have authenticated by SASL."""
        reason = "it serves only clients that authenticate: name in KAFKA_OPTS a JAAS file with the section Client"
        for request in (*self._unanswered, *self._in_flight, *self._queue):
            _fail(request, StoreRefusedError(request.path, f"the ZooKeeper at {self._address.servers}: {reason}"))
        self._disconnect(reason)

    # The session continues, or has ended.

    def _set_watches(self, connection: ServerConnection) -> None:
        seen_zxid = self._seen_zxid
        some: tuple[list[str], list[str], list[str]] = ([], [], [])
        size = 0
        watched = [(int(path in self._absent), path) for path in self._watches.data_paths]
        for kind, path in (*watched, *((2, path) for path in self._watches.children_paths)):
            full = self._root.path(path)
            some[kind].append(full)
            size += len(full)
            if size > WATCHES_OF_A_REQUEST:
                self._send_watches(connection, SetWatches(seen_zxid, *some))
                some, size = ([], [], []), 0
        if size:
            self._send_watches(connection, SetWatches(seen_zxid, *some))

    def _send_watches(self, connection: ServerConnection, message: SetWatches) -> None:
        connection.send(int_struct.pack(_XID_WATCHES) + int_struct.pack(message.type) + message.serialize())

    async def _resume(self) -> None:
        """Find out which of the writes without an answer were done, and send the others again."""
        for request in self._unanswered:
            if request.operations and not request.answer.done():
                results = await self._looked_up(request)
                if results is None:
                    break
                if not request.answer.done():
                    request.answer.set_result(results)
        again = [request for request in self._unanswered if not request.answer.done()]
        self._unanswered.clear()
        self._queue.extendleft(reversed(again))
        self._is_usable = True
        self._pump()

    async def _looked_up(self, write: _Request) -> list[Result] | None:
        nodes: dict[str, Node | None] = {}
        for path in dict.fromkeys(operation.path for operation in write.operations):
            request = self._request(serialization.GetData(self._root.path(path), False), path)
            request.is_look_up = True
            self._send(request)
            try:
                nodes[path] = (await request.answer).value
            except StoreError as error:  # the server then tells the caller of the write the same
                logger.warning("It can't be looked up whether a write was done: %s", error)
                return None
        return results_if_done(write.operations, nodes, write.seen_zxid, self._number)

    def _expire(self) -> None:
        """The session is over: tell the listeners, then those who wait for a write."""
        self._id, self._password, self._seen_zxid = 0, _NO_PASSWORD, 0
        self._watches.clear()
        self._absent.clear()
        without_answer, self._unanswered = self._unanswered, []
        if self._is_closed:
            return
        self._tell(SessionEvent.EXPIRED)
        reads = [request for request in without_answer if not request.operations]
        self._queue.extendleft(reversed(reads))
        for request in without_answer:
            if request.operations:
                _fail(request, SessionExpiredError("/"))

    def _tell(self, event: SessionEvent) -> None:
        for listener in self._listeners:
            listener(event)


def _value(message: Any, payload: bytes, offset: int) -> Any:
    """Return what a read found, in the store's terms."""
    found = message.deserialize(payload, offset)
    if isinstance(message, serialization.GetData):
        data, stat = found
        return Node(data, stat_of(stat))
    return stat_of(found) if isinstance(message, serialization.Exists) else found


def _fail(request: _Request, error: StoreError) -> None:
    if not request.answer.done():
        request.answer.set_exception(error)
        request.answer.exception()  # asyncio logs exceptions that were never retrieved
