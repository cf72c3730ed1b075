"""``ZooKeeperStore`` on a stand-in for the server; ``compat_tests/cluster`` runs the same on a real ZooKeeper."""

import asyncio
import random
import re
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from harness.cases.store_contract import OpenSession, SessionEvents, StoreContract
from harness.cases.zookeeper_connections import HOST, SETTINGS, ConnectionContract, Proxy, Server, new_store
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.errors import InvalidConfigError
from kafkapy.metadata.store import (
    Check,
    Create,
    Delete,
    MetadataStore,
    Node,
    NodeStat,
    Operation,
    Result,
    SetData,
    StoreClosedError,
    StoreRefusedError,
    StoreUnreachableError,
)
from kafkapy.metadata.zookeeper import ZooKeeperStore, open_zookeeper
from kafkapy.metadata.zookeeper_address import ZooKeeperAddress
from kafkapy.metadata.zookeeper_heartbeat import LONGEST_STEP_S
from kafkapy.metadata.zookeeper_operations import access_list, results_if_done
from kafkapy.security.certificates import Authority
from kafkapy.security.settings import ZooKeeperSecurity
from kafkapy.security.zookeeper import DigestLogin
from kafkapy.testing.clock import ManualClock
from tests.metadata.zookeeper_server import ZooKeeperServer, client_tls, server_tls
from tests.server.harness import until


class StandIn:
    """A server in this process."""

    def __init__(self, server: ZooKeeperServer) -> None:
        self.port = server.port
        self.chroot = ""
        self.server = server

    async def expire(self, store: ZooKeeperStore) -> None:
        self.server.end_session(store.session_id)


@asynccontextmanager
async def _stand_in() -> AsyncIterator[Server]:
    async with ZooKeeperServer() as server:
        yield StandIn(server)


class TestLaws(StoreContract):
    TURNS = (*range(0, 60, 7), 200, 500)

    @asynccontextmanager
    async def tree(self) -> AsyncIterator[OpenSession]:
        async with ZooKeeperServer() as self.server:
            stores: list[ZooKeeperStore] = []

            async def session() -> MetadataStore:
                store = new_store(self.server.port, "")
                await store.open()
                stores.append(store)
                return store

            yield session
            for store in stores:
                await store.close()

    async def expire(self, store: MetadataStore) -> None:
        self.server.end_session(store.session_id)


class TestConnections(ConnectionContract):
    def server(self) -> AbstractAsyncContextManager[Server]:
        return _stand_in()


def _store(clock: ManualClock, *ports: int, session_timeout_ms: int = 6_000) -> ZooKeeperStore:
    settings = SETTINGS._replace(session_timeout_ms=session_timeout_ms, connection_timeout_ms=20_000)
    address = ZooKeeperAddress(",".join(f"{HOST}:{port}" for port in ports), "")
    return ZooKeeperStore(address, clock, random.Random(1), settings)


class StuckClock(ManualClock):
    __slots__ = ()

    def stand_still(self, duration_ms: float) -> None:
        """Let the time pass without timers, as in a long step of the event loop."""
        self._elapsed_ms += duration_ms


