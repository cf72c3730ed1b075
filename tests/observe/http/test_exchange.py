"""Requests and responses of one connection, without a socket."""

from http import HTTPStatus

import pytest

from kafkapy.observe.http.exchange import PIECE_BYTES, HttpExchange
from kafkapy.observe.http.messages import DEFAULT_LIMITS, JSON, HttpError, HttpLimits, HttpResponse, refusal

REQUEST = (
    b"POST /faults?x=1&y=%20 HTTP/1.1\r\nHost: localhost:4711\r\nAccept: a\r\naccept: b\r\n"
    b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
)
GET = b"GET /%s HTTP/1.1\r\nHost: localhost\r\n\r\n"
DONE = HttpResponse(HTTPStatus.OK, b"{}", JSON)


def _lines(response: bytes) -> tuple[list[str], bytes]:
    head, _, body = response.partition(b"\r\n\r\n")
    return head.decode().split("\r\n"), body


def test_a_request_is_returned_when_it_is_complete() -> None:
    exchange = HttpExchange(DEFAULT_LIMITS)
    assert exchange.is_idle
    for at in range(len(REQUEST) - 1):
        assert exchange.receive(REQUEST[at : at + 1]) is None
        assert not exchange.is_idle
    request = exchange.receive(REQUEST[-1:])
    assert request is not None
    assert (request.method, request.path, request.query, request.body) == ("POST", "/faults", "x=1&y=%20", b"{}")
    assert (request.headers["host"], request.headers["accept"]) == ("localhost:4711", "a, b")
    assert exchange.is_answering
    assert not exchange.is_idle


def test_a_response_has_its_status_headers_and_content() -> None:
    exchange = HttpExchange(DEFAULT_LIMITS)
    exchange.receive(REQUEST)
    lines, body = _lines(exchange.encode(HttpResponse(HTTPStatus.METHOD_NOT_ALLOWED, "{ä}".encode(), JSON)))
    assert lines[0] == "HTTP/1.1 405 Method Not Allowed"
    assert {"Content-Type: application/json; charset=utf-8", "Content-Length: 4", "Cache-Control: no-store"} < {*lines}
    assert "Connection: close" not in lines
    assert body == "{ä}".encode()


def test_a_connection_is_used_again() -> None:
    exchange = HttpExchange(DEFAULT_LIMITS)
    for number in range(3):
        request = exchange.receive(GET % b"%d" % number)
        assert request is not None
        assert (request.path, request.body) == (f"/{number}", b"")
        exchange.encode(DONE)
        assert exchange.is_idle
        assert not exchange.is_over


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        GET % b"" * 2,
        GET % b"" + b"x" * PIECE_BYTES,
        REQUEST.replace(b"/faults", b"/" + b"f" * (PIECE_BYTES - len(REQUEST) + 6)) + b"GET",
    ],
)
def test_a_response_is_the_last_if_the_client_closes_or_does_not_wait_for_it(data: bytes) -> None:
    exchange = HttpExchange(DEFAULT_LIMITS)
    assert exchange.receive(data) is not None
    lines, _ = _lines(exchange.encode(DONE))
    assert "Connection: close" in lines
    assert exchange.is_over
    assert not exchange.is_idle
    assert exchange.receive(GET % b"") is None


def test_bytes_before_the_response_are_dropped() -> None:
    exchange = HttpExchange(DEFAULT_LIMITS)
    assert exchange.receive(GET % b"") is not None
    for _ in range(3):
        assert exchange.receive(bytes(1 << 16)) is None
    assert "Connection: close" in _lines(exchange.encode(DONE))[0]
    assert exchange.is_over


@pytest.mark.parametrize("method", [b"HEAD", b"CONNECT", b"PUT"])
def test_any_method_can_be_refused(method: bytes) -> None:
    exchange = HttpExchange(DEFAULT_LIMITS)
    request = exchange.receive(b"%s / HTTP/1.1\r\nHost: a\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n" % method)
    assert request is not None
    lines, body = _lines(exchange.encode(refusal(HttpError(HTTPStatus.METHOD_NOT_ALLOWED, "no"))))
    assert "Content-Length: 16" in lines
    assert body == (b"" if method == b"HEAD" else b'{"error": "no"}\n')
    assert exchange.is_idle


@pytest.mark.parametrize(
    ("data", "status", "sentence"),
    [
        (b"x" * (DEFAULT_LIMITS.header_bytes + 1), 431, "the headers are more than 16384 bytes"),
        (GET.replace(b"Host", b"X: " + b"x" * 20_000 + b"\r\nHost"), 431, "the headers are more than 16384 bytes"),
        (b"\x16\x03\x01", 400, "this is no HTTP/1 request: illegal request line"),
        (b"\0\0\0\x17\0\x12\0\0", 400, "this is no HTTP/1 request: illegal request line"),
        (b"GET / HTTP/2\r\n\r\n", 400, "this is no HTTP/1 request: illegal request line"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "this is no HTTP/1 request: it has another version"),
        (b"GET / HTTP/1.1\r\n\r\n", 400, "this is no HTTP/1 request: Missing mandatory Host"),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400, "this is no HTTP/1 request: illegal header line"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n", 400, "this is no HTTP/1 request: Found multiple Host"),
        (b"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400, "this is no HTTP/1 request: illegal header line"),
        (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\x00\r\n\r\n", 400, "this is no HTTP/1 request: illegal header line"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400, "this is no HTTP/1 request: bad Content-"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 65537\r\n\r\n", 413, "a body has at most 65536 bytes"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: %s\r\n\r\n" % (b"9" * 20), 413, "a body has at most 65536 "),
        (b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", 411, "send a Content-Length"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 400, "this is no HTTP/1 request: Only"),
        (b"GET http://[ HTTP/1.1\r\nHost: a\r\n\r\n", 400, "the request's target 'http://[' is no URL"),
    ],
)
def test_invalid_requests_are_refused_and_end_the_connection(data: bytes, status: int, sentence: str) -> None:
    exchange = HttpExchange(DEFAULT_LIMITS)
    with pytest.raises(HttpError) as refused:
        exchange.receive(data)
    assert refused.value.status == status
    assert str(refused.value).startswith(sentence)
    assert exchange.receive(data) is None
    lines, body = _lines(exchange.encode(refusal(refused.value)))
    assert lines[0].startswith(f"HTTP/1.1 {status} ")
    assert "Connection: close" in lines
    assert len(body) < 300
    assert exchange.is_over


def test_the_limits_are_those_that_were_set() -> None:
    exchange = HttpExchange(HttpLimits(header_bytes=200, body_bytes=1))
    with pytest.raises(HttpError, match="a body has at most 1 bytes"):
        exchange.receive(REQUEST)
    exchange = HttpExchange(HttpLimits(header_bytes=20))
    with pytest.raises(HttpError, match="the headers are more than 20 bytes"):
        exchange.receive(b"x" * 21)
