"""Two ``Files`` classes that record each change: ``RecordingFiles`` of the real files, ``ShadowFiles`` of a shadow.

A repair works with ``RecordingFiles``. Its dry run works with ``ShadowFiles`` on a shadow of the data directory: a
folder in which every file is a link to the real one. A file is copied before it is written to; a ``.log`` that is cut
keeps its bytes, and only its new length is remembered. So a dry run needs as much space as the indexes that it
rebuilds; where no links can be made, as much as the data.
"""

import os
from collections.abc import Callable
from hashlib import sha256
from typing import Final, NamedTuple

from kafkapy.platform import portable
from kafkapy.platform.files import TEMPORARY_SUFFIX, Descriptor, Files
from kafkapy.storage.data_directory import LOCK_NAME
from kafkapy.storage.log.segment import LOG_SUFFIX

CUT: Final = "cut"
REMOVED: Final = "removed"
RENAMED: Final = "renamed"
WRITTEN: Final = "written"


class Action(NamedTuple):
    """A change of a file; ``detail`` has sizes or names."""

    kind: str
    path: str
    detail: str


class RecordingFiles(Files):
    """Reads and changes the real files; ``done`` returns the changes."""

    def __init__(self, progress: Callable[[int], object] = lambda _bytes: None) -> None:
        """``progress`` is called with the number of bytes of each read."""
        super().__init__()
        self._progress = progress
        self._actions: list[Action] = []
        self._before: dict[str, bytes] = {}

    def done(self) -> list[Action]:
        """Return cuts, removals and renamings in their order, then the files that are new or have other content now."""
        gone = [each for each in self._actions if each.kind != REMOVED or not self.exists(each.path)]
        written = [
            Action(WRITTEN, path, "rebuilt" if before else "new")
            for path, before in sorted(self._before.items())
            if self.exists(path) and self._digest(path) != before
        ]
        return gone + written

    def forget(self) -> None:
        """Forget the changes so far."""
        self._actions.clear()

    def read_at(self, descriptor: Descriptor, size: int, position: int) -> bytes:
        """See ``Files.read_at``."""
        found = super().read_at(descriptor, size, position)
        self._progress(len(found))
        return found

    def truncate(self, path: str, size: int) -> None:
        """See ``Files.truncate``."""
        if path.endswith(LOG_SUFFIX):
            self._actions.append(Action(CUT, path, f"from {self.size(path)} to {size} bytes"))
        else:
            self._remember(path)
        super().truncate(path, size)

    def create(self, path: str) -> None:
        """See ``Files.create``."""
        self._remember(path)
        super().create(path)

    def write(self, path: str, data: bytes | bytearray, position: int = 0, *, sync: bool = False) -> None:
        """See ``Files.write``."""
        self._remember(path)
        super().write(path, data, position, sync=sync)

    def replace(self, path: str, data: bytes, *, sync: bool = True) -> None:
        """See ``Files.replace``."""
        self._remember(path)
        super().replace(path, data, sync=sync)

    def remove(self, path: str) -> None:
        """See ``Files.remove``."""
        if self.exists(path):
            self._actions.append(Action(REMOVED, path, f"{self.size(path)} bytes"))
            if not path.endswith(LOG_SUFFIX):
                self._remember(path)
        super().remove(path)

    def rename(self, path: str, target: str) -> None:
        """See ``Files.rename``."""
        if path.endswith(TEMPORARY_SUFFIX):
            self._remember(target)
        else:
            self._actions.append(Action(RENAMED, path, f"to {os.path.basename(target)}"))
        super().rename(path, target)

    def _remember(self, path: str) -> None:
        if path not in self._before:
            self._before[path] = self._digest(path) if self.exists(path) else b""

    def _digest(self, path: str) -> bytes:
        return sha256(self.read(path)).digest()


class ShadowFiles(RecordingFiles):
    """The files of a shadow: links to the real ones (or copies), replaced by copies when they are written to."""

    def __init__(self, progress: Callable[[int], object] = lambda _bytes: None) -> None:
        """See ``RecordingFiles``."""
        super().__init__(progress)
        self._lengths: dict[str, int] = {}

    def add_directory(self, directory: str, shadow: str) -> None:
        """Make the folder ``shadow`` with links to the files of ``directory`` and its folders, except the lock."""
        self.make_directory(shadow)
        for name, size in self.list_directory(directory):
            if size < 0:
                self.add_directory(f"{directory}/{name}", f"{shadow}/{name}")
            elif name != LOCK_NAME:
                portable.link_or_copy(os.path.abspath(f"{directory}/{name}"), f"{shadow}/{name}")

    def truncate(self, path: str, size: int) -> None:
        """See ``Files.truncate``; the bytes of a ``.log`` stay."""
        if path.endswith(LOG_SUFFIX):
            self._actions.append(Action(CUT, path, f"from {self.size(path)} to {size} bytes"))
            self._lengths[path] = size
        else:
            self._own(path)
            super().truncate(path, size)

    def create(self, path: str) -> None:
        """See ``Files.create``."""
        self._remember(path)
        if os.path.islink(path):
            os.unlink(path)
        super().create(path)

    def write(self, path: str, data: bytes | bytearray, position: int = 0, *, sync: bool = False) -> None:
        """See ``Files.write``."""
        self._own(path)
        super().write(path, data, position, sync=sync)

    def size(self, path: str) -> int:
        """See ``Files.size``."""
        return self._lengths.get(path, super().size(path))

    def list_directory(self, path: str) -> list[tuple[str, int]]:
        """See ``Files.list_directory``."""
        return [(name, self._lengths.get(f"{path}/{name}", size)) for name, size in super().list_directory(path)]

    def rename(self, path: str, target: str) -> None:
        """See ``Files.rename``."""
        super().rename(path, target)
        if path in self._lengths:
            self._lengths[target] = self._lengths.pop(path)

    def _own(self, path: str) -> None:
        if os.path.islink(path):
            self._remember(path)
            content = self.read(path)
            os.unlink(path)
            Files.write(self, path, content)