async def _advanced(clock: ManualClock, task: "asyncio.Future[None]") -> None:
    """Let the time pass until the task is done."""
    while not task.done():
        clock.advance(100)
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("greeting", "reason"),
    [
        (b"HTTP/1.1 400 Bad Request", r"127\.0\.0\.1:\d+: it sent what is no response of a ZooKeeper"),
        (b"", r"127\.0\.0\.1:\d+: no answer within 6000 ms"),
        (None, r"127\.0\.0\.1:\d+: the (server closed the connection|connection broke)"),
    ],
)
def test_a_server_that_is_no_zookeeper_is_told(greeting: bytes | None, reason: str) -> None:
    async def main() -> None:
        writers = []

        async def talk(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writers.append(writer)
            if greeting is None:
                writer.close()
            else:
                writer.write(greeting)

        server = await asyncio.start_server(talk, HOST, 0)
        clock = ManualClock()
        store = _store(clock, server.sockets[0].getsockname()[1])
        opening = asyncio.ensure_future(store.open())
        await until(lambda: bool(writers))
        await _advanced(clock, opening)
        with pytest.raises(StoreUnreachableError, match=f"no ZooKeeper answers at .* within 20000 ms .{reason}"):
            opening.result()
        with pytest.raises(StoreClosedError):
            await store.get("/")
        await store.close()
        for writer in writers:
            writer.close()
        server.close()

    asyncio.run(main())


def test_another_server_is_tried() -> None:
    async def main() -> None:
        async with ZooKeeperServer() as server:
            clock = ManualClock()
            store = _store(clock, 1, server.port, 2)
            opening = asyncio.ensure_future(store.open())
            await _advanced(clock, opening)
            assert await store.create("/n") == "/n"
            await store.close()

    asyncio.run(main())


def test_a_quiet_session_is_kept_alive() -> None:
    async def main() -> None:
        async with ZooKeeperServer() as server:
            clock = ManualClock()
            store = _store(clock, server.port)
            await store.open()
            for pings in range(1, 4):
                clock.advance(1_000)
                clock.advance(1_000)
                await until(lambda: server.pings >= pings)  # noqa: B023
            await store.close()
            assert server.sessions == {}

    asyncio.run(main())


def test_a_session_is_kept_alive_while_the_event_loop_is_in_a_long_step() -> None:
    async def main() -> None:
        async with ZooKeeperServer() as server:
            clock = StuckClock()
            store = _store(clock, server.port)
            await store.open()
            for pings in range(1, 4):
                clock.stand_still(1_900)
                store.heartbeat.look()  # the loop is given its time
                clock.stand_still(200)
                await asyncio.to_thread(store.heartbeat.look)
                await until(lambda: server.pings >= pings)  # noqa: B023
                assert server.pings == pings
            clock.advance(0)  # the loop is back, and has heard the answers: the connection is as good as before
            assert await store.children("/") == []
            assert len(server.connections) == 1
            clock.stand_still(LONGEST_STEP_S * 1000 + 1)
            store.heartbeat.look()  # it counts as dead
            assert await store.children("/") == []
            assert server.pings == 3
            await store.close()
            clock.stand_still(2_100)
            store.heartbeat.look()

    asyncio.run(main())


def test_a_silent_server_is_left_for_another_one(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with ZooKeeperServer() as server, Proxy(server.port) as proxy:
            clock = ManualClock()
            store = _store(clock, proxy.port)
            await store.open()
            events = SessionEvents(store)
            proxy.swallows_replies = True
            reading = asyncio.ensure_future(store.children("/"))
            await asyncio.sleep(0)
            for _ in range(4):
                clock.advance(1_000)
            await until(lambda: "nothing was heard of it for 4.0 s" in caplog.text)
            proxy.swallows_replies = False
            await _advanced(clock, asyncio.ensure_future(asyncio.wait([reading])))  # type: ignore[arg-type]
            assert reading.result() == []
            assert events.seen == []
            await store.close()

    asyncio.run(main())


@pytest.mark.parametrize("password", ["secret", "wrong"])
def test_identities_are_confirmed_before_anything_is_sent(password: str) -> None:
    async def main() -> None:
        async with ZooKeeperServer() as server:
            clock = ManualClock()
            security = ZooKeeperSecurity(credentials=[("digest", f"kafka:{password}")], protects_nodes=True)
            settings = SETTINGS._replace(security=security)
            address = ZooKeeperAddress(f"{HOST}:{server.port}", "")
            store = ZooKeeperStore(address, clock, random.Random(1), settings)
            opening = asyncio.ensure_future(store.open())
            if password == "secret":
                await opening
                await store.create("/n")
                await store.close()
                return
            await until(lambda: bool(server.sessions))
            await _advanced(clock, opening)
            with pytest.raises(StoreRefusedError, match="refuses this broker: it does not accept the credentials"):
                opening.result()

    asyncio.run(main())


def test_a_session_begins_when_its_identities_are_confirmed_on_a_later_connection() -> None:
    async def main() -> None:
        async with ZooKeeperServer() as server:
            server.identities_to_ignore = 2
            security = ZooKeeperSecurity(credentials=[("digest", "kafka:secret")])
            store = new_store(server.port, "", SETTINGS._replace(security=security))
            events = SessionEvents(store)
            await store.open()
            assert [store.session_id] == list(server.sessions)
            assert await store.create("/n") == "/n"
            assert events.seen == []
            await store.close()

    asyncio.run(main())


def _login(password: str) -> ZooKeeperSecurity:
    return ZooKeeperSecurity(login=DigestLogin("kafka", password, "section Client of broker.jaas"))


def test_each_connection_authenticates_by_sasl() -> None:
    async def main() -> None:
        async with ZooKeeperServer() as server:
            server.requires_sasl = True
            security = _login("secret")._replace(credentials=[("digest", "kafka:secret")])
            store = new_store(server.port, "", SETTINGS._replace(security=security))
            events = SessionEvents(store)
            await store.open()
            await store.create("/n")
            for connection in tuple(server.connections):
                connection.close()
            await store.set("/n", b"again")
            assert (await store.get("/n")).data == b"again"
            assert events.seen == []
            await store.close()

    asyncio.run(main())


def test_a_wrong_password_ends_the_start_at_once() -> None:
    async def main() -> None:
        async with ZooKeeperServer() as server:
            store = new_store(server.port, "", SETTINGS._replace(security=_login("wrong-secret")))
            with pytest.raises(StoreRefusedError) as refused:
                await store.open()
            assert str(refused.value).endswith(
                " refuses this broker: it does not accept the user and password of section Client of broker.jaas"
            )

    asyncio.run(main())


def test_a_server_that_does_not_know_the_password_is_refused() -> None:
    async def main() -> None:
        async with ZooKeeperServer() as server:
            server.proves_password = False
            store = new_store(server.port, "", SETTINGS._replace(security=_login("secret")))
            with pytest.raises(StoreRefusedError, match="refuses this broker: it does not authenticate by DIGEST-MD5"):
                await store.open()

    asyncio.run(main())


def test_requests_fail_if_the_server_requires_sasl() -> None:
    async def main() -> None:
        async with ZooKeeperServer() as server:
            server.requires_sasl = True
            store = new_store(server.port, "")
            await store.open()
            requests = [store.create("/n"), store.children("/"), store.create("/m")]
            for failed in await asyncio.gather(*requests, return_exceptions=True):
                assert isinstance(failed, StoreRefusedError)
                assert "name in KAFKA_OPTS a JAAS file with the section Client" in str(failed)
            await store.close()

    asyncio.run(main())


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority("authority", time.time_ns() // 1_000_000)


def test_a_session_over_tls_is_kept_alive_while_the_event_loop_is_in_a_long_step(authority: Authority) -> None:
    async def main() -> None:
        async with ZooKeeperServer(server_tls(authority, HOST)) as server:
            clock = StuckClock()
            settings = SETTINGS._replace(security=client_tls(authority, authority), session_timeout_ms=6_000)
            store = ZooKeeperStore(ZooKeeperAddress(f"{HOST}:{server.port}", ""), clock, random.Random(1), settings)
            await store.open()
            for pings in range(1, 4):
                clock.stand_still(2_100)
                await asyncio.to_thread(store.heartbeat.look)
                await until(lambda: server.pings >= pings)  # noqa: B023
            large = bytes(300_000)  # many records of TLS
            await store.create("/n", large)
            assert (await store.get("/n")).data == large
            assert len(server.connections) == 1
            for connection in tuple(server.connections):
                connection.close()
            await until(lambda: not server.connections)
            reading = asyncio.ensure_future(store.exists("/n"))
            await _advanced(clock, asyncio.ensure_future(asyncio.wait([reading])))  # type: ignore[arg-type]
            assert reading.result() is not None
            assert server.pings == 3
            await store.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("trusted", "trusting", "host", "reason"),
    [
        (False, True, HOST, "TLS failed: (unable to get local issuer|self.signed) certificate"),
        (True, False, HOST, "TLS failed|the connection broke|the server closed the connection"),
        (True, True, "elsewhere", "TLS failed: IP address mismatch"),
    ],
)
def test_why_tls_fails_is_told(
    authority: Authority, caplog: pytest.LogCaptureFixture, trusted: bool, trusting: bool, host: str, reason: str
) -> None:
    other = Authority("other", time.time_ns() // 1_000_000)

    async def main() -> None:
        async with ZooKeeperServer(server_tls(authority, host)) as server:
            security = client_tls(authority if trusted else other, authority if trusting else other)
            store = new_store(server.port, "", SETTINGS._replace(security=security))
            opening = asyncio.ensure_future(store.open())
            await until(lambda: "No ZooKeeper yet" in caplog.text)
            assert re.search(f"trying again: {HOST}:{server.port}: ({reason})", caplog.text)
            opening.cancel()
            await asyncio.wait([opening])

    asyncio.run(main())


def test_a_chroot_is_created_level_by_level() -> None:
    async def main() -> None:
        async with ZooKeeperServer() as server:
            first, second = new_store(server.port, "/a/b"), new_store(server.port, "/a/b")
            await first.open()
            await second.open()
            await first.create("/n", b"1")
            assert (await second.get("/n")).data == b"1"
            assert list(server.tree.nodes) == ["/", "/a", "/a/b", "/a/b/n"]
            await first.close()
            await second.close()

    asyncio.run(main())


def test_a_configuration_says_where_and_how_long() -> None:
    async def main() -> None:
        async with ZooKeeperServer() as server:
            properties = {"zookeeper.connect": f"{HOST}:{server.port}/kafka", "zookeeper.session.timeout.ms": "7000"}
            store = await open_zookeeper(BrokerConfig.from_properties(properties), ManualClock())
            assert store.session_timeout_ms == 7_000
            await store.close()
        with pytest.raises(InvalidConfigError, match="no address of a ZooKeeper"):
            await open_zookeeper(BrokerConfig.from_properties({"zookeeper.connect": "here"}), ManualClock())

    asyncio.run(main())


def _node(data: bytes | None, czxid: int, mzxid: int, version: int = 0, owner: int = 0) -> Node:
    return Node(data, NodeStat(czxid, mzxid, version, 0, owner))


NEW = _node(b"x", 9, 9)


@pytest.mark.parametrize(
    ("operations", "nodes", "expected"),
    [
        ([Create("/n", b"x")], {"/n": NEW}, ["/n"]),
        ([Create("/n", b"x")], {"/n": None}, None),
        ([Create("/n", b"x")], {"/n": _node(b"x", 5, 9)}, None),
        ([Create("/n", b"y")], {"/n": NEW}, None),
        ([Create("/n")], {"/n": _node(b"", 9, 9)}, ["/n"]),
        ([Create("/n", b"x", ephemeral=True)], {"/n": _node(b"x", 9, 9, owner=7)}, ["/n"]),
        ([Create("/n", b"x", ephemeral=True)], {"/n": _node(b"x", 9, 9, owner=8)}, None),
        ([Create("/n", b"x", sequential=True)], {"/n": NEW}, None),
        ([Create("/n", b""), SetData("/n", b"x")], {"/n": _node(b"x", 9, 9, 1)}, ["/n", NodeStat(9, 9, 1, 0, 0)]),
        ([SetData("/n", b"x", 3)], {"/n": _node(b"x", 1, 9, 4)}, [NodeStat(1, 9, 4, 0, 0)]),
        ([SetData("/n", b"x", 3)], {"/n": _node(b"x", 1, 9, 5)}, None),
        ([SetData("/n", b"x", 3)], {"/n": _node(b"x", 1, 5, 4)}, None),
        ([SetData("/n", b"x", 3)], {"/n": _node(b"y", 1, 9, 4)}, None),
        ([SetData("/n", b"x")], {"/n": _node(b"x", 1, 9, 4)}, [NodeStat(1, 9, 4, 0, 0)]),
        ([SetData("/n", b"x")], {"/n": None}, None),
        ([Delete("/n")], {"/n": None}, [None]),
        ([Delete("/n")], {"/n": NEW}, None),
        ([Check("/epoch", 1)], {"/epoch": NEW}, None),
        ([Check("/epoch", 1), Delete("/n")], {"/epoch": NEW, "/n": None}, [None, None]),
        ([Check("/epoch", 1), Create("/n", b"x"), Delete("/m")], {"/epoch": NEW, "/n": NEW, "/m": NEW}, None),
    ],
)
def test_whether_a_write_was_done(
    operations: Sequence[Operation], nodes: dict[str, Node | None], expected: list[Result] | None
) -> None:
    assert results_if_done(operations, nodes, seen_zxid=5, session_id=7) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/brokers/ids/1", [(31, "auth", ""), (1, "world", "anyone")]),
        ("/config/users/alice", [(31, "auth", "")]),
        ("/consumers", [(31, "world", "anyone")]),
    ],
)
def test_the_acls_of_protected_nodes(path: str, expected: list[tuple[int, str, str]]) -> None:
    assert [(each.perms, *each.id) for each in access_list(path, secure=True)] == expected
    assert [(each.perms, *each.id) for each in access_list(path, secure=False)] == [(31, "world", "anyone")]
