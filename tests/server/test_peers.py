"""Brokers of one cluster that connect to each other's listeners."""

import logging
from pathlib import Path

import pytest

from harness.client import Client, batch
from kafkapy.clock import SystemClock
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.errors import InvalidConfigError
from kafkapy.metadata.embedded import EmbeddedStore
from kafkapy.server.lifecycle.broker import BrokerServer
from kafkapy.server.lifecycle.listener_security import peer_security
from tests.controller.harness import cluster
from tests.server.harness import run, until


def _broker(path: Path, store: EmbeddedStore, broker_id: int) -> BrokerServer:
    properties = {"broker.id": str(broker_id), "log.dirs": str(path / str(broker_id))}
    properties |= {"listeners": "PLAINTEXT://127.0.0.1:0", "default.replication.factor": "1"}
    return BrokerServer(BrokerConfig.from_properties(properties), store=store)


def test_the_controller_connects_to_another_broker_and_continues_after_any_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        store = EmbeddedStore(None, SystemClock())
        await store.open()
        async with _broker(tmp_path, store, 1) as first, _broker(tmp_path, store, 2) as second:
            controller = first.services.controller
            await until(lambda: controller.address_of(2) is not None)
            assert controller.address_of(2) == ("127.0.0.1", second.port)
            assert controller.address_of(3) is None
            assert second.services.controller.address_of(1) is None
            await until(lambda: f"broker 2 at 127.0.0.1:{second.port}" in caplog.text)
            client = await Client.connect(first)
            await client.create_topic("t")
            assert (await client.produce("t", batch(b"v"), acks=-1)).error_code in (0, 6)
        await store.close()

    with caplog.at_level(logging.INFO):
        run(scenario())


def test_the_metadata_have_the_address_of_each_live_broker() -> None:
    async def scenario() -> None:
        async with cluster(1, 2) as started:
            node = started.brokers[2].node
            assert node.address_of(1) == ("127.0.0.1", 19401)
            assert node.address_of(3) is None
        async with cluster(
            1,
            **{
                "inter.broker.listener.name": "OTHER",
                "listeners": "PLAINTEXT://127.0.0.1:1,OTHER://127.0.0.1:2",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT",
            },
        ) as started:
            assert started.brokers[1].node.address_of(1) == ("127.0.0.1", 19401)

    run(scenario())


@pytest.mark.parametrize(
    ("mechanism", "jaas", "problem"),
    [
        ("PLAIN", "", "KEY is not set: it has the name and the password or keytab for PLAIN"),
        ("PLAIN", "X required username=sasl.mechanism;", "KEY has no password, which PLAIN needs"),
        ("DIGEST", "X required;", "sasl.mechanism.inter.broker.protocol is DIGEST: kafkapy has PLAIN"),
        ("GSSAPI", "X", "KEY can't be read"),
    ],
)
def test_an_error_of_connections_between_brokers_names_the_brokers_keys(
    mechanism: str, jaas: str, problem: str
) -> None:
    key = f"listener.name.in.{mechanism.lower()}.sasl.jaas.config"
    config = BrokerConfig.from_properties({"sasl.mechanism.inter.broker.protocol": mechanism, key: jaas})
    with pytest.raises(InvalidConfigError) as refused:
        peer_security(config, "IN", "SASL_PLAINTEXT", SystemClock())
    assert str(refused.value).startswith(f"connections between brokers: {problem.replace('KEY', key)}")
