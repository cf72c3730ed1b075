import asyncio
import resource
import sqlite3
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from time import process_time

import pytest

from harness.cases.store_contract import OpenSession, Seen, StoreContract
from kafkapy import turns
from kafkapy.clock import SystemClock
from kafkapy.metadata.embedded import FILE_NAME, RETRY_MS, EmbeddedSession, EmbeddedStore
from kafkapy.metadata.sqlite_file import SqliteFile
from kafkapy.metadata.store import (
    Create,
    MetadataStore,
    SessionExpiredError,
    StoreClosedError,
    StoreFileError,
)
from kafkapy.testing.clock import ManualClock
from tests.server.harness import until


@asynccontextmanager
async def _opened(path: str | None) -> AsyncIterator[OpenSession]:
    store = EmbeddedStore(path, SystemClock())
    await store.open()

    async def session() -> MetadataStore:
        return store.session()

    yield session
    await store.close()


class EmbeddedContract(StoreContract):
    async def expire(self, store: MetadataStore) -> None:
        assert isinstance(store, EmbeddedSession)
        await store.expire()
        store.renew()


class TestInMemory(EmbeddedContract):
    def tree(self) -> AbstractAsyncContextManager[OpenSession]:
        return _opened(None)


class TestOnDisk(EmbeddedContract):
    @pytest.fixture(autouse=True)
    def _directory(self, tmp_path: Path) -> None:
        self.path = str(tmp_path / FILE_NAME)

    def tree(self) -> AbstractAsyncContextManager[OpenSession]:
        return _opened(self.path)


def test_calls_between_two_sessions_wait_for_the_next() -> None:
    async def main() -> None:
        async with _opened(None) as open_session:
            store = await open_session()
            assert isinstance(store, EmbeddedSession)
            told: list[str] = []
            store.add_session_listener(lambda event: told.append(event.value))
            await store.expire()
            calls = [
                asyncio.ensure_future(call)
                for call in (store.create("/e", b"", ephemeral=True), store.exists("/"), store.children("/"))
            ]
            for call in calls:
                call.add_done_callback(lambda _: told.append("done"))
            for _ in range(10):
                await asyncio.sleep(0)
            assert told == ["expired"]
            store.renew()
            await asyncio.gather(*calls)
            assert told == ["expired", "renewed", "done", "done", "done"]
            stat = await store.exists("/e")
            assert stat is not None
            assert stat.owner == store.session_id

    asyncio.run(main())


def test_closing_ends_the_calls_that_wait_for_a_session() -> None:
    async def main() -> None:
        async with _opened(None) as open_session:
            store = await open_session()
            assert isinstance(store, EmbeddedSession)
            await store.create("/e", b"", ephemeral=True)
            await store.expire()
            calls = [asyncio.ensure_future(store.get("/")), asyncio.ensure_future(store.delete("/e"))]
            await asyncio.sleep(0)
            await store.close()
            for call in calls:
                with pytest.raises(StoreClosedError):
                    await call
            with pytest.raises(StoreClosedError):
                store.renew()

    asyncio.run(main())


def test_a_write_whose_session_expires_before_the_answer_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with _opened(str(tmp_path / FILE_NAME)) as open_session:
            store = await open_session()
            assert isinstance(store, EmbeddedSession)
            for renew in (False, True):
                write = asyncio.ensure_future(store.create(f"/made-{renew}"))
                await asyncio.sleep(0)  # the tree has the change, the file does not
                expiry = asyncio.ensure_future(store.expire())
                read = asyncio.ensure_future(store.children("/"))
                await expiry
                if renew:
                    store.renew()
                with pytest.raises(SessionExpiredError, match="made or not"):
                    await write
                if not renew:
                    assert not read.done()
                    store.renew()
                assert f"made-{renew}" in await read

    asyncio.run(main())


def test_no_operation_of_an_expired_session_is_done_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "SLICE_S", 0.0)

    async def main() -> None:
        async with _opened(None) as open_session:
            store = await open_session()
            assert isinstance(store, EmbeddedSession)
            writes = asyncio.ensure_future(store.transactions([Create(f"/{number}")] for number in range(100)))
            for _ in range(20):
                await asyncio.sleep(0)
            await store.expire()
            store.renew()
            done = await store.children("/")
            with pytest.raises(SessionExpiredError):
                await writes
            assert 0 < len(done) < 100
            assert sorted(await store.children("/")) == sorted(done)

    asyncio.run(main())


def test_all_but_ephemeral_nodes_survive_a_restart(tmp_path: Path) -> None:
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
    names = ["kafkapy-metadata.journal", "kafkapy-metadata.reserve", FILE_NAME]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == names


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


def test_ten_thousand_operations_are_few_commits(tmp_path: Path) -> None:
    async def main() -> None:
        store = EmbeddedStore(str(tmp_path / FILE_NAME), SystemClock())
        await store.open()
        session = store.session()
        started_s = process_time()
        for number in range(100):
            await session.create(f"/one{number}", b"{}" * 40)
        alone_s = process_time() - started_s
        started_s = process_time()
        outcomes = await session.transactions([Create(f"/n{number}", b"{}" * 40)] for number in range(10_000))
        together_s = process_time() - started_s
        assert all(isinstance(outcome, list) for outcome in outcomes)
        # a commit each would cost 100 * alone_s; what is traced for the coverage costs more
        assert together_s < 100 * alone_s / 2
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


