"""The common base of both kinds of broker."""

from pathlib import Path

import pytest

from kafkapy.testing import AsyncBroker, Broker, BrokerNotRunningError, Cluster, MovingClock
from kafkapy.testing.hosting.surface import HostedSurface


@pytest.mark.parametrize("kind", [Broker, AsyncBroker])
def test_a_broker_that_was_not_started_has_no_address(kind: type[HostedSurface]) -> None:
    broker = kind(topics=["t"])
    assert not broker.is_running
    assert broker.data == Path()
    assert isinstance(broker.clock, MovingClock)
    assert broker.faults.rules == ()
    for name in ("port", "bootstrap"):
        with pytest.raises(BrokerNotRunningError, match="was not started"):
            getattr(broker, name)


def test_a_running_broker_has_its_directory_and_addresses(tmp_path: Path) -> None:
    with Broker(data=tmp_path) as broker:
        assert broker.is_running
        assert broker.data == tmp_path
        assert broker.bootstrap == f"127.0.0.1:{broker.port}"


def test_a_broker_of_a_cluster_has_its_own_address_directory_and_faults() -> None:
    with Cluster(2) as cluster:
        one, other = cluster.brokers
        assert isinstance(one, Broker)
        assert one.port != other.port
        assert one.data != other.data
        assert one.faults is not other.faults
