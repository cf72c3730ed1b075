"""Delegation tokens (KIP-48): Kafka's own tool, the Java client, and whole answers, on kafkapy and on Apache Kafka.

librdkafka, kafka-python and aiokafka have no ``tokenauth``, and can't log in by a token.
"""

import time
from pathlib import Path
from typing import Any, Final

import pytest

from compat_tests.brokers.targets import KAFKAPY
from compat_tests.clients.java_tools.tools import Tools, ToolsOf
from compat_tests.security.logins import created, log_in_by, logged_in
from compat_tests.security.secured import SecuredBroker
from harness.process import Broker
from harness.real_kafka import write_properties
from harness.wire import Wire
from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.delegation_tokens import create_token, describe_tokens
from kafkapy.clients.errors import RequestFailedError
from kafkapy.clock import SystemClock
from kafkapy.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from kafkapy.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from kafkapy.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kafkapy.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from kafkapy.security.client import client_security

pytestmark = pytest.mark.together

KIND: Final = "scram_plaintext"
MECHANISM: Final = "SCRAM-SHA-512"
KINDS: Final = ("scram", "scram_plaintext")
VALUES: Final = [f"value-{number}" for number in range(50)]
DAY_MS: Final = 86_400_000
LARGEST, SMALLEST = 2**63 - 1, -(2**63)
NOT_FOUND, MISMATCH, NOT_ALLOWED, EXPIRED, WRONG_TYPE = 62, 63, 64, 66, 67
KNOWN_LATER = pytest.mark.differs("kafka-4.4.0", reason="a broker knows a token a moment after the answer that made it")


def _user(broker: SecuredBroker, name: str) -> Any:
    return logged_in(broker.addresses[KIND], MECHANISM, name, broker.security[KIND].users[name])


class Kafka:
    """Kafka's tools as one user of a secured broker."""

    def __init__(self, broker: SecuredBroker, kind: str, tools: Tools, path: Path) -> None:
        self._broker = broker
        self._kind = kind
        self._tools = tools
        self._path = path
        self._here = ["--bootstrap-server", broker.addresses[kind]]

    def config(self, user: str, login: str = "") -> str:
        """The path of a user's properties, or of those of another login."""
        settings = {name: str(value) for name, value in self._broker.client_settings(self._kind, "java", user).items()}
        if login:
            module, _, _ = settings["sasl.jaas.config"].partition(" ")
            settings["sasl.jaas.config"] = f"{module} required {login};"
        return str(write_properties(self._path / f"{user}{'-token' if login else ''}.properties", settings))

    def tokens(self, user: str, *words: str) -> str:
        """The output of ``kafka-delegation-tokens``."""
        return self.attempt("DelegationTokenCommand", "--command-config", self.config(user), *words)

    def attempt(self, tool: str, *words: str) -> str:
        """The output of a tool, with any exit code."""
        return self._tools.attempt(tool, *self._here, *words).all

    def run(self, tool: str, *words: str, text: str = "") -> str:
        """The output of another tool."""
        return self._tools.run(tool, *self._here, *words, text=text)


@pytest.mark.java
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.scenario("security", client="java-{tools_version}")
def test_kafka_s_tool_and_a_login_of_the_java_client(
    secured_broker: SecuredBroker, kind: str, topic_name: str, tools_version: str, tools_of: ToolsOf, tmp_path: Path
) -> None:
    kafka = Kafka(secured_broker, kind, tools_of(tools_version), tmp_path)
    made = kafka.tokens("alice", "--create", "--max-life-time-period", "600000", "--renewer-principal", "User:bob")
    assert "Created delegation token with tokenId : " in made
    (row,) = [line for line in made.splitlines() if " User:alice " in line]
    token_id, hmac, *_ = row.split()
    assert (len(token_id), "User:bob" in row) == (22, True)
    assert hmac in kafka.tokens("bob", "--describe", "--owner-principal", "User:alice")
    assert token_id not in kafka.tokens("bob", "--describe", "--owner-principal", "User:admin")
    refused = kafka.tokens("admin", "--renew", "--hmac", hmac, "--renew-time-period", "-1")
    assert "DelegationTokenOwnerMismatchException" in refused
    renewed = kafka.tokens("bob", "--renew", "--hmac", hmac, "--renew-time-period", "300000")
    assert "Completed renew operation. New expiry date : " in renewed

    config = kafka.config("alice", f'username="{token_id}" password="{hmac}" tokenauth="true"')
    topic = ["--topic", topic_name]
    kafka.run("ConsoleProducer", *topic, "--producer.config", config, text="".join(f"{each}\n" for each in VALUES))
    read = ["--from-beginning", "--max-messages", str(len(VALUES)), "--consumer.config", config]
    assert sorted(kafka.run("ConsoleConsumer", *topic, *read).split()) == sorted(VALUES)
    assert "UnsupportedByAuthenticationException" in kafka.attempt(
        "DelegationTokenCommand", "--command-config", config, "--describe"
    )

    ended = kafka.tokens("alice", "--expire", "--hmac", hmac, "--expiry-time-period", "-1")
    assert "Completed expire operation. New expiry date : " in ended
    assert token_id not in kafka.tokens("alice", "--describe")
    assert "DelegationTokenNotFoundException" in kafka.tokens(
        "bob", "--renew", "--hmac", hmac, "--renew-time-period", "1"
    )
    assert "SaslAuthenticationException" in kafka.attempt("TopicCommand", "--list", "--command-config", config)


