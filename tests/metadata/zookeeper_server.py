"""A ZooKeeper server of one process for tests: the part of the protocol that ``ZooKeeperStore`` uses, over the embedded
tree.

It is no reference: ``compat_tests/cluster`` runs the same tests on a real server.
"""

import asyncio
import ssl
import struct
from collections.abc import Iterable
from copy import deepcopy
from typing import Any, Self

from kazoo.protocol import serialization
from kazoo.protocol.serialization import int_struct, long_struct, read_acl, read_buffer, read_string, stat_struct

from kafkapy.clock import SystemClock
from kafkapy.metadata.store import (
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
    SetData,
    StoreError,
    WatchEvent,
)
from kafkapy.metadata.tree import Tree, TreeNode, Watches
from kafkapy.security.certificates import Authority, Certificate
from kafkapy.security.settings import ZooKeeperSecurity
from kafkapy.security.tls import client_context, server_context
from tests.metadata import digest_server

CODES: dict[type[StoreError], int] = {
    NoNodeError: -101,
    BadVersionError: -103,
    NoChildrenForEphemeralsError: -108,
    NodeExistsError: -110,
    NotEmptyError: -111,
}
EVENTS = {EventKind.CREATED: 1, EventKind.DELETED: 2, EventKind.CHANGED: 3, EventKind.CHILDREN: 4}
BAD_PASSWORD = -115
SASL_REQUIRED = -124


class Session:
    """A client, with or without a connection."""

    def __init__(self, number: int, password: bytes) -> None:
        self.number = number
        self.password = password
        self.watches = Watches()
        self.connection: Connection | None = None

    def tell(self, event: WatchEvent) -> None:
        if self.connection is not None:
            path = event.path.encode()
            body = struct.pack(">iii", EVENTS[event.kind], 3, len(path)) + path
            self.connection.reply(-1, -1, 0, body)


