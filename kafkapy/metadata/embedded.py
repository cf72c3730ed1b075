"""The embedded MetadataStore: the tree in memory, followed by its two files (``store_files``) when it has them.

An operation changes the tree at once, on the event loop, which puts all of them in one order. Its answer, its
watches, and every later read wait until the file has the change. While one commit is being written to the disk, further
changes are gathered for the next commit: an event costs one or two commits, however many operations it has.

While the disk refuses a commit, all calls wait, as they would for a ZooKeeper that can't be reached; the commit is
tried again each second until the disk takes it. Calls that come in the meantime change the tree only after that, so a
caller that times out (``store.in_time``) leaves no change, and the number of waiting changes does not grow. So no
change is lost or made twice.

The start of a broker is the exception (``run_ahead``): its registration and the election of leaders must not wait for
space on a disk that only the running broker can free. These changes are in memory alone until the disk takes them. If
the process ends before that, the next start makes them again.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Final

from kafkapy.clock import Clock
from kafkapy.metadata.store import (
    ANY_VERSION,
    Create,
    Delete,
    Node,
    NodeStat,
    Operation,
    Outcome,
    Result,
    SessionEvent,
    SessionExpiredError,
    SessionListener,
    SetData,
    StoreClosedError,
    StoreError,
    StoreFileError,
    Watch,
    WatchEvent,
)
from kafkapy.metadata.tree import Tree, Watches
from kafkapy.turns import OneByOne, pause

if TYPE_CHECKING:
    from kafkapy.metadata.store_files import StoreFiles

FILE_NAME: Final = "kafkapy-metadata.sqlite"
"""The database's name in the first log directory, where the journal is too. Both are plain files: Apache Kafka refuses
a foreign folder there."""

MULTIS_OF_A_COMMIT: Final = 500
"""The most multis of one call in a commit: the preparation of a commit, and its watches, can't be interrupted."""

RETRY_MS: Final = 1000
"""The pause before a commit that the disk refused is tried again."""

logger = logging.getLogger(__name__)


class Retry:
    """A pause before another try, one at a time, which ``now`` ends."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._over: asyncio.Future[None] | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether a pause is running."""
        return self._over is not None and not self._over.done()

    async def pause(self, duration_ms: int) -> None:
        """Wait for ``duration_ms``, or until ``now`` is called."""
        self._over = asyncio.get_running_loop().create_future()
        timer = self._clock.call_later(duration_ms, self.now)
        try:
            await self._over
        finally:
            timer.cancel()

    def now(self) -> None:
        """End the pause, if there is one."""
        if self._over is not None and not self._over.done():
            self._over.set_result(None)


