"""A local HTTP port over which tests in any language set faults and advance the clock of a broker, or of a cluster.

It is off by default, and only on the loopback interface, since a program that can connect to it can disturb the
broker's clients.
"""

import asyncio
import json
from collections.abc import Awaitable, Coroutine
from http import HTTPStatus
from typing import Any, Final

from kafkapy.config.listeners import EndPoint
from kafkapy.network.listener import BACKLOG, ListenError, bind
from kafkapy.testing.control.http import (
    JSON,
    METHODS,
    Head,
    HttpError,
    check_origin,
    encode_answer,
    read_body,
    read_head,
)
from kafkapy.testing.control.page import openapi, page
from kafkapy.testing.control.routes import Answer, Controllable, answer
from kafkapy.testing.hosting.port import HOST

PATIENCE_S: Final = 10.0
"""How long a request may take to arrive."""
MOST_CONNECTIONS: Final = 64


class ControlPort:
    """The port of one broker or cluster. Its socket is bound at once; it is served from ``start`` to ``stop``."""

    def __init__(self, of: Controllable, port: int = 0) -> None:
        """Bind ``port``, or a free one if it is 0. Raises ``ListenError`` when it is in use."""
        self._of = of
        self._socket = bind(EndPoint("CONTROL", "PLAINTEXT", HOST, port))
        self.port: int = self._socket.getsockname()[1]
        self._server: asyncio.Server | None = None
        self.connections: set[_Exchange] = set()
        self._working: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """The URL of the port, without a slash at the end."""
        return f"http://{HOST}:{self.port}"

    async def start(self) -> None:
        """Serve requests on the running loop. Raises ``ListenError`` if a broker of this process has the port."""
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(lambda: _Exchange(self), sock=self._socket, backlog=BACKLOG)
        except OSError as error:
            raise ListenError(f"the control port {self.port} is the port of a broker; choose another one") from error

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

    def work(self, answering: Coroutine[Any, Any, None]) -> None:
        """Run ``answering`` until it is done, or the port stops."""
        task = asyncio.ensure_future(answering)
        self._working.add(task)
        task.add_done_callback(self._working.discard)

    def answer(self, head: Head, data: bytes) -> bytes | Awaitable[Answer]:
        """The answer to a whole request, at once or as an awaitable. Raises ``HttpError``."""
        check_origin(head, self.port)
        if head.method not in METHODS:
            raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, f"the methods here are {', '.join(METHODS)}")
        if len(self._working) >= MOST_CONNECTIONS:
            raise HttpError(HTTPStatus.CONFLICT, f"{MOST_CONNECTIONS} requests are not answered yet: wait for them")
        request = read_body(head, data)
        if (request.method, request.path) == ("GET", "/"):
            return encode_answer(HTTPStatus.OK, page(self._of, f"{HOST}:{self.port}").encode(), "text/html")
        if (request.method, request.path) == ("GET", "/openapi.json"):
            return _json(HTTPStatus.OK, openapi(self._of))
        answered = answer(self._of, request)
        return _json(*answered) if isinstance(answered, tuple) else answered


class _Exchange(asyncio.Protocol):
    """One connection: a request and its answer."""

    def __init__(self, owner: ControlPort) -> None:
        self._owner = owner
        self._transport: asyncio.Transport | None = None
        self._data = bytearray()
        self._head: Head | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._is_answered = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See ``asyncio.BaseProtocol``."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if len(self._owner.connections) >= MOST_CONNECTIONS:
            transport.abort()
            return
        self._owner.connections.add(self)
        self._deadline = asyncio.get_running_loop().call_later(PATIENCE_S, self.abort)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # the client has disconnected
        """See ``asyncio.BaseProtocol``."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._transport = None
        self._owner.connections.discard(self)

    def abort(self) -> None:
        """End the connection."""
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """See ``asyncio.Protocol``."""
        if self._is_answered or self._transport is None:
            return
        self._data += data
        try:
            if self._head is None:
                self._head = read_head(self._data)
            head = self._head
            if head is None or len(self._data) < head.size:
                return
            answered = self._owner.answer(head, bytes(self._data[head.header_size : head.size]))
        except HttpError as error:
            self._refuse(error)
            return
        self._is_answered = True
        if isinstance(answered, bytes):
            self._answer(answered)
        else:
            assert self._deadline is not None, "it is set with the transport"
            self._deadline.cancel()
            self._owner.work(self._answer_later(answered))

    async def _answer_later(self, answered: Awaitable[Answer]) -> None:
        """Answer a request whose work takes time, however long; a client that disconnects does not end the work."""
        try:
            answer = _json(*await answered)
        except HttpError as error:
            self._deadline = asyncio.get_running_loop().call_later(PATIENCE_S, self.abort)
            self._refuse(error)
        else:
            self._answer(answer)

    def _answer(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)
            self._transport.close()

    def _refuse(self, error: HttpError) -> None:
        # Further bytes are read and ignored until the client closes: otherwise it would not get the answer.
        self._is_answered = True
        if self._transport is not None:
            self._transport.write(_json(error.status, {"error": str(error)}))
            self._transport.write_eof()


def _json(status: HTTPStatus, value: object) -> bytes:
    return encode_answer(status, json.dumps(value, ensure_ascii=False).encode() + b"\n", JSON)
