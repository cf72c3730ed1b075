"""The tree in which original consumers register and find each other: ZooKeeper's, as Kafka 0.8.2 lays it out.

``Registry`` has what the clients need of it. ``KazooRegistry`` reaches a real ZooKeeper; a broker of
``kafkapy.testing`` has another one for its own tree, for tests in its process.
"""

import json
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState
from kazoo.retry import KazooRetry, RetryFailedError

from kafkapy.clients.errors import ClientError
from kafkapy.clients.original.settings import SettingsError, ZooKeeperConnectSettings
from kafkapy.security.kazoo_client import new_kazoo_client, tls_failure

BROKERS: Final = "/brokers/ids"
TOPICS: Final = "/brokers/topics"
T = TypeVar("T")
Watch = Callable[[object], None]
"""Called with an event at the next change, perhaps also without one (then a connection broke); it must not block."""


class RegistryError(ClientError):
    """The registry can't be reached, or refuses an operation."""


class Registry(Protocol):
    """Blocking access to the tree, in one session at a time; every method raises RegistryError."""

    def get(self, path: str, watch: Watch | None = None) -> bytes | None:
        """The data of a node, None if it does not exist. Watches its data, its deletion and its creation."""
        ...

    def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """The names below a node; none, and no watch, if it does not exist."""
        ...

    def create_ephemeral(self, path: str, data: bytes) -> bool:
        """Create a node of this session, and its missing parents; whether it belongs to this session now."""
        ...

    def set(self, path: str, data: bytes) -> None:
        """Set the data of a node; creates it, and its missing parents, if it does not exist."""
        ...

    def ensure(self, path: str) -> None:
        """Create a node and its missing parents, unless it exists."""
        ...

    def delete(self, path: str) -> None:
        """Delete a node; nothing happens if it does not exist."""
        ...

    def on_new_session(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` when another session has followed one that expired; it must not block."""
        ...

    def close(self) -> None:
        """End the session: its ephemeral nodes disappear."""
        ...


class KazooRegistry:
    """See ``Registry``: a session with the ZooKeeper at ``zookeeper.connect``, opened at once."""

    def __init__(self, settings: ZooKeeperConnectSettings) -> None:
        if not settings.connect:
            raise SettingsError("zookeeper.connect is missing: give it host:port of a ZooKeeper, and the chroot if any")
        self._settings = settings
        self._was_lost = False
        self._listener: Callable[[], None] | None = None
        timeout_s = settings.session_timeout_ms / 1000
        retry = KazooRetry(max_tries=-1, delay=0.05, max_delay=1.0, deadline=2 * timeout_s)
        self._client = new_kazoo_client(settings.connect, settings.security, timeout=timeout_s, command_retry=retry)
        self._client.add_listener(self._state_changed)
        try:
            self._client.start(settings.connection_timeout_ms / 1000)
        except KazooTimeoutError:
            self._client.close()
            reason = f" ({failure})" if (failure := tls_failure(self._client)) else ""
            raise RegistryError(
                f"no ZooKeeper answers at {settings.connect} within {settings.connection_timeout_ms} ms{reason}:"
                " check zookeeper.connect, or increase zookeeper.connection.timeout.ms"
            ) from None

    def get(self, path: str, watch: Watch | None = None) -> bytes | None:
        """See ``Registry.get``."""
        if watch is not None and self._call(self._client.exists, path, watch=watch) is None:
            return None
        try:
            data: bytes = self._call(self._client.get, path)[0]
        except NoNodeError:
            return None
        return data

    def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """See ``Registry.children``."""
        try:
            names: list[str] = self._call(self._client.get_children, path, watch=watch)
        except NoNodeError:
            return []
        return names

    def create_ephemeral(self, path: str, data: bytes) -> bool:
        """See ``Registry.create_ephemeral``."""
        try:
            self._call(self._client.create, path, data, ephemeral=True, makepath=True)
        except NodeExistsError:  # perhaps created by an attempt whose answer was lost
            stat = self._call(self._client.exists, path)
            client_id = self._client.client_id
            return stat is not None and client_id is not None and stat.ephemeralOwner == client_id[0]
        return True

    def set(self, path: str, data: bytes) -> None:
        """See ``Registry.set``."""
        try:
            self._call(self._client.set, path, data)
        except NoNodeError:
            self.ensure(path)
            self._call(self._client.set, path, data)

    def ensure(self, path: str) -> None:
        """See ``Registry.ensure``."""
        self._call(self._client.ensure_path, path)

    def delete(self, path: str) -> None:
        """See ``Registry.delete``."""
        try:
            self._call(self._client.delete, path)
        except NoNodeError:
            return

    def on_new_session(self, listener: Callable[[], None]) -> None:
        """See ``Registry.on_new_session``."""
        self._listener = listener

    def close(self) -> None:
        """See ``Registry.close``."""
        self._client.stop()
        self._client.close()

    def _state_changed(self, state: str) -> None:
        """On a thread of kazoo's."""
        if state == KazooState.LOST:
            self._was_lost = True
        elif state == KazooState.CONNECTED and self._was_lost:
            self._was_lost = False
            if self._listener is not None:
                self._listener()

    def _call(self, function: Callable[..., T], *arguments: Any, **named: Any) -> T:
        try:
            result: T = self._client.retry(function, *arguments, **named)
        except (NoNodeError, NodeExistsError):
            raise
        except RetryFailedError:
            raise RegistryError(f"ZooKeeper at {self._settings.connect} can't be reached") from None
        except KazooException as error:
            raise RegistryError(f"ZooKeeper at {self._settings.connect}: {error!r}") from error
        return result


def bootstrap_of(registry: Registry) -> str:
    """The addresses of the registered brokers, ``host:port,…``, empty if there are none."""
    addresses = []
    for broker in sorted(registry.children(BROKERS)):
        content = registry.get(f"{BROKERS}/{broker}")
        address = None if content is None else broker_address(content)
        if address is not None:
            addresses.append(address)
    return ",".join(addresses)


def broker_address(content: bytes) -> str | None:
    """``host:port`` of a broker's registration: its plaintext listener; None if it has none, or can't be read."""
    try:
        found = json.loads(content)
        host, port = found.get("host"), found.get("port", -1)
        if host and port > 0:
            return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        for endpoint in found.get("endpoints", ()):
            if endpoint.startswith("PLAINTEXT://"):
                return str(endpoint.removeprefix("PLAINTEXT://"))
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None
    return None


def partitions_of(registry: Registry, topic: str, watch: Watch | None = None) -> list[int]:
    """The partitions of a topic, sorted; none if it does not exist or its node can't be read."""
    content = registry.get(f"{TOPICS}/{topic}", watch)
    try:
        return [] if content is None else sorted(int(number) for number in json.loads(content)["partitions"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return []
