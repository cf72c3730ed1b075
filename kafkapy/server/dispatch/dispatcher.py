"""Decode request frames, call the handlers, encode their responses.

At the first request of an API and version a ``Route`` is made: the message class, the handler, the form of the
response header. ApiVersions in an unknown version is answered in version 0 with UNSUPPORTED_VERSION and the versions
of ApiVersions (KIP-511); any other unknown key or version ends the connection.

The event loop serves all connections, so no request may block it for long:

- a message of up to ``INLINE_SLOTS`` values is decoded, and a response of up to ``INLINE_STRUCTS`` structs, or 64 kB in
  few structs, is encoded on the loop; larger ones on the compute thread, which touches nothing but the message and its
  bytes;
- a handler with much to do is a generator and runs in slices (``kafkapy/turns.py``);
- ``LARGE_AT_ONCE`` large requests are decoded and handled, and large responses encoded, at a time; the others wait as
  undecoded frames, after their first slice, or as responses that share their bytes with the broker's state. They also
  wait while unread responses and decoded, unanswered requests use up their memory budget
  (``network/budget.py``). So the memory for messages does not grow with the number of connections.
"""

import asyncio
import struct
from collections.abc import Awaitable, Callable, Generator
from contextlib import ExitStack
from functools import cache, partial
from importlib import import_module
from types import GeneratorType
from typing import Any, Final, NamedTuple

from kafkapy.delayed import Delayed, hurry
from kafkapy.network.budget import RequestMemory
from kafkapy.network.dispatcher import NO_API, Waiting
from kafkapy.network.errors import RefusedError, UnencodableResponseError, UnservedRequestError
from kafkapy.network.session import Session
from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.headers import (
    RequestHeader,
    UnknownApi,
    UnsupportedRequestVersion,
    read_request_header,
    response_header_version,
)
from kafkapy.protocol.message import LimitExceeded, Message, ProtocolError
from kafkapy.protocol.messages import request_class
from kafkapy.protocol.reader import DEFAULT_BUDGET, Reader
from kafkapy.protocol.writer import Part, TooManyStructs, Writer
from kafkapy.server.dispatch.context import RequestContext, Services
from kafkapy.server.dispatch.encoded import SIZE_AND_CORRELATION_ID, Encoded, decoded_handler
from kafkapy.server.dispatch.forms import API_AND_CORRELATION_ID, CONTENT_PLACE, MOST_VALUES, RequestForm
from kafkapy.server.dispatch.interception import Handler, Interceptor, Result
from kafkapy.server.handlers import REGISTRY, ApiTable
from kafkapy.turns import Steps, in_turns, other_slices, turns

INLINE_SLOTS: Final = 10_000
"""Values of a request that are decoded on the event loop: about a millisecond of work."""

OVERTAKEN_SLOTS: Final = 1_000
"""Values of a request that others may overtake while it waits: those of a connection that wait together have few times
``INLINE_SLOTS``."""

INLINE_STRUCTS: Final = 1_000
"""Structs of a response that are encoded on the event loop: about a millisecond of work.

64 bytes of a longer field count as a struct, so a response that is encoded on the loop has at most some hundred kB.
If it has more than 64 kB, its unread bytes are charged."""

_REMEMBERED_BUDGET: Final = INLINE_SLOTS - MOST_VALUES
"""A request that leaves less of ``INLINE_SLOTS`` has more than ``MOST_VALUES``, and gets no form."""

LONGEST_HOLD_MS: Final = 30_000
"""How long a request waits for the metadata of the whole cluster: as long as clients wait for a response by default."""

LARGE_AT_ONCE: Final = 2
"""Large requests that are decoded and handled, or responses that are encoded, at the same time."""

SLOT_SIZE: Final = 100
"""Bytes that a decoded value counts as in the memory budget, until the request is answered."""


class Route(NamedTuple):
    """How requests of one API in one version are served."""

    name: str
    read: Callable[[Reader, int], Any]
    handle: Handler
    flexible_response_header: bool
    needs_whole_image: bool
    """See ``Api``."""
    is_pipelined: bool
    """A request may be served while earlier ones of this API wait for their responses."""
    remember: Callable[[RequestContext, Any, memoryview], None] | None
    """Is called after a request: may keep its form for the next ones of its connection (``forms.py``)."""


