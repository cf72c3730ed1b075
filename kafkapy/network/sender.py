"""Send responses whose records are in files.

``BodySender`` reads slices of files and writes them to the event loop's transport, a piece at a time: it works on every
transport, also where bytes are encrypted on the way or the system has no ``sendfile``. ``SendfileSender`` sends large
slices from the file to the socket within the kernel: plaintext only, since it goes past the event loop's transport.
``transport.py`` chooses. ``os.sendfile`` is called directly: measured on CPython 3.11, 64 kB cost 14 µs by it and 54 µs
by ``loop.sendfile``, and nothing is left behind when the connection is aborted. The rest of a slice that the socket
does not take is sent when it is writable again, which is watched on a duplicate of the socket's descriptor (the loop
guards the transport's own); a rest below 128 kB is read and given to the transport.

A slice is large from 128 kB on, since reading a shorter one and writing it together with the bytes around it costs
less: 64 kB take both ends together 39 µs and not 50, and arrive in one piece and not in two or three, each of which an
asyncio client takes in for 20 µs more. If the response is only a head and a slice, 16 kB are enough: the kernel holds
the head back (``MSG_MORE``) until the slice is there, so that both are still one piece to the client. Only the response
to a Fetch of one partition before version 12 ends with its slice; later versions have tags behind it. At 64 kB this
saves a quarter of the broker's processor time on 16 connections, a tenth on one, and as much of the round trip; below
16 kB nothing (``bench/results/small-requests.md``).

A slice that has to be converted for an old client is converted and sent piece by piece; between two pieces the loop
serves other connections.
"""

import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from kafkapy.platform.files import FileSlice
from kafkapy.protocol.writer import Part
from kafkapy.storage.log.converted import ConvertedSlice

SENDFILE_FROM_SIZE: Final = 131_072
SENDFILE_ALONE_FROM_SIZE: Final = 16_384
"""The same for a response of a head and one slice."""
PIECE_SIZE: Final = 131_072
"""The most bytes that are read for a client before the socket has taken them.

Memory of twice the size goes back to the system after each piece: under TLS a gigabyte took 1.5 times as long.
"""
_MAX_COUNT: Final = 0x7FFF_F000
_MORE: Final[int] = getattr(socket, "MSG_MORE", 0)
"""The kernel holds the bytes back until others follow; 0 on systems that can't."""


sendfile: Callable[[int, int, int, int], int] | None = getattr(os, "sendfile", None)
"""From a file to a socket within the kernel; None where the system has no such call."""


class FileCutError(Exception):
    """A file became shorter than the response that announced its bytes: the connection must be closed."""


