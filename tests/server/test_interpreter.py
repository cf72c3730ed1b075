import asyncio
import gc
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
from kafkapy.server.interpreter import CHECK_MS, LONGEST_PAUSE_MS, SWITCH_INTERVAL_S, Interpreter
from kafkapy.testing.clock import ManualClock
from tests.server.harness import Client, batch, run, running_broker


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
    interpreter = Interpreter(clock, lambda: requests[0])
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


def test_connections_and_requests_leave_no_old_garbage(tmp_path: Path) -> None:
    """Without full collections the memory of what has ended must be freed by reference counts or while it is young."""

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
