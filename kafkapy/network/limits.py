"""The limits on a broker's connections: in all, from one host, and how many are accepted a second."""

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Self

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.broker_keys import INT_MAX, LISTENER_PREFIX, broker_key
from kafkapy.config.listeners import parse_counts
from kafkapy.metrics import Metrics
from kafkapy.network.budget import FrameBudget
from kafkapy.platform import portable
from kafkapy.quotas.rates import Rate

DESCRIPTORS_KEPT: Final = 64
"""Descriptors, or an eighth of a small limit, that connections leave for the broker's files."""
CREATION_RATE: Final = "max.connection.creation.rate"
_OVERRIDES = "max.connections.per.ip.overrides"
resource: Any = portable.module_or_none("resource")
"""None on Windows, which has no such limit."""


@dataclass(slots=True, eq=False)
class Limits:
    """The limits of one listener's connections, in Kafka's units."""

    max_frame_size: int
    max_connections: int
    max_connections_per_ip: int
    per_ip_overrides: dict[str, int]
    max_idle_ms: int

    @classmethod
    def of(cls, config: BrokerConfig) -> Self:
        """Read them from the broker's configuration."""
        return cls(
            max_frame_size=config.integer("socket.request.max.bytes"),
            max_connections=config.integer("max.connections"),
            max_connections_per_ip=config.integer("max.connections.per.ip"),
            per_ip_overrides=parse_counts(_OVERRIDES, config.text(_OVERRIDES)),
            max_idle_ms=config.integer("connections.max.idle.ms"),
        )


class ConnectionCounts:
    """The open connections of a broker, over all listeners."""

    __slots__ = ("total", "_by_host", "_waiting")

    def __init__(self) -> None:
        self.total = 0
        self._waiting: list[Callable[[], None]] = []
        self._by_host: Counter[str] = Counter()

    def admits(self, host: str, limits: Limits) -> bool:
        """Tell whether one more connection of ``host`` is within its limit."""
        return self._by_host[host] < limits.per_ip_overrides.get(host, limits.max_connections_per_ip)

    def add(self, host: str) -> None:
        """A connection was accepted."""
        self.total += 1
        self._by_host[host] += 1

    def remove(self, host: str) -> None:
        """A connection was closed."""
        self.total -= 1
        self._by_host[host] -= 1
        if not self._by_host[host]:
            del self._by_host[host]
        waiting, self._waiting = self._waiting, []
        for retry in waiting:
            retry()

    def wait(self, retry: Callable[[], None]) -> None:
        """Call ``retry`` once, when a connection of any listener is closed."""
        self._waiting.append(retry)


class ConnectionRates:
    """How fast a broker, and each of its listeners, accepts connections (KIP-612).

    The keys are read at each connection: they may change while the broker runs. ``protected``, the listener for brokers
    beside one for clients, has its own limit alone. Raises InvalidConfigError.
    """

    __slots__ = ("_config", "_protected", "_window_count", "_window_ms", "_rates")

    def __init__(self, config: BrokerConfig, protected: str | None) -> None:
        self._config = config
        self._protected = protected
        self._window_count = config.integer("quota.window.num")
        self._window_ms = config.integer("quota.window.size.seconds") * 1000
        self._rates: dict[str, Rate] = {}
        for endpoint in config.listeners:
            self._limit(_own_key(endpoint.listener_name))  # fails now, not at the first connection

    def throttle_ms(self, listener: str, now_ms: int) -> int:
        """Count a connection; return how long the listener accepts no further one, one window at most."""
        own = self._count(_own_key(listener), now_ms)
        of_broker = 0 if listener == self._protected else self._count(CREATION_RATE, now_ms)
        return min(max(own, of_broker), self._window_ms)

    def _count(self, key: str, now_ms: int) -> int:
        limit = self._limit(key)
        if limit == INT_MAX:
            return 0
        rate = self._rates.get(key)
        if rate is None:
            rate = self._rates[key] = Rate(self._window_count, self._window_ms)
        rate.record(1, now_ms)
        return rate.throttle_ms(limit, now_ms)

    def _limit(self, key: str) -> int:
        settings, kind = self._config.settings(key), broker_key(key)
        assert kind is not None, "it is a key of Apache Kafka, or one of a listener"
        limit = kind.parse(settings[0].text) if settings else INT_MAX
        assert isinstance(limit, int), "the key has whole numbers"
        return limit


def _own_key(listener: str) -> str:
    return f"{LISTENER_PREFIX}{listener.lower()}.{CREATION_RATE}"


@dataclass(slots=True, eq=False)
class ListenerResources:
    """The objects that all listeners of a broker share."""

    limits: Limits
    budget: FrameBudget
    """The memory for requests."""
    response_budget: FrameBudget
    rates: ConnectionRates
    metrics: Metrics = field(default_factory=Metrics)
    counts: ConnectionCounts = field(default_factory=ConnectionCounts)


def allow_many_descriptors() -> int:
    """Raise this process's limit of open files to the maximum that the system allows (often 1,024 before); return the
    limit.

    -1 means that the system has no such limit.

    Each connection takes a descriptor, and each open segment. Only a broker process should call it.
    """
    if resource is None:
        return -1
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return int(hard)


def first_kept_descriptor() -> int:
    """Return the lowest descriptor that no connection may take: the last ones are kept for files.

    The system gives out the lowest free one. The broker can therefore change the present set while clients hold an
    earlier one.
    """
    if resource is None:
        return sys.maxsize
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        return sys.maxsize
    return int(limit - min(DESCRIPTORS_KEPT, limit // 8))
