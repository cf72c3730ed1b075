"""A simulated disk: a ``platform.files.Files`` that fails, crashes and loses power when a test requests it.

It works on a real folder, so that all calls with a descriptor (``sendfile`` too) work on it. Every operation that
changes the disk is counted; a ``Fault`` makes some of them fail, and ``crash_after`` ends the process before, within or
after one of them: ``Crashed`` is raised then, and by every later operation, until ``restart`` or ``cut_power``. After
``cut_power`` the fsynced changes are there, and those others that ``durable.Survival`` selects. The same seed and the
same calls give the same disk.
"""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from threading import RLock
from typing import ClassVar, Final
from weakref import WeakKeyDictionary

from kafkapy.platform.descriptors import DEFAULT_MAX_OPEN_FILES, Descriptor
from kafkapy.platform.file_lock import HeldLock
from kafkapy.platform.files import Files
from tests.simulation.durable import DurableTree, FileNode, FolderNode, Node, Survival

READS: Final = frozenset({"read", "open"})
CHANGES: Final = frozenset({"write", "sync", "create", "truncate", "rename", "remove", "make directory", "set time"})
SPACE_TAKING: Final = frozenset({"write", "create", "make directory"})


class Crashed(BaseException):
    """The process ends here. It is not an ``Exception``, so that only the test catches it."""


@dataclass(slots=True)
class Fault:
    """The next ``times`` of these operations fail, after ``after`` of them have succeeded."""

    operations: frozenset[str] = CHANGES
    after: int = 0
    times: int = 1
    code: int = errno.EIO

    def is_due(self, operation: str) -> bool:
        """Count ``operation`` and return whether it fails."""
        if operation not in self.operations or not self.times:
            return False
        if self.after:
            self.after -= 1
            return False
        self.times -= 1
        return True


