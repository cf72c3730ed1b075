"""Listeners with TLS: the principals of clients, and certificates that are replaced while the broker runs."""

import asyncio
import logging
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from harness.client import Client, frame
from kafkapy.protocol.constants import ResourceType
from kafkapy.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkapy.protocol.messages.metadata import MetadataRequest
from kafkapy.security.certificates import LOCAL_HOSTS, Authority
from kafkapy.security.tls import client_context
from kafkapy.server.lifecycle.broker import BrokerServer
from tests.server.harness import run, running_broker, session_of, until

NOW_MS = time.time_ns() // 1_000_000
AUTHORITY = Authority("authority", NOW_MS)
TRUST = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": AUTHORITY.certificate}


def keys_of(name: str) -> dict[str, str]:
    key, certificate = AUTHORITY.issue(name)
    return {"ssl.keystore.type": "PEM", "ssl.keystore.key": key, "ssl.keystore.certificate.chain": certificate}


def write(path: Path, name: str) -> None:
    """A file with a certificate for this machine, in which the name is the broker's."""
    path.write_text("".join(AUTHORITY.issue(name, LOCAL_HOSTS)))


@asynccontextmanager
async def broker_with_tls(path: Path, *, in_memory_metadata: bool = True, **keys: str) -> AsyncIterator[BrokerServer]:
    write(path / "broker.pem", "first")
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "listener.name.ssl.ssl.keystore.location": f"{path}/broker.pem",
        **TRUST,
    }
    keys = settings | keys
    async with running_broker(path, in_memory_metadata=in_memory_metadata, **keys) as broker:  # type: ignore[arg-type]
        yield broker


async def connect(broker: BrokerServer, context: ssl.SSLContext) -> Client:
    port = broker.listeners[1].endpoint.port
    return Client(*await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost"))


def test_the_principal_is_the_subject_of_the_certificate(tmp_path: Path) -> None:
    rules = {"ssl.client.auth": "requested"}
    rules["listener.name.ssl.ssl.principal.mapping.rules"] = "RULE:^CN=(a.*)$/$1/U,RULE:^CN=b$/bob/"

    async def scenario() -> None:
        async with broker_with_tls(tmp_path, **rules) as broker:
            for keys, principal in (
                ({}, "User:ANONYMOUS"),
                (keys_of("alice"), "User:ALICE"),
                (keys_of("b"), "User:bob"),
            ):
                client = await connect(broker, client_context({**TRUST, **keys}, NOW_MS))
                assert (await client.ask(MetadataRequest([]), 9)).cluster_id
                assert session_of(broker, client).principal == principal
                await client.close()
            nobody = await connect(broker, client_context({**TRUST, **keys_of("carol")}, NOW_MS))
            nobody.send(frame(MetadataRequest([]), 9))
            assert await nobody.is_closed()

    run(scenario())


def test_a_client_without_a_certificate_is_refused_where_one_is_required(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def scenario() -> None:
        async with broker_with_tls(tmp_path, **{"ssl.client.auth": "required"}) as broker:
            client = await connect(broker, client_context(TRUST, NOW_MS))
            client.send(frame(MetadataRequest([]), 9))
            with pytest.raises((ssl.SSLError, asyncio.IncompleteReadError)):
                await client.receive()
            await until(lambda: "it could not be started" in caplog.text)

    run(scenario())


def test_a_certificate_is_replaced_for_connections_that_come_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    other = tmp_path / "other.pem"

    def subject(client: Client) -> object:
        return client.writer.get_extra_info("peercert")["subject"][0][0][1]

    async def alter(admin: Client, location: Path) -> None:
        change = AlterableConfig("listener.name.ssl.ssl.keystore.location", 0, f"{location}")
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(ResourceType.BROKER, "0", [change])])
        (answer,) = (await admin.ask(request, 0)).responses
        assert (answer.error_code, answer.error_message) == (0, None)

    async def scenario() -> None:
        async with broker_with_tls(tmp_path) as broker:
            admin = await Client.connect(broker)
            before = await connect(broker, client_context(TRUST, NOW_MS))
            write(other, "second")
            await alter(admin, other)
            await until(lambda: "has read its certificates again" in caplog.text)
            after = await connect(broker, client_context(TRUST, NOW_MS))
            assert [subject(client) for client in (before, after)] == ["first", "second"]
            await alter(admin, tmp_path / "missing.pem")
            await until(lambda: "keeps its certificate" in caplog.text)
            assert subject(await connect(broker, client_context(TRUST, NOW_MS))) == "second"
            assert (await before.ask(MetadataRequest([]), 9)).cluster_id

    run(scenario())


