"""From a frame to its handler, and from the response to the bytes of the answer.

For each API and version that is asked for, a ``Route`` is made once: the message class, the handler, the form of the
response header. ApiVersions in a version that we don't know is answered in version 0 with UNSUPPORTED_VERSION and the
list of what we serve (KIP-511); any other unknown key or version ends the connection.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.headers import (
    RequestHeader,
    UnknownApi,
    UnsupportedRequestVersion,
    read_request_header,
    response_header_version,
)
from kafkapy.protocol.message import Message, ProtocolError
from kafkapy.protocol.messages import request_class
from kafkapy.protocol.primitives import write_message
from kafkapy.protocol.reader import Reader
from kafkapy.protocol.writer import Part, Writer
from kafkapy.server.context import ConnectionInfo, RequestContext, Services
from kafkapy.server.encoded import SIZE_AND_CORRELATION_ID, Encoded, spelled_out
from kafkapy.server.errors import UnencodableResponseError, UnservedRequestError
from kafkapy.server.handlers import REGISTRY
from kafkapy.server.interception import Handle, Interceptor


class Route(NamedTuple):
    """How requests of one API in one version are served."""

    name: str
    read: Callable[[Reader, int], Any]
    handle: Handle
    flexible_response_header: bool


class Waiting(NamedTuple):
    """A request whose response comes later."""

    route: Route
    header: RequestHeader
    future: "asyncio.Future[Message | None]"


@cache
def route(api_key: int, version: int) -> Route:
    """Import what serves the request; the caller has checked that we serve it."""
    api = REGISTRY[ApiKey(api_key)]
    handler = import_module(f"kafkapy.server.handlers.{api.module}")
    return Route(
        name=api.module,
        read=request_class(api_key).read,
        handle=handler.handle,
        flexible_response_header=response_header_version(api_key, version) > 0,
    )


def _is_served(key: int, version: int) -> bool:
    api = REGISTRY.get(key)  # type: ignore[call-overload]  # an IntEnum's member is found by its number
    return api is not None and api.advertised and api.min_version <= version <= api.max_version


def encode(header: RequestHeader, flexible_response_header: bool, response: Message) -> list[Part]:
    """Return the response's frame, size prefix included, bodies untouched."""
    writer = Writer(SIZE_AND_CORRELATION_ID.pack(0, header.correlation_id))
    if flexible_response_header:
        writer.buffer.append(0)
    try:
        write_message(response, writer, header.api_version)
    except ProtocolError as error:
        raise UnencodableResponseError(f"{type(response).__name__}: {error}") from error
    return writer.frame()


class Dispatcher:
    """Serves the frames of all connections of a broker."""

    __slots__ = ("services", "_counts", "_routes", "_interceptor")

    def __init__(self, services: Services, interceptor: Interceptor | None = None) -> None:
        self.services = services
        self._interceptor = interceptor
        self._counts = services.metrics.requests
        self._routes: dict[tuple[int, int], Route] = {}

    def dispatch(self, frame: memoryview, connection: ConnectionInfo) -> list[Part] | Waiting | None:
        """Serve one request: its answer, or what to wait for, or None when there is no answer.

        Raises ``ProtocolError`` for bytes that are no request and ``RefusedError`` for one that can't be answered.
        Anything else that comes out is a bug of a handler.
        """
        reader = Reader(frame)
        try:
            header = read_request_header(reader)
        except (UnknownApi, UnsupportedRequestVersion) as error:
            return self._unserved(error.api_key, error.api_version, error.correlation_id, connection)
        key, version = header.api_key, header.api_version
        way = self._routes.get((key, version))
        if way is None:
            if not _is_served(key, version):
                return self._unserved(key, version, header.correlation_id, connection)
            way = self._routes[key, version] = self._learn(key, version)
        self._counts[way.name] += 1
        response = way.handle(RequestContext(self.services, header, connection), way.read(reader, version))
        if type(response) is Encoded:
            return [response.frame(header.correlation_id, flexible_header=way.flexible_response_header)]
        if isinstance(response, Message):
            return encode(header, way.flexible_response_header, response)
        if response is None:
            return None
        future = asyncio.ensure_future(response)
        if not future.done():
            return Waiting(way, header, future)
        return self.answer(Waiting(way, header, future))

    def answer(self, waiting: Waiting) -> list[Part] | None:
        """Return the bytes of a response that has come; raises what the handler raised."""
        response = waiting.future.result()
        if response is None:
            return None
        return encode(waiting.header, waiting.route.flexible_response_header, response)

    def _learn(self, key: int, version: int) -> Route:
        """Return the route with whatever stands before its handler."""
        way, interceptor = route(key, version), self._interceptor
        if interceptor is None:
            return way
        handle = spelled_out(way.handle)
        return way._replace(handle=lambda context, request: interceptor.handle(context, request, handle))

    def _unserved(
        self, key: int, version: int, correlation_id: int, connection: ConnectionInfo
    ) -> list[Part] | Waiting:
        if key != ApiKey.API_VERSIONS:
            raise UnservedRequestError(f"API key {key} version {version} is not served")
        way = self._learn(ApiKey.API_VERSIONS, 0)
        header = RequestHeader(key, version, correlation_id, None)
        response = way.handle(RequestContext(self.services, header, connection), None)
        header = header._replace(api_version=0)
        if isinstance(response, Message):
            return encode(header, False, response)
        assert response is not None, "ApiVersions always has an answer"
        return Waiting(way, header, asyncio.ensure_future(response))


class LocalRequests:
    """The controller's way to its own broker: the same handlers, called without a socket."""

    __slots__ = ("_services", "_connection")

    def __init__(self) -> None:
        self._services: Services | None = None
        self._connection: ConnectionInfo | None = None

    def serve(self, services: Services, connection: ConnectionInfo) -> None:
        """From now on requests are handled."""
        self._services = services
        self._connection = connection

    def handle(self, request: Message, version: int) -> Message | Awaitable[Message]:
        """Answer a request as if it had come over the network; the handler must have an answer."""
        assert self._services is not None, "the broker is not composed yet"
        assert self._connection is not None, "set together with the services"
        key: int = request.API_KEY  # type: ignore[attr-defined]  # requests have it, Message is the base of all
        header = RequestHeader(key, version, 0, "controller")
        handle = spelled_out(route(key, version).handle)
        response: Any = handle(RequestContext(self._services, header, self._connection), request)
        return response  # type: ignore[no-any-return]  # a response or an awaitable of one, by the handlers' contract
