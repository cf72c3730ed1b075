"""Listeners that are opened and closed while the broker runs, and the one of the controller."""

import asyncio
import logging
import socket
from pathlib import Path

import pytest

from harness.client import Client
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.protocol.constants import ResourceType
from kafkapy.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkapy.protocol.messages.metadata import MetadataRequest
from kafkapy.server.dispatch.releases import cut
from kafkapy.server.handlers import ALL_APIS, CLIENT_APIS
from kafkapy.server.lifecycle.broker import BrokerServer
from tests.metadata.zookeeper_server import ZooKeeperServer
from tests.server.harness import run, running_broker, until

MAP = "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT,LAST:PLAINTEXT,SECURE:SSL"
START = {"listeners": "PLAINTEXT://127.0.0.1:0,INTERNAL://127.0.0.1:0", "inter.broker.listener.name": "internal"}
THREE = "PLAINTEXT://127.0.0.1:0,INTERNAL://127.0.0.1:0,EXTERNAL://127.0.0.1:0"


async def alter(client: Client, **keys: str | None) -> tuple[int, str | None]:
    changes = [AlterableConfig(name.replace("__", "."), int(text is None), text) for name, text in keys.items()]
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(ResourceType.BROKER, "0", changes)])
    (answer,) = (await client.ask(request, 0)).responses
    return answer.error_code, answer.error_message


def names(broker: BrokerServer) -> list[str]:
    return [listener.name for listener in broker.listeners]


async def connect(port: int) -> Client:
    return Client(*await asyncio.open_connection("127.0.0.1", port))


def test_a_listener_is_opened_and_closed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, listener__security__protocol__map=MAP, **START) as broker:  # type: ignore[arg-type]
            client = await Client.connect(broker)
            assert await alter(client, listeners=THREE) == (0, None)
            await until(lambda: len(broker.listeners) == 3)
            port = broker.listeners[2].endpoint.port
            other = await connect(port)
            request = MetadataRequest([])
            assert [each.port for each in (await other.ask(request, 1)).brokers] == [port]

            advertised = "PLAINTEXT://127.0.0.1:1,INTERNAL://127.0.0.1:2,EXTERNAL://there:9"
            assert await alter(client, advertised__listeners=advertised) == (0, None)
            await until(lambda: broker.services.metadata.image.brokers[0].endpoints["EXTERNAL"].host == "there")
            assert [(each.host, each.port) for each in (await other.ask(request, 1)).brokers] == [("there", 9)]

            assert await alter(client, listeners=None, advertised__listeners=None) == (0, None)
            assert await other.is_closed()
            assert names(broker) == ["PLAINTEXT", "INTERNAL"]
            with pytest.raises(ConnectionRefusedError):
                await connect(port)
            assert (await client.ask(request, 1)).brokers

    run(scenario())


def test_a_listener_that_can_not_be_opened_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            occupied = THREE.replace("EXTERNAL://127.0.0.1:0", f"EXTERNAL://127.0.0.1:{taken.getsockname()[1]}")
            async with running_broker(tmp_path, listener__security__protocol__map=MAP, **START) as broker:  # type: ignore[arg-type]
                client = await Client.connect(broker)
                assert await alter(client, listeners=occupied) == (0, None)
                await until(lambda: "is in use by another process" in caplog.text)
                secure = THREE.replace("EXTERNAL", "SECURE")
                assert await alter(client, listeners=secure) == (0, None)
                await until(lambda: "The listener SECURE" in caplog.text)
                assert "no certificate" in caplog.text or "keystore" in caplog.text
                assert names(broker) == ["PLAINTEXT", "INTERNAL"]

    caplog.set_level(logging.INFO)
    run(scenario())


def test_of_many_changes_the_last_one_holds(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, listener__security__protocol__map=MAP, **START) as broker:  # type: ignore[arg-type]
            client = await Client.connect(broker)
            for listeners in (THREE, None, THREE.replace("EXTERNAL", "OTHER"), None, THREE) * 10:
                code = (await alter(client, listeners=listeners))[0]
                assert code == (42 if listeners and "OTHER" in listeners else 0)
            assert await alter(client, listeners=THREE.replace("EXTERNAL", "LAST")) == (0, None)
            await until(lambda: names(broker) == ["PLAINTEXT", "INTERNAL", "LAST"])
            port = broker.listeners[2].endpoint.port
            assert (await (await connect(port)).ask(MetadataRequest([]), 1)).brokers
            await alter(client, listeners=None)
            await alter(client, listeners=THREE)  # and the broker stops before, while or after it is opened
        with pytest.raises(ConnectionRefusedError):
            await connect(port)

    run(scenario())


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"listeners": "PLAINTEXT://127.0.0.1:0"}, "inter.broker.listener.name"),
        ({"listeners": f"{THREE},NOBODY://127.0.0.1:0"}, "NOBODY"),
        ({"listeners": "nonsense"}, "must look like"),
        ({"advertised__listeners": "PLAINTEXT://there:1"}, "inter.broker.listener.name"),
        ({"advertised__listeners": f"{START['listeners']},EXTERNAL://there:1"}, "which listeners lacks"),
        (
            {"listener__security__protocol__map": MAP.replace("PLAINTEXT:PLAINTEXT", "PLAINTEXT:SSL")},
            "Security protocol cannot be updated for existing listener ListenerName(PLAINTEXT)",
        ),
        (
            {"listeners": THREE, "listener__name__plaintext__sasl__enabled__mechanisms": "PLAIN"},
            "Configs cannot be updated dynamically for existing listener ListenerName(PLAINTEXT)",
        ),
    ],
)
def test_a_change_that_is_refused(tmp_path: Path, keys: dict[str, str], reason: str) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, listener__security__protocol__map=MAP, **START) as broker:  # type: ignore[arg-type]
            code, text = await alter(await Client.connect(broker), **keys)
            assert code == 42
            assert reason in (text or "")
            assert names(broker) == ["PLAINTEXT", "INTERNAL"]

    run(scenario())


def test_the_controller_has_a_listener_of_its_own(tmp_path: Path) -> None:
    def broker(zookeeper: ZooKeeperServer, broker_id: int) -> BrokerServer:
        properties = {
            **START,
            "broker.id": str(broker_id),
            "log.dirs": str(tmp_path / str(broker_id)),
            "zookeeper.connect": f"127.0.0.1:{zookeeper.port}/kafka",
            "listener.security.protocol.map": MAP,
            "listeners": THREE,
            "control.plane.listener.name": "EXTERNAL",
        }
        return BrokerServer(BrokerConfig.from_properties(properties))

    async def scenario() -> None:
        async with ZooKeeperServer() as zookeeper, broker(zookeeper, 1) as first, broker(zookeeper, 2) as second:
            served = {name: list(apis) for name, apis in second.services.apis.items()}
            to_brokers = list(cut(ALL_APIS, "2.7", for_brokers=True))
            to_clients = list(cut(CLIENT_APIS, "2.7", for_brokers=False))
            assert served == {"PLAINTEXT": to_clients, "INTERNAL": to_brokers, "EXTERNAL": to_brokers}
            client = await Client.connect(first)
            await client.create_topic("t", partitions=2)
            await until(lambda: "t" in second.services.metadata.image.topics)
            controller = first if first.services.controller.is_active else second
            follower = second if controller is first else first
            assert len(follower.listeners[2].connections) == 1

    run(scenario())
