"""The parts of a connection that depend on the security protocol: its start, its sender, and bytes in the kernel.

A plaintext connection may write to its descriptor beside the event loop, which is what ``sendfile`` does. Under TLS
that would put plaintext between encrypted records, so ``ConnectionTransport`` is the only place that makes senders and
uses descriptors. ``TlsTransport`` reads slices with ``pread``, and gives them to the event loop's transport to encrypt.
"""

import asyncio
import select
import socket
import sys
from asyncio.sslproto import SSLProtocol, SSLProtocolState
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from kafkapy.network import sender
from kafkapy.network.sender import BodySender, SendfileSender
from kafkapy.network.session import ANONYMOUS
from kafkapy.platform import portable
from kafkapy.turns import turns

if TYPE_CHECKING:
    import ssl

TLS_BUFFER_SIZE: Final = 32_768
"""Encrypted bytes that are read at once: two records of TLS."""
STRANGER_BUFFER_SIZE: Final = 1_024
"""The same before the peer has authenticated: there may be thousands who never do."""
_END: Final = getattr(select, "POLLRDHUP", 0)
"""The event with which Linux reports that the end of the stream has arrived; 0 on other systems."""
_fcntl: Any = portable.module_or_none("fcntl")
_termios: Any = portable.module_or_none("termios")


class ConnectionTransport(Protocol):
    """The part of a connection that its security protocol decides; one for all connections of a listener."""

    async def start(self, sock: socket.socket, connection: asyncio.BufferedProtocol) -> None:
        """Make the event loop serve ``sock``; authenticate the peer if the protocol does that, within a time limit.

        Raises ``OSError`` if that fails; the socket is closed then, and nothing of ``connection`` has been called.
        """
        ...

    def end_starts(self) -> None:
        """Let each ``start`` that waits for its peer raise now: the listener is closed."""
        ...

    def principal_of(self, transport: asyncio.Transport) -> str:
        """Return the principal of the peer that the transport has authenticated, ANONYMOUS if it has not.

        Raises RefusedError for a peer that must not be served.
        """
        ...

    @property
    def has_half_close(self) -> bool:
        """Whether responses can be sent after the peer has closed its side."""
        ...

    def limit_writing(self, transport: asyncio.Transport) -> None:
        """Make ``transport`` call ``pause_writing`` as soon as a byte is unsent: the next request waits for it."""
        ...

    def read_more_at_once(self, transport: asyncio.Transport) -> None:
        """The peer has authenticated, or need not: it may cost as much memory as is good for the speed."""
        ...

    def new_sender(
        self,
        transport: asyncio.Transport,
        sock: socket.socket,
        *,
        is_blocked: Callable[[], bool],
        on_done: Callable[[], None],
    ) -> BodySender:
        """Return the sender of responses with file slices on ``transport``; see ``BodySender``."""
        ...

    def unread_before_end(self, transport: asyncio.Transport) -> int | None:
        """Return the bytes of requests in the kernel before the end of the stream.

        None if the end has not arrived, or if the system does not report it.
        """
        ...


class PlaintextTransport:
    """The transport of ``PLAINTEXT``: bytes go to the socket as they are, large slices by ``sendfile``."""

    __slots__ = ()
    has_half_close = True

    async def start(self, sock: socket.socket, connection: asyncio.BufferedProtocol) -> None:
        """See ``ConnectionTransport.start``."""
        await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, sock)

    def end_starts(self) -> None:
        """See ``ConnectionTransport.end_starts``: none waits."""

    def principal_of(self, transport: asyncio.Transport) -> str:  # noqa: ARG002  # PLAINTEXT authenticates no peer
        """See ``ConnectionTransport.principal_of``."""
        return ANONYMOUS

    def limit_writing(self, transport: asyncio.Transport) -> None:
        """See ``ConnectionTransport.limit_writing``."""
        transport.set_write_buffer_limits(high=0)

    def read_more_at_once(self, transport: asyncio.Transport) -> None:
        """See ``ConnectionTransport.read_more_at_once``: the buffer is the connection's own."""

    def new_sender(
        self,
        transport: asyncio.Transport,
        sock: socket.socket,
        *,
        is_blocked: Callable[[], bool],
        on_done: Callable[[], None],
    ) -> BodySender:
        """See ``ConnectionTransport.new_sender``."""
        if sender.sendfile is None:
            return BodySender(transport, is_blocked=is_blocked, on_done=on_done)
        return SendfileSender(transport, sock, is_blocked=is_blocked, on_done=on_done)

    def unread_before_end(self, transport: asyncio.Transport) -> int | None:
        """See ``ConnectionTransport.unread_before_end``."""
        return unread_before_end(transport.get_extra_info("socket").fileno())


