"""The path of every request: obtain, admit, handle, encode.

1. **Obtain** the request: a form of the connection gives it back (``forms.py``), or its header is read, its ``Route``
   found, and its body decoded. ApiVersions in an unknown version is answered in version 0 with UNSUPPORTED_VERSION and
   the versions of ApiVersions (KIP-511); any other unknown key or version ends the connection.
2. **Admit** it: a client that has not authenticated may send only what it needs for that (``authentication.py``), which
   is checked before anything is decoded. The request waits for the limits below, and for the metadata that it depends
   on, before it is decoded; a rule about who may send what belongs into ``routes.admit_and_handle``, which has the
   decoded request.
3. **Handle** it: the API's handler returns the response now, later, or in steps (``result.py``).
4. **Encode** the response (``encoding.py``).

The event loop serves all connections, so no request may block it for long:

- a message of up to ``INLINE_SLOTS`` values is decoded, and a response of up to ``INLINE_STRUCTS`` structs, or 64 kB in
  few structs, is encoded on the loop; larger ones on the compute thread, which touches nothing but the message and its
  bytes;
- a handler with much to do is a generator and runs in slices (``kafkapy/turns.py``);
- at most ``LARGE_AT_ONCE`` large requests are decoded and handled, and large responses encoded, at a time. The others
  wait: large requests undecoded, long work after its first slice, large responses not yet encoded. They also wait while
  unread responses and decoded, unanswered requests use up their memory budget (``network/budget.py``). So the memory
  for large messages does not grow with the number of connections.
"""

import asyncio
from collections.abc import Awaitable, Generator
from contextlib import ExitStack
from functools import partial
from types import GeneratorType
from typing import Final

from kafkapy.delayed import Delayed, hurry
from kafkapy.network.budget import RequestMemory
from kafkapy.network.dispatcher import NO_API, Waiting, waiting_of
from kafkapy.network.errors import RefusedError, UnservedRequestError
from kafkapy.network.session import Session
from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.headers import RequestHeader, UnknownApi, UnsupportedRequestVersion, read_request_header
from kafkapy.protocol.message import LimitExceeded, Message
from kafkapy.protocol.reader import DEFAULT_BUDGET, Reader
from kafkapy.protocol.writer import Part, TooManyStructs
from kafkapy.server.dispatch.api_table import ApiTable
from kafkapy.server.dispatch.authentication import admit
from kafkapy.server.dispatch.context import RequestContext, Services
from kafkapy.server.dispatch.encoding import Filled, encode
from kafkapy.server.dispatch.forms import FIRST_FIELDS, MOST_VALUES, form_for
from kafkapy.server.dispatch.interception import Interceptor, decoded_handler
from kafkapy.server.dispatch.result import Response, Result
from kafkapy.server.dispatch.routes import Route, admit_and_handle, route_of
from kafkapy.turns import Steps, in_turns, other_slices, turns
from kafkapy.types import maker

INLINE_SLOTS: Final = 10_000
"""Values of a request that are decoded on the event loop: about a millisecond of work."""

OVERTAKEN_SLOTS: Final = 1_000
"""Values of a request, at most, during whose wait the connection's next request may be served. The waiting requests of
a connection have together only a few times ``INLINE_SLOTS`` values."""

INLINE_STRUCTS: Final = 1_000
"""Structs of a response that are encoded on the event loop: about a millisecond of work.

64 bytes of a longer field count as a struct, so a response that is encoded on the loop has at most some hundred kB.
If it has more than 64 kB, its unread bytes are charged."""

LONGEST_HOLD_MS: Final = 30_000
"""How long a request waits for the metadata of the whole cluster: as long as clients wait for a response by default."""

LARGE_AT_ONCE: Final = 2
"""Large requests that are decoded and handled, or responses that are encoded, at the same time."""

SLOT_SIZE: Final = 100
"""Bytes that a decoded value counts as in the memory budget, until the request is answered."""

_header_of: Final = maker(RequestHeader)
_NO_FIELDS: Final = (NO_API, 0)
"""Stands for the first fields of a frame that is too short for them."""

Answer = Result | Steps[Result] | asyncio.Task[Response | asyncio.Future[Response]]
"""The result of a handler, or the task of its remaining steps."""

Reply = list[Part] | Waiting[Route] | None
"""The frame of a response, what to wait for, or None for a request without an answer."""


