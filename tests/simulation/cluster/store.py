"""The metadata store of a simulated cluster: the tree, and sessions that are reached over links and expire.

The tree is that of the embedded store. As in ZooKeeper a session's requests, answers and watches keep their order; a
session expires when its process was not heard of for the time-out, which the process only learns when it reaches the
store again. A request that was under way then may have been executed or not.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

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
    Watch,
    WatchEvent,
)
from kafkapy.metadata.tree import Tree, Watches
from tests.simulation.cluster.loop import NODE, SimulatedClock, SimulatedLoop
from tests.simulation.cluster.loop import Node as Process
from tests.simulation.cluster.network import Network, Pipe

RENEWAL_S: Final = 0.05


class SimulatedStore:
    """As ``EmbeddedStore``, of which a broker needs ``session`` alone. ``changed`` is called after each change."""

    def __init__(self, loop: SimulatedLoop, network: Network, session_s: float) -> None:
        self.tree: Final = Tree()
        self.process: Final = Process("store")
        self.loop = loop
        self.network = network
        self.session_s = session_s
        self.changed: Callable[[], None] = lambda: None
        self.sessions: dict[int, SimulatedSession] = {}
        self.clients: dict[Process, SimulatedSession] = {}
        """The client of each process, the last one."""
        self._clock = SimulatedClock(loop)
        network.others.append(self._flow)

    def session(self) -> "SimulatedSession":
        process = NODE.get()
        assert process is not None
        client = self.clients[process] = SimulatedSession(self, process)
        return client

    def begin(self, session: "SimulatedSession") -> int:
        self.tree.zxid += 1
        self.sessions[self.tree.zxid] = session
        return self.tree.zxid

    def end(self, number: int) -> None:
        """End a session, if it has not ended: its ephemeral nodes are gone."""
        if self.sessions.pop(number, None) is not None:
            owned = self.tree.owned_by(number)
            if owned:
                self.apply([Delete(path) for path in owned], number)

    def apply(self, operations: Iterable[Operation], number: int) -> list[Result]:
        applied = self.tree.apply(operations, self._clock.now_ms(), number)
        for session in list(self.sessions.values()):
            session.watches.fire(applied.events)
        self.changed()
        return applied.results

    def _flow(self) -> None:
        for session in list(self.sessions.values()):
            session.flow()

    # the loss of a process

    def unreachable(self, process: Process) -> None:
        """Nothing is heard of the process from now on."""
        for number, session in list(self.sessions.items()):
            if session.process is process:
                self.loop.call_later(
                    self.session_s, self._expire, number, session.contacts, context=self.process.context
                )

    def _expire(self, number: int, contacts: int) -> None:
        session = self.sessions.get(number)
        if session is not None and session.contacts == contacts:
            self.expire(session)

    def expire(self, session: "SimulatedSession") -> None:
        """End a session; its client learns of it by ``reached``."""
        if session.session_id in self.sessions:
            self.end(session.session_id)
            session.has_expired = True

    def reached(self, process: Process) -> None:
        """The process reaches the store again."""
        client = self.clients.get(process)
        if client is not None:
            client.contacts += 1
            self.loop.call_soon(client.notice_expiry, context=process.context)

    def has_session(self, process: Process) -> bool:
        return any(session.process is process for session in self.sessions.values())


class SimulatedSession:
    """A ``MetadataStore``: the client's end of a session with the store."""

    def __init__(self, store: SimulatedStore, process: Process) -> None:
        self.process = process
        self.watches = Watches()
        self.contacts = 0
        """How often the store was reached again."""
        self.has_expired = False
        """The store has ended the session; the client does not know it yet."""
        self._store = store
        self._delivered: dict[Watch, Watch] = {}
        self._listeners: list[SessionListener] = []
        self._asked: dict[asyncio.Future[Any], None] = {}
        self._usable = asyncio.Event()
        self._closed = False
        self.session_id = 0
        self._begin()

    def _begin(self) -> None:
        store = self._store
        self.session_id = store.begin(self)
        self._up = Pipe(store.network, (self.process, store.process), store.process.context)
        self._down = Pipe(store.network, (store.process, self.process), self.process.context)
        self._usable.set()

    def flow(self) -> None:
        self._up.flow()
        self._down.flow()

    @property
    def is_available(self) -> bool:
        links = {(self.process, self._store.process), (self._store.process, self.process)}
        return self._usable.is_set() and not links & self._store.network.cut

    @property
    def has_space(self) -> bool:
        return True

    def add_session_listener(self, listener: SessionListener) -> None:
        self._listeners.append(listener)

    # the end of a session

    def notice_expiry(self) -> None:
        """The client reaches the store, which does not know the session any more. Runs in the client's process."""
        if self._closed or not self.has_expired:
            return
        self.has_expired = False
        self._usable.clear()
        self.watches, self._delivered = Watches(), {}
        self._tell(SessionEvent.EXPIRED)
        self._fail(SessionExpiredError("/"))
        self._store.loop.call_later(RENEWAL_S, self._renew, context=self.process.context)

    def _renew(self) -> None:
        if not self._closed:
            self._begin()
            self._tell(SessionEvent.RENEWED)

    def _tell(self, event: SessionEvent) -> None:
        for listener in self._listeners:
            listener(event)

    def _fail(self, error: StoreError) -> None:
        self._up.close()
        self._down.close()
        asked, self._asked = self._asked, {}
        for future in asked:
            if not future.done():
                future.set_exception(error)

    def lose(self) -> None:
        """The process is killed: the store hears nothing of it any more."""
        self._closed = True
        self._usable.set()
        self._fail(StoreClosedError("/"))

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._usable.set()
        number = self.session_id
        done = asyncio.get_running_loop().create_future()
        self._asked[done] = None

        def end() -> None:
            self._store.end(number)
            self._down.put(_settle, done, None)

        self._up.put(end)
        late = self._store.loop.call_later(3.0, _settle, done, None)
        await asyncio.wait([done])
        late.cancel()
        done.exception()
        self._fail(StoreClosedError("/"))
        if number in self._store.sessions:
            self._store.unreachable(self.process)

    # requests

    async def _read(self, work: Callable[[], Any]) -> Any:
        """Ask until a session answers."""
        while True:
            try:
                return await self._ask(work)
            except SessionExpiredError:
                continue

    async def _ask(self, work: Callable[[], Any]) -> Any:
        while not self._usable.is_set():
            await self._usable.wait()
        if self._closed:
            raise StoreClosedError("/")
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._asked[future] = None
        number, down = self.session_id, self._down

        def serve() -> None:
            if number not in self._store.sessions:
                return
            try:
                result = work()
            except StoreError as error:
                down.put(_settle, future, error.with_traceback(None))
            else:
                down.put(_settle, future, result)

        self._up.put(serve)
        try:
            result = await future
        finally:
            self._asked.pop(future, None)
        if isinstance(result, StoreError):
            raise result
        return result

    def _watch(self, watch: Watch) -> Watch:
        found = self._delivered.get(watch)
        if found is None:
            down = self._down

            def found(event: WatchEvent) -> None:
                down.put(watch, event)

            self._delivered[watch] = found
        return found

    async def get(self, path: str, watch: Watch | None = None) -> Node:
        def work() -> Node:
            node = self._store.tree.find(path)
            if watch is not None:
                self.watches.add_data(path, self._watch(watch))
            return Node(node.data, node.stat)

        return await self._read(work)

    async def get_many(self, paths: Sequence[str], watch: Watch | None = None) -> list[Node | None]:
        def work() -> list[Node | None]:
            nodes = list(map(self._store.tree.nodes.get, paths))
            for path, node in zip(paths, nodes, strict=True):
                if watch is not None and node is not None:
                    self.watches.add_data(path, self._watch(watch))
            return [None if node is None else Node(node.data, node.stat) for node in nodes]

        return await self._read(work)

    async def exists(self, path: str, watch: Watch | None = None) -> NodeStat | None:
        def work() -> NodeStat | None:
            node = self._store.tree.nodes.get(path)
            if watch is not None:
                self.watches.add_data(path, self._watch(watch))
            return None if node is None else node.stat

        return await self._read(work)

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        def work() -> list[str]:
            names = self._store.tree.children(path)
            if watch is not None:
                self.watches.add_children(path, self._watch(watch))
            return names

        return await self._read(work)

    async def create(
        self, path: str, data: bytes | None = None, *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        (created,) = await self.multi([Create(path, data, ephemeral, sequential)])
        assert isinstance(created, str)
        return created

    async def set(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> NodeStat:
        (stat,) = await self.multi([SetData(path, data, version)])
        assert isinstance(stat, NodeStat)
        return stat

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self.multi([Delete(path, version)])

    async def multi(self, operations: Iterable[Operation]) -> list[Result]:
        (outcome,) = await self.transactions([list(operations)])
        if isinstance(outcome, StoreError):
            raise outcome
        return outcome

    async def transactions(self, multis: Iterable[Sequence[Operation]]) -> list[Outcome]:
        asked = list(multis)

        def work() -> list[Outcome]:
            return [self._apply(operations) for operations in asked]

        return await self._ask(work)

    def _apply(self, operations: Sequence[Operation]) -> Outcome:
        try:
            return self._store.apply(operations, self.session_id)
        except StoreError as error:
            return error.with_traceback(None)


def _settle(future: "asyncio.Future[Any]", result: Any) -> None:
    if not future.done():
        future.set_result(result)
