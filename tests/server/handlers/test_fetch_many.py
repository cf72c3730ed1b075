"""Fetches of so many partitions that they are read in slices."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from harness.client import Client, batch, frame, values_of
from kafkapy import turns
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from kafkapy.replication.fetching import MANY
from tests.server.harness import run, running_broker, until

COUNT = 2 * MANY + 50


@pytest.fixture(autouse=True)
def short_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make each slice one step long."""
    monkeypatch.setattr(turns, "FIRST_SLICE_S", 0)
    monkeypatch.setattr(turns, "SLICE_S", 0)


def _request(count: int = COUNT, offset: int = 0, **fields: Any) -> FetchRequest:
    asked = [FetchPartition(at, -1, offset, partition_max_bytes=1 << 20) for at in range(count)]
    return FetchRequest(
        topics=[FetchTopic("t", partitions=asked)] if count else [],
        max_wait_ms=fields.pop("max_wait_ms", 0),
        min_bytes=fields.pop("min_bytes", 1),
        **fields,
    )


def _found(response: Any) -> dict[int, list[bytes | None]]:
    return {
        each.partition_index: values_of(each.records)
        for topic in response.responses
        for each in topic.partitions
        if each.records
    }


@pytest.mark.parametrize("version", [0, 3, 4, 9, 11])
def test_every_partition_is_answered_in_order(tmp_path: Path, version: int) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t", partitions=COUNT - 10)
            await client.produce("t", batch(b"a"), partition=5)
            await client.produce("t", batch(b"b"), partition=MANY + 5)
            response = await client.ask(_request(), version)
            indexes = [each.partition_index for each in response.responses[0].partitions]
            assert indexes == list(range(COUNT))
            assert [each.error_code for each in response.responses[0].partitions] == [0] * (COUNT - 10) + [3] * 10
            assert list(_found(response)) == [5, MANY + 5]

    run(scenario())


@pytest.mark.parametrize("partition", [0, COUNT - 1])
def test_an_append_ends_the_wait(tmp_path: Path, partition: int) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client, other = await Client.connect(broker), await Client.connect(broker)
            await client.create_topic("t", partitions=COUNT)
            purgatory = broker.services.replica_manager.purgatory
            fetched = asyncio.ensure_future(client.ask(_request(max_wait_ms=60_000), 11))
            await until(lambda: len(purgatory) == 1)
            await other.produce("t", batch(b"v"), partition=partition)
            assert _found(await fetched) == {partition: [b"v"]}
            assert len(purgatory) == 0

    run(scenario())


def test_an_append_during_the_first_look_is_not_missed(tmp_path: Path) -> None:
    """It may come at any moment, before or after its partition was read or waited for."""

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client, other = await Client.connect(broker), await Client.connect(broker)
            await client.create_topic("t", partitions=COUNT)
            for pauses in range(0, 60, 3):
                end = pauses // 3
                fetched = asyncio.ensure_future(client.ask(_request(offset=end, max_wait_ms=60_000), 11))
                for _ in range(pauses):
                    await asyncio.sleep(0)
                for at in range(COUNT):
                    other.send(b"")
                    assert (await other.produce("t", batch(b"v"), partition=at)).base_offset == end
                assert _found(await fetched)

    run(scenario())


def test_the_wait_ends_at_max_wait(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t", partitions=COUNT)
            response = await client.ask(_request(max_wait_ms=20), 11)
            assert len(response.responses[0].partitions) == COUNT
            assert len(broker.services.replica_manager.purgatory) == 0

    run(scenario())


def test_the_wait_ends_when_the_client_disconnects(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client, other = await Client.connect(broker), await Client.connect(broker)
            await other.create_topic("t", partitions=COUNT)
            purgatory = broker.services.replica_manager.purgatory
            for count in (
                COUNT,
                3_000,
            ):  # the second one is decoded on the compute thread, and unknown partitions end its wait
                fetching = asyncio.ensure_future(client.ask(_request(count, max_wait_ms=2**31 - 1), 11))
                if count == COUNT:
                    await until(lambda: len(purgatory) > 0)
                    fetching.cancel()
                    await client.reset()
                    await until(lambda: len(purgatory) == 0)
                    client = await Client.connect(broker)
                else:
                    await fetching

    run(scenario())


@pytest.mark.parametrize("is_waiting", [False, True])
def test_a_client_that_closes_its_side_is_answered_at_once(tmp_path: Path, is_waiting: bool) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t", partitions=COUNT)
            purgatory = broker.services.replica_manager.purgatory
            client.send(frame(_request(max_wait_ms=2**31 - 1), 11))
            if is_waiting:
                await until(lambda: len(purgatory) == 1)
            client.writer.write_eof()
            response = client.decode(1, 11, await client.receive())
            assert len(response.responses[0].partitions) == COUNT
            assert len(purgatory) == 0

    run(scenario())


def test_a_session_gets_changed_partitions_only(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t", partitions=COUNT)
            opened = await client.ask(_request(session_epoch=0), 11)
            assert len(opened.responses[0].partitions) == COUNT
            await client.produce("t", batch(b"v"), partition=COUNT - 1)
            session = {"session_id": opened.session_id}
            news = await client.ask(_request(0, session_epoch=1, **session), 11)
            assert _found(news) == {COUNT - 1: [b"v"]}
            assert len(news.responses[0].partitions) == 1
            forgotten = [ForgottenTopic("t", partitions=list(range(10, COUNT)))]
            rest = await client.ask(
                _request(0, session_epoch=2, forgotten_topics_data=forgotten, max_wait_ms=5, **session), 11
            )
            assert rest.responses == []
            assert len(broker.services.fetch_sessions.get(opened.session_id).partitions) == 10  # type: ignore[union-attr]
            wrong = await client.ask(_request(session_epoch=7, **session), 11)
            assert wrong.error_code == 71
            unknown = await client.ask(_request(session_epoch=7, session_id=opened.session_id ^ 1), 11)
            assert unknown.error_code == 70

    run(scenario())
