"""A local HTTP port over which tests in any language set faults and advance the clock of a broker, or of a cluster.

It is off by default, and only on the loopback interface, since a program that can connect to it can disturb the
broker's clients.
"""

from collections.abc import Awaitable
from http import HTTPStatus
from typing import Final

from kafkapy.config.listeners import EndPoint
from kafkapy.observe.http.messages import (
    DEFAULT_LIMITS,
    HTML,
    HttpError,
    HttpLimits,
    HttpRequest,
    HttpResponse,
    json_response,
)
from kafkapy.observe.http.origin import check_origin
from kafkapy.observe.http.server import HttpServer
from kafkapy.testing.control.bodies import read_body
from kafkapy.testing.control.page import openapi, page
from kafkapy.testing.control.routes import Answer, Controllable, ControlRequest, answer
from kafkapy.testing.hosting.port import HOST

METHODS: Final = ("GET", "POST", "DELETE")


class ControlPort:
    """The port of one broker or cluster. Its socket is bound at once; it is served from ``start`` to ``stop``."""

    def __init__(self, of: Controllable, port: int = 0, limits: HttpLimits = DEFAULT_LIMITS) -> None:
        """Bind ``port``, or a free one if it is 0. Raises ``ListenError`` when it is in use."""
        self._of = of
        self.server: Final = HttpServer(EndPoint("CONTROL", "PLAINTEXT", HOST, port), self._answer, limits)
        self.port: Final = self.server.port

    @property
    def url(self) -> str:
        """The URL of the port, without a slash at the end."""
        return f"http://{HOST}:{self.port}"

    async def start(self) -> None:
        """Serve requests on the running loop. Raises ``ListenError`` if a broker of this process has the port."""
        await self.server.start()

    async def stop(self) -> None:
        """Close the port and its connections; work that is not done is cancelled."""
        await self.server.stop()

    def _answer(self, request: HttpRequest) -> HttpResponse | Awaitable[HttpResponse]:
        """See ``Handler``."""
        check_origin(request, self.port)
        if request.method not in METHODS:
            raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, f"the methods here are {', '.join(METHODS)}")
        asked = ControlRequest(request.method, request.path, read_body(request))
        if (asked.method, asked.path) == ("GET", "/"):
            return HttpResponse(HTTPStatus.OK, page(self._of, f"{HOST}:{self.port}").encode(), HTML)
        if (asked.method, asked.path) == ("GET", "/openapi.json"):
            return json_response(HTTPStatus.OK, openapi(self._of))
        answered = answer(self._of, asked)
        return json_response(*answered) if isinstance(answered, tuple) else _later(answered)


async def _later(answered: Awaitable[Answer]) -> HttpResponse:
    return json_response(*await answered)
