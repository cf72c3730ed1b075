"""AclStore: access control entries in Kafka's tree, read and written as Apache Kafka's AclAuthorizer does.

Each resource pattern has a node with all its entries: ``/kafka-acl/<kind>/<name>``, or for a prefix
``/kafka-acl-extended/prefixed/<kind>/<prefix>``. A write names the version that it has read, and is tried again with
the entries of the present version if another broker has written meanwhile. It comes with a note
(``change_notes.py``) below ``/kafka-acl-changes`` or ``/kafka-acl-extended-changes``, which names the pattern; every
broker reads the pattern again. All data is JSON of version 1, but the note about a literal pattern, which is the text
``TOPIC:name``. Nodes have Kafka's names (``ClusterAction``), notes those of the enumerations (``TRANSACTIONAL_ID``).

The entries must fit into one node of the store. A ZooKeeper takes about 1 MB, which is some 10,000 entries.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final, TypeVar

from kafkapy.clock import Clock
from kafkapy.errors import BrokerError
from kafkapy.metadata.change_notes import MOST_TRIES, ChangeNotes, change_with_note
from kafkapy.metadata.exchange.consumer_offsets import FORBIDDEN_IN_PATH
from kafkapy.metadata.store import (
    CLIENT_WAIT_MS,
    Create,
    Delete,
    MetadataStore,
    Node,
    Operation,
    SessionEndedError,
    SetData,
    StoreError,
    ensure_path,
    in_time,
)
from kafkapy.metadata.znodes import ForeignDataError, decode_json, decoded, encode_json, required
from kafkapy.protocol.constants import AclOperation, AclPatternType, AclPermissionType, AclResourceType
from kafkapy.security.acls import PATTERN_TYPES, RESOURCE_TYPES, AclEntry, ResourcePattern, kafka_name
from kafkapy.security.authorizer import AclAuthorizer
from kafkapy.turns import pieces

logger: Final = logging.getLogger(__name__)

NODES_AT_ONCE: Final = 100
"""Nodes that are read together."""

Entries = tuple[AclEntry, ...]
Update = Callable[[Entries], Awaitable[Sequence[AclEntry]]]
"""Returns the entries that a pattern shall have, given the present ones."""
_Enumeration = TypeVar("_Enumeration", bound=IntEnum)


class AclNotStoredError(BrokerError, ValueError):
    """The entries of a pattern can't be written: no path can have its name, or other brokers change them too often."""


def _by_name(values: Iterable[_Enumeration]) -> dict[str, _Enumeration]:
    return {kafka_name(value): value for value in values}


_NOTED_TYPES: Final = {each.name: each for each in RESOURCE_TYPES} | _by_name(RESOURCE_TYPES)
"""By their names in notes: ``TRANSACTIONAL_ID``, or ``TransactionalId`` as the first releases wrote it."""
_OPERATIONS: Final = _by_name(each for each in AclOperation if each is not AclOperation.ANY)
_PERMISSION_TYPES: Final = _by_name((AclPermissionType.DENY, AclPermissionType.ALLOW))


def _value(known: Mapping[str, _Enumeration], name: object) -> _Enumeration:
    found = known.get(str(name))
    if found is None:
        raise ValueError(f"{name!r} is none of {', '.join(known)}")
    return found