def test_a_file_that_has_changed_is_read_again_when_the_configuration_is_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def subject(broker: BrokerServer) -> object:
        client = await connect(broker, client_context(TRUST, NOW_MS))
        return client.writer.get_extra_info("peercert")["subject"][0][0][1]

    async def scenario() -> None:
        async with broker_with_tls(tmp_path) as broker:
            admin = await Client.connect(broker)
            request = IncrementalAlterConfigsRequest([AlterConfigsResource(ResourceType.BROKER, "0", [])])
            await admin.ask(request, 0)
            write(tmp_path / "broker.pem", "second")
            assert await subject(broker) == "first"
            assert "has read its certificates again" not in caplog.text
            assert [each.error_code for each in (await admin.ask(request, 0)).responses] == [0]
            await until(lambda: "has read its certificates again" in caplog.text)
            assert await subject(broker) == "second"

    run(scenario())


def test_a_password_is_stored_encrypted_and_holds_after_a_restart_with_another_secret(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    other, prefix, password = tmp_path / "other.pem", "listener.name.ssl.ssl.", "hidden-password"
    key, chain = AUTHORITY.issue("second", LOCAL_HOSTS)
    encryption = serialization.BestAvailableEncryption(password.encode())
    loaded = serialization.load_pem_private_key(key.encode(), None)
    encrypted = loaded.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    other.write_text(encrypted.decode() + chain)

    async def subject(broker: BrokerServer) -> object:
        client = await connect(broker, client_context(TRUST, NOW_MS))
        return client.writer.get_extra_info("peercert")["subject"][0][0][1]

    async def scenario() -> None:
        async with broker_with_tls(tmp_path, in_memory_metadata=False, **{"password.encoder.secret": "one"}) as broker:
            changes = [
                AlterableConfig(f"{prefix}keystore.location", 0, f"{other}"),
                AlterableConfig(f"{prefix}key.password", 0, password),
            ]
            request = IncrementalAlterConfigsRequest([AlterConfigsResource(ResourceType.BROKER, "0", changes)])
            (answer,) = (await (await Client.connect(broker)).ask(request, 0)).responses
            assert (answer.error_code, answer.error_message) == (0, None)
            await until(lambda: "has read its certificates again" in caplog.text)
            stored = (await broker.services.store.get("/config/brokers/0")).data or b""
            assert b"encryptedPassword:" in stored
            assert password.encode() not in stored
            assert await subject(broker) == "second"
        both = {"password.encoder.secret": "two", "password.encoder.old.secret": "one"}
        for secrets in (both, {"password.encoder.secret": "two"}):
            async with broker_with_tls(tmp_path, in_memory_metadata=False, **secrets) as broker:
                assert await subject(broker) == "second"

    run(scenario())
    assert password not in caplog.text


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01\x02\x00"], ids=["silent", "begun"])
def test_handshakes_that_are_not_done_do_not_delay_the_stop(sent: bytes, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with broker_with_tls(tmp_path) as broker:
            port = broker.listeners[1].endpoint.port
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            await until(lambda: len(broker.listeners[1].connections) == 1)
            began_s = time.monotonic()
            await broker.stop()
            assert time.monotonic() - began_s < 5
            writer.close()

    run(scenario())


def test_connections_that_were_closed_twice_do_not_delay_the_stop(tmp_path: Path) -> None:
    """A peer that reads nothing does not answer the end of TLS either."""

    async def scenario() -> None:
        async with broker_with_tls(tmp_path) as broker:
            client = await connect(broker, client_context(TRUST, NOW_MS))
            assert (await client.ask(MetadataRequest([]), 9)).cluster_id
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]  # it reads too
            (connection,) = broker.listeners[1].connections
            for _ in range(2):
                connection.close("a reason", drops_unsent=False)
            began_s = time.monotonic()
            await broker.stop()
            assert time.monotonic() - began_s < 5

    run(scenario())
