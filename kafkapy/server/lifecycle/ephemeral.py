"""Temporary data directories, which are removed when their broker ends, or later if the broker was killed.

A killed broker leaves its directory behind; the next ephemeral broker on this machine removes it. A directory counts as
left over when it is an hour old, its process has ended, and its lock is free. The lock alone is not enough: a test may
stop its broker for a while.
"""

import os
import sys
from contextlib import suppress
from typing import Final

from kafkapy.clock import Clock, SystemClock
from kafkapy.platform.files import Files
from kafkapy.storage.data_directory import LOCK_NAME

PREFIX: Final = "kafkapy-"
LEFT_AFTER_MS: Final = 3_600_000


def make_directory() -> str:
    """Make a temporary directory for this process; return its path."""
    root = temporary_root()
    remove_left_over(root, SystemClock())
    path = os.path.join(root, f"{PREFIX}{os.getpid()}-{os.urandom(8).hex()}")
    os.mkdir(path, 0o700)
    return path


def temporary_root() -> str:
    """The directory that ``tempfile`` would use; usually found without that module, which takes a megabyte."""
    root = os.environ.get("TMPDIR", "/tmp")  # noqa: S108  # the names below it are random
    if "tempfile" not in sys.modules and os.path.isabs(root) and os.access(root, os.W_OK | os.X_OK):
        return root
    import tempfile

    return tempfile.gettempdir()


def remove_directory(path: str) -> None:
    """Remove a directory and its content, except for files that the system refuses to remove."""
    with suppress(OSError):
        Files().remove_directory(path)


def remove_left_over(root: str, clock: Clock) -> None:
    """Remove the directories in ``root`` that no process uses any more."""
    files = Files()
    for name, size in files.list_directory(root):
        if size < 0 and name.startswith(PREFIX):
            path = f"{root}/{name}"
            with suppress(OSError):  # another user's, or another process is removing it
                if _is_left(files, path, clock.now_ms()):
                    remove_directory(path)


def _is_left(files: Files, path: str, now_ms: int) -> bool:
    process = os.path.basename(path).removeprefix(PREFIX).partition("-")[0]
    if not process.isdecimal() or _is_alive(int(process)) or now_ms - files.modified_ms(path) < LEFT_AFTER_MS:
        return False
    return not files.is_locked(f"{path}/{LOCK_NAME}")


def _is_alive(process: int) -> bool:
    if os.name != "posix":
        return True  # os.kill would end the process
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