class EmbeddedStore:
    """The tree and its file; brokers in this process each open a session. ``path`` None keeps it in memory only."""

    def __init__(self, path: str | None, clock: Clock) -> None:
        self.tree: Final = Tree()
        self._clock = clock
        self._file: StoreFiles | None = None
        if path is not None:  # a store in memory needs no SQLite
            self._file = import_module("kafkapy.metadata.store_files").StoreFiles(path)
        self._sessions: dict[int, EmbeddedSession] = {}
        self._changed: set[str] = set()
        self._events: deque[WatchEvent] = deque()
        self._commit: asyncio.Task[None] | None = None
        self._next_commit: asyncio.Task[None] | None = None
        self._is_closing = False
        self._retry = Retry(clock)
        self._refused = asyncio.Event()
        self._accepts = asyncio.Event()
        self._accepts.set()
        self._runs_ahead = False
        self._told = 0
        self.failed = False
        """Whether the store was closed while the disk refused its changes."""

    async def open(self, cluster_id: str | None = None) -> None:
        """Read the files; raises StoreFileError. Ephemeral nodes of an earlier run no longer exist.

        With ``cluster_id``, to which the data directory belongs, the files must hold the metadata of a cluster.
        """
        if self._file is not None:
            loop = asyncio.get_running_loop()
            from kafkapy.metadata.journal import node_of

            content = await loop.run_in_executor(self._file.thread, self._file.load, cluster_id)
            self.tree.zxid = content.zxid
            self.tree.load((row[0], node_of(row)) for row in content.rows.values())

    @property
    def is_available(self) -> bool:
        """See ``MetadataStore.is_available``."""
        return not self._refused.is_set()

    @property
    def has_space(self) -> bool:
        """See ``MetadataStore.has_space``."""
        return self._file is None or self._file.has_space

    async def accepting(self) -> None:
        """Wait while the disk refuses changes; ``run_ahead`` is the exception."""
        if not self._runs_ahead:
            await self._accepts.wait()

    def run_ahead(self, *, allowed: bool) -> None:
        """``allowed``: stop waiting for a commit when the disk refuses it; otherwise wait until it is written."""
        self._runs_ahead = allowed

    def session(self) -> "EmbeddedSession":
        """A new session; like every change it takes a zxid, which is its id."""
        self.tree.zxid += 1
        session = self._sessions[self.tree.zxid] = EmbeddedSession(self, self.tree.zxid)
        return session

    def renewed(self, session: "EmbeddedSession") -> int:
        """Return the id of a further session of ``session``, whose last one has expired."""
        del self._sessions[session.session_id]
        self.tree.zxid += 1
        self._sessions[self.tree.zxid] = session
        return self.tree.zxid

    async def close(self) -> None:
        """End every session and close the file; changes that the disk refuses now are lost."""
        self._is_closing = True
        self._retry.now()
        for session in list(self._sessions.values()):
            await session.close()
        if self._file is not None:
            await asyncio.get_running_loop().run_in_executor(self._file.thread, self._file.close)
            self._file.thread.shutdown(wait=False)

    def apply(self, operations: Iterable[Operation], session_id: int) -> list[Result]:
        """Change the tree now; ``committed`` waits for the file and then calls the watches."""
        if self.failed:
            raise StoreClosedError("/")
        applied = self.tree.apply(operations, self._clock.now_ms(), session_id)
        self._changed |= applied.changed
        self._events += applied.events
        return applied.results

    async def committed(self) -> None:
        """Wait until all changes so far are on the disk and their watches called; ``run_ahead`` is the exception.

        Raises StoreClosedError when the store is closed before the disk takes it.
        """
        if self.failed:
            raise StoreClosedError("/")
        if self._file is None:
            self._tell_up_to(self._told + len(self._events))
            return
        if self._changed and self._next_commit is None:
            self._next_commit = asyncio.create_task(self._write_after(self._file, self._commit))
        commit = self._next_commit if self._changed else self._commit
        if commit is not None:
            await self._wait_for(commit)
        if self.failed:
            raise StoreClosedError("/")

    async def _wait_for(self, commit: "asyncio.Task[None]") -> None:
        if not self._runs_ahead:
            await asyncio.shield(commit)
            return
        refused = asyncio.ensure_future(self._refused.wait())
        try:
            await asyncio.wait([commit, refused], return_when=asyncio.FIRST_COMPLETED)
        finally:
            refused.cancel()
        if not commit.done():
            self._tell_up_to(self._told + len(self._events))

    async def committed_or_refused(self) -> None:
        """As ``committed``, but don't wait while the disk refuses."""
        waits = [asyncio.ensure_future(self.committed()), asyncio.ensure_future(self._refused.wait())]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)

    def forget(self, session_id: int) -> None:
        """Forget a session that has ended."""
        del self._sessions[session_id]

    async def _write_after(self, file: "StoreFiles", previous: asyncio.Task[None] | None) -> None:
        from kafkapy.metadata.journal import row_of

        if previous is not None:
            await previous
        self._commit, self._next_commit = self._next_commit, None
        while not self.failed:
            changed, self._changed = self._changed, set()
            events = self._told + len(self._events)
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
                    self._accepts.set()
                    return
                if not self._refused.is_set():
                    logger.error("%s. Changes of the cluster wait until its disk accepts writes", error)
                    self._refused.set()
                    self._accepts.clear()
                await self._retry.pause(RETRY_MS)
            else:
                if self._refused.is_set():
                    logger.warning("The metadata store continues: its disk accepts changes again")
                    self._refused.clear()
                    self._accepts.set()
                self._tell_up_to(events)
                return

    def _tell_up_to(self, number: int) -> None:
        """Fire the watches for the events before ``number``, counted from the first of this store."""
        events = [self._events.popleft() for _ in range(number - self._told)]
        self._told += len(events)
        for session in list(self._sessions.values()):
            session.watches.fire(events)


