"""One blocking connection to one broker, with one request at a time.

The command line uses it in place of asyncio, whose import and event loop take 30 ms of processor time in each command;
without them a command takes 40 ms.
"""

import socket
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeVar

from kafkapy.clients.errors import ClientError, NoBrokerError, NotAuthenticatedError, NotServedError
from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.client_core import RENEWED_AFTER, ClientCore, Handshake, OtherProtocol, Request
from kafkapy.protocol.message import Message, ProtocolError, UnsupportedVersion
from kafkapy.security.errors import connection_failure
from kafkapy.security.settings import NO_SECURITY, ClientSecurity

if TYPE_CHECKING:
    import ssl

    from kafkapy.clock import Clock

CLIENT_ID: Final = "kafkapy-cli"
READ_SIZE: Final = 1 << 18
"""Bytes of one read from the socket."""
CONNECT_TIMEOUT_S: Final = 10.0
"""The longest wait for a connection, and for the first response, also where a later response may take longer."""

# Above these versions the message has topic ids in place of names, or lists of groups or keys in place of one.
_HIGHEST: Final = {
    ApiKey.PRODUCE: 8,
    ApiKey.FETCH: 11,
    ApiKey.METADATA: 9,
    ApiKey.OFFSET_COMMIT: 8,
    ApiKey.OFFSET_FETCH: 7,
    ApiKey.FIND_COORDINATOR: 3,
    ApiKey.DELETE_TOPICS: 5,
    ApiKey.LIST_OFFSETS: 8,
}

R = TypeVar("R", bound=Message)


