"""Fetch: limits, waiting, sessions, isolation, epochs."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from harness.client import Client, batch, fetch_request, frame, values_of
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from kafkapy.replication.partition import RemoteReplica
from kafkapy.types import TopicPartition
from tests.server.harness import run, running_broker


def only(response: Any) -> Any:
    return response.responses[0].partitions[0]


@pytest.mark.parametrize("version", range(4, 13))
def test_every_version_reads_the_written_records(version: int, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            await client.produce("t", batch(b"a", b"b"))
            await client.produce("t", batch(b"c"))
            partition = only(await client.fetch("t", version=version))
            assert (partition.error_code, partition.high_watermark, partition.last_stable_offset) == (0, 3, 3)
            assert values_of(partition.records) == [b"a", b"b", b"c"]
            assert values_of(only(await client.fetch("t", 2, version=version)).records) == [b"c"]
            empty = only(await client.fetch("t", 3, version=version))
            assert (empty.error_code, bytes(empty.records)) == (0, b"")

    run(scenario())


def test_errors_of_a_partition(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            assert only(await client.fetch("nowhere")).error_code == 3
            assert only(await client.fetch("t", partition=4)).error_code == 3
            out = only(await client.fetch("t", 1, max_wait_ms=100_000))
            assert (out.error_code, out.high_watermark, bytes(out.records)) == (1, -1, b"")
            assert only(await client.fetch("t", -1)).error_code == 1
            for epoch in (0, -1, -2):
                assert only(await client.fetch("t", current_leader_epoch=epoch)).error_code == 0
            assert only(await client.fetch("t", current_leader_epoch=5)).error_code == 75
            broker.services.replica_manager.partitions[TopicPartition("t", 0)].leader_epoch = 3
            assert only(await client.fetch("t", current_leader_epoch=2)).error_code == 74

    run(scenario())


def test_a_fetch_waits_for_enough_bytes(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client, other = await Client.connect(broker), await Client.connect(broker)
            await client.create_topic("t")
            size = len(batch(b"v"))
            client.send(frame(fetch_request("t", max_wait_ms=15_000, min_bytes=size * 2), 11))
            received = asyncio.create_task(client.receive())
            await other.produce("t", batch(b"v"))
            assert not received.done()
            assert len(broker.services.replica_manager.purgatory) == 1
            await other.produce("t", batch(b"w"))
            partition = only(client.decode(1, 11, await received))
            assert (values_of(partition.records), partition.high_watermark) == ([b"v", b"w"], 2)

    run(scenario())


def test_a_fetch_waits_no_longer_than_its_max_wait(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            before = broker.clock.monotonic_s()
            partition = only(await client.fetch("t", max_wait_ms=60, min_bytes=1))
            assert (partition.error_code, bytes(partition.records)) == (0, b"")
            assert broker.clock.monotonic_s() - before >= 0.055

    run(scenario())


def test_limits_of_partition_and_response(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t", partitions=3)
            size = len(batch(b"x" * 1000))
            for index in range(3):
                for _ in range(2):
                    await client.produce("t", batch(b"x" * 1000), partition=index)

            async def sizes(partition_max_bytes: int, max_bytes: int) -> list[int]:
                partitions = [FetchPartition(at, partition_max_bytes=partition_max_bytes) for at in range(3)]
                topics = [FetchTopic("t", partitions=partitions)]
                response = await client.ask(FetchRequest(max_bytes=max_bytes, min_bytes=1, topics=topics), 11)
                return [len(partition.records) for partition in response.responses[0].partitions]

            assert await sizes(1 << 20, 1 << 20) == [2 * size] * 3
            assert await sizes(size + 1, 1 << 20) == [size + 1] * 3  # the second batch is cut, as in Kafka
            assert await sizes(1, 1 << 20) == [size, 0, 0]  # one whole batch, whatever the limits say
            assert await sizes(1 << 20, 2 * size) == [2 * size, 0, 0]
            assert await sizes(1 << 20, 3 * size) == [2 * size, size, 0]

    run(scenario())


async def session_fetch(
    client: Client, session_id: int, epoch: int, offsets: dict[int, int], forget: tuple[int, ...] = (), **fields: Any
) -> Any:
    partitions = [FetchPartition(index, fetch_offset=at, partition_max_bytes=1 << 20) for index, at in offsets.items()]
    request = FetchRequest(
        min_bytes=0,
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic("t", partitions=partitions)] if partitions else [],
        forgotten_topics_data=[ForgottenTopic("t", partitions=list(forget))] if forget else [],
        **fields,
    )
    return await client.ask(request, 11)


def indexes(response: Any) -> list[int]:
    return [partition.partition_index for topic in response.responses for partition in topic.partitions]


def test_an_incremental_response_has_only_changed_partitions(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t", partitions=3)
            full = await session_fetch(client, 0, 0, {0: 0, 1: 0, 2: 0})
            session = full.session_id
            assert session > 0
            assert indexes(full) == [0, 1, 2]
            assert indexes(await session_fetch(client, session, 1, {})) == []
            await client.produce("t", batch(b"v"), partition=1)
            news = await session_fetch(client, session, 2, {})
            assert indexes(news) == [1]
            assert values_of(only(news).records) == [b"v"]
            assert indexes(await session_fetch(client, session, 3, {1: 1}, forget=(0,))) == []
            await client.produce("t", batch(b"v"), partition=0)
            assert indexes(await session_fetch(client, session, 4, {})) == []
            assert (await session_fetch(client, session, 9, {})).error_code == 71
            assert (await session_fetch(client, session + 1, 1, {})).error_code == 70
            final = await session_fetch(client, session, -1, {0: 0})
            assert (final.session_id, indexes(final)) == (0, [0])
            assert (await session_fetch(client, session, 5, {})).error_code == 70

    run(scenario())


def test_a_session_repeats_partitions_with_errors_and_drops_empty_ones(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            session = (await session_fetch(client, 0, 0, {0: 0, 5: 0})).session_id
            for epoch in (1, 2):
                again = await session_fetch(client, session, epoch, {})
                assert [(at.partition_index, at.error_code) for at in again.responses[0].partitions] == [(5, 3)]
            ended = await session_fetch(client, session, 3, {}, forget=(0, 5))
            assert (ended.session_id, indexes(ended)) == (0, [])
            assert (await session_fetch(client, session, 4, {})).error_code == 70

    run(scenario())


def test_no_session_is_opened_when_the_cache_is_full(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, max__incremental__fetch__session__cache__slots="0") as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            full = await session_fetch(client, 0, 0, {0: 0})
            assert (full.session_id, indexes(full)) == (0, [0])

    run(scenario())


def test_a_partition_that_a_response_carried_moves_to_the_end_of_the_session(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t", partitions=2)
            session = (await session_fetch(client, 0, 0, {0: 0, 1: 0})).session_id
            for index in range(2):
                await client.produce("t", batch(b"x" * 100), partition=index)
            first = await session_fetch(client, session, 1, {}, max_bytes=1)
            assert [len(at.records) > 0 for at in first.responses[0].partitions] == [True, False]
            for epoch, index in ((2, 0), (3, 1)):  # both were told of, then the first alone
                then = await session_fetch(client, session, epoch, {}, max_bytes=1)
                assert indexes(then) == [index]
                assert len(only(then).records) > 0

    run(scenario())


def test_read_committed_stops_at_open_transactions_and_names_aborted_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            await client.produce("t", batch(b"v"))
            log = broker.services.replica_manager.partitions[TopicPartition("t", 0)].log
            open_batch = bytearray(
                batch(b"open", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
            )
            broker.services.replica_manager.append(log.topic_partition, open_batch, from_client=False)
            seen = only(await client.fetch("t", isolation_level=1))
            assert (values_of(seen.records), seen.last_stable_offset, seen.high_watermark) == ([b"v"], 1, 2)
            assert seen.aborted_transactions == []
            everything = only(await client.fetch("t", isolation_level=0))
            assert values_of(everything.records) == [b"v", b"open"]
            assert everything.aborted_transactions is None
            monkeypatch.setattr(type(log), "aborted_transactions", lambda *_: [(7, 1)])
            aborted = only(await client.fetch("t", isolation_level=1)).aborted_transactions
            assert [(one.producer_id, one.first_offset) for one in aborted] == [(7, 1)]

    run(scenario())


def test_an_unknown_isolation_level_fails_a_request_for_a_known_partition(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            answer = await session_fetch(client, 0, -1, {0: 0, 9: 0}, isolation_level=2)
            codes = [each.error_code for each in answer.responses[0].partitions]
            assert (answer.error_code, answer.session_id, codes) == (-1, 0, [-1, -1])
            unknown = await session_fetch(client, 0, -1, {9: 0}, isolation_level=2)
            assert (unknown.error_code, only(unknown).error_code) == (0, 3)

    run(scenario())


def test_an_error_for_an_old_version_does_not_change_the_session(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t", compression__type="zstd")
            opening = FetchRequest(session_epoch=0, topics=[FetchTopic("t", partitions=[FetchPartition(0)])])
            full = await client.ask(opening, 9)
            assert only(full).error_code == 76
            again = await client.ask(FetchRequest(session_id=full.session_id, session_epoch=1), 9)
            assert (again.error_code, indexes(again)) == (0, [])

    run(scenario())


def test_a_followers_fetch_moves_the_high_watermark(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            partition = broker.services.replica_manager.partitions[TopicPartition("t", 0)]
            partition.remotes[9] = RemoteReplica(9, broker.clock.now_ms())
            await client.produce("t", batch(b"v"))
            assert values_of(only(await client.fetch("t")).records) == []
            follower = only(await client.fetch("t", replica_id=9))
            assert (values_of(follower.records), follower.high_watermark) == ([b"v"], 0)
            assert only(await client.fetch("t", 1, replica_id=9)).high_watermark == 1
            assert values_of(only(await client.fetch("t")).records) == [b"v"]
            stranger = only(await client.fetch("t", replica_id=8))
            assert (stranger.error_code, bytes(stranger.records)) == (0, b"")

    run(scenario())


def test_a_diverging_follower_gets_the_epoch_and_its_end_offset(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            partition = broker.services.replica_manager.partitions[TopicPartition("t", 0)]
            partition.remotes[9] = RemoteReplica(9, broker.clock.now_ms())
            await client.produce("t", batch(b"v"))
            request = fetch_request("t", 5, replica_id=9)
            request.topics[0].partitions[0].last_fetched_epoch = 0
            diverged = only(await client.ask(request, 12))
            assert (diverged.error_code, diverged.diverging_epoch.epoch, diverged.diverging_epoch.end_offset) == (
                0,
                0,
                1,
            )
            request.topics[0].partitions[0].last_fetched_epoch = 4
            assert only(await client.ask(request, 12)).error_code == 1
            request.topics[0].partitions[0].fetch_offset = 1
            request.topics[0].partitions[0].last_fetched_epoch = 0
            assert only(await client.ask(request, 12)).diverging_epoch is None

    run(scenario())
