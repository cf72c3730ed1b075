"""The configuration of connection limits, and the counting of connections."""

import resource
import sys

import pytest

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.network import limits
from kafkapy.network.limits import ConnectionCounts, Limits, allow_many_descriptors, first_kept_descriptor


def test_limits_come_from_the_configuration() -> None:
    limits = Limits.of(
        BrokerConfig.from_properties(
            {
                "max.connections": "9",
                "max.connections.per.ip": "3",
                "max.connections.per.ip.overrides": "127.0.0.1:5, ::1:2",
                "connections.max.idle.ms": "1000",
                "socket.request.max.bytes": "5000",
            }
        )
    )
    assert (limits.max_connections, limits.max_connections_per_ip, limits.max_idle_ms) == (9, 3, 1000)
    assert (limits.max_frame_size, limits.per_ip_overrides) == (5000, {"127.0.0.1": 5, "::1": 2})


def test_connections_are_counted_by_host() -> None:
    limits = Limits(1, 100, 2, {"special": 1}, 1)
    counts = ConnectionCounts()
    for _ in range(2):
        assert counts.admits("a", limits)
        counts.add("a")
    assert not counts.admits("a", limits)
    assert counts.admits("special", limits)
    counts.add("special")
    assert not counts.admits("special", limits)
    counts.remove("a")
    assert counts.admits("a", limits)
    assert counts.total == 2


def test_each_waiting_listener_is_called_once_when_a_connection_closes() -> None:
    counts = ConnectionCounts()
    heard: list[str] = []
    for _ in range(2):
        counts.add("a")
    for name in ("one", "other"):
        counts.wait(lambda name=name: heard.append(name))  # type: ignore[misc]
    counts.remove("a")
    counts.remove("a")
    assert heard == ["one", "other"]


def test_a_broker_raises_its_limit_of_descriptors() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 256), hard))
        assert [allow_many_descriptors() for _ in range(2)] == [hard, hard]
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
        for limit, first in ((256, 224), (min(hard, 4096), min(hard, 4096) - 64)):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
            assert first_kept_descriptor() == first
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_system_without_a_limit_of_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "resource", None)
    assert allow_many_descriptors() == -1
    assert first_kept_descriptor() == sys.maxsize