def test_answers_and_times(secured_broker: SecuredBroker) -> None:
    with _user(secured_broker, "alice") as alice, _user(secured_broker, "bob") as bob:
        token = created(alice, "bob")
        issued = token.issue_timestamp_ms
        assert (token.principal_type, token.principal_name, len(token.token_id), len(token.hmac)) == (
            "User",
            "alice",
            22,
            64,
        )
        assert (token.expiry_timestamp_ms - issued, token.max_timestamp_ms - issued) == (DAY_MS, 7 * DAY_MS)
        for lifetime_ms, expected_ms in (
            (0, 7 * DAY_MS),
            (1_000, 1_000),
            (LARGEST, 7 * DAY_MS),
            (SMALLEST, 7 * DAY_MS),
        ):
            other = created(alice, lifetime_ms=lifetime_ms)
            assert other.max_timestamp_ms - other.issue_timestamp_ms == expected_ms
        for client in (alice, bob):
            answer = client.ask(RenewDelegationTokenRequest(token.hmac, 5_000_000), 2)
            assert answer.error_code == 0
            assert abs(answer.expiry_timestamp_ms - issued - 5_000_000) < 60_000
        answer = bob.ask(ExpireDelegationTokenRequest(token.hmac, 10 * DAY_MS), 2)
        assert (answer.error_code, answer.expiry_timestamp_ms) == (0, token.max_timestamp_ms)
        answer = alice.ask(ExpireDelegationTokenRequest(token.hmac, SMALLEST), 2)
        assert (answer.error_code, abs(answer.expiry_timestamp_ms - issued) < 60_000) == (0, True)


@pytest.mark.differs("kafka-4.4.0", reason="the expiry time of a refusal is 0, not -1")
def test_refusals(secured_broker: SecuredBroker) -> None:
    with _user(secured_broker, "alice") as alice, _user(secured_broker, "admin") as admin:
        short, token = created(alice, lifetime_ms=1), created(alice)
        time.sleep(0.1)
        group = [CreatableRenewers("User", "bob"), CreatableRenewers("Group", "x")]
        answer = alice.ask(CreateDelegationTokenRequest(renewers=group, max_lifetime_ms=-1), 2)
        assert (answer.error_code, answer.principal_name, answer.expiry_timestamp_ms) == (WRONG_TYPE, "alice", -1)
        for request in (RenewDelegationTokenRequest, ExpireDelegationTokenRequest):
            for client, hmac, period_ms, code in (
                (alice, b"", 1, NOT_FOUND),
                (alice, b"x" * 64, -1, NOT_FOUND),
                (admin, token.hmac, -1, MISMATCH),
                (admin, short.hmac, -1, MISMATCH),
                (alice, short.hmac, -1, EXPIRED),
                (alice, short.hmac, 1, EXPIRED),
            ):
                answer = client.ask(request(hmac, period_ms), 2)
                assert (answer.error_code, answer.expiry_timestamp_ms) == (code, -1)
        with Wire(secured_broker.addresses[KIND]) as by_token, Wire(secured_broker.process.bootstrap) as plain:
            assert log_in_by(by_token, MECHANISM, token).error_code == 0
            for wire in (by_token, plain):
                assert [
                    wire.ask(request, 2).error_code
                    for request in (
                        CreateDelegationTokenRequest(renewers=group, max_lifetime_ms=-1),
                        RenewDelegationTokenRequest(b"", 1),
                        ExpireDelegationTokenRequest(b"", 1),
                        DescribeDelegationTokenRequest(None),
                    )
                ] == [NOT_ALLOWED] * 4