def test_a_foreign_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    path.write_bytes(b"no database at all, but long enough to be looked at" * 40)

    async def main() -> None:
        store = EmbeddedStore(str(path), SystemClock())
        with pytest.raises(StoreFileError, match="No copy of the cluster's metadata can be used"):
            await store.open()
        await store.close()

    asyncio.run(main())


def _full_disk(path: str) -> tuple[int, int]:
    """From now on the system refuses that a file of this process grows beyond the size of the store's files."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    sizes = [Path(path + suffix).stat().st_size for suffix in ("", "-wal")]
    resource.setrlimit(resource.RLIMIT_FSIZE, (max(sizes), limits[1]))
    return limits


def test_calls_wait_while_the_disk_refuses_and_nothing_is_lost_or_doubled(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = str(tmp_path / FILE_NAME)
    clock = ManualClock()

    async def main() -> None:
        store = EmbeddedStore(path, clock)
        await store.open()
        session = store.session()
        seen = Seen()
        await session.create("/before", b"1")
        await session.exists("/late", seen)
        limits = _full_disk(path)
        try:
            created = asyncio.create_task(session.create("/late", b"x" * 100_000))
            for _ in range(3):
                await until(lambda: store._retry.is_waiting)
                clock.advance(RETRY_MS)
                await asyncio.sleep(0)
            number = asyncio.create_task(session.create("/before/n", sequential=True))
            read = asyncio.create_task(session.get("/before"))
            await asyncio.sleep(0.01)
            assert not created.done()
            assert not number.done()
            assert not read.done()
            assert seen.events == []
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        while not created.done():
            clock.advance(RETRY_MS)
            await asyncio.sleep(0.001)
        assert (await created, await number) == ("/late", "/before/n0000000000")
        assert (await read).data == b"1"
        assert [event.path for event in seen.events] == ["/late"]
        await session.set("/late", b"2")
        await store.close()
        again = EmbeddedStore(path, clock)
        await again.open()
        session = again.session()
        nodes = await session.get_many(["/late", "/before", "/before/n0000000000"])
        assert [(node.data, node.stat.version) if node else None for node in nodes] == [(b"2", 1), (b"1", 0), (None, 0)]
        assert await session.create("/before/n", sequential=True) == "/before/n0000000001"
        await again.close()

    asyncio.run(main())
    messages = [record.getMessage() for record in caplog.records if "metadata" in record.getMessage()]
    assert len(messages) == 2
    assert "could not be written" in messages[0]
    assert messages[1] == "The metadata store continues: its disk accepts changes again"


def test_a_start_does_not_wait_for_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it runs ahead the store answers, and calls watches, from memory; after that all calls wait as before."""
    path = str(tmp_path / FILE_NAME)
    clock = ManualClock()
    write = SqliteFile.write

    def refused(*_: object) -> None:
        raise StoreFileError("no")

    async def main() -> None:
        store = EmbeddedStore(path, clock)
        await store.open()
        session = store.session()
        await session.create("/epoch", b"1")
        seen = Seen()
        await session.exists("/epoch", seen)
        monkeypatch.setattr(SqliteFile, "write", refused)
        store.run_ahead(allowed=True)
        await session.set("/epoch", b"2")
        await session.create("/ids", b"", ephemeral=True)
        assert (await session.get("/epoch")).data == b"2"
        assert [event.path for event in seen.events] == ["/epoch"]
        store.run_ahead(allowed=False)
        waiting = asyncio.create_task(session.create("/topic"))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        monkeypatch.setattr(SqliteFile, "write", write)
        while not waiting.done():
            clock.advance(RETRY_MS)
            await asyncio.sleep(0.001)
        assert len(seen.events) == 1, "it is told once"
        store.run_ahead(allowed=True)
        await session.set("/epoch", b"3")
        await store.close()
        again = EmbeddedStore(path, clock)
        await again.open()
        session = again.session()
        nodes = await session.get_many(["/epoch", "/topic", "/ids"])
        assert [node.data if node else None for node in nodes] == [b"3", None, None]
        assert nodes[1] is not None
        await again.close()

    asyncio.run(asyncio.wait_for(main(), 10))


def test_a_store_that_the_disk_has_no_space_for_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    monkeypatch.setattr(SqliteFile, "_open", refused)
    file = SqliteFile(str(tmp_path / FILE_NAME))
    with pytest.raises(StoreFileError, match="free some and start again"):
        file.load()


def test_a_broker_can_stop_while_the_disk_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise StoreFileError("no")

    async def main() -> None:
        store = EmbeddedStore(str(tmp_path / FILE_NAME), ManualClock())
        await store.open()
        session = store.session()
        other = store.session()
        await session.create("/e", ephemeral=True)
        await other.create("/f", ephemeral=True)
        monkeypatch.setattr(SqliteFile, "write", refused)
        lost = asyncio.create_task(session.create("/lost"))
        await asyncio.sleep(0)
        await session.close()
        await store.close()
        with pytest.raises(StoreClosedError):
            await lost
        with pytest.raises(StoreClosedError):
            await other.get("/")

    asyncio.run(asyncio.wait_for(main(), 10))