@cache
def route_of(api_key: int, version: int) -> Route:
    """Import the API's handler; the caller has checked that the version is served."""
    api = REGISTRY[ApiKey(api_key)]
    handler = import_module(f"kafkapy.server.handlers.{api.module}")
    return Route(
        name=api.module,
        read=request_class(api_key).read,
        handle=handler.handle,
        flexible_response_header=response_header_version(api_key, version) > 0,
        needs_whole_image=api.needs_whole_image,
        is_pipelined=getattr(handler, "IS_PIPELINED", False),
        remember=getattr(handler, "remember", None),
    )


def encode(
    header: RequestHeader, flexible_response_header: bool, response: Message, max_structs: int | None = None
) -> list[Part]:
    """Return the response's frame, size prefix included, bodies untouched.

    Raises ``TooManyStructs`` for a response of more than ``max_structs``, ``UnencodableResponseError`` for one that the
    request's version can't express, or that is too large for a frame.
    """
    writer = Writer(SIZE_AND_CORRELATION_ID.pack(0, header.correlation_id), max_structs)
    if flexible_response_header:
        writer.buffer.append(0)
    try:
        response.write(writer, header.api_version)
        return writer.frame()  # whose size has a field too
    except (ProtocolError, struct.error) as error:  # as ``write_message``, without another call for each response
        raise UnencodableResponseError(f"{type(response).__name__}: {error}") from error


async def _without_coroutine(result: Result) -> "Message | asyncio.Future[Any] | None":
    """Wait for a coroutine or task; return a future that waits for an event as it is, so that it can be cancelled."""
    if isinstance(result, asyncio.Future) and not isinstance(result, asyncio.Task):
        return result
    return await result if isinstance(result, Awaitable) else result