class AclZNode:
    """The node of a pattern: its entries."""

    ROOTS: Final[Mapping[int, str]] = {
        AclPatternType.LITERAL: "/kafka-acl",
        AclPatternType.PREFIXED: "/kafka-acl-extended/prefixed",
    }

    @classmethod
    def type_path(cls, pattern_type: int, resource_type: int) -> str:
        """The parent of the patterns of a type, for one kind of resources."""
        return f"{cls.ROOTS[pattern_type]}/{kafka_name(AclResourceType(resource_type))}"

    @classmethod
    def path(cls, pattern: ResourcePattern) -> str:
        """The path of a pattern's entries; raises AclNotStoredError for a name that no path can have in it."""
        path = f"{cls.type_path(pattern.pattern_type, pattern.resource_type)}/{pattern.name}"
        if "/" in pattern.name or FORBIDDEN_IN_PATH.search(path):
            raise AclNotStoredError(f"The metadata store can't have ACLs of {pattern.name!r}")
        return path

    @staticmethod
    def encode(entries: Iterable[AclEntry]) -> bytes:
        """Version 1."""
        acls = [
            {
                "principal": entry.principal,
                "permissionType": kafka_name(AclPermissionType(entry.permission_type)),
                "operation": kafka_name(AclOperation(entry.operation)),
                "host": entry.host,
            }
            for entry in entries
        ]
        return encode_json({"version": 1, "acls": acls})

    @staticmethod
    def decode(data: bytes | None) -> Entries:
        """The entries, each once; none without data. Raises ValueError for another version or an unknown name."""
        if not data:
            return ()
        value = decode_json(data)
        if required(value, "version") != 1:
            raise ValueError(f"unknown version {value['version']!r}")
        return tuple(dict.fromkeys(_entry(acl) for acl in required(value, "acls")))


def _entry(acl: Mapping[str, Any]) -> AclEntry:
    return AclEntry(
        str(required(acl, "principal")),
        str(required(acl, "host")),
        _value(_OPERATIONS, required(acl, "operation")),
        _value(_PERMISSION_TYPES, required(acl, "permissionType")),
    )


class AclChangesZNode:
    """The notes about patterns of each type; raises ValueError where a note names no pattern."""

    CHILD: Final = "acl_changes_"
    PATHS: Final[Mapping[int, str]] = {
        AclPatternType.LITERAL: "/kafka-acl-changes",
        AclPatternType.PREFIXED: "/kafka-acl-extended-changes",
    }

    @classmethod
    def child_path(cls, pattern: ResourcePattern) -> str:
        """The path of the next note about the pattern, without the ten digits that the store adds."""
        return f"{cls.PATHS[pattern.pattern_type]}/{cls.CHILD}"

    @staticmethod
    def encode(pattern: ResourcePattern) -> bytes:
        """The text of a literal pattern, JSON of version 1 of another one.

        Apache Kafka does not find a kind by its name in other nodes, such as TransactionalId.
        """
        kind = AclResourceType(pattern.resource_type).name
        if pattern.pattern_type == AclPatternType.LITERAL:
            return f"{kind}:{pattern.name}".encode()
        name, type_name = pattern.name, AclPatternType(pattern.pattern_type).name
        return encode_json({"version": 1, "resourceType": kind, "name": name, "patternType": type_name})

    @staticmethod
    def decode_literal(data: bytes | None) -> ResourcePattern:
        """Decode a note below ``/kafka-acl-changes``."""
        kind, _, name = (data or b"").decode().partition(":")
        return ResourcePattern(_value(_NOTED_TYPES, kind), name, AclPatternType.LITERAL)

    @staticmethod
    def decode_extended(data: bytes | None) -> ResourcePattern:
        """Decode a note below ``/kafka-acl-extended-changes``."""
        value = decode_json(data)
        pattern_type = _value({each.name: each for each in PATTERN_TYPES}, required(value, "patternType"))
        kind = _value(_NOTED_TYPES, required(value, "resourceType"))
        return ResourcePattern(kind, str(required(value, "name")), pattern_type)


PERSISTENT_PATHS: Final = (
    *(AclZNode.type_path(pattern_type, kind) for pattern_type in PATTERN_TYPES for kind in RESOURCE_TYPES),
    *AclChangesZNode.PATHS.values(),
)
"""The nodes that a broker with an authorizer creates at its start if they are missing."""