class SimulatedDisk(Files):
    """``Files`` with faults, crashes and power cuts below ``root``; operations outside of it are only passed on.

    With ``now_ms`` the files' times of modification are those of that clock, and survive a power cut with the files.
    """

    parallel_syncs: ClassVar[int] = 1

    def __init__(
        self,
        root: str,
        seed: int = 0,
        max_open_files: int = DEFAULT_MAX_OPEN_FILES,
        now_ms: Callable[[], int] | None = None,
    ) -> None:
        super().__init__(max_open_files)
        self.random = Random(seed)  # no secret
        self.changes = 0
        self.history: list[tuple[str, str]] = []
        """Every change since the start, as (operation, path)."""
        self.faults: list[Fault] = []
        self.is_dead = False
        self.has_forfeited = False
        """An fsync failed since the machine was switched on: the bytes that it should have written may be lost."""
        self._has_clock = now_ms is not None
        self._now_ms: Callable[[], int] = now_ms or (lambda: 0)
        self._crash_at = 0
        self._tree = DurableTree(root)
        self._nodes: WeakKeyDictionary[Descriptor, Node] = WeakKeyDictionary()
        self._lock = RLock()

    # requests of tests

    def fail(self, fault: Fault) -> None:
        """Let some operations fail with ``OSError``."""
        self.faults.append(fault)

    def crash_after(self, changes: int) -> None:
        """End the process at the change after the next ``changes`` ones."""
        self._crash_at = self.changes + changes + 1

    def restart(self) -> None:
        """Begin a new process after a crash of the process alone: every change is there. Faults are removed."""
        self.is_dead = False
        self._crash_at = 0
        self.faults = []

    def cut_power(self, survival: Survival) -> None:
        """Cut the machine's power and switch it on again; open files can't be used any more."""
        with self._lock:
            self._tree.cut_power(survival, self.random)
            self._nodes.clear()
        self.has_forfeited = False
        self.restart()

    # counting

    @contextmanager
    def _change(self, operation: str, path: str) -> Iterator[None]:
        """Do a change of the disk, unless it fails or the process is killed before it."""
        with self._lock:
            self._count(operation, path)
            is_last = self.changes == self._crash_at
            if is_last and self.random.random() < 0.5:
                self._die()
            yield
            if is_last:
                self._die()

    def _count(self, operation: str, path: str) -> None:
        self._refuse_if_due(operation, path)
        self.changes += 1
        self.history.append((operation, path))

    def _refuse_if_due(self, operation: str, path: str) -> None:
        if self.is_dead:
            raise Crashed(path)
        # A list, so that each fault counts the operation.
        due = [fault for fault in self.faults if fault.is_due(operation)]
        if due:
            raise OSError(due[0].code, os.strerror(due[0].code), path)

    def _die(self) -> None:
        self.is_dead = True
        raise Crashed

    # descriptors

    def open(self, path: str, flags: int = os.O_RDWR) -> Descriptor:
        """See ``Files.open``."""
        exists = os.path.lexists(path)
        if flags & os.O_CREAT and not exists:
            with self._change("create", path):
                return self._opened(path, flags, is_new=True)
        if flags & os.O_TRUNC and exists:
            with self._change("truncate", path):
                return self._opened(path, flags, is_new=False)
        self._refuse_if_due("open", path)
        return self._opened(path, flags, is_new=False)

    def _opened(self, path: str, flags: int, *, is_new: bool) -> Descriptor:
        descriptor = super().open(path, flags)
        if is_new:
            self._tree.added(path, FileNode(modified_ms=self._now_ms()))
        node = self._tree.find(path)
        if node is not None:
            self._nodes[descriptor] = node
            if flags & os.O_TRUNC and not is_new:
                self._note(node, 0, None)
        return descriptor

    def _note(self, node: Node | None, position: int, data: bytes | None) -> None:
        if isinstance(node, FileNode):
            node.pending.append((position, data))
            node.modified_ms = self._now_ms()

    def write_at(self, descriptor: Descriptor, data: bytes | bytearray | memoryview, position: int) -> None:
        """See ``Files.write_at``; a crash or a fault may leave any first part of ``data``."""
        content = bytes(data)
        with self._lock:
            is_last = self.changes + 1 == self._crash_at
            try:
                self._count("write", "")
            except OSError:
                self._write_part(descriptor, content, position)
                raise
            if is_last:
                self._write_part(descriptor, content, position)
                self._die()
            super().write_at(descriptor, content, position)
            self._note(self._nodes.get(descriptor), position, content)

    def _write_part(self, descriptor: Descriptor, content: bytes, position: int) -> None:
        part = content[: self.random.randint(0, len(content))]
        super().write_at(descriptor, part, position)
        self._note(self._nodes.get(descriptor), position, part)

    def read_at(self, descriptor: Descriptor, size: int, position: int) -> bytes:
        """See ``Files.read_at``."""
        self._refuse_if_due("read", "")
        return super().read_at(descriptor, size, position)

    def sync(self, descriptor: Descriptor) -> None:
        """See ``Files.sync``; it does not wait for the real disk. If it fails, the unwritten bytes are lost."""
        node = self._nodes.get(descriptor)
        try:
            with self._change("sync", ""):
                if node is not None:
                    node.settle()
        except OSError:
            if node is not None:
                node.forfeit()
                self.has_forfeited = True
            raise

    # times

    def modified_ms(self, path: str) -> int:
        """See ``Files.modified_ms``."""
        node = self._tree.find(path)
        return node.modified_ms if self._has_clock and isinstance(node, FileNode) else super().modified_ms(path)

    def set_modified_ms(self, path: str, time_ms: int) -> None:
        """See ``Files.set_modified_ms``."""
        with self._change("set time", path):
            super().set_modified_ms(path, time_ms)
            node = self._tree.find(path)
            if isinstance(node, FileNode):
                node.modified_ms = time_ms

    # names

    def lock(self, path: str) -> HeldLock:
        """See ``Files.lock``."""
        if not os.path.lexists(path):
            self.create(path)
        return super().lock(path)

    def truncate(self, path: str, size: int) -> None:
        """See ``Files.truncate``."""
        with self._change("truncate", path):
            super().truncate(path, size)
            self._note(self._tree.find(path), size, None)

    def rename(self, path: str, target: str) -> None:
        """See ``Files.rename``."""
        with self._change("rename", path):
            super().rename(path, target)
            self._tree.renamed(path, target)

    def remove(self, path: str) -> None:
        """See ``Files.remove``."""
        if os.path.lexists(path):
            with self._change("remove", path):
                super().remove(path)
                self._tree.removed(path)

    def make_directory(self, path: str) -> None:
        """See ``Files.make_directory``; each level is a separate change."""
        if not os.path.isdir(path):
            self.make_directory(os.path.dirname(path))
            with self._change("make directory", path):
                os.mkdir(path)
                self._tree.added(path, FolderNode())

    def remove_directory(self, path: str) -> None:
        """See ``Files.remove_directory``; each name is a separate change."""
        if not os.path.isdir(path):
            return
        for name, size in self.list_directory(path):
            if size < 0:
                self.remove_directory(f"{path}/{name}")
            else:
                self.remove(f"{path}/{name}")
        with self._change("remove", path):
            os.rmdir(path)
            self._tree.removed(path)
