"""A directory for the broker that is attacked, on a file system without a disk."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from harness.keeper import keeper

MEMORY: Final = Path("/dev/shm")
"""A file system without a disk: the loop's own delays are measured, and 10,000 topics are copied in seconds."""


@contextmanager
def memory_directory() -> Iterator[Path | None]:
    """A directory in memory for the time of a run; None where the system has none."""
    if not MEMORY.is_dir():
        yield None
        return
    directory = Path(tempfile.mkdtemp(prefix="attack-", dir=MEMORY))
    keeper().note("directory", directory)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        keeper().forget("directory", directory)
