"""Buffers of any size that cost little to make and to extend."""

import mmap
from contextlib import suppress
from typing import Any, Final

MAPPED_FROM_SIZE: Final = 1 << 20
"""The smallest size, in bytes, of a buffer that is an anonymous memory mapping instead of a bytearray.

A bytearray's zeros are written to memory at once, while the interpreter does nothing else: 60 ms for 64 MiB. A mapping
gets its pages when they are used."""

_PRIVATE: Final[dict[str, Any]] = (
    {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_ANONYMOUS") else {}
)
"""A shared mapping, which is Python's default, can't be extended."""


def new_buffer(size: int) -> memoryview:
    """Return ``size`` zero bytes that can be written to; the memory is freed with the last view of it."""
    return memoryview(bytearray(size) if size < MAPPED_FROM_SIZE else mmap.mmap(-1, size, **_PRIVATE))


def extended_buffer(view: memoryview, size: int) -> memoryview:
    """Return a view of the buffer of ``view`` with ``size`` bytes; the content is not copied (``mremap``).

    ``view`` must not be used any more. Where the buffer is not mapped, has other views, or the system can't do it, the
    result is as long as ``view``.
    """
    buffer = view.obj
    if not isinstance(buffer, mmap.mmap):
        return view
    view.release()
    # It fails where other views are alive, where there is no memory, and where the system has no mremap.
    with suppress(BufferError, OSError, SystemError, ValueError):
        buffer.resize(size)
    return memoryview(buffer)
