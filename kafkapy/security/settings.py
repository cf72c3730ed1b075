"""The security of connections to brokers and to ZooKeepers: light, since every client imports it."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import ssl

    from kafkapy.protocol.client_core import Handshake
    from kafkapy.security.zookeeper import DigestLogin


class ClientSecurity(NamedTuple):
    """What a connection to a broker needs; both are None for PLAINTEXT."""

    tls: "ssl.SSLContext | None" = None
    authenticate: "Callable[[str], Handshake] | None" = None
    """Makes the handshake with a host that follows that of the versions; its steps may block."""


NO_SECURITY: Final = ClientSecurity()


class ZooKeeperSecurity(NamedTuple):
    """What a connection to a ZooKeeper needs; by default the session is in plaintext and has no identity."""

    tls: "ssl.SSLContext | None" = None
    login: "DigestLogin | None" = None
    """How each connection authenticates by SASL."""
    credentials: Sequence[tuple[str, str]] = ()
    """Scheme and credential (``digest``, ``user:password``) of each further identity of the session."""
    protects_nodes: bool = False
    """Whether new nodes get access control lists: their owners are the identities of the session."""


OPEN_ZOOKEEPER: Final = ZooKeeperSecurity()
JVM_OPTIONS: Final = "KAFKA_OPTS"
"""The environment variable with the options of Apache Kafka's JVM."""
JAAS_FILE: Final = "java.security.auth.login.config"
"""The JVM's property with the path of the JAAS file."""
