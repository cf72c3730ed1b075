"""System calls that POSIX has and other systems lack, each with a substitute made of calls that every system has.

Only this module chooses between the two, by the calls that the system has; ``file_lock`` does the same for locks,
``network/sender`` for sendfile, ``cli/signals`` and ``cli/parent`` for signals and the parent process. Tests remove the
POSIX ones (``tests/testing/test_portable.py``).
"""

import os
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from threading import Lock
from typing import Any, Final

Buffer = bytes | bytearray | memoryview
ThreadTimes = Callable[[], tuple[int, int]]
"""Nanoseconds that a thread has run, and has waited for a processor, since it began."""

OPEN_FLAGS: Final[int] = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
"""Flags for opening any file: without them Windows would translate line ends."""
SYNCS_DIRECTORIES: Final[bool] = hasattr(os, "O_DIRECTORY")
"""Whether a folder can be opened and fsynced."""

_position: Final = Lock()


def module_or_none(name: str) -> Any:
    """Import a module of Python that only some systems have; None if this one lacks it."""
    try:
        return import_module(name)
    except ImportError:
        return None


def seek_and_read(number: int, size: int, position: int) -> bytes:
    """``os.pread``, by moving the file's position under a lock."""
    with _position:
        os.lseek(number, position, os.SEEK_SET)
        return os.read(number, size)


def seek_and_write(number: int, data: Buffer, position: int) -> int:
    """``os.pwrite``, by moving the file's position under a lock."""
    with _position:
        os.lseek(number, position, os.SEEK_SET)
        return os.write(number, data)


def link_or_copy(target: str, path: str) -> None:
    """A symbolic link at ``path``, or where this process may make none (Windows, FAT), a copy of the file."""
    try:
        os.symlink(target, path)
    except (OSError, NotImplementedError):
        from shutil import copyfile  # imported only on systems without links

        copyfile(target, path)


def nice_unsupported(_increment: int) -> int:
    """``os.nice`` for systems where processes have no niceness."""
    return 0


def fadvise_dontneed(number: int, position: int, size: int) -> None:
    """Tell the system that these bytes of an open file will not be needed: it drops them from the page cache."""
    with suppress(OSError):  # not every file system accepts the advice
        os.posix_fadvise(number, position, size, os.POSIX_FADV_DONTNEED)


def fadvise_unsupported(_number: int, _position: int, _size: int) -> None:
    """``fadvise_dontneed`` for systems without ``posix_fadvise``: do nothing."""


def sched_idle_linux() -> ThreadTimes | None:
    """Put this thread under Linux's idle policy, if its waiting time can be measured; return how to measure that.

    Without a privilege the policy can't be left again. The result is None, and the policy unchanged, under another
    kernel that claims to be Linux, or in a sandbox that forbids it.
    """
    try:
        statistics = os.open("/proc/thread-self/schedstat", os.O_RDONLY | OPEN_FLAGS)  # noqa: TID251 - the kernel's
    except OSError:
        return None

    def times() -> tuple[int, int]:
        ran_ns, waited_ns, _ = os.pread(statistics, 100, 0).split()
        return int(ran_ns), int(waited_ns)

    os.sched_yield()  # the kernel adds the time that the thread has run so far
    try:
        if times() != (0, 0):  # zeros: the kernel doesn't measure
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
            return times
    except OSError:
        pass
    os.close(statistics)
    return None


def sched_idle_unsupported() -> ThreadTimes | None:
    """``sched_idle_linux`` for systems without such a policy."""
    return None


def write_zeros(number: int, position: int, size: int) -> None:
    """``os.posix_fallocate`` for systems without it."""
    os.lseek(number, position, os.SEEK_SET)
    while size > 0:
        size -= os.write(number, bytes(min(size, 1 << 16)))


read_at: Callable[[int, int, int], bytes] = getattr(os, "pread", seek_and_read)
"""Reads up to a number of bytes of an open file from a position."""
write_at: Callable[[int, Buffer, int], int] = getattr(os, "pwrite", seek_and_write)
"""Writes bytes into an open file at a position; returns how many were written."""
allocate: Callable[[int, int, int], None] = getattr(os, "posix_fallocate", write_zeros)
"""Makes sure that the disk has space for a number of bytes of an open file from a position."""
drop_cached: Callable[[int, int, int], None] = fadvise_dontneed if hasattr(os, "posix_fadvise") else fadvise_unsupported
"""Tells the system that a number of bytes of an open file from a position are not needed any more."""
be_nice: Callable[[int], int] = getattr(os, "nice", nice_unsupported)
"""Lowers the priority of this process."""
become_idle: Callable[[], ThreadTimes | None] = (
    sched_idle_linux if hasattr(os, "SCHED_IDLE") and hasattr(os, "sched_setscheduler") else sched_idle_unsupported
)
"""Makes this thread run only on idle processors; returns how to measure its waiting time, or None if it can't."""
