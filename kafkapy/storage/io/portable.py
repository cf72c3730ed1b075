"""System calls that POSIX has and other systems lack, each with a twin made of what every system has.

Which of the two runs is decided here, by what the system has, and nowhere else; ``file_lock`` does the same for locks,
``network/sender`` for sendfile, ``cli/signals`` and ``cli/parent`` for signals and the parent process. Tests take
the POSIX ones away (``tests/testing/test_portable.py``).
"""

import os
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from threading import Lock
from typing import Any, Final

Buffer = bytes | bytearray | memoryview
ThreadTimes = Callable[[], tuple[int, int]]
"""How long a thread has run, and has waited for a processor while it could have: nanoseconds since it began."""

OPEN_FLAGS: Final[int] = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
"""What every file is opened with: Windows would translate line ends."""
SYNCS_DIRECTORIES: Final[bool] = hasattr(os, "O_DIRECTORY")
"""Whether a folder can be opened, to wait until its names are on the disk."""

_position: Final = Lock()


def module_or_none(name: str) -> Any:
    """Return a module of Python's that only some systems have."""
    try:
        return import_module(name)
    except ImportError:
        return None


def seek_and_read(number: int, size: int, position: int) -> bytes:
    """``os.pread`` by moving the file's own position; one thread at a time does."""
    with _position:
        os.lseek(number, position, os.SEEK_SET)
        return os.read(number, size)


def seek_and_write(number: int, data: Buffer, position: int) -> int:
    """``os.pwrite`` in the same way."""
    with _position:
        os.lseek(number, position, os.SEEK_SET)
        return os.write(number, data)


def link_or_copy(target: str, path: str) -> None:
    """A symbolic link at ``path``, or where this process may make none (Windows, FAT), a copy of the file."""
    try:
        os.symlink(target, path)
    except (OSError, NotImplementedError):
        from shutil import copyfile  # for whoever has no links

        copyfile(target, path)


def stay_as_it_is(_increment: int) -> int:
    """``os.nice`` where processes have no niceness."""
    return 0


def drop_cached_as_posix_has_it(number: int, position: int, size: int) -> None:
    """Tell the system that these bytes of an open file will not be needed: it gives up what it holds in memory."""
    with suppress(OSError):  # advice, which not every file system takes
        os.posix_fadvise(number, position, size, os.POSIX_FADV_DONTNEED)


def keep_cached(_number: int, _position: int, _size: int) -> None:
    """The same where the system takes no advice."""


def idle_as_linux_has_it() -> ThreadTimes | None:
    """Put this thread under the policy of Linux for what runs on idle processors, if it can be seen how it fares.

    That can't be taken back without a privilege. None: it stays as it is, under another kernel that says it is Linux,
    or in a sandbox that forbids it.
    """
    try:
        statistics = os.open("/proc/thread-self/schedstat", os.O_RDONLY | OPEN_FLAGS)  # noqa: TID251 - the kernel's
    except OSError:
        return None

    def times() -> tuple[int, int]:
        ran_ns, waited_ns, _ = os.pread(statistics, 100, 0).split()
        return int(ran_ns), int(waited_ns)

    os.sched_yield()  # counts what it has run so far
    try:
        if times() != (0, 0):  # of a kernel that doesn't count
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
            return times
    except OSError:
        pass
    os.close(statistics)
    return None


def never_idle() -> ThreadTimes | None:
    """The same where threads have no such policy."""
    return None


read_at: Callable[[int, int, int], bytes] = getattr(os, "pread", seek_and_read)
"""Up to so many bytes of an open file from a position on."""
write_at: Callable[[int, Buffer, int], int] = getattr(os, "pwrite", seek_and_write)
"""Bytes into an open file from a position on; how many the system took."""
drop_cached: Callable[[int, int, int], None] = (
    drop_cached_as_posix_has_it if hasattr(os, "posix_fadvise") else keep_cached
)
"""So many bytes of an open file from a position on are needed no more."""
be_nice: Callable[[int], int] = getattr(os, "nice", stay_as_it_is)
"""Leave the processor to others first."""
become_idle: Callable[[], ThreadTimes | None] = (
    idle_as_linux_has_it if hasattr(os, "SCHED_IDLE") and hasattr(os, "sched_setscheduler") else never_idle
)
"""Have this thread run only where nobody else wants to; return how to see whether it does, or None if it can't be."""
