"""The client of newer requests, on a broker."""

import pytest

from bench.clients.newer import requests, settle, transact
from kafkapy.testing import Broker


def port_of(broker: Broker) -> int:
    return int(broker.bootstrap.rpartition(":")[2])


@pytest.mark.parametrize(
    ("kind", "version"), [("produce", 8), ("produce", 12), ("fetch", 12), ("metadata", 13), ("heartbeat", 1)]
)
def test_every_kind_of_request_is_answered_without_an_error(kind: str, version: int) -> None:
    with Broker() as broker:
        broker.create_topic("t")
        broker.produce("t", b"v")
        assert requests(port_of(broker), "t", kind, version, connections=2, requests=70)["p50_us"] > 0


def test_a_refused_request_ends_the_program() -> None:
    with Broker() as broker, pytest.raises(SystemExit, match="metadata was answered with error 3"):
        requests(port_of(broker), "missing", "metadata", 8, connections=1, requests=2)


def test_a_group_settles() -> None:
    with Broker() as broker:
        broker.create_topic("t", partitions=6)
        assert settle(port_of(broker), "t", members=3, groups=2)["settle_ms"] > 0


def test_transactions_have_an_epoch_each() -> None:
    with Broker() as broker:
        broker.create_topic("t")
        assert transact(port_of(broker), "t", transactions=3)["p50"] > 0