class AclStore:
    """Keeps ``authorizer`` like the entries in the store, and changes the entries for clients."""

    def __init__(self, clock: Clock, store: MetadataStore, authorizer: AclAuthorizer) -> None:
        self.authorizer: Final = authorizer
        self._clock = clock
        self._store = store
        self._one_at_a_time = asyncio.Lock()
        """Orders reads and writes of patterns, so that no older entries replace newer ones."""
        self._loading: asyncio.Task[None] | None = None
        decoders = zip(
            AclChangesZNode.PATHS.values(),
            (AclChangesZNode.decode_literal, AclChangesZNode.decode_extended),
            strict=True,
        )
        self._notes = [self._notes_at(path, decode) for path, decode in decoders]

    def _notes_at(self, path: str, decode: Callable[[bytes | None], ResourcePattern]) -> ChangeNotes:
        async def apply(data: bytes | None) -> None:
            await self._read([decode(data)])

        return ChangeNotes(self._clock, self._store, (path, AclChangesZNode.CHILD), apply, "Changes of ACLs")

    async def start(self) -> None:
        """Read all entries, and their changes from now on.

        Raises ForeignDataError for entries that can't be read: one of them may deny something.
        """
        for path in PERSISTENT_PATHS:
            await ensure_path(self._store, path)
        for notes in self._notes:  # first: a change is read twice rather than missed
            await notes.start()
        await self._load()

    async def stop(self) -> None:
        """Read no more changes."""
        if self._loading is not None:
            self._loading.cancel()
        for notes in self._notes:
            await notes.stop()

    def session_renewed(self) -> None:
        """Read everything again: notes may have been deleted while there was no session."""
        if self._loading is not None:
            self._loading.cancel()
        self._loading = asyncio.create_task(self._load_again(), name="load-acls")
        for notes in self._notes:
            notes.read()

    async def change(self, pattern: ResourcePattern, update: Update) -> None:
        """Replace a pattern's entries by the result of ``update`` for those in the store; they hold when this returns.

        ``update`` may be called several times. Raises RequestTimedOutError if the store does not answer,
        AclNotStoredError, and other errors of the store.
        """
        await in_time(self._store, self._clock, CLIENT_WAIT_MS, self._change(pattern, update))

    async def _change(self, pattern: ResourcePattern, update: Update) -> None:
        path, note = AclZNode.path(pattern), AclChangesZNode.child_path(pattern)

        async def decide(node: Node | None) -> tuple[Operation | None, Entries]:
            before = _entries_of(path, node)
            after = tuple(dict.fromkeys(await update(before)))
            if set(after) == set(before):
                return None, after
            if node is None:
                return Create(path, AclZNode.encode(after)), after
            version = node.stat.version
            return SetData(path, AclZNode.encode(after), version) if after else Delete(path, version), after

        announced = Create(note, AclChangesZNode.encode(pattern), sequential=True)
        too_often = AclNotStoredError(f"Other brokers changed the ACLs of {pattern.name!r} each of {MOST_TRIES} times")
        async with self._one_at_a_time:
            after = await change_with_note(self._clock, self._store, path, announced, decide, too_often)
            self.authorizer.replace(pattern, after)

    async def _read(self, patterns: Sequence[ResourcePattern]) -> None:
        """Read patterns, and let their entries hold."""
        paths = [AclZNode.path(pattern) for pattern in patterns]
        async with self._one_at_a_time:
            nodes = await self._store.get_many(paths)
            for pattern, path, node in zip(patterns, paths, nodes, strict=True):
                self.authorizer.replace(pattern, _entries_of(path, node))

    async def _load(self) -> None:
        present: set[ResourcePattern] = set()
        for pattern_type in PATTERN_TYPES:
            for kind in RESOURCE_TYPES:
                names = await self._store.children(AclZNode.type_path(pattern_type, kind))
                patterns = [ResourcePattern(kind, name, pattern_type) for name in names]
                for some in pieces(patterns, NODES_AT_ONCE):
                    await self._read(some)
                present.update(patterns)
        await self._read([pattern for pattern in self.authorizer.patterns() if pattern not in present])

    async def _load_again(self) -> None:
        try:
            await self._load()
        except SessionEndedError:
            logger.debug("ACLs are not read: the session has ended")
        except (StoreError, ForeignDataError) as error:
            logger.error("ACLs could not be read: %s", error)


def _entries_of(path: str, node: Node | None) -> Entries:
    return () if node is None else decoded(path, node.data, AclZNode.decode)
