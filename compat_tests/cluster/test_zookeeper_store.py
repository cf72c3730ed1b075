"""The laws of the metadata store, kept by ``ZooKeeperStore`` on real ZooKeepers; sessions expire there for real."""

import asyncio
import itertools
import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
from kazoo.client import KazooClient

from harness.cases.store_contract import OpenSession, StoreContract
from harness.cases.zookeeper_connections import SETTINGS, ConnectionContract, Server, new_store
from harness.process import HOST
from harness.real_kafka import ZooKeeper
from kafkapy.metadata.store import MetadataStore, StoreRefusedError
from kafkapy.metadata.zookeeper import ZooKeeperStore
from kafkapy.security.settings import ZooKeeperSecurity

pytestmark = [pytest.mark.java, pytest.mark.timeout(120)]

CHROOTS = (f"/store-{os.getpid()}/{number}" for number in itertools.count())


@asynccontextmanager
async def _opened(zookeeper: ZooKeeper) -> AsyncIterator[OpenSession]:
    chroot = next(CHROOTS)
    stores: list[ZooKeeperStore] = []

    async def session() -> MetadataStore:
        store = new_store(zookeeper.port, chroot)
        await store.open()
        stores.append(store)
        return store

    yield session
    for store in stores:
        await store.close()


class RealServer:
    """A chroot of its own on the ZooKeeper."""

    def __init__(self, zookeeper: ZooKeeper) -> None:
        self.port = zookeeper.port
        self.chroot = next(CHROOTS)

    async def expire(self, store: ZooKeeperStore) -> None:
        """Another connection takes the session over and closes it."""
        await asyncio.get_running_loop().run_in_executor(None, self._end, store)

    def _end(self, store: ZooKeeperStore) -> None:
        client = KazooClient(f"{HOST}:{self.port}", client_id=(store.session_id, store.session_password))
        client.start()
        client.stop()
        client.close()


class TestZooKeeper(StoreContract):
    TURNS = (*range(0, 60, 7), 200, 500, 2_000, 5_000)

    @pytest.fixture(autouse=True)
    def _zookeeper(self, each_zookeeper: ZooKeeper) -> None:
        self.zookeeper = each_zookeeper

    def tree(self) -> AbstractAsyncContextManager[OpenSession]:
        return _opened(self.zookeeper)

    async def expire(self, store: MetadataStore) -> None:
        assert isinstance(store, ZooKeeperStore)
        await RealServer(self.zookeeper).expire(store)


class TestConnections(ConnectionContract):
    @pytest.fixture(autouse=True)
    def _zookeeper(self, each_zookeeper: ZooKeeper) -> None:
        self.zookeeper = each_zookeeper

    @asynccontextmanager
    async def server(self) -> AsyncIterator[Server]:
        yield RealServer(self.zookeeper)


def test_protected_nodes_belong_to_the_identity_that_created_them(zookeeper: ZooKeeper) -> None:
    async def main() -> None:
        security = ZooKeeperSecurity(credentials=[("digest", "kafka:secret")], protects_nodes=True)
        settings = SETTINGS._replace(security=security)
        chroot = next(CHROOTS)
        owner, stranger = new_store(zookeeper.port, chroot, settings), new_store(zookeeper.port, chroot)
        await owner.open()
        await stranger.open()
        await owner.create("/config")
        for path in ("/config/users", "/config/topics", "/consumers"):
            await owner.create(path, b"data")
        await owner.set("/config/users", b"changed")
        assert (await stranger.get("/config/topics")).data == b"data"
        for attempt in (
            stranger.set("/config/topics", b""), stranger.create("/config/topics/t"), stranger.delete("/config/topics"),
            stranger.get("/config/users"),
        ):  # fmt: skip
            with pytest.raises(StoreRefusedError, match=r"ZooKeeper refuses an operation on /config/.*NoAuthError"):
                await attempt
        await stranger.set("/consumers", b"open")
        await owner.close()
        await stranger.close()

    asyncio.run(main())