class ZooKeeperServer:
    """Use it as ``async with``; ``credential`` is the one that it accepts, also as user and password of SASL."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.tls = tls
        self.requires_sasl = False
        self.proves_password = True
        self.tree = Tree()
        self.port = 0
        self.sessions: dict[int, Session] = {}
        self.connections: set[Connection] = set()
        self.children_zxids: dict[str, int] = {}
        self.credential = "kafka:secret"
        self.pings = 0
        self.identities_to_ignore = 0
        """How often a connection that presents an identity is closed instead of an answer."""
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Connection(self), "127.0.0.1", 0, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for connection in tuple(self.connections):
            connection.close()

    def open_session(self) -> Session:
        self.tree.zxid += 1
        session = self.sessions[self.tree.zxid] = Session(self.tree.zxid, b"%016d" % self.tree.zxid)
        return session

    def end_session(self, number: int) -> None:
        session = self.sessions.pop(number)
        self.apply([Delete(path) for path in self.tree.owned_by(number)], number)
        if session.connection is not None:
            session.connection.close()

    def apply(self, operations: Iterable[Operation], session: int) -> list[Any]:
        applied = self.tree.apply(operations, SystemClock().now_ms(), session)
        for event in applied.events:
            if event.kind is EventKind.CHILDREN:
                self.children_zxids[event.path] = self.tree.zxid
        for each in tuple(self.sessions.values()):
            each.watches.fire(applied.events)
        return applied.results

    def failing(self, operations: list[Operation]) -> int:
        """The index of the operation that a multi fails on."""
        for index in range(len(operations)):
            try:
                deepcopy(self.tree).apply(operations[: index + 1], 0, 1)
            except StoreError:
                return index
        raise AssertionError("it does not fail")

    def stat(self, path: str, stat: NodeStat) -> bytes:
        czxid, mzxid, version, created_ms, owner = stat
        children = self.children_zxids.get(path, czxid)
        return stat_struct.pack(czxid, mzxid, created_ms, created_ms, version, 0, 0, owner, 0, 0, children)


class Connection(asyncio.Protocol):
    """One connection of a client."""

    def __init__(self, server: ZooKeeperServer) -> None:
        self._server = server
        self._session: Session | None = None
        self._transport: asyncio.Transport | None = None
        self._has_login = False
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._server.connections.add(self)

    def connection_lost(self, _error: Exception | None) -> None:
        self._server.connections.discard(self)
        if self._session is not None and self._session.connection is self:
            self._session.connection = None
            self._session.watches.clear()

    def close(self) -> None:
        assert self._transport is not None
        self._transport.close()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= 4:
            (size,) = int_struct.unpack_from(self._buffer)
            if len(self._buffer) < 4 + size:
                return
            payload, self._buffer = self._buffer[4 : 4 + size], self._buffer[4 + size :]
            if self._session is None:
                self._greet(payload)
            else:
                self._serve(self._session, payload)

    def send(self, payload: bytes) -> None:
        assert self._transport is not None
        self._transport.write(int_struct.pack(len(payload)) + payload)

    def reply(self, xid: int, zxid: int, error: int, body: bytes = b"") -> None:
        self.send(struct.pack(">iqi", xid, zxid, error) + body)

    def _greet(self, payload: bytes) -> None:
        _, _, timeout_ms, number = serialization.int_long_int_long_struct.unpack_from(payload)
        password, _ = read_buffer(payload, serialization.int_long_int_long_struct.size)
        session = self._server.open_session() if number == 0 else self._server.sessions.get(number)
        if session is None or (number and session.password != password):
            self.send(struct.pack(">iiqi", 0, 0, 0, 16) + bytes(17))
            self.close()
            return
        if session.connection is not None:
            session.connection.close()
            session.watches.clear()
        session.connection, self._session = self, session
        self.send(struct.pack(">iiqi", 0, timeout_ms, session.number, 16) + session.password + b"\0")

    def _serve(self, session: Session, payload: bytes) -> None:
        server = self._server
        xid, kind = serialization.int_int_struct.unpack_from(payload)
        if session.number not in server.sessions:
            self.close()
            return
        if kind == 11:
            server.pings += 1
            self.reply(xid, server.tree.zxid, 0)
        elif kind == -11:
            server.end_session(session.number)
            self.reply(xid, server.tree.zxid, 0)
            self.close()
        elif kind == 100:
            if server.identities_to_ignore:
                server.identities_to_ignore -= 1
                self.close()
                return
            credential = read_string(payload, read_string(payload, 12)[1])[0]
            self.reply(xid, 0, 0 if credential == server.credential else BAD_PASSWORD)
        elif kind == 102:
            self._authenticate(xid, read_buffer(payload, 8)[0] or b"")
        elif server.requires_sasl and not self._has_login:
            self.reply(xid, 0, SASL_REQUIRED)
            self.close()
        elif kind == 14:
            self._do(session, xid, payload[8:])
        elif kind == 101:
            self._watch_again(session, payload[8:])
            self.reply(xid, server.tree.zxid, 0)
        else:
            self._read(session, xid, kind, payload)

    def _authenticate(self, xid: int, token: bytes) -> None:
        user, _, password = self._server.credential.partition(":")
        answer = digest_server.answer(token, user, password)
        if token and not self._server.proves_password:
            answer = b"rspauth=00"
        self._has_login = bool(token) and answer is not None
        refusal = SASL_REQUIRED if self._server.requires_sasl else BAD_PASSWORD  # as ZooKeeper 3.5.9
        self.reply(xid, 0, refusal if answer is None else 0, serialization.write_buffer(answer or b""))
        if answer is None:
            self.close()

    def _read(self, session: Session, xid: int, kind: int, payload: bytes) -> None:
        server = self._server
        path, offset = read_string(payload, 8)
        node, watches = server.tree.nodes.get(path), payload[offset] == 1
        if watches and (node is not None or kind == 3):
            (session.watches.add_children if kind == 8 else session.watches.add_data)(path, session.tell)
        if node is None:
            self.reply(xid, server.tree.zxid, -101)
            return
        self.reply(xid, server.tree.zxid, 0, self._found(kind, path, node))

    def _found(self, kind: int, path: str, node: TreeNode) -> bytes:
        stat = self._server.stat(path, node.stat)
        if kind == 3:
            return stat
        if kind == 4:
            data: bytes = serialization.write_buffer(node.data)
            return data + stat
        names = [name.encode() for name in node.children or ()]
        return int_struct.pack(len(names)) + b"".join(int_struct.pack(len(name)) + name for name in names)

    def _do(self, session: Session, xid: int, payload: bytes) -> None:
        server = self._server
        operations = list(_operations(payload))
        kinds = {Create: 1, Delete: 2, SetData: 5, Check: 13}
        parts = []
        try:
            results = server.apply(operations, session.number)
        except StoreError as error:
            failed = server.failing(operations)
            for index in range(len(operations)):
                code = CODES[type(error)] if index == failed else 0 if index < failed else -2
                parts.append(struct.pack(">iBi", -1, 0, code) + int_struct.pack(code))
        else:
            for operation, result in zip(operations, results, strict=True):
                parts.append(struct.pack(">iBi", kinds[type(operation)], 0, 0))
                if isinstance(result, str):
                    parts.append(int_struct.pack(len(result)) + result.encode())
                elif isinstance(result, NodeStat):
                    parts.append(server.stat(operation.path, result))
        self.reply(xid, server.tree.zxid, 0, b"".join(parts) + struct.pack(">iBi", -1, 1, -1))

    def _watch_again(self, session: Session, payload: bytes) -> None:
        (seen,) = long_struct.unpack_from(payload)
        offset = long_struct.size
        nodes, zxids = self._server.tree.nodes, self._server.children_zxids
        for kind in ("data", "absent", "children"):
            (count,) = int_struct.unpack_from(payload, offset)
            offset += 4
            for _ in range(count):
                path, offset = read_string(payload, offset)
                node = nodes.get(path)
                if kind == "absent" and node is not None:
                    session.tell(WatchEvent(EventKind.CREATED, path))
                elif kind != "absent" and node is None:
                    session.tell(WatchEvent(EventKind.DELETED, path))
                elif kind == "data" and node is not None and node.mzxid > seen:
                    session.tell(WatchEvent(EventKind.CHANGED, path))
                elif kind == "children" and node is not None and zxids.get(path, node.czxid) > seen:
                    session.tell(WatchEvent(EventKind.CHILDREN, path))
                else:
                    add = session.watches.add_children if kind == "children" else session.watches.add_data
                    add(path, session.tell)


def _operations(payload: bytes) -> Iterable[Operation]:
    offset = 0
    while True:
        kind, is_done, _ = serialization.multiheader_struct.unpack_from(payload, offset)
        offset += serialization.multiheader_struct.size
        if is_done:
            return
        path, offset = read_string(payload, offset)
        if kind in (1, 5):
            data, offset = read_buffer(payload, offset)
        if kind == 1:
            (count,) = int_struct.unpack_from(payload, offset)
            offset += 4
            for _ in range(count):
                _, offset = read_acl(payload, offset)
        (number,) = int_struct.unpack_from(payload, offset)
        offset += 4
        if kind == 1:
            yield Create(path, data, bool(number & 1), bool(number & 2))
        elif kind == 5:
            yield SetData(path, data, number)
        else:
            yield (Delete if kind == 2 else Check)(path, number)


def server_tls(authority: Authority, *hosts: str) -> ssl.SSLContext:
    """The context of a server that wants certificates of clients."""
    stores = _stores(authority.issue("zookeeper", hosts), authority)
    return server_context({**stores, "ssl.client.auth": "required"}, 0)


def client_tls(authority: Authority, client: Authority) -> ZooKeeperSecurity:
    """The security of a client that trusts one authority, and has a certificate of another."""
    return ZooKeeperSecurity(tls=client_context(_stores(client.issue("broker"), authority), 0))


def _stores(own: Certificate, trusted: Authority) -> dict[str, str]:
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": own.key,
        "ssl.keystore.certificate.chain": own.certificate,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": trusted.certificate,
    }
