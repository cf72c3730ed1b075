"""How the original producer finds the leaders of partitions: in ZooKeeper, or from a list of brokers."""

import json
import threading
from collections.abc import Mapping
from typing import Final, Protocol

from kafkapy.clients.cluster import ClusterClient, parse_bootstrap
from kafkapy.clients.errors import ClientError
from kafkapy.clients.original.registry import BROKERS, TOPICS, Registry, bootstrap_of, broker_address, partitions_of

Address = tuple[str, int]
Leaders = Mapping[int, Address | None]
"""Partition → the address of its leader, None if it has none at the moment."""
NO_LEADERS: Final[Leaders] = {}


class BrokerDiscovery(Protocol):
    """Where to send; raises ClientError."""

    def leaders(self, topic: str) -> Leaders:
        """The partitions of a topic; asks for its creation, and returns none, if it does not exist."""
        ...

    def forget(self) -> None:
        """Forget the leaders, which may have changed."""
        ...

    def close(self) -> None:
        """Close connections."""
        ...


class ZooKeeperDiscovery:
    """``/brokers/ids`` and ``/brokers/topics``; what was read is kept until a watch reports a change."""

    def __init__(self, registry: Registry, timeout_s: float) -> None:
        self._registry = registry
        self._timeout_s = timeout_s
        self._known: dict[str, Leaders] = {}
        self._changed = threading.Event()
        registry.on_new_session(self._changed.set)

    def leaders(self, topic: str) -> Leaders:
        """See ``BrokerDiscovery.leaders``."""
        if self._changed.is_set():
            self._changed.clear()
            self._known.clear()
        found = self._known.get(topic)
        if found is None:
            found = self._read(topic)
            if found:
                self._known[topic] = found
            else:
                self._ask_for(topic)
        return found

    def forget(self) -> None:
        """See ``BrokerDiscovery.forget``."""
        self._known.clear()

    def close(self) -> None:
        """See ``BrokerDiscovery.close``."""
        self._registry.close()

    def _noticed(self, _event: object) -> None:
        self._changed.set()

    def _read(self, topic: str) -> Leaders:
        addresses: dict[int, Address] = {}
        for name in self._registry.children(BROKERS, self._noticed):
            content = self._registry.get(f"{BROKERS}/{name}")
            address = None if content is None else broker_address(content)
            if address is not None:
                (addresses[int(name)],) = parse_bootstrap(address)
        found: dict[int, Address | None] = {}
        for partition in partitions_of(self._registry, topic, self._noticed):
            path = f"{TOPICS}/{topic}/partitions/{partition}/state"
            found[partition] = addresses.get(_leader(path, self._registry.get(path, self._noticed)))
        return found

    def _ask_for(self, topic: str) -> None:
        bootstrap = bootstrap_of(self._registry)
        if not bootstrap:
            raise ClientError("no broker is registered: start one, or check zookeeper.connect")
        with ClusterClient(bootstrap, self._timeout_s) as client:
            client.metadata([topic], create=True)


def _leader(path: str, content: bytes | None) -> int:
    """The leader that a partition's state names, -1 if there is none; raises ClientError for another content."""
    if content is None:
        return -1
    try:
        return int(json.loads(content)["leader"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ClientError(f"{path} holds no state of a partition: {content[:100]!r}") from None


class ListDiscovery:
    """Asks the brokers of ``metadata.broker.list`` for metadata, once for each topic until ``forget``."""

    def __init__(self, bootstrap: str, timeout_s: float) -> None:
        self._client = ClusterClient(bootstrap, timeout_s)
        self._known: dict[str, Leaders] = {}

    def leaders(self, topic: str) -> Leaders:
        """See ``BrokerDiscovery.leaders``."""
        if topic not in self._known:
            try:
                found = self._client.metadata([topic], create=True)
            except ClientError:
                self._client.close()
                raise
            addresses = {broker.node_id: (broker.host, broker.port) for broker in found.brokers}
            (described,) = found.topics
            leaders = {each.partition_index: addresses.get(each.leader_id) for each in described.partitions}
            if not leaders:
                return NO_LEADERS
            self._known[topic] = leaders
        return self._known[topic]

    def forget(self) -> None:
        """See ``BrokerDiscovery.forget``."""
        self._known.clear()

    def close(self) -> None:
        """See ``BrokerDiscovery.close``."""
        self._client.close()
