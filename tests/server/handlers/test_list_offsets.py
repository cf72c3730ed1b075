"""ListOffsets: earliest, latest, by time; the effects of epochs and isolation levels."""

import os
from pathlib import Path
from typing import Any

import pytest

from harness.client import EPOCH_MS, Client, batch, frame
from kafkapy.protocol.constants import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
)
from kafkapy.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkapy.records.errors import CorruptRecordError
from kafkapy.records.record import Record, encode_batch
from kafkapy.server.handlers import list_offsets
from kafkapy.storage.log.log import Log
from kafkapy.storage.log.segment import TimestampOffset
from kafkapy.storage.log.time_search import BatchSearch
from kafkapy.types import TopicPartition
from tests.server.harness import run, running_broker


async def ask(client: Client, timestamp: int, version: int = 5, **fields: Any) -> Any:
    isolation_level = fields.pop("isolation_level", 0)
    replica_id = fields.pop("replica_id", -1)
    topic = fields.pop("topic", "t")
    partition = ListOffsetsPartition(0, timestamp=timestamp, **fields)
    request = ListOffsetsRequest(replica_id, isolation_level, [ListOffsetsTopic(topic, [partition])])
    return (await client.ask(request, version)).topics[0].partitions[0]


@pytest.mark.parametrize("version", range(1, 12))
def test_every_version_finds_both_ends_and_times(version: int, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            epoch = 0 if version >= 4 else -1
            assert (await ask(client, LATEST, version)).offset == 0
            await client.produce("t", batch(b"a", b"b", b"c"))
            latest = await ask(client, LATEST, version)
            assert (latest.error_code, latest.offset, latest.timestamp, latest.leader_epoch) == (0, 3, -1, epoch)
            earliest = await ask(client, EARLIEST, version)
            assert (earliest.offset, earliest.timestamp, earliest.leader_epoch) == (0, -1, epoch)
            found = await ask(client, EPOCH_MS + 1, version)
            assert (found.offset, found.timestamp, found.leader_epoch) == (1, EPOCH_MS + 1, epoch)
            none = await ask(client, EPOCH_MS + 100, version)
            assert (none.error_code, none.offset, none.timestamp, none.leader_epoch) == (0, -1, -1, -1)

    run(scenario())


FIRST_VERSIONS = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}


