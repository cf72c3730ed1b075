import asyncio
import http.client
import json
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from harness.client import Client, batch
from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.errors import ClientError
from kafkapy.network.listener import ListenError
from kafkapy.observe.http.messages import HttpLimits
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafkapy.server.dispatch.interception import Hooks
from kafkapy.testing.clock.moving import MovingClock
from kafkapy.testing.control.port import ControlPort
from kafkapy.testing.control.routes import Controlled
from kafkapy.testing.faults import Faults
from tests.server.harness import run, running_broker, until


def _controlled(faults: Faults | None = None) -> Controlled:
    return Controlled(faults or Faults(), MovingClock(), lambda: "127.0.0.1:9092")


def _ask(port: int, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, str, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    data = None if body is None else json.dumps(body)
    connection.request(method, path, data, {"Content-Type": "application/json", **headers})
    response = connection.getresponse()
    answer = response.status, response.headers["Content-Type"], response.read().decode()
    connection.close()
    return answer


def test_a_kafka_client_is_told_at_once_that_this_is_http() -> None:
    async def scenario() -> None:
        port = ControlPort(_controlled())
        await port.start()

        def ask() -> None:
            with ClusterClient(f"127.0.0.1:{port.port}") as client:
                client.metadata()

        with pytest.raises(ClientError, match=rf"127\.0\.0\.1:{port.port} speaks HTTP, not Kafka's protocol"):
            await asyncio.to_thread(ask)
        await port.stop()

    run(scenario())


def test_faults_and_clock_are_controlled_over_the_port(tmp_path: Path) -> None:
    async def scenario() -> None:
        faults = Faults()
        port = ControlPort(_controlled(faults))
        async with running_broker(tmp_path, hooks=Hooks(faults)) as broker:
            await port.start()
            client = await Client.connect(broker)
            await client.create_topic("t")

            async def ask(*request: Any) -> Any:
                status, _, answer = await asyncio.to_thread(_ask, port.port, *request)
                return status, json.loads(answer)

            rule = {"action": "error", "error": "CORRUPT_MESSAGE", "api": "Produce", "count": 1}
            assert (await ask("POST", "/faults", rule))[0] == 201
            assert (await client.produce("t", batch(b"x"))).error_code == 2
            assert (await client.produce("t", batch(b"x"))).error_code == 0
            assert (await ask("GET", "/faults/1"))[1]["fired"] == 1
            await client.ask(FindCoordinatorRequest("g"), 2)
            protocols = [JoinGroupRequestProtocol("range", b"")]
            joined = await client.ask(JoinGroupRequest("g", 30_000, 30_000, "", "one", "consumer", protocols), 5)
            assert await ask("POST", "/members/expire", {"group": "g"}) == (200, {"member_id": joined.member_id})
            assert (await ask("POST", "/members/expire", {"group": "g"}))[0] == 404
            await client.close()
            await port.stop()

    run(scenario())


def test_pages_answers_and_refusals() -> None:
    async def scenario() -> None:
        port = ControlPort(_controlled())
        await port.start()

        async def ask(*request: Any, **headers: str) -> Any:
            return await asyncio.to_thread(lambda: _ask(port.port, *request, **headers))

        status, kind, text = await ask("GET", "/")
        assert (status, kind) == (200, "text/html; charset=utf-8")
        assert f"{port.url}/faults" in text
        status, kind, text = await ask("GET", "/openapi.json")
        assert (status, kind) == (200, "application/json; charset=utf-8")
        assert json.loads(text)["paths"]
        for request, headers, expected in (
            (("PUT", "/faults", {}), {}, 405),
            (("OPTIONS", "/faults"), {}, 405),
            (("POST", "/broker/pause"), {"Host": "evil.example"}, 403),
            (("POST", "/broker/pause"), {"Origin": "http://evil.example"}, 403),
            (("POST", "/broker/pause"), {"Content-Type": "text/plain"}, 415),
        ):
            status, _, text = await ask(*request, **headers)
            assert status == expected
            assert text.count("\n") == 1
            assert json.loads(text)["error"]
        await port.stop()

    run(scenario())


def _raw(port: int, data: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.sendall(data)
        received = b""
        while piece := connection.recv(65_536):
            received += piece
        return received


def test_a_request_that_is_too_large_is_refused_and_not_kept() -> None:
    async def scenario() -> None:
        port = ControlPort(_controlled())
        await port.start()
        large = b"POST /faults HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n" + bytes(1 << 20)
        assert (await asyncio.to_thread(_raw, port.port, large)).startswith(b"HTTP/1.1 413 ")
        assert (await asyncio.to_thread(_raw, port.port, b"G" * (1 << 20))).startswith(b"HTTP/1.1 431 ")
        pipelined = b"GET /clock HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2
        assert (await asyncio.to_thread(_raw, port.port, pipelined)).count(b"HTTP/1.1") == 1
        await port.stop()

    run(scenario())


def test_idle_connections_and_too_many_connections_are_closed() -> None:
    async def scenario() -> None:
        port = ControlPort(_controlled(), limits=HttpLimits(connections=2, patience_ms=50))
        await port.start()
        streams = [await asyncio.open_connection("127.0.0.1", port.port) for _ in range(3)]
        for reader, writer in streams:
            with suppress(ConnectionError):
                assert await reader.read() == b""
            writer.close()
        await until(lambda: not port.server.connections)
        await port.stop()

    run(scenario())


def test_stop_closes_the_connections_and_the_port() -> None:
    async def scenario() -> None:
        port = ControlPort(_controlled())
        await port.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", port.port)
        await until(lambda: len(port.server.connections) == 1)
        await port.stop()
        with suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
        again = ControlPort(_controlled(), port.port)
        await again.stop()

    run(scenario())


def test_a_port_in_use_is_reported_in_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        with pytest.raises(ListenError, match=f"port {number} of 127.0.0.1 is in use by another process"):
            ControlPort(_controlled(), number)
