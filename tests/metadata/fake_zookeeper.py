"""The functions of kazoo that ``zookeeper_tree`` needs, over the embedded store's tree, for tests without a server."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from kazoo import exceptions
from kazoo.handlers.threading import KazooTimeoutError

from kafkapy.metadata.store import Create, Delete, NoNodeError, Operation, SetData, StoreError
from kafkapy.metadata.tree import Tree

SERVERS = "zoo:2181"


class _Answer:
    def __init__(self, ask: Callable[[], Any]) -> None:
        self.get = ask


class _Transaction:
    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._operations: list[Operation] = []

    def create(self, path: str, data: bytes, _access: object) -> None:
        self._operations.append(Create(path, data))

    def delete(self, path: str) -> None:
        self._operations.append(Delete(path))

    def set_data(self, path: str, data: bytes) -> None:
        self._operations.append(SetData(path, data))

    def commit(self) -> Sequence[object]:
        try:
            return self._tree.apply(self._operations, 1, 0).results
        except StoreError as error:
            return [getattr(exceptions, type(error).__name__)()] * len(self._operations)


class FakeZooKeeper:
    """A server's tree, and a stand-in for ``KazooClient`` that talks to it."""

    def __init__(self) -> None:
        self.tree = Tree()
        self.is_running = True
        self.handler = None
        self.refuses: Exception | None = None
        self.vanishing: set[str] = set()
        self.multis = 0
        self.meanwhile: Callable[[], object] | None = None

    def client(self, hosts: str, **_: object) -> "FakeZooKeeper":
        assert hosts == SERVERS
        return self

    def put(self, path: str, data: bytes | None = None, *, owner: int = 0) -> None:
        self.ensure_path(path.rpartition("/")[0])
        self.tree.apply([Create(path, data, ephemeral=owner > 0)], 1, owner)

    def data(self) -> dict[str, bytes | None]:
        return {path: node.data for path, node in self.tree.nodes.items()}

    # KazooClient

    def start(self, timeout: float) -> None:
        if not self.is_running:
            raise KazooTimeoutError("Connection time-out")
        if self.refuses is not None:
            raise self.refuses

    def stop(self) -> None: ...

    def close(self) -> None: ...

    def exists(self, path: str) -> Any:
        node = self.tree.nodes.get(path)
        return None if node is None else self._stat(path)

    def _stat(self, path: str) -> Any:
        node = self.tree.nodes[path]
        return SimpleNamespace(version=node.version, ephemeralOwner=node.owner)

    def get_children(self, path: str) -> list[str]:
        try:
            return self.tree.children(path)
        except NoNodeError:
            raise exceptions.NoNodeError from None

    def _get(self, path: str) -> tuple[bytes | None, Any]:
        if path in self.vanishing or path not in self.tree.nodes:
            raise exceptions.NoNodeError
        return self.tree.nodes[path].data, self._stat(path)

    def get_async(self, path: str) -> _Answer:
        return _Answer(lambda: self._get(path))

    def get_children_async(self, path: str) -> _Answer:
        return _Answer(lambda: self.get_children(path))

    def ensure_path(self, path: str, _access: object = None) -> None:
        names = [name for name in path.split("/") if name]
        for depth in range(1, len(names) + 1):
            parent = "/" + "/".join(names[:depth])
            if parent not in self.tree.nodes:
                self.tree.apply([Create(parent, b"")], 1, 0)

    def set(self, path: str, data: bytes) -> None:
        self.tree.apply([SetData(path, data)], 1, 0)

    def transaction(self) -> _Transaction:
        self.multis += 1
        if self.meanwhile is not None:
            self.meanwhile()
        return _Transaction(self.tree)
