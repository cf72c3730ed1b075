"""A broker for tests that are coroutines."""

import asyncio
import threading
import time

import pytest

from kafkapy.clients.original.consumer_connector import ConsumerConnector
from kafkapy.clients.original.registry import RegistryError
from kafkapy.testing import AsyncBroker, BrokerNotRunningError, BrokerStartError
from kafkapy.testing.contents.registry import EmbeddedRegistry
from tests.server.harness import until


def test_the_broker_serves_within_the_with_and_is_closed_after_it() -> None:
    async def scenario() -> None:
        async with AsyncBroker(topics={"t": 2}) as broker:
            assert broker.is_running
            assert broker.bootstrap == f"127.0.0.1:{broker.port}"
            assert (broker.data / "t-1").is_dir()
            await broker.produce("t", b"1")
            await broker.restart()
            await broker.kill()
            await broker.start()
            await broker.stop()
            await broker.start()
            assert len(await broker.records("t")) == 1
            assert await broker.topics() == {"t": 2}
            await broker.create_topic("u")
            await broker.delete_topic("t")
            assert await broker.topics() == {"u": 1}
        await broker.close()
        with pytest.raises(BrokerNotRunningError, match="was not started"):
            await broker.records("t")

    asyncio.run(scenario())


def test_a_test_that_blocks_its_loop_does_not_block_the_broker() -> None:
    async def scenario() -> None:
        async with AsyncBroker(topics=["t"]) as broker:
            future = broker._thread.submit(broker._helpers.topics())
            deadline = time.monotonic() + 10
            while not future.done() and time.monotonic() < deadline:
                pass  # the test's loop is blocked
            assert future.result(0) == {"t": 1}

    asyncio.run(scenario())


def test_a_start_that_fails_leaves_no_thread() -> None:
    async def scenario() -> None:
        with pytest.raises(BrokerStartError, match="did you mean"):
            await AsyncBroker({"num.partition": 1}).start()

    before = threading.active_count()
    asyncio.run(scenario())
    assert threading.active_count() == before


def test_a_test_that_is_cancelled_stops_its_broker() -> None:
    async def scenario() -> None:
        async with AsyncBroker() as broker:
            await broker.wait_until_stable("g", timeout_s=100)

    async def cancelled() -> None:
        task = asyncio.ensure_future(scenario())
        await until(lambda: threading.active_count() > before)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    before = threading.active_count()
    asyncio.run(cancelled())
    assert threading.active_count() == before


def test_an_original_consumer_uses_the_brokers_registry() -> None:
    def first_value(registry: EmbeddedRegistry) -> bytes:
        given = {"group.id": "g", "auto.offset.reset": "smallest"}
        with ConsumerConnector(given, registry=registry) as connector:
            (stream,) = connector.create_message_streams({"t": 1})["t"]
            return bytes(next(stream).message)

    async def scenario() -> None:
        async with AsyncBroker(topics=["t"]) as broker:
            await broker.produce("t", b"v")
            assert await asyncio.to_thread(first_value, await broker.registry()) == b"v"
            left = await broker.registry()
        with pytest.raises(RegistryError, match="the broker is closed"):
            left.children("/brokers/ids")

    asyncio.run(scenario())
