"""Refusal of requests that a web page may have sent, at a port that is meant for programs of this machine.

A browser on this machine sends them for any page: with a ``Host`` header that names a foreign domain after a DNS
rebinding attack, or with an ``Origin`` header that names the page's own server. A page can send ``application/json``
only after a preflight request (OPTIONS), which a handler must refuse.
"""

import re
from http import HTTPStatus
from typing import Final

from kafkapy.observe.http.messages import HttpError, HttpRequest

LOOPBACK_NAMES: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_HOST: Final = re.compile(r"(?:(?P<name>[A-Za-z0-9.-]+)|\[(?P<address>[0-9A-Fa-f:.]+)\])(?::[0-9]{1,5})?")


def check_origin(request: HttpRequest, port: int) -> None:
    """Refuse a request unless a program of this machine or a page of ``port`` sends it. Raises ``HttpError``."""
    if _host_name(request.headers.get("host", "")) not in LOOPBACK_NAMES:
        raise HttpError(HTTPStatus.FORBIDDEN, "the Host header must name this machine: 127.0.0.1 or localhost")
    origin = request.headers.get("origin")
    if origin is not None:
        own = {f"http://{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}
        if origin not in own:
            raise HttpError(HTTPStatus.FORBIDDEN, "web pages can't use this port")


def _host_name(host: str) -> str | None:
    """Return the name in a ``Host`` header, without its port; None if the header is anything else."""
    match = _HOST.fullmatch(host)
    return match and (match["name"] or match["address"]).lower()
