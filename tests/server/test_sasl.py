"""Listeners with SASL, frame by frame: what a client may send when, and how a connection ends."""

import asyncio
import logging
import random
import struct
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from harness.client import Client, fetch_request, frame
from kafkapy.network.peer_connection import PeerSettings, RemoteBrokers
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kafkapy.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkapy.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kafkapy.security.authentication import FRAME_SIZE, TIME_LIMIT_MS
from kafkapy.security.client import client_security
from kafkapy.security.scram import ScramCredential, scram_client
from kafkapy.server.lifecycle.broker import BrokerServer
from kafkapy.testing.clock import ManualClock
from tests.server.harness import run, running_broker, session_of, until

JAAS = 'PlainLoginModule required user_alice="alice-secret" user_bob="bob-secret";'
LOGIN = 'PlainLoginModule required username="alice" password="alice-secret";'
PLAIN = b"\0alice\0alice-secret"


@asynccontextmanager
async def broker_with_sasl(path: Path, **keys: str) -> AsyncIterator[BrokerServer]:
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS,
        "connection.failed.authentication.delay.ms": "1",
    }
    async with running_broker(path, **settings | keys) as broker:  # type: ignore[arg-type]  # keys only
        yield broker


async def authenticated(broker: BrokerServer, token: bytes = PLAIN) -> Client:
    client = await Client.connect(broker, 1)
    assert (await client.ask(SaslHandshakeRequest("PLAIN"), 1)).error_code == 0
    assert (await client.ask(SaslAuthenticateRequest(token), 1)).error_code == 0
    return client


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_client_authenticates_with_plain(version: int, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with broker_with_sasl(tmp_path) as broker:
            client = await Client.connect(broker, 1)
            assert (await client.ask(ApiVersionsRequest(), 0)).error_code == 0
            shaken = await client.ask(SaslHandshakeRequest("PLAIN"), 1)
            assert (shaken.error_code, shaken.mechanisms) == (0, ["PLAIN", "SCRAM-SHA-256"])
            assert session_of(broker, client).principal == "User:ANONYMOUS"
            answer = await client.ask(SaslAuthenticateRequest(PLAIN), version)
            assert (answer.error_code, answer.error_message, answer.auth_bytes) == (0, "", b"")
            assert answer.session_lifetime_ms == 0
            assert session_of(broker, client).principal == "User:alice"
            for _ in range(3):
                assert (await client.ask(MetadataRequest([]), 9)).cluster_id
            assert (await client.ask(SaslAuthenticateRequest(PLAIN), 1)).error_code == ErrorCode.ILLEGAL_SASL_STATE

    run(scenario())


def test_tokens_without_a_header_follow_the_first_version_of_the_handshake(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with broker_with_sasl(tmp_path, **{"connection.failed.authentication.delay.ms": "100"}) as broker:
            client = await Client.connect(broker, 1)
            assert (await client.ask(SaslHandshakeRequest("PLAIN"), 0)).error_code == 0
            client.send(struct.pack(">i", len(PLAIN)) + PLAIN)
            assert await client.receive() == b""
            assert (await client.ask(MetadataRequest([]), 9)).cluster_id
            refused = await Client.connect(broker, 1)
            await refused.ask(SaslHandshakeRequest("PLAIN"), 0)
            start_s = time.monotonic()
            refused.send(struct.pack(">i", 4) + b"\0a\0b")
            assert await refused.is_closed()
            assert time.monotonic() - start_s >= 0.09, "connection.failed.authentication.delay.ms"

    run(scenario())


def test_a_client_authenticates_with_scram(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with broker_with_sasl(tmp_path) as broker:
            credential = ScramCredential.of_password("SCRAM-SHA-256", "secret", b"salt", 4096)
            await broker.services.config_admin.set_user_overrides("käthe", {"SCRAM-SHA-256": str(credential)})
            await until(lambda: bool(broker.services.config_admin.cached_user_overrides("käthe")))
            client = await Client.connect(broker, 1)
            await client.ask(SaslHandshakeRequest("SCRAM-SHA-256"), 1)
            steps = scram_client("SCRAM-SHA-256", "käthe", "secret")
            first = await client.ask(SaslAuthenticateRequest(next(steps)), 1)
            final = await client.ask(SaslAuthenticateRequest(steps.send(first.auth_bytes)), 1)
            with pytest.raises(StopIteration):
                steps.send(final.auth_bytes)
            assert session_of(broker, client).principal == "User:käthe"
            other = await Client.connect(broker, 1)
            name = "SCRAM-SHA-256"
            await other.ask(SaslHandshakeRequest(name), 1)
            answer = await other.ask(SaslAuthenticateRequest(b"n,,n=nobody,r=abc"), 1)
            assert (answer.error_code, answer.error_message) == (
                ErrorCode.SASL_AUTHENTICATION_FAILED,
                f"Authentication failed during authentication due to invalid credentials with SASL mechanism {name}",
            )

    run(scenario())


def test_credentials_survive_a_restart_and_one_that_can_not_be_read_is_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with broker_with_sasl(tmp_path, in_memory_metadata=False) as broker:  # type: ignore[arg-type]  # no key
            await broker.services.config_admin.set_user_overrides("u", {"SCRAM-SHA-256": "salt=secret"})
        async with broker_with_sasl(tmp_path, in_memory_metadata=False) as broker:  # type: ignore[arg-type]  # no key
            client = await Client.connect(broker, 1)
            await client.ask(SaslHandshakeRequest("SCRAM-SHA-256"), 1)
            answer = await client.ask(SaslAuthenticateRequest(b"n,,n=u,r=abc"), 1)
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert "credential of user 'u' can't be read" in caplog.text
            assert "secret" not in caplog.text

    run(scenario())


def test_a_wrong_password_is_answered_and_the_connection_ends(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def scenario() -> None:
        async with broker_with_sasl(tmp_path) as broker:
            client = await Client.connect(broker, 1)
            await client.ask(SaslHandshakeRequest("PLAIN"), 1)
            client.send(frame(SaslAuthenticateRequest(b"\0alice\0wrong-secret"), 1) + frame(MetadataRequest([]), 9))
            answer = client.decode(36, 1, await client.receive())
            assert (answer.error_code, answer.error_message) == (
                ErrorCode.SASL_AUTHENTICATION_FAILED,
                "Authentication failed: Invalid username or password",
            )
            assert await client.is_closed()
            assert "Invalid username or password" in caplog.text
            assert "secret" not in caplog.text

    run(scenario())


def test_another_mechanism_is_refused_and_the_connection_ends(tmp_path: Path) -> None:
    """A downgrade of mechanisms: one that is not enabled, as a client may be made to choose."""

    async def scenario() -> None:
        async with broker_with_sasl(tmp_path) as broker:
            client = await Client.connect(broker, 1)
            answer = await client.ask(SaslHandshakeRequest("GSSAPI"), 1)
            assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
            assert answer.mechanisms == ["PLAIN", "SCRAM-SHA-256"]
            assert await client.is_closed()

    run(scenario())


@pytest.mark.parametrize(
    "frames",
    [
        [frame(MetadataRequest([]), 9)],
        [frame(SaslAuthenticateRequest(PLAIN), 1)],
        [frame(SaslHandshakeRequest("PLAIN"), 1), frame(ApiVersionsRequest(), 0)],
        [frame(SaslHandshakeRequest("PLAIN"), 1), frame(fetch_request("t"), 11)],
        [struct.pack(">i", len(PLAIN)) + PLAIN],
        [struct.pack(">i", 1) + b"\0"],
        [struct.pack(">i", FRAME_SIZE + 1)],
    ],
    ids=["metadata", "token-first", "versions-between", "fetch-between", "raw-token-first", "short", "large"],
)
def test_other_requests_before_the_end_of_the_authentication_end_the_connection(
    frames: list[bytes], tmp_path: Path
) -> None:
    """PLAIN before the handshake, among others: a broker that takes such a token has no say in the mechanism."""

    async def scenario() -> None:
        async with broker_with_sasl(tmp_path) as broker:
            other = await authenticated(broker)
            client = await Client.connect(broker, 1)
            client.send(b"".join(frames))
            if len(frames) == 2:
                assert client.decode(17, 1, await client.receive()).error_code == 0
            assert await client.is_closed()
            assert (await other.ask(MetadataRequest([]), 9)).cluster_id

    run(scenario())


def test_large_requests_are_served_after_the_authentication(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with broker_with_sasl(tmp_path) as broker:
            client = await authenticated(broker)
            names = [MetadataRequestTopic(name=letter * 30_000) for letter in "abc"]
            assert len((await client.ask(MetadataRequest(names), 9)).topics) == 3
            unknown = await Client.connect(broker, 1)
            unknown.send(frame(MetadataRequest(names), 9))
            assert await unknown.is_closed()

    run(scenario())


def test_a_client_that_does_not_authenticate_is_disconnected(tmp_path: Path) -> None:
    clock = ManualClock()

    async def scenario() -> None:
        async with broker_with_sasl(tmp_path, clock=clock) as broker:  # type: ignore[arg-type]  # no key
            idle = await Client.connect(broker, 1)
            begun = await Client.connect(broker, 1)
            await begun.ask(SaslHandshakeRequest("PLAIN"), 1)
            done = await authenticated(broker)
            clock.advance(TIME_LIMIT_MS - 1)
            await begun.ask(SaslAuthenticateRequest(PLAIN), 1)
            clock.advance(1)
            assert await idle.is_closed()
            for client in (begun, done):
                assert (await client.ask(MetadataRequest([]), 9)).cluster_id

    run(scenario())


def test_a_client_that_sends_now_and_then_has_no_longer_than_an_idle_one(tmp_path: Path) -> None:
    clock = ManualClock()
    key = {"connections.max.idle.ms": "8000"}

    async def scenario() -> None:
        async with broker_with_sasl(tmp_path, clock=clock, **key) as broker:  # type: ignore[arg-type]  # a clock
            slow = await Client.connect(broker, 1)
            for letter in frame(SaslHandshakeRequest("PLAIN"), 1)[:7]:
                slow.send(bytes([letter]))
                clock.advance(1000)
                await asyncio.sleep(0.01)
            clock.advance(999)
            other = await authenticated(broker)
            clock.advance(1)
            assert await slow.is_closed()
            assert (await other.ask(MetadataRequest([]), 9)).cluster_id

    run(scenario())


def test_the_versions_may_be_asked_for_only_some_times(tmp_path: Path) -> None:
    """Answers that the client does not read take the broker's memory, and the client has not authenticated."""

    async def scenario() -> None:
        async with broker_with_sasl(tmp_path) as broker:
            client = await Client.connect(broker, 1)
            for _ in range(4):
                assert (await client.ask(ApiVersionsRequest(), 0)).error_code == 0
            client.send(frame(ApiVersionsRequest(), 0))
            assert await client.is_closed()

    run(scenario())


async def _again(client: Client, mechanism: str, token: bytes) -> Any:
    assert (await client.ask(SaslHandshakeRequest(mechanism), 1)).error_code == 0
    return await client.ask(SaslAuthenticateRequest(token), 1)


def test_a_session_expires_unless_the_client_authenticates_again(tmp_path: Path) -> None:
    clock = ManualClock()
    key = {"connections.max.reauth.ms": "60000", "connection.failed.authentication.delay.ms": "0"}

    async def scenario() -> None:
        async with broker_with_sasl(tmp_path, clock=clock, **key) as broker:  # type: ignore[arg-type]  # a clock
            renewed, expired, changed, other = [await authenticated(broker) for _ in range(4)]
            assert (await renewed.ask(SaslHandshakeRequest("PLAIN"), 1)).error_code == ErrorCode.ILLEGAL_SASL_STATE
            clock.advance(59_000)
            assert (await _again(renewed, "PLAIN", PLAIN)).session_lifetime_ms == 60_000
            changed.send(frame(SaslHandshakeRequest("PLAIN"), 1))
            await changed.receive()
            changed.send(frame(SaslAuthenticateRequest(b"\0bob\0bob-secret"), 1))
            other.send(frame(SaslHandshakeRequest("SCRAM-SHA-256"), 1))
            await other.receive()
            other.send(frame(SaslAuthenticateRequest(b"n,,n=alice,r=abc"), 1))
            for client, problem in ((changed, "Cannot change principals"), (other, "only with mechanism PLAIN")):
                await until(lambda: clock.advance(1) is None)
                answer = client.decode(36, 1, await client.receive())
                assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
                assert problem in answer.error_message
                assert await client.is_closed()
            clock.advance(2_000)
            assert (await renewed.ask(MetadataRequest([]), 9)).cluster_id
            expired.send(frame(MetadataRequest([]), 9))
            assert await expired.is_closed()

    run(scenario())


def test_a_token_of_a_later_authentication_is_small_too(tmp_path: Path) -> None:
    clock = ManualClock()

    async def scenario() -> None:
        async with broker_with_sasl(tmp_path, clock=clock) as broker:  # type: ignore[arg-type]  # no key
            client = await authenticated(broker)
            clock.advance(2_000)
            assert (await client.ask(SaslHandshakeRequest("PLAIN"), 0)).error_code == 0
            client.send(struct.pack(">i", FRAME_SIZE + 1) + bytes(FRAME_SIZE + 1))
            closed = asyncio.ensure_future(client.is_closed())
            while not closed.done():  # the delay of a failure begins when the token has arrived
                clock.advance(1)
                await asyncio.sleep(0.01)
            assert closed.result()

    run(scenario())


@pytest.mark.parametrize(
    ("prefix", "lifetime_ms"),
    [("", 5_000), ("listener.name.sasl_plaintext.", 5_000), ("listener.name.sasl_plaintext.plain.", 5_000),
     ("listener.name.sasl_plaintext.scram-sha-256.", 0)],
)  # fmt: skip
def test_sessions_end_by_the_key_of_the_mechanism(prefix: str, lifetime_ms: int, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with broker_with_sasl(tmp_path, **{f"{prefix}connections.max.reauth.ms": "5000"}) as broker:
            client = await Client.connect(broker, 1)
            await client.ask(SaslHandshakeRequest("PLAIN"), 1)
            answer = await client.ask(SaslAuthenticateRequest(PLAIN), 1)
            assert (answer.error_code, answer.session_lifetime_ms) == (0, lifetime_ms)

    run(scenario())


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        (
            {"listeners": "SSL://127.0.0.1:0", "listener.name.ssl.ssl.client.auth": "yes"},
            "listener.name.ssl.ssl.client.auth: Invalid value yes",
        ),
        ({"sasl.enabled.mechanisms": "DIGEST"}, "sasl.enabled.mechanisms names DIGEST: kafkapy has PLAIN"),
        (
            {"listener.name.sasl_plaintext.plain.sasl.jaas.config": ""},
            "listener.name.sasl_plaintext.plain.sasl.jaas.config is not set",
        ),
        (
            {"listener.name.sasl_plaintext.plain.sasl.jaas.config": 'X required user_a="secret'},
            "listener.name.sasl_plaintext.plain.sasl.jaas.config can't be read",
        ),
        (
            {"listeners": "SSL://127.0.0.1:0", "ssl.principal.mapping.rules": "RULE:x"},
            "ssl.principal.mapping.rules can't be read",
        ),
        (
            {"listeners": "SSL://127.0.0.1:0", "ssl.keystore.location": "/nowhere"},
            "ssl.keystore.location: '/nowhere' can't be read: No such file or directory",
        ),
    ],
)
def test_a_broker_does_not_start_with_what_it_can_not_use(keys: dict[str, str], problem: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        with pytest.raises(Exception, match=r".") as refused:  # the block is one statement
            async with broker_with_sasl(tmp_path, **keys):
                pass
        assert problem in str(refused.value)
        assert "secret" not in str(refused.value)

    run(scenario())


def test_a_broker_keeps_its_connection_to_another_one_beyond_a_session(tmp_path: Path) -> None:
    clock = ManualClock()
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": LOGIN}

    async def scenario() -> None:
        async with broker_with_sasl(tmp_path, clock=clock, **{"connections.max.reauth.ms": "10000"}) as broker:  # type: ignore[arg-type]  # a clock
            settings = PeerSettings("7", authenticate=client_security(login, clock.now_ms()).authenticate)
            address = ("127.0.0.1", broker.listeners[1].endpoint.port)
            channel = RemoteBrokers({1: address}.get, clock, settings, random.Random(1))
            for _ in range(4):
                answer = await channel.send(1, MetadataRequest([]), 9)
                assert isinstance(answer, MetadataResponse)
                clock.advance(9_000)  # after two of them the first session has ended
            channel.close()

    run(scenario())
