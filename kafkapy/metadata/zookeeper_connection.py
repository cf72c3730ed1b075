"""One TCP connection to a ZooKeeper server: frames in and out, and how long ago something was heard.

A frame is four bytes of length and a payload. The session interprets the payloads (``zookeeper.py``); the classes of
``kazoo.protocol.serialization`` encode and decode them.
"""

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar, Final

from kazoo.protocol.serialization import Ping, int_struct, long_struct, write_string

from kafkapy.clock import Clock
from kafkapy.security.errors import connection_failure

if TYPE_CHECKING:
    from kafkapy.metadata.zookeeper_tls import TlsChannel

MAX_FRAME_SIZE: Final = 64 * 1024 * 1024
"""A larger response, such as the names of a million children, ends the connection."""

_LENGTH_SIZE: Final = int_struct.size
_CLOSED: Final = "the server closed the connection"
XID_PING: Final = -2
PING: Final = int_struct.pack(XID_PING) + int_struct.pack(Ping.type)


class SetWatches:
    """Sets watches again on another connection of the session (operation 101).

    The server tells at once of each node that has changed after ``seen_zxid``, and watches the others.
    """

    type: ClassVar[int] = 101

    def __init__(self, seen_zxid: int, data: Sequence[str], absent: Sequence[str], children: Sequence[str]) -> None:
        self._seen_zxid = seen_zxid
        self._paths = (data, absent, children)

    def serialize(self) -> bytes:
        """Encode the message, without its type."""
        parts = [long_struct.pack(self._seen_zxid)]
        for paths in self._paths:
            parts.append(int_struct.pack(len(paths)))
            parts += map(write_string, paths)
        return b"".join(parts)


class ServerConnection(asyncio.Protocol):
    """``receive`` gets each payload; ``closed`` gets the reason when the connection is over, whatever ended it.

    All methods are for the event loop, but ``ping_after``, which another thread may call. ``tls`` encrypts.
    """

    def __init__(self, clock: Clock, receive: Callable[[bytes], None], tls: "TlsChannel | None" = None) -> None:
        self.receive = receive
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when payloads can be sent; not if the connection is closed before."""
        self.closed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.heard_s = self.sent_s = clock.monotonic_s()
        self._clock = clock
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._tls = tls
        self._sending = threading.Lock()
        """Held while a frame is sent, and while ``tls`` is used: no other one may begin in the middle of it."""
        self._unsent = b""
        """The end of a ping that the socket did not take: it precedes what is sent next."""
        self._socket: socket.socket | None = None
        """The transport's socket under another descriptor, which stays that socket until ``connection_lost``."""

    def send(self, payload: bytes) -> None:
        """Send a payload; it is lost when the connection is over."""
        if self._transport is not None and not self.closed.done():
            with self._sending:
                self.sent_s = self._clock.monotonic_s()
                self._write(self._transport, self._sealed(_frame(payload)))

    def ping_after(self, quiet_s: float) -> None:
        """Ping if nothing was sent for ``quiet_s``, and no part of a frame still waits; may be called in a thread."""
        with self._sending:
            now_s = self._clock.monotonic_s()
            if self._socket is None or self._transport is None or now_s - self.sent_s < quiet_s:
                return
            if self._unsent or self._transport.get_write_buffer_size():
                return  # what waits is a message too
            if self._tls is not None and not self._tls.is_open:
                return
            try:
                ping = self._unsent = self._sealed(_frame(PING))
                self._unsent = ping[self._socket.send(ping) :]
            except OSError:
                return  # the event loop finds out
            self.sent_s = now_s

    def abort(self, reason: str) -> None:
        """Close the connection at once; later calls change nothing."""
        if not self.closed.done():
            self.closed.set_result(reason)
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See ``asyncio.BaseProtocol``."""
        assert isinstance(transport, asyncio.Transport), "a stream has a transport for reading and writing"
        self._transport = transport
        with suppress(OSError):  # no descriptor is free: then only the event loop pings
            self._socket = transport.get_extra_info("socket").dup()
        if self.closed.done():
            transport.abort()
        if self._tls is None:
            self.opened.set_result(None)
        else:
            self._tls.start()
            self._write(transport, self._tls.to_send())

    def data_received(self, data: bytes) -> None:
        """See ``asyncio.Protocol``."""
        self.heard_s = self._clock.monotonic_s()
        if self._tls is not None:
            try:
                data = self._opened(self._tls, data)
            except OSError as error:  # of TLS
                self.abort(f"TLS failed: {connection_failure(error)}")
                return
        self._buffer += data
        try:
            while not self.closed.done() and (payload := self._next_payload()) is not None:
                self.receive(payload)
        except (struct.error, ValueError, RuntimeError) as error:  # kazoo raises the last one for unknown error codes
            self.abort(f"it sent what is no response of a ZooKeeper ({error})")
        if self._tls is not None and self._tls.is_over:
            self.abort(_CLOSED)

    def connection_lost(self, error: Exception | None) -> None:
        """See ``asyncio.BaseProtocol``."""
        with self._sending:
            if self._socket is not None:
                self._socket.close()
            self._socket = None
        self.abort(_CLOSED if error is None else f"the connection broke: {error}")

    def _write(self, transport: asyncio.Transport, data: bytes) -> None:
        transport.write(self._unsent + data)
        self._unsent = b""

    def _sealed(self, frame: bytes) -> bytes:
        if self._tls is None:
            return frame
        self._tls.encrypt(frame)
        return self._tls.to_send()

    def _opened(self, tls: "TlsChannel", data: bytes) -> bytes:
        """Decrypt bytes; the handshake, and later requests of the server for other keys, are answered."""
        with self._sending:
            try:
                data = tls.decrypt(data)
            finally:  # an alert says why TLS failed
                if self._transport is not None and (answer := tls.to_send()):
                    self._write(self._transport, answer)
        if tls.is_open and not self.opened.done():
            self.opened.set_result(None)
        return data

    def _next_payload(self) -> bytes | None:
        if len(self._buffer) < _LENGTH_SIZE:
            return None
        (size,) = int_struct.unpack_from(self._buffer)
        if not 0 <= size <= MAX_FRAME_SIZE:
            raise ValueError(f"a length of {size} bytes")
        end = _LENGTH_SIZE + size
        if len(self._buffer) < end:
            return None
        payload = bytes(self._buffer[_LENGTH_SIZE:end])
        del self._buffer[:end]
        return payload


def _frame(payload: bytes) -> bytes:
    length: bytes = int_struct.pack(len(payload))
    return length + payload
