import asyncio
from random import Random

import pytest

from kafkapy.clock import SystemClock
from kafkapy.controller.context import WRITES_TOGETHER, ControllerContext, ControllerMovedError, ControllerWriter
from kafkapy.metadata.embedded import EmbeddedStore
from kafkapy.metadata.store import (
    BadVersionError,
    Create,
    NodeExistsError,
    NodeStat,
    SetData,
    StoreRefusedError,
)
from kafkapy.metadata.zookeeper import ZooKeeperStore
from kafkapy.metadata.zookeeper_address import ZooKeeperAddress
from kafkapy.metadata.zookeeper_session import ZooKeeperSettings


def test_only_the_controller_of_this_epoch_writes() -> None:
    async def main() -> None:
        store = EmbeddedStore(None, SystemClock()).session()
        await store.create("/controller_epoch", b"0")
        writer = ControllerWriter(store, ControllerContext(1, 1, 0))
        created, refused = await writer.write([Create("/a"), Create("/a")])
        assert created == "/a"
        assert isinstance(refused, NodeExistsError)
        await store.set("/controller_epoch", b"2")
        with pytest.raises(ControllerMovedError):
            await writer.write([SetData("/a", b"late")])
        assert (await store.get("/a")).data is None
        assert await writer.write([]) == []

    asyncio.run(main())


def test_a_refused_write_stops_no_other() -> None:
    """Many operations are one transaction; those of a refused one are made one by one, in their order."""

    async def main() -> None:
        store = EmbeddedStore(None, SystemClock()).session()
        await store.create("/controller_epoch", b"0")
        await store.create("/parent")
        writer = ControllerWriter(store, ControllerContext(1, 1, 0))
        names = [f"/parent/{number}" for number in range(2 * WRITES_TOGETHER)]
        results = await writer.write([Create("/parent"), *map(Create, names), SetData("/parent", b"", 5)])
        assert isinstance(results[0], NodeExistsError)
        assert results[1:-1] == names
        assert isinstance(results[-1], BadVersionError)
        zxids = [(await store.get(name)).stat.czxid for name in names]
        assert len(set(zxids[: WRITES_TOGETHER - 1])) == WRITES_TOGETHER - 1  # with the first, which was refused
        assert len(set(zxids[WRITES_TOGETHER - 1 : -1])) == 1
        stats = await writer.write([SetData(name, b"x", 0) for name in names])
        assert all(isinstance(stat, NodeStat) and stat.version == 1 for stat in stats)

    asyncio.run(main())


def test_a_single_last_operation_may_need_those_of_a_refused_transaction() -> None:
    async def main() -> None:
        store = EmbeddedStore(None, SystemClock()).session()
        await store.create("/controller_epoch", b"0")
        await store.create("/parent")
        writer = ControllerWriter(store, ControllerContext(1, 1, 0))
        nodes = [f"/parent/{number}" for number in range(WRITES_TOGETHER - 1)]
        results = await writer.write([Create(path) for path in ("/parent", *nodes, "/parent/0/state")])
        assert isinstance(results[0], NodeExistsError)
        assert results[1:] == [*nodes, "/parent/0/state"]

    asyncio.run(main())


def test_a_transaction_that_the_store_does_not_take_is_no_other_controller() -> None:
    """A multi of over 1 MB is not sent; the error names its first operation, which is the check of the epoch."""

    async def main() -> None:
        address = ZooKeeperAddress.parse("127.0.0.1:1")
        store = ZooKeeperStore(address, SystemClock(), Random(1), ZooKeeperSettings())
        writer = ControllerWriter(store, ControllerContext(1, 1, 0))
        refused = await writer.write([SetData("/large", bytes(2**21))])
        assert [type(each) for each in refused] == [StoreRefusedError]

    asyncio.run(main())
