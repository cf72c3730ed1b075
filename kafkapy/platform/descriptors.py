"""Open files, and pieces of them that can be sent without being read."""

import os
from collections import deque
from contextlib import suppress
from typing import Final, Protocol

from kafkapy.platform import portable

DEFAULT_MAX_OPEN_FILES: Final = 512


class Descriptor:
    """An open file's number; the file is closed when no object refers to the ``Descriptor`` any more."""

    __slots__ = ("number", "__weakref__")

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        os.close(self.number)


locked_here: Final[set[tuple[int, int]]] = set()
"""Device and inode of the lock files that this process holds: record locks don't conflict within a process."""


class LockedFile(Descriptor):
    """A lock file's descriptor; the lock ends when it is closed."""

    __slots__ = ("_identity",)

    def __init__(self, number: int, identity: tuple[int, int]) -> None:
        super().__init__(number)
        self._identity = identity

    def __del__(self) -> None:
        locked_here.discard(self._identity)
        super().__del__()


class FileSlice:
    """``size`` bytes of a log from ``position``: a body that ``sendfile`` can send without reading it."""

    __slots__ = ("_descriptor", "position", "size")

    def __init__(self, descriptor: Descriptor, position: int, size: int) -> None:
        self._descriptor: Descriptor | None = descriptor
        self.position = position
        self.size = size

    def __len__(self) -> int:
        return self.size

    def fileno(self) -> int:
        """Return the descriptor, valid until ``release``."""
        assert self._descriptor is not None, "the slice was released"
        return self._descriptor.number

    def read(self) -> bytes:
        """Read the bytes; fewer than ``size`` if the file was cut since."""
        return portable.read_at(self.fileno(), self.size, self.position)

    def read_part(self, size: int, at: int) -> bytes:
        """Read up to ``size`` bytes of the slice from its byte ``at`` on."""
        return portable.read_at(self.fileno(), min(size, self.size - at), self.position + at)

    def release(self) -> None:
        """Give up the descriptor; a second call does nothing."""
        self._descriptor = None


class Droppable(Protocol):
    """A file that can release its descriptor and open it again; ``used``: it was used since the last check."""

    used: bool

    def drop(self) -> None:
        """Give up the descriptor."""
        ...


class OpenFiles:
    """At most ``maximum`` open logs; a log that was not used since the last check is closed first."""

    __slots__ = ("maximum", "_files")

    def __init__(self, maximum: int = DEFAULT_MAX_OPEN_FILES) -> None:
        self.maximum = maximum
        self._files: deque[Droppable] = deque()

    def add(self, file: Droppable) -> None:
        """Add ``file`` to the open files, and close one if they are too many."""
        self._files.append(file)
        while len(self._files) > self.maximum:
            oldest = self._files.popleft()
            if oldest.used and oldest is not file:
                oldest.used = False
                self._files.append(oldest)
            else:
                oldest.drop()

    def drop_half(self) -> bool:
        """Close half of the open files, oldest first, if the process has no descriptor left; tell whether any was."""
        count = (len(self._files) + 1) // 2
        with suppress(IndexError):  # another thread, which opens a file to fsync it, may do the same now
            for _ in range(count):
                self._files.popleft().drop()
        return count > 0

    def forget(self, file: Droppable) -> None:
        """Remove ``file``, which its owner has closed."""
        with suppress(ValueError):  # as above
            self._files.remove(file)
