"""Binding, accepting within limits, closing."""

import asyncio
import errno
import logging
import runpy
import socket
import struct
from pathlib import Path

import pytest

from harness.client import Client, frame
from kafkapy.config.listeners import EndPoint
from kafkapy.metrics import PEER_LINES_A_SECOND
from kafkapy.network import listener
from kafkapy.network.limits import ConnectionRates, Limits, ListenerResources
from kafkapy.network.listener import OWN_ADDRESS, Listener, ListenError, bind
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkapy.server.dispatch.dispatcher import Dispatcher
from kafkapy.testing.clock import ManualClock
from tests.server.harness import run, running_broker, until


def endpoint(host: str, port: int) -> EndPoint:
    return EndPoint("PLAINTEXT", "PLAINTEXT", host, port)


def test_a_port_in_use_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ListenError, match=f"port {port} of 127.0.0.1 is in use by another process"):
            bind(endpoint("127.0.0.1", port))


def test_a_bound_address_is_not_shared_on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    assert OWN_ADDRESS == socket.SO_REUSEADDR
    monkeypatch.setattr(socket, "SO_EXCLUSIVEADDRUSE", -5, raising=False)
    assert runpy.run_path(str(listener.__file__))["OWN_ADDRESS"] == -5, "as on Windows"


def test_hosts_that_can_not_be_bound_are_named() -> None:
    with pytest.raises(ListenError, match=r"nowhere\.invalid"):
        bind(endpoint("nowhere.invalid", 0))
    with pytest.raises(ListenError, match=r"192\.0\.2\.1"):
        bind(endpoint("192.0.2.1", 0))


def test_clients_that_connect_before_the_start_are_served_after_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            first = broker.listeners[0]
            early = bind(endpoint("127.0.0.1", 0))
            limits = Limits.of(broker.config)
            rates = ConnectionRates(broker.config, None)
            shared = ListenerResources(limits, first.budget, first.response_budget, rates, broker.services.metrics)
            late = Listener(endpoint("127.0.0.1", 0), early, broker.clock, shared)
            late.listen()
            reader, writer = await asyncio.open_connection(*late.address)
            writer.write(frame(ApiVersionsRequest(), 0))
            late.start(Dispatcher(broker.services, broker.services.apis[first.name]))
            assert len(await asyncio.wait_for(reader.readexactly(4), 5)) == 4
            writer.close()
            await late.stop()

    run(scenario())


def test_a_host_with_too_many_connections_is_turned_away(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, max__connections__per__ip="2") as broker:
            first, second = await Client.connect(broker), await Client.connect(broker)
            third = await Client.connect(broker)
            assert await third.is_closed()
            assert "max.connections.per.ip" in caplog.text
            assert broker.services.metrics.connections_refused == 1
            await first.close()
            await until(lambda: len(broker.listeners[0].connections) == 1)
            fourth = await Client.connect(broker)
            assert (await fourth.ask(ApiVersionsRequest(), 0)).error_code == 0
            assert (await second.ask(ApiVersionsRequest(), 0)).error_code == 0

    run(scenario())


def test_further_clients_of_a_full_broker_wait(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, max__connections="1") as broker:
            first = await Client.connect(broker)
            assert (await first.ask(ApiVersionsRequest(), 0)).error_code == 0
            second = await Client.connect(broker)
            waiting = asyncio.create_task(second.ask(ApiVersionsRequest(), 0))
            await first.ask(ApiVersionsRequest(), 0)
            assert not waiting.done()
            await first.close()
            assert (await waiting).error_code == 0

    run(scenario())


