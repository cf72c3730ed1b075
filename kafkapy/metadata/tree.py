"""The tree of the embedded store, in memory: nodes with versions, operations, and watches.

No I/O and no await: ``apply`` returns the changes, so that they can be written to a file before watches are called.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import Final, NamedTuple

from kafkapy.metadata.store import (
    ANY_VERSION,
    BadVersionError,
    Check,
    Create,
    Delete,
    EventKind,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NodeStat,
    NoNodeError,
    NotEmptyError,
    Operation,
    Result,
    SetData,
    Watch,
    WatchEvent,
)


class TreeNode:
    """A node in memory; ``sequence`` is the number that its next sequential child gets.

    A write of the data puts a new object in its place (``written``); the old object keeps its data and stat.
    """

    __slots__ = ("data", "czxid", "mzxid", "version", "created_ms", "owner", "sequence", "children")

    def __init__(self, data: bytes | None, stat: NodeStat, sequence: int = 0) -> None:
        self.data = data
        self.czxid, self.mzxid, self.version, self.created_ms, self.owner = stat
        self.sequence = sequence
        self.children: dict[str, None] | None = None

    @property
    def stat(self) -> NodeStat:
        """The node's properties besides its data, as readers get them."""
        return NodeStat(self.czxid, self.mzxid, self.version, self.created_ms, self.owner)

    def written(self, data: bytes | None, zxid: int) -> "TreeNode":
        """Return the same node with other data, set by the change ``zxid``."""
        node = TreeNode(data, NodeStat(self.czxid, zxid, self.version + 1, self.created_ms, self.owner), self.sequence)
        node.children = self.children
        return node


class Applied(NamedTuple):
    """The outcome of one multi: a result per operation, the changed paths, and the events for watches."""

    results: list[Result]
    changed: set[str]
    events: list[WatchEvent]


Undo = Callable[[], object]


def _take_back(undo: list[Undo]) -> None:
    for step in reversed(undo):
        step()


def parent_of(path: str) -> str:
    """The path of the parent; the root is its own parent."""
    return path.rpartition("/")[0] or "/"


