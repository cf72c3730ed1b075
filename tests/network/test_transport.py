"""The parts that depend on the security protocol."""

import asyncio
import logging
import os
import shutil
import socket
import ssl
import subprocess
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from harness.client import Client, batch, fetch_request, frame, values_of
from kafkapy.network import sender, transport
from kafkapy.network.sender import SENDFILE_FROM_SIZE
from kafkapy.network.session import ANONYMOUS
from kafkapy.network.transport import PlaintextTransport, TlsTransport, unread_before_end
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
from tests.server.harness import run, running_broker, until


def test_the_unread_bytes_before_the_end_are_counted() -> None:
    here, there = socket.socketpair()
    with here, there:
        there.sendall(b"x" * 1000)
        assert unread_before_end(here.fileno()) is None
        there.shutdown(socket.SHUT_WR)
        assert unread_before_end(here.fileno()) == 1000
        assert here.recv(300) == b"x" * 300
        assert unread_before_end(here.fileno()) == 700


@pytest.mark.parametrize("missing", ["_END", "_fcntl", "_termios"])
def test_unread_bytes_are_unknown_on_other_systems(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, missing, None)
    here, there = socket.socketpair()
    with here, there:
        there.close()
        assert unread_before_end(here.fileno()) is None


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A file with a key and a certificate for localhost."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed: it makes the certificate")
    path = tmp_path / "localhost.pem"
    made = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    files = ["-keyout", str(path), "-out", str(tmp_path / "certificate.pem")]
    subprocess.run([openssl, "req", *made, *names, *files], check=True, capture_output=True)
    path.write_text(path.read_text() + (tmp_path / "certificate.pem").read_text())
    return path


def test_an_encrypted_connection_gets_slices_through_its_transport(
    tmp_path: Path, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records that were sent past the encryption would end the connection at the client."""
    by_sendfile: list[Any] = []
    monkeypatch.setattr(sender, "sendfile", lambda *call: by_sendfile.append(call) or os.sendfile(*call))
    theirs = ssl.create_default_context(cafile=str(certificate))
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.load_cert_chain(certificate)
    sizes = [10, SENDFILE_FROM_SIZE, 900_000, 100]

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            plain = await Client.connect(broker)
            await plain.create_topic("t", len(sizes))
            for partition, size in enumerate(sizes):
                assert (await plain.produce("t", batch(os.urandom(size)), partition=partition)).error_code == 0
            broker.listeners[0].transport = TlsTransport(ours, lambda _: ANONYMOUS, 30)
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", broker.port, ssl=theirs, server_hostname="localhost", limit=1 << 16
            )
            client = Client(reader, writer)
            request = fetch_request("t", max_bytes=50_000_000)
            request.topics[0].partitions = [
                fetch_request("t", partition=at, partition_max_bytes=50_000_000).topics[0].partitions[0]
                for at in range(len(sizes))
            ]
            client.send(frame(request, 11) * 3 + frame(ApiVersionsRequest(), 0))
            for _ in range(3):
                response = client.decode(1, 11, await client.receive())
                found = [values_of(partition.records) for partition in response.responses[0].partitions]
                assert [len(value or b"") for (value,) in found] == sizes
            assert client.decode(18, 0, await client.receive()).error_code == 0
            assert by_sendfile == []
            await client.close()
            await until(lambda: len(broker.listeners[0].connections) == 1)
            broker.listeners[0].transport = PlaintextTransport()
            assert len((await plain.ask(request, 11)).responses) == 1
            assert by_sendfile != []

    run(scenario())


def test_a_failed_start_ends_only_its_connection(
    tmp_path: Path, certificate: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.load_cert_chain(certificate)

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            plain = await Client.connect(broker)
            broker.listeners[0].transport = TlsTransport(ours, lambda _: ANONYMOUS, 30)
            other = await Client.connect(broker)
            other.send(frame(ApiVersionsRequest(), 0))
            assert await other.is_closed()
            await until(lambda: len(broker.listeners[0].connections) == 1)
            assert broker.services.metrics.connections_failed == 1
            assert "it could not be started" in caplog.text
            assert (await plain.ask(ApiVersionsRequest(), 0)).error_code == 0

    run(scenario())


def test_a_connection_that_sends_nothing_takes_little_memory(certificate: Path) -> None:
    """asyncio's own buffer takes 256 KiB before the handshake (CVE-2022-34917 is about memory of such connections)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    async def scenario() -> None:
        found: list[int] = []
        pairs = [socket.socketpair() for _ in range(20)]
        encrypted = TlsTransport(context, lambda _: ANONYMOUS, 30)
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        starts = [asyncio.create_task(encrypted.start(here, asyncio.BufferedProtocol())) for here, _ in pairs]
        await asyncio.sleep(0.05)
        found.append((tracemalloc.get_traced_memory()[0] - before) // len(pairs))
        tracemalloc.stop()
        for _, there in pairs:
            there.close()
        failed = await asyncio.gather(*starts, return_exceptions=True)
        assert all(isinstance(each, OSError) for each in failed)
        assert found[0] < 65_536

    run(scenario())


def test_handshakes_take_turns_with_other_work(certificate: Path) -> None:
    """A hundred first messages that arrive at once must not delay the other clients until all are answered."""
    ours, theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context(cafile=str(certificate))
    ours.load_cert_chain(certificate)
    outgoing = ssl.MemoryBIO()
    half = theirs.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        half.do_handshake()
    hello = outgoing.read()

    async def scenario() -> None:
        pairs = [socket.socketpair() for _ in range(100)]
        encrypted = TlsTransport(ours, lambda _: ANONYMOUS, 30)
        starts = [asyncio.create_task(encrypted.start(here, asyncio.BufferedProtocol())) for here, _ in pairs]
        await asyncio.sleep(0.05)
        for _, there in pairs:
            there.setblocking(False)
            there.sendall(hello)
        iterations = 0
        while not all(_has_answer(there) for _, there in pairs):
            await asyncio.sleep(0)
            iterations += 1
        assert iterations >= len(pairs)
        for _, there in pairs:
            there.close()
        assert all(isinstance(each, OSError) for each in await asyncio.gather(*starts, return_exceptions=True))

    run(scenario())


def _has_answer(sock: socket.socket) -> bool:
    try:
        return bool(sock.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01\x02\x00"], ids=["silent", "begun"])
def test_a_handshake_has_a_limit_of_time(sent: bytes, certificate: Path) -> None:
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.load_cert_chain(certificate)

    async def scenario() -> None:
        here, there = socket.socketpair()
        with there:
            there.sendall(sent)
            with pytest.raises(ConnectionAbortedError):
                await TlsTransport(ours, lambda _: ANONYMOUS, 0.05).start(here, asyncio.BufferedProtocol())

    run(scenario())