@pytest.mark.parametrize("version", range(5, 12))
def test_special_timestamps(version: int, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            empty = await ask(client, MAX_TIMESTAMP, version)
            assert (empty.error_code, empty.offset) == (0 if version != 6 else 35, -1)
            await client.produce("t", batch(b"a", b"b"))
            expected = {MAX_TIMESTAMP: 1, EARLIEST_LOCAL: 0, LATEST_TIERED: -1, EARLIEST_PENDING_UPLOAD: -1, -7: 0}
            for timestamp, offset in expected.items():
                found = await ask(client, timestamp, version)
                if version == 5:  # as in 2.7.2 it is a time before all records
                    assert (found.error_code, found.offset) == (0, 0)
                elif version < FIRST_VERSIONS.get(timestamp, 99):
                    assert (found.error_code, found.offset) == (35, -1)
                else:
                    assert (found.error_code, found.offset) == (0, offset)

    run(scenario())


def test_version_0_lists_segments(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t", segment__bytes="300")
            for _ in range(3):
                await client.produce("t", batch(b"x" * 200))
            assert (await ask(client, LATEST, 0, max_num_offsets=10)).old_style_offsets == [3, 2, 1, 0]
            assert (await ask(client, LATEST, 0, max_num_offsets=1)).old_style_offsets == [3]
            assert (await ask(client, EARLIEST, 0, max_num_offsets=5)).old_style_offsets == [0]
            assert (await ask(client, LATEST, 0, max_num_offsets=0)).error_code == 0
            assert (await ask(client, LATEST, 0, max_num_offsets=-1)).error_code == -1
            assert (await ask(client, 2**62, 0, max_num_offsets=5)).old_style_offsets == [3, 2, 1, 0]
            for number, path in enumerate(sorted((tmp_path / "data" / "t-0").glob("*.log"))):
                os.utime(path, ns=(0, (EPOCH_MS + number) * 1_000_000))
            for number in range(3):
                answer = await ask(client, EPOCH_MS + number, 0, max_num_offsets=5)
                assert answer.old_style_offsets == [2, 1, 0][2 - number :]
            assert (await ask(client, EPOCH_MS - 1, 0, max_num_offsets=5)).old_style_offsets == []
            log = broker.services.replica_manager.partitions[TopicPartition("t", 0)].log
            log.high_watermark = 1
            assert (await ask(client, LATEST, 0, max_num_offsets=9)).old_style_offsets == [1, 1, 0]
            assert (await ask(client, LATEST, 0, max_num_offsets=9, replica_id=-2)).old_style_offsets == [3, 2, 1, 0]

    run(scenario())


def test_version_0_looks_once_at_a_partition_that_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0
    segment_times = Log.segment_times

    def counted(self: Log) -> list[tuple[int, int]]:
        nonlocal looks
        looks += 1
        return segment_times(self)

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t", segment__bytes="300")
            for _ in range(3):
                await client.produce("t", batch(b"x" * 200))
            asked = [(LATEST, 10), (EARLIEST, 10), (LATEST, 2), (2**62, 10), (LATEST, -1)] * 20
            partitions = [ListOffsetsPartition(0, timestamp=time, max_num_offsets=count) for time, count in asked]
            monkeypatch.setattr(Log, "segment_times", counted)
            request = ListOffsetsRequest(-1, 0, [ListOffsetsTopic("t", partitions)])
            answers = (await client.ask(request, 0)).topics[0].partitions
            expected = [(0, [3, 2, 1, 0]), (0, [0]), (0, [3, 2]), (0, [3, 2, 1, 0]), (-1, [])] * 20
            assert [(each.error_code, each.old_style_offsets) for each in answers] == expected
            assert looks == 1

    run(scenario())


def test_version_0_ends_a_connection_that_asks_for_very_many_offsets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_offsets, "MOST_SEGMENT_STARTS", 10)

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            await client.produce("t", batch(b"x"))
            partitions = [ListOffsetsPartition(0, timestamp=LATEST, max_num_offsets=5)] * 5
            answers = (await client.ask(ListOffsetsRequest(-1, 0, [ListOffsetsTopic("t", partitions)]), 0)).topics
            assert [each.old_style_offsets for each in answers[0].partitions] == [[1, 0]] * 5
            client.send(frame(ListOffsetsRequest(-1, 0, [ListOffsetsTopic("t", [*partitions, partitions[0]])]), 0))
            assert await client.is_closed()

    run(scenario())


def test_a_format_without_timestamps_has_no_offsets_by_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t", message__format__version="0.9.0")
            await client.produce("t", batch(b"a"))
            assert [(await ask(client, EPOCH_MS, version)).error_code for version in (1, 5)] == [43, 43]
            latest = await ask(client, LATEST, 5)
            assert (latest.error_code, latest.offset) == (0, 1)
            earliest = await ask(client, EARLIEST, 5)
            assert (earliest.error_code, earliest.offset, earliest.leader_epoch) == (0, 0, -1)

    run(scenario())


def test_the_latest_offset_depends_on_isolation_level_and_replica_id(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            await client.produce("t", batch(b"a"))
            partition = broker.services.replica_manager.partitions[TopicPartition("t", 0)]
            transaction = batch(b"open", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
            broker.services.replica_manager.append(partition.topic_partition, bytearray(transaction), from_client=False)
            await client.produce("t", batch(b"b"))
            partition.log.high_watermark = 2
            assert (await ask(client, LATEST)).offset == 2
            assert (await ask(client, LATEST, isolation_level=1)).offset == 1
            assert (await ask(client, LATEST, replica_id=9)).offset == 3
            assert (await ask(client, LATEST, isolation_level=2)).error_code == -1
            assert (await ask(client, LATEST, isolation_level=2, replica_id=9)).offset == 3

    run(scenario())


def test_a_new_leader_does_not_answer_before_its_epoch_is_replicated(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            await client.produce("t", batch(b"a"))
            broker.services.replica_manager.partitions[TopicPartition("t", 0)].epoch_start_offset = 5
            assert (await ask(client, LATEST, 5)).error_code == 78
            assert (await ask(client, LATEST, 4)).error_code == 5
            assert (await ask(client, EARLIEST, 4)).error_code == 0
            found = await ask(client, EPOCH_MS, 5)
            assert (found.error_code, found.offset) == (0, 0)
            assert (await ask(client, EPOCH_MS + 1000, 5)).error_code == 78

    run(scenario())


def test_errors(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            assert (await ask(client, LATEST, topic="nowhere")).error_code == 3
            assert (await ask(client, LATEST, current_leader_epoch=0)).error_code == 0
            assert (await ask(client, LATEST, current_leader_epoch=1)).error_code == 75
            twice = ListOffsetsRequest(-1, 0, [ListOffsetsTopic("t", [ListOffsetsPartition(0, timestamp=LATEST)] * 2)])
            assert [one.error_code for one in (await client.ask(twice, 5)).topics[0].partitions] == [42, 42]
            broker.services.replica_manager.partitions[TopicPartition("t", 0)].is_leader = False
            assert (await ask(client, LATEST)).error_code == 6

    run(scenario())


@pytest.mark.parametrize("version", range(1, 6))
def test_compressed_batches_are_searched_on_the_compute_thread(version: int, tmp_path: Path) -> None:
    """One of 600 kB decompressed to 800,000 records, whose search held the event loop for three seconds."""

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            compute = broker.services.compute
            for codec, runs in ((0, 0), (1, 1)):
                first = (await client.produce("t", batch(b"a", b"b", b"c", compression=codec))).base_offset
                log = broker.services.replica_manager.partitions[TopicPartition("t", 0)].log
                log.advance_log_start_offset(first)
                for _ in range(3):
                    before = compute.run_count
                    found = await ask(client, EPOCH_MS + 1, version)
                    assert (found.error_code, found.offset, found.timestamp) == (0, first + 1, EPOCH_MS + 1)
                    assert (await ask(client, EPOCH_MS + 9, version)).offset == -1
                    assert (await ask(client, LATEST, version)).offset == first + 3
                    assert compute.run_count - before == runs

    run(scenario())


def test_the_search_goes_on_behind_a_compressed_batch(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            records = [Record(None, b"v", EPOCH_MS + ahead) for ahead in (90, 10)]
            for codec in (1, 0):
                await client.produce("t", encode_batch(records, compression=codec))
            broker.services.replica_manager.partitions[TopicPartition("t", 0)].log.advance_log_start_offset(1)
            assert (await ask(client, EPOCH_MS + 50)).offset == 2

    run(scenario())


@pytest.mark.parametrize(("change", "code"), [("truncate", 0), ("delete", 6), ("damage", 2)])
def test_the_log_may_change_during_a_search(
    change: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = BatchSearch.run

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            await client.produce("t", batch(b"a", compression=1))
            partitions = broker.services.replica_manager.partitions

            def changed(self: BatchSearch) -> TimestampOffset | None:
                if change == "damage":
                    raise CorruptRecordError("no gzip")
                if change == "truncate":
                    partitions[TopicPartition("t", 0)].log.truncate_to(0)  # the event loop is idle meanwhile
                else:
                    partitions.clear()
                return search(self)

            monkeypatch.setattr(BatchSearch, "run", changed)
            answer = await ask(client, EPOCH_MS)
            assert (answer.error_code, answer.offset, answer.timestamp) == (code, -1, -1)

    run(scenario())