class Dispatcher:
    """Serves the frames of all connections of a listener: requests of the APIs in its table."""

    __slots__ = ("services", "_apis", "_routes", "_interceptor", "_compute", "_budget", "_large", "_turns")

    def __init__(self, services: Services, apis: ApiTable, interceptor: Interceptor | None = None) -> None:
        self.services = services
        self._apis = apis
        self._budget = services.memory
        self._interceptor = interceptor
        self._routes: dict[int, Route] = {}
        """By API key and version, as they are in a request's first four bytes."""
        self._compute = services.compute
        self._large = services.large_requests
        self._turns = turns()

    def dispatch(self, frame: memoryview, session: Session) -> Reply:
        """Serve one request.

        Raises ``ProtocolError`` for bytes that are no request and ``RefusedError`` for one that can't be answered.
        Any other exception is a bug of a handler.
        """
        api, correlation_id = FIRST_FIELDS.unpack_from(frame) if len(frame) >= FIRST_FIELDS.size else _NO_FIELDS
        if session.authentication is not None and (token := admit(session.authentication, api, frame)) is not None:
            return token
        form = session.forms.get(api)
        request = None if form is None else form.obtain(frame)
        if form is None or request is None:
            return self._decode(frame, api, session)
        route = self._routes[api]
        if route.api.needs_whole_image and not self.services.metadata.has_been_whole:
            return self._decode(frame, api, session)
        header = form.header
        result = admit_and_handle(route, RequestContext(self.services, header, session, len(frame)), request)
        if isinstance(result, Filled):
            return result.frame(correlation_id)
        key, version, _, client_id, tagged_fields = header
        header = _header_of((key, version, correlation_id, client_id, tagged_fields))
        return self._reply(route, header, result, is_small=True)

    def _decode(self, frame: memoryview, api: int, session: Session) -> Reply:
        """Serve a request of which the connection has no form; ``api`` is its API key and version as one number."""
        reader = Reader(frame, INLINE_SLOTS)
        try:
            header = read_request_header(reader)
        except (UnknownApi, UnsupportedRequestVersion) as error:
            return self._unserved(error.api_key, error.api_version, error.correlation_id, session)
        route = self._routes.get(api)
        if route is None:
            served = self._apis.serving(header.api_key, header.api_version)
            if served is None:
                return self._unserved(header.api_key, header.api_version, header.correlation_id, session)
            route = self._routes[api] = self._make_route(route_of(served, header.api_version))
        body_place = reader.position
        if route.api.needs_whole_image and not self.services.metadata.has_been_whole:
            return self._begin_large(route, header, (frame, body_place), session)
        try:
            request = route.read(reader, header.api_version)
        except LimitExceeded:
            if reader.budget >= 0:
                raise  # a count that the frame is too short for
            return self._begin_large(route, header, (frame, body_place), session)
        values = INLINE_SLOTS - reader.budget
        context = RequestContext(self.services, header, session, len(frame))
        result = admit_and_handle(route, context, request)
        if route.pattern is not None and values <= MOST_VALUES and reader.position == reader.end:
            form_for(session.forms, api).learn(route.pattern, context, request, frame, body_place)
        return self._reply(route, header, result, is_small=values <= OVERTAKEN_SLOTS)

    def _begin_large(
        self, route: Route, header: RequestHeader, located: tuple[memoryview, int], session: Session
    ) -> Waiting[Route]:
        """Serve a request beside the loop."""
        serving = self._serve_large(route, header, located, session)
        return Waiting(route, header, asyncio.get_running_loop().create_task(serving))

    async def _serve_large(
        self, route: Route, header: RequestHeader, located: tuple[memoryview, int], session: Session
    ) -> "Response | asyncio.Future[Response]":
        """Serve a request that waits for the metadata, or decodes into more than ``INLINE_SLOTS`` values.

        ``located`` is the frame and the position of the body in it. A future that the handler returns is returned as
        it is: it waits for an event, needs the frame no longer, and can be cancelled when the client disconnects.
        """
        services = self.services
        if route.api.needs_whole_image and not await services.metadata.wait_until_whole(
            LONGEST_HOLD_MS, services.clock
        ):
            raise RefusedError(f"the controller has not sent all metadata yet, on which {route.api.module} depends")
        reader = Reader(located[0])
        reader.position = located[1]
        with ExitStack() as until_answered:
            async with self._large:
                await self._budget.admission()
                request = await self._compute.run(lambda: route.read(reader, header.api_version))
                held = until_answered.enter_context(RequestMemory(self._budget))
                held.charge((DEFAULT_BUDGET - reader.budget) * SLOT_SIZE)
                await turns().next_turn()
                context = RequestContext(services, header, session, len(located[0]))
                result = admit_and_handle(route, context, request)
                del request
                if isinstance(result, Generator):
                    result = await in_turns(result)
            response = await _without_coroutine(result)
            if isinstance(response, Delayed) and response.can_be_hurried and not response.held_size:
                held.end_waiting = partial(hurry, response)
                kept = until_answered.pop_all()  # the waiting keeps the request
                response.add_done_callback(lambda _: kept.close())
        return response

    # the response

    def _reply(self, route: Route, header: RequestHeader, result: Answer, *, is_small: bool) -> Reply:
        """Return the answer of a handler, encoded if it is there.

        Requests of the same API may be served before a small one whose response is a future.
        """
        if isinstance(result, GeneratorType):
            steps: Steps[Result] = result
            result = self._turns.run(steps, self._other_slices)
        if isinstance(result, Message):
            return self._encoded(route, header, result)
        if result is None:
            return None
        if isinstance(result, asyncio.Future):
            future = result
        else:
            assert isinstance(result, Awaitable), "steps return no steps"
            future = asyncio.ensure_future(result)
        is_overtaken = is_small and route.is_pipelined and not isinstance(future, asyncio.Task)  # which needs its frame
        waiting = waiting_of((route, header, future, header.api_key if is_overtaken else NO_API))
        if future.done():
            return self.answer(waiting)
        self._charge(future)
        return waiting

    def _charge(self, future: "asyncio.Future[Response] | asyncio.Future[Response | asyncio.Future[Response]]") -> None:
        """Charge the memory budget for a wait that takes much; it ends when others wait for the memory."""
        if isinstance(future, Delayed) and future.held_size:
            held = RequestMemory(self._budget, future.hurry)
            held.charge(future.held_size)
            future.add_done_callback(lambda _: held.release())

    def answer(self, waiting: Waiting[Route]) -> Reply:
        """Return the bytes of a response that is there, or a further ``Waiting``; raises the handler's exception."""
        response: Response | list[Part] | asyncio.Future[Response] = waiting.future.result()
        if isinstance(response, Message):
            return self._encoded(waiting.route, waiting.header, response)
        if isinstance(response, asyncio.Future):
            self._charge(response)
            return Waiting(waiting.route, waiting.header, response)
        return response

    def dropped(self, waiting: Waiting[Route]) -> None:
        """See ``network.dispatcher.Dispatcher``."""

    async def _other_slices(
        self, awaited: "asyncio.Future[object] | None", steps: Steps[Result]
    ) -> "Response | asyncio.Future[Response]":
        async with self._large:
            await self._budget.admission()
            result = await other_slices(awaited, steps)
        return await _without_coroutine(result)

    def _encoded(self, route: Route, header: RequestHeader, response: Message) -> list[Part] | Waiting[Route]:
        """Encode the response: on the loop if it is small."""
        try:
            return encode(header, route.flexible_response_header, response, INLINE_STRUCTS)
        except TooManyStructs:
            # The response waits for a future and not for the task: a connection regards a task as one that uses the
            # request's frame, and does not cancel it when it closes. It cancels the future, and that cancels the task.
            encoding = asyncio.get_running_loop().create_task(self._encode_large(route, header, response))
            return Waiting(route, header, Delayed.of(encoding, None))

    async def _encode_large(self, route: Route, header: RequestHeader, response: Message) -> list[Part]:
        async with self._large:
            await self._budget.admission()
            return await self._compute.run(lambda: encode(header, route.flexible_response_header, response))

    # routes

    def _make_route(self, route: Route) -> Route:
        """Wrap the handler if there is an interceptor."""
        interceptor = self._interceptor
        if interceptor is None:
            return route
        handle = decoded_handler(route.handle, self._run)
        return route._replace(
            handle=lambda context, request: interceptor.handle(context, request, handle),
            pattern=None,  # the interceptor may change a request, which a form gives back again
        )

    def _run(self, steps: Steps[Result]) -> Result:
        """Run a handler's steps; a future that they return is awaited too, unlike by ``_other_slices``."""
        return self._turns.run(steps, self._result_of_others)

    async def _result_of_others(self, awaited: "asyncio.Future[object] | None", steps: Steps[Result]) -> Response:
        result = await self._other_slices(awaited, steps)
        return await result if isinstance(result, asyncio.Future) else result

    def _unserved(self, key: int, version: int, correlation_id: int, session: Session) -> Reply:
        """Answer ApiVersions in a version that is not served; end the connection for any other API."""
        api = self._apis.serving(key, 0) if key == ApiKey.API_VERSIONS else None
        if api is None:
            raise UnservedRequestError(f"API key {key} version {version} is not served on this listener")
        route = self._make_route(route_of(api, 0))
        header = RequestHeader(key, version, correlation_id, None)
        result = admit_and_handle(route, RequestContext(self.services, header, session), None)
        return self._reply(route, header._replace(api_version=0), result, is_small=True)


async def _without_coroutine(result: Result) -> "Response | asyncio.Future[Response]":
    """Wait for a coroutine or task; return a future that waits for an event as it is, so that it can be cancelled."""
    if isinstance(result, asyncio.Future) and not isinstance(result, asyncio.Task):
        return result
    return await result if isinstance(result, Awaitable) else result
