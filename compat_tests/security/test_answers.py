"""What a SASL listener answers, frame by frame: the same on kafkapy and on Apache Kafka 2.7.2."""

import struct
import time
from collections.abc import Callable
from typing import Any

import pytest

from compat_tests.security.secured import SecuredBroker
from harness.wire import Wire
from kafkapy.protocol.constants import ResourceType
from kafkapy.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
from kafkapy.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from kafkapy.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkapy.protocol.messages.metadata import MetadataRequest
from kafkapy.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkapy.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kafkapy.security.oauth.unsecured import unsecured_token

pytestmark = pytest.mark.together
PLAIN = b"\0alice\0alice-secret"
INVALID = "Authentication failed: Invalid username or password"
MALFORMED = "Authentication failed during authentication due to invalid credentials with SASL mechanism"
CLOSED = None
SET, DELETE = 0, 1


def _talk(secured_broker: SecuredBroker, kind: str, requests: list[tuple[Any, int]]) -> list[Any]:
    """The answers to requests one after the other; ``CLOSED`` if the connection ends in place of one."""
    found: list[Any] = []
    with Wire(secured_broker.addresses[kind]) as wire:
        for request, version in requests:
            try:
                answer = wire.ask(request, version)
            except (ConnectionError, struct.error, EOFError, AssertionError):
                found.append(CLOSED)
                break
            found.append(_facts(answer))
    return found


def _facts(answer: Any) -> Any:
    name = type(answer).__name__
    if name == "SaslHandshakeResponse":
        return answer.error_code, list(answer.mechanisms)
    if name == "SaslAuthenticateResponse":
        return answer.error_code, answer.error_message, bytes(answer.auth_bytes), answer.session_lifetime_ms
    if name == "MetadataResponse":
        return SERVED if answer.brokers else name
    return name


