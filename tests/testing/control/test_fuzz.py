"""Damaged and hostile requests to a control port: each is answered with a sentence, or its connection is closed."""

import asyncio
import json
import re
import tracemalloc
from typing import Any

import pytest

from harness.cases.control_requests import Requests
from kafkapy.observe.http.messages import DEFAULT_LIMITS
from kafkapy.observe.http.server import HttpConnection
from kafkapy.testing.clock.moving import MovingClock
from kafkapy.testing.control.port import ControlPort
from kafkapy.testing.control.routes import Controlled
from kafkapy.testing.faults import Faults

SEED = 272
COUNT = 1_500
MOST_MEMORY = 64 << 20


class Transport(asyncio.Transport):
    """Keeps the bytes that a connection writes."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_over = False

    def write(self, data: Any) -> None:
        assert not self.is_over
        self.written += data

    def write_eof(self) -> None:
        self.is_over = True

    def close(self) -> None:
        self.is_over = True

    def abort(self) -> None:
        self.is_over = True


def exchanged(port: ControlPort, *pieces: bytes) -> bytes:
    """The answers of one connection to the bytes, b"" while it waits for more."""
    connection, transport = HttpConnection(port.server), Transport()
    connection.connection_made(transport)
    for piece in pieces:
        connection.data_received(piece)
    connection.connection_lost(None)
    return transport.written


def check(answers: bytes) -> None:
    """Check that the responses are whole, and that each is a success or has the error."""
    while answers:
        head, _, rest = answers.partition(b"\r\n\r\n")
        size = re.search(rb"\r\nContent-Length: (\d+)(?=\r\n|$)", head)
        assert head.startswith(b"HTTP/1.1 ")
        assert size is not None, head
        assert len(rest) >= int(size[1])
        body, answers = rest[: int(size[1])], rest[int(size[1]) :]
        status = int(head[9:12])
        if 200 <= status < 300:
            continue
        assert 400 <= status < 500, head
        error = json.loads(body)["error"]
        assert isinstance(error, str)
        assert error


def run_with_port(scenario: Any) -> None:
    async def scene() -> None:
        port = ControlPort(Controlled(Faults(), MovingClock(), lambda: "127.0.0.1:9092"))
        try:
            scenario(port)
        finally:
            await port.stop()

    asyncio.run(scene())


def test_random_requests_are_answered_or_incomplete() -> None:
    def scenario(port: ControlPort) -> None:
        requests = Requests(SEED)
        answered = 0
        for data, _ in zip(requests, range(COUNT), strict=False):
            answer = exchanged(port, *requests.pieces(data))
            check(answer)
            answered += bool(answer)
        assert answered > COUNT / 2
        assert not port.server.connections
        assert tracemalloc.get_traced_memory()[1] < MOST_MEMORY

    tracemalloc.start()
    try:
        run_with_port(scenario)
    finally:
        tracemalloc.stop()


def _post(path: bytes, body: bytes) -> bytes:
    head = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % (path, len(body)) + body


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"GET http://[ HTTP/1.1\r\nHost: localhost\r\n\r\n", "the request's target 'http://[' is no URL"),
        (b"GET //[x HTTP/1.1\r\nHost: localhost\r\n\r\n", "the request's target '//[x' is no URL"),
        (_post(b"/faults", b'{"action": "drop", "topic": "\\ud800"}'), "a string in the body has half of a surrogate"),
        (_post(b"/faults", b'{"\\ud800": 1}'), "a string in the body has half of a surrogate pair"),
        (_post(b"/clock/advance", b'{"duration_ms": NaN}'), "the number NaN in the body is not finite"),
        (_post(b"/clock/advance", b'{"duration_ms": 1e999}'), "the number 1e999 in the body is not finite"),
        (
            _post(b"/faults", b'{"action": "delay", "duration_ms": 1' + b"0" * 400 + b"}"),
            "the number 10000000000000000000… in the body has more than 64 bits",
        ),
        (_post(b"/clock/advance", b'{"duration_ms": 9223372036854775808}'), "the number 9223372036854775808… in the"),
        (_post(b"/faults", b"[" * 60_000), "the body is no JSON"),
    ],
)
def test_invalid_bytes_are_a_bad_request(data: bytes, sentence: str) -> None:
    def scenario(port: ControlPort) -> None:
        answer = exchanged(port, data)
        assert answer.startswith(b"HTTP/1.1 400 ")
        check(answer)
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"].startswith(sentence)

    run_with_port(scenario)


def test_a_request_may_come_byte_by_byte() -> None:
    def scenario(port: ControlPort) -> None:
        padding = b"X-Long: " + b"x" * (DEFAULT_LIMITS.header_bytes - 200) + b"\r\n"
        body = b'{"duration_ms": 5' + b" " * (DEFAULT_LIMITS.body_bytes - 18) + b"}"
        request = _post(b"/clock/advance", body).replace(b"Host", padding + b"Host", 1)
        answer = exchanged(port, *(request[at : at + 1] for at in range(len(request))))
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["added_ms"] == 5

    run_with_port(scenario)