class Tree:
    """All nodes by path. The root always exists."""

    def __init__(self) -> None:
        self.nodes: Final[dict[str, TreeNode]] = {"/": TreeNode(None, NodeStat(0, 0, 0, 0, 0))}
        self.zxid = 0

    def find(self, path: str) -> TreeNode:
        """The node at ``path``; raises NoNodeError."""
        try:
            return self.nodes[path]
        except KeyError:
            raise NoNodeError(path) from None

    def children(self, path: str) -> list[str]:
        """The names below ``path``; raises NoNodeError."""
        return list(self.find(path).children or ())

    def load(self, rows: Iterable[tuple[str, TreeNode]]) -> None:
        """Load stored nodes, in any order."""
        for path, node in rows:
            node.children = self.nodes[path].children if path in self.nodes else None
            self.nodes[path] = node
        for path in self.nodes:
            if path != "/":
                self._adopt(path)

    def apply(self, operations: Iterable[Operation], now_ms: int, session_id: int) -> Applied:
        """Do all operations or, when one is refused, none; raises that one's StoreError.

        Even a refused multi takes a zxid, as in ZooKeeper: numbers are never used twice.
        """
        self.zxid += 1
        applied = Applied([], set(), [])
        undo: list[Undo] = []
        with ExitStack() as refused:
            refused.callback(_take_back, undo)
            for operation in operations:
                applied.results.append(self._apply_one(operation, now_ms, session_id, applied, undo))
            refused.pop_all()
        return applied

    def owned_by(self, session_id: int) -> list[str]:
        """The ephemeral nodes of a session, oldest first."""
        owned = [(node.czxid, path) for path, node in self.nodes.items() if node.owner == session_id]
        return [path for _, path in sorted(owned)]

    def _apply_one(
        self, operation: Operation, now_ms: int, session_id: int, applied: Applied, undo: list[Undo]
    ) -> Result:
        match operation:
            case Create():
                stat = NodeStat(self.zxid, self.zxid, 0, now_ms, session_id if operation.ephemeral else 0)
                return self._create(operation, stat, applied, undo)
            case SetData():
                return self._set(operation, applied, undo)
            case Delete():
                self._delete(operation, applied, undo)
                return None
            case Check():
                self._expect(operation.path, operation.version)
                return None

    def _create(self, operation: Create, stat: NodeStat, applied: Applied, undo: list[Undo]) -> str:
        parent_path = parent_of(operation.path)
        parent = self.find(parent_path)
        if parent.owner:
            raise NoChildrenForEphemeralsError(parent_path)
        path = f"{operation.path}{parent.sequence:010}" if operation.sequential else operation.path
        if path in self.nodes:
            raise NodeExistsError(path)
        self.nodes[path] = TreeNode(operation.data, stat)
        self._adopt(path)
        parent.sequence += 1

        def revert() -> None:  # later changes are taken back already: the parent is the same object again
            del self.nodes[path]
            self._disown(path)
            parent.sequence -= 1

        undo.append(revert)
        applied.changed.update((path, parent_path))
        applied.events.extend((WatchEvent(EventKind.CREATED, path), WatchEvent(EventKind.CHILDREN, parent_path)))
        return path

    def _set(self, operation: SetData, applied: Applied, undo: list[Undo]) -> NodeStat:
        before = self._expect(operation.path, operation.version)
        node = before.written(operation.data, self.zxid)

        def revert() -> None:
            self.nodes[operation.path] = before

        undo.append(revert)
        self.nodes[operation.path] = node
        applied.changed.add(operation.path)
        applied.events.append(WatchEvent(EventKind.CHANGED, operation.path))
        return node.stat

    def _delete(self, operation: Delete, applied: Applied, undo: list[Undo]) -> None:
        path = operation.path
        node = self._expect(path, operation.version)
        if node.children or path == "/":
            raise NotEmptyError(path)
        del self.nodes[path]
        self._disown(path)

        def revert() -> None:
            self.nodes[path] = node
            self._adopt(path)

        undo.append(revert)
        applied.changed.add(path)
        applied.events.extend((WatchEvent(EventKind.DELETED, path), WatchEvent(EventKind.CHILDREN, parent_of(path))))

    def _expect(self, path: str, version: int) -> TreeNode:
        node = self.find(path)
        if version not in (ANY_VERSION, node.version):
            raise BadVersionError(path)
        return node

    def _adopt(self, path: str) -> None:
        parent = self.nodes[parent_of(path)]
        if parent.children is None:
            parent.children = {}
        parent.children[path.rpartition("/")[2]] = None

    def _disown(self, path: str) -> None:
        siblings = self.nodes[parent_of(path)].children
        assert siblings is not None, "a node's parent knows it"
        del siblings[path.rpartition("/")[2]]


class Watches:
    """The watches of one session. A callable is called once for a node, however often it was added."""

    def __init__(self) -> None:
        self._data: Final[dict[str, dict[Watch, None]]] = {}
        self._children: Final[dict[str, dict[Watch, None]]] = {}

    @property
    def data_paths(self) -> list[str]:
        """The nodes whose data are watched."""
        return list(self._data)

    @property
    def children_paths(self) -> list[str]:
        """The nodes whose children are watched."""
        return list(self._children)

    def clear(self) -> None:
        """Forget all of them."""
        self._data.clear()
        self._children.clear()

    def add_data(self, path: str, watch: Watch) -> None:
        """Call ``watch`` at the creation, a change or the deletion of ``path``."""
        self._data.setdefault(path, {})[watch] = None

    def add_children(self, path: str, watch: Watch) -> None:
        """Call ``watch`` at a change of the names below ``path``, or its deletion."""
        self._children.setdefault(path, {})[watch] = None

    def fire(self, events: Iterable[WatchEvent]) -> None:
        """Call the watches of these events."""
        for event in events:
            for watch in self._take(event):
                watch(event)

    def _take(self, event: WatchEvent) -> Iterator[Watch]:
        if event.kind is EventKind.CHILDREN:
            yield from self._children.pop(event.path, ())
            return
        told = self._data.pop(event.path, {})
        if event.kind is EventKind.DELETED:
            told |= self._children.pop(event.path, {})
        yield from told
