"""Request and response headers: which version goes with which API and version.

Request header v0 belongs to ControlledShutdown v0 alone, v1 adds the client id, v2 tagged fields (flexible versions).
Response header v0 is the correlation id alone, v1 adds tagged fields. The response to ApiVersions always has v0, since
the client doesn't know yet which versions the broker supports (KIP-511).
"""

from functools import partial
from struct import Struct
from typing import Final, NamedTuple

from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.message import (
    MAX_STRING_SIZE,
    LimitExceeded,
    ProtocolError,
    TaggedFields,
    Truncated,
    UnsupportedVersion,
)
from kafkapy.protocol.messages import APIS
from kafkapy.protocol.reader import Reader
from kafkapy.protocol.writer import Writer

_FIXED: Final = Struct(">hhi")
_WITH_CLIENT_ID: Final = Struct(">hhih")
_INT32: Final = Struct(">i")

_NEVER: Final = 0x7FFF


class RequestHeader(NamedTuple):
    """The fields before a request's body."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None = None
    unknown_tagged_fields: TaggedFields = None


_header: Final = partial(tuple.__new__, RequestHeader)
"""Make a ``RequestHeader`` without the class's ``__new__``, which is Python code, as ``types.maker`` does.

``protocol`` may not import ``types``."""


class UnknownApi(ProtocolError):  # noqa: N818  # named like the protocol's other errors, without "Error"
    """A request of an API that doesn't exist."""

    def __init__(self, api_key: int, version: int, correlation_id: int) -> None:
        super().__init__(f"unknown API key {api_key}")
        self.api_key = api_key
        self.api_version = version
        self.correlation_id = correlation_id


class UnsupportedRequestVersion(UnknownApi, UnsupportedVersion):
    """A known API in a version that the definitions don't have."""

    def __init__(self, api_key: int, version: int, correlation_id: int) -> None:
        super().__init__(api_key, version, correlation_id)
        self.args = (f"{ApiKey(api_key).name} has no version {version}",)


class _ApiVersions(NamedTuple):
    low: int
    high: int
    flexible_from: int


_VERSIONS: Final = {
    key: _ApiVersions(low, high, _NEVER if flexible < 0 else flexible)
    for key, (_, _, low, high, flexible) in APIS.items()
}


def request_header_version(api_key: int, version: int) -> int:
    """The version of the request header: 0, 1 or 2."""
    if api_key == ApiKey.CONTROLLED_SHUTDOWN and version == 0:
        return 0
    return 2 if version >= _VERSIONS[api_key].flexible_from else 1


def response_header_version(api_key: int, version: int) -> int:
    """The version of the response header: 0 or 1."""
    if api_key == ApiKey.API_VERSIONS:
        return 0
    return 1 if version >= _VERSIONS[api_key].flexible_from else 0


def read_request_header(reader: Reader) -> RequestHeader:
    """The header at the reader's position.

    Raises UnknownApi or UnsupportedRequestVersion, which carry the correlation id, so that ApiVersions can answer with
    UNSUPPORTED_VERSION in v0; other ProtocolErrors for broken bytes.
    """
    position = reader.position
    left = reader.end - position
    if left < 10:
        return _read_short(reader, left)
    api_key, version, correlation_id, size = _WITH_CLIENT_ID.unpack_from(reader.buffer, position)
    versions = _VERSIONS.get(api_key)
    if versions is None or not versions.low <= version <= versions.high:
        reader.position = position + 8
        raise _unsupported(reader, api_key, version, correlation_id)
    if version == 0 and api_key == ApiKey.CONTROLLED_SHUTDOWN:
        reader.position = position + 8
        return RequestHeader(api_key, version, correlation_id)
    position += 10
    if size < 0:
        client_id = None
        reader.position = position
    else:
        end = position + size
        if end > reader.end:
            raise Truncated(f"a client id of {size} bytes, {reader.end - position} left")
        client_id = str(reader.buffer[position:end], "utf-8", "replace")
        reader.position = end
    if version < versions.flexible_from:
        return _header((api_key, version, correlation_id, client_id, None))
    return RequestHeader(
        api_key, version, correlation_id, client_id, reader.read_unknown_tagged_fields(in_any_order=True)
    )


def _read_short(reader: Reader, left: int) -> RequestHeader:
    """Read a header that is too short for the client id's length: only ControlledShutdown v0 has no client id."""
    if left < 8:
        raise Truncated(f"a request header in {left} bytes")
    api_key, version, correlation_id = reader.unpack(_FIXED)
    if api_key not in _VERSIONS or not _VERSIONS[api_key].low <= version <= _VERSIONS[api_key].high:
        raise _unsupported(reader, api_key, version, correlation_id)
    if request_header_version(api_key, version) != 0:
        raise Truncated("a request header without a client id")
    return RequestHeader(api_key, version, correlation_id)


def _unsupported(reader: Reader, api_key: int, version: int, correlation_id: int) -> UnknownApi:
    if api_key == ApiKey.API_VERSIONS:  # such a request is answered, so the rest of its header must be valid
        reader.read_nullable_string()
        if version >= _VERSIONS[api_key].flexible_from:
            reader.read_unknown_tagged_fields(in_any_order=True)
    if api_key in _VERSIONS:
        return UnsupportedRequestVersion(api_key, version, correlation_id)
    return UnknownApi(api_key, version, correlation_id)


def write_request_header(writer: Writer, header: RequestHeader) -> None:
    """Write the header of a request, as clients do, and brokers in requests to other brokers."""
    header_version = request_header_version(header.api_key, header.api_version)
    writer.buffer += _FIXED.pack(header.api_key, header.api_version, header.correlation_id)
    if header_version >= 1:
        if header.client_id is not None and len(header.client_id) > MAX_STRING_SIZE:
            raise LimitExceeded(f"a client id of {len(header.client_id)} characters")
        writer.write_nullable_string(header.client_id)
    if header_version >= 2:
        writer.write_unknown_tagged_fields(header.unknown_tagged_fields)


def write_response_header(writer: Writer, api_key: int, version: int, correlation_id: int) -> None:
    """Write the header of a response."""
    writer.buffer += _INT32.pack(correlation_id)
    if response_header_version(api_key, version):
        writer.buffer.append(0)


def read_response_header(reader: Reader, api_key: int, version: int) -> int:
    """Return the correlation id; tagged fields are ignored."""
    correlation_id = reader.read_int32()
    if response_header_version(api_key, version):
        reader.read_unknown_tagged_fields(in_any_order=True)
    return correlation_id
