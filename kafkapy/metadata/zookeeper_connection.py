"""One TCP connection to a ZooKeeper server: frames in and out, and how long ago something was heard.

A frame is four bytes of length and a payload. What the payloads mean is the matter of the session (``zookeeper.py``);
they are encoded and decoded by the classes of ``kazoo.protocol.serialization``.
"""

import asyncio
import struct
from collections.abc import Callable, Sequence
from typing import ClassVar, Final

from kazoo.protocol.serialization import int_struct, long_struct, write_string

from kafkapy.clock import Clock

MAX_FRAME_SIZE: Final = 64 * 1024 * 1024
"""A larger response, such as the names of a million children, ends the connection."""

_LENGTH_SIZE: Final = int_struct.size


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
    """``receive`` gets each payload; ``closed`` gets the reason when the connection is over, whatever ended it."""

    def __init__(self, clock: Clock, receive: Callable[[bytes], None]) -> None:
        self.receive = receive
        self.closed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.heard_s = self.sent_s = clock.monotonic_s()
        self._clock = clock
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()

    def send(self, payload: bytes) -> None:
        """Send a payload; it is lost when the connection is over."""
        if self._transport is not None and not self.closed.done():
            self.sent_s = self._clock.monotonic_s()
            self._transport.write(int_struct.pack(len(payload)) + payload)

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
        if self.closed.done():
            transport.abort()

    def data_received(self, data: bytes) -> None:
        """See ``asyncio.Protocol``."""
        self.heard_s = self._clock.monotonic_s()
        self._buffer += data
        try:
            while not self.closed.done() and (payload := self._next_payload()) is not None:
                self.receive(payload)
        except (struct.error, ValueError, RuntimeError) as error:  # kazoo raises the last one for unknown error codes
            self.abort(f"it sent what is no response of a ZooKeeper ({error})")

    def connection_lost(self, error: Exception | None) -> None:
        """See ``asyncio.BaseProtocol``."""
        self.abort("the server closed the connection" if error is None else f"the connection broke: {error}")

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