SHAKE = (SaslHandshakeRequest("PLAIN"), 1)
SHAKEN = (0, ["PLAIN"])
TOKEN = (SaslAuthenticateRequest(PLAIN), 1)
SERVED = "the brokers"
"""A response with the metadata of the cluster."""


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize(
    ("token", "code", "text"),
    [
        (PLAIN, 0, ""),
        (b"alice" + PLAIN, 0, ""),
        (b"\0alice\0wrong", 58, INVALID),
        (b"\0nobody\0alice-secret", 58, INVALID),
        (b"\0\0x", 58, "Authentication failed: username not specified"),
        (b"\0alice\0", 58, "Authentication failed: password not specified"),
        (
            b"bob" + PLAIN,
            58,
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
        (b"alice", 58, "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
    ],
)
def test_a_token_of_plain(secured_broker: SecuredBroker, token: bytes, code: int, text: str, version: int) -> None:
    found = _talk(
        secured_broker, "sasl_plaintext", [SHAKE, (SaslAuthenticateRequest(token), version), (MetadataRequest([]), 8)]
    )
    assert found == [SHAKEN, (code, text, b"", 0), CLOSED if code else SERVED]


@pytest.mark.parametrize(
    "token", [b"n,,n=nobody,r=abc", b"n,,n=alice", b"y,,n=alice,r=abc", b"", b"n,a=bob,n=alice,r=abc"]
)
def test_a_first_message_of_scram_that_is_refused(secured_broker: SecuredBroker, token: bytes) -> None:
    handshake = (SaslHandshakeRequest("SCRAM-SHA-512"), 1)
    found = _talk(secured_broker, "scram_plaintext", [handshake, (SaslAuthenticateRequest(token), 1)])
    text = f"{MALFORMED} SCRAM-SHA-512"
    if b"a=bob" in token:
        text = "Authentication failed: Client requested an authorization id that is different from username"
    assert found == [(0, ["SCRAM-SHA-512"]), (58, text, b"", 0)]


INVALID_TOKEN = '{"status":"invalid_token"}'


def _oauth(**changes: object) -> bytes:
    now_s = time.time()
    claims = {"sub": "alice", "exp": now_s + 600, "iat": now_s - 1} | changes  # the broker counts whole milliseconds
    return f"n,,\x01auth=Bearer {unsecured_token(claims)}\x01\x01".encode()


@pytest.mark.parametrize(
    ("make_token", "answers"),
    [
        (_oauth, [(0, "", b"")]),
        (lambda: _oauth().replace(b"n,,", b"n,a=alice,"), [(0, "", b"")]),
        (lambda: _oauth().replace(b"\x01\x01", b"\x01trace=1\x01\x01"), [(0, "", b"")]),
        (lambda: _oauth(exp=1), [(0, "", INVALID_TOKEN.encode()), (58, INVALID_TOKEN, b"")]),
        (lambda: _oauth(iat=time.time() + 99), [(0, "", INVALID_TOKEN.encode()), (58, INVALID_TOKEN, b"")]),
        (lambda: _oauth(sub=5), [(0, "", INVALID_TOKEN.encode()), (58, INVALID_TOKEN, b"")]),
        (lambda: b"n,,\x01auth=Bearer x.y.z\x01\x01", [(0, "", INVALID_TOKEN.encode()), (58, INVALID_TOKEN, b"")]),
        (lambda: b"\x01", [(58, f"{MALFORMED} OAUTHBEARER", b"")]),
        (lambda: b"n,,\x01auth=Bearer\x01\x01", [(58, f"{MALFORMED} OAUTHBEARER", b"")]),
        (lambda: _oauth().replace(b"\x01\x01", b"\x01e1=1\x01\x01"), [(58, f"{MALFORMED} OAUTHBEARER", b"")]),
    ],
    ids=range(10),
)
def test_a_token_of_oauth(
    secured_broker: SecuredBroker, make_token: Callable[[], bytes], answers: list[tuple[int, str, bytes]]
) -> None:
    handshake = (SaslHandshakeRequest("OAUTHBEARER"), 1)
    tokens = [(SaslAuthenticateRequest(each), 1) for each in (make_token(), b"\x01")[: len(answers)]]
    found = _talk(secured_broker, "oauth_unsecured", [handshake, *tokens, (MetadataRequest([]), 8)])
    assert found[0] == (0, ["OAUTHBEARER"])
    assert [each[:3] for each in found[1:-1]] == answers
    assert found[-1] == (CLOSED if answers[-1][0] else SERVED)


def test_another_mechanism(secured_broker: SecuredBroker) -> None:
    found = _talk(secured_broker, "sasl_plaintext", [(SaslHandshakeRequest("GSSAPI"), 1), SHAKE])
    assert found == [(33, ["PLAIN"]), CLOSED]


@pytest.mark.parametrize(
    ("requests", "is_served"),
    [
        ([], False),
        ([TOKEN], False),
        ([SHAKE, TOKEN], True),
        ([(ApiVersionsRequest(), 0), SHAKE, TOKEN], True),
        ([TOKEN, SHAKE, TOKEN], False),
        ([SHAKE, SHAKE, TOKEN], False),
        ([SHAKE, (MetadataRequest([]), 8), TOKEN], False),
        ([SHAKE, (ApiVersionsRequest(), 0), TOKEN], False),
    ],
    ids=["nothing", "token", "usual", "versions", "token-first", "twice", "metadata-between", "versions-between"],
)
def test_the_order_of_requests(secured_broker: SecuredBroker, requests: list[tuple[Any, int]], is_served: bool) -> None:
    """Apache Kafka answers some requests out of order with an error before it closes the connection, kafkapy none."""
    found = _talk(secured_broker, "sasl_plaintext", [*requests, (MetadataRequest([]), 8)])
    assert (found[-1] == SERVED) == is_served
    assert is_served or (found[-1] is CLOSED and SERVED not in found)


def test_a_second_token_after_the_authentication(secured_broker: SecuredBroker) -> None:
    found = _talk(secured_broker, "sasl_plaintext", [SHAKE, TOKEN, TOKEN])
    assert found[:2] == [SHAKEN, (0, "", b"", 0)]
    assert found[2][0] == 34


@pytest.mark.differs("kafka-4.4.0", reason="the controller answers without texts, what is refused last")
def test_credentials_are_described_and_removed(secured_broker: SecuredBroker) -> None:
    changes = [
        AlterUserScramCredentialsRequest(
            [ScramCredentialDeletion("gone", 1)], [ScramCredentialUpsertion("käthe +/%", 1, 4096, b"salt", b"salted")]
        ),
        AlterUserScramCredentialsRequest([ScramCredentialDeletion("käthe +/%", 1)], []),
    ]
    with Wire(secured_broker.process.bootstrap) as wire:
        found = [
            [(each.user, each.error_code, each.error_message) for each in wire.ask(changes[0], 0).results],
            _described(wire, "käthe +/%"),
            [(each.user, each.error_code, each.error_message) for each in wire.ask(changes[1], 0).results],
        ]
    assert found == [
        [("gone", 91, "Attempt to delete a user credential that does not exist"), ("käthe +/%", 0, "")],
        (0, "", [(0, "", [(1, 4096)])]),
        [("käthe +/%", 0, "")],
    ]


def _described(wire: Wire, user: str) -> Any:
    answer = wire.ask(DescribeUserScramCredentialsRequest([UserName(user)]), 0)
    results = [
        (each.error_code, each.error_message, [(one.mechanism, one.iterations) for one in each.credential_infos])
        for each in answer.results
    ]
    return answer.error_code, answer.error_message, results


def test_mechanisms_that_are_changed_while_it_runs_hold_from_the_next_start(secured_broker: SecuredBroker) -> None:
    """Apache Kafka takes the change of one listener too, and does nothing."""
    key = "listener.name.saslplaintext.sasl.enabled.mechanisms"
    with Wire(secured_broker.process.bootstrap) as admin:
        broker = str(admin.ask(MetadataRequest([]), 1).brokers[0].node_id)
        for operation, value in ((SET, "PLAIN,SCRAM-SHA-256"), (DELETE, None)):
            change = AlterConfigsResource(ResourceType.BROKER, broker, [AlterableConfig(key, operation, value)])
            answer = admin.ask(IncrementalAlterConfigsRequest([change]), 0).responses[0]
            assert answer.error_code == 0, answer.error_message
            with Wire(secured_broker.addresses["sasl_plaintext"]) as client:
                assert client.ask(SaslHandshakeRequest("SCRAM-SHA-256"), 1).error_code == 33
            with Wire(secured_broker.addresses["sasl_plaintext"]) as client:
                assert client.ask(SaslHandshakeRequest("PLAIN"), 1).error_code == 0
