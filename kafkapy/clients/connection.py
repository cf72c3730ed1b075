"""One blocking connection to one broker: a request out, its response back."""

import socket
import struct
from types import TracebackType
from typing import Final, Protocol, Self, TypeVar

from kafkapy.clients.errors import ClientError, NoBrokerError
from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.headers import RequestHeader, read_response_header, write_request_header
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkapy.protocol.primitives import Message, ProtocolError, Reader, Writer

CLIENT_ID: Final = "kafkapy-cli"
MAX_RESPONSE_BYTES: Final = 256 * 1024 * 1024
_INT32: Final = struct.Struct(">i")

# Above these versions the message means topics by id, or has another shape for several groups or keys at once.
_HIGHEST: Final = {
    ApiKey.PRODUCE: 8,
    ApiKey.FETCH: 11,
    ApiKey.METADATA: 9,
    ApiKey.OFFSET_COMMIT: 8,
    ApiKey.OFFSET_FETCH: 7,
    ApiKey.FIND_COORDINATOR: 3,
    ApiKey.DELETE_TOPICS: 5,
    ApiKey.LIST_OFFSETS: 5,
}

R = TypeVar("R", bound=Message)


class Request(Protocol):
    """A message that asks for something: those of a class called ``…Request``."""

    API_KEY: int
    MAX_VERSION: int

    def write(self, writer: Writer, version: int) -> None:
        """See ``Message.write``."""
        ...


class Connection:
    """A socket to ``host:port``; every method raises NoBrokerError when the broker goes away."""

    def __init__(self, host: str, port: int, timeout_s: float = 10.0) -> None:
        self.address: Final = f"{host}:{port}"
        self._correlation_id = 0
        self._versions: dict[int, tuple[int, int]] = {}
        try:
            self._socket = socket.create_connection((host, port), timeout_s)
        except OSError as error:
            raise NoBrokerError(f"no broker answers at {self.address}: {error.strerror or error}") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def call(self, request: Request, response_class: type[R]) -> R:
        """Send ``request`` in the newest version that both sides know; the response."""
        return self._exchange(request, response_class, self.version_for(request))

    def send(self, request: Request) -> None:
        """Send ``request``, to which no response comes (Produce with acks=0)."""
        self._write(request, self.version_for(request))

    def version_for(self, request: Request) -> int:
        """Return the newest version of ``request`` that both sides know; raises ClientError if there is none."""
        if not self._versions:
            answer = self._exchange(ApiVersionsRequest(), ApiVersionsResponse, 0)
            self._versions = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        key = ApiKey(request.API_KEY)
        low, high = self._versions.get(key, (0, -1))
        version = min(high, request.MAX_VERSION, _HIGHEST.get(key, request.MAX_VERSION))
        if version < low:
            raise ClientError(
                f"the broker at {self.address} does not serve {key.name} in a version that kafkapy speaks"
            )
        return version

    def _exchange(self, request: Request, response_class: type[R], version: int) -> R:
        self._write(request, version)
        try:
            reader = Reader(self._read_frame(), budget=100_000_000)
            read_response_header(reader, request.API_KEY, version)
            return response_class.read(reader, version)
        except ProtocolError as error:
            raise ClientError(f"{self.address} does not answer as a Kafka broker: {error}") from error

    def _write(self, request: Request, version: int) -> None:
        self._correlation_id += 1
        writer = Writer()
        write_request_header(writer, RequestHeader(request.API_KEY, version, self._correlation_id, CLIENT_ID))
        request.write(writer, version)
        body = writer.getvalue()
        try:
            self._socket.sendall(_INT32.pack(len(body)) + body)
        except OSError as error:
            raise NoBrokerError(f"the connection to {self.address} broke: {error.strerror or error}") from error

    def _read_frame(self) -> bytes:
        (size,) = _INT32.unpack(self._receive(4))
        if not 0 <= size <= MAX_RESPONSE_BYTES:
            raise ClientError(f"{self.address} does not answer as a Kafka broker: a response of {size} bytes")
        return self._receive(size)

    def _receive(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            try:
                piece = self._socket.recv(min(size - len(received), 1 << 20))
            except OSError as error:
                raise NoBrokerError(f"{self.address} does not answer: {error.strerror or error}") from error
            if not piece:
                raise NoBrokerError(f"the broker at {self.address} closed the connection")
            received += piece
        return bytes(received)