class BodySender:
    """Sends the parts of one response after the other; slices are read, then written to the transport."""

    __slots__ = ("bytes_sent", "_transport", "_is_blocked", "_on_done", "_loop", "_parts", "_pausing")

    def __init__(
        self,
        transport: asyncio.Transport,
        *,
        is_blocked: Callable[[], bool],
        on_done: Callable[[], None],
    ) -> None:
        """``is_blocked`` tells whether the transport holds unsent bytes; ``on_done`` is called after a wait only."""
        self.bytes_sent = 0
        self._transport = transport
        self._is_blocked = is_blocked
        self._on_done = on_done
        self._loop = asyncio.get_running_loop()
        self._parts: deque[Part] = deque()
        self._pausing: asyncio.Handle | None = None

    @property
    def is_sending(self) -> bool:
        """Whether parts wait for the socket."""
        return bool(self._parts)

    @property
    def waiting_size(self) -> int:
        """Bytes of the parts that wait for the socket."""
        return sum(map(len, self._parts))

    @property
    def held_size(self) -> int:
        """Bytes that these parts hold in memory: no slices of files, and a part that occurs often counts once."""
        held = {id(part): len(part) for part in self._parts if isinstance(part, bytes | bytearray | memoryview)}
        return sum(held.values())

    def send(self, parts: list[Part]) -> bool:
        """Begin to send; tell whether the socket took everything. Raises ``OSError`` and ``FileCutError``."""
        if not self._parts and 1 < len(parts) < 4:  # as ``_advance`` does, for 5 % less of a fetch of 64 kB
            head, body, *rest = parts
            end = rest[0] if rest else b""
            are_bytes = isinstance(head, bytearray) and isinstance(end, bytes | bytearray)
            if are_bytes and isinstance(body, FileSlice) and body.size < SENDFILE_FROM_SIZE:
                self._transport.write(b"".join((head, _read(body), end)))  # type: ignore[arg-type]  # see are_bytes
                return not self._is_blocked()
        self._parts.extend(parts)
        return self._advance()

    def unblocked(self) -> None:
        """The transport's buffer is empty again: go on."""
        if self._advance():
            self._on_done()

    def close(self) -> None:
        """Drop the unsent parts: the connection is closed."""
        while self._parts:
            part = self._parts.popleft()
            if isinstance(part, FileSlice | ConvertedSlice):
                part.release()
        if self._pausing is not None:
            self._pausing.cancel()
        # the callbacks lead back to the connection, which has this sender: a cycle that only a full collection finds
        self._is_blocked, self._on_done = bool, _nothing

    def close_inherited(self) -> None:
        """Close the descriptors that only the sender has; called in a forked child."""

    def _advance(self) -> bool:
        while self._parts:
            piece = self._gather()
            if piece:
                self._transport.write(piece)
            if self._is_blocked():
                return False
            if self._parts and isinstance(self._parts[0], ConvertedSlice):
                self._pause(self._parts[0].pending)
                return False
            if self._next_is_file() and not self._send_slice():
                return False
        return True

    def _pause(self, pending: "asyncio.Future[Any] | None") -> None:
        """Go on in the next iteration of the loop, or when ``pending`` is done."""
        if pending is None:
            self._pausing = self._loop.call_soon(self._go_on)
        else:
            pending.add_done_callback(lambda _: self._go_on() if self._parts else None)

    def _gather(self) -> bytes | bytearray:
        """Take the parts up to the next large slice, in one piece, but little more than ``PIECE_SIZE`` of them."""
        pieces: list[bytes | bytearray | memoryview] = []
        gathered = 0
        while self._parts and gathered < PIECE_SIZE:
            part = self._parts[0]
            if isinstance(part, bytes | bytearray | memoryview):
                pieces.append(part)
            elif isinstance(part, ConvertedSlice):
                pieces.append(part.next_piece())
                self.bytes_sent += len(pieces[-1])
                if part.size:
                    break
                part.release()
            else:
                assert isinstance(part, FileSlice)
                if part.size >= SENDFILE_FROM_SIZE:
                    break
                pieces.append(_read(part))
            gathered += len(pieces[-1])
            self._parts.popleft()
        return b"".join(pieces)

    def _next_is_file(self) -> bool:
        part = self._parts[0] if self._parts else None
        return isinstance(part, FileSlice) and part.size >= SENDFILE_FROM_SIZE

    def _send_slice(self) -> bool:
        """Send from the first part, a slice; tell whether all of it was sent."""
        body = self._parts[0]
        assert isinstance(body, FileSlice)
        while body.size:
            data = body.read_part(PIECE_SIZE, 0)
            if not data:
                raise FileCutError(f"{body.size} bytes announced are not in the file")
            self._transport.write(data)
            self.bytes_sent += len(data)
            body.position += len(data)
            body.size -= len(data)
            if self._is_blocked():
                return False
        self._drop_first(body)
        return True

    def _drop_first(self, body: FileSlice) -> None:
        self._parts.popleft()
        body.release()

    def _go_on(self) -> None:
        """Send on outside of ``send`` and ``unblocked``.

        Errors end the connection, as they do in the event loop's own writes, and so do bugs.
        """
        done = None
        try:
            done = self._advance()
        except (OSError, FileCutError):
            return
        finally:
            if done is None:
                self._abort()
        if done:
            self._on_done()

    def _abort(self) -> None:
        self._transport.abort()