class Dispatcher:
    """Serves the frames of all connections of a listener: requests of the APIs in its table."""

    __slots__ = ("services", "_apis", "_counts", "_routes", "_interceptor", "_compute", "_budget", "_large", "_turns")

    def __init__(self, services: Services, apis: ApiTable, interceptor: Interceptor | None = None) -> None:
        self.services = services
        self._apis = apis
        self._budget = services.memory
        self._interceptor = interceptor
        self._counts = services.metrics.requests
        self._routes: dict[tuple[int, int], Route] = {}
        self._compute = services.compute
        self._large = services.large_requests
        self._turns = turns()

    def dispatch(self, frame: memoryview, session: Session) -> list[Part] | Waiting[Route] | None:
        """Serve one request: returns its answer, a ``Waiting`` for it, or None when there is no answer.

        Raises ``ProtocolError`` for bytes that are no request and ``RefusedError`` for one that can't be answered.
        Any other exception is a bug of a handler.
        """
        has_metadata = self.services.metadata.has_been_whole
        if session.forms and has_metadata and (reply := self._dispatch_undecoded(frame, session)) is not None:
            return reply
        reader = Reader(frame, INLINE_SLOTS)
        try:
            header = read_request_header(reader)
        except (UnknownApi, UnsupportedRequestVersion) as error:
            return self._unserved(error.api_key, error.api_version, error.correlation_id, session)
        key, version = header.api_key, header.api_version
        route = self._routes.get((key, version))
        start = reader.position
        if route is None or (route.needs_whole_image and not has_metadata):
            return self._dispatch_later(route, header, (frame, start), session)
        self._counts[route.name] += 1
        try:
            request = route.read(reader, version)
        except LimitExceeded as error:
            return self._begin_large(route, header, (frame, start), session, None if reader.budget < 0 else error)
        context = RequestContext(self.services, header, session)
        response: Any = route.handle(context, request)  # or steps that lead to it
        # no bytes behind the message, and few values in it
        if route.remember is not None and reader.position == reader.end and reader.budget >= _REMEMBERED_BUDGET:
            route.remember(context, request, frame)
        if type(response) is GeneratorType:
            response = self._turns.run(response, self._other_slices)
        if type(response) is Encoded:
            return [response.frame(header.correlation_id, flexible_header=route.flexible_response_header)]
        if isinstance(response, Message):
            try:  # as ``_encoded`` does: the call took 2 % of a heartbeat
                return encode(header, route.flexible_response_header, response, INLINE_STRUCTS)
            except TooManyStructs:
                return self._encode_beside(route, header, response)
        is_small = reader.budget >= INLINE_SLOTS - OVERTAKEN_SLOTS
        return self._wait(route, header, response, is_overtaken=route.is_pipelined and is_small)

    def _begin_large(
        self,
        route: Route,
        header: RequestHeader,
        located: tuple[memoryview, int],
        session: Session,
        error: LimitExceeded | None,
    ) -> Waiting[Route]:
        """Serve a request beside the loop, unless ``error`` says that it is too large for that too."""
        if error is not None:
            raise error
        serving = self._serve_large(route, header, located, session)
        return Waiting(route, header, asyncio.get_running_loop().create_task(serving))

    def _dispatch_later(
        self, route: Route | None, header: RequestHeader, located: tuple[memoryview, int], session: Session
    ) -> list[Part] | Waiting[Route] | None:
        """``dispatch`` for a request that waits for the metadata, or that is the first of its API and version here."""
        if route is not None:
            self._counts[route.name] += 1
            return self._begin_large(route, header, located, session, None)
        key, version = header.api_key, header.api_version
        if not self._apis.serves(key, version):
            return self._unserved(key, version, header.correlation_id, session)
        self._routes[key, version] = self._make_route(key, version)
        return self.dispatch(located[0], session)

    def _dispatch_undecoded(self, frame: memoryview, session: Session) -> list[Part] | Waiting[Route] | None:
        """``dispatch`` for a request that has the form of an earlier one of its connection; None if it has not."""
        if len(frame) < CONTENT_PLACE:
            return None
        form: RequestForm | None = session.forms.get(API_AND_CORRELATION_ID.unpack_from(frame)[0])
        if form is None or (varying := form.match(frame)) is None:
            return None
        route = self._routes[form.api]
        self._counts[route.name] += 1
        response = form.handle(varying, frame, session)
        if type(response) is bytearray:
            return [response]
        if type(response) is list:
            return response
        header = form.header(frame)
        if type(response) is Encoded:
            return [response.frame(header.correlation_id, flexible_header=route.flexible_response_header)]
        if type(response) is GeneratorType:
            response = self._turns.run(response, self._other_slices)
        if isinstance(response, Message):
            return self._encoded(route, header, response)
        reply = self._wait(route, header, response, is_overtaken=route.is_pipelined)
        assert reply is not None, "requests without an answer have no form: this one would be served twice"
        return reply

    async def _other_slices(
        self, awaited: "asyncio.Future[object] | None", steps: Steps[Result]
    ) -> "Message | asyncio.Future[Any] | None":
        async with self._large:
            await self._budget.admission()
            result = await other_slices(awaited, steps)
        return await _without_coroutine(result)

    def _run(self, steps: Steps[Result]) -> Result:
        """Run a handler's steps; a future that they return is awaited too, unlike by ``_other_slices``."""
        return self._turns.run(steps, self._result_of_others)

    async def _result_of_others(self, awaited: "asyncio.Future[object] | None", steps: Steps[Result]) -> Message | None:
        result = await self._other_slices(awaited, steps)
        return await result if isinstance(result, asyncio.Future) else result

    def answer(self, waiting: Waiting[Route]) -> list[Part] | Waiting[Route] | None:
        """Return the bytes of a response that is there, or a further ``Waiting``; raises the handler's exception."""
        response: Message | list[Part] | asyncio.Future[Any] | None = waiting.future.result()
        if isinstance(response, Message):
            return self._encoded(waiting.route, waiting.header, response)
        if isinstance(response, asyncio.Future):
            return Waiting(waiting.route, waiting.header, response)
        return response

    def dropped(self, waiting: Waiting[Route]) -> None:
        """See ``network.dispatcher.Dispatcher``."""

    def _wait(
        self, route: Route, header: RequestHeader, result: Awaitable[Any] | None, *, is_overtaken: bool
    ) -> list[Part] | Waiting[Route] | None:
        """Answer a request whose handler returned an awaitable, or None for no answer.

        Requests of the same API may be served before it if it ``is_overtaken`` and waits for a future.
        """
        if result is None:
            return None
        future: asyncio.Future[Any] = asyncio.ensure_future(result)
        is_overtaken = is_overtaken and not isinstance(future, asyncio.Task)  # a task needs its frame
        waiting = Waiting(route, header, future, header.api_key if is_overtaken else NO_API)
        return self.answer(waiting) if future.done() else waiting

    def _encoded(self, route: Route, header: RequestHeader, response: Message) -> list[Part] | Waiting[Route]:
        """Encode the response: on the loop if it is small."""
        try:
            return encode(header, route.flexible_response_header, response, INLINE_STRUCTS)
        except TooManyStructs:
            return self._encode_beside(route, header, response)

    def _encode_beside(self, route: Route, header: RequestHeader, response: Message) -> Waiting[Route]:
        # Not the task itself, which a connection would take for one that needs its request's frame, and would let run
        # on when it is closed. The future is cancelled then, and the task with it.
        encoding = asyncio.get_running_loop().create_task(self._encode_admitted(route, header, response))
        return Waiting(route, header, Delayed.of(encoding, None))

    async def _encode_admitted(self, route: Route, header: RequestHeader, response: Message) -> list[Part]:
        async with self._large:
            await self._budget.admission()
            return await self._compute.run(lambda: encode(header, route.flexible_response_header, response))

    async def _serve_large(
        self, route: Route, header: RequestHeader, located: tuple[memoryview, int], session: Session
    ) -> "Message | asyncio.Future[Any] | None":
        """Serve a request that waits for the metadata, or decodes into more than ``INLINE_SLOTS`` values.

        ``located`` is the frame and the position of the body in it. A future that the handler returns is returned as
        it is: it waits for an event, needs the frame no longer, and can be cancelled when the client disconnects.
        """
        services = self.services
        if route.needs_whole_image and not await services.metadata.wait_until_whole(LONGEST_HOLD_MS, services.clock):
            raise RefusedError(f"the controller has not sent all metadata yet, on which {route.name} depends")
        reader = Reader(located[0])
        reader.position = located[1]
        with ExitStack() as until_answered:
            async with self._large:
                await self._budget.admission()
                request = await self._compute.run(lambda: route.read(reader, header.api_version))
                held = until_answered.enter_context(RequestMemory(self._budget))
                held.charge((DEFAULT_BUDGET - reader.budget) * SLOT_SIZE)
                await turns().next_turn()
                result = route.handle(RequestContext(services, header, session), request)
                del request
                if isinstance(result, Generator):
                    result = await in_turns(result)
            response = await _without_coroutine(result)
            if isinstance(response, Delayed) and not response.done() and response.can_be_hurried:
                held.end_waiting = partial(hurry, response)
                kept = until_answered.pop_all()
                response.add_done_callback(lambda _: kept.close())
        return response

    def _make_route(self, key: int, version: int) -> Route:
        """Make the route; its handler is wrapped if there is an interceptor."""
        route, interceptor = route_of(key, version), self._interceptor
        if interceptor is None:
            return route
        handle = decoded_handler(route.handle, self._run)
        return route._replace(
            handle=lambda context, request: interceptor.handle(context, request, handle),
            remember=None,  # the interceptor sees and changes decoded requests
        )

    def _unserved(self, key: int, version: int, correlation_id: int, session: Session) -> list[Part] | Waiting[Route]:
        if key != ApiKey.API_VERSIONS:
            raise UnservedRequestError(f"API key {key} version {version} is not served on this listener")
        route = self._make_route(ApiKey.API_VERSIONS, 0)
        header = RequestHeader(key, version, correlation_id, None)
        response = route.handle(RequestContext(self.services, header, session), None)
        header = header._replace(api_version=0)
        if isinstance(response, Message):
            return encode(header, False, response)
        assert response is not None, "ApiVersions always has an answer"
        assert not isinstance(response, Generator), "ApiVersions has no steps"
        return Waiting(route, header, asyncio.ensure_future(response))


class LocalRequests:
    """Requests of the controller to its own broker: the same handlers, called without a socket."""

    __slots__ = ("_services", "_session")

    def __init__(self) -> None:
        self._services: Services | None = None
        self._session: Session | None = None

    def serve(self, services: Services, session: Session) -> None:
        """Handle requests from now on."""
        self._services = services
        self._session = session

    def handle(self, request: Message, version: int) -> Message | Awaitable[Message]:
        """Answer a request as if it had come over the network; the handler must have an answer."""
        assert self._services is not None, "the broker is not composed yet"
        assert self._session is not None, "set together with the services"
        key: int = request.API_KEY  # type: ignore[attr-defined]  # requests have it, Message is the base of all
        header = RequestHeader(key, version, 0, "controller")
        handle = decoded_handler(route_of(key, version).handle)
        response: Any = handle(RequestContext(self._services, header, self._session), request)
        return response  # type: ignore[no-any-return]  # a response or an awaitable of one, by the handlers' contract
