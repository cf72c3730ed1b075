import asyncio

import pytest

from kafkapy.clock import SystemClock
from kafkapy.controller.context import ControllerContext, ControllerMovedError, ControllerWriter
from kafkapy.metadata.embedded import EmbeddedStore
from kafkapy.metadata.store import Create, NodeExistsError, SetData


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
