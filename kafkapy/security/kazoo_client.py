"""kazoo's client with the security of a connection to a ZooKeeper, for programs that are no brokers (blocking)."""

import socket
import ssl
from typing import Any

from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler

from kafkapy.security.errors import connection_failure
from kafkapy.security.settings import ZooKeeperSecurity


class _TlsHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's threads and sockets, those with a context of TLS; kazoo's own have no choice of protocols and stores."""

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__()
        self._context = context
        self.failure = ""

    def create_connection(self, address: tuple[str, int], hostname: str, timeout: float, **_: object) -> ssl.SSLSocket:
        """Connect to an address, whose certificate has to be ``hostname``'s; raises OSError."""
        plain = socket.create_connection(address, timeout)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            return self._context.wrap_socket(plain, server_hostname=hostname)
        except OSError as error:
            plain.close()
            self.failure = connection_failure(error)
            raise


def new_kazoo_client(servers: str, security: ZooKeeperSecurity, **options: Any) -> KazooClient:
    """Return a client that is not started; ``options`` are further ones of ``KazooClient``."""
    if security.tls is not None:
        options["handler"] = _TlsHandler(security.tls)
    if security.login is not None:
        options["sasl_options"] = security.login.options
    return KazooClient(hosts=servers, auth_data=list(security.credentials), **options)


def tls_failure(client: KazooClient) -> str:
    """Return why TLS has failed the last time, empty if it has not."""
    return client.handler.failure if isinstance(client.handler, _TlsHandler) else ""
