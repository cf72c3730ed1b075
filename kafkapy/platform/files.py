"""All access to the disk.

No other code in kafkapy opens, writes, renames or removes a data file. ``Files`` is a plain class whose methods are
system calls, so that tests can replace it by a class that fails on purpose.
"""

import errno
import os
from collections.abc import Iterable, Iterator
from typing import ClassVar, Final

from kafkapy.platform import file_lock, portable
from kafkapy.platform.descriptors import (
    DEFAULT_MAX_OPEN_FILES,
    Descriptor,
    FileSlice,
    OpenFiles,
    locked_here,
)
from kafkapy.platform.errors import LogDirectoryLockedError
from kafkapy.platform.file_lock import HeldLock

__all__ = ["TEMPORARY_SUFFIX", "Descriptor", "FileSlice", "Files"]

TEMPORARY_SUFFIX: Final = ".tmp"
"""Suffix of a file that is being written and will be renamed when it is complete."""

UNCACHED_SIZE: Final = 524_288
"""Bytes of a file that are dropped from the page cache at a time before the file is removed."""


class Files:
    """The file system as the log uses it. Paths are strings; every method raises ``OSError`` as the system does."""

    parallel_syncs: ClassVar[int] = 8
    """Fsyncs that run in parallel: a journaling file system commits those that wait at the same time together."""

    def __init__(self, max_open_files: int = DEFAULT_MAX_OPEN_FILES) -> None:
        self.open_files = OpenFiles(max_open_files)

    # descriptors

    def open(self, path: str, flags: int = os.O_RDWR) -> Descriptor:
        """Open ``path``; if the process has no descriptor left, logs release theirs."""
        try:
            return Descriptor(os.open(path, flags | portable.OPEN_FLAGS, 0o644))
        except OSError as error:
            if error.errno != errno.EMFILE or not self.open_files.drop_half():
                raise
            return self.open(path, flags)

    def write_at(self, descriptor: Descriptor, data: bytes | bytearray | memoryview, position: int) -> None:
        """Write all of ``data`` at ``position``."""
        size = len(data)
        written = portable.write_at(descriptor.number, data, position)
        while written < size:
            written += portable.write_at(descriptor.number, memoryview(data)[written:], position + written)

    def read_at(self, descriptor: Descriptor, size: int, position: int) -> bytes:
        """Read up to ``size`` bytes from ``position``; fewer at the end of the file."""
        return portable.read_at(descriptor.number, size, position)

    def sync(self, descriptor: Descriptor) -> None:
        """Wait until the file's bytes are on the disk."""
        os.fsync(descriptor.number)

    # whole files

    def create(self, path: str) -> None:
        """Make an empty file, or empty an existing one."""
        self.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)

    def read(self, path: str, size: int = -1, position: int = 0) -> bytes:
        """Read ``size`` bytes of ``path`` from ``position``, or all of it."""
        descriptor = self.open(path, os.O_RDONLY)
        if size < 0:
            size = os.fstat(descriptor.number).st_size
        return self.read_at(descriptor, size, position)

    def write(self, path: str, data: bytes | bytearray, position: int = 0, *, sync: bool = False) -> None:
        """Write ``data`` at ``position`` of ``path``, made if it is missing."""
        descriptor = self.open(path, os.O_RDWR | os.O_CREAT)
        self.write_at(descriptor, data, position)
        if sync:
            self.sync(descriptor)

    def replace(self, path: str, data: bytes, *, sync: bool = True) -> None:
        """Replace the content of ``path`` by ``data`` so that a crash leaves the whole old or the whole new file."""
        temporary = path + TEMPORARY_SUFFIX
        descriptor = self.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        self.write_at(descriptor, data, 0)
        if sync:
            self.sync(descriptor)
        self.rename(temporary, path)
        if sync:
            self.sync_path(os.path.dirname(path) or ".")

    def allocate(self, path: str, size: int) -> None:
        """Make ``path`` a file of at least ``size`` bytes that has its space on the disk, or leave it as it is."""
        descriptor = self.open(path, os.O_RDWR | os.O_CREAT)
        before = os.fstat(descriptor.number).st_size
        if before < size:
            try:
                portable.allocate(descriptor.number, before, size - before)
            except OSError:
                self.truncate(path, before)
                raise

    def truncate(self, path: str, size: int) -> None:
        """Cut ``path`` to ``size`` bytes."""
        os.truncate(path, size)

    def size(self, path: str) -> int:
        """Return the length of ``path`` in bytes."""
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        """Return when ``path`` was written to last (ms since 1970)."""
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, time_ms: int) -> None:
        """Set the time of the last write to ``path`` (ms since 1970)."""
        os.utime(path, ns=(time_ms * 1_000_000, time_ms * 1_000_000))

    def exists(self, path: str) -> bool:
        """Return whether ``path`` exists."""
        return os.path.exists(path)

    def is_directory(self, path: str) -> bool:
        """Return whether ``path`` is a folder."""
        return os.path.isdir(path)

    def rename(self, path: str, target: str) -> None:
        """Rename ``path`` to ``target``, which is replaced if it exists."""
        os.replace(path, target)

    def remove(self, path: str) -> None:
        """Remove the file ``path`` if it is there."""
        if os.path.exists(path):
            os.unlink(path)

    def uncache(self, path: str) -> Iterator[None]:
        """Drop a large file from the page cache in pieces, with a pause after each.

        It takes some 0.3 ms for a megabyte; otherwise the removal of the file does it all at once.
        """
        size = self.size(path) if os.path.exists(path) else 0
        if size > UNCACHED_SIZE:
            descriptor = self.open(path, os.O_RDONLY)
            for position in range(0, size, UNCACHED_SIZE):
                portable.drop_cached(descriptor.number, position, UNCACHED_SIZE)
                yield

    # directories

    def make_directory(self, path: str) -> None:
        """Make ``path`` and its parents, unless it is there."""
        os.makedirs(path, exist_ok=True)

    def list_directory(self, path: str) -> list[tuple[str, int]]:
        """Return (name, size in bytes or -1 for a folder) of the entries of ``path``, sorted by name."""
        return sorted(self.scan_directory(path))

    def scan_directory(self, path: str) -> Iterator[tuple[str, int]]:
        """Yield the elements of ``list_directory`` in any order.

        A thread that sorts 80,000 names holds up all others for 60 ms.
        """
        with os.scandir(path) as entries:
            for entry in entries:
                yield entry.name, -1 if entry.is_dir() else entry.stat().st_size

    def remove_directory(self, path: str) -> None:
        """Remove ``path`` and everything in it, if it is there."""
        if os.path.exists(path):
            import shutil

            shutil.rmtree(path)

    def sync_path(self, path: str) -> None:
        """Wait until a file's bytes are on the disk, or, on systems that can do so, a folder's names."""
        if not portable.SYNCS_DIRECTORIES and os.path.isdir(path):
            return
        self.sync(self.open(path, os.O_RDONLY))

    def lock(self, path: str) -> HeldLock:
        """Lock ``path``, made if missing, against other users until no object refers to the result.

        Such a lock (see ``file_lock``) doesn't prevent a process from locking twice, and closing any descriptor of the
        file would end it: so the locks of this process are checked before the file is opened. Raises
        ``LogDirectoryLockedError``.
        """
        directory = os.path.dirname(path)
        if self._is_locked_here(path):
            raise LogDirectoryLockedError(
                f"{directory} is in use by another broker of this process (lock file {path}); choose another directory"
            )
        try:
            return file_lock.take(path)
        except BlockingIOError as error:
            raise LogDirectoryLockedError(
                f"{directory} is in use by another process (lock file {path}); stop it, or choose another directory"
            ) from error

    def is_locked(self, path: str) -> bool:
        """Whether this or another process holds the lock on ``path``; the file is not created."""
        return self._is_locked_here(path) or (os.path.exists(path) and file_lock.is_taken(path))

    @staticmethod
    def _is_locked_here(path: str) -> bool:
        return os.path.exists(path) and file_lock.identity_of(path) in locked_here


# Removal of files and folders in steps: a large file leaves the page cache piece by piece before it is removed.


def disk_space(path: str) -> tuple[int, int]:
    """The size of the file system of ``path`` and the bytes that are free there; -1 for both if it can't be read."""
    from shutil import disk_usage  # it takes a megabyte

    try:
        usage = disk_usage(path)
    except OSError:
        return -1, -1
    return usage.total, usage.free


def files_removal(files: Files, paths: Iterable[str]) -> Iterator[None]:
    """Remove those of ``paths`` that exist, in steps for ``Flusher.run_gently``; raises ``OSError``."""
    for path in paths:
        yield from files.uncache(path)
        files.remove(path)


def folder_removal(files: Files, path: str) -> Iterator[None]:
    """Remove a partition's folder with its files, if it exists, in steps like ``files_removal``; raises ``OSError``."""
    for name, size in files.scan_directory(path) if files.exists(path) else ():
        if size > UNCACHED_SIZE:
            yield from files.uncache(f"{path}/{name}")
    files.remove_directory(path)
