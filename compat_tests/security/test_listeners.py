"""Listeners that are added and removed while the broker runs (KIP-226)."""

import socket
import time
from collections.abc import Callable, Iterator

import pytest

from compat_tests.brokers.own_broker import own_broker
from harness.process import HOST, Broker, ChildProcess, free_port
from harness.wire import Wire
from kafkapy.protocol.constants import ResourceType
from kafkapy.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkapy.protocol.messages.metadata import MetadataRequest

PROTOCOLS = "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT"
WITH_EXTERNAL = f"{PROTOCOLS},EXTERNAL:PLAINTEXT"
PATIENCE_S = 30.0


class Listening:
    """A broker with a listener for clients, one for brokers, and the address of a third that it may have."""

    def __init__(self, process: ChildProcess) -> None:
        self.process = process
        self.port = free_port()
        self.two = f"PLAINTEXT://{process.bootstrap},INTERNAL://{HOST}:{free_port()}"
        self.three = f"{self.two},EXTERNAL://{HOST}:{self.port}"
        process.overrides |= {
            "broker.id": "0",
            "listeners": self.two,
            "listener.security.protocol.map": PROTOCOLS,
            "inter.broker.listener.name": "INTERNAL",
        }

    def alter(self, **keys: str | None) -> int:
        """The error code of a change of the broker's configuration; dots of keys are two underlines."""
        changes = [AlterableConfig(name.replace("__", "."), int(text is None), text) for name, text in keys.items()]
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(ResourceType.BROKER, "0", changes)])
        with Wire(self.process.bootstrap) as wire:
            code: int = wire.ask(request, 0).responses[0].error_code
            return code

    def brokers(self) -> list[tuple[str, int]]:
        """The addresses that clients of the third listener are told."""
        with Wire(f"{HOST}:{self.port}") as wire:
            return [(each.host, each.port) for each in wire.ask(MetadataRequest([]), 1).brokers]

    def is_open(self) -> bool:
        try:
            socket.create_connection((HOST, self.port), 1).close()
        except OSError:
            return False
        return True


@pytest.fixture
def listening(broker: Broker) -> Iterator[Listening]:
    process = own_broker(broker, {})
    try:
        found = Listening(process)
        process.start()
        yield found
    finally:
        process.close()


def _wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_listener_is_added_advertised_and_removed(listening: Listening) -> None:
    two, three = listening.two, listening.three
    refused = {
        "the third has no protocol": {"listeners": three},
        "brokers have no listener": {"listeners": two.partition(",")[0]},
        "brokers have no address": {"advertised__listeners": two.partition(",")[0]},
        "another protocol": {"listener__security__protocol__map": PROTOCOLS.replace("PLAINTEXT:P", "PLAINTEXT:SASL_P")},
        "no listener has this address": {"advertised__listeners": three},
        "one port twice": {"listeners": f"{three},EXTERNAL2://{HOST}:{listening.port}"},
        "no address": {"listeners": "nonsense"},
    }
    assert {name: listening.alter(**keys) for name, keys in refused.items()} == dict.fromkeys(refused, 42)
    assert not listening.is_open()

    assert listening.alter(listeners=three, listener__security__protocol__map=WITH_EXTERNAL) == 0
    _wait_until(listening.is_open)
    _wait_until(lambda: listening.brokers() == [(HOST, listening.port)])
    assert listening.alter(advertised__listeners=f"{two},EXTERNAL://there:9") == 0
    _wait_until(lambda: listening.brokers() == [("there", 9)])

    if listening.process.name.startswith("kafka-2."):
        return  # its acceptor ends with an error at the next connection, and the port stays open
    with Wire(f"{HOST}:{listening.port}") as wire:
        wire.ask(MetadataRequest([]), 1)
        assert listening.alter(listeners=None, advertised__listeners=None) == 0
        _wait_until(lambda: not listening.is_open())
        with pytest.raises((AssertionError, OSError)):
            wire.ask(MetadataRequest([]), 1)
