import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kafkapy.clock import SystemClock
from kafkapy.metadata.embedded import EmbeddedStore
from kafkapy.metadata.exchange import consumer_offsets
from kafkapy.metadata.exchange.consumer_offsets import LONGEST_GROUP_ID, ConsumerOffsetZNode, FetchedTreeOffset
from kafkapy.metadata.store import BadVersionError, MetadataStore
from kafkapy.types import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
NONE = FetchedTreeOffset(3)


def run(scenario: Callable[[MetadataStore], Awaitable[Any]]) -> None:
    async def main() -> None:
        store = EmbeddedStore(None, SystemClock())
        await store.open()
        session = store.session()
        await session.create("/consumers")
        await scenario(session)
        await store.close()

    asyncio.run(main())


def test_committed_offsets_are_fetched() -> None:
    async def scenario(store: MetadataStore) -> None:
        assert await consumer_offsets.fetch(store, "g", [T0]) == {T0: NONE}
        assert await consumer_offsets.commit(store, "g", {T0: 5, T1: -7}) == {T0: 0, T1: 0}
        assert await consumer_offsets.commit(store, "g", {T0: 2**63 - 1}) == {T0: 0}
        assert await consumer_offsets.fetch(store, "g", [T1, T0]) == {
            T1: FetchedTreeOffset(0, -7),
            T0: FetchedTreeOffset(0, 2**63 - 1),
        }
        assert (await store.get("/consumers/g/offsets/t/1")).data == b"-7"

    run(scenario)


def test_offsets_written_by_clients_are_fetched() -> None:
    async def scenario(store: MetadataStore) -> None:
        await consumer_offsets.commit(store, "g", {T0: 5, T1: 6})
        await store.set("/consumers/g/offsets/t/0", None)
        await store.set("/consumers/g/offsets/t/1", b"six")
        assert await consumer_offsets.fetch(store, "g", [T0, T1]) == {T0: NONE, T1: FetchedTreeOffset(-1)}

    run(scenario)


@pytest.mark.parametrize("group_id", ["", "a//b", "a/", ".", "a/..", "a\0b", "a\x7f", "\ufff0", "\U0001f642"])
def test_groups_that_no_path_can_hold(group_id: str) -> None:
    async def scenario(store: MetadataStore) -> None:
        assert await consumer_offsets.commit(store, group_id, {T0: 5}) == {T0: -1}
        assert await consumer_offsets.fetch(store, group_id, [T0]) == {T0: FetchedTreeOffset(-1)}

    run(scenario)


@pytest.mark.parametrize("group_id", ["a/b", "a b", "ü", "...", "a.b"])
def test_groups_that_a_path_can_hold(group_id: str) -> None:
    async def scenario(store: MetadataStore) -> None:
        assert await consumer_offsets.commit(store, group_id, {T0: 5}) == {T0: 0}
        assert await consumer_offsets.fetch(store, group_id, [T0]) == {T0: FetchedTreeOffset(0, 5)}

    run(scenario)


def test_groups_with_long_names_write_nothing() -> None:
    async def scenario(store: MetadataStore) -> None:
        longest = "\u0101" * LONGEST_GROUP_ID
        assert await consumer_offsets.commit(store, longest, {T0: 5}) == {T0: 0}
        assert await consumer_offsets.commit(store, longest + "a", {T0: 5, T1: 6}) == {T0: 24, T1: 24}
        assert await consumer_offsets.fetch(store, longest + "a", [T0]) == {T0: NONE}
        assert await store.children("/consumers") == [longest]

    run(scenario)


def test_a_place_that_is_taken_by_something_else() -> None:
    async def scenario(store: MetadataStore) -> None:
        await store.create("/consumers/g", ephemeral=True)
        assert await consumer_offsets.commit(store, "g", {T0: 5, T1: 6}) == {T0: -1, T1: -1}

    run(scenario)


def test_a_store_that_is_closed() -> None:
    async def scenario(store: MetadataStore) -> None:
        await store.close()
        assert await consumer_offsets.commit(store, "g", {T0: 5}) == {T0: 56}
        assert await consumer_offsets.fetch(store, "g", [T0]) == {T0: FetchedTreeOffset(56)}

    run(scenario)


def test_a_refused_commit_does_not_affect_the_others() -> None:
    class Refusing:
        """A store in which one of two writes is refused."""

        async def transactions(self, multis: Any) -> Any:
            return [BadVersionError(multis[0][0].path), []]

    store: Any = Refusing()
    assert asyncio.run(consumer_offsets.commit(store, "g", {T0: 5, T1: 6})) == {T0: -1, T1: 0}


def test_the_path() -> None:
    assert ConsumerOffsetZNode.path("g", T1) == "/consumers/g/offsets/t/1"
