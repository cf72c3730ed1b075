"""MetadataStore: a tree of versioned nodes, with the meaning that ZooKeeper gives to its own.

Laws that both implementations keep (``harness/cases/store_contract.py`` holds them):

- Every committed change gets the next number of one sequence, the *zxid*. A node remembers the one that created it
  (``czxid``; for a broker's registration that is the broker epoch) and the one that last set it (``mzxid``).
- ``version`` is 0 at creation and grows by one with every ``set``; a write may name the version that it expects.
- An *ephemeral* node belongs to a session and disappears with it; it has no children.
- A *sequential* node gets ten digits appended to its name, growing within its parent.
- ``multi`` happens as a whole or not at all. ``transactions`` runs several of them one after the other, each for
  itself, and costs one wait: what an event writes goes out in one call.
- A watch is called once, on the event loop, when the node or list that was read has changed; reading again renews it.
  It is called before a later read returns the change, and must not raise.
- A read sees every earlier write of its own session.

The session of a store can expire: the store got no message of its client for the session's time-out. Its ephemeral
nodes are deleted then, and its watches are dropped. The client opens another session as soon as it reaches the store
again, with another ``session_id``. Listeners are called for both, as those of Apache Kafka's ``ZooKeeperClient`` are:

- ``SessionEvent.EXPIRED``, by a plain call on the event loop: give up the roles that the session held (that of the
  controller), and cancel the work that depends on them. This comes before any waiting call continues.
- ``SessionEvent.RENEWED``: create the ephemeral nodes again and read again everything that was watched.
- A call that is made between the two waits, as it does while the store can't be reached, and is then done in the
  renewed session. A write whose answer was outstanding when the session expired raises ``SessionExpiredError``: the
  change may have been made or not.

A connection that breaks does not end the session: calls wait until there is another one, and a call without an answer
is done once. The exceptions are a sequential node, which may be created twice, and a write that was overwritten before
the store could look: it is made again, which a version refuses.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from enum import Enum
from typing import Any, ClassVar, Final, NamedTuple, Protocol, TypeVar

from kafkapy.clock import Clock
from kafkapy.errors import BrokerError
from kafkapy.metadata.errors import RequestTimedOutError
from kafkapy.protocol.errors import ErrorCode

T = TypeVar("T")

CLIENT_WAIT_MS: Final = 10_000
"""The longest wait for a store that does not answer, in a request without a time-out: less than clients wait."""
LOOK_AGAIN_MS: Final = 500
"""The pause between two looks whether a store that is late still answers."""

ANY_VERSION = -1
"""A write that names this version accepts any version of the node."""


class StoreError(Exception):
    """An operation that the store refused; ``path`` is the node's."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class NoNodeError(StoreError):
    """The node, or the parent of a node to create, does not exist."""


class NodeExistsError(StoreError):
    """The node to create exists already."""


class BadVersionError(StoreError):
    """The node's version is not the expected one: another client has written in between."""


class NotEmptyError(StoreError):
    """The node to delete still has children."""


class NoChildrenForEphemeralsError(StoreError):
    """The parent of the node to create is ephemeral."""


class StoreRefusedError(StoreError, BrokerError):
    """The store does not allow the operation: no permission, too much data."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path)
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


class StoreUnreachableError(BrokerError):
    """The store did not answer when the broker started."""


class SessionEndedError(StoreError, BrokerError):
    """The session in which the operation was called is over."""


class SessionExpiredError(SessionEndedError):
    """The session expired before the answer to a write came: the change may have been made or not.

    Another session follows. Requests that need the store are answered REQUEST_TIMED_OUT, which means the same.
    """

    error_code: ClassVar[int] = ErrorCode.REQUEST_TIMED_OUT

    def __str__(self) -> str:
        return "The session with the metadata store expired before it answered: the change may have been made or not."


class StoreClosedError(SessionEndedError):
    """The store is closed, or can't be written any more; every further call raises this error.

    Requests that need the store are answered KAFKA_STORAGE_ERROR.
    """

    error_code: ClassVar[int] = ErrorCode.KAFKA_STORAGE_ERROR

    def __str__(self) -> str:
        return "The cluster's metadata can't be read or written any more: see the broker's log, then restart it."


class StoreFileError(BrokerError):
    """The metadata file can't be opened or written (KAFKA_STORAGE_ERROR)."""

    error_code: ClassVar[int] = ErrorCode.KAFKA_STORAGE_ERROR


class StoreDamagedError(StoreFileError):
    """A file of the metadata is damaged."""


class NodeStat(NamedTuple):
    """The properties of a node besides its data; ``owner`` is the session id of an ephemeral node, else 0."""

    czxid: int
    mzxid: int
    version: int
    created_ms: int
    owner: int


class Node(NamedTuple):
    """A node's data (None is not the same as empty) and its other properties."""

    data: bytes | None
    stat: NodeStat


class Create(NamedTuple):
    """Create ``path``; its result in a ``multi`` is the path, with the digits of a sequential node."""

    path: str
    data: bytes | None = None
    ephemeral: bool = False
    sequential: bool = False


class SetData(NamedTuple):
    """Set the data of ``path``; its result is the new NodeStat."""

    path: str
    data: bytes | None
    version: int = ANY_VERSION


