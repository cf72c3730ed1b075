"""A trace of every request and its answer, decoded, one line each (``kafkapy start --trace``).

It is a dispatcher, which sees all frames. A broker without a trace has the usual dispatcher.
"""

import asyncio
from typing import Any, Final
from weakref import WeakKeyDictionary

from kafkapy.clock import Clock
from kafkapy.network.dispatcher import Waiting
from kafkapy.network.errors import RefusedError
from kafkapy.network.session import Session
from kafkapy.observe.trace.filter import TraceFilter
from kafkapy.observe.trace.lines import NO_ANSWER, REQUEST, RESPONSE, Event, Format
from kafkapy.observe.trace.output import TraceOutput
from kafkapy.observe.trace.summary import summary
from kafkapy.protocol.headers import RequestHeader
from kafkapy.protocol.message import Message, ProtocolError
from kafkapy.protocol.writer import Part
from kafkapy.server.dispatch.api_table import ApiTable
from kafkapy.server.dispatch.context import RequestContext, Services
from kafkapy.server.dispatch.dispatcher import Dispatcher, Reply
from kafkapy.server.dispatch.interception import Interceptor, decoded_handler
from kafkapy.server.dispatch.result import Request, Response, Result
from kafkapy.server.dispatch.routes import Route

CLIENT_GONE: Final = "the client has gone"
SIZE_PREFIX: Final = 4
"""Bytes of the size before each frame; they are part of an answer, but not of a received frame."""
NONE_WANTED: Final = "none wanted"


class Trace:
    """Which requests are shown, how, and where."""

    def __init__(self, output: TraceOutput, form: Format, left_out_form: str, wanted: TraceFilter) -> None:
        """``left_out_form`` is a line that says how many lines are missing, at its ``%d``."""
        self.wanted = wanted
        self._output = output
        self._form = form
        self._left_out_form = left_out_form

    def show(self, event: Event) -> None:
        """Write the event's line."""
        if self._output.left_out and not self._output.is_full:
            count, self._output.left_out = self._output.left_out, 0
            self._output.write(self._left_out_form % count)
        self._output.write(self._form(event))

    @property
    def is_full(self) -> bool:
        """Whether lines would be left out now."""
        return self._output.is_full

    def leave_out(self) -> None:
        """Count a line that was not made because there is no room for it."""
        self._output.left_out += 1

    def dispatcher(self, services: Services, apis: ApiTable, interceptor: Interceptor | None) -> Dispatcher:
        """Return a dispatcher, for a listener with ``apis``, that shows requests and answers."""
        return TracingDispatcher(services, apis, interceptor, self)

    def close(self) -> None:
        """Write the waiting lines, and how many lines were left out after them."""
        if self._output.left_out:
            self._output.write(self._left_out_form % self._output.left_out)
        self._output.close()


class Exchange:
    """A request that was shown, and whose answer will be."""

    __slots__ = ("context", "began_s", "response")

    def __init__(self, context: RequestContext, began_s: float) -> None:
        self.context = context
        self.began_s = began_s
        self.response: Message | None = None


