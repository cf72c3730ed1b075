"""OAUTHBEARER on listeners, frame by frame: tokens, refusals, the end of a session, and settings that are refused."""

import asyncio
import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from joserfc import jws
from joserfc.jwk import ECKey

from harness.client import Client, frame
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.metadata import MetadataRequest
from kafkapy.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkapy.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kafkapy.security.authentication import FRAME_SIZE
from kafkapy.security.oauth.unsecured import unsecured_token
from kafkapy.server.lifecycle.broker import BrokerServer
from kafkapy.testing.clock import ManualClock
from tests.server.harness import run, running_broker, session_of, until

PREFIX = "listener.name.sasl_plaintext.oauthbearer."
PACKAGE = "org.apache.kafka.common.security.oauthbearer"
HANDLER = f"{PACKAGE}.OAuthBearerValidatorCallbackHandler"
SERVER = "sasl.server.callback.handler.class"
URL = "sasl.oauthbearer.jwks.endpoint.url"
ALLOWED = "kafkapy.sasl.oauthbearer.allowed.urls"
KEY = ECKey.generate_key("P-256")
INVALID = '{"status":"invalid_token"}'


def broker_with_oauth(path: Path, clock: ManualClock | None = None, **keys: str) -> Any:
    settings: dict[str, Any] = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "connection.failed.authentication.delay.ms": "0",
    }
    return running_broker(path, **settings | keys, **({"clock": clock} if clock else {}))


def unsecured(clock: ManualClock, lifetime_s: float = 60, user: str = "alice") -> str:
    now_s = clock.now_ms() / 1000
    return unsecured_token({"sub": user, "exp": now_s + lifetime_s})


def initial(token: str) -> bytes:
    return f"n,,\x01auth=Bearer {token}\x01\x01".encode()


async def login(client: Client, token: str) -> Any:
    shaken = await client.ask(SaslHandshakeRequest("OAUTHBEARER"), 1)
    assert (shaken.error_code, shaken.mechanisms) == (0, ["OAUTHBEARER"])
    return await client.ask(SaslAuthenticateRequest(initial(token)), 1)


async def connected(broker: BrokerServer, token: str) -> Client:
    client = await Client.connect(broker, 1)
    answer = await login(client, token)
    assert (answer.error_code, bytes(answer.auth_bytes)) == (0, b"")
    return client


async def received(client: Client, clock: ManualClock) -> bytes:
    """The next response, which waits for the clock."""
    receiving = asyncio.ensure_future(client.receive())
    await until(lambda: clock.advance(1) is None and receiving.done())
    return receiving.result()


