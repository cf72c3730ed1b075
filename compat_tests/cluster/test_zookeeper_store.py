"""The laws of the metadata store, kept by ``ZooKeeperStore`` on a real ZooKeeper; sessions expire there for real."""

import asyncio
import itertools
import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from random import Random

import pytest
from kazoo.client import KazooClient

from compat_tests.process import HOST
from compat_tests.real_kafka import ZooKeeper
from kafkapy.clock import SystemClock
from kafkapy.metadata.store import MetadataStore
from kafkapy.metadata.zookeeper import ZooKeeperSettings, ZooKeeperStore
from kafkapy.metadata.zookeeper_address import ZooKeeperAddress
from tests.metadata.store_contract import OpenSession, StoreContract

pytestmark = [pytest.mark.java, pytest.mark.timeout(120)]

SETTINGS = ZooKeeperSettings(session_timeout_ms=4_000, connection_timeout_ms=20_000)
CHROOTS = (f"/store-{os.getpid()}/{number}" for number in itertools.count())


def new_store(zookeeper: ZooKeeper, chroot: str, settings: ZooKeeperSettings = SETTINGS) -> ZooKeeperStore:
    address = ZooKeeperAddress.parse(f"{HOST}:{zookeeper.port}{chroot}")
    return ZooKeeperStore(address, SystemClock(), Random(1), settings)


@asynccontextmanager
async def _opened(zookeeper: ZooKeeper) -> AsyncIterator[OpenSession]:
    chroot = next(CHROOTS)
    stores: list[ZooKeeperStore] = []

    async def session() -> MetadataStore:
        store = new_store(zookeeper, chroot)
        await store.open()
        stores.append(store)
        return store

    yield session
    for store in stores:
        await store.close()


def end_session(zookeeper: ZooKeeper, store: ZooKeeperStore) -> None:
    """End a session behind its owner's back: another connection takes it over and closes it."""
    client = KazooClient(f"{HOST}:{zookeeper.port}", client_id=(store.session_id, store.session_password))
    client.start()
    client.stop()
    client.close()


class TestZooKeeper(StoreContract):
    TURNS = (*range(0, 60, 7), 200, 500, 2_000, 5_000)

    @pytest.fixture(autouse=True)
    def _server(self, zookeeper: ZooKeeper) -> None:
        self.zookeeper = zookeeper

    def tree(self) -> AbstractAsyncContextManager[OpenSession]:
        return _opened(self.zookeeper)

    async def expire(self, store: MetadataStore) -> None:
        assert isinstance(store, ZooKeeperStore)
        await asyncio.get_running_loop().run_in_executor(None, end_session, self.zookeeper, store)
