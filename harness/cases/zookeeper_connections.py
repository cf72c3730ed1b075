"""The behaviour of ``ZooKeeperStore`` on connections that break, as tests for any server: a proxy cuts and swallows."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Protocol, Self

import pytest

from harness.cases.store_contract import Seen, SessionEvents
from kafkapy.clock import SystemClock
from kafkapy.metadata.store import (
    BadVersionError,
    Check,
    Create,
    Delete,
    EventKind,
    Operation,
    SessionEvent,
    SessionExpiredError,
    SetData,
    StoreClosedError,
    StoreRefusedError,
    WatchEvent,
)
from kafkapy.metadata.zookeeper import ZooKeeperStore
from kafkapy.metadata.zookeeper_address import ZooKeeperAddress
from kafkapy.metadata.zookeeper_session import ZooKeeperSettings

HOST = "127.0.0.1"
SETTINGS = ZooKeeperSettings(session_timeout_ms=4_000, connection_timeout_ms=20_000)


def new_store(port: int, chroot: str, settings: ZooKeeperSettings = SETTINGS) -> ZooKeeperStore:
    """A store that is not open yet."""
    address = ZooKeeperAddress.parse(f"{HOST}:{port}{chroot}")
    return ZooKeeperStore(address, SystemClock(), random.Random(1), settings)


class Server(Protocol):
    """A ZooKeeper, with an empty tree below ``chroot``."""

    port: int
    chroot: str

    async def expire(self, store: ZooKeeperStore) -> None:
        """End the store's session without its doing."""
        ...


