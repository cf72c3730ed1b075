from http import HTTPStatus

import pytest

from kafkapy.testing.control.http import (
    MOST_BODY_BYTES,
    MOST_HEADER_BYTES,
    Head,
    HttpError,
    check_origin,
    encode_answer,
    read_body,
    read_head,
)

PORT = 4711
REQUEST = (
    b"POST /faults?x=1 HTTP/1.1\r\nHost: localhost:4711\r\n"
    b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
)


def _head(*lines: str, method: str = "GET") -> Head:
    head = read_head("\r\n".join([f"{method} / HTTP/1.1", *lines, "", ""]).encode())
    assert head is not None
    return head


def test_a_request_is_read_when_it_is_complete() -> None:
    for size in range(REQUEST.index(b"\r\n\r\n") + 4):
        assert read_head(REQUEST[:size]) is None
    head = read_head(REQUEST)
    assert head is not None
    assert (head.method, head.path, head.size) == ("POST", "/faults", len(REQUEST))
    check_origin(head, PORT)
    assert read_body(head, REQUEST[head.header_size :]).body == {}


@pytest.mark.parametrize(
    ("data", "status", "sentence"),
    [
        (b"x" * (MOST_HEADER_BYTES + 1), 431, "the headers are more than 16384 bytes"),
        (b"\x16\x03\x01\r\n\r\n", 400, "this is no HTTP/1 request"),
        (b"\0\0\0\x17\0\x12\0\0", 400, "this is no HTTP/1 request"),
        (b"GET / HTTP/2\r\n\r\n", 400, "this is no HTTP/1 request"),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400, "the header line 'no colon' is broken or there twice"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n", 400, "the header line 'host: b' is broken or there twice"),
        (b"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400, "the header line 'Host : a' is broken"),
        (b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400, "Content-Length '-1' is no number of bytes"),
        (b"GET / HTTP/1.1\r\nContent-Length: 65537\r\n\r\n", 413, f"a body has at most {MOST_BODY_BYTES} bytes"),
        (b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 411, "send a Content-Length"),
    ],
)
def test_invalid_requests_are_refused(data: bytes, status: int, sentence: str) -> None:
    with pytest.raises(HttpError) as refusal:
        read_head(data)
    assert refusal.value.status == status
    assert str(refusal.value).startswith(sentence)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:4711", "localhost:9", "[::1]:4711", "LOCALHOST"])
def test_requests_of_local_programs_are_accepted(host: str) -> None:
    check_origin(_head(f"Host: {host}"), PORT)
    check_origin(_head(f"Host: {host}", f"Origin: http://127.0.0.1:{PORT}"), PORT)


@pytest.mark.parametrize(
    "lines",
    [
        ["Host: evil.example:4711"],
        ["Host: 127.0.0.1.evil.example"],
        ["Host: evil.example@127.0.0.1"],
        ["Host: evil.example:80@127.0.0.1:4711"],
        ["Host: 127.0.0.1/evil.example"],
        ["Host: 127.0.0.1?evil.example"],
        ["Host: 127.0.0.1#evil.example"],
        ["Host: 127.0.0.1:evil"],
        ["Host: 127.0.0.1:"],
        ["Host: [127.0.0.1]x"],
        ["Host: 127.0.0.1\x00"],
        ["Host: "],
        ["Host: [::1"],
        ["Accept: */*"],
        ["Host: 127.0.0.1", "Origin: http://evil.example"],
        ["Host: 127.0.0.1", "Origin: http://localhost:3000"],
        ["Host: 127.0.0.1", "Origin: null"],
    ],
)
def test_requests_of_web_pages_are_refused(lines: list[str]) -> None:
    with pytest.raises(HttpError) as refusal:
        check_origin(_head(*lines), PORT)
    assert refusal.value.status == 403


@pytest.mark.parametrize(
    ("lines", "body", "status"),
    [
        ([], b"", 415),
        (["Content-Type: text/plain"], b"{}", 415),
        (["Content-Type: application/x-www-form-urlencoded"], b"{}", 415),
        (["Content-Type: application/json"], b"{", 400),
        (["Content-Type: application/json"], b"[" * 60_000, 400),
        (["Content-Type: application/json"], b"\xff", 400),
        (["Content-Type: application/json"], b"[]", 400),
    ],
)
def test_a_post_needs_a_json_object(lines: list[str], body: bytes, status: int) -> None:
    with pytest.raises(HttpError) as refusal:
        read_body(_head(*lines, method="POST"), body)
    assert refusal.value.status == status


def test_a_type_may_have_parameters_and_a_body_may_be_missing() -> None:
    head = _head("Content-Type: Application/JSON; charset=utf-8", method="POST")
    assert read_body(head, b'{"a": 1}').body == {"a": 1}
    assert read_body(head, b"").body == {}
    assert read_body(_head(), b"").method == "GET"


def test_an_answer_has_its_status_headers_and_content() -> None:
    answer = encode_answer(HTTPStatus.METHOD_NOT_ALLOWED, b"{}", "application/json", allow="GET")
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "HTTP/1.1 405 Method Not Allowed"
    assert {"Content-Length: 2", "Connection: close", "Allow: GET"} <= set(lines)
    assert body == b"{}"
