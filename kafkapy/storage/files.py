"""The one door to the disk.

Nothing else in kafkapy opens, writes, renames or removes a data file. ``Files`` is a plain class whose methods are
the system calls that matter, so that a twin that fails on purpose can take its place. Descriptors are few: a
``LogFile`` opens itself when used and is closed when too many others have been used since; a ``FileSlice`` keeps the
descriptor that it points into alive on its own.
"""

import fcntl
import os
import shutil
from collections import deque
from typing import Final

from kafkapy.storage.errors import LogDirectoryLockedError

DEFAULT_MAX_OPEN_FILES: Final = 512


class Descriptor:
    """An open file's number; closed with the last object that refers to it."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        os.close(self.number)


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
        return os.pread(self.fileno(), self.size, self.position)

    def release(self) -> None:
        """Let go of the descriptor; twice does nothing."""
        self._descriptor = None


class Files:
    """The file system as the log uses it. Paths are strings; every method raises ``OSError`` as the system does."""

    def __init__(self, max_open_files: int = DEFAULT_MAX_OPEN_FILES) -> None:
        self.max_open_files = max_open_files
        self._open: deque[LogFile] = deque()

    # descriptors

    def open(self, path: str, flags: int = os.O_RDWR) -> Descriptor:
        """Open ``path``."""
        return Descriptor(os.open(path, flags | os.O_CLOEXEC, 0o644))

    def write_at(self, descriptor: Descriptor, data: bytes | bytearray | memoryview, position: int) -> None:
        """Write all of ``data`` at ``position``."""
        size = len(data)
        written = os.pwrite(descriptor.number, data, position)
        while written < size:
            written += os.pwrite(descriptor.number, memoryview(data)[written:], position + written)

    def read_at(self, descriptor: Descriptor, size: int, position: int) -> bytes:
        """Read up to ``size`` bytes from ``position``; fewer at the end of the file."""
        return os.pread(descriptor.number, size, position)

    def sync(self, descriptor: Descriptor) -> None:
        """Wait until the file's bytes are on the disk."""
        os.fsync(descriptor.number)

    def keep_open(self, file: "LogFile") -> None:
        """Count ``file`` among the open ones and close one that has not been used for a while."""
        self._open.append(file)
        while len(self._open) > self.max_open_files:
            oldest = self._open.popleft()
            if oldest.used and oldest is not file:
                oldest.used = False
                self._open.append(oldest)
            else:
                oldest.drop()

    def forget(self, file: "LogFile") -> None:
        """``file`` was closed by its owner."""
        self._open.remove(file)

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
        """Put ``data`` in the place of ``path`` so that a crash leaves the old or the new whole file."""
        temporary = path + ".tmp"
        descriptor = self.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        self.write_at(descriptor, data, 0)
        if sync:
            self.sync(descriptor)
        self.rename(temporary, path)
        if sync:
            self.sync_path(os.path.dirname(path))

    def truncate(self, path: str, size: int) -> None:
        """Cut ``path`` to ``size`` bytes."""
        os.truncate(path, size)

    def size(self, path: str) -> int:
        """Return the length of ``path`` in bytes."""
        return os.stat(path).st_size

    def exists(self, path: str) -> bool:
        """Return whether there is a ``path``."""
        return os.path.exists(path)

    def rename(self, path: str, target: str) -> None:
        """Give ``path`` another name, replacing what had it."""
        os.replace(path, target)

    def remove(self, path: str) -> None:
        """Remove the file ``path`` if it is there."""
        if os.path.exists(path):
            os.unlink(path)

    # directories

    def make_directory(self, path: str) -> None:
        """Make ``path`` and its parents, unless it is there."""
        os.makedirs(path, exist_ok=True)

    def list_directory(self, path: str) -> list[tuple[str, int]]:
        """Return (name, size in bytes or -1 for a folder) of what ``path`` holds, sorted by name."""
        with os.scandir(path) as entries:
            return sorted((entry.name, -1 if entry.is_dir() else entry.stat().st_size) for entry in entries)

    def remove_directory(self, path: str) -> None:
        """Remove ``path`` and everything in it."""
        shutil.rmtree(path)

    def sync_path(self, path: str) -> None:
        """Wait until a file's bytes, or a folder's names, are on the disk."""
        self.sync(self.open(path, os.O_RDONLY))

    def lock(self, path: str) -> Descriptor:
        """Lock ``path``, made if missing, against other processes until the result is dropped.

        Java's ``FileChannel.lock`` is the same POSIX record lock, so that Apache Kafka and kafkapy see each other's.
        """
        descriptor = self.open(path, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.lockf(descriptor.number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            directory = os.path.dirname(path)
            raise LogDirectoryLockedError(
                f"{directory} is in use by another process (lock file {path}); stop it, or choose another directory"
            ) from error
        return descriptor


class LogFile:
    """A segment's ``.log``: opened at first use, closed under pressure, opened again."""

    __slots__ = ("path", "used", "_files", "_descriptor")

    def __init__(self, files: Files, path: str) -> None:
        self.path = path
        self.used = False
        self._files = files
        self._descriptor: Descriptor | None = None

    def _opened(self) -> Descriptor:
        self._descriptor = descriptor = self._files.open(self.path)
        self._files.keep_open(self)
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
        """Return ``size`` bytes from ``position``, unread."""
        self.used = True
        return FileSlice(self._descriptor or self._opened(), position, size)

    def descriptor(self) -> Descriptor:
        """Return the open descriptor, which stays valid while the caller holds it."""
        return self._descriptor or self._opened()

    def drop(self) -> None:
        """Give up the descriptor; the next use opens the file again."""
        self.used = False
        self._descriptor = None

    def close(self) -> None:
        """Give up the descriptor and the place among the open files."""
        if self._descriptor is not None:
            self._files.forget(self)
            self.drop()