class _TlsProtocol(SSLProtocol):
    """asyncio's protocol between socket and connection, with smaller buffers, and handshakes that take turns.

    asyncio's own buffer has 256 KiB for each connection, also for one that sends nothing. A step of a handshake takes
    up to some milliseconds, and hundreds of peers may send their first bytes at once: other clients are served
    between two steps.
    """

    max_size = STRANGER_BUFFER_SIZE
    _is_queued = False
    if TYPE_CHECKING:  # the typeshed describes the class of Python 3.10
        _state: object
        _incoming: ssl.MemoryBIO
        _transport: asyncio.Transport

    def _do_handshake(self) -> None:
        """Take a step when it is this connection's turn.

        The first one is taken when the peer has sent something: OpenSSL takes 34 KiB from then on.
        """
        if self._incoming.pending and not self._is_queued:
            self._is_queued = True
            self._transport.pause_reading()  # a peer that sends on would fill the memory meanwhile
            turns().enqueue(self._take_turn)

    def _take_turn(self) -> None:
        self._is_queued = False
        if self._state is SSLProtocolState.DO_HANDSHAKE:  # else the connection was lost, or its time was over
            self._transport.resume_reading()
            super()._do_handshake()  # type: ignore[misc]  # as above

    def end_handshake(self) -> None:
        """Fail unless it is done."""
        if self._state is SSLProtocolState.DO_HANDSHAKE:
            self._on_handshake_complete(ConnectionAbortedError("the listener is closed"))


class TlsTransport:
    """The transport of ``SSL`` and ``SASL_SSL``; ``context`` may be replaced, for the connections that come later."""

    __slots__ = ("context", "handshake_limit_s", "principal_of_certificate", "_handshakes")
    has_half_close = False

    def __init__(
        self,
        context: "ssl.SSLContext",
        principal_of_certificate: Callable[[bytes], str],
        handshake_limit_s: float,
    ) -> None:
        self.context = context
        self.handshake_limit_s = handshake_limit_s
        self.principal_of_certificate = principal_of_certificate
        """Returns the principal of a certificate in DER; raises RefusedError."""
        self._handshakes: set[_TlsProtocol] = set()

    async def start(self, sock: socket.socket, connection: asyncio.BufferedProtocol) -> None:
        """See ``ConnectionTransport.start``."""
        loop = asyncio.get_running_loop()
        shaken: asyncio.Future[None] = loop.create_future()
        limit_s: Any = self.handshake_limit_s  # the typeshed wants whole seconds
        protocol = _TlsProtocol(loop, connection, self.context, shaken, server_side=True, ssl_handshake_timeout=limit_s)
        self._handshakes.add(protocol)
        try:
            await loop.connect_accepted_socket(lambda: protocol, sock)
            await shaken
        finally:
            self._handshakes.discard(protocol)
            del shaken  # which has the error, whose traceback has this frame: a cycle

    def end_starts(self) -> None:
        """See ``ConnectionTransport.end_starts``."""
        for protocol in tuple(self._handshakes):
            protocol.end_handshake()

    def principal_of(self, transport: asyncio.Transport) -> str:
        """See ``ConnectionTransport.principal_of``."""
        certificate = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return self.principal_of_certificate(certificate) if certificate else ANONYMOUS

    def limit_writing(self, transport: asyncio.Transport) -> None:
        """See ``ConnectionTransport.limit_writing``."""
        transport.set_write_buffer_limits(high=1, low=0)  # with 0 asyncio's TLS pauses at once: it compares with >=

    def read_more_at_once(self, transport: asyncio.Transport) -> None:
        """See ``ConnectionTransport.read_more_at_once``."""
        transport._ssl_protocol.max_size = TLS_BUFFER_SIZE  # type: ignore[attr-defined]  # noqa: SLF001  # ours, see above

    def new_sender(
        self,
        transport: asyncio.Transport,
        sock: socket.socket,  # noqa: ARG002  # its bytes are encrypted by the transport
        *,
        is_blocked: Callable[[], bool],
        on_done: Callable[[], None],
    ) -> BodySender:
        """See ``ConnectionTransport.new_sender``."""
        return BodySender(transport, is_blocked=is_blocked, on_done=on_done)

    def unread_before_end(self, transport: asyncio.Transport) -> int | None:  # noqa: ARG002  # the kernel counts encrypted bytes
        """See ``ConnectionTransport.unread_before_end``."""
        return None


def unread_before_end(descriptor: int) -> int | None:
    """Return the unread bytes before the end of the stream; None if it has not arrived, or is not reported.

    The event loop notices the end of a stream only by a read, and a connection that waits for memory is not read.
    """
    if not _END or _fcntl is None or _termios is None:
        return None
    poll = select.poll()
    poll.register(descriptor, _END)
    if not poll.poll(0):
        return None
    unread = bytearray(4)
    _fcntl.ioctl(descriptor, _termios.FIONREAD, unread)
    return int.from_bytes(unread, sys.byteorder)


def break_cycles(transport: asyncio.Transport) -> None:
    """Drop the bound methods that a closed transport of asyncio has as its own attributes.

    They refer to the transport, and only a full garbage collection would find that, which comes seldom
    (``server/lifecycle/interpreter.py``): a thousand closed connections take 2 MB.
    """
    for name, value in tuple(vars(transport).items()):
        if getattr(value, "__self__", None) is transport:
            setattr(transport, name, None)