def test_a_connection_closed_on_one_listener_lets_a_client_of_another_in(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(
            tmp_path,
            max__connections="1",
            listeners="PLAINTEXT://127.0.0.1:0,OTHER://127.0.0.1:0",
            listener__security__protocol__map="PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT",
        ) as broker:
            first = await Client.connect(broker)
            assert (await first.ask(ApiVersionsRequest(), 0)).error_code == 0
            second = Client(*await asyncio.open_connection(*broker.listeners[1].address))
            waiting = asyncio.create_task(second.ask(ApiVersionsRequest(), 0))
            await first.ask(ApiVersionsRequest(), 0)
            assert not waiting.done()
            await first.close()
            assert (await waiting).error_code == 0

    run(scenario())


class FullProcess(socket.socket):
    """A socket that can't be accepted on: no descriptor is left."""

    def accept(self) -> tuple[socket.socket, object]:
        raise OSError(errno.EMFILE, "Too many open files")


def test_without_descriptors_accepting_pauses(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        async with running_broker(tmp_path, clock=clock) as broker:
            listener: Listener = broker.listeners[0]
            real = listener._socket
            full = FullProcess(fileno=socket.dup(real.fileno()))
            listener._socket = full
            listener._accept()
            assert "No connection can be accepted" in caplog.text
            full.close()
            listener._socket = real
            client = await Client.connect(broker)
            waiting = asyncio.create_task(client.ask(ApiVersionsRequest(), 0))
            await asyncio.sleep(0)
            assert not waiting.done()
            clock.advance(1000)
            assert (await waiting).error_code == 0

    caplog.set_level(logging.ERROR)
    run(scenario())


def test_connections_leave_descriptors_for_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        async with running_broker(tmp_path, clock=clock) as broker:
            listener: Listener = broker.listeners[0]
            client = await Client.connect(broker)
            assert (await client.ask(ApiVersionsRequest(), 0)).error_code == 0
            with socket.socket() as free:
                monkeypatch.setattr(listener, "_first_kept_descriptor", free.fileno())
            refused = await Client.connect(broker)
            assert await refused.is_closed()
            assert "the last descriptors are kept for files" in caplog.text
            assert (await client.ask(ApiVersionsRequest(), 0)).error_code == 0
            monkeypatch.undo()
            clock.advance(1000)
            assert (await (await Client.connect(broker)).ask(ApiVersionsRequest(), 0)).error_code == 0

    caplog.set_level(logging.ERROR)
    run(scenario())


def test_stopping_closes_every_connection(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            clients = [await Client.connect(broker) for _ in range(3)]
            await clients[0].ask(ApiVersionsRequest(), 0)
        for client in clients:
            assert await client.is_closed()
        with pytest.raises(ConnectionRefusedError):
            await Client.connect(broker)

    run(scenario())


def test_a_request_continues_after_its_client_disconnects(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            go = asyncio.Event()
            finished: list[str] = []

            async def slow() -> int:
                finished.append("began")
                await go.wait()
                finished.append("ended")
                raise KeyError("a bug")

            monkeypatch.setattr(broker.services.producer_ids, "next_producer_id", slow)
            client = await Client.connect(broker)
            client.send(frame(InitProducerIdRequest(None), 1))
            await until(lambda: finished == ["began"])
            reset = struct.pack("ii", 1, 0)
            client.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
            client.writer.transport.abort()
            await until(lambda: not broker.listeners[0].connections)
            go.set()
            await until(lambda: "failed after its client had closed the connection" in caplog.text)
            assert finished == ["began", "ended"]

    run(scenario())


def test_many_connections_that_end_write_few_log_lines_in_a_second(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kafkapy.network")

    async def scenario() -> None:
        clock = ManualClock()
        async with running_broker(tmp_path, clock=clock, max__connections__per__ip="60") as broker:
            lines = broker.services.metrics.peer_lines
            clients = [await Client.connect(broker) for _ in range(60)]
            for _ in range(70):
                assert await (await Client.connect(broker)).is_closed()
            for client in clients:
                client.send(b"\xff" * 4)
                assert await client.is_closed()
            assert (len(caplog.messages), lines.left_out) == (PEER_LINES_A_SECOND, 30)
            clock.advance(1_000)
            client = await Client.connect(broker)
            client.send(b"\xff" * 4)
            assert await client.is_closed()
            assert (len(caplog.messages), lines.left_out) == (PEER_LINES_A_SECOND + 1, 30)

    run(scenario())
