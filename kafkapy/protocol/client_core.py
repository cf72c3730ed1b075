"""A client's side of a connection without I/O: requests in, bytes out; bytes in, responses out.

Two thin shells use it: ``clients/connection.py`` with a blocking socket, ``network/peer_connection.py`` with asyncio. A
shell writes what ``request`` returns to its socket, passes everything that it reads to ``receive_data``, and takes the
responses from ``next_response`` until there is none.

- Responses come in the order of the requests. The correlation id of each must be that of the oldest request that is
  not answered.
- The buffer of a frame grows with the bytes that arrive, not with the size that the frame announces, and has a maximum.
  A response keeps its frame: fields of type ``records`` are views of it.
- After a ``ProtocolError`` the bytes that follow can't be interpreted: the connection must be closed.
- ``throttle_ms`` is the time that the broker asks the client to wait before the next request (KIP-219). The shell has
  the clock and waits.
- A ``Handshake`` has the requests that must be sent before any other: ``negotiate`` asks for the versions that the
  broker serves, and SASL has another. TLS needs none: it is between the socket and these bytes.
"""

import struct
from collections import deque
from collections.abc import Generator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.framing import FrameTooLarge, InvalidFrameLength
from kafkapy.protocol.headers import RequestHeader, read_response_header, write_request_header
from kafkapy.protocol.message import InvalidValue, Message, ProtocolError, UnsupportedVersion
from kafkapy.protocol.messages import response_class
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkapy.protocol.reader import Reader
from kafkapy.protocol.writer import Writer

MAX_RESPONSE_SIZE: Final = 256 * 1024 * 1024
"""Maximum bytes of a response's frame."""

DECODED_VALUES: Final = 100_000_000
"""Maximum number of values in a response, see ``Reader``."""

_PREFIX: Final = struct.Struct(">i")
_OTHER_PROTOCOLS: Final = MappingProxyType({
    b"HTTP": "HTTP", b"SSH-": "SSH", b"\x15\x03\x01\0": "TLS", b"\x15\x03\x03\0": "TLS"
})  # fmt: skip
"""The first bytes of answers in other protocols to bytes that are none of theirs; of TLS: an alert."""
_NO_LIMITS: Final[Mapping[ApiKey, int]] = MappingProxyType({})

_BROKER_WAITS_BELOW: Final = {
    ApiKey.PRODUCE: 6, ApiKey.FETCH: 8, ApiKey.LIST_OFFSETS: 3, ApiKey.METADATA: 6, ApiKey.OFFSET_COMMIT: 4,
    ApiKey.OFFSET_FETCH: 4, ApiKey.FIND_COORDINATOR: 2, ApiKey.JOIN_GROUP: 3, ApiKey.HEARTBEAT: 2,
    ApiKey.LEAVE_GROUP: 2, ApiKey.SYNC_GROUP: 2, ApiKey.DESCRIBE_GROUPS: 2, ApiKey.LIST_GROUPS: 2,
    ApiKey.API_VERSIONS: 2, ApiKey.CREATE_TOPICS: 3, ApiKey.DELETE_TOPICS: 2, ApiKey.DELETE_RECORDS: 1,
    ApiKey.INIT_PRODUCER_ID: 1, ApiKey.ADD_PARTITIONS_TO_TXN: 1, ApiKey.ADD_OFFSETS_TO_TXN: 1, ApiKey.END_TXN: 1,
    ApiKey.TXN_OFFSET_COMMIT: 1, ApiKey.DESCRIBE_ACLS: 1, ApiKey.CREATE_ACLS: 1, ApiKey.DELETE_ACLS: 1,
    ApiKey.DESCRIBE_CONFIGS: 2, ApiKey.ALTER_CONFIGS: 1, ApiKey.ALTER_REPLICA_LOG_DIRS: 1,
    ApiKey.DESCRIBE_LOG_DIRS: 1, ApiKey.CREATE_PARTITIONS: 1, ApiKey.CREATE_DELEGATION_TOKEN: 1,
    ApiKey.RENEW_DELEGATION_TOKEN: 1, ApiKey.EXPIRE_DELEGATION_TOKEN: 1, ApiKey.DESCRIBE_DELEGATION_TOKEN: 1,
    ApiKey.DELETE_GROUPS: 1,
}  # fmt: skip
"""The first version of an API in which the client has to wait; before it the broker delayed the response (KIP-219)."""


class OtherProtocol(FrameTooLarge):
    """The peer answers in another protocol; as the size of a response its first bytes are too large."""

    def __init__(self, name: str) -> None:
        super().__init__(f"it speaks {name}, not Kafka's protocol")
        self.name = name


class Request(Protocol):
    """A request message: an instance of a generated class ``…Request``."""

    API_KEY: int
    MAX_VERSION: int

    def write(self, writer: Writer, version: int) -> None:
        """See ``Message.write``."""
        ...


Handshake = Generator[tuple[Request, int], Message, int | None]
"""Yields each request with its version and is sent the response to it; raises when the broker does not agree.

It returns for how many milliseconds it holds: before they are over it has to be made again (KIP-368); 0, None: always.
"""
RENEWED_AFTER: Final = 0.85
"""The part of this time after which it is made again, as by Java's clients."""


class _InFlight(NamedTuple):
    """A request that is not answered."""

    correlation_id: int
    api_key: int
    version: int


