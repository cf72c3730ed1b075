"""One broker with a listener for each kind of security, of kafkapy or of Apache Kafka."""

from collections.abc import Iterator
from contextlib import contextmanager

from compat_tests.brokers.own_broker import own_broker
from harness.process import HOST, Broker, ChildProcess, free_port
from harness.real_kafka import RealKafka
from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.users import MECHANISMS, set_password
from kafkapy.testing.hosting.security import KINDS as ALL_KINDS
from kafkapy.testing.hosting.security import BrokerSecurity

KINDS = {name: kind for name, kind in ALL_KINDS.items() if not kind.has_signed_tokens}
"""The kinds of security that Apache Kafka 2.7.2 has too."""


class SecuredBroker:
    """A running broker, the security of each kind, and the address of its listener."""

    def __init__(self, process: ChildProcess) -> None:
        self.process = process
        self.security = {kind: BrokerSecurity(kind) for kind in KINDS}
        ports: set[int] = set()
        while len(ports) < len(KINDS):  # each drawn by itself: two may be the same
            ports.add(free_port())
        self.addresses = {kind: f"{HOST}:{port}" for kind, port in zip(KINDS, ports, strict=True)}

    def settings(self) -> dict[str, str]:
        """``server.properties``: each listener has the name of its kind, and keys of its own."""
        plain = f"PLAINTEXT://{self.process.bootstrap}"
        listeners = [plain, *(f"{_name(kind)}://{address}" for kind, address in self.addresses.items())]
        protocols = [f"{_name(kind)}:{KINDS[kind].protocol}" for kind in KINDS]
        token_key = "delegation.token.master.key"
        if isinstance(self.process, RealKafka) and not self.process.has_zookeeper:
            listeners.append(self.process.controller_listener)
            protocols.append("CONTROLLER:PLAINTEXT")
            token_key = "delegation.token.secret.key"  # the older name is gone in 4.0
        settings = {
            "listeners": ",".join(listeners),
            "listener.security.protocol.map": ",".join(["PLAINTEXT:PLAINTEXT", *protocols]),
            "inter.broker.listener.name": "PLAINTEXT",
            token_key: "the-master-key",
        }
        for kind, security in self.security.items():
            for key, value in security.broker_settings().items():
                settings[f"listener.name.{_name(kind).lower()}.{key.removeprefix(security.prefix)}"] = value
        return settings

    def store_users(self) -> None:
        """Store the SCRAM credentials through the listener without security, by the API of KIP-554.

        A request has each user once: KRaft's controller takes no second mechanism of a user.
        """
        kinds = [kind for kind in KINDS if KINDS[kind].mechanism in MECHANISMS]
        with ClusterClient(self.process.bootstrap) as client:
            for name, password in self.security[kinds[0]].users.items():
                for kind in kinds:
                    set_password(client, name, password, [KINDS[kind].mechanism])

    def port(self, kind: str) -> int:
        """The port of a kind of security."""
        return int(self.addresses[kind].rpartition(":")[2])

    def client_settings(self, kind: str, client: str, user: str = "alice") -> dict[str, object]:
        """See ``BrokerSecurity.client_settings``."""
        return self.security[kind].client_settings(client, self.addresses[kind], user)


def _name(kind: str) -> str:
    return kind.upper().replace("_", "")


@contextmanager
def secured(broker: Broker) -> Iterator[SecuredBroker]:
    """A secured broker of the kind of ``broker``."""
    process = own_broker(broker, {})
    found = SecuredBroker(process)
    process.overrides.update(found.settings())
    try:
        process.start()
        found.store_users()
        yield found
    finally:
        process.close()
