import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from kafkapy.clock import SystemClock
from kafkapy.cluster.embedded import FILE_NAME, EmbeddedStore
from kafkapy.cluster.sqlite_file import StoreFileError
from kafkapy.cluster.store import Create, MetadataStore, StoreClosedError
from tests.cluster.store_contract import OpenSession, Seen, StoreContract


@asynccontextmanager
async def _opened(path: str | None) -> AsyncIterator[OpenSession]:
    store = EmbeddedStore(path, SystemClock())
    await store.open()

    async def session() -> MetadataStore:
        return store.session()

    yield session
    await store.close()


class TestInMemory(StoreContract):
    def tree(self) -> AbstractAsyncContextManager[OpenSession]:
        return _opened(None)


class TestOnDisk(StoreContract):
    @pytest.fixture(autouse=True)
    def _directory(self, tmp_path: Path) -> None:
        self.path = str(tmp_path / FILE_NAME)

    def tree(self) -> AbstractAsyncContextManager[OpenSession]:
        return _opened(self.path)


def test_everything_but_ephemeral_nodes_outlives_a_restart(tmp_path: Path) -> None:
    path = str(tmp_path / FILE_NAME)

    async def main() -> None:
        async with _opened(path) as open_session:
            store = await open_session()
            await store.create("/a", b"1")
            await store.set("/a", b"2")
            await store.create("/a/q", sequential=True)
            await store.create("/gone")
            await store.delete("/gone")
            await store.create("/e", b"", ephemeral=True)
            before = await store.get_many(["/a", "/a/q0000000000"])
            last = await store.exists("/e")
        async with _opened(path) as open_session:
            store = await open_session()
            assert await store.get_many(["/a", "/a/q0000000000"]) == before
            assert await store.exists("/e") is None
            assert await store.exists("/gone") is None
            assert await store.create("/a/q", sequential=True) == "/a/q0000000001"
            await store.create("/e", b"", ephemeral=True)
            again = await store.exists("/e")
            assert last is not None
            assert again is not None
            assert again.czxid > last.czxid

    asyncio.run(main())
    assert [entry.name for entry in tmp_path.iterdir()] == [FILE_NAME]


def test_watches_and_answers_come_after_the_commit(tmp_path: Path) -> None:
    path = str(tmp_path / FILE_NAME)

    async def main() -> None:
        async with _opened(path) as open_session:
            store = await open_session()
            seen = Seen()
            await store.exists("/late", seen)
            write = asyncio.ensure_future(store.create("/late"))
            await asyncio.sleep(0)
            assert seen.events == []
            await write
            assert len(seen.events) == 1

    asyncio.run(main())


def test_ten_thousand_operations_are_one_commit(tmp_path: Path) -> None:
    async def main() -> None:
        store = EmbeddedStore(str(tmp_path / FILE_NAME), SystemClock())
        await store.open()
        session = store.session()
        loop = asyncio.get_running_loop()
        started = loop.time()
        outcomes = await session.transactions([Create(f"/n{number}", b"{}" * 40)] for number in range(10_000))
        assert all(isinstance(outcome, list) for outcome in outcomes)
        assert loop.time() - started < 2
        await store.close()

    asyncio.run(main())


def test_a_data_directory_in_use_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / FILE_NAME)

    async def main() -> None:
        async with _opened(path) as open_session:
            await (await open_session()).create("/a")
            other = EmbeddedStore(path, SystemClock())
            with pytest.raises(StoreFileError, match="another broker"):
                await other.open()
            await other.close()

    asyncio.run(main())


@pytest.mark.parametrize("content", [b"no database at all, but long enough to be looked at" * 40, None])
def test_a_foreign_file_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / FILE_NAME
    if content is None:
        database = sqlite3.connect(path)
        database.executescript(
            "CREATE TABLE state (name TEXT PRIMARY KEY, value INTEGER); INSERT INTO state VALUES ('format', 99)"
        )
        database.close()
    else:
        path.write_bytes(content)

    async def main() -> None:
        store = EmbeddedStore(str(path), SystemClock())
        with pytest.raises(StoreFileError, match="move it away"):
            await store.open()
        await store.close()

    asyncio.run(main())


def test_a_disk_that_fails_ends_the_store(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = str(tmp_path / FILE_NAME)

    async def main() -> None:
        store = EmbeddedStore(path, SystemClock())
        await store.open()
        session = store.session()
        seen = Seen()
        await session.exists("/lost", seen)
        assert store._file is not None
        database = store._file._database
        assert database is not None
        database.execute("PRAGMA query_only = ON")
        with pytest.raises(StoreClosedError):
            await session.create("/lost")
        assert seen.events == []
        with pytest.raises(StoreClosedError):
            await session.get("/")
        database.execute("PRAGMA query_only = OFF")
        with pytest.raises(StoreClosedError):
            await session.create("/after")
        await store.close()

    with caplog.at_level(logging.ERROR):
        asyncio.run(main())
    assert "restart the broker" in caplog.text
