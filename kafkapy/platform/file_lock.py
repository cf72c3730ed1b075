"""The lock of a data directory: a POSIX record lock, or on systems without these a lock of SQLite.

Java's ``FileChannel.lock`` is the same record lock over the whole file, so Apache Kafka and kafkapy see each other's
locks. SQLite locks a few bytes of the file with the system's own means (on POSIX record locks too, so that both kinds
conflict) and leaves the file empty. Neither kind prevents a process from locking twice: ``files`` checks that.
"""

import errno
import os
import sys
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from kafkapy.platform import portable
from kafkapy.platform.descriptors import LockedFile, locked_here

if TYPE_CHECKING:
    import sqlite3

fcntl: Any = portable.module_or_none("fcntl")
_FLOCK: Final = Struct("hhqqi4x")
"""``struct flock`` of 64-bit Linux: type, whence, start, length, process."""

Identity = tuple[int, int]


class LockedDatabase:
    """A lock of SQLite; it ends with this object."""

    __slots__ = ("_database", "_identity", "__weakref__")

    def __init__(self, database: "sqlite3.Connection", identity: Identity) -> None:
        self._database = database
        self._identity = identity

    def __del__(self) -> None:
        locked_here.discard(self._identity)
        self._database.close()


HeldLock = LockedFile | LockedDatabase


def identity_of(path: str) -> Identity:
    """Device and inode of a file; raises ``OSError``."""
    status = os.stat(path)
    return status.st_dev, status.st_ino


def take(path: str) -> HeldLock:
    """Lock ``path``, made if missing; raises ``BlockingIOError`` when another process holds it, else ``OSError``."""
    return _take_record_lock(path) if fcntl is not None else _take_database_lock(path)


def is_taken(path: str) -> bool:
    """Whether another process holds the lock on ``path``, a file; on Linux the check does not take the lock."""
    if fcntl is not None and sys.platform == "linux":
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        number = os.open(path, os.O_RDWR | portable.OPEN_FLAGS)  # noqa: TID251  # lock files are opened only here
        try:
            found = fcntl.fcntl(number, fcntl.F_GETLK, asked)
        finally:
            os.close(number)
        return bool(_FLOCK.unpack(found)[0] != fcntl.F_UNLCK)
    try:
        take(path)
    except BlockingIOError:
        return True
    return False


def _take_record_lock(path: str) -> LockedFile:
    number = os.open(path, os.O_RDWR | os.O_CREAT | portable.OPEN_FLAGS, 0o644)  # noqa: TID251  # as above
    try:
        fcntl.lockf(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(number)
        if error.errno in (errno.EACCES, errno.EAGAIN):
            raise BlockingIOError(error.errno, error.strerror, path) from error
        raise
    return LockedFile(number, _remember(path))


def _take_database_lock(path: str) -> LockedDatabase:
    import sqlite3

    try:
        database = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as error:
        raise OSError(errno.EIO, str(error), path) from error
    try:
        database.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        database.close()
        raise BlockingIOError(errno.EAGAIN, str(error), path) from error
    return LockedDatabase(database, _remember(path))


def _remember(path: str) -> Identity:
    identity = identity_of(path)
    locked_here.add(identity)
    return identity
