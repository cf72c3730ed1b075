"""Cuts a stream of bytes into frames: int32 size, then that many bytes. No I/O; made for asyncio.BufferedProtocol.

One frame at a time is in use, from ``next_frame`` to ``release``. Meanwhile the bytes that arrive are stored after it
and not parsed. The buffer is not resized then, since views into it may be in use: it is replaced. The buffer grows with
the bytes that arrive, never with the announced size.
"""

from collections.abc import Callable
from struct import Struct
from typing import Final

from kafkapy.protocol.message import ProtocolError

INITIAL_SIZE: Final = 4096
"""Bytes of a new buffer: small, as there may be thousands of idle connections."""

READ_AT_ONCE_SIZE: Final = 262_144
"""A buffer that a read has filled completely grows up to this size, so that one read brings several frames; not beyond
the largest frame, which is small before a client has authenticated."""

KEPT_SIZE: Final = 1 << 20
"""Maximum bytes of a buffer that is kept after its frame; a larger one is dropped."""

PREFIX_SIZE: Final = 4
"""Bytes before each frame that hold its size."""

_PREFIX: Final = Struct(">i")
_KEY: Final = Struct(">h")


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
        """``new_buffer(size)`` makes a buffer.

        ``extended_buffer(buffer, size)`` extends a buffer without a copy, or returns it unchanged.
        """
        self.max_frame_size = max_frame_size
        self._new_buffer = new_buffer
        self._extended = extended_buffer
        self.pending_size = 0
        """Announced size of the frame that isn't complete yet; 0 while its size isn't known."""
        self.is_empty = True
        """Whether no bytes are held, not even of a frame in use; an attribute, as every request reads it."""
        self._view = memoryview(bytearray())
        self._start = 0  # of the bytes not returned yet, or of the frame in use
        self._end = 0
        self._frame_end = -1  # -1: no frame is in use

    def limit_frames(self, max_frame_size: int) -> None:
        """Refuse frames above this size from the next one on."""
        self.max_frame_size = max_frame_size

    @property
    def holds_frame(self) -> bool:
        """Whether a frame is in use."""
        return self._frame_end >= 0

    @property
    def full(self) -> bool:
        """Whether there is no room after the frame in use: the caller stops reading until it is released."""
        return self._frame_end >= 0 and self._end == len(self._view)

    @property
    def buffered_size(self) -> int:
        """Bytes held, including a frame in use."""
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
        """The new size of a buffer that the incomplete frame fills: twice the old one, at most the frame's size."""
        wanted = self.pending_size + PREFIX_SIZE
        return max(INITIAL_SIZE, min(2 * size, wanted) if wanted > size else 2 * size)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the memory for the next bytes; never empty."""
        del sizehint
        size = len(self._view)
        if self._frame_end >= 0:
            if self._end == size:
                self._replace(max(INITIAL_SIZE, 2 * size))
        elif size - self._end <= size // 4:
            self._make_room(size)
        return self._view[self._end :] if self._end else self._view

    def _make_room(self, size: int) -> None:
        """Move the bytes to the front, or take a larger buffer if the incomplete frame fills this one."""
        held = self._end - self._start
        if self._start and self._end == size < min(READ_AT_ONCE_SIZE, self.max_frame_size):
            self._replace(2 * size)
        elif self._start and held <= size // 2:
            self._view[:held] = self._view[self._start : self._end]
            self._start, self._end = 0, held
        elif self._end == size:
            self._grow(self._grown_size(size))

    def _grow(self, size: int) -> None:
        """Make the buffer of an incomplete frame larger: no view of it is in use, so it may be extended in place."""
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
        """Note that ``size`` bytes were put into the buffer."""
        self._end += size
        self.is_empty = False

    def next_frame(self) -> memoryview | None:
        """Return the next whole frame without its size prefix, valid until ``release``; None when there is none yet.

        Raises FrameTooLarge or InvalidFrameLength; the stream can't be used afterwards.
        """
        if self._frame_end >= 0:
            raise RuntimeError("the frame in use was not released")
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

    @property
    def next_key(self) -> int:
        """The API key at the beginning of the next frame; -1 while it has not arrived, or a frame is in use."""
        start = self._start + PREFIX_SIZE
        if self._frame_end >= 0 or self._end < start + _KEY.size:
            return -1
        key: int = _KEY.unpack_from(self._view, start)[0]
        return key

    def release(self) -> None:
        """End the use of the frame; its bytes may be overwritten."""
        if self._frame_end < 0:
            raise RuntimeError("no frame is in use")
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

    def free_if_empty(self) -> None:
        """Free the buffer if it is empty."""
        if self._start == self._end and self._frame_end < 0:
            self._start = self._end = 0
            self._view = memoryview(bytearray())

    def _adapt(self, frame_size: int, was_filled: bool) -> None:
        """Double an empty buffer that a read has filled, halve one that is far too large for the last frame."""
        size = len(self._view)
        if size > KEPT_SIZE:
            self._view = self._new_buffer(KEPT_SIZE)
        elif was_filled and size < READ_AT_ONCE_SIZE:
            self._view = memoryview(bytearray(2 * size))
        elif size > max(INITIAL_SIZE, 8 * frame_size):
            self._view = memoryview(bytearray(max(INITIAL_SIZE, size // 2)))
