"""The security of a client's connections: light, since every client imports it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import ssl

    from kafkapy.protocol.client_core import ClientCore, Handshake


class ClientSecurity(NamedTuple):
    """What a connection to a broker needs; both are None for PLAINTEXT."""

    tls: "ssl.SSLContext | None" = None
    authenticate: "Callable[[ClientCore], Handshake] | None" = None
    """Makes the handshake that follows that of the versions."""


NO_SECURITY: Final = ClientSecurity()
