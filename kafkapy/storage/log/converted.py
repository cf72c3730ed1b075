"""A slice of a log that is converted to an older format, piece by piece, while it is sent to a client.

This is Apache Kafka's scheme (KIP-283). The response announces the number of bytes of the slice, or of its first batch
after conversion if that is more; so a client gets at least one batch. Conversion continues until that many bytes are
sent, and may cut the last entry. If it yields fewer bytes, the rest is filled with the beginning of an entry whose
length exceeds the response, which every client ignores; if it yields none, as for control batches, all is filler.

Conversion takes a thousand times as long as sending. So it is done in steps of some milliseconds, between which the
event loop serves other connections; compressed batches, and batches larger than a piece, are converted on the compute
thread. The memory holds at most one piece, or one decompressed batch and its converted form.
"""

import asyncio
from collections.abc import Callable, Generator, Iterator
from copy import copy
from functools import partial
from struct import Struct
from typing import Any, Final

from kafkapy.platform.files import FileSlice
from kafkapy.records.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC_OFFSET, SMALLEST_LENGTH, iterate_headers, measure
from kafkapy.records.convert import convert, convert_in_steps
from kafkapy.records.errors import CorruptRecordError, RecordsError
from kafkapy.turns import turns

PIECE_SIZE: Final = 32 * 1024
"""Bytes of the log that are converted at a time, or one batch if that is larger: few, as they block the event loop."""

Compute = Callable[[Callable[[], Any]], "asyncio.Future[Any]"]
"""Runs a function beside the event loop."""

_SENT_SIZE: Final = 256 * 1024
"""Maximum bytes of one piece for the socket."""
_FILLER_SIZE: Final = 128 * 1024
_SIZED: Final = Struct(">8xi4xb")  # length, magic
_LONG_ENTRY: Final = Struct(">qi")  # offset, length


def holds_newer_format(source: FileSlice, magic: int) -> Generator[None, None, bool]:
    """Return whether a whole batch in ``source`` has a format above ``magic``; each yield is a place to pause.

    Raises ``CorruptRecordError`` at bytes that are no batch, ``OSError`` as the disk does.
    """
    position = 0
    while True:
        chunk = source.read_part(PIECE_SIZE, position)
        at, last = 0, len(chunk) - MAGIC_OFFSET - 1
        while at <= last:
            length, found = _SIZED.unpack_from(chunk, at)
            if length < SMALLEST_LENGTH:
                raise CorruptRecordError(f"A batch can't have a length of {length}")
            if position + at + length + LOG_OVERHEAD > source.size:
                return False
            if found > magic:
                return True
            at += length + LOG_OVERHEAD
        if at == 0:
            return False
        position += at
        yield


