import asyncio
import gc
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from harness.client import Client, batch, frame, produce_request
from kafkapy.metadata.store import NodeExistsError
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
from kafkapy.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafkapy.records.compression import GZIP, ZSTD
from kafkapy.server.lifecycle.broker import BrokerServer
from kafkapy.server.lifecycle.interpreter import (
    CHECK_MS,
    LONGEST_PAUSE_MS,
    SWITCH_INTERVAL_S,
    Interpreter,
    return_freed_memory,
)
from kafkapy.testing.clock import ManualClock
from tests.server.harness import run, running_broker


class Collections:
    """Counts full collections."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        self.count += phase == "start" and info["generation"] == 2


@pytest.fixture
def collections() -> Iterator[Collections]:
    counted = Collections()
    gc.callbacks.append(counted)
    yield counted
    gc.callbacks.remove(counted)


def test_full_collections_wait_until_the_broker_is_idle(collections: Collections) -> None:
    clock, requests = ManualClock(), [0]
    interpreter = Interpreter(clock, lambda: requests[0], lambda: 0)
    before = gc.get_threshold(), sys.getswitchinterval()
    interpreter.start()
    try:
        assert sys.getswitchinterval() == pytest.approx(SWITCH_INTERVAL_S)
        clock.advance(10 * CHECK_MS)
        assert collections.count == 0  # nothing was served
        for _ in range(10):
            requests[0] += 1
            clock.advance(CHECK_MS)
        assert collections.count == 0  # never idle
        clock.advance(CHECK_MS)
        assert collections.count == 1
        clock.advance(10 * CHECK_MS)
        assert collections.count == 1  # once for each time of work
        for _ in range(LONGEST_PAUSE_MS // CHECK_MS + 1):
            requests[0] += 1
            clock.advance(CHECK_MS)
        assert collections.count == 2
    finally:
        interpreter.stop()
    assert (gc.get_threshold(), sys.getswitchinterval()) == before
    clock.advance(LONGEST_PAUSE_MS)
    assert collections.count == 2


def test_memory_is_returned_after_large_requests() -> None:
    clock, large, returned = ManualClock(), [0], [0]

    def count() -> None:
        returned[0] += 1

    interpreter = Interpreter(clock, lambda: 0, lambda: large[0], count)
    interpreter.start()
    try:
        clock.advance(3 * CHECK_MS)
        assert returned == [0]  # there was no large request
        large[0] += 2
        clock.advance(3 * CHECK_MS)
        assert returned == [1]
        large[0] += 1
        clock.advance(CHECK_MS)
        assert returned == [2]
    finally:
        interpreter.stop()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no malloc_trim")
def test_freed_memory_is_returned_to_the_system() -> None:
    resident = psutil.Process().memory_info
    held = [bytes(100_000) for _ in range(1000)]  # below the size from which malloc maps each object separately
    kept = held[-1]
    del held
    before = resident().rss
    return_freed_memory()
    assert before - resident().rss > 20_000_000
    assert not any(kept)


def test_connections_and_requests_leave_no_old_garbage(tmp_path: Path) -> None:
    """Without full collections memory must be freed by reference counts or by young collections."""

    async def work(broker: object, rounds: int) -> None:
        for _ in range(rounds):
            client = await Client.connect(broker)  # type: ignore[arg-type]
            await client.ask(ApiVersionsRequest(), 0)
            await client.produce("t", batch(b"v"))
            await client.fetch("t", max_wait_ms=1, min_bytes=1000)
            await client.fetch("unknown")
            client.send(b"\xff\xff\xff\xff")
            assert await client.is_closed()
            await client.close()

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            await work(broker, 3)
            gc.collect()
            threshold = gc.get_threshold()
            gc.set_threshold(threshold[0], threshold[1], 2**31 - 1)
            try:
                await work(broker, 200)
                gc.collect(1)
                await asyncio.sleep(0)
                found = gc.collect()
            finally:
                gc.set_threshold(*threshold)
            assert found < 200  # less than an object a round

    run(scenario())


@pytest.mark.parametrize(
    "refused", ["a large Produce without answer", "an unknown type of resource", "a conversion", "a znode that exists"]
)
def test_refused_requests_leave_no_old_garbage(tmp_path: Path, refused: str) -> None:
    """An error must not refer to the frame, connection and records of its request after the request."""

    async def refuse(broker: BrokerServer, client: Client) -> None:
        if refused == "a large Produce without answer":
            client.send(frame(produce_request("u", batch(bytes(5 << 20), compression=GZIP), acks=0), 8))
            assert await client.is_closed()
        elif refused == "an unknown type of resource":
            await client.ask(DescribeConfigsRequest([DescribeConfigsResource(99, "t")]), 0)
        elif refused == "a conversion":
            response = await client.fetch("t", version=3)
            assert response.responses[0].partitions[0].error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        else:
            with pytest.raises(NodeExistsError):
                await broker.services.store.create("/brokers")

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            await client.create_topic("u", message__timestamp__difference__max__ms="1")
            await client.produce("t", batch(bytes(1 << 20), compression=ZSTD))
            await client.close()

            async def work(rounds: int) -> None:
                for _ in range(rounds):
                    client = await Client.connect(broker)
                    await refuse(broker, client)
                    await client.close()

            await work(2)
            gc.collect()
            gc.disable()
            try:
                await work(20)
                await asyncio.sleep(0)
                gc.set_debug(gc.DEBUG_SAVEALL)
                gc.collect()
                found = [each for each in gc.garbage if isinstance(each, BaseException)]
            finally:
                gc.set_debug(0)
                gc.garbage.clear()
                gc.enable()
            assert not found

    run(scenario())
