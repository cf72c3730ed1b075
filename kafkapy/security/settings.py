"""The security of a client's connections: light, since every client imports it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import ssl

    from kafkapy.protocol.client_core import Handshake


class ClientSecurity(NamedTuple):
    """What a connection to a broker needs; both are None for PLAINTEXT."""

    tls: "ssl.SSLContext | None" = None
    authenticate: "Callable[[str], Handshake] | None" = None
    """Makes the handshake with a host that follows that of the versions; its steps may block."""


NO_SECURITY: Final = ClientSecurity()
