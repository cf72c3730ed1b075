"""The parts of a connection that depend on the security protocol: its start, its sender, and bytes in the kernel.

A plaintext connection may write to its descriptor beside the event loop, which is what ``sendfile`` does. Under TLS
that would put plaintext between encrypted records, so ``ConnectionTransport`` is the only place that makes senders and
uses descriptors. A transport for TLS

- starts the handshake in ``start`` (``ssl=``) and sets the session's principal after it;
- has ``limit_writing`` call ``set_write_buffer_limits(high=1, low=0)``: with 0 asyncio's TLS transport pauses at once,
  since it compares with >= where that of a socket compares with >;
- returns a ``BodySender``, which reads slices with ``pread`` and gives them to the event loop's transport to encrypt;
- returns None for ``unread_before_end``, since the kernel counts encrypted bytes.

``tests/network/test_transport.py`` has one.
"""

import asyncio
import select
import socket
import sys
from collections.abc import Callable
from typing import Any, Final, Protocol

from kafkapy.network import sender
from kafkapy.network.sender import BodySender, SendfileSender
from kafkapy.platform import portable

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

    def limit_writing(self, transport: asyncio.Transport) -> None:
        """Make ``transport`` call ``pause_writing`` as soon as a byte is unsent: the next request waits for it."""
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

    async def start(self, sock: socket.socket, connection: asyncio.BufferedProtocol) -> None:
        """See ``ConnectionTransport.start``."""
        await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, sock)

    def limit_writing(self, transport: asyncio.Transport) -> None:
        """See ``ConnectionTransport.limit_writing``."""
        transport.set_write_buffer_limits(high=0)

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
