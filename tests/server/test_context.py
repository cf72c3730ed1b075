"""Which address of its own a broker tells a client."""

from pathlib import Path
from typing import Any

import pytest

from kafkapy.protocol.messages.metadata import MetadataRequest
from kafkapy.server.context import LocalConnection
from tests.server.harness import Client, run, running_broker


@pytest.mark.parametrize(("keys", "host"), [
    ({"listeners": "PLAINTEXT://127.0.0.1:0"}, "127.0.0.1"),
    ({"listeners": "PLAINTEXT://localhost:0"}, "localhost"),
    ({"listeners": "PLAINTEXT://0.0.0.0:0"}, "127.0.0.1"),
    ({"listeners": "PLAINTEXT://:0"}, "127.0.0.1"),
])  # fmt: skip
def test_without_advertised_listeners_it_is_one_that_the_client_reached(
    keys: dict[str, Any], host: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, **keys) as broker:
            client = await Client.connect(broker)
            (node,) = (await client.ask(MetadataRequest([]), 1)).brokers
            assert (node.node_id, node.host, node.port) == (0, host, broker.port)

    run(scenario())


def test_advertised_listeners_are_told_by_name(tmp_path: Path) -> None:
    keys: dict[str, Any] = {
        "listeners": "PLAINTEXT://127.0.0.1:0,INNER://127.0.0.1:0",
        "listener__security__protocol__map": "PLAINTEXT:PLAINTEXT,INNER:PLAINTEXT",
        "advertised__listeners": "PLAINTEXT://outside.example:1234,INNER://inside.example:77",
        "inter__broker__listener__name": "INNER",
    }

    async def scenario() -> None:
        async with running_broker(tmp_path, **keys) as broker:
            client = await Client.connect(broker)
            (node,) = (await client.ask(MetadataRequest([]), 1)).brokers
            assert (node.host, node.port) == ("outside.example", 1234)

    run(scenario())


@pytest.mark.parametrize(("keys", "expected"), [
    ({"advertised__listeners": "PLAINTEXT://outside.example:0"}, ("outside.example", "<bound>")),
    ({"advertised__listeners": "PLAINTEXT://:1234"}, ("127.0.0.1", 1234)),
    ({"advertised__host__name": "outside.example", "advertised__port": "0"}, ("outside.example", "<bound>")),
    ({"advertised__host__name": "outside.example", "advertised__port": "77"}, ("outside.example", 77)),
])  # fmt: skip
def test_what_advertised_listeners_leave_out_is_the_listeners(
    keys: dict[str, Any], expected: tuple[str, Any], tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, listeners="PLAINTEXT://127.0.0.1:0", **keys) as broker:
            client = await Client.connect(broker)
            (node,) = (await client.ask(MetadataRequest([]), 1)).brokers
            host, port = expected
            assert (node.host, node.port) == (host, broker.port if port == "<bound>" else port)

    run(scenario())


def test_the_brokers_own_requests_have_no_peer() -> None:
    connection = LocalConnection("PLAINTEXT")
    assert (connection.peer_host, connection.listener, connection.principal) == ("local", "PLAINTEXT", "User:ANONYMOUS")
