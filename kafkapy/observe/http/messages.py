"""The types of a handler: a request, a response, a refusal, and the limits of a port."""

import json
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple

JSON: Final = "application/json"
HTML: Final = "text/html"


class HttpLimits(NamedTuple):
    """The limits of a port. Sizes are in bytes, those of the request line and the headers are counted together."""

    header_bytes: int = 16_384
    body_bytes: int = 65_536
    connections: int = 64
    """Open connections; and requests that are not answered yet, also of clients that have disconnected."""
    patience_ms: int = 10_000
    """How long a connection may take for its next request, from the first to the last byte, or wait for it."""


DEFAULT_LIMITS: Final = HttpLimits()


class HttpRequest(NamedTuple):
    """A whole request. ``headers`` have lower-case names; values of a repeated header are joined with commas."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes


class HttpResponse(NamedTuple):
    """A response with all of its body, which is text in UTF-8 of the media type ``kind``."""

    status: HTTPStatus
    body: bytes
    kind: str


class HttpError(Exception):
    """A request that is refused; ``status`` and one sentence are the answer."""

    def __init__(self, status: HTTPStatus, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


Handler = Callable[[HttpRequest], HttpResponse | Awaitable[HttpResponse]]
"""Answers a request, at once or as an awaitable. Both may raise ``HttpError``."""


def json_response(status: HTTPStatus, value: Any) -> HttpResponse:
    """``value`` as JSON, on one line."""
    return HttpResponse(status, json.dumps(value, ensure_ascii=False).encode() + b"\n", JSON)


def refusal(error: HttpError) -> HttpResponse:
    """The response for a request that is refused."""
    return json_response(error.status, {"error": str(error)})
