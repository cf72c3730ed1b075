"""The embedded MetadataStore: the tree in memory, followed by an SQLite file when it has one.

An operation changes the tree at once, on the event loop, which puts all of them in one order. Its answer, its
watches, and every later read wait until the file has it. While one commit is on its way to the disk, what arrives
gathers for the next: however many operations an event has, it costs one or two commits.

While the disk refuses a commit, everybody waits, as they would for a ZooKeeper that can't be reached; the commit is
tried again each second until the disk takes it, with what has come meanwhile. So nothing is lost or done twice.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Final

from kafkapy.clock import Clock
from kafkapy.cluster.retry import Retry
from kafkapy.cluster.store import (
    ANY_VERSION,
    Create,
    Delete,
    Node,
    NodeStat,
    Operation,
    Outcome,
    Result,
    SetData,
    StoreClosedError,
    StoreError,
    StoreFileError,
    Watch,
    WatchEvent,
)
from kafkapy.cluster.tree import Tree, Watches

if TYPE_CHECKING:
    from kafkapy.cluster.sqlite_file import SqliteFile

FILE_NAME: Final = "kafkapy-metadata.sqlite"
"""The file's name in the first log directory (a plain file: Apache Kafka refuses a foreign folder there)."""

RETRY_MS: Final = 1000
"""How long to wait before a commit that the disk refused is tried again."""

logger = logging.getLogger(__name__)


class EmbeddedStore:
    """The tree and its file; brokers in this process each open a session. ``path`` None keeps it in memory only."""

    def __init__(self, path: str | None, clock: Clock) -> None:
        self.tree: Final = Tree()
        self.watches: Final = Watches()
        self._clock = clock
        self._file: SqliteFile | None = None
        if path is not None:  # a store in memory does without SQLite
            self._file = import_module("kafkapy.cluster.sqlite_file").SqliteFile(path)
        self._sessions: dict[int, EmbeddedSession] = {}
        self._changed: set[str] = set()
        self._events: deque[WatchEvent] = deque()
        self._commit: asyncio.Task[None] | None = None
        self._next_commit: asyncio.Task[None] | None = None
        self._is_closing = False
        self._retry = Retry(clock)
        self._refused = asyncio.Event()
        self.failed = False
        """The store was closed while the disk refused its changes."""

    async def open(self) -> None:
        """Read the file; raises StoreFileError. Ephemeral nodes of an earlier run are not there any more."""
        if self._file is not None:
            loop = asyncio.get_running_loop()
            self.tree.zxid, nodes = await loop.run_in_executor(self._file.thread, self._file.load)
            self.tree.load(nodes)

    def session(self) -> "EmbeddedSession":
        """A new session; like every change it takes a zxid, which is its id."""
        self.tree.zxid += 1
        session = self._sessions[self.tree.zxid] = EmbeddedSession(self, self.tree.zxid)
        return session

    async def close(self) -> None:
        """End every session and close the file; what the disk refuses now is lost."""
        self._is_closing = True
        self._retry.now()
        for session in list(self._sessions.values()):
            await session.close()
        if self._file is not None:
            await asyncio.get_running_loop().run_in_executor(self._file.thread, self._file.close)
            self._file.thread.shutdown(wait=False)

    def apply(self, operations: Iterable[Operation], session_id: int) -> list[Result]:
        """Change the tree now; ``committed`` waits for the file and then tells the watches."""
        if self.failed:
            raise StoreClosedError("/")
        applied = self.tree.apply(operations, self._clock.now_ms(), session_id)
        self._changed |= applied.changed
        self._events += applied.events
        return applied.results

    async def committed(self) -> None:
        """Wait until everything applied so far is on the disk and told.

        Raises StoreClosedError when the store is closed before the disk takes it.
        """
        if self.failed:
            raise StoreClosedError("/")
        if self._file is None:
            self._tell(len(self._events))
            return
        if self._changed:
            if self._next_commit is None:
                self._next_commit = asyncio.create_task(self._write_after(self._file, self._commit))
            await asyncio.shield(self._next_commit)
        elif self._commit is not None:
            await asyncio.shield(self._commit)
        if self.failed:
            raise StoreClosedError("/")

    async def committed_or_refused(self) -> None:
        """As ``committed``, but don't wait while the disk refuses."""
        waits = [asyncio.ensure_future(self.committed()), asyncio.ensure_future(self._refused.wait())]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)

    def forget(self, session_id: int) -> None:
        """The session is over."""
        del self._sessions[session_id]

    async def _write_after(self, file: "SqliteFile", previous: asyncio.Task[None] | None) -> None:
        from kafkapy.cluster.sqlite_file import row_of

        if previous is not None:
            await previous
        self._commit, self._next_commit = self._next_commit, None
        while not self.failed:
            changed, self._changed = self._changed, set()
            events = len(self._events)
            nodes = self.tree.nodes
            gone = [path for path in changed if path not in nodes]
            rows = [row_of(path, nodes[path]) for path in changed if path in nodes and not nodes[path].owner]
            loop = asyncio.get_running_loop()
            try:
                await loop.run_in_executor(file.thread, file.write, self.tree.zxid, rows, gone)
            except StoreFileError as error:
                self._changed |= changed
                if self._is_closing:
                    self.failed = True
                    return
                if not self._refused.is_set():
                    logger.error("%s. Changes of the cluster wait until its disk is well again", error)
                    self._refused.set()
                await self._retry.pause(RETRY_MS)
            else:
                if self._refused.is_set():
                    logger.warning("The metadata store goes on: its disk takes changes again")
                    self._refused.clear()
                self._tell(events)
                return

    def _tell(self, count: int) -> None:
        self.watches.fire([self._events.popleft() for _ in range(count)])