class Connection:
    """A socket to ``host:port``; every method raises NoBrokerError when the connection is lost."""

    def __init__(
        self,
        host: str,
        port: int,
        timeout_s: float = 10.0,
        *,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        security: ClientSecurity = NO_SECURITY,
    ) -> None:
        self.host_and_port: Final = (host, port)
        self.address: Final = f"{host}:{port}"
        self._core = ClientCore(CLIENT_ID, highest=_HIGHEST)
        self._authenticate = security.authenticate
        self._clock: Clock | None = None
        self._renew_s = 0.0
        """When the client has to authenticate again, by the clock; without it never."""
        try:
            self._socket = socket.create_connection((host, port), min(timeout_s, connect_timeout_s))
        except OSError as error:
            raise NoBrokerError(f"no broker answers at {self.address}: {error.strerror or error}") from error
        if security.tls is not None:
            self._socket = self._encrypted(security.tls, host)
        self._timeout_s = timeout_s
        self._socket.settimeout(timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _encrypted(self, tls: "ssl.SSLContext", host: str) -> socket.socket:
        try:
            return tls.wrap_socket(self._socket, server_hostname=host)
        except OSError as error:
            self._socket.close()
            raise NoBrokerError(f"no TLS connection to {self.address}: {connection_failure(error)}") from error

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def call(self, request: Request, response_class: type[R], at_most: int | None = None) -> R:
        """Send ``request`` in the newest version that both sides know, or ``at_most`` this one; return the response."""
        response = self._exchange(request, self.version_for(request, at_most))
        assert isinstance(response, response_class), "a response is of the class of its request"
        return response

    def post(self, request: Request, at_most: int | None = None) -> None:
        """Send ``request``, in the version that ``call`` takes, without waiting: ``take`` returns the response."""
        self._write(request, self.version_for(request, at_most))

    def take(self, response_class: type[R]) -> R:
        """Wait for the response to the oldest request of ``post`` that is not answered."""
        response = self._next()
        assert isinstance(response, response_class), "responses come in the order of the requests"
        return response

    def send(self, request: Request) -> None:
        """Send ``request``, which has no response (Produce with acks=0)."""
        version = self.version_for(request)
        self._write(request, version, has_response=False)

    def version_for(self, request: Request, at_most: int | None = None) -> int:
        """Return the newest version of ``request`` that both sides know, or ``at_most`` this one.

        Raises NotServedError if there is none.
        """
        self.open()
        try:
            return self._core.version_of(request, at_most)
        except UnsupportedVersion:
            name = ApiKey(request.API_KEY).name
            raise NotServedError(
                f"the broker at {self.address} does not serve {name} in a version that kafkapy supports"
            ) from None

    def open(self, timeout_s: float = CONNECT_TIMEOUT_S) -> None:
        """Agree on versions with the broker, unless that is done; each response may take so long, or less.

        A broker answers this at once, however long its other responses take: one that doesn't is stopped or cut off.
        """
        if not self._core.has_negotiated:
            self._set_timeout(min(timeout_s, self._timeout_s))
            self._shake_hands(self._core.negotiate())
            self._log_in()
            self._set_timeout(self._timeout_s)
        elif self._clock and self._clock.monotonic_s() >= self._renew_s and not self._core.awaits_response:
            self._log_in()

    def _log_in(self) -> None:
        """Authenticate, if the broker wants that; most of the session's time later it is done again (KIP-368)."""
        if self._authenticate is None:
            return
        from kafkapy.clock import SystemClock  # it imports asyncio

        clock = SystemClock()
        begin_s = clock.monotonic_s()
        try:
            lifetime_ms = self._exchange_all(self._authenticate(self.host_and_port[0]))
        except ProtocolError as error:
            raise NotAuthenticatedError(f"{self.address} refuses the client: {error}") from error
        self._clock = clock if lifetime_ms else None
        self._renew_s = begin_s + lifetime_ms * RENEWED_AFTER / 1000

    def _set_timeout(self, timeout_s: float) -> None:
        try:
            self._socket.settimeout(timeout_s)
        except OSError as error:  # the socket is closed
            raise self._broken(error) from error

    def _shake_hands(self, handshake: Handshake) -> None:
        try:
            self._exchange_all(handshake)
        except ProtocolError as error:
            raise self._no_broker(error) from error

    def _exchange_all(self, handshake: Handshake) -> int:
        """Return for how many milliseconds the handshake holds; 0: always."""
        try:
            request, version = next(handshake)
            while True:
                if request.API_KEY == ApiKey.SASL_AUTHENTICATE:  # older brokers have version 0 alone
                    version = self._core.version_of(request, version)
                request, version = handshake.send(self._exchange(request, version))
        except StopIteration as end:
            return int(end.value or 0)

    def _exchange(self, request: Request, version: int) -> Message:
        self._write(request, version)
        return self._next()

    def _next(self) -> Message:
        try:
            while (response := self._core.next_response()) is None:
                self._core.receive_data(self._receive())
        except ProtocolError as error:
            raise self._no_broker(error) from error
        return response

    def _no_broker(self, error: ProtocolError) -> ClientError:
        if isinstance(error, OtherProtocol):
            what = f"{self.address} speaks {error.name}, not Kafka's protocol"
            return ClientError(f"{what}: give the address of a broker's plaintext listener")
        return ClientError(f"{self.address} does not answer as a Kafka broker: {error}")

    def _write(self, request: Request, version: int, *, has_response: bool = True) -> None:
        if self._core.throttle_ms:
            threading.Event().wait(self._core.throttle_ms / 1000)
        data = self._core.request(request, version, has_response=has_response)
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise self._broken(error) from error

    def _broken(self, error: OSError) -> NoBrokerError:
        return NoBrokerError(f"the connection to {self.address} broke: {error.strerror or error}")

    def _receive(self) -> bytes:
        try:
            piece = self._socket.recv(READ_SIZE)
        except TimeoutError as error:
            raise NoBrokerError(self._silence()) from error
        except OSError as error:
            raise NoBrokerError(f"{self.address} does not answer: {error.strerror or error}") from error
        if not piece:
            hint = "" if self._core.has_negotiated else ": its listener may need TLS or SASL, or is none of a broker"
            raise NoBrokerError(f"the broker at {self.address} closed the connection{hint}")
        return piece

    def _silence(self) -> str:
        if self._core.has_negotiated:
            return f"{self.address} does not answer: timed out"
        return (
            f"{self.address} does not answer: something listens there, but has given no Kafka answer within"
            f" {self._socket.gettimeout():g} s. The broker is stopped or cut off, or this is no listener of a broker"
        )
