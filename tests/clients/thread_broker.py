"""A broker in a separate thread, for the blocking client."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.server.lifecycle.broker import BrokerServer


@contextmanager
def thread_broker(directory: Path, **properties: str) -> Iterator[str]:
    """The bootstrap address of a broker that keeps its logs in ``directory``."""
    config = BrokerConfig.from_properties(
        {
            "broker.id": "0",
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(directory),
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "2",
            **{name.replace("_", "."): value for name, value in properties.items()},
        }
    )
    ready = threading.Event()
    found: list[tuple[str, asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def serve() -> None:
        stopped = asyncio.Event()
        async with BrokerServer(config, in_memory_metadata=True) as broker:
            found.append((broker.bootstrap, asyncio.get_running_loop(), stopped))
            ready.set()
            await stopped.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert ready.wait(20), "the broker does not start"
    bootstrap, loop, stopped = found[0]
    try:
        yield bootstrap
    finally:
        loop.call_soon_threadsafe(stopped.set)
        thread.join(20)
