"""A broker with faults, and helpers for the tests of faults."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from harness.client import Client
from kafkapy.server.dispatch.interception import Hooks
from kafkapy.server.lifecycle.broker import BrokerServer
from kafkapy.testing.faults import Faults
from kafkapy.types import TopicPartition
from tests.server.harness import running_broker


def faulty_broker(path: Path, faults: Faults, **options: Any) -> Any:
    """``running_broker`` with these faults."""
    return running_broker(path, hooks=Hooks(faults), **options)


@asynccontextmanager
async def faulty(path: Path, **options: Any) -> AsyncIterator[tuple[Faults, BrokerServer, Client]]:
    """New faults, a broker that has them, and a client."""
    faults = Faults()
    async with faulty_broker(path, faults, **options) as broker:
        client = await Client.connect(broker)
        yield faults, broker, client
        await client.close()


async def has_no_answer(client: Client) -> bool:
    """Check that the broker has read the sent requests, and has not answered."""
    try:
        await asyncio.wait_for(client.receive(), 0.05)
    except TimeoutError:
        return True
    return False


def end_of(broker: BrokerServer, topic: str) -> int:
    """The log end offset of the topic's first partition."""
    return broker.services.replica_manager.partition(TopicPartition(topic, 0)).log.log_end_offset
