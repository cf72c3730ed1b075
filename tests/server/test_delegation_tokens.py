"""Delegation tokens on a broker's listeners: requests, logins, rights, and what is removed when."""

import asyncio
import logging
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from harness.client import Client, frame
from kafkapy.metadata.delegation_tokens import TokenStore
from kafkapy.protocol.constants import AclOperation, AclPatternType, AclPermissionType, AclResourceType
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kafkapy.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from kafkapy.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from kafkapy.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kafkapy.protocol.messages.metadata import MetadataRequest
from kafkapy.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from kafkapy.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkapy.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kafkapy.security.acls import AclEntry, ResourcePattern
from kafkapy.security.scram import scram_client
from kafkapy.server.lifecycle.broker import BrokerServer
from kafkapy.testing.clock import ManualClock
from tests.server.harness import run, running_broker, session_of, until

JAAS = 'PlainLoginModule required user_ann="ann-secret" user_bob="bob-secret" user_eve="eve-secret";'
MECHANISM = "SCRAM-SHA-512"
NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
LARGEST, SMALLEST = 2**63 - 1, -(2**63)
DAY_MS = 86_400_000
VERSIONS = [0, 1, 2]


@asynccontextmanager
async def broker_with_tokens(path: Path, **keys: Any) -> AsyncIterator[BrokerServer]:
    settings: dict[str, Any] = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": f"PLAIN,{MECHANISM}",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS,
        "connection.failed.authentication.delay.ms": "1",
        "delegation.token.master.key": "the-master-key",
    }
    async with running_broker(path, **settings | keys) as broker:
        yield broker


def store_of(broker: BrokerServer) -> TokenStore:
    assert broker.services.tokens is not None
    return broker.services.tokens


async def logged_in(broker: BrokerServer, user: str) -> Client:
    client = await Client.connect(broker, 1)
    assert (await client.ask(SaslHandshakeRequest("PLAIN"), 1)).error_code == 0
    assert (await client.ask(SaslAuthenticateRequest(f"\0{user}\0{user}-secret".encode()), 1)).error_code == 0
    return client


async def created(client: Client, *renewers: str, lifetime_ms: int = -1, version: int = 2) -> Any:
    listed = [CreatableRenewers("User", each) for each in renewers]
    answer = await client.ask(CreateDelegationTokenRequest(renewers=listed, max_lifetime_ms=lifetime_ms), version)
    assert answer.error_code == 0
    return answer


async def log_in_by(client: Client, token: Any) -> Any:
    """Log in by a token; return the last answer."""
    assert (await client.ask(SaslHandshakeRequest(MECHANISM), 1)).error_code == 0
    steps = scram_client(MECHANISM, token.token_id, b64encode(token.hmac).decode(), is_by_token=True)
    first = await client.ask(SaslAuthenticateRequest(next(steps)), 1)
    if first.error_code:
        return first
    return await client.ask(SaslAuthenticateRequest(steps.send(first.auth_bytes)), 1)


async def refused_login(clock: ManualClock, client: Client, token: Any) -> str:
    """Log in by a token that is refused, and return the error; the answer waits for the clock."""
    login = asyncio.create_task(log_in_by(client, token))
    await until(lambda: clock.advance(1) is not None or login.done())
    assert login.result().error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    text: str = login.result().error_message
    return text


