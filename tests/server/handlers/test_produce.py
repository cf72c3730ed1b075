"""Produce: acks, errors per partition, sizes, timestamps, idempotence."""

import asyncio
import errno
import threading
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from harness.client import EPOCH_MS, Client, batch, frame, produce_request, values_of
from kafkapy.clock import SystemClock
from kafkapy.platform.files import Files
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
from kafkapy.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkapy.records.batch import iterate_headers
from kafkapy.records.compression import CODEC_NAMES
from kafkapy.records.record import Record, encode_batch, encode_legacy, read_records
from kafkapy.records.validate import (
    INLINE_DECOMPRESSED_SIZE,
    INLINE_RECORDS,
    MAX_LISTED_FAULTS,
    ProducePolicy,
    ValidatedBatch,
    validate_produced,
)
from kafkapy.replication.partition import RemoteReplica
from kafkapy.server.lifecycle.broker import BrokerServer
from kafkapy.storage.log.log import Log
from kafkapy.turns import Steps, turns
from kafkapy.types import TopicPartition
from tests.server.harness import run, running_broker, until


@pytest.mark.parametrize("version", range(3, 9))
def test_every_version_appends(version: int, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            for offset in range(2):
                answer = await client.produce("t", batch(b"v"), version=version)
                assert (answer.error_code, answer.base_offset, answer.log_append_time_ms) == (0, offset, -1)
                assert answer.log_start_offset == (0 if version >= 5 else -1)

    run(scenario())


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize("magic", range(2))
def test_old_versions_append_message_sets(version: int, magic: int, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            for offset in range(2):
                data = encode_legacy([Record(b"k", b"v", EPOCH_MS, (), 0)], magic)
                answer = await client.produce("t", data, version=version)
                assert (answer.error_code, answer.base_offset) == (0, offset)

    run(scenario())


def test_errors_found_before_the_log_are_answered_without_its_start_offset(tmp_path: Path) -> None:
    message = encode_legacy([Record(b"k", b"v", EPOCH_MS, (), 0)], 1)
    wrong, zstd = batch(b"v")[:-1] + b"x", batch(b"v", compression=4)

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            for data, version, acks, code in (
                (message, 8, 1, 87), (message, 8, 5, 87), (batch(b"v"), 8, 5, 21), (zstd, 6, 1, 76),
                (wrong, 8, 1, 2), (wrong + b"tail", 8, 1, 2), (batch(b"v", is_transactional=True) + b"tail", 8, 1, 53),
            ):  # fmt: skip
                request = produce_request("t", data, acks=acks)
                answer = (await client.ask(request, version)).responses[0].partition_responses[0]
                assert (answer.error_code, answer.base_offset, answer.log_start_offset) == (code, -1, -1)
            answer = await client.produce("t", batch(b"v", base_offset=5))
            assert (answer.error_code, answer.log_start_offset) == (87, 0)

    run(scenario())


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_other_requests_are_served_between_partitions(
    acks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkapy.turns.FIRST_SLICE_S", 0)
    monkeypatch.setattr("kafkapy.turns.SLICE_S", 0)

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t", partitions=20)
            data = [PartitionProduceData(at, batch(b"%d" % at)) for at in range(20)]
            request = ProduceRequest(None, acks, 1000, [TopicProduceData("t", partition_data=data)])
            logs = [broker.services.replica_manager.partition(TopicPartition("t", at)).log for at in range(20)]
            seen = set()

            def look() -> None:
                seen.add(sum(log.log_end_offset for log in logs))
                if 20 not in seen:
                    asyncio.get_running_loop().call_soon(look)

            client.send(frame(request, 8))
            look()
            if acks:
                answer = Client.decode(0, 8, await client.receive()).responses[0].partition_responses
                assert [(each.index, each.error_code, each.base_offset) for each in answer] == [
                    (at, 0, 0) for at in range(20)
                ]
            assert only_values(await client.fetch("t", partition=19)) == [b"19"]
            assert len(seen) > 10

    run(scenario())


def only_values(response: Any) -> list[bytes | None]:
    return values_of(response.responses[0].partitions[0].records)


@pytest.mark.parametrize(("size", "is_parsed"), [(26, False), (50, False), (51, True), (60, True)])
def test_a_batch_that_is_shorter_than_its_header(size: int, is_parsed: bool, tmp_path: Path) -> None:
    """It is corrupt; below version 3 Kafka can't parse a request whose first batch has no producer id."""

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            data = batch(b"v")
            cut = data[:8] + (size - 12).to_bytes(4, "big") + data[12:size]
            assert (await client.produce("t", cut)).error_code == ErrorCode.CORRUPT_MESSAGE
            client.writer.write(frame(produce_request("t", cut), 2))
            assert await client.is_closed() != is_parsed

    run(scenario())


@pytest.mark.parametrize("acks", [1, -1])
def test_many_topics_and_partitions_each_with_its_own_error(acks: int, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("a", partitions=2)
            await client.create_topic("b")
            wanted: list[tuple[str, int, bytes]] = [
                ("a", 0, batch(b"1")), ("a", 7, batch(b"1")), ("a", 1, batch(b"1") * 2),
                ("b", 0, batch(b"1", b"2")), ("none", 0, batch(b"1")),
            ]  # fmt: skip
            topics = [
                TopicProduceData(
                    name, partition_data=[PartitionProduceData(at, data) for t, at, data in wanted if t == name]
                )
                for name in ("a", "b", "none")
            ]
            response = await client.ask(ProduceRequest(None, acks, 1000, topics), 8)
            codes = [
                (topic.name, partition.index, partition.error_code, partition.base_offset)
                for topic in response.responses
                for partition in topic.partition_responses
            ]
            assert codes == [("a", 0, 0, 0), ("a", 7, 3, -1), ("a", 1, 87, -1), ("b", 0, 0, 0), ("none", 0, 3, -1)]

    run(scenario())


def test_a_partition_that_is_named_twice_gets_the_last_batch_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            data = [
                TopicProduceData(name="empty"),
                *(
                    TopicProduceData(name="t", partition_data=[PartitionProduceData(0, batch(value))])
                    for value in (b"first", b"last")
                ),
            ]
            response = await client.ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=data), 8)
            (topic,) = response.responses
            assert [(each.error_code, each.base_offset) for each in topic.partition_responses] == [(0, 0)]
            assert only_values(await client.fetch("t")) == [b"last"]

    run(scenario())


def test_acks_0_is_not_answered(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            client.send(frame(produce_request("t", batch(b"quiet"), acks=0), 8))
            assert (await client.produce("t", batch(b"loud"))).base_offset == 1
            fetched = await client.fetch("t")
            assert values_of(fetched.responses[0].partitions[0].records) == [b"quiet", b"loud"]

    run(scenario())


@pytest.mark.parametrize("acks", [2, -2, 32767])
def test_other_acks_are_refused(acks: int, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            assert (await client.produce("t", batch(b"v"), acks=acks)).error_code == 21

    run(scenario())


@pytest.mark.parametrize(("transactional_id", "is_transactional", "code"), [
    ("x", True, 0), (None, True, 53), ("x", False, 0),
])  # fmt: skip
def test_transactional_batches_need_a_transactional_id(
    transactional_id: str | None, is_transactional: bool, code: int, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, transaction__partition__verification__enable="false") as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            records = batch(b"v", producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=is_transactional)
            response = await client.ask(produce_request("t", records, transactional_id=transactional_id), 8)
            assert response.responses[0].partition_responses[0].error_code == code

    run(scenario())


def test_internal_topics_are_for_the_admin_client_only(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("__consumer_offsets")
            records = batch(b"v", compression=0)
            assert (await client.produce("__consumer_offsets", records)).error_code == 17
            client.send(frame(produce_request("__consumer_offsets", records), 8, client_id="__admin_client"))
            response = client.decode(0, 8, await client.receive())
            # accepted here, and then refused by the log: a record without a key in a compacted topic
            assert response.responses[0].partition_responses[0].error_code in (0, 87)

    run(scenario())


def test_too_large_batches_are_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, message__max__bytes="2000") as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            await client.create_topic("larger", max__message__bytes="5000")
            await client.create_topic("segment", max__message__bytes="50000", segment__bytes="3000")
            assert (await client.produce("t", batch(b"x" * 3000))).error_code == 10
            assert (await client.produce("larger", batch(b"x" * 3000))).error_code == 0
            assert (await client.produce("segment", batch(b"x" * 4000))).error_code == 18

    run(scenario())


def test_log_append_time_is_answered_and_stored(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t", message__timestamp__type="LogAppendTime")
            before = broker.clock.now_ms()
            answer = await client.produce("t", batch(b"v"))
            assert before <= answer.log_append_time_ms <= broker.clock.now_ms()

    run(scenario())


def test_rejected_records_are_listed_in_the_answer(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t", cleanup__policy="compact")
            records = [Record(offset=at, timestamp=EPOCH_MS, key=key, value=b"v", headers=()) for at, key in
                       enumerate([b"k", None, b"k", None])]  # fmt: skip
            answer = await client.produce("t", bytes(encode_batch(records)))
            assert answer.error_code == 87
            assert [error.batch_index for error in answer.record_errors] == [1, 3]
            assert answer.error_message

    run(scenario())


def test_the_partitions_of_a_request_share_the_number_of_records_that_are_listed(tmp_path: Path) -> None:
    """A small request can have many compressed batches: with a full list for each, its response had 480 MB."""

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t", partitions=3, cleanup__policy="compact")
            data = [PartitionProduceData(index, batch(*[b"v"] * 600)) for index in range(3)]
            request = ProduceRequest(None, 1, 1000, [TopicProduceData("t", partition_data=data)])
            answers = (await client.ask(request, 8)).responses[0].partition_responses
            assert [len(each.record_errors) for each in answers] == [600, MAX_LISTED_FAULTS - 600, 0]
            assert {each.error_code for each in answers} == {87}
            assert all(each.error_message for each in answers)

    run(scenario())


def test_an_idempotent_producers_duplicate_gets_its_first_offset(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")

            async def send(sequence: int) -> tuple[int, int]:
                records = batch(b"v", b"w", producer_id=5, producer_epoch=0, base_sequence=sequence)
                answer = await client.produce("t", records, acks=-1)
                return answer.error_code, answer.base_offset

            assert await send(0) == (0, 0)
            assert await send(2) == (0, 2)
            assert await send(0) == (0, 0)
            assert await send(2) == (0, 2)
            assert await send(9) == (45, -1)
            assert await send(4) == (0, 4)

    run(scenario())


@pytest.mark.parametrize(("outcome", "code"), [("caught up", 0), ("time-out", 7), ("not leader", 6)])
def test_acks_all_waits_for_the_in_sync_replicas(outcome: str, code: int, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            replicas = broker.services.replica_manager
            partition = replicas.partitions[TopicPartition("t", 0)]
            partition.remotes[9] = RemoteReplica(9, broker.clock.now_ms())
            request: Any = produce_request("t", batch(b"v"), acks=-1)
            request.timeout_ms = 50 if outcome == "time-out" else 10_000
            client.send(frame(request, 8))
            await until(lambda: len(replicas.purgatory) == 1)
            if outcome == "caught up":
                partition.follower_fetched(9, 1, 0)
                replicas.purgatory.check(partition.topic_partition)
            elif outcome == "not leader":
                replicas.stop_replica(partition.topic_partition, -1, delete=False)
            answer = client.decode(0, 8, await client.receive()).responses[0].partition_responses[0]
            assert (answer.error_code, answer.base_offset) == (code, 0)

    run(scenario())


def test_too_few_in_sync_replicas(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t", min__insync__replicas="2")
            assert (await client.produce("t", batch(b"v"), acks=-1)).error_code == 19
            assert (await client.produce("t", batch(b"v"), acks=1)).error_code == 0

    run(scenario())


class HeldDisk:
    """Fsyncs wait until the test lets them succeed or fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.go = threading.Event()
        self.refusals = 0
        self.syncs = 0
        real = Files.sync_path

        def sync_path(files: Files, path: str) -> None:
            if path.endswith(".log"):
                self.go.wait(10)
                self.syncs += 1
                if self.refusals:
                    self.refusals -= 1
                    raise OSError(errno.ENOSPC, "no room")
            real(files, path)

        monkeypatch.setattr(Files, "sync_path", sync_path)


def _ends_at(log: Log, offset: int) -> bool:
    return log.log_end_offset == offset


@pytest.mark.parametrize("acks", [1, -1])
def test_with_flush_ack_records_are_acknowledged_and_readable_after_the_fsync(
    acks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = HeldDisk(monkeypatch)

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            clients = [await Client.connect(broker) for _ in range(6)]
            await clients[0].create_topic("t", kafkapy__flush="ack")
            log = broker.services.replica_manager.partition(TopicPartition("t", 0)).log
            answers = []
            for number, client in enumerate(clients[1:]):
                answers.append(asyncio.create_task(client.produce("t", batch(b"v"), acks=acks)))
                await until(partial(_ends_at, log, number + 1))
            assert not any(answer.done() for answer in answers)
            shown = (await clients[0].fetch("t")).responses[0].partitions[0]
            assert (values_of(shown.records), shown.high_watermark) == ([], 0)
            disk.go.set()
            told = [(answer.error_code, answer.base_offset) for answer in [await each for each in answers]]
            assert told == [(0, offset) for offset in range(5)]
            assert disk.syncs == 2  # one for the first batch, and one for all later ones
            shown = (await clients[0].fetch("t")).responses[0].partitions[0]
            assert (len(values_of(shown.records)), shown.high_watermark) == (5, 5)

    run(scenario())


@pytest.mark.parametrize("acks", [1, -1])
def test_with_flush_ack_a_failed_fsync_is_an_error_and_the_next_append_succeeds(
    acks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = HeldDisk(monkeypatch)
    disk.go.set()
    fields = {"producer_id": 1000, "producer_epoch": 0, "base_sequence": 0}

    async def scenario() -> None:
        async with running_broker(tmp_path, **{"kafkapy.flush": "ack"}) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            disk.refusals = 1
            assert (await client.produce("t", batch(b"v", **fields), acks=acks)).error_code == 56
            assert (await client.fetch("t")).responses[0].partitions[0].high_watermark == 0
            again = await client.produce("t", batch(b"v", **fields), acks=acks)
            assert (again.error_code, again.base_offset) == (0, 0)
            shown = (await client.fetch("t")).responses[0].partitions[0]
            assert (values_of(shown.records), shown.high_watermark) == ([b"v"], 1)

    run(scenario())


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_batch_with_much_compressed_data_is_decompressed_on_the_compute_thread(codec: str, tmp_path: Path) -> None:
    large, too_large = (_compressed(codec, size) for size in (20_000_000, 70_000_000))

    async def scenario() -> None:
        async with running_broker(tmp_path, message__max__bytes="10000000") as broker:
            client, other = await Client.connect(broker), await Client.connect(broker)
            await client.create_topic("t", partitions=2)
            data = [PartitionProduceData(0, large), PartitionProduceData(1, too_large), PartitionProduceData(2, large)]
            client.send(frame(ProduceRequest(None, 1, 1000, [TopicProduceData("t", partition_data=data)]), 8))
            await other.ask(ApiVersionsRequest(), 0)
            answer = Client.decode(0, 8, await client.receive()).responses[0].partition_responses
            assert [(each.error_code, each.base_offset) for each in answer] == [(0, 0), (10, -1), (3, -1)]
            fetched = await client.fetch("t", partition_max_bytes=10_000_000)
            (value,) = only_values(fetched)
            assert value == bytes(20_000_000)
            assert (await client.produce("t", batch(b"v"))).base_offset == 1

    run(scenario())


def test_a_topic_is_deleted_while_its_batch_is_decompressed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, message__max__bytes="10000000") as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            partitions = broker.services.replica_manager.partitions

            def deleted(
                records: memoryview, policy: ProducePolicy, now_ms: int, *, first_offset: int
            ) -> ValidatedBatch:
                partitions.clear()
                return validate_produced(records, policy, now_ms, first_offset=first_offset)

            monkeypatch.setattr("kafkapy.server.handlers.produce.validate_produced", deleted)
            assert (await client.produce("t", _compressed("gzip", 20_000_000))).error_code == 6

    run(scenario())


@pytest.mark.parametrize("overtaken", [1, 3, 10])
@pytest.mark.parametrize(("magic", "codec"), [(0, 1), (1, 1), (0, 0), (1, 0)])
def test_other_appends_during_the_conversion_of_a_message_set_come_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, magic: int, codec: int, overtaken: int
) -> None:
    """The set's records get the offsets after theirs, however often that happens."""

    async def scenario() -> None:
        async with running_broker(tmp_path, message__max__bytes="10000000") as broker:
            client = await Client.connect(broker)
            await client.create_topic("t", message__format__version="0.10.0" if magic else "0.9.0")
            log = broker.services.replica_manager.partitions[TopicPartition("t", 0)].log
            calls = []

            def overtake(
                records: memoryview, policy: ProducePolicy, now_ms: int, *, first_offset: int
            ) -> ValidatedBatch:
                valid = validate_produced(records, policy, now_ms, first_offset=first_offset)
                if threading.current_thread() is not threading.main_thread() and len(calls) < overtaken:
                    other = encode_legacy([Record(None, b"other", 5, offset=0)], magic)
                    log.append_as_leader(memoryview(bytearray(other)), 0)  # the event loop is idle meanwhile
                calls.append(first_offset)
                return valid

            monkeypatch.setattr("kafkapy.server.handlers.produce.validate_produced", overtake)
            listed = [Record(None, bytes(INLINE_DECOMPRESSED_SIZE), 5, offset=0), Record(None, b"last", 6, offset=1)]
            answer = await client.produce("t", encode_legacy(listed, magic, compression=codec), version=2)
            before = min(overtaken, 3) if codec and not magic else 1
            assert (answer.error_code, answer.base_offset) == (0, before)
            read = log.read(0, 100_000_000, up_to_offset=None).records
            content = read if isinstance(read, bytes) else read.read()
            found = [each for at, header in iterate_headers(content) for each in read_records(content, header, at)]
            assert [each.offset for each in found] == list(range(before + 2))
            assert found[-1].value == b"last"

    run(scenario())


def _sent_again(sequence: int) -> bytes:
    """A batch of producer 5, which is not expired at a restart."""
    records = [Record(None, b"v", SystemClock().now_ms())]
    return bytes(encode_batch(records, producer_id=5, producer_epoch=0, base_sequence=sequence))


async def _before_restart(broker: BrokerServer, **keys: str) -> None:
    """Five batches of producer 5 in each partition of ``t``, others behind them, and a sixth one at the end."""
    client = await Client.connect(broker)
    await client.create_topic("t", partitions=2, **keys)
    for index in range(2):
        log = broker.services.replica_manager.partitions[TopicPartition("t", index)].log
        for sequence in range(5):
            await client.produce("t", _sent_again(sequence), partition=index)
        for _ in range(2000):
            log.append_as_leader(bytearray(batch(b"")), 0)
        await client.produce("t", _sent_again(5), partition=index)


async def _begin_search(client: Client, monkeypatch: pytest.MonkeyPatch) -> "asyncio.Task[Any]":
    """Send a batch again, which begins a search of hundreds of steps, one in each iteration of the loop."""
    has_begun = asyncio.Event()
    recall_batches = Log.recall_batches

    def noting(log: Log) -> Steps[None]:
        has_begun.set()
        return recall_batches(log)

    monkeypatch.setattr(Log, "recall_batches", noting)
    ticks = count()
    turns().now_s = lambda: float(next(ticks))
    monkeypatch.setattr("kafkapy.storage.log.recall._READ_BYTES", 256)
    asked = asyncio.create_task(client.produce("t", _sent_again(1)))
    await has_begun.wait()
    return asked


def test_others_are_served_while_the_log_is_searched_for_a_batch_that_is_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, in_memory_metadata=False) as broker:
            await _before_restart(broker, max__message__bytes=str(2**31 - 1))
        async with running_broker(tmp_path, in_memory_metadata=False) as broker:
            clients = [await Client.connect(broker) for _ in range(4)]
            log = broker.services.replica_manager.partitions[TopicPartition("t", 0)].log
            end_offset = log.log_end_offset
            asked = [
                await _begin_search(clients[0], monkeypatch),
                asyncio.create_task(clients[1].produce("t", _sent_again(2))),
            ]
            assert (await clients[2].produce("t", _sent_again(6))).base_offset == end_offset
            assert (await clients[2].produce("t", batch(b"v"))).base_offset == end_offset + 1
            assert not any(each.done() for each in asked)
            answers = [await each for each in asked]
            # The batch of sequence 6 leaves four before it.
            assert [(each.error_code, each.base_offset) for each in answers] == [(45, -1), (0, 2)]
            for sequence in (2, 3, 4):
                answer = await clients[3].produce("t", _sent_again(sequence))
                assert (answer.error_code, answer.base_offset) == (0, sequence)
            assert log.log_end_offset == end_offset + 2

    run(scenario())


@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize("timestamp_type", ["CreateTime", "LogAppendTime"])
def test_the_last_five_batches_are_known_after_a_restart(tmp_path: Path, timestamp_type: str, repeated: bool) -> None:
    """Each is answered as the first time, and not written; the validation, which changes it, is not repeated."""

    async def scenario() -> None:
        async with running_broker(tmp_path, in_memory_metadata=False) as broker:
            await _before_restart(broker, message__timestamp__type=timestamp_type)
        async with running_broker(tmp_path, in_memory_metadata=False) as broker:
            client = await Client.connect(broker)
            before = [await client.produce("t", batch(b"v")) for _ in range(3 * repeated)]
            assert [each.error_code for each in before] == [0] * len(before)
            log = broker.services.replica_manager.partitions[TopicPartition("t", 0)].log
            end_offset = log.log_end_offset
            for sequence, offset in [(1, 1), (2, 2), (3, 3), (4, 4), (5, 2005)]:
                answer = await client.produce("t", _sent_again(sequence))
                assert (answer.error_code, answer.base_offset) == (0, offset)
            assert (await client.produce("t", _sent_again(8))).error_code == 45
            assert log.log_end_offset == end_offset
            assert (await client.produce("t", _sent_again(6))).base_offset == end_offset

    run(scenario())


def test_batches_that_are_sent_again_to_many_partitions_are_known_after_a_restart(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, in_memory_metadata=False) as broker:
            await _before_restart(broker)
        async with running_broker(tmp_path, in_memory_metadata=False) as broker:
            client = await Client.connect(broker)
            data = [PartitionProduceData(0, _sent_again(1)), PartitionProduceData(1, _sent_again(0))]
            answer = await client.ask(ProduceRequest(None, 1, 1000, [TopicProduceData("t", partition_data=data)]), 8)
            found = [(each.error_code, each.base_offset) for each in answer.responses[0].partition_responses]
            assert found == [(0, 1), (45, -1)]

    run(scenario())


def test_a_disk_error_of_the_search_for_earlier_batches_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> bytes:
        raise OSError(errno.EMFILE, "too many files")

    async def scenario() -> None:
        async with running_broker(tmp_path, in_memory_metadata=False) as broker:
            await _before_restart(broker)
        async with running_broker(tmp_path, in_memory_metadata=False) as broker:
            client = await Client.connect(broker)
            with monkeypatch.context() as patched:
                patched.setattr(Files, "read_at", broken)
                assert (await client.produce("t", _sent_again(1))).error_code == 56
            answer = await client.produce("t", _sent_again(1))
            assert (answer.error_code, answer.base_offset) == (0, 1)

    run(scenario())


def test_a_topic_is_deleted_while_its_log_is_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, in_memory_metadata=False) as broker:
            await _before_restart(broker)
        async with running_broker(tmp_path, in_memory_metadata=False) as broker:
            asked = await _begin_search(await Client.connect(broker), monkeypatch)
            broker.services.replica_manager.partitions.clear()
            assert (await asked).error_code == 6

    run(scenario())


def test_a_batch_of_many_records_to_check_is_validated_on_the_compute_thread(tmp_path: Path) -> None:
    """Each record has to be checked, since the topic limits the age of records."""

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t", message__timestamp__difference__max__ms="1000")
            answer = await client.produce("t", batch(*[b"v"] * (INLINE_RECORDS + 1)))
            assert (answer.error_code, len(answer.record_errors)) == (32, 1000)
            assert (await client.produce("t", batch(b"v"))).error_code == 32

    run(scenario())


def _compressed(codec: str, size: int) -> bytes:
    return batch(bytes(size), compression=CODEC_NAMES.index(codec))
