"""The broker's counters."""

from pathlib import Path

from harness.client import Client
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
from tests.server.harness import run, running_broker


def test_requests_and_connections_are_counted(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            for _ in range(3):
                await client.ask(ApiVersionsRequest(), 0)
            metrics = broker.services.metrics
            assert metrics.requests["api_versions"] == 3
            assert (metrics.connections_accepted, metrics.connections_failed, metrics.idle_closed) == (1, 0, 0)

    run(scenario())
