"""A port that serves HTTP, and its connections.

A connection in turn waits for a request, executes it, and sends the response. The first and the last of these have a
time limit. A client that has the last response has that time to close the connection: until then its bytes are read and
dropped, since a close with unread bytes would take the response from it. A request is executed to its end, even when
its client has disconnected.
"""

import asyncio
import logging
from collections.abc import Awaitable
from contextlib import suppress
from http import HTTPStatus
from typing import Final

from kafkapy.clock import Clock, SystemClock, TimerHandle
from kafkapy.config.listeners import EndPoint
from kafkapy.network.listener import BACKLOG, ListenError, bind
from kafkapy.observe.http.exchange import HttpExchange
from kafkapy.observe.http.messages import (
    DEFAULT_LIMITS,
    Handler,
    HttpError,
    HttpLimits,
    HttpRequest,
    HttpResponse,
    refusal,
)

logger: Final = logging.getLogger(__name__)


class HttpServer:
    """One port. Its socket is bound at once; requests are answered from ``start`` to ``stop``."""

    def __init__(
        self, endpoint: EndPoint, handler: Handler, limits: HttpLimits = DEFAULT_LIMITS, clock: Clock | None = None
    ) -> None:
        """Bind the end point, on a free port if its port is 0. Raises ``ListenError`` when the port is in use."""
        self.limits = limits
        self.clock: Clock = clock or SystemClock()
        self._name = endpoint.listener_name.lower()
        self._handler = handler
        self._socket = bind(endpoint)
        self.port: int = self._socket.getsockname()[1]
        self._server: asyncio.Server | None = None
        self.connections: dict[HttpConnection, None] = {}
        """The open connections, the oldest first."""
        self._working: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Serve requests on the running loop. Raises ``ListenError`` if a broker of this process has the port."""
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(lambda: HttpConnection(self), sock=self._socket, backlog=BACKLOG)
        except OSError as error:
            raise ListenError(
                f"the {self._name} port {self.port} is the port of a broker; choose another one"
            ) from error

    async def stop(self) -> None:
        """Close the port and its connections; work that is not done is cancelled."""
        for work in self._working:
            work.cancel()
        if self._working:
            await asyncio.wait(self._working)
        if self._server is None:
            self._socket.close()
        else:
            self._server.close()
            for connection in tuple(self.connections):
                connection.abort()
            await self._server.wait_closed()

    # for its connections

    def has_room(self) -> bool:
        """Whether one more connection may be open; one that waits for a request is closed if there are too many."""
        if len(self.connections) < self.limits.connections:
            return True
        idle = next((connection for connection in self.connections if connection.is_idle), None)
        if idle is None:
            return False
        idle.abort()
        return True

    def answer(self, request: HttpRequest, connection: "HttpConnection") -> None:
        """Execute the request, and have the connection send the response, now or later."""
        if len(self._working) >= self.limits.connections:
            sentence = f"{self.limits.connections} requests are not answered yet: wait for them"
            connection.send(refusal(HttpError(HTTPStatus.CONFLICT, sentence)))
            return
        try:
            answered = self._handler(request)
        except Exception as error:  # noqa: BLE001  # a handler that fails must not take the port with it
            connection.send(_failed(error))
            return
        if isinstance(answered, HttpResponse):
            connection.send(answered)
        else:
            work = asyncio.ensure_future(self._answer_later(answered, connection))
            self._working.add(work)
            work.add_done_callback(self._working.discard)

    async def _answer_later(self, answered: Awaitable[HttpResponse], connection: "HttpConnection") -> None:
        try:
            response = await answered
        except Exception as error:  # noqa: BLE001  # as in ``answer``
            response = _failed(error)
        connection.send(response)


def _failed(error: Exception) -> HttpResponse:
    if isinstance(error, HttpError):
        return refusal(error)
    logger.error("A request over HTTP failed", exc_info=error)
    return refusal(HttpError(HTTPStatus.INTERNAL_SERVER_ERROR, "the request failed; the broker's log says why"))


class HttpConnection(asyncio.Protocol):
    """One connection of a port."""

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._exchange = HttpExchange(server.limits)
        self._transport: asyncio.Transport | None = None
        self._deadline: TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        """Whether the connection waits for the first byte of a request."""
        return self._exchange.is_idle

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See ``asyncio.BaseProtocol``."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if not self._server.has_room():
            transport.abort()
            return
        self._server.connections[self] = None
        self._start_deadline()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # the client has disconnected
        """See ``asyncio.BaseProtocol``."""
        self._leave()
        self._transport = None

    def abort(self) -> None:
        """End the connection at once."""
        self._leave()
        assert self._transport is not None, "it is set while the connection is open"
        self._transport.abort()

    def _leave(self) -> None:
        self._stop_deadline()
        self._server.connections.pop(self, None)

    def data_received(self, data: bytes) -> None:
        """See ``asyncio.Protocol``."""
        try:
            request = self._exchange.receive(data)
        except HttpError as error:
            self.send(refusal(error))
            return
        if request is not None:
            self._stop_deadline()
            self._server.answer(request, self)

    def send(self, response: HttpResponse) -> None:
        """Send the response to the request that was received or refused last, unless the client has disconnected."""
        if self._transport is None:
            return
        self._transport.write(self._exchange.encode(response))
        self._start_deadline()
        if self._exchange.is_over:
            with suppress(OSError):  # the client has closed the connection already
                self._transport.write_eof()

    # the client takes long

    def pause_writing(self) -> None:
        """See ``asyncio.BaseProtocol``; the client's next request is read when it has read its response."""
        assert self._transport is not None
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        """See ``asyncio.BaseProtocol``."""
        assert self._transport is not None
        self._transport.resume_reading()

    def _start_deadline(self) -> None:
        self._stop_deadline()
        self._deadline = self._server.clock.call_later(self._server.limits.patience_ms, self.abort)

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
