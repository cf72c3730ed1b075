"""Starting and stopping the broker behind ``Broker`` and ``AsyncBroker``."""

import asyncio
from pathlib import Path

import pytest

from harness.client import Client, batch, fetch_request, frame, values_of
from kafkapy.testing.errors import BrokerNotRunningError, BrokerStartError
from kafkapy.testing.hosting.hosted_broker import HostedBroker
from tests.server.harness import run, until


def test_records_metadata_and_port_are_kept_after_a_stop_and_a_kill() -> None:
    async def scenario() -> None:
        host = HostedBroker(topics=["t"])
        await host.start()
        address = host.bootstrap
        for at, end in enumerate((host.stop, host.kill, host.stop)):
            client = Client(*await asyncio.open_connection("127.0.0.1", host.port))
            assert (await client.produce("t", batch(b"%d" % at), acks=-1)).base_offset == at
            await end()
            assert not host.is_running
            assert await client.is_closed()
            await host.start()
            await host.start()
            assert host.bootstrap == address
        client = Client(*await asyncio.open_connection("127.0.0.1", host.port))
        fetched = (await client.fetch("t")).responses[0].partitions[0]
        assert values_of(fetched.records) == [b"0", b"1", b"2"]
        await host.close()
        await host.close()

    run(scenario())


def test_a_stop_answers_waiting_requests_and_a_kill_does_not() -> None:
    async def scenario() -> None:
        host = HostedBroker(topics=["t"])
        for end, is_answered in ((host.kill, False), (host.stop, True)):
            await host.start()
            client = Client(*await asyncio.open_connection("127.0.0.1", host.port))
            client.send(frame(fetch_request("t", max_wait_ms=100_000), 11))
            await until(lambda: len(host.services.replica_manager.purgatory) == 1)
            await end()
            assert await client.is_closed() != is_answered
        await host.close()

    run(scenario())


def test_a_stop_marks_the_data_as_clean_and_a_kill_does_not(tmp_path: Path) -> None:
    async def scenario() -> None:
        host = HostedBroker(data=tmp_path, topics=["t"])
        marker = tmp_path / ".kafka_cleanshutdown"
        await host.start()
        await host.kill()
        assert not marker.exists()
        await host.start()
        await host.close()
        assert marker.exists()

    run(scenario())


def test_a_given_directory_is_kept_and_used_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        for expected in (0, 1):
            host = HostedBroker(data=tmp_path, topics=["t"])
            await host.start()
            assert host.data == str(tmp_path)
            client = Client(*await asyncio.open_connection("127.0.0.1", host.port))
            assert (await client.produce("t", batch(b"v"))).base_offset == expected
            await host.close()

    run(scenario())


def test_a_directory_in_use_is_reported_in_one_line(tmp_path: Path) -> None:
    async def scenario() -> None:
        first, second = HostedBroker(data=tmp_path), HostedBroker(data=tmp_path)
        await first.start()
        with pytest.raises(BrokerStartError, match="is in use by another broker of this process"):
            await second.start()
        assert not second.is_prepared
        await first.close()

    run(scenario())


def test_a_broker_has_no_address_before_the_start() -> None:
    host = HostedBroker()
    with pytest.raises(BrokerNotRunningError, match="was not started"):
        _ = host.bootstrap
    with pytest.raises(BrokerNotRunningError, match="is stopped"):
        _ = host.services


def test_an_invalid_topic_ends_the_start() -> None:
    async def scenario() -> None:
        host = HostedBroker(topics={"bad name": 1})
        with pytest.raises(Exception, match="topic 'bad name' can't be created: INVALID_TOPIC"):
            await host.start()
        assert not host.is_running
        assert not host.is_prepared

    run(scenario())