class Proxy:
    """Passes bytes to a ZooKeeper and back."""

    def __init__(self, target: int) -> None:
        self.port = 0
        self.refuses = self.swallows_requests = self.swallows_replies = False
        self.refused, self.swallowed = asyncio.Event(), asyncio.Event()
        self._target = target
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, HOST, 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()

    def cut(self) -> None:
        """Ends all connections."""
        for writer in tuple(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refuses:
            self.refused.set()
            writer.close()
            return
        there, back = await asyncio.open_connection(HOST, self._target)
        self._writers |= {writer, back}
        try:
            await asyncio.wait(
                [
                    asyncio.create_task(self._pass(reader, back, lambda: self.swallows_requests)),
                    asyncio.create_task(self._pass(there, writer, lambda: self.swallows_replies)),
                ],
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            for each in (writer, back):
                each.close()
                self._writers.discard(each)

    async def _pass(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, swallows: Callable[[], bool]
    ) -> None:
        with suppress(OSError):
            while data := await source.read(65536):
                if swallows():
                    self.swallowed.set()
                else:
                    target.write(data)


class Scene:
    """A store behind a proxy, and another one that reaches the ZooKeeper directly."""

    def __init__(self, server: Server, proxy: Proxy, store: ZooKeeperStore, other: ZooKeeperStore) -> None:
        self.server = server
        self.proxy = proxy
        self.store = store
        self.other = other

    async def expire(self) -> None:
        await self.server.expire(self.store)

    async def until(self, path: str, data: bytes) -> None:
        """Return when the other store sees these data."""
        seen = Seen()
        while (await self.other.get(path, seen)).data != data:
            await seen.wait()


Scenario = Callable[[Scene], Awaitable[None]]


@asynccontextmanager
async def scene(server: Server) -> AsyncIterator[Scene]:
    async with Proxy(server.port) as proxy:
        store, other = new_store(proxy.port, server.chroot), new_store(server.port, server.chroot)
        await store.open()
        await other.open()
        try:
            yield Scene(server, proxy, store, other)
        finally:
            await store.close()
            await other.close()


class ConnectionContract:
    """Inherit and implement ``server``."""

    def server(self) -> AbstractAsyncContextManager[Server]:
        raise NotImplementedError

    def run(self, scenario: Scenario) -> None:
        async def main() -> None:
            async with self.server() as server, scene(server) as made:
                await scenario(made)

        asyncio.run(main())

    def test_the_session_goes_on_and_no_change_is_missed(self) -> None:
        async def scenario(its: Scene) -> None:
            store, other, seen, quiet = its.store, its.other, Seen(), Seen()
            events = SessionEvents(store)
            await store.multi([Create(path, b"0") for path in ("/data", "/gone", "/list", "/same")])
            await store.create("/mine", b"", ephemeral=True)
            for path in ("/data", "/gone"):
                await store.get(path, seen)
            await store.exists("/later", seen)
            await store.children("/list", seen)
            await store.get("/same", quiet)
            await store.exists("/absent", quiet)
            await store.children("/same", quiet)
            its.proxy.refuses = True
            its.proxy.cut()
            await other.multi([SetData("/data", b"1"), Delete("/gone"), Create("/later"), Create("/list/child")])
            reading = asyncio.ensure_future(store.get("/data"))
            await its.proxy.refused.wait()
            assert not reading.done()
            assert seen.events == []
            its.proxy.refuses = False
            assert (await reading).data == b"1"
            assert sorted((event.path, event.kind.value) for event in seen.events) == [
                ("/data", "changed"),
                ("/gone", "deleted"),
                ("/later", "created"),
                ("/list", "children"),
            ]
            assert quiet.events == []
            await other.multi([SetData("/same", b"1"), Create("/absent"), Create("/same/child")])
            assert len(await quiet.wait(3)) == 3
            assert await other.exists("/mine") is not None
            assert events.seen == []
            assert len(seen.events) == 4

        self.run(scenario)

    def test_many_watches_are_set_again(self) -> None:
        async def scenario(its: Scene) -> None:
            paths = [f"/a-topic-with-a-long-name-{'x' * 150}-{number}" for number in range(2_000)]
            await its.other.transactions([Create(path)] for path in paths)
            seen = Seen()
            nodes = await its.store.get_many(paths, seen)
            assert all(node is not None for node in nodes)
            its.proxy.cut()
            await its.store.exists("/")
            await its.other.transactions([SetData(path, b"1")] for path in paths)
            assert len({event.path for event in await seen.wait(len(paths))}) == len(paths)

        self.run(scenario)

    def test_a_write_whose_answer_is_lost_is_done_once(self) -> None:
        async def scenario(its: Scene) -> None:
            store = its.store
            await store.multi([Create("/n", b"0"), Create("/old"), Create("/other"), Create("/epoch", b"1")])
            its.proxy.swallows_replies = True
            multis: list[list[Operation]] = [
                [SetData("/n", b"1", 0)],
                [Create("/made", b"data")],
                [Check("/epoch", 0), Delete("/old")],
                [Create("/mine", b"", ephemeral=True), SetData("/mine", b"me")],
                [SetData("/other", b"2"), SetData("/epoch", b"2", 0)],
            ]
            writes = [asyncio.ensure_future(store.multi(operations)) for operations in multis]
            await its.until("/epoch", b"2")
            its.proxy.swallows_replies = False
            its.proxy.cut()
            results = await asyncio.gather(*writes)
            assert results[1] == ["/made"]
            assert results[2] == [None, None]
            for path, version in (("/n", 1), ("/made", 0), ("/mine", 1), ("/other", 1), ("/epoch", 1)):
                stat = await its.other.exists(path)
                assert stat is not None
                assert stat.version == version
            assert results[4] == [await its.other.exists("/other"), await its.other.exists("/epoch")]
            with pytest.raises(BadVersionError):
                await store.set("/n", b"3", 0)

        self.run(scenario)

    def test_a_write_that_was_lost_is_sent_again_in_order(self) -> None:
        async def scenario(its: Scene) -> None:
            store = its.store
            await store.create("/n", b"0")
            its.proxy.swallows_requests = True
            writes = [asyncio.ensure_future(store.set("/n", b"%d" % number, number - 1)) for number in range(1, 30)]
            read = asyncio.ensure_future(store.get("/n"))
            cancelled = asyncio.ensure_future(store.set("/n", b"never"))
            await its.proxy.swallowed.wait()
            cancelled.cancel()
            its.proxy.swallows_requests = False
            its.proxy.cut()
            assert [stat.version for stat in await asyncio.gather(*writes)] == list(range(1, 30))
            assert (await read).data == b"29"
            assert (await its.other.get("/n")).data == b"29"

        self.run(scenario)

    def test_writes_without_an_answer_fail_when_the_session_expires_and_reads_do_not(self) -> None:
        async def scenario(its: Scene) -> None:
            store = its.store
            events = SessionEvents(store)
            order: list[object] = []
            store.add_session_listener(order.append)
            await store.create("/n", b"0")
            its.proxy.swallows_replies = True
            write = asyncio.ensure_future(store.set("/n", b"1"))
            write.add_done_callback(lambda _: order.append("write"))
            read = asyncio.ensure_future(store.get("/n"))
            await its.until("/n", b"1")
            its.proxy.refuses = True
            its.proxy.swallows_replies = False
            its.proxy.cut()
            await its.proxy.refused.wait()
            later = asyncio.ensure_future(store.create("/later"))
            await its.expire()
            assert not later.done()
            its.proxy.refuses = False
            await events.wait()
            with pytest.raises(SessionExpiredError, match="may have been made or not"):
                await write
            assert (await read).data == b"1"
            assert await later == "/later"
            assert order[:2] == [SessionEvent.EXPIRED, "write"] or order == [
                SessionEvent.EXPIRED,
                SessionEvent.RENEWED,
                "write",
            ]

        self.run(scenario)

    def test_a_store_closes_while_there_is_no_connection(self, caplog: pytest.LogCaptureFixture) -> None:
        async def scenario(its: Scene) -> None:
            its.proxy.refuses = True
            its.proxy.cut()
            waiting = asyncio.ensure_future(its.store.get("/"))
            await its.proxy.refused.wait()
            async with asyncio.timeout(1):
                await its.store.close()
            with pytest.raises(StoreClosedError):
                await waiting
            assert "the session stays open there for up to 4000 ms" in caplog.text

        self.run(scenario)

    def test_broken_connections_lose_and_repeat_no_write(self) -> None:
        async def scenario(its: Scene) -> None:
            chance = random.Random(7)
            is_over = False

            async def break_connections() -> None:
                while not is_over:
                    await asyncio.sleep(chance.random() / 20)
                    its.proxy.swallows_replies = chance.random() < 0.5
                    its.proxy.swallows_requests = chance.random() < 0.3
                    await asyncio.sleep(chance.random() / 100)
                    its.proxy.cut()
                    its.proxy.swallows_replies = its.proxy.swallows_requests = False

            async def count(path: str) -> None:
                await its.store.create(path, b"0")
                for number in range(300):
                    node = await its.store.get(path)
                    assert node.data == b"%d" % number
                    assert node.stat.version == number
                    await its.store.set(path, b"%d" % (number + 1), number)

            breaking = asyncio.create_task(break_connections())
            await asyncio.gather(*(count(f"/{name}") for name in "abcdef"))
            is_over = True
            await breaking

        self.run(scenario)

    def test_a_request_that_is_too_large_is_refused_before_it_is_sent(self) -> None:
        async def scenario(its: Scene) -> None:
            with pytest.raises(StoreRefusedError, match="more than ZooKeeper accepts at once"):
                await its.store.create("/large", bytes(1024 * 1024))
            await its.store.create("/fits", bytes(1024 * 1024 - 200))
            assert await its.store.multi([]) == []

        self.run(scenario)

    def test_watch_events_name_paths_below_the_chroot(self) -> None:
        async def scenario(its: Scene) -> None:
            seen = Seen()
            await its.store.children("/", seen)
            await its.other.create("/new")
            assert await seen.wait() == [WatchEvent(EventKind.CHILDREN, "/")]

        self.run(scenario)