@KNOWN_LATER
def test_which_tokens_are_described(secured_broker: SecuredBroker) -> None:
    with _user(secured_broker, "alice") as alice, _user(secured_broker, "admin") as admin:
        one, two = created(alice, "bob", "bob", "é:=, *~+"), created(admin)

        def described(wire: Wire, *owners: str, everybody: bool = False) -> dict[str, Any]:
            asked = None if everybody else [DescribeDelegationTokenOwner("User", each) for each in owners]
            answer = wire.ask(DescribeDelegationTokenRequest(asked), 2)
            assert answer.error_code == 0
            return {each.token_id: each for each in answer.tokens}

        assert described(alice) == {}
        assert described(alice, "nobody") == {}
        assert {one.token_id, two.token_id} <= described(alice, everybody=True).keys()
        for owners in (("alice",), ("bob", "nobody"), ("é:=, *~+",)):
            found = described(admin, *owners)
            assert two.token_id not in found
            shown = found[one.token_id]
            assert (shown.principal_type, shown.principal_name, shown.hmac) == ("User", "alice", one.hmac)
            assert sorted(each.principal_name for each in shown.renewers) == ["bob", "bob", "é:=, *~+"]
            assert (shown.issue_timestamp, shown.expiry_timestamp, shown.max_timestamp) == (
                one.issue_timestamp_ms,
                one.expiry_timestamp_ms,
                one.max_timestamp_ms,
            )


@KNOWN_LATER
def test_certificates_of_clients(secured_broker: SecuredBroker) -> None:
    """A client without one can't make tokens; the token of one with a certificate is used where SCRAM is."""

    def client(kind: str) -> ClusterClient:
        settings = secured_broker.security[kind].java_properties(secured_broker.addresses[kind], "alice")
        security = client_security(settings, SystemClock().now_ms())
        return ClusterClient(settings["bootstrap.servers"], security=security)

    with client("ssl") as anonymous, pytest.raises(RequestFailedError, match="REQUEST_NOT_ALLOWED"):
        create_token(anonymous)
    with client("mtls") as alice:
        token = create_token(alice, ["User:CN=bob"])
        assert (token.owner, describe_tokens(alice, ["User:CN=bob"])) == ("User:CN=alice", [token])
    with Wire(secured_broker.addresses[KIND]) as wire:
        assert log_in_by(wire, MECHANISM, token).error_code == 0


@KNOWN_LATER
def test_logins(secured_broker: SecuredBroker) -> None:
    with _user(secured_broker, "alice") as alice:
        token = created(alice)
        address = secured_broker.addresses[KIND]
        with Wire(address) as wire:
            answer = log_in_by(wire, MECHANISM, token)
            assert answer.error_code == 0
        token.hmac = token.hmac[::-1]
        with Wire(address) as wire:
            assert log_in_by(wire, MECHANISM, token).error_code == 58
        token.token_id = "unknown"
        with Wire(address) as wire:
            assert log_in_by(wire, MECHANISM, token).error_code == 58


@KNOWN_LATER
def test_what_differs_on_purpose(secured_broker: SecuredBroker, broker: Broker) -> None:
    """The end of sessions, a token that has expired, periods whose sum with the time exceeds 64 bits: see the page."""
    is_kafkapy = broker.name == KAFKAPY
    with _user(secured_broker, "alice") as alice:
        with Wire(secured_broker.addresses[KIND]) as wire:
            answer = log_in_by(wire, MECHANISM, created(alice, lifetime_ms=60_000))
            assert (0 < answer.session_lifetime_ms <= 60_000) if is_kafkapy else not answer.session_lifetime_ms
        short = created(alice, lifetime_ms=1)
        time.sleep(0.1)
        with Wire(secured_broker.addresses[KIND]) as wire:
            assert log_in_by(wire, MECHANISM, short).error_code == (58 if is_kafkapy else 0)
        token = created(alice)
        answer = alice.ask(RenewDelegationTokenRequest(token.hmac, LARGEST), 2)
        assert answer.error_code == 0
        assert (answer.expiry_timestamp_ms == token.max_timestamp_ms) is is_kafkapy
        assert (answer.expiry_timestamp_ms < 0) is not is_kafkapy
