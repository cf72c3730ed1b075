"""Data directories of a running broker that fail: a fake disk refuses writes below one path."""

import asyncio
import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.client import Client, batch
from kafkapy.metadata.store import StoreError
from kafkapy.platform.errors import LogDirectoryError
from kafkapy.platform.files import Descriptor, Files
from kafkapy.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkapy.server.lifecycle.broker import BrokerServer
from kafkapy.server.lifecycle.directory_failures import REFUSED_RETRY_MS, DirectoryFailures
from kafkapy.server.lifecycle.node import STORE_PATIENCE_MS
from kafkapy.testing.clock import ManualClock
from kafkapy.testing.clock.moving import MovingClock
from kafkapy.types import TopicPartition
from tests.server.harness import run, running_broker, until
from tests.server.lifecycle.test_broker import server

NO_LEADER, LEADER_NOT_AVAILABLE, STORAGE_ERROR = -1, 5, 56


class Disk:
    """Writes to files under ``broken`` fail with ``number``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.broken = "nothing"
        self.number = errno.EIO
        write_at = Files.write_at

        def maybe(files: Files, descriptor: Descriptor, data: bytes | bytearray | memoryview, position: int) -> None:
            if os.readlink(f"/proc/self/fd/{descriptor.number}").startswith(self.broken):
                raise OSError(self.number, os.strerror(self.number))
            write_at(files, descriptor, data, position)

        monkeypatch.setattr(Files, "write_at", maybe)


async def _codes(client: Client, topic: str) -> list[tuple[int, int, list[int]]]:
    answer = await client.ask(MetadataRequest([MetadataRequestTopic(name=topic)]), 8)
    found = sorted(answer.topics[0].partitions, key=lambda each: each.partition_index)
    return [(each.error_code, each.leader_id, each.offline_replicas) for each in found]


def test_the_broker_keeps_serving_its_other_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch)
    one, two = str(tmp_path / "one"), str(tmp_path / "two")

    async def scenario() -> None:
        async with running_broker(tmp_path, log__dirs=f"{one},{two}") as broker:
            client = await Client.connect(broker)
            await client.create_topic("t", partitions=4)
            logs = broker.services.log_manager
            lost = [each for each in range(4) if logs.directory_of(TopicPartition("t", each)) == two]
            assert len(lost) == 2
            disk.broken = two
            assert (await client.produce("t", batch(b"v"), partition=lost[0])).error_code == STORAGE_ERROR
            await until(lambda: broker.services.metadata.image.topics["t"].partitions[lost[0]].leader == NO_LEADER)
            for partition in range(4):
                expected = STORAGE_ERROR if partition in lost else 0
                assert (await client.produce("t", batch(b"v"), partition=partition)).error_code == expected
                fetched = await client.fetch("t", partition=partition)
                assert fetched.responses[0].partitions[0].error_code == expected
            assert await _codes(client, "t") == [
                (LEADER_NOT_AVAILABLE, NO_LEADER, [0]) if partition in lost else (0, 0, []) for partition in range(4)
            ]
            described = await client.ask(DescribeLogDirsRequest(None), 2)
            assert [(each.log_dir, each.error_code, len(each.topics)) for each in described.results] == [
                (one, 0, 1), (two, STORAGE_ERROR, 0),
            ]  # fmt: skip
            await client.create_topic("later", partitions=3)
            assert {logs.directory_of(TopicPartition("later", each)) for each in range(3)} == {one}
            assert not broker.broken.is_set()
        assert (tmp_path / "one" / ".kafka_cleanshutdown").exists()
        assert not (tmp_path / "two" / ".kafka_cleanshutdown").exists()

    run(scenario())


def test_partitions_of_a_missing_directory_stay_offline_after_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"

    def broker() -> BrokerServer:
        return server(tmp_path, **{"log.dirs": f"{one},{two}"})

    async def scenario() -> None:
        async with broker() as running:
            client = await Client.connect(running)
            await client.create_topic("t", partitions=2)
            for partition in range(2):
                assert (await client.produce("t", batch(b"v"), partition=partition)).error_code == 0
        two.rename(tmp_path / "elsewhere")
        two.write_text("no directory")
        async with broker() as running:
            client = await Client.connect(running)
            answers = [await client.produce("t", batch(b"w"), partition=partition) for partition in range(2)]
            assert [answer.error_code for answer in answers] == [0, STORAGE_ERROR]
            await until(lambda: running.services.metadata.image.topics["t"].partitions[1].leader == NO_LEADER)
        two.unlink()
        (tmp_path / "elsewhere").rename(two)
        async with broker() as running:
            client = await Client.connect(running)
            assert (await client.produce("t", batch(b"x"), partition=1)).base_offset == 1

    run(scenario())


def test_a_stop_does_not_wait_long_for_a_store_that_does_not_answer() -> None:
    async def main() -> None:
        clock = ManualClock()
        asked = asyncio.Event()

        async def unanswered(_operations: object) -> None:
            asked.set()
            await asyncio.Future()

        logs: Any = SimpleNamespace(directories=SimpleNamespace(online=["/other"]))
        replicas: Any = SimpleNamespace(broker_id=1, refused=set(), take_offline=lambda _partitions: None)
        store: Any = SimpleNamespace(multi=unanswered)
        failures = DirectoryFailures(logs, replicas, store, clock, lambda: None)
        failures.directory_failed("/d", [])
        await asked.wait()
        stopping = asyncio.ensure_future(failures.stop())
        await asyncio.sleep(0)
        clock.advance(STORE_PATIENCE_MS - 1)
        await asyncio.sleep(0)
        assert not stopping.done()
        clock.advance(1)
        await asyncio.wait_for(stopping, 5)

    asyncio.run(main())


def test_a_start_fails_without_the_metadatas_directory(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("no directory")
    broker = server(tmp_path, **{"log.dirs": f"{tmp_path}/one,{tmp_path}/two"})
    with pytest.raises(LogDirectoryError, match=r"one, the first of log\.dirs, holds this broker's metadata"):
        run(broker.start())


def test_a_broker_without_any_directory_is_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch)

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            disk.broken = str(tmp_path)
            assert (await client.produce("t", batch(b"v"))).error_code == STORAGE_ERROR
            await asyncio.wait_for(broker.broken.wait(), 5)

    run(scenario())


def test_records_are_refused_on_a_full_disk_and_accepted_when_it_has_space_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    disk.number = errno.ENOSPC

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            assert (await client.produce("t", batch(b"a"))).base_offset == 0
            disk.broken = str(tmp_path)
            for _ in range(2):
                assert (await client.produce("t", batch(b"b"), acks=-1)).error_code == STORAGE_ERROR
            assert (await client.fetch("t")).responses[0].partitions[0].high_watermark == 1
            disk.broken = "nothing"
            assert (await client.produce("t", batch(b"c"), acks=-1)).base_offset == 1
            assert not broker.broken.is_set()

    run(scenario())


def test_a_replica_that_a_full_disk_has_refused_is_created_when_it_has_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    full = True
    refusals: list[str] = []
    create = Files.create

    def refuse(files: Files, path: str) -> None:
        if full and "/t-1/" in path:
            refusals.append(path)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        create(files, path)

    monkeypatch.setattr(Files, "create", refuse)

    async def scenario() -> None:
        nonlocal full
        clock = MovingClock()
        async with running_broker(tmp_path, clock=clock) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t", partitions=2)
            await until(lambda: broker.services.metadata.image.topics["t"].partitions[1].leader == NO_LEADER)
            for count in (2, 3):
                clock.advance(REFUSED_RETRY_MS)
                await until(lambda: len(refusals) == count)  # noqa: B023  # it has ended before the next round
                assert (await _codes(client, "t"))[1] == (LEADER_NOT_AVAILABLE, NO_LEADER, [0])
            full = False
            clock.advance(REFUSED_RETRY_MS)
            await until(lambda: broker.services.metadata.image.topics["t"].partitions[1].leader == 0)
            assert (await client.produce("t", batch(b"v"), partition=1)).error_code == 0
            assert await _codes(client, "t") == [(0, 0, []), (0, 0, [])]
            assert not broker.services.replica_manager.refused

    run(scenario())
    assert caplog.text.count("t-1 can't be created now, and is tried again once a minute") == 1


def test_one_notification_about_refused_replicas_is_under_way_at_a_time() -> None:
    """One that the store refuses is followed by another the next time."""

    async def main() -> None:
        replicas: Any = SimpleNamespace(broker_id=1, refused={TopicPartition("t", 0)})
        asked: list[object] = []

        async def refuse(operations: object) -> None:
            asked.append(operations)
            raise StoreError("no")

        store: Any = SimpleNamespace(multi=refuse)
        failures = DirectoryFailures(SimpleNamespace(), replicas, store, ManualClock(), lambda: None)  # type: ignore[arg-type]  # not used
        for count in (1, 2):
            failures.ask_for_refused()
            failures.ask_for_refused()
            await asyncio.sleep(0)
            await failures.stop()
            assert len(asked) == count
        replicas.refused.clear()
        failures.ask_for_refused()
        await failures.stop()
        assert len(asked) == 2

    asyncio.run(main())