class EmbeddedSession:
    """See ``MetadataStore``."""

    def __init__(self, store: EmbeddedStore, session_id: int) -> None:
        self._store = store
        self._session_id = session_id
        self._closed = False

    @property
    def session_id(self) -> int:
        """See ``MetadataStore.session_id``."""
        return self._session_id

    async def get(self, path: str, watch: Watch | None = None) -> Node:
        """See ``MetadataStore.get``."""
        await self._settled()
        node = self._store.tree.find(path)
        if watch is not None:
            self._store.watches.add_data(path, watch)
        return Node(node.data, node.stat)

    async def get_many(self, paths: Sequence[str], watch: Watch | None = None) -> list[Node | None]:
        """See ``MetadataStore.get_many``."""
        await self._settled()
        found: list[Node | None] = []
        for path in paths:
            node = self._store.tree.nodes.get(path)
            found.append(None if node is None else Node(node.data, node.stat))
            if node is not None and watch is not None:
                self._store.watches.add_data(path, watch)
        return found

    async def exists(self, path: str, watch: Watch | None = None) -> NodeStat | None:
        """See ``MetadataStore.exists``."""
        await self._settled()
        node = self._store.tree.nodes.get(path)
        if watch is not None:
            self._store.watches.add_data(path, watch)
        return None if node is None else node.stat

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """See ``MetadataStore.children``."""
        await self._settled()
        names = self._store.tree.children(path)
        if watch is not None:
            self._store.watches.add_children(path, watch)
        return names

    async def create(
        self, path: str, data: bytes | None = None, *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        """See ``MetadataStore.create``."""
        (created,) = await self.multi([Create(path, data, ephemeral, sequential)])
        assert isinstance(created, str), "the result of a Create is a path"
        return created

    async def set(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> NodeStat:
        """See ``MetadataStore.set``."""
        (stat,) = await self.multi([SetData(path, data, version)])
        assert isinstance(stat, NodeStat), "the result of a SetData is a NodeStat"
        return stat

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """See ``MetadataStore.delete``."""
        await self.multi([Delete(path, version)])

    async def multi(self, operations: Iterable[Operation]) -> list[Result]:
        """See ``MetadataStore.multi``."""
        (outcome,) = await self.transactions([list(operations)])
        if isinstance(outcome, StoreError):
            raise outcome
        return outcome

    async def transactions(self, multis: Iterable[Sequence[Operation]]) -> list[Outcome]:
        """See ``MetadataStore.transactions``."""
        self._check_open()
        outcomes = [self._apply(operations) for operations in multis]
        await self._store.committed()
        return outcomes

    async def close(self) -> None:
        """See ``MetadataStore.close``."""
        if self._closed:
            return
        self._closed = True
        self._store.forget(self._session_id)
        owned = self._store.tree.owned_by(self._session_id)
        if owned and not self._store.failed:
            self._store.apply([Delete(path) for path in owned], self._session_id)
            await self._store.committed_or_refused()

    def _apply(self, operations: Sequence[Operation]) -> Outcome:
        try:
            return self._store.apply(operations, self._session_id)
        except StoreError as error:
            return error

    async def _settled(self) -> None:
        self._check_open()
        await self._store.committed()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosedError("/")