class ClientCore:
    """The state of one client connection, without I/O: bytes of requests out, responses in.

    ``highest`` limits the versions that ``version_of`` chooses, by API key.
    """

    def __init__(
        self,
        client_id: str,
        *,
        max_response_size: int = MAX_RESPONSE_SIZE,
        highest: Mapping[ApiKey, int] = _NO_LIMITS,
    ) -> None:
        self.throttle_ms = 0
        """How long to wait before the next request, counted from the arrival of the last response."""
        self._client_id = client_id
        self._max_response_size = max_response_size
        self._highest = highest
        self._served: dict[int, tuple[int, int]] | None = None
        self._correlation_id = 0
        self._in_flight: deque[_InFlight] = deque()
        self._prefix = bytearray()
        self._frame = bytearray()
        self._frame_size = -1  # -1: the prefix is not complete
        self._frames: deque[bytearray] = deque()
        self._failure: ProtocolError | None = None

    @property
    def awaits_response(self) -> bool:
        """Whether a request is not answered."""
        return bool(self._in_flight)

    @property
    def has_negotiated(self) -> bool:
        """Whether the versions that the broker serves are known."""
        return self._served is not None

    def negotiate(self) -> Generator[tuple[Request, int], Message, None]:
        """Ask for the versions that the broker serves: in version 0, which every broker understands (KIP-35)."""
        response = yield ApiVersionsRequest(), 0
        assert isinstance(response, ApiVersionsResponse), "a response is of the class of its request"
        if response.error_code:
            raise ProtocolError(f"ApiVersions is refused with error {response.error_code}")
        self._served = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}

    def version_of(self, request: Request, at_most: int | None = None) -> int:
        """Return the newest version of ``request`` that both sides know; raises UnsupportedVersion if there is none.

        ``at_most`` limits it further, for a field that newer versions don't have.
        """
        assert self._served is not None, "the versions are negotiated first"
        key = ApiKey(request.API_KEY)
        low, high = self._served.get(key, (0, -1))
        version = min(high, request.MAX_VERSION, self._highest.get(key, request.MAX_VERSION))
        version = version if at_most is None else min(version, at_most)
        if version < low:
            raise UnsupportedVersion(f"{key.name} is not served in a version that kafkapy speaks")
        return version

    def request(
        self, request: Request, version: int, *, has_response: bool = True, max_structs: int | None = None
    ) -> bytes:
        """Return the frame of a request; raises ProtocolError when the version can't express it.

        ``has_response`` is false for a Produce with acks=0, which the broker does not answer. A request of more than
        ``max_structs`` raises TooManyStructs, and counts as not sent.
        """
        if self._failure is not None:
            raise self._failure
        self._correlation_id = (self._correlation_id + 1) & 0x7FFF_FFFF
        writer = Writer(max_structs=max_structs)
        header = RequestHeader(request.API_KEY, version, self._correlation_id, self._client_id)
        write_request_header(writer, header)
        try:
            request.write(writer, version)
        except struct.error as error:
            raise InvalidValue(f"{type(request).__name__}: {error}") from error
        body = writer.getvalue()
        if has_response:
            self._in_flight.append(_InFlight(self._correlation_id, request.API_KEY, version))
        self.throttle_ms = 0
        return _PREFIX.pack(len(body)) + body

    def receive_data(self, data: bytes | memoryview) -> None:
        """Copy bytes that have arrived; ``next_response`` raises the error of bad bytes after the responses before."""
        view = memoryview(data)
        while view and self._failure is None:
            if self._frame_size < 0:
                needed = _PREFIX.size - len(self._prefix)
                self._prefix += view[:needed]
                view = view[needed:]
                if len(self._prefix) == _PREFIX.size:
                    self._begin_frame(*_PREFIX.unpack(self._prefix))
            else:
                needed = self._frame_size - len(self._frame)
                self._frame += view[:needed]
                view = view[needed:]
            if len(self._frame) == self._frame_size:
                self._frames.append(self._frame)
                self._frame, self._frame_size = bytearray(), -1
                self._prefix.clear()

    def next_response(self) -> Message | None:
        """Return the response to the oldest request that is not answered, or None if it is not complete.

        Raises ProtocolError for bytes that are no response to it, and from then on at each call.
        """
        if not self._frames:
            if self._failure is not None:
                raise self._failure
            return None
        try:
            return self._decode(memoryview(self._frames.popleft()))
        except ProtocolError as error:
            self._failure = error
            self._frames.clear()
            raise

    def _begin_frame(self, size: int) -> None:
        if size < 0:
            self._failure = InvalidFrameLength(f"a response of {size} bytes")
        elif size > self._max_response_size and (name := _OTHER_PROTOCOLS.get(bytes(self._prefix))):
            self._failure = OtherProtocol(name)
        elif size > self._max_response_size:
            self._failure = FrameTooLarge(f"a response of {size} bytes, at most {self._max_response_size} are allowed")
        else:
            self._frame_size = size

    def _decode(self, frame: memoryview) -> Message:
        if not self._in_flight:
            raise ProtocolError("a response to no request")
        expected, key, version = self._in_flight.popleft()
        reader = Reader(frame, DECODED_VALUES)
        correlation_id = read_response_header(reader, key, version)
        if correlation_id != expected:
            raise ProtocolError(f"a response with correlation id {correlation_id} in place of {expected}")
        response = response_class(key).read(reader, version)
        reader.expect_end()
        if version >= _BROKER_WAITS_BELOW.get(ApiKey(key), 0):
            self.throttle_ms = max(0, getattr(response, "throttle_time_ms", 0))
        return response
