"""A stream of bytes cut into frames: int32 size, then that many bytes. No I/O; made for asyncio.BufferedProtocol.

One frame is out at a time. While it is, what arrives is kept behind it but not looked at. The buffer is not resized
then, since views into it may be alive: it is replaced. It grows with the bytes that arrive, never with the announced
size.
"""

from collections.abc import Callable
from struct import Struct
from typing import Final

from kafkapy.protocol.message import ProtocolError

INITIAL_SIZE: Final = 4096
"""Bytes of a fresh buffer: small, for there may be thousands of idle connections."""

READ_AT_ONCE_SIZE: Final = 262_144
"""A buffer that is filled to its brim grows to this size, so that one read brings several frames."""

KEPT_SIZE: Final = 1 << 20
"""Bytes of a buffer that outlives its frame; a larger one is dropped."""

PREFIX_SIZE: Final = 4
"""Bytes before each frame that hold its size."""

_PREFIX: Final = Struct(">i")


class FrameTooLarge(ProtocolError):  # noqa: N818  # the wire's nouns read better at the raise
    """A frame announces more bytes than the limit."""


class InvalidFrameLength(ProtocolError):  # noqa: N818
    """A frame announces a negative size."""


def _array(size: int) -> memoryview:
    return memoryview(bytearray(size))


def _unextended(view: memoryview, _size: int) -> memoryview:
    return view


class FrameDecoder:
    """Collects bytes and gives out frames of at most ``max_frame_size`` bytes."""

    __slots__ = (
        "max_frame_size", "pending_size", "is_empty", "_new_buffer", "_extended", "_view", "_start", "_end",
        "_frame_end",
    )  # fmt: skip

    def __init__(
        self,
        max_frame_size: int,
        new_buffer: Callable[[int], memoryview] = _array,
        extended_buffer: Callable[[memoryview, int], memoryview] = _unextended,
    ) -> None:
        """``new_buffer`` makes a buffer of a size.

        ``extended_buffer`` extends one to a size without a copy, or returns it as long as it is.
        """
        self.max_frame_size = max_frame_size
        self._new_buffer = new_buffer
        self._extended = extended_buffer
        self.pending_size = 0
        """Announced size of the frame that isn't complete yet; 0 while its size isn't known."""
        self.is_empty = True
        """Whether no bytes are held, neither of a frame that is out: asked for every request, so no property."""
        self._view = memoryview(bytearray())
        self._start = 0  # of the bytes not given out yet, or of the frame that is out
        self._end = 0
        self._frame_end = -1  # -1: no frame is out

    @property
    def full(self) -> bool:
        """No room is left behind the frame that is out: stop reading until it is released."""
        return self._frame_end >= 0 and self._end == len(self._view)

    @property
    def buffered_size(self) -> int:
        """Bytes held, a frame that is out included."""
        return self._end - self._start

    @property
    def missing_size(self) -> int:
        """Bytes of the incomplete frame that have not arrived; 0 while its size isn't known."""
        return max(self.pending_size + PREFIX_SIZE - self.buffered_size, 0) if self.pending_size else 0

    @property
    def wanted_capacity(self) -> int:
        """Bytes of the buffer that the next ``get_buffer`` will have, if a frame is incomplete."""
        size = len(self._view)
        return size if self._end < size else self._grown_size(size)

    def _grown_size(self, size: int) -> int:
        """The size of a buffer that the incomplete frame fills: doubled, at most what the frame takes."""
        wanted = self.pending_size + PREFIX_SIZE
        return max(INITIAL_SIZE, min(2 * size, wanted) if wanted > size else 2 * size)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go; never empty."""
        del sizehint
        size = len(self._view)
        if self._frame_end >= 0:
            if self._end == size:
                self._replace(max(INITIAL_SIZE, 2 * size))
        elif size - self._end <= size // 4:
            self._make_room(size)
        return self._view[self._end :] if self._end else self._view

    def _make_room(self, size: int) -> None:
        """Move what is there to the front, or take a larger buffer when it is the frame that fills this one."""
        held = self._end - self._start
        if self._start and self._end == size < READ_AT_ONCE_SIZE:
            self._replace(2 * size)
        elif self._start and held <= size // 2:
            self._view[:held] = self._view[self._start : self._end]
            self._start, self._end = 0, held
        elif self._end == size:
            self._grow(self._grown_size(size))

    def _grow(self, size: int) -> None:
        """Make the buffer of an incomplete frame larger: no view of it is alive, so the same one may be extended."""
        if self._start == 0:
            self._view = self._extended(self._view, size)
        if len(self._view) < size:
            self._replace(size)

    def _replace(self, size: int) -> None:
        """Take a new buffer; views of the old one stay valid."""
        held = self._end - self._start
        view = self._new_buffer(max(size, held + 1))
        view[:held] = self._view[self._start : self._end]
        if self._frame_end >= 0:
            self._frame_end -= self._start
        self._view = view
        self._start, self._end = 0, held

    def buffer_updated(self, size: int) -> None:
        """``size`` bytes were put into the buffer."""
        self._end += size
        self.is_empty = False

    def next_frame(self) -> memoryview | None:
        """The next whole frame without its size prefix, valid until `release`; None when there is none yet.

        Raises FrameTooLarge or InvalidFrameLength; the stream is of no use afterwards.
        """
        if self._frame_end >= 0:
            raise RuntimeError("release the frame that is out first")
        start = self._start + PREFIX_SIZE
        if self._end < start:
            return None
        (size,) = _PREFIX.unpack_from(self._view, self._start)
        if size < 0:
            raise InvalidFrameLength(f"a frame of {size} bytes")
        if size > self.max_frame_size:
            raise FrameTooLarge(f"a frame of {size} bytes, at most {self.max_frame_size} are allowed")
        if self._end - start < size:
            self.pending_size = size
            return None
        self.pending_size = 0
        self._frame_end = start + size
        return self._view[start : self._frame_end]

    def release(self) -> None:
        """The frame that is out isn't needed any more; its bytes may be overwritten."""
        if self._frame_end < 0:
            raise RuntimeError("no frame is out")
        frame_size = self._frame_end - self._start
        self._start = self._frame_end
        self._frame_end = -1
        if self._start == self._end:
            self.is_empty = True
            was_filled = self._end == len(self._view)
            self._start = self._end = 0
            if was_filled or len(self._view) > INITIAL_SIZE:
                self._adapt(frame_size, was_filled)
        elif len(self._view) > KEPT_SIZE > 2 * (self._end - self._start):
            self._replace(KEPT_SIZE)

    def rest(self) -> None:
        """Give the buffer back if nothing is in it."""
        if self._start == self._end and self._frame_end < 0:
            self._start = self._end = 0
            self._view = memoryview(bytearray())

    def _adapt(self, frame_size: int, was_filled: bool) -> None:
        """Double an empty buffer that was read full, halve one that is far too large for the last frame."""
        size = len(self._view)
        if size > KEPT_SIZE:
            self._view = self._new_buffer(KEPT_SIZE)
        elif was_filled and size < READ_AT_ONCE_SIZE:
            self._view = memoryview(bytearray(2 * size))
        elif size > max(INITIAL_SIZE, 8 * frame_size):
            self._view = memoryview(bytearray(max(INITIAL_SIZE, size // 2)))
