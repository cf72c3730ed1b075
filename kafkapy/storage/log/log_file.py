"""A segment's ``.log`` as a file that is open only while it is used.

A ``LogFile`` is opened at first use and closed when too many others have been used since. A ``FileSlice`` refers to the
descriptor, which stays open as long as the slice exists.
"""

import os
import weakref

from kafkapy.platform.descriptors import Descriptor, FileSlice
from kafkapy.platform.files import Files


class LogFile:
    """A segment's ``.log``: opened at first use, closed when too many files are open, opened again."""

    __slots__ = ("path", "used", "is_missing", "_files", "_descriptor", "_last")

    def __init__(self, files: Files, path: str) -> None:
        self.path = path
        self.used = False
        self.is_missing = False
        """A full disk has refused to create the file: the first write creates it."""
        self._files = files
        self._descriptor: Descriptor | None = None
        self._last: weakref.ref[Descriptor] | None = None

    def _opened(self) -> Descriptor:
        # A FileSlice that is still being sent may keep the dropped descriptor open: reuse it instead of opening the
        # file a second time.
        descriptor = self._last() if self._last is not None else None
        if descriptor is None:
            descriptor = self._files.open(self.path, os.O_RDWR | (os.O_CREAT if self.is_missing else 0))
            self.is_missing = False
            self._last = weakref.ref(descriptor)
        self._descriptor = descriptor
        self._files.open_files.add(self)
        return descriptor

    def write_at(self, data: bytes | bytearray | memoryview, position: int) -> None:
        """Write all of ``data`` at ``position``."""
        self.used = True
        self._files.write_at(self._descriptor or self._opened(), data, position)

    def read_at(self, size: int, position: int) -> bytes:
        """Read up to ``size`` bytes from ``position``."""
        self.used = True
        return self._files.read_at(self._descriptor or self._opened(), size, position)

    def slice(self, position: int, size: int) -> FileSlice:
        """Return a slice of ``size`` bytes from ``position`` without reading them."""
        self.used = True
        return FileSlice(self._descriptor or self._opened(), position, size)

    def descriptor(self) -> Descriptor:
        """Return the open descriptor, which stays valid while the caller holds it."""
        return self._descriptor or self._opened()

    def rename(self, path: str) -> None:
        """Note the file's new name; an open descriptor stays valid."""
        self.path = path

    def drop(self) -> None:
        """Drop the descriptor; the next use opens the file again."""
        self.used = False
        self._descriptor = None

    def close(self) -> None:
        """Drop the descriptor, and do not reuse it: another file may get the path."""
        self._last = None
        if self._descriptor is not None:
            self._files.open_files.forget(self)
            self.drop()
