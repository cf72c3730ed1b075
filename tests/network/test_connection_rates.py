"""``max.connection.creation.rate`` of the broker and of a listener, from a file and while the broker runs (KIP-612)."""

import asyncio
import time
from pathlib import Path

import pytest

from harness.client import Client
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.errors import InvalidConfigError
from kafkapy.network.limits import ConnectionRates
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
from tests.server.harness import run, running_broker

KEY = "max.connection.creation.rate"
OWN = f"listener.name.clients.{KEY}"
TWO = {
    "listeners": "CLIENTS://127.0.0.1:9092,BROKERS://127.0.0.1:9093",
    "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT",
    "inter.broker.listener.name": "BROKERS",
    "quota.window.num": "2",
}


def _throttles(rates: ConnectionRates, listener: str, count: int) -> list[int]:
    return [rates.throttle_ms(listener, 0) for _ in range(count)]


def test_without_a_limit_nothing_waits() -> None:
    assert _throttles(ConnectionRates(BrokerConfig.from_properties(TWO), "BROKERS"), "CLIENTS", 100) == [0] * 100


def test_the_limit_of_the_broker_spares_the_listener_for_brokers() -> None:
    rates = ConnectionRates(BrokerConfig.from_properties(TWO | {KEY: "4"}), "BROKERS")
    assert _throttles(rates, "CLIENTS", 6) == [0, 0, 0, 0, 250, 500]
    assert _throttles(rates, "BROKERS", 6) == [0] * 6


def test_a_listener_has_a_limit_of_its_own_and_waits_one_window_at_most() -> None:
    rates = ConnectionRates(BrokerConfig.from_properties(TWO | {OWN: "1"}), "BROKERS")
    assert _throttles(rates, "CLIENTS", 4) == [0, 1000, 1000, 1000]
    assert _throttles(rates, "BROKERS", 4) == [0] * 4
    assert rates.throttle_ms("CLIENTS", 5_000) == 0


def test_a_limit_changes_while_the_broker_runs() -> None:
    config = BrokerConfig.from_properties(TWO)
    rates = ConnectionRates(config, "BROKERS")
    config.update_dynamic(cluster_default={KEY: "1"})
    assert _throttles(rates, "CLIENTS", 2) == [0, 1000]
    config.update_dynamic(cluster_default={})
    assert _throttles(rates, "CLIENTS", 2) == [0, 0]


def test_a_limit_of_a_listener_that_is_no_number_prevents_the_start() -> None:
    with pytest.raises(InvalidConfigError, match=KEY):
        ConnectionRates(BrokerConfig.from_properties(TWO | {OWN: "many"}), "BROKERS")


def test_connections_above_the_rate_are_accepted_later_also_when_others_close(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, max__connection__creation__rate="5", quota__window__num="2") as broker:
            start_s = time.monotonic()
            clients = [await Client.connect(broker) for _ in range(8)]
            await clients[0].ask(ApiVersionsRequest(), 0)
            clients[0].writer.close()
            await asyncio.gather(*(client.ask(ApiVersionsRequest(), 0) for client in clients[1:]))
            assert time.monotonic() - start_s >= 0.3, "the sixth waits for 200 ms, and so do the others"

    run(scenario())
