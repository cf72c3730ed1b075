"""A port and its connections, over real sockets; time-outs by a clock that the tests advance."""

import asyncio
import logging
import socket
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import pytest

from kafkapy.config.listeners import EndPoint
from kafkapy.network.listener import ListenError
from kafkapy.observe.http.messages import (
    DEFAULT_LIMITS,
    HTML,
    Handler,
    HttpError,
    HttpLimits,
    HttpRequest,
    HttpResponse,
    json_response,
)
from kafkapy.observe.http.server import HttpServer
from kafkapy.testing.clock import ManualClock
from tests.server.harness import run, until

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
PATIENCE_MS = DEFAULT_LIMITS.patience_ms
LARGE = 16 << 20


def _told(request: HttpRequest) -> HttpResponse:
    return json_response(HTTPStatus.OK, request.path)


class Client:
    """One connection to a port."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def ask(self, request: bytes = GET) -> bytes:
        """The body of the response; raises ``IncompleteReadError`` if the connection ends before it."""
        self.writer.write(request)
        head = await self.reader.readuntil(b"\r\n\r\n")
        size = next(line for line in head.split(b"\r\n") if line.startswith(b"Content-Length: "))
        return await self.reader.readexactly(int(size[16:]))

    async def is_closed(self) -> bool:
        try:
            return await self.reader.read() == b""
        except ConnectionError:
            return True


class Served:
    """A server with its clock."""

    def __init__(self, handler: Handler, limits: HttpLimits) -> None:
        self.clock = ManualClock()
        self.server = HttpServer(EndPoint("TOLD", "PLAINTEXT", "127.0.0.1", 0), handler, limits, self.clock)

    async def client(self) -> Client:
        """A client whose connection the server knows, so that it has taken the place of another one if need be."""
        before = tuple(self.server.connections)
        client = Client(*await asyncio.open_connection("127.0.0.1", self.server.port))
        await until(lambda: tuple(self.server.connections) != before)
        return client


def _serve(scenario: Callable[[Served], Any], handler: Handler = _told, limits: HttpLimits = DEFAULT_LIMITS) -> None:
    async def scene() -> None:
        served = Served(handler, limits)
        await served.server.start()
        await scenario(served)
        await served.server.stop()
        assert not served.server.connections
        assert served.clock.pending_timers() == 0

    run(scene())


def test_a_connection_serves_one_request_after_another() -> None:
    async def scenario(served: Served) -> None:
        client = await served.client()
        for _ in range(3):
            assert await client.ask() == b'"/"\n'
            served.clock.advance(PATIENCE_MS - 1)
        assert len(served.server.connections) == 1
        client.writer.close()
        await until(lambda: not served.server.connections)

    _serve(scenario)


def test_a_request_that_takes_too_long_to_arrive_is_given_up_whatever_comes_meanwhile() -> None:
    async def scenario(served: Served) -> None:
        slow, other = await served.client(), await served.client()
        slow.writer.write(GET[:20])
        await until(lambda: [each.is_idle for each in served.server.connections] == [False, True])
        served.clock.advance(PATIENCE_MS / 2)
        slow.writer.write(GET[20:30])
        assert await other.ask() == b'"/"\n'
        served.clock.advance(PATIENCE_MS / 2)
        assert await slow.is_closed()
        assert await other.ask() == b'"/"\n'

    _serve(scenario)


def test_a_client_that_does_not_read_a_large_response_is_given_up() -> None:
    page = HttpResponse(HTTPStatus.OK, bytes(LARGE), HTML)

    async def scenario(served: Served) -> None:
        client = await served.client()
        client.writer.transport.pause_reading()
        client.writer.write(GET)
        await until(lambda: served.clock.pending_timers() == 1 and not all(_reading(served)))
        client.writer.write(GET * 1_000)
        served.clock.advance(PATIENCE_MS)
        await until(lambda: not served.server.connections)

    _serve(scenario, lambda _: page)


def _reading(served: Served) -> list[bool]:
    return [each._transport.is_reading() for each in served.server.connections if each._transport]


def test_a_client_that_reads_a_large_response_is_served_on() -> None:
    page = HttpResponse(HTTPStatus.OK, bytes(LARGE), HTML)

    async def scenario(served: Served) -> None:
        client = await served.client()
        for _ in range(2):
            assert await client.ask() == page.body

    _serve(scenario, lambda _: page)


def test_a_client_that_does_not_close_after_the_last_response_is_given_up() -> None:
    async def scenario(served: Served) -> None:
        client = await served.client()
        await client.ask(b"GET / HTTP/1.0\r\n\r\n")
        assert await client.is_closed()
        client.writer.write(bytes(1 << 20))
        assert len(served.server.connections) == 1
        served.clock.advance(PATIENCE_MS)
        assert not served.server.connections

    _serve(scenario)


def test_a_new_connection_takes_the_place_of_one_that_waits_for_a_request() -> None:
    async def scenario(served: Served) -> None:
        busy, idle = await served.client(), await served.client()
        busy.writer.write(GET[:20])
        await until(lambda: [each.is_idle for each in served.server.connections] == [False, True])
        new = await served.client()
        assert await idle.is_closed()
        assert await busy.ask(GET[20:]) == b'"/"\n'
        assert await new.ask() == b'"/"\n'

    _serve(scenario, limits=HttpLimits(connections=2))


def test_a_connection_is_refused_while_all_others_send_requests() -> None:
    async def scenario(served: Served) -> None:
        busy = await served.client()
        busy.writer.write(GET[:20])
        await until(lambda: not any(each.is_idle for each in served.server.connections))
        refused = Client(*await asyncio.open_connection("127.0.0.1", served.server.port))
        assert await refused.is_closed()
        assert await busy.ask(GET[20:]) == b'"/"\n'

    _serve(scenario, limits=HttpLimits(connections=1))


def test_a_handler_may_take_as_long_as_it_needs_and_its_work_is_done_without_the_client() -> None:
    release, done = asyncio.Event(), []

    async def slow() -> HttpResponse:
        await release.wait()
        done.append(1)
        return json_response(HTTPStatus.OK, "done")

    async def scenario(served: Served) -> None:
        patient, gone = await served.client(), await served.client()
        asked = asyncio.ensure_future(patient.ask())
        gone.writer.write(GET)
        await until(lambda: served.clock.pending_timers() == 0)
        served.clock.advance(10 * PATIENCE_MS)
        gone.writer.close()
        await until(lambda: len(served.server.connections) == 1)
        release.set()
        assert await asked == b'"done"\n'
        await until(lambda: len(done) == 2)

    _serve(scenario, lambda _: slow())


@pytest.mark.parametrize("is_later", [False, True])
def test_a_handler_that_fails_is_logged_and_answered(is_later: bool, caplog: pytest.LogCaptureFixture) -> None:
    error: Exception = ZeroDivisionError("a bug")

    async def fail_later() -> HttpResponse:
        raise error

    def handler(_request: HttpRequest) -> Any:
        if is_later:
            return fail_later()
        raise error

    async def scenario(served: Served) -> None:
        nonlocal error
        client = await served.client()
        assert b"the broker's log says why" in await client.ask()
        error = HttpError(HTTPStatus.CONFLICT, "not now")
        assert await client.ask() == b'{"error": "not now"}\n'

    with caplog.at_level(logging.ERROR):
        _serve(scenario, handler)
    assert [record.exc_info[1].args for record in caplog.records if record.exc_info] == [("a bug",)]


def test_requests_that_are_not_answered_yet_are_limited() -> None:
    async def never() -> HttpResponse:
        return await asyncio.get_running_loop().create_future()

    async def scenario(served: Served) -> None:
        for _ in range(2):
            client = await served.client()
            client.writer.write(GET)
            await until(lambda: served.clock.pending_timers() == 0)
            client.writer.close()
            await until(lambda: not served.server.connections)
        client = await served.client()
        assert await client.ask() == b'{"error": "2 requests are not answered yet: wait for them"}\n'

    _serve(scenario, lambda _: never(), HttpLimits(connections=2))


def test_a_port_that_cannot_be_had_is_reported_in_one_sentence() -> None:
    async def scenario(served: Served) -> None:
        endpoint = EndPoint("TOLD", "PLAINTEXT", "127.0.0.1", served.server.port)
        with pytest.raises(ListenError, match=f"port {served.server.port} of 127.0.0.1 is in use by another process"):
            HttpServer(endpoint, _told)

    _serve(scenario)
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", 0))
        number = taken.getsockname()[1]

        async def start() -> None:
            server = HttpServer(EndPoint("TOLD", "PLAINTEXT", "127.0.0.1", number), _told)
            taken.listen()
            with pytest.raises(ListenError, match=f"the told port {number} is the port of a broker"):
                await server.start()
            await server.stop()

        run(start())