class Delete(NamedTuple):
    """Delete ``path``, which must have no children; its result is None."""

    path: str
    version: int = ANY_VERSION


class Check(NamedTuple):
    """Go on only when ``path`` has this version; its result is None."""

    path: str
    version: int


Operation = Create | SetData | Delete | Check
Result = str | NodeStat | None
Outcome = list[Result] | StoreError


class EventKind(Enum):
    """The kinds of changes of a watched node."""

    CREATED = "created"
    CHANGED = "changed"
    DELETED = "deleted"
    CHILDREN = "children"


class WatchEvent(NamedTuple):
    """A change of ``path``, with which each watch on it is called once."""

    kind: EventKind
    path: str


Watch = Callable[[WatchEvent], None]


class SessionEvent(Enum):
    """The events of a store's session; the text at the top of this file describes them."""

    EXPIRED = "expired"
    RENEWED = "renewed"


SessionListener = Callable[[SessionEvent], None]


class MetadataStore(Protocol):
    """A client of the tree: one session, and another one after it has expired.

    Raises StoreError subclasses; every method, StoreClosedError after ``close``.
    """

    @property
    def session_id(self) -> int:
        """Positive, and the ``owner`` of the ephemeral nodes made here; another one in each session."""
        ...

    @property
    def is_available(self) -> bool:
        """Whether calls are answered now; otherwise they wait: a disk refuses changes, no server can be reached."""
        ...

    @property
    def has_space(self) -> bool:
        """Whether the store may grow; on a full disk its reserve is for changes that do not make it larger."""
        ...

    def add_session_listener(self, listener: SessionListener) -> None:
        """Call ``listener`` at the end of each session and at the beginning of the next; it must not raise."""
        ...

    async def get(self, path: str, watch: Watch | None = None) -> Node:
        """The node; NoNodeError (and no watch) when it is missing. Watches its data and its deletion."""
        ...

    async def get_many(self, paths: Sequence[str], watch: Watch | None = None) -> list[Node | None]:
        """``get`` for many nodes as they are at one moment; None for a missing node."""
        ...

    async def exists(self, path: str, watch: Watch | None = None) -> NodeStat | None:
        """The node's stat or None; watches its creation, its data and its deletion, also if it is missing."""
        ...

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """The names below ``path``, in no particular order; NoNodeError when it is missing. Watches the list."""
        ...

    async def create(
        self, path: str, data: bytes | None = None, *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        """Create a node and return its path; NodeExistsError, or NoNodeError when its parent is missing."""
        ...

    async def set(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> NodeStat:
        """Set a node's data; NoNodeError, BadVersionError."""
        ...

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete a node; NoNodeError, BadVersionError, NotEmptyError."""
        ...

    async def multi(self, operations: Iterable[Operation]) -> list[Result]:
        """Do all the operations, in order, or none; raises the error of the first that is refused."""
        ...

    async def transactions(self, multis: Iterable[Sequence[Operation]]) -> list[Outcome]:
        """Run each ``multi`` separately, in order; an outcome is its results or the error that refused it."""
        ...

    async def close(self) -> None:
        """End the session: its ephemeral nodes disappear. Closing twice does nothing."""
        ...


async def ensure_path(store: MetadataStore, path: str, data: bytes | None = None) -> None:
    """Create ``path`` and its missing parents; nothing happens if it exists."""
    try:
        await store.create(path, data)
    except NodeExistsError:
        return
    except NoNodeError:
        await ensure_path(store, path.rpartition("/")[0])
        await ensure_path(store, path, data)


async def set_or_create(store: MetadataStore, path: str, data: bytes) -> None:
    """Set ``path`` unconditionally, creating it with its parents when it is missing: Kafka's way to write configs."""
    try:
        await store.set(path, data)
    except NoNodeError:
        await ensure_path(store, path, data)


class _TimeLimit:
    """Cancels ``task`` when ``timeout_ms`` is over and the store does not answer, then or later.

    An object, since a nested function that starts its own timer refers to itself: only a full garbage collection would
    free it and the finished task, and a busy broker runs one in an hour.
    """

    __slots__ = ("_store", "_clock", "_task", "_timer")

    def __init__(self, store: MetadataStore, clock: Clock, timeout_ms: float, task: asyncio.Task[T]) -> None:
        self._store = store
        self._clock = clock
        self._task = task
        self._timer = clock.call_later(max(timeout_ms, 0), self._look)

    def _look(self) -> None:
        if self._store.is_available:
            self._timer = self._clock.call_later(LOOK_AGAIN_MS, self._look)
        else:
            self._task.cancel()

    def end(self) -> None:
        self._timer.cancel()


async def in_time(store: MetadataStore, clock: Clock, timeout_ms: float, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of ``work``, a part of a client's request that calls ``store``.

    Raises RequestTimedOutError if the store does not answer when ``timeout_ms`` is over, or later. Then ``work`` is
    cancelled: the change for which it waits may be made later. While the store answers, ``work`` may take any time.
    """
    task = asyncio.ensure_future(work)
    limit = _TimeLimit(store, clock, timeout_ms, task)
    try:
        await asyncio.wait([task])
    finally:
        limit.end()
        task.cancel()
    if task.cancelled():
        raise RequestTimedOutError("The metadata store does not answer: the change may be made later.")
    return task.result()
