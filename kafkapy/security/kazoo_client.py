"""kazoo's client with the security of a connection to a ZooKeeper, for programs that are no brokers (blocking)."""

import socket
from collections.abc import Callable
from threading import Thread
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, KazooException
from kazoo.handlers.threading import SequentialThreadingHandler

from kafkapy.security.errors import connection_failure
from kafkapy.security.settings import ZooKeeperSecurity


class _SecuredHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's threads and sockets, these with a context of TLS: kazoo's own have no choice of protocols and stores."""

    def __init__(self, security: ZooKeeperSecurity) -> None:
        super().__init__()
        self._security = security
        self.tls_failure = ""
        """Why TLS failed the last time."""
        self.is_login_refused = False

    @property
    def login_refusal(self) -> str:
        """The sentence for a login that the server does not accept."""
        login = self._security.login
        return f"it does not accept the user and password of {login.source}" if login is not None else ""

    def create_connection(
        self, address: tuple[str, int], hostname: str, timeout: float, **others: Any
    ) -> socket.socket:
        """Connect to an address, whose certificate has to be ``hostname``'s; raises OSError."""
        plain: socket.socket = super().create_connection(address, hostname=hostname, timeout=timeout, **others)
        if self._security.tls is None:
            return plain
        try:
            return self._security.tls.wrap_socket(plain, server_hostname=hostname)
        except OSError as error:
            plain.close()
            self.tls_failure = connection_failure(error)
            raise

    def spawn(self, func: Callable[..., object], *args: Any, **kwargs: Any) -> Thread:
        """Run one of kazoo's loops; it ends by an error if a server that requires SASL refuses the login."""

        def run() -> None:
            try:
                func(*args, **kwargs)
            except KazooException:
                self.is_login_refused = True

        thread: Thread = super().spawn(run)
        return thread


def new_kazoo_client(servers: str, security: ZooKeeperSecurity, **options: Any) -> KazooClient:
    """Return a client that is not started; ``options`` are further ones of ``KazooClient``."""
    if security.tls is not None or security.login is not None:
        options["handler"] = _SecuredHandler(security)
    if security.login is not None:
        options["sasl_options"] = security.login.options
    return KazooClient(hosts=servers, auth_data=list(security.credentials), **options)


def tls_failure(client: KazooClient) -> str:
    """Return why TLS has failed the last time, empty if it has not."""
    return client.handler.tls_failure if isinstance(client.handler, _SecuredHandler) else ""


def why_refused(client: KazooClient, error: KazooException) -> str:
    """Return why the server has refused a request with ``error``."""
    handler = client.handler
    if isinstance(handler, _SecuredHandler) and (handler.is_login_refused or isinstance(error, AuthFailedError)):
        return handler.login_refusal
    return f"{type(error).__name__} {error}"
