"""The content of a folder after a power cut: the model behind ``disk.SimulatedDisk``.

A file system guarantees only fsynced changes: the bytes of a file that was fsynced, and the names in a folder that was.
``DurableTree`` keeps, beside the files as programs see them, that guaranteed state and the changes since, and chooses
with a seed which of these changes survive a power cut.
"""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from typing import Final, TypeVar

Change = TypeVar("Change")

PAGE_BYTES: Final = 4096


class Survival(Enum):
    """The unsynced changes that survive a power cut."""

    NOTHING = "none of them"
    ORDERED = "those up to some moment, as a journaling file system does; the last write torn"
    TORN = "any of them, of a write any pages: all that POSIX promises"


@dataclass(slots=True, eq=False)
class FileNode:
    """A file: the guaranteed bytes, and the changes since as (position, bytes), or (size, None) for a truncation."""

    durable: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)
    modified_ms: int = 0

    def apply(self, position: int, data: bytes | None) -> None:
        """Apply one change to the guaranteed bytes."""
        size = len(self.durable)
        end = position if data is None else position + len(data)
        if end > size:
            self.durable += bytes(end - size)
        if data is None:
            del self.durable[end:]
        else:
            self.durable[position:end] = data

    def settle(self) -> None:
        """Every change is promised now."""
        for position, data in self.pending:
            self.apply(position, data)
        self.pending = []

    def forfeit(self) -> None:
        """An fsync failed: Linux counts the pages as clean, no later fsync writes them. Only their places remain."""
        self.pending = [(position, None if data is None else bytes(len(data))) for position, data in self.pending]


@dataclass(slots=True, eq=False)
class FolderNode:
    """A folder: its present names, and its guaranteed names."""

    live: dict[str, "Node"] = field(default_factory=dict)
    durable: dict[str, "Node"] = field(default_factory=dict)
    pending: list[tuple[str, "Node | None", str | None]] = field(default_factory=list)
    """(name, its new node or None, the old name if it was renamed)."""

    def apply(self, name: str, node: "Node | None", old_name: str | None) -> None:
        """Apply one change to the guaranteed names."""
        if old_name is not None:
            self.durable.pop(old_name, None)
        if node is None:
            self.durable.pop(name, None)
        else:
            self.durable[name] = node

    def settle(self) -> None:
        """Every change is promised now."""
        for change in self.pending:
            self.apply(*change)
        self.pending = []

    def forfeit(self) -> None:
        """An fsync failed; the next one may still bring the names to the disk."""


Node = FileNode | FolderNode


class DurableTree:
    """The folder ``root`` on a disk that may lose power; its content at the beginning is guaranteed."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.top = _read_folder(root)

    def find(self, path: str) -> Node | None:
        """Return the node of ``path``; None if it does not exist or is outside of ``root``."""
        if path != self.root and not path.startswith(self.root + "/"):
            return None
        node: Node | None = self.top
        for name in filter(None, path[len(self.root) :].split("/")):
            node = node.live.get(name) if isinstance(node, FolderNode) else None
        return node

    def _folder(self, path: str) -> tuple[FolderNode, str]:
        folder, _, name = path.rpartition("/")
        node = self.find(folder)
        assert isinstance(node, FolderNode), path
        return node, name

    def added(self, path: str, node: Node) -> None:
        """Note that ``path`` was created."""
        folder, name = self._folder(path)
        folder.live[name] = node
        folder.pending.append((name, node, None))

    def removed(self, path: str) -> None:
        """Note that ``path`` was removed."""
        folder, name = self._folder(path)
        del folder.live[name]
        folder.pending.append((name, None, None))

    def renamed(self, path: str, target: str) -> None:
        """Note that ``path`` was renamed to ``target`` in the same folder."""
        folder, name = self._folder(path)
        target_folder, target_name = self._folder(target)
        assert folder is target_folder, (path, target)
        node = folder.live[target_name] = folder.live.pop(name)
        folder.pending.append((target_name, node, name))

    def cut_power(self, survival: Survival, random: Random) -> None:
        """Choose the surviving changes, and write the result to the folder on the real disk."""
        _survive(self.top, survival, random)
        for name in os.listdir(self.root):
            path = f"{self.root}/{name}"
            if os.path.isdir(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)
        _write_folder(self.root, self.top)


def _read_folder(path: str) -> FolderNode:
    folder = FolderNode()
    for entry in os.scandir(path):
        if entry.is_dir():
            folder.live[entry.name] = _read_folder(entry.path)
        else:
            with open(entry.path, "rb") as file:
                folder.live[entry.name] = FileNode(bytearray(file.read()))
    folder.durable = dict(folder.live)
    return folder


def _write_folder(path: str, folder: FolderNode) -> None:
    for name, node in folder.durable.items():
        target = f"{path}/{name}"
        if isinstance(node, FolderNode):
            os.mkdir(target)
            _write_folder(target, node)
        else:
            with open(target, "wb") as file:
                file.write(node.durable)


def _survive(folder: FolderNode, survival: Survival, random: Random) -> None:
    """Apply the surviving changes below ``folder`` and drop the others."""
    for change in _spared(folder.pending, survival, random):
        folder.apply(*change)
    folder.pending = []
    folder.live = dict(folder.durable)
    for node in folder.durable.values():
        if isinstance(node, FolderNode):
            _survive(node, survival, random)
            continue
        changes = list(_spared(node.pending, survival, random))
        for number, (position, data) in enumerate(changes):
            is_torn = survival is Survival.TORN or number == len(changes) - 1
            for piece in _torn(position, data, survival, random) if data and is_torn else [(position, data)]:
                node.apply(*piece)
        node.pending = []


def _spared(changes: list[Change], survival: Survival, random: Random) -> list[Change]:
    if survival is Survival.NOTHING:
        return []
    if survival is Survival.ORDERED:
        return changes[: random.randint(0, len(changes))]
    return [change for change in changes if random.random() < 0.5]


def _torn(position: int, data: bytes, survival: Survival, random: Random) -> Iterator[tuple[int, bytes | None]]:
    """A write that was running: its first part, or any of its pages, with zeros for the others where the file grew."""
    if survival is Survival.ORDERED:
        yield position, data[: random.randint(0, len(data))]
        return
    begin, end = position, position + len(data)
    while begin < end:
        page_end = min(end, (begin // PAGE_BYTES + 1) * PAGE_BYTES)
        if random.random() < 0.6:
            yield begin, data[begin - position : page_end - position]
        begin = page_end
