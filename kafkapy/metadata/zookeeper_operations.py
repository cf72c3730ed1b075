"""The store's operations as messages of ZooKeeper, and ZooKeeper's answers as those of the store. No I/O.

Every write is a ``multi``, also one of a single operation: one kind of message to send, to repeat and to look up.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from kazoo.exceptions import EXCEPTIONS, RolledBackError, RuntimeInconsistency
from kazoo.protocol import serialization
from kazoo.security import ACL, CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from kafkapy.metadata.store import (
    ANY_VERSION,
    BadVersionError,
    Check,
    Create,
    Delete,
    NoChildrenForEphemeralsError,
    Node,
    NodeExistsError,
    NodeStat,
    NoNodeError,
    NotEmptyError,
    Operation,
    Outcome,
    Result,
    SetData,
    StoreError,
    StoreRefusedError,
)
from kafkapy.metadata.tree import parent_of

NO_NODE: Final = -101
SESSION_EXPIRED: Final = -112
SESSION_MOVED: Final = -118
SASL_REQUIRED: Final = -124
"""The codes of errors that are not told to the caller of an operation as they are."""

_ERRORS: Final[Mapping[int, type[StoreError]]] = {
    NO_NODE: NoNodeError,
    -103: BadVersionError,
    -108: NoChildrenForEphemeralsError,
    -110: NodeExistsError,
    -111: NotEmptyError,
}
_EPHEMERAL: Final = 1
_SEQUENTIAL: Final = 2
_UNSIGNED: Final = (1 << 64) - 1

OPEN_ROOT: Final = "/consumers"
"""Consumers of old releases write below it, with any identity."""
SECRET_ROOTS: Final = ("/config/users", "/config/brokers", "/delegation_token/tokens")
"""Their nodes may hold passwords and keys, so only brokers may read them."""


def access_list(path: str, *, secure: bool) -> Sequence[ACL]:
    """Return who may read and write a new node, as Apache Kafka decides it.

    Everybody may do everything unless it is ``secure`` (``zookeeper.set.acl``); then the identities of this session
    may do everything, and everybody may read what is not secret.
    """
    if not secure or path == OPEN_ROOT:
        return list(OPEN_ACL_UNSAFE)
    if path.startswith(SECRET_ROOTS):
        return list(CREATOR_ALL_ACL)
    return [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]


class TreeRoot(NamedTuple):
    """Where the store's root is in ZooKeeper's tree, and whether its nodes are protected."""

    chroot: str
    secure: bool = False

    def path(self, path: str) -> str:
        """ZooKeeper's path of a path of the store."""
        return (self.chroot + path).rstrip("/") or "/"

    def own_path(self, path: str) -> str:
        """The store's path of one of ZooKeeper."""
        return path.removeprefix(self.chroot) or "/"

    def message(self, operations: Sequence[Operation]) -> Any:
        """Return the multi that does these operations."""
        return serialization.Transaction([self._part(operation) for operation in operations])

    def _part(self, operation: Operation) -> Any:
        path = self.path(operation.path)
        match operation:
            case Create():
                flags = _EPHEMERAL * operation.ephemeral | _SEQUENTIAL * operation.sequential
                access = access_list(operation.path, secure=self.secure)
                return serialization.Create(path, operation.data, access, flags)
            case SetData():
                return serialization.SetData(path, operation.data, operation.version)
            case Delete():
                return serialization.Delete(path, operation.version)
            case Check():
                return serialization.CheckVersion(path, operation.version)

    def outcome(self, operations: Sequence[Operation], answers: Sequence[Any]) -> Outcome:
        """Return the results of a multi, or the error of the operation that refused it."""
        for operation, answer in zip(operations, answers, strict=True):
            if isinstance(answer, Exception) and not isinstance(answer, RolledBackError | RuntimeInconsistency):
                return error_of(getattr(answer, "code", 0), _place_of_error(operation, answer))
        return [self._result(answer) for answer in answers]

    def _result(self, answer: Any) -> Result:
        if isinstance(answer, serialization.ZnodeStat):
            return stat_of(answer)
        return self.own_path(answer) if isinstance(answer, str) else None


def _place_of_error(operation: Operation, answer: Exception) -> str:
    """A node that can't be created for lack of its parent, or because of it, is not the one to blame."""
    code = getattr(answer, "code", 0)
    if isinstance(operation, Create) and _ERRORS.get(code) in (NoNodeError, NoChildrenForEphemeralsError):
        return parent_of(operation.path)
    return operation.path


def error_of(code: int, path: str) -> StoreError:
    """Return the store's error for a code of ZooKeeper."""
    known = _ERRORS.get(code)
    if known is not None:
        return known(path)
    name = EXCEPTIONS[code].__name__ if code in EXCEPTIONS else f"error {code}"
    return StoreRefusedError(path, f"ZooKeeper refuses an operation on {path}: {name}")


def stat_of(stat: Any) -> NodeStat:
    """Return the store's part of a node's stat."""
    return NodeStat(stat.czxid, stat.mzxid, stat.version, stat.ctime, session_number(stat.ephemeralOwner))


def session_number(session_id: int) -> int:
    """Return a session id as a positive number; ZooKeeper's are signed."""
    return session_id & _UNSIGNED


def results_if_done(
    operations: Sequence[Operation], nodes: Mapping[str, Node | None], seen_zxid: int, session_id: int
) -> list[Result] | None:
    """Tell whether a multi without an answer was done: return its results, else None, and it can be sent again.

    ``nodes`` are all that it names, as they are now; ``seen_zxid`` is the last one that was known when it was sent. A
    multi was done if each node shows it: the nodes that it created or wrote exist, newer than that and with its data,
    and the nodes that it deleted do not. Sequential nodes and mere checks show nothing, and neither does a node that
    was changed again since: then the multi counts as not done.
    """
    data, writes = _last_data(operations), _write_counts(operations)
    results: list[Result] = []
    is_shown = False
    for operation in operations:
        node = nodes.get(operation.path)
        match operation:
            case Check():
                results.append(None)
                continue
            case Delete():
                done = node is None
                results.append(None)
            case Create():
                done = (
                    node is not None
                    and not operation.sequential
                    and node.stat.czxid > seen_zxid
                    and (node.data or b"") == data[operation.path]
                    and node.stat.owner == (session_id if operation.ephemeral else 0)
                )
                results.append(operation.path)
            case SetData():
                done = (
                    node is not None
                    and node.stat.mzxid > seen_zxid
                    and (node.data or b"") == data[operation.path]
                    and operation.version in (ANY_VERSION, node.stat.version - writes[operation.path])
                )
                results.append(None if node is None else node.stat)
        if not done:
            return None
        is_shown = True
    return results if is_shown else None


def _last_data(operations: Sequence[Operation]) -> dict[str, bytes]:
    return {each.path: each.data or b"" for each in operations if isinstance(each, Create | SetData)}


def _write_counts(operations: Sequence[Operation]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for each in operations:
        if isinstance(each, SetData):
            counts[each.path] = counts.get(each.path, 0) + 1
    return counts
