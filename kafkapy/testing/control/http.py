"""The part of HTTP/1.1 that the control port needs: one small request and one answer per connection.

It is for programs on this machine. Requests of web pages in a browser on this machine are refused: by the ``Host``
header, which names a foreign domain after a DNS rebinding attack; by ``Origin``; and because a page can send
``application/json`` only after a preflight request, which is refused.
"""

import json
import math
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

MOST_HEADER_BYTES: Final = 16_384
MOST_BODY_BYTES: Final = 65_536
MOST_NUMBER_BITS: Final = 63
"""Of an integer in a body, without its sign."""
LOOPBACK_NAMES: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_HOST: Final = re.compile(r"(?:(?P<name>[A-Za-z0-9.-]+)|\[(?P<address>[0-9A-Fa-f:.]+)\])(?::[0-9]{1,5})?")
JSON: Final = "application/json"
METHODS: Final = ("GET", "POST", "DELETE")


class HttpError(Exception):
    """A request that is refused; ``status`` and one sentence are the answer."""

    def __init__(self, status: HTTPStatus, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class HttpRequest(NamedTuple):
    """A request; ``body`` is its JSON object."""

    method: str
    path: str
    body: dict[str, Any]


class Head(NamedTuple):
    """A request without its body; ``size`` is the size of the whole request in bytes."""

    method: str
    path: str
    headers: Mapping[str, str]
    header_size: int
    size: int


def read_head(data: bytes | bytearray) -> Head | None:
    """The head of the request that ``data`` begins with, None until all of it is there. Raises ``HttpError``."""
    if data and not data[:1].isalpha():  # such as a Kafka client, which would wait for an answer in vain
        raise HttpError(HTTPStatus.BAD_REQUEST, "this is no HTTP/1 request")
    end = data.find(b"\r\n\r\n")
    if end < 0 or end > MOST_HEADER_BYTES:
        if len(data) > MOST_HEADER_BYTES:
            raise HttpError(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"the headers are more than {MOST_HEADER_BYTES} bytes"
            )
        return None
    first, *lines = bytes(data[:end]).decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise HttpError(HTTPStatus.BAD_REQUEST, "this is no HTTP/1 request")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip() or name.lower() in headers:
            raise HttpError(HTTPStatus.BAD_REQUEST, f"the header line {line[:80]!r} is broken or there twice")
        headers[name.lower()] = value.strip()
    return Head(words[0], _path(words[1]), headers, end + 4, end + 4 + _body_size(headers))


def _path(target: str) -> str:
    try:
        return urlsplit(target).path
    except ValueError:
        raise HttpError(HTTPStatus.BAD_REQUEST, f"the request's target {target[:80]!r} is no URL") from None


def _body_size(headers: Mapping[str, str]) -> int:
    if "transfer-encoding" in headers:
        raise HttpError(HTTPStatus.LENGTH_REQUIRED, "send a Content-Length, not a Transfer-Encoding")
    text = headers.get("content-length", "0")
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise HttpError(HTTPStatus.BAD_REQUEST, f"Content-Length {text[:20]!r} is no number of bytes")
    if int(text) > MOST_BODY_BYTES:
        raise HttpError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has at most {MOST_BODY_BYTES} bytes")
    return int(text)


def check_origin(head: Head, port: int) -> None:
    """Refuse requests that a web page may have sent. Raises ``HttpError``."""
    host = _host_name(head.headers.get("host", ""))
    if host not in LOOPBACK_NAMES:
        raise HttpError(HTTPStatus.FORBIDDEN, "the Host header must name this machine: 127.0.0.1 or localhost")
    origin = head.headers.get("origin")
    if origin is not None:
        own = {f"http://{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}
        if origin not in own:
            raise HttpError(HTTPStatus.FORBIDDEN, "web pages can't use the control port")


def _host_name(host: str) -> str | None:
    """Return the name in a ``Host`` header, without its port; None if the header is anything else."""
    match = _HOST.fullmatch(host)
    return match and (match["name"] or match["address"]).lower()


def read_body(head: Head, data: bytes) -> HttpRequest:
    """The request with its body, ``data``. Raises ``HttpError``."""
    if head.method == "POST":
        kind = head.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != JSON:
            raise HttpError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"a POST needs the header Content-Type: {JSON}")
    if not data:
        return HttpRequest(head.method, head.path, {})
    body = _read_json(data)
    if not isinstance(body, dict):
        raise HttpError(HTTPStatus.BAD_REQUEST, "the body must be a JSON object")
    return HttpRequest(head.method, head.path, body)


def _read_json(data: bytes) -> Any:
    try:
        value = json.loads(data, parse_int=_integer, parse_float=_float, parse_constant=_float)
        json.dumps(value, ensure_ascii=False).encode()  # a lone surrogate could not be sent back in a response
    except UnicodeEncodeError:
        raise HttpError(HTTPStatus.BAD_REQUEST, "a string in the body has half of a surrogate pair") from None
    except (ValueError, RecursionError):
        raise HttpError(HTTPStatus.BAD_REQUEST, "the body is no JSON") from None
    return value


def _integer(text: str) -> int:
    value = int(text) if len(text) <= MOST_NUMBER_BITS else None
    if value is None or value.bit_length() > MOST_NUMBER_BITS:
        raise HttpError(HTTPStatus.BAD_REQUEST, f"the number {text[:20]}… in the body has more than 64 bits")
    return value


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise HttpError(HTTPStatus.BAD_REQUEST, f"the number {text[:20]} in the body is not finite")
    return value


def encode_answer(status: HTTPStatus, content: bytes, kind: str, **headers: str) -> bytes:
    """The bytes of an answer, after which the connection is closed."""
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        f"Content-Type: {kind}; charset=utf-8",
        f"Content-Length: {len(content)}",
        "Connection: close",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'",
        *(f"{name.replace('_', '-').title()}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode() + content
