"""A broker on an event loop in another thread, for blocking clients."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.server.lifecycle.broker import BrokerServer

START_S = 20


@contextmanager
def broker_beside(path: Path, **keys: str) -> Iterator[BrokerServer]:
    """A running broker with its data in ``path``; keys with ``__`` for each dot."""
    properties = {"broker.id": "0", "listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(path)}
    properties |= {"offsets.topic.num.partitions": "2", "group.initial.rebalance.delay.ms": "0"}
    properties |= {name.replace("__", "."): value for name, value in keys.items()}
    broker = BrokerServer(BrokerConfig.from_properties(properties), in_memory_metadata=True)
    loop = asyncio.new_event_loop()
    stopping = asyncio.Event()
    started = threading.Event()

    async def serve() -> None:
        async with broker:
            started.set()
            await stopping.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    assert started.wait(START_S)
    try:
        yield broker
    finally:
        loop.call_soon_threadsafe(stopping.set)
        thread.join(START_S)
        loop.close()