@pytest.mark.parametrize("version", VERSIONS)
def test_a_token_from_its_creation_to_its_end(version: int, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def scenario() -> None:
        clock = ManualClock()
        async with broker_with_tokens(tmp_path, clock=clock) as broker:
            ann, bob, eve = [await logged_in(broker, user) for user in ("ann", "bob", "eve")]
            token = await created(ann, "bob", "carl", version=version)
            now_ms = clock.now_ms()
            assert (token.principal_type, token.principal_name) == ("User", "ann")
            assert (token.issue_timestamp_ms, token.expiry_timestamp_ms) == (now_ms, now_ms + DAY_MS)
            assert (token.max_timestamp_ms, len(token.token_id), len(token.hmac)) == (now_ms + 7 * DAY_MS, 22, 64)
            renewed = await bob.ask(RenewDelegationTokenRequest(token.hmac, 1_000), version)
            assert (renewed.error_code, renewed.expiry_timestamp_ms) == (0, now_ms + 1_000)
            (described,) = (await bob.ask(DescribeDelegationTokenRequest(None), version)).tokens
            assert (described.principal_name, described.token_id, described.hmac) == ("ann", token.token_id, token.hmac)
            assert [(each.principal_type, each.principal_name) for each in described.renewers] == [
                ("User", "bob"),
                ("User", "carl"),
            ]
            assert (described.issue_timestamp, described.expiry_timestamp, described.max_timestamp) == (
                now_ms,
                now_ms + 1_000,
                now_ms + 7 * DAY_MS,
            )
            for request in (RenewDelegationTokenRequest, ExpireDelegationTokenRequest):
                refused = await eve.ask(request(token.hmac, 1), version)
                assert (refused.error_code, refused.expiry_timestamp_ms) == (63, -1)
            ended = await ann.ask(ExpireDelegationTokenRequest(token.hmac, -1), version)
            assert (ended.error_code, ended.expiry_timestamp_ms) == (0, now_ms)
            for request in (RenewDelegationTokenRequest, ExpireDelegationTokenRequest):
                refused = await ann.ask(request(token.hmac, 1), version)
                assert (refused.error_code, refused.expiry_timestamp_ms) == (62, -1)
            for secret in (b64encode(token.hmac).decode(), token.hmac.hex(), "the-master-key"):
                assert secret not in caplog.text

    run(scenario())


@pytest.mark.parametrize("version", VERSIONS)
def test_there_are_no_tokens_without_a_master_key(version: int, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with broker_with_tokens(tmp_path, **{"delegation.token.master.key": ""}) as broker:
            ann = await logged_in(broker, "ann")
            made = await ann.ask(CreateDelegationTokenRequest(max_lifetime_ms=-1), version)
            assert (made.error_code, made.principal_name, made.expiry_timestamp_ms) == (61, "ann", -1)
            made = await ann.ask(CreateDelegationTokenRequest(renewers=[CreatableRenewers("Group", "a")]), version)
            assert made.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
            for request in (RenewDelegationTokenRequest, ExpireDelegationTokenRequest):
                refused = await ann.ask(request(b"hmac", 1), version)
                assert (refused.error_code, refused.expiry_timestamp_ms) == (61, -1)
            assert (await ann.ask(DescribeDelegationTokenRequest([]), version)).error_code == 61
            assert (await log_in_by(await Client.connect(broker, 1), made)).error_code == 58

    run(scenario())


async def _codes(client: Client) -> list[int]:
    """The errors of all four requests; renewers and HMACs that are not valid are not looked at."""
    requests = (
        CreateDelegationTokenRequest(renewers=[CreatableRenewers("Group", "a")], max_lifetime_ms=-1),
        RenewDelegationTokenRequest(b"", 1),
        ExpireDelegationTokenRequest(b"", 1),
        DescribeDelegationTokenRequest(None),
    )
    return [(await client.ask(request, 2)).error_code for request in requests]


def test_who_may_not_use_tokens(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with broker_with_tokens(tmp_path) as broker:
            assert await _codes(await Client.connect(broker, 0)) == [NOT_ALLOWED] * 4
            token = await created(await logged_in(broker, "ann"))
            by_token = await Client.connect(broker, 1)
            assert (await log_in_by(by_token, token)).error_code == 0
            assert session_of(broker, by_token).principal == "User:ann"
            assert (await by_token.ask(MetadataRequest([]), 9)).cluster_id
            assert await _codes(by_token) == [NOT_ALLOWED] * 4
            assert await _codes(await logged_in(broker, "ann")) == [67, 62, 62, 0]

    run(scenario())


@pytest.mark.parametrize(
    ("principal", "codes"), [("User:ANONYMOUS", [NOT_ALLOWED] * 4), ("User:CN=a", [67, 62, 62, 0])]
)
def test_clients_with_tls_need_a_certificate(principal: str, codes: list[int], tmp_path: Path) -> None:
    async def scenario() -> None:
        async with broker_with_tokens(tmp_path) as broker:
            client = await Client.connect(broker, 0)
            await client.ask(MetadataRequest([]), 9)
            session = session_of(broker, client)
            session.listener, session.principal = "SSL", principal
            assert await _codes(client) == codes

    run(scenario())


def test_the_largest_requests(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with broker_with_tokens(tmp_path) as broker:
            ann = await logged_in(broker, "ann")
            names = [f"renewer-{number}" for number in range(10_000)]
            token = await created(ann, *names)
            everybody = [DescribeDelegationTokenOwner("User", name) for name in names]
            (described,) = (await ann.ask(DescribeDelegationTokenRequest(everybody), 2)).tokens
            assert [each.principal_name for each in described.renewers] == names
            many = CreateDelegationTokenRequest(renewers=[CreatableRenewers("User", "x" * 30_000)] * 1_000)
            assert (await ann.ask(many, 2)).error_code == ErrorCode.INVALID_REQUEST
            mixed = [*(CreatableRenewers("User", name) for name in names), CreatableRenewers("user", "a")]
            assert (await ann.ask(CreateDelegationTokenRequest(renewers=mixed), 2)).error_code == 67
            huge = bytes(20_000_000)
            assert (await ann.ask(RenewDelegationTokenRequest(huge, 1), 2)).error_code == 62
            assert (await ann.ask(ExpireDelegationTokenRequest(huge, 1), 2)).error_code == 62
            assert [each.token_id for each in store_of(broker).cache.tokens()] == [token.token_id]
            nameless = await created(ann, "", "é:=,\n", "bob", "bob")
            (found,) = (
                each
                for each in (await ann.ask(DescribeDelegationTokenRequest(None), 1)).tokens
                if each.token_id == nameless.token_id
            )
            assert [each.principal_name for each in found.renewers] == ["", "é:=,\n", "bob", "bob"]

    run(scenario())


def test_extreme_times(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        async with broker_with_tokens(tmp_path, clock=clock) as broker:
            ann = await logged_in(broker, "ann")
            end = clock.now_ms() + 7 * DAY_MS
            for lifetime_ms in (LARGEST, SMALLEST, 0):
                assert (await created(ann, lifetime_ms=lifetime_ms)).max_timestamp_ms == end
            token = await created(ann)
            for request in (RenewDelegationTokenRequest, ExpireDelegationTokenRequest):
                answer = await ann.ask(request(token.hmac, LARGEST), 2)
                assert (answer.error_code, answer.expiry_timestamp_ms) == (0, end)
            assert (await ann.ask(RenewDelegationTokenRequest(token.hmac, SMALLEST), 2)).error_code == 0
            removed = await ann.ask(ExpireDelegationTokenRequest(token.hmac, SMALLEST), 2)
            assert (removed.error_code, removed.expiry_timestamp_ms) == (0, clock.now_ms())

    run(scenario())


def test_the_controller_removes_expired_tokens(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        keys = {"delegation.token.expiry.check.interval.ms": "5000", "clock": clock}
        async with broker_with_tokens(tmp_path, **keys) as broker:
            ann = await logged_in(broker, "ann")
            token = await created(ann, lifetime_ms=1_000)
            clock.advance(1_001)
            assert (await ann.ask(RenewDelegationTokenRequest(token.hmac, 1), 2)).error_code == 66
            assert len((await ann.ask(DescribeDelegationTokenRequest(None), 2)).tokens) == 1
            assert "invalid credentials" in await refused_login(clock, await Client.connect(broker, 1), token)
            clock.advance(4_000)
            await until(lambda: not store_of(broker).cache.tokens())
            assert (await ann.ask(RenewDelegationTokenRequest(token.hmac, 1), 2)).error_code == 62

    run(scenario())


def test_tokens_survive_a_restart(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with broker_with_tokens(tmp_path, in_memory_metadata=False) as broker:
            token = await created(await logged_in(broker, "ann"))
        async with broker_with_tokens(tmp_path, in_memory_metadata=False) as broker:
            assert (await log_in_by(await Client.connect(broker, 1), token)).error_code == 0

    run(scenario())


@pytest.mark.parametrize(
    ("max_session_ms", "lifetime_ms", "expected_ms"), [(0, 5_000, 5_000), (3_000, 5_000, 3_000), (9_000, 5_000, 5_000)]
)
def test_how_long_a_session_may_last(max_session_ms: int, lifetime_ms: int, expected_ms: int, tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        keys = {"connections.max.reauth.ms": str(max_session_ms), "clock": clock}
        async with broker_with_tokens(tmp_path, **keys) as broker:
            token = await created(await logged_in(broker, "ann"), lifetime_ms=lifetime_ms)
            client = await Client.connect(broker, 1)
            assert (await log_in_by(client, token)).session_lifetime_ms == expected_ms
            clock.advance(2_000)
            assert (await log_in_by(client, token)).session_lifetime_ms == min(expected_ms, lifetime_ms - 2_000)
            clock.advance(lifetime_ms - 2_000)
            client.send(frame(MetadataRequest([]), 9))
            assert await client.is_closed()

    run(scenario())


def test_a_client_keeps_its_principal_when_it_logs_in_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        async with broker_with_tokens(tmp_path, clock=clock) as broker:
            ann, bob = await logged_in(broker, "ann"), await logged_in(broker, "bob")
            token, other = await created(ann), await created(bob)
            client = await Client.connect(broker, 1)
            for _ in range(2):
                assert (await log_in_by(client, token)).error_code == 0
                clock.advance(1_000)
                assert (await client.ask(DescribeDelegationTokenRequest(None), 2)).error_code == NOT_ALLOWED
            assert "Cannot change principals" in await refused_login(clock, client, other)

    run(scenario())


def test_acls_of_tokens(tmp_path: Path) -> None:
    async def scenario() -> None:
        keys = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": "User:ANONYMOUS"}
        async with broker_with_tokens(tmp_path, **keys) as broker:
            ann, bob, eve = [await logged_in(broker, user) for user in ("ann", "bob", "eve")]
            one, two = await created(ann, "bob"), await created(ann)

            async def seen(client: Client, *owners: str, everybody: bool = False) -> set[str]:
                asked = None if everybody else [DescribeDelegationTokenOwner("User", each) for each in owners]
                return {each.token_id for each in (await client.ask(DescribeDelegationTokenRequest(asked), 2)).tokens}

            both = {one.token_id, two.token_id}
            assert await seen(ann, everybody=True) == await seen(ann, "ann") == both
            assert await seen(ann) == set()
            assert await seen(ann, "bob") == await seen(bob, "bob") == await seen(bob, everybody=True) == {one.token_id}
            assert await seen(eve, everybody=True) == await seen(eve, "ann", "eve") == set()
            access = broker.services.access
            assert access is not None
            pattern = ResourcePattern(AclResourceType.DELEGATION_TOKEN, two.token_id, AclPatternType.LITERAL)
            entry = AclEntry("User:eve", "*", AclOperation.DESCRIBE, AclPermissionType.ALLOW)
            access.acls.authorizer.replace(pattern, (entry,))
            assert await seen(eve, everybody=True) == await seen(eve, "ann") == {two.token_id}
            assert await seen(eve, "bob") == set()
            assert (await eve.ask(RenewDelegationTokenRequest(two.hmac, 1), 2)).error_code == 63

    run(scenario())


def test_tokens_of_other_owners(tmp_path: Path) -> None:
    """They need CreateTokens on the owner; the owner, who created the token and DescribeTokens let it be seen."""

    async def scenario() -> None:
        keys = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": "User:ANONYMOUS"}
        async with broker_with_tokens(tmp_path, **keys) as broker:
            ann, bob, eve = [await logged_in(broker, user) for user in ("ann", "bob", "eve")]
            admin = await Client.connect(broker, 0)
            request = CreateDelegationTokenRequest("User", "bob", [], -1)
            refused = await ann.ask(request, 3)
            assert (refused.error_code, refused.principal_name, refused.token_requester_principal_name) == (
                ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED, "bob", "ann",
            )  # fmt: skip
            for principal, operation in (("ann", AclOperation.CREATE_TOKENS), ("eve", AclOperation.DESCRIBE_TOKENS)):
                creation = AclCreation(
                    AclResourceType.USER, "User:bob", AclPatternType.LITERAL, f"User:{principal}", "*", operation,
                    AclPermissionType.ALLOW,
                )  # fmt: skip
                for version, code in ((2, ErrorCode.INVALID_REQUEST), (3, 0)):
                    (made,) = (await admin.ask(CreateAclsRequest([creation]), version)).results
                    assert made.error_code == code
            token = await ann.ask(request, 3)
            assert (token.error_code, token.principal_name) == (0, "bob")
            for client in (ann, bob, eve):
                (described,) = (await client.ask(DescribeDelegationTokenRequest(None), 3)).tokens
                assert (described.principal_name, described.token_requester_principal_name) == ("bob", "ann")
                assert (await client.ask(DescribeDelegationTokenRequest(None), 2)).tokens[0].token_id == token.token_id
            assert (await eve.ask(RenewDelegationTokenRequest(token.hmac, 1), 2)).error_code == 63
            assert (await ann.ask(RenewDelegationTokenRequest(token.hmac, 60_000), 2)).error_code == 0
            by_token = await Client.connect(broker, 1)
            assert (await log_in_by(by_token, token)).error_code == 0
            assert session_of(broker, by_token).principal == "User:bob"

    run(scenario())


def test_everybody_sees_all_tokens_without_an_authorizer(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with broker_with_tokens(tmp_path) as broker:
            token = await created(await logged_in(broker, "ann"))
            eve = await logged_in(broker, "eve")
            (found,) = (await eve.ask(DescribeDelegationTokenRequest(None), 2)).tokens
            assert found.hmac == token.hmac

    run(scenario())
