"""Starting and stopping whole brokers."""

import asyncio
import logging
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from harness.client import Client, batch, fetch_request, frame, values_of
from kafkapy.clock import SystemClock
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.errors import InvalidConfigError
from kafkapy.metadata.embedded import EmbeddedStore
from kafkapy.network.listener import ListenError
from kafkapy.platform.errors import LogDirectoryError
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkapy.server.lifecycle.broker import BrokerServer
from kafkapy.storage.errors import ClusterIdMismatchError
from tests.server.harness import run, running_broker, until


def server(path: Path, **keys: str) -> BrokerServer:
    properties = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(path)}
    return BrokerServer(BrokerConfig.from_properties(properties | keys))


def test_acknowledged_records_are_there_after_a_restart(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with server(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            cluster_id = broker.services.metadata.image.cluster_id
            for at in range(10):
                assert (await client.produce("t", batch(b"%d" % at), acks=-1)).error_code == 0
        async with server(tmp_path) as broker:
            assert broker.services.metadata.image.cluster_id == cluster_id
            client = await Client.connect(broker)
            fetched = (await client.fetch("t")).responses[0].partitions[0]
            assert values_of(fetched.records) == [b"%d" % at for at in range(10)]
            assert fetched.high_watermark == 10
            assert (await client.produce("t", batch(b"on"))).base_offset == 10

    run(scenario())


def test_a_generated_broker_id_is_kept(tmp_path: Path) -> None:
    async def scenario() -> None:
        for _ in range(2):
            async with server(tmp_path) as broker:
                assert broker.config.broker_id == 1001
                assert "broker.id=1001" in (tmp_path / "meta.properties").read_text()

    run(scenario())


def test_waiting_fetches_are_answered_when_the_broker_stops(tmp_path: Path) -> None:
    async def scenario() -> None:
        broker = server(tmp_path)
        await broker.start()
        client = await Client.connect(broker)
        await client.create_topic("t")
        client.send(frame(fetch_request("t", max_wait_ms=100_000), 11))
        await until(lambda: len(broker.services.replica_manager.purgatory) == 1)
        await broker.stop()
        response = client.decode(1, 11, await client.receive())
        assert response.responses[0].partitions[0].error_code == 0
        assert await client.is_closed()

    run(scenario())


OTHER_PROCESS = """
import asyncio, sys
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.errors import InvalidConfigError
from kafkapy.server.lifecycle.broker import BrokerServer
from kafkapy.platform.errors import LogDirectoryLockedError
config = BrokerConfig.from_properties({"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": sys.argv[1]})
try:
    asyncio.run(BrokerServer(config).start())
except LogDirectoryLockedError as error:
    print(error)
"""


def test_a_locked_directory_is_refused_and_not_changed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with server(tmp_path) as broker:
            command = [sys.executable, "-c", OTHER_PROCESS, str(tmp_path)]
            root = Path(__file__).parents[3]
            other = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, cwd=root)
            printed, _ = await other.communicate()
            assert b"in use by another process" in printed
            client = await Client.connect(broker)
            assert (await client.ask(MetadataRequest([]), 1)).brokers

    run(scenario())


def test_a_failed_start_leaves_no_threads(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with server(tmp_path):
            before = threading.enumerate()
            refused = server(tmp_path)
            with pytest.raises(LogDirectoryError):
                await refused.start()
            assert threading.enumerate() == before

    run(scenario())


def test_a_directory_of_another_cluster_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with server(tmp_path):
            pass
        other = BrokerServer(
            BrokerConfig.from_properties({"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path)}),
            in_memory_metadata=True,
        )
        with pytest.raises(ClusterIdMismatchError):
            await other.start()
        async with server(tmp_path) as broker:
            assert broker.port

    run(scenario())


def test_a_port_in_use_leaves_nothing_open(tmp_path: Path) -> None:
    async def scenario() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            broken = server(tmp_path, listeners=f"PLAINTEXT://127.0.0.1:{port}")
            with pytest.raises(ListenError, match=str(port)):
                await broken.start()
        async with server(tmp_path) as broker:
            assert broker.bootstrap == f"127.0.0.1:{broker.port}"

    run(scenario())


def test_a_store_that_is_passed_in_stays_open_after_the_broker(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = SystemClock()
        store = EmbeddedStore(None, clock)
        await store.open()
        config = {"broker.id": "3", "listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path)}
        for expected in ([], ["t"]):
            async with BrokerServer(BrokerConfig.from_properties(config), clock, store=store) as broker:
                client = await Client.connect(broker)
                topics = (await client.ask(MetadataRequest(None), 1)).topics
                assert [topic.name for topic in topics] == expected
                if not expected:
                    await client.create_topic("t")
        await store.close()

    run(scenario())


def test_topics_are_created_by_a_metadata_request(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            asked = MetadataRequest([MetadataRequestTopic(name="auto")])
            first = await client.ask(asked, 4)
            assert first.topics[0].error_code == 5
            while (await client.ask(asked, 4)).topics[0].error_code:
                pass
            assert (await client.produce("auto", batch(b"v"))).error_code == 0

    run(scenario())


def test_unsupported_configuration_is_refused_before_any_file_is_made(tmp_path: Path) -> None:
    async def scenario() -> None:
        broker = server(tmp_path / "data", listeners="SSL://127.0.0.1:0")
        with pytest.raises(InvalidConfigError, match="SSL"):
            await broker.start()
        assert not (tmp_path / "data").exists()

    run(scenario())


def test_services_of_a_broker_that_was_not_started(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="not been started"):
        _ = server(tmp_path).services


def test_start_to_first_acknowledged_produce_is_short(tmp_path: Path) -> None:
    async def scenario(path: Path) -> float:
        began = time.process_time()
        async with running_broker(path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            assert (await client.produce("t", batch(b"v"), acks=-1)).error_code == 0
            return time.process_time() - began

    asyncio.run(scenario(tmp_path / "warm-up"))
    assert asyncio.run(scenario(tmp_path / "measured")) < 0.1  # seconds of processor; 30 ms on a quiet machine


def test_the_log_says_where_the_broker_listens(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            assert f"Listening on PLAINTEXT://127.0.0.1:{broker.port}" in caplog.text

    run(scenario())


def test_a_killed_broker_answers_no_request_and_loses_no_record(tmp_path: Path) -> None:
    async def scenario() -> None:
        broker = server(tmp_path)
        await broker.start()
        client = await Client.connect(broker)
        await client.create_topic("t")
        assert (await client.produce("t", batch(b"v"), acks=-1)).error_code == 0
        client.send(frame(fetch_request("t", 1, max_wait_ms=100_000), 11))
        await until(lambda: len(broker.services.replica_manager.purgatory) == 1)
        await broker.kill()
        assert await client.is_closed()
        assert not (tmp_path / ".kafka_cleanshutdown").exists()
        async with server(tmp_path) as broker:
            client = await Client.connect(broker)
            assert values_of((await client.fetch("t")).responses[0].partitions[0].records) == [b"v"]

    run(scenario())
