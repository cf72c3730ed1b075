import asyncio
from pathlib import Path

import pytest

from kafkapy.clock import SystemClock
from kafkapy.metadata.embedded import RETRY_MS, EmbeddedSession, EmbeddedStore
from kafkapy.metadata.producer_ids import BLOCK_SIZE, ProducerIds
from kafkapy.metadata.sqlite_file import SqliteFile
from kafkapy.metadata.store import ANY_VERSION, NodeStat, StoreFileError
from kafkapy.metadata.znodes import ProducerIdBlockZNode
from kafkapy.testing.clock import ManualClock


class Rival(EmbeddedSession):
    """Another broker claims a block just before the first attempt."""

    rivals = 1

    async def set(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> NodeStat:
        if self.rivals:
            self.rivals -= 1
            await super().set(path, ProducerIdBlockZNode(9, 5000, 5999).encode())
        return await super().set(path, data, version)


def test_brokers_claim_different_blocks() -> None:
    async def main() -> None:
        store = EmbeddedStore(None, SystemClock())
        first, second = ProducerIds(1, store.session()), ProducerIds(2, store.session())
        await store.session().create(ProducerIdBlockZNode.PATH)
        await first.start()
        await second.start()
        assert [await first.next_producer_id() for _ in range(3)] == [0, 1, 2]
        assert await second.next_producer_id() == BLOCK_SIZE
        rest = await asyncio.gather(*(first.next_producer_id() for _ in range(BLOCK_SIZE)))
        assert rest == [*range(3, BLOCK_SIZE), *range(2 * BLOCK_SIZE, 2 * BLOCK_SIZE + 3)]

    asyncio.run(main())


def test_a_claim_is_repeated_after_a_lost_race() -> None:
    async def main() -> None:
        store = EmbeddedStore(None, SystemClock())
        session = Rival(store, store.session().session_id)
        await session.create(ProducerIdBlockZNode.PATH)
        ids = ProducerIds(1, session)
        assert await ids.next_producer_id() == 6000

    asyncio.run(main())


def test_ids_of_the_first_block_wait_for_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block that is in memory alone may be claimed again after a restart."""
    write = SqliteFile.write

    def refused(*_: object) -> None:
        raise StoreFileError("no")

    async def main() -> None:
        clock = ManualClock()
        store = EmbeddedStore(str(tmp_path / "store"), clock)
        await store.open()
        session = store.session()
        await session.create(ProducerIdBlockZNode.PATH)
        monkeypatch.setattr(SqliteFile, "write", refused)
        store.run_ahead(allowed=True)
        ids = ProducerIds(1, session)
        await ids.start()
        store.run_ahead(allowed=False)
        asked = asyncio.create_task(ids.next_producer_id())
        await asyncio.sleep(0.01)
        assert not asked.done()
        monkeypatch.setattr(SqliteFile, "write", write)
        while not asked.done():
            clock.advance(RETRY_MS)
            await asyncio.sleep(0.001)
        assert (await asked, await ids.next_producer_id()) == (0, 1)
        await store.close()

    asyncio.run(asyncio.wait_for(main(), 10))
