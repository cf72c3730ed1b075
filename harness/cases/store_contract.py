"""The laws of a MetadataStore, as tests that any implementation inherits by handing out sessions on one tree."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager

import pytest

from kafkapy import turns
from kafkapy.metadata.store import (
    BadVersionError,
    Check,
    Create,
    Delete,
    EventKind,
    MetadataStore,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionEvent,
    SetData,
    StoreClosedError,
    WatchEvent,
    ensure_path,
    set_or_create,
)

OpenSession = Callable[[], Awaitable[MetadataStore]]
Scenario = Callable[[OpenSession], Awaitable[None]]


class Seen:
    """Collects watch events; ``wait`` returns when so many more have come."""

    def __init__(self) -> None:
        self.events: list[WatchEvent] = []
        self._arrived = asyncio.Semaphore(0)

    def __call__(self, event: WatchEvent) -> None:
        self.events.append(event)
        self._arrived.release()

    async def wait(self, number: int = 1) -> list[WatchEvent]:
        for _ in range(number):
            await asyncio.wait_for(self._arrived.acquire(), 5)
        return self.events


class SessionEvents:
    """Collects what a store tells of its sessions; ``wait`` returns when another session has begun."""

    def __init__(self, store: MetadataStore) -> None:
        self.seen: list[tuple[SessionEvent, int]] = []
        self._store = store
        self._renewed = asyncio.Event()
        store.add_session_listener(self._note)

    def _note(self, event: SessionEvent) -> None:
        self.seen.append((event, self._store.session_id))
        if event is SessionEvent.RENEWED:
            self._renewed.set()

    async def wait(self) -> list[tuple[SessionEvent, int]]:
        await asyncio.wait_for(self._renewed.wait(), 30)
        self._renewed.clear()
        return self.seen


class StoreContract:
    """Inherit and implement ``tree``: an empty tree whose value opens a further session on it; and ``expire``."""

    TURNS: Sequence[int] = range(0, 60, 7)
    """Iterations of the loop after which a long read may be in any of its phases, or be done."""

    def tree(self) -> AbstractAsyncContextManager[OpenSession]:
        raise NotImplementedError

    async def expire(self, store: MetadataStore) -> None:
        """Let the session of ``store`` expire; another one begins, at the latest some seconds after the return."""
        raise NotImplementedError

    def run(self, scenario: Scenario) -> None:
        async def main() -> None:
            async with self.tree() as open_session:
                await scenario(open_session)

        asyncio.run(main())

    def test_data_and_versions(self) -> None:
        async def scenario(open_session: OpenSession) -> None:
            store = await open_session()
            assert await store.exists("/a") is None
            assert await store.create("/a", b"0") == "/a"
            created = await store.get("/a")
            assert created.data == b"0"
            assert created.stat.version == 0
            assert created.stat.czxid == created.stat.mzxid > 0
            assert created.stat.owner == 0
            changed = await store.set("/a", b"1", 0)
            assert changed.version == 1
            assert changed.czxid == created.stat.czxid < changed.mzxid
            assert changed.created_ms == created.stat.created_ms
            assert await store.exists("/a") == changed
            with pytest.raises(BadVersionError):
                await store.set("/a", b"2", 0)
            assert (await store.get("/a")).data == b"1"
            await store.set("/a", b"3")
            with pytest.raises(BadVersionError):
                await store.delete("/a", 1)
            await store.delete("/a", 2)
            assert await store.exists("/a") is None

        self.run(scenario)

    def test_operations_on_a_missing_node_raise(self) -> None:
        async def scenario(open_session: OpenSession) -> None:
            store = await open_session()
            for attempt in (
                store.get("/no"), store.children("/no"), store.create("/no/child"), store.set("/no", b""),
                store.delete("/no"),
            ):  # fmt: skip
                with pytest.raises(NoNodeError):
                    await attempt
            assert await store.get_many(["/no", "/"]) != [None, None]
            assert (await store.get_many(["/no"])) == [None]

        self.run(scenario)

    def test_null_data_is_not_empty_data(self) -> None:
        async def scenario(open_session: OpenSession) -> None:
            store = await open_session()
            await store.create("/null")
            await store.create("/empty", b"")
            assert (await store.get("/null")).data in (None, b"")
            assert (await store.get("/empty")).data == b""

        self.run(scenario)

    def test_children(self) -> None:
        async def scenario(open_session: OpenSession) -> None:
            store = await open_session()
            await store.create("/p")
            await store.create("/p/x")
            await store.create("/p/y")
            assert sorted(await store.children("/p")) == ["x", "y"]
            with pytest.raises(NodeExistsError):
                await store.create("/p/x")
            with pytest.raises(NotEmptyError):
                await store.delete("/p")
            await store.delete("/p/x")
            await store.delete("/p/y")
            assert await store.children("/p") == []
            await store.delete("/p")

        self.run(scenario)

    def test_sequential_names_grow(self) -> None:
        async def scenario(open_session: OpenSession) -> None:
            store = await open_session()
            await store.create("/q")
            names = [await store.create("/q/n_", b"x", sequential=True) for _ in range(3)]
            assert names == ["/q/n_0000000000", "/q/n_0000000001", "/q/n_0000000002"]
            await store.delete(names[2])
            assert await store.create("/q/n_", sequential=True) == "/q/n_0000000003"

        self.run(scenario)

    def test_ephemeral_nodes_end_with_their_session(self) -> None:
        async def scenario(open_session: OpenSession) -> None:
            first, second = await open_session(), await open_session()
            assert first.session_id != second.session_id
            await first.create("/e", b"mine", ephemeral=True)
            stat = await second.exists("/e")
            assert stat is not None
            assert stat.owner == first.session_id
            with pytest.raises(NoChildrenForEphemeralsError):
                await second.create("/e/child")
            seen = Seen()
            assert await second.exists("/e", seen) is not None
            await first.close()
            await first.close()
            assert await seen.wait() == [WatchEvent(EventKind.DELETED, "/e")]
            assert await second.exists("/e") is None
            with pytest.raises(StoreClosedError):
                await first.get("/")
            with pytest.raises(StoreClosedError):
                await first.create("/late")

        self.run(scenario)

    def test_a_session_that_expires_is_followed_by_another_one(self) -> None:
        async def scenario(open_session: OpenSession) -> None:
            store, other = await open_session(), await open_session()
            events, others = SessionEvents(store), SessionEvents(other)
            first = store.session_id
            await self.expire(store)
            await events.wait()
            second = store.session_id
            assert first != second > 0
            assert events.seen == [(SessionEvent.EXPIRED, first), (SessionEvent.RENEWED, second)]
            await self.expire(store)
            await events.wait()
            assert [event for event, _ in events.seen] == [SessionEvent.EXPIRED, SessionEvent.RENEWED] * 2
            assert others.seen == []
            await store.close()
            with pytest.raises(StoreClosedError):
                await store.get("/")

        self.run(scenario)

    def test_ephemeral_nodes_end_with_a_session_that_expires(self) -> None:
        async def scenario(open_session: OpenSession) -> None:
            store, other = await open_session(), await open_session()
            await store.create("/kept", b"1")
            await other.create("/others", b"", ephemeral=True)
            await store.multi([Create("/e", b"", ephemeral=True), SetData("/e", b"data")])
            before = await other.exists("/e")
            assert before is not None
            seen, events = Seen(), SessionEvents(store)
            await other.get("/e", seen)
            await self.expire(store)
            await events.wait()
            assert await seen.wait() == [WatchEvent(EventKind.DELETED, "/e")]
            assert await store.exists("/e") is None
            assert (await store.get("/kept")).data == b"1"
            assert await store.exists("/others") is not None
            await store.create("/e", b"again", ephemeral=True)
            again = await other.exists("/e")
            assert again is not None
            assert (again.owner, again.version) == (store.session_id, 0)
            assert again.czxid > before.mzxid

        self.run(scenario)

    def test_the_watches_of_a_session_that_expires_are_gone(self) -> None:
        async def scenario(open_session: OpenSession) -> None:
            store, other = await open_session(), await open_session()
            await other.create("/d", b"")
            lost, kept, renewed, events = Seen(), Seen(), Seen(), SessionEvents(store)
            for session, seen in ((store, lost), (other, kept)):
                await session.get("/d", seen)
                await session.children("/d", seen)
                await session.exists("/later", seen)
            await self.expire(store)
            await events.wait()
            await store.get("/d", renewed)
            await other.set("/d", b"1")
            await other.create("/d/child")
            await other.create("/later")
            assert await renewed.wait() == [WatchEvent(EventKind.CHANGED, "/d")]
            assert await store.exists("/later") is not None
            assert await other.exists("/later") is not None
            assert len(kept.events) == 3
            assert lost.events == []

        self.run(scenario)

    def test_a_multi_is_done_as_a_whole(self) -> None:
        async def scenario(open_session: OpenSession) -> None:
            store = await open_session()
            await store.create("/epoch", b"1")
            created, stat, checked, deleted = await store.multi(
                [Create("/m", b"0"), SetData("/m", b"1", 0), Check("/epoch", 0), Delete("/epoch", 0)]
            )
            assert created == "/m"
            assert stat == await store.exists("/m")
            assert (checked, deleted) == (None, None)
            node = await store.get("/m")
            assert node.stat.version == 1
            assert node.stat.czxid == node.stat.mzxid
            assert await store.exists("/epoch") is None

        self.run(scenario)

    @pytest.mark.parametrize(
        ("last", "error"),
        [
            (Check("/there", 9), BadVersionError),
            (Check("/missing", 0), NoNodeError),
            (Create("/there"), NodeExistsError),
            (SetData("/missing", b""), NoNodeError),
            (Delete("/parent"), NotEmptyError),
        ],
    )
    def test_a_refused_multi_leaves_no_trace(self, last: Create | SetData | Delete | Check, error: type) -> None:
        async def scenario(open_session: OpenSession) -> None:
            store = await open_session()
            for path in ("/there", "/parent", "/parent/child", "/gone"):
                await store.create(path, b"as it was")
            before = await store.get_many(["/there", "/gone"])
            seen = Seen()
            await store.exists("/new", seen)
            await store.get("/there", seen)
            await store.children("/parent", seen)
            with pytest.raises(error):
                await store.multi(
                    [
                        Create("/new"),
                        Create("/parent/n", sequential=True),
                        SetData("/there", b"x"),
                        Delete("/gone"),
                        last,
                    ]
                )
            assert await store.exists("/new") is None
            assert await store.children("/parent") == ["child"]
            assert await store.get_many(["/there", "/gone"]) == before
            assert sorted(await store.children("/")) == sorted({*await store.children("/"), "gone", "parent", "there"})
            assert seen.events == []

        self.run(scenario)

    def test_transactions_stand_each_for_itself(self) -> None:
        async def scenario(open_session: OpenSession) -> None:
            store = await open_session()
            outcomes = await store.transactions(
                [[Create("/t")], [Create("/t/a"), Create("/t")], [Create("/t/b")], [Delete("/t/b", 7)]]
            )
            assert outcomes[0] == ["/t"]
            assert isinstance(outcomes[1], NodeExistsError)
            assert outcomes[2] == ["/t/b"]
            assert isinstance(outcomes[3], BadVersionError)
            assert await store.children("/t") == ["b"]
            nodes = await store.get_many(["/t", "/t/b"])
            assert [node is not None for node in nodes] == [True, True]

        self.run(scenario)

    def test_many_nodes_are_read_as_they_are_at_one_moment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Reading pauses between two nodes; changes of that time are neither seen in part nor missed by the watch."""
        monkeypatch.setattr(turns, "SLICE_S", 0.0)
        paths = [f"/n{number}" for number in range(50)]

        async def scenario(open_session: OpenSession) -> None:
            store, other = await open_session(), await open_session()
            await other.multi([Create(path, b"before") for path in paths])
            found: set[tuple[bytes | None, ...]] = set()
            for turns_before in self.TURNS:
                seen = Seen()
                await other.multi([SetData(path, b"before") for path in paths])
                reading = asyncio.ensure_future(store.get_many(paths, seen))
                for _ in range(turns_before):
                    await asyncio.sleep(0)
                read_first = reading.done()
                await other.multi([SetData(path, b"after") for path in paths])
                nodes = await reading
                data = tuple({node.data for node in nodes if node is not None})
                assert len(data) == 1, f"a mixture after {turns_before} turns"
                assert not read_first or data == (b"before",)
                found.add(data)
                if data == (b"before",):
                    events = await seen.wait(len(paths))
                    assert sorted(event.path for event in events) == sorted(paths)
            assert (b"before",) in found

        self.run(scenario)

    def test_data_watches_tell_once(self) -> None:
        async def scenario(open_session: OpenSession) -> None:
            store, other = await open_session(), await open_session()
            seen = Seen()
            assert await store.exists("/w", seen) is None
            assert await store.exists("/w", seen) is None
            with pytest.raises(NoNodeError):
                await store.get("/nowhere", seen)
            await other.create("/nowhere")
            await other.create("/w", b"")
            assert await seen.wait() == [WatchEvent(EventKind.CREATED, "/w")]
            await other.set("/w", b"unwatched")
            await store.get("/w", seen)
            await other.set("/w", b"watched")
            assert (await seen.wait())[1:] == [WatchEvent(EventKind.CHANGED, "/w")]
            assert [node.data for node in await store.get_many(["/w", "/none"], seen) if node] == [b"watched"]
            await other.create("/none")
            await other.delete("/w")
            assert (await seen.wait())[2:] == [WatchEvent(EventKind.DELETED, "/w")]

        self.run(scenario)

    def test_child_watches_tell_once(self) -> None:
        async def scenario(open_session: OpenSession) -> None:
            store, other = await open_session(), await open_session()
            await store.create("/c")
            seen = Seen()
            await store.children("/c", seen)
            await other.set("/c", b"not about children")
            await other.create("/c/one")
            assert await seen.wait() == [WatchEvent(EventKind.CHILDREN, "/c")]
            await other.create("/c/two")
            assert sorted(await store.children("/c", seen)) == ["one", "two"]
            await other.delete("/c/one")
            assert (await seen.wait())[1:] == [WatchEvent(EventKind.CHILDREN, "/c")]
            await other.delete("/c/two")
            await store.children("/c", seen)
            await other.delete("/c")
            assert (await seen.wait())[2:] == [WatchEvent(EventKind.DELETED, "/c")]

        self.run(scenario)

    def test_a_read_sees_what_was_written_before_it(self) -> None:
        async def scenario(open_session: OpenSession) -> None:
            store = await open_session()
            await store.create("/n", b"0")
            writes = [asyncio.ensure_future(store.set("/n", str(number).encode())) for number in range(20)]
            await asyncio.sleep(0)
            node = await store.get("/n")
            assert node.data == b"19"
            assert [stat.version for stat in await asyncio.gather(*writes)] == list(range(1, 21))

        self.run(scenario)

    def test_helpers_make_parents(self) -> None:
        async def scenario(open_session: OpenSession) -> None:
            store = await open_session()
            await ensure_path(store, "/x/y/z", b"leaf")
            await ensure_path(store, "/x/y/z", b"ignored")
            assert (await store.get("/x/y/z")).data == b"leaf"
            await set_or_create(store, "/x/y/z", b"set")
            await set_or_create(store, "/k/l", b"made")
            assert (await store.get("/x/y/z")).data == b"set"
            assert (await store.get("/k/l")).data == b"made"

        self.run(scenario)