class SendfileSender(BodySender):
    """Sends large slices from the file to the socket within the kernel: for plaintext only."""

    __slots__ = ("_socket", "_watched")

    def __init__(
        self,
        transport: asyncio.Transport,
        sock: socket.socket,
        *,
        is_blocked: Callable[[], bool],
        on_done: Callable[[], None],
    ) -> None:
        super().__init__(transport, is_blocked=is_blocked, on_done=on_done)
        self._socket = sock
        self._watched: int | None = None

    def send(self, parts: list[Part]) -> bool:
        """See ``BodySender.send``."""
        if len(parts) == 2 and _MORE and not self._parts and not self._is_blocked():
            head, body = parts
            is_large = isinstance(body, FileSlice) and body.size >= SENDFILE_ALONE_FROM_SIZE
            if is_large and isinstance(head, bytearray) and not self._transport.is_closing():
                self._parts.append(body)
                return self._send_both(head)
        return super().send(parts)

    def _send_both(self, head: bytearray) -> bool:
        """Send the head, and together with it the only slice: as one piece, without copying.

        If the socket does not take all of a slice that would be read otherwise, its rest is read: no duplicate of the
        socket's descriptor is needed then.
        """
        try:
            sent = self._socket.send(head, _MORE)
        except BlockingIOError:
            sent = 0
        if sent < len(head):
            self._transport.write(head[sent:])
            return self._advance()
        if self._fill_socket():
            return True
        if not self._next_is_file():
            return self._advance()
        self._watch()
        return False

    def close(self) -> None:
        """See ``BodySender.close``."""
        super().close()
        self._unwatch()

    def close_inherited(self) -> None:
        """See ``BodySender.close_inherited``. The loop's selector, which the child shares, stays as it is."""
        if self._watched is not None:
            os.close(self._watched)
            self._watched = None

    def _abort(self) -> None:
        self._unwatch()
        super()._abort()

    def _send_slice(self) -> bool:
        """See ``BodySender._send_slice``."""
        if self._transport.is_closing():
            self._unwatch()  # the bytes before the slice are dropped
            return False
        is_sent = self._fill_socket()
        if not is_sent:
            self._watch()
        return is_sent

    def _fill_socket(self) -> bool:
        """Send as much of the first part, a slice, as the socket takes; tell whether that is all of it."""
        body = self._parts[0]
        assert isinstance(body, FileSlice)
        assert sendfile is not None
        number = self._socket.fileno()
        while body.size:
            wanted = min(body.size, _MAX_COUNT)
            try:
                sent = sendfile(number, body.fileno(), body.position, wanted)
            except BlockingIOError:
                return False
            if sent == 0:
                raise FileCutError(f"{body.size} bytes announced are not in the file")
            self.bytes_sent += sent
            body.position += sent
            body.size -= sent
            if sent < wanted:  # the socket is full, or the file was cut, which the next call shows
                return False
        self._drop_first(body)
        return True

    def _watch(self) -> None:
        if self._watched is None:
            self._watched = os.dup(self._socket.fileno())
            self._loop.add_writer(self._watched, self._go_on)

    def _unwatch(self) -> None:
        if self._watched is not None:
            self._loop.remove_writer(self._watched)
            os.close(self._watched)
            self._watched = None

    def _go_on(self) -> None:
        """Continue to send; watch the socket while the first part is a slice.

        The watch stays while a slice is first: a large slice fills the socket many times, and ``_send_slice`` found it
        full, even if little of the slice was left. Otherwise the next bytes go through the transport, or a piece has
        to be converted.
        """
        super()._go_on()
        if not self._parts or self._is_blocked() or not isinstance(self._parts[0], FileSlice):
            self._unwatch()


def _read(part: FileSlice) -> bytes:
    """Return the bytes of a slice, and release it. Raises ``OSError`` and ``FileCutError``."""
    data = part.read()
    size = part.size
    part.release()
    if len(data) != size:
        raise FileCutError(f"{size} bytes announced, the file holds {len(data)}")
    return data


def _nothing() -> None:
    """The callback of a closed sender."""
