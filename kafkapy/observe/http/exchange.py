"""A connection's requests and responses in turn, without I/O.

h11 parses and writes them; its state machine decides whether the connection can be used again. A response also ends the
connection if the client has sent bytes of a further request before it, since those are dropped.
"""

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Final
from urllib.parse import SplitResult, urlsplit

import h11

from kafkapy.observe.http.messages import HttpError, HttpLimits, HttpRequest, HttpResponse
from kafkapy.text import shortened

PIECE_BYTES: Final = 1024
"""Bytes that are parsed at a time: headers may be larger than their limit by this, whatever arrives at once."""
LONGEST_REASON: Final = 120
"""Characters of h11's reason for refusing a request, which quotes the request."""

_FIXED_HEADERS: Final = (
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
    ("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'"),
)


class HttpExchange:
    """The bytes that arrive go to ``receive``; each request, also a refused one, needs one ``encode``."""

    def __init__(self, limits: HttpLimits) -> None:
        self._limits = limits
        self._parser = h11.Connection(h11.SERVER, limits.header_bytes)
        self._head: h11.Request | None = None
        self._body = bytearray()
        self._is_last = False
        self.is_answering = False
        """Whether a request has been received or refused, and its response has not been encoded."""
        self.is_over = False
        """Whether the connection ends with the response that was encoded."""

    @property
    def is_idle(self) -> bool:
        """Whether the connection waits for the first byte of a request."""
        waits = self._parser.their_state is h11.IDLE and not self._parser.trailing_data[0]
        return waits and not self.is_answering and not self.is_over

    def receive(self, data: bytes) -> HttpRequest | None:
        """The request that ``data`` completes, None if it completes none; raises ``HttpError`` to refuse it.

        Bytes that arrive between a request and its response are dropped, and that response is the last one.
        """
        if self.is_answering or self.is_over:
            self._is_last = True
            return None
        try:
            for begin in range(0, len(data), PIECE_BYTES):
                self._parser.receive_data(data[begin : begin + PIECE_BYTES])
                if self._is_complete():
                    self._is_last = begin + PIECE_BYTES < len(data) or bool(self._parser.trailing_data[0])
                    self.is_answering = True
                    return self._request()
        except HttpError:
            self.is_answering = self._is_last = True
            raise
        return None

    def _is_complete(self) -> bool:
        """Parse the received bytes; return whether a request ends with them. Raises ``HttpError``."""
        try:
            while (event := self._parser.next_event()) is not h11.NEED_DATA:
                if isinstance(event, h11.Request):
                    self._begin(event)
                elif isinstance(event, h11.Data):
                    self._body += event.data
                else:
                    return True
        except h11.RemoteProtocolError as error:
            raise self._refused(error) from error
        return False

    def _refused(self, error: h11.RemoteProtocolError) -> HttpError:
        if error.error_status_hint == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
            limit = self._limits.header_bytes
            return HttpError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"the headers are more than {limit} bytes")
        reason = shortened(str(error), LONGEST_REASON)
        return HttpError(HTTPStatus.BAD_REQUEST, f"this is no HTTP/1 request: {reason}")

    def _begin(self, head: h11.Request) -> None:
        """Check a request before its body is received. Raises ``HttpError``."""
        if not head.http_version.startswith(b"1."):
            raise HttpError(HTTPStatus.BAD_REQUEST, "this is no HTTP/1 request: it has another version")
        headers = _joined(head.headers)
        if "transfer-encoding" in headers:
            raise HttpError(HTTPStatus.LENGTH_REQUIRED, "send a Content-Length, not a Transfer-Encoding")
        limit = self._limits.body_bytes
        if int(headers.get("content-length", "0")) > limit:
            raise HttpError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has at most {limit} bytes")
        self._head = head

    def _request(self) -> HttpRequest:
        """The request that has been received. Raises ``HttpError``."""
        head, body = self._head, bytes(self._body)
        assert head is not None, "a request ends after it has begun"
        self._body.clear()
        target = _split(head.target.decode("ascii"))
        return HttpRequest(head.method.decode("ascii"), target.path, target.query, _joined(head.headers), body)

    def encode(self, response: HttpResponse) -> bytes:
        """The bytes of the response to the request that was received or refused last."""
        headers = [
            ("Content-Type", f"{response.kind}; charset=utf-8"),
            ("Content-Length", str(len(response.body))),
            *_FIXED_HEADERS,
        ]
        if self._is_last:
            headers.append(("Connection", "close"))
        status = response.status
        encoded = self._parser.send(h11.Response(status_code=status, reason=status.phrase, headers=headers))
        if self._head is None or self._head.method != b"HEAD":
            encoded += self._parser.send(h11.Data(data=response.body))
        encoded += self._parser.send(h11.EndOfMessage())
        self._end_turn()
        return encoded

    def _end_turn(self) -> None:
        """Wait for the next request, unless one of both sides wants to close the connection."""
        self._head = None
        self.is_answering = False
        if self._parser.our_state is h11.DONE:
            self._parser.start_next_cycle()
        else:
            self.is_over = True


def _split(target: str) -> SplitResult:
    try:
        return urlsplit(target)
    except ValueError:
        raise HttpError(HTTPStatus.BAD_REQUEST, f"the request's target {target[:80]!r} is no URL") from None


def _joined(headers: Iterable[tuple[bytes, bytes]]) -> Mapping[str, str]:
    joined: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name, value = raw_name.decode("ascii"), raw_value.decode("latin-1")
        joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return joined