class ConvertedSlice:
    """A body whose bytes are made when they are sent; after ``prepare``, ``size`` is the number of bytes left."""

    __slots__ = ("size", "pending", "_source", "_magic", "_first_offset", "_position", "_ready", "_steps", "_compute")

    def __init__(self, source: FileSlice, magic: int, first_offset: int, compute: Compute | None = None) -> None:
        """Convert ``source`` to ``magic``; records below ``first_offset`` may be left out.

        ``compute`` runs long conversions beside the event loop; without it all conversions are done in steps.
        """
        self._compute = compute
        self.pending: asyncio.Future[bytes | RecordsError] | None = None
        """The conversion that runs beside the event loop; ``next_piece`` returns nothing until it is done."""
        self._source = source
        self._magic = magic
        self._first_offset = first_offset
        self._position = 0
        self._ready = memoryview(b"")
        self._steps: Iterator[bytes | memoryview] = iter(())
        self.size = 0

    def __len__(self) -> int:
        return self.size

    def prepare(self) -> Generator[None]:
        """Convert the first batch that is not dropped; then ``size`` is known. Each yield is a place to pause.

        The batch is converted alone, so that the client gets it although a later one can't be converted.

        Raises ``RecordsError`` if it can't be converted (a codec that old clients don't know), ``OSError`` as the disk
        does.
        """
        pieces: list[bytes | memoryview] = []
        while not any(pieces) and (taken := self._take_batches(only_one=True)):
            converting = self._begin_beside(taken)
            if converting is not None:
                turns().wait_for(converting)
                yield
                pieces.append(_result(converting))
                continue
            for piece in self._converted(taken):
                pieces.append(piece)
                yield
        self._ready = memoryview(b"".join(pieces))
        self.size = max(len(self._source), len(self._ready)) if self._ready else LOG_OVERHEAD

    def next_piece(self) -> bytes | memoryview:
        """Return the next bytes, at most ``size``, or none if the caller should pause first.

        Raises ``OSError`` as the disk does.
        """
        piece: bytes | memoryview | None = None
        if not self._ready:
            piece = self._convert_next()
            if piece is None:
                piece = _filler(self.size)
        if self._ready:
            piece, self._ready = self._ready[:_SENT_SIZE], self._ready[_SENT_SIZE:]
        assert piece is not None
        if len(piece) > self.size:
            piece = memoryview(piece)[: self.size]
        self.size -= len(piece)
        return piece

    def _convert_next(self) -> bytes | memoryview | None:
        """Continue the present conversion, or convert the next batches; return None at their end."""
        try:
            if self.pending is not None:
                if self.pending.done():
                    self._ready, self.pending = memoryview(_result(self.pending)), None
                return b""
            for piece in self._steps:
                return piece
            taken = self._take_batches()
            if taken is None:
                return None
            self.pending = self._begin_beside(taken)
            if self.pending is not None:
                return b""
            self._steps = self._converted(taken)
            return next(self._steps, b"")
        except RecordsError:
            # The size was announced. The client takes the batches before this one and fetches again from here: then
            # this is the first batch, and the response has its error.
            self._position = self._source.size
            self._steps, self.pending = iter(()), None
            return None

    def _converted(self, batches: memoryview) -> Iterator[bytes | memoryview]:
        return convert_in_steps(batches, self._magic, self._first_offset)

    def _begin_beside(self, batches: memoryview) -> "asyncio.Future[bytes | RecordsError] | None":
        """Convert ``batches`` outside of the event loop if that takes long, else return None."""
        if self._compute is None or not _is_long(batches):
            return None
        return self._compute(partial(_convert, batches, self._magic, self._first_offset))

    def _take_batches(self, *, only_one: bool = False) -> memoryview | None:
        source, position = self._source, self._position
        content = memoryview(source.read_part(PIECE_SIZE, position))
        if len(content) > MAGIC_OFFSET and measure(content) is None:
            (length,) = Struct(">i").unpack_from(content, 8)
            content = memoryview(source.read_part(length + LOG_OVERHEAD, position))
        at = 0
        while (size := measure(content, at)) is not None:
            at += size
            if only_one:
                break
        self._position = position + at
        return content[:at] if at else None

    def release(self) -> None:
        """Release the file's descriptor."""
        self._source.release()
        self._steps = iter(())
        self._ready, self.pending = memoryview(b""), None
        self.size = 0


def _is_long(batches: memoryview) -> bool:
    """Whether the conversion takes long: a compressed batch may decompress to a thousand times its size."""
    return len(batches) > PIECE_SIZE or any(header.compression for _, header in iterate_headers(batches))


def _convert(batches: memoryview, magic: int, first_offset: int) -> bytes | RecordsError:
    """Convert on the compute thread. An error is returned: if raised, its traceback and future would form a cycle."""
    try:
        return convert(batches, magic, first_offset=first_offset)
    except RecordsError as error:
        return error.with_traceback(None)


def _result(converting: "asyncio.Future[bytes | RecordsError]") -> bytes:
    result = converting.result()
    if isinstance(result, RecordsError):
        raise copy(result)  # the original's traceback would refer to frames that refer to the future
    return result


def _filler(size: int) -> bytes:
    """Return up to ``size`` bytes of an entry whose length field exceeds ``size``."""
    entry = _LONG_ENTRY.pack(-1, max(size + 1, HEADER_SIZE))
    return (entry + bytes(min(size + 1, _FILLER_SIZE) - len(entry)))[:size] if size >= len(entry) else entry[:size]