class TracingDispatcher(Dispatcher):
    """A dispatcher that shows requests and answers."""

    __slots__ = ("_trace", "_clock", "_size", "_current", "_waiting", "_large_exchanges")

    def __init__(self, services: Services, apis: ApiTable, interceptor: Interceptor | None, trace: Trace) -> None:
        super().__init__(services, apis, interceptor)
        self._trace = trace
        self._clock: Clock = services.clock
        self._size = 0
        self._current: Exchange | None = None
        self._large_exchanges: dict[int, tuple[int, Exchange | None]] = {}
        """Of requests that are decoded off the loop, by the identity of their header: frame size, exchange if shown."""
        self._waiting: WeakKeyDictionary[asyncio.Future[Any], Exchange] = WeakKeyDictionary()

    def dispatch(self, frame: memoryview, session: Session) -> Reply:
        """See ``Dispatcher.dispatch``."""
        self._size, self._current = len(frame), None
        try:
            reply = super().dispatch(frame, session)
        except (ProtocolError, RefusedError) as error:
            self._show_none(self._current, str(error))
            raise
        exchange = self._taken()
        if exchange is None:
            return reply
        self._show_reply(exchange, reply)
        return reply

    def answer(self, waiting: Waiting[Route]) -> Reply:
        """See ``Dispatcher.answer``."""
        exchange = self._waiting.pop(waiting.future, None)
        if exchange is None:  # not shown, or done at once, so that ``dispatch`` shows it
            if self._current is not None:
                self._current.response = waiting.future.result()
            return super().answer(waiting)
        try:
            reply = super().answer(waiting)
        except (ProtocolError, RefusedError) as error:
            self._show_none(exchange, str(error))
            raise
        response = waiting.future.result()
        if isinstance(response, Message):
            exchange.response = response
        self._show_reply(exchange, reply)
        return reply

    def _show_reply(self, exchange: Exchange, reply: Reply) -> None:
        """Show the reply, or note the exchange until it is there."""
        if isinstance(reply, Waiting):
            self._waiting[reply.future] = exchange
            reply.future.add_done_callback(self._given_up)
        elif reply is None:
            self._show_none(exchange, NONE_WANTED)
        else:
            self._show_response(exchange, reply)

    def dropped(self, waiting: Waiting[Route]) -> None:
        """See ``Dispatcher.dropped``."""
        self._show_none(self._waiting.pop(waiting.future, None), CLIENT_GONE)

    async def _serve_large(
        self, route: Route, header: RequestHeader, located: tuple[memoryview, int], session: Session
    ) -> "Response | asyncio.Future[Response]":
        """See ``Dispatcher._serve_large``."""
        key = id(header)
        self._large_exchanges[key] = (len(located[0]), None)
        served = False
        try:
            response = await super()._serve_large(route, header, located, session)
            served = True
            return response
        finally:
            _, exchange = self._large_exchanges.pop(key)
            task = asyncio.current_task()
            if not served:  # ``answer`` raises the exception, and shows no line
                self._show_none(exchange, "see the log")
            elif exchange is not None and task is not None:
                self._waiting[task] = exchange

    def _make_route(self, route: Route) -> Route:
        route = super()._make_route(route)
        handle = decoded_handler(route.handle, self._run)

        def traced(context: RequestContext, request: Request) -> Result:
            if not self._trace.wanted.passes(context, request):
                return handle(context, request)
            exchange = Exchange(context, self._clock.monotonic_s())
            size, key = self._size, id(context.header)
            if key in self._large_exchanges:
                size = self._large_exchanges[key][0]
                self._large_exchanges[key] = (size, exchange)
            else:
                self._current = exchange
            self._show(exchange, REQUEST, size + SIZE_PREFIX, request)
            result = handle(context, request)
            if isinstance(result, Message):
                exchange.response = result
            return result

        return route._replace(handle=traced, pattern=None)

    def _taken(self) -> Exchange | None:
        exchange, self._current = self._current, None
        return exchange

    # lines

    def _given_up(self, future: "asyncio.Future[Any]") -> None:
        if future.cancelled():
            self._show_none(self._waiting.pop(future, None), CLIENT_GONE)

    def _show_response(self, exchange: Exchange, parts: list[Part]) -> None:
        self._show(exchange, RESPONSE, sum(map(len, parts)), exchange.response)

    def _show_none(self, exchange: Exchange | None, reason: str) -> None:
        if exchange is not None:
            self._show(exchange, NO_ANSWER, 0, reason)

    def _show(self, exchange: Exchange, kind: str, size: int, body: Message | str | None) -> None:
        if self._trace.is_full:
            self._trace.leave_out()
            return
        header, session = exchange.context.header, exchange.context.session
        took_ms = None if kind == REQUEST else (self._clock.monotonic_s() - exchange.began_s) * 1000
        self._trace.show(
            Event(
                kind,
                self._clock.now_ms(),
                f"{session.peer_host}:{session.peer_port}",
                header.client_id,
                header.api_key,
                header.api_version,
                header.correlation_id,
                size,
                took_ms,
                body if isinstance(body, str) else {} if body is None else summary(body),
            )
        )