class EmbeddedSession:
    """A ``MetadataStore`` on the embedded store. Its session ends when it is closed; tests let it expire before."""

    def __init__(self, store: EmbeddedStore, session_id: int) -> None:
        self.watches: Final = Watches()
        self._store = store
        self._session_id = session_id
        self._listeners: list[SessionListener] = []
        self._usable = asyncio.Event()
        self._usable.set()
        self._closed = False

    @property
    def session_id(self) -> int:
        """See ``MetadataStore.session_id``."""
        return self._session_id

    @property
    def is_available(self) -> bool:
        """See ``MetadataStore.is_available``."""
        return self._usable.is_set() and self._store.is_available

    @property
    def has_space(self) -> bool:
        """See ``MetadataStore.has_space``."""
        return self._store.has_space

    def add_session_listener(self, listener: SessionListener) -> None:
        """See ``MetadataStore.add_session_listener``."""
        self._listeners.append(listener)

    async def expire(self) -> None:
        """Let the session expire, as ZooKeeper does without a message of the client for the session's time-out."""
        self._check_open()
        self._usable.clear()
        self.watches.clear()
        await self._delete_ephemeral_nodes()
        self._tell(SessionEvent.EXPIRED)

    def renew(self) -> None:
        """Begin another session after the one that has expired, as ZooKeeper's clients do by themselves."""
        self._check_open()
        self._session_id = self._store.renewed(self)
        self._usable.set()
        self._tell(SessionEvent.RENEWED)

    async def get(self, path: str, watch: Watch | None = None) -> Node:
        """See ``MetadataStore.get``."""
        await self._settled()
        node = self._store.tree.find(path)
        if watch is not None:
            self.watches.add_data(path, watch)
        return Node(node.data, node.stat)

    async def get_many(self, paths: Sequence[str], watch: Watch | None = None) -> list[Node | None]:
        """See ``MetadataStore.get_many``."""
        await self._settled()
        # All nodes are read at one moment, and watched from then on; a write replaces a node and does not change it.
        nodes = list(map(self._store.tree.nodes.get, paths))
        if watch is not None:
            for path, node in zip(paths, nodes, strict=True):
                if node is not None:
                    self.watches.add_data(path, watch)
        return [None if node is None else Node(node.data, node.stat) async for node in OneByOne(nodes)]

    async def exists(self, path: str, watch: Watch | None = None) -> NodeStat | None:
        """See ``MetadataStore.exists``."""
        await self._settled()
        node = self._store.tree.nodes.get(path)
        if watch is not None:
            self.watches.add_data(path, watch)
        return None if node is None else node.stat

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """See ``MetadataStore.children``."""
        await self._settled()
        names = self._store.tree.children(path)
        if watch is not None:
            self.watches.add_children(path, watch)
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
            try:
                raise outcome
            finally:
                del outcome  # its traceback refers to this frame
        return outcome

    async def transactions(self, multis: Iterable[Sequence[Operation]]) -> list[Outcome]:
        """See ``MetadataStore.transactions``."""
        await self._store.accepting()
        await self._session()
        asked_in = self._session_id
        outcomes: list[Outcome] = []
        for operations in multis:
            if outcomes:
                await pause()
                if len(outcomes) % MULTIS_OF_A_COMMIT == 0:
                    await self._store.committed()
                self._check_session(asked_in)
            outcomes.append(self._apply(operations))
        await self._store.committed()
        self._check_session(asked_in)
        return outcomes

    async def close(self) -> None:
        """See ``MetadataStore.close``."""
        if self._closed:
            return
        self._closed = True
        self._usable.set()
        self._store.forget(self._session_id)
        await self._delete_ephemeral_nodes()

    async def _delete_ephemeral_nodes(self) -> None:
        owned = self._store.tree.owned_by(self._session_id)
        if owned and not self._store.failed:
            self._store.apply([Delete(path) for path in owned], self._session_id)
            await self._store.committed_or_refused()

    def _tell(self, event: SessionEvent) -> None:
        for listener in self._listeners:
            listener(event)

    def _apply(self, operations: Sequence[Operation]) -> Outcome:
        try:
            return self._store.apply(operations, self._session_id)
        except StoreError as error:
            return error.with_traceback(None)  # the traceback refers to the frame that gets the outcome

    async def _session(self) -> None:
        """Wait until there is a session."""
        self._check_open()
        while not self._usable.is_set():
            await self._usable.wait()
            self._check_open()

    async def _settled(self) -> None:
        """Wait until all changes before a read are committed and their watches called, in a session that holds."""
        await self._session()
        await self._store.committed()
        while not self._usable.is_set():
            await self._session()
            await self._store.committed()

    def _check_session(self, asked_in: int) -> None:
        if self._session_id != asked_in or not self._usable.is_set():
            raise SessionExpiredError("/")

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosedError("/")