def test_a_token_is_accepted_and_a_refused_one_answered_twice(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    clock = ManualClock()

    async def scenario() -> None:
        async with broker_with_oauth(tmp_path, clock) as broker:
            good = unsecured(clock)
            client = await connected(broker, good)
            assert session_of(broker, client).principal == "User:alice"
            assert (await client.ask(MetadataRequest([]), 9)).cluster_id
            refused = await Client.connect(broker, 1)
            answer = await login(refused, unsecured(clock, -1))
            assert (answer.error_code, bytes(answer.auth_bytes)) == (0, INVALID.encode())
            refused.send(frame(SaslAuthenticateRequest(b"\x01"), 1) + frame(MetadataRequest([]), 9))
            answer = refused.decode(36, 1, await received(refused, clock))
            assert (answer.error_code, answer.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, INVALID)
            assert await refused.is_closed()
            assert "it has expired" in caplog.text
            assert good.split(".")[1] not in caplog.text

    run(scenario())


def test_other_requests_after_a_refusal_end_the_connection(tmp_path: Path) -> None:
    clock = ManualClock()

    async def scenario() -> None:
        async with broker_with_oauth(tmp_path, clock) as broker:
            client = await Client.connect(broker, 1)
            await login(client, unsecured(clock, -1))
            client.send(frame(MetadataRequest([]), 9))
            assert await client.is_closed()

    run(scenario())


def test_a_large_token_ends_the_connection_before_it_is_read(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with broker_with_oauth(tmp_path) as broker:
            client = await Client.connect(broker, 1)
            await client.ask(SaslHandshakeRequest("OAUTHBEARER"), 1)
            client.send(frame(SaslAuthenticateRequest(initial("a" * FRAME_SIZE)), 1))
            assert await client.is_closed()

    run(scenario())


@pytest.mark.parametrize(
    ("longest_ms", "lifetime_s", "session_ms"),
    [("0", 60, 60_000), ("30000", 60, 30_000), ("90000", 60, 60_000), ("0", 0.2, 2_000)],
)
def test_a_session_ends_with_its_token(longest_ms: str, lifetime_s: float, session_ms: int, tmp_path: Path) -> None:
    clock = ManualClock()

    async def scenario() -> None:
        async with broker_with_oauth(tmp_path, clock, **{"connections.max.reauth.ms": longest_ms}) as broker:
            renewed, expired = [await Client.connect(broker, 1) for _ in range(2)]
            for client in (renewed, expired):
                assert (await login(client, unsecured(clock, lifetime_s))).session_lifetime_ms == session_ms
            clock.advance(session_ms)
            assert (await login(renewed, unsecured(clock, lifetime_s))).session_lifetime_ms == session_ms
            assert (await renewed.ask(MetadataRequest([]), 9)).cluster_id
            expired.send(frame(MetadataRequest([]), 9))
            assert await expired.is_closed()

    run(scenario())


def test_a_session_has_an_end_that_every_client_can_count(tmp_path: Path) -> None:
    clock = ManualClock()

    async def scenario() -> None:
        async with broker_with_oauth(tmp_path, clock) as broker:
            answer = await login(await Client.connect(broker, 1), unsecured(clock, 1e11))
            assert answer.session_lifetime_ms == 2**31 - 1

    run(scenario())


def test_a_session_is_renewed_with_the_same_name_alone(tmp_path: Path) -> None:
    clock = ManualClock()

    async def scenario() -> None:
        async with broker_with_oauth(tmp_path, clock) as broker:
            client = await connected(broker, unsecured(clock))
            clock.advance(2_000)
            await client.ask(SaslHandshakeRequest("OAUTHBEARER"), 1)
            client.send(frame(SaslAuthenticateRequest(initial(unsecured(clock, user="bob"))), 1))
            answer = client.decode(36, 1, await received(client, clock))
            assert "Cannot change principals" in answer.error_message
            assert await client.is_closed()

    run(scenario())


def signed_settings(path: Path, prefix: str = PREFIX, handler: str = HANDLER) -> dict[str, str]:
    keys = path / "jwks.json"
    keys.write_text(json.dumps({"keys": [KEY.as_dict(private=False)]}))
    return {
        f"{prefix}sasl.server.callback.handler.class": handler,
        f"{prefix}{URL}": keys.as_uri(),
        f"{prefix}sasl.oauthbearer.expected.audience": "a,b",
        f"{prefix}sasl.oauthbearer.expected.issuer": "i",
        ALLOWED: f"https://other.test/,{keys.as_uri()}",
    }


def signed(clock: ManualClock, key: ECKey = KEY, **changes: object) -> str:
    now_s = clock.now_ms() // 1000
    claims = {"sub": "alice", "iss": "i", "aud": "b", "iat": now_s, "exp": now_s + 60} | changes
    return jws.serialize_compact({"alg": "ES256"}, json.dumps(claims), key, ["ES256"])


@pytest.mark.parametrize("prefix", [PREFIX, "listener.name.sasl_plaintext.", ""])
@pytest.mark.parametrize("handler", [HANDLER, f"{PACKAGE}.secured.OAuthBearerValidatorCallbackHandler"])
def test_signed_tokens_are_checked_with_the_keys_of_a_file(prefix: str, handler: str, tmp_path: Path) -> None:
    clock = ManualClock()

    async def scenario() -> None:
        async with broker_with_oauth(tmp_path / "data", clock, **signed_settings(tmp_path, prefix, handler)) as broker:
            client = await connected(broker, signed(clock))
            assert session_of(broker, client).principal == "User:alice"
            for token in (
                signed(clock, ECKey.generate_key("P-256")),
                signed(clock, aud="c"),
                signed(clock, iss="x"),
                signed(clock, exp=1),
                unsecured(clock),
            ):
                answer = await login(await Client.connect(broker, 1), token)
                assert bytes(answer.auth_bytes) == INVALID.encode()

    run(scenario())


def test_a_broker_starts_while_the_issuer_is_away(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    url = "http://127.0.0.1:1/keys"
    settings = signed_settings(tmp_path) | {f"{PREFIX}{URL}": url, ALLOWED: url}

    async def scenario() -> None:
        async with broker_with_oauth(tmp_path / "data", clock, **settings) as broker:
            answer = await login(await Client.connect(broker, 1), signed(clock))
            assert bytes(answer.auth_bytes) == INVALID.encode()
            await until(lambda: f"The keys of {URL} can't be read: Connection refused" in caplog.text)
            assert "are read by http" in caplog.text

    run(scenario())


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({ALLOWED: ""}, f"{URL} is an address that {ALLOWED} does not have"),
        ({ALLOWED: "file:///"}, "CVE-2025-27817"),
        ({f"{PREFIX}{URL}": ""}, f"{URL} is not set"),
        ({f"{PREFIX}{URL}": "file:///nowhere", ALLOWED: "file:///nowhere"}, "can't be read: No such file"),
        ({f"{PREFIX}{URL}": "ldap://x", ALLOWED: "ldap://x"}, "is no https, http or file URL"),
        ({f"{PREFIX}sasl.server.callback.handler.class": ""}, "tokens would need no signature"),
        ({f"{PREFIX}sasl.server.callback.handler.class": "com.example.Own"}, "kafkapy can't load Java classes"),
        ({f"{PREFIX}sasl.oauthbearer.clock.skew.seconds": "-1"}, "Value must be at least 0"),
    ],
)
def test_signed_tokens_need_keys_that_may_be_read(changes: dict[str, str], problem: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        with pytest.raises(Exception, match=r".") as refused:  # the block is one statement
            async with broker_with_oauth(tmp_path / "data", **signed_settings(tmp_path) | changes):
                pass
        assert problem in str(refused.value)

    run(scenario())


def test_options_of_the_login_module_are_used(tmp_path: Path) -> None:
    clock = ManualClock()
    jaas = 'OAuthBearerLoginModule required unsecuredValidatorRequiredScope="read" unsecuredValidatorScopeClaimName=s;'

    async def scenario() -> None:
        async with broker_with_oauth(tmp_path, clock, **{f"{PREFIX}sasl.jaas.config": jaas}) as broker:
            answer = await login(await Client.connect(broker, 1), unsecured(clock))
            assert json.loads(bytes(answer.auth_bytes)) == {"status": "insufficient_scope", "scope": "[read]"}
            token = unsecured_token({"sub": "a", "exp": clock.now_ms() / 1000 + 60, "s": ["read", "x"]})
            assert (await login(await Client.connect(broker, 1), token)).auth_bytes == b""

    run(scenario())


def run_without_joserfc(program: str) -> str:
    """The output of another interpreter in which joserfc can't be imported."""
    first = "import sys\nsys.modules['joserfc'] = None\nfrom kafkapy.testing import Broker, BrokerStartError\n"
    command = [sys.executable, "-c", first + program]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.strip()


def test_unsecured_tokens_need_no_package() -> None:
    program = """
with Broker(security="oauth_unsecured", topics=["t"]) as broker:
    print(broker.topics())
"""
    assert run_without_joserfc(program) == "{'t': 1}"


def test_signed_tokens_say_which_package_they_need() -> None:
    program = f"""
for kind, settings in (("oauth", {{}}), ("oauth_unsecured", {{"{PREFIX}{SERVER}": "{HANDLER}"}})):
    try:
        Broker(settings, security=kind).start()
    except BrokerStartError as error:
        print(error)
"""
    lines = run_without_joserfc(program).splitlines()
    assert len(lines) == 2
    for line in lines:
        assert line.endswith("needs the package joserfc, which is not installed: pip install 'kafkapy-broker[oauth]'")
