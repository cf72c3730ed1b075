"""Clients that log in by GSSAPI with tickets of a KDC, and logins that are refused, on kafkapy and on Apache Kafka."""

import subprocess
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from compat_tests.clients.java_tools.tools import Tools
from compat_tests.security.kerberos import (
    HOST,
    SERVICE,
    KerberosBroker,
    Realm,
    environment_of,
    kerberos_broker,
    log_in,
    realm,
)
from compat_tests.security.round_trips import VALUES, WAIT_S, kafka_python_round_trip
from harness.kafkapy_process import ROOT, kafkapy_command
from harness.process import Broker, wait_for
from harness.wire import Wire
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkapy.security.errors import AuthenticationFailedError, InvalidSecurityError

pytest.importorskip("gssapi", reason="comes with the gssapi extra")
import gssapi

from kafkapy.security.kerberos.exchange import Context, gssapi_client
from kafkapy.security.kerberos.login import acceptor, initiator, service_name

__all__ = ["realm"]
pytestmark = pytest.mark.together
REFUSAL = "Authentication failed during authentication due to invalid credentials with SASL mechanism GSSAPI"


@pytest.fixture(scope="module")
def kerberos(broker: Broker, realm: Realm) -> Iterator[KerberosBroker]:
    with kerberos_broker(broker, realm) as found:
        yield found


def context_of(realm: Realm, principal: str, service: str = "kafka", host: str = HOST) -> Context:
    return initiator(service, realm.options(principal), "the login")(host)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"useKeyTab": "false"}, "the key has no useKeyTab=true, which GSSAPI needs"),
        ({"keyTab": ""}, "the key has no keyTab, which GSSAPI needs"),
        ({"principal": ""}, "the key has no principal, which GSSAPI needs"),
        ({"keyTab": "/nowhere"}, "the key has the keyTab '/nowhere', which can't be read"),
        ({"principal": "alice"}, "the key has a keytab that can't be used for its principal: .*alice@KAFKAPY.TEST"),
        ({"keyTab": __file__}, "the key has a keytab that can't be used for its principal: "),
    ],
)
def test_a_broker_does_not_start_without_its_key(realm: Realm, changes: dict[str, str], problem: str) -> None:
    with pytest.raises(InvalidSecurityError, match=problem):
        acceptor({**realm.options(SERVICE), **changes}, "the key")


def test_a_client_needs_the_name_of_the_service(realm: Realm) -> None:
    del realm
    both = {"sasl.kerberos.service.name": "kafka"}, {"serviceName": "other"}
    assert service_name(both[0], {}, "the key") == "kafka"
    assert service_name({}, both[1], "the key") == "other"
    with pytest.raises(InvalidSecurityError, match=r"sasl\.kerberos\.service\.name is not set"):
        service_name({}, {}, "the key")
    with pytest.raises(InvalidSecurityError, match=r"sasl\.kerberos\.service\.name and serviceName of the key differ"):
        service_name(*both, "the key")
    with pytest.raises(InvalidSecurityError, match="neither useKeyTab=true nor useTicketCache=true"):
        initiator("kafka", {}, "the key")


def created(wire: Wire, topic: str) -> int:
    """Ask for a topic; return the error code."""
    answer = wire.ask(CreateTopicsRequest([CreatableTopic(topic, 1, 1)], WAIT_S * 1000, validate_only=True), 4)
    return int(answer.topics[0].error_code)


@pytest.mark.parametrize(
    ("principal", "error_code"),
    [
        ("alice", ErrorCode.NONE),
        ("robot-Alice", ErrorCode.NONE),
        ("bob", ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    ],
)
def test_the_principal_has_the_name_that_the_rules_make(
    kerberos: KerberosBroker, principal: str, error_code: ErrorCode, topic_name: str
) -> None:
    with Wire(kerberos.bootstrap) as wire:
        assert log_in(wire, gssapi_client(context_of(kerberos.realm, principal))).error_code == 0
        assert created(wire, topic_name) in (error_code, ErrorCode.TOPIC_AUTHORIZATION_FAILED if error_code else 0)


def test_the_broker_offers_no_security_layer(kerberos: KerberosBroker) -> None:
    context = context_of(kerberos.realm, "alice")
    offers = []

    def client() -> Generator[bytes, bytes, None]:
        answer = b""
        while not context.is_complete:
            answer = yield context.step(answer)
        offers.append(context.unwrap(answer))
        yield context.wrap(b"\x01\x00\x00\x00somebody@ELSE.WHERE")  # the name to act as has no effect

    with Wire(kerberos.bootstrap) as wire:
        assert log_in(wire, client()).error_code == 0
        assert created(wire, "any") == 0
    assert offers[0][0] == 1


def is_served(wire: Wire, steps: Generator[bytes, bytes, None]) -> bool:
    """Whether a client is served after its tokens. Apache Kafka closes some connections without an answer."""
    try:
        return bool(log_in(wire, steps).error_code == 0 and created(wire, "any") == 0)
    except (AssertionError, OSError):
        return False


def test_a_principal_without_a_rule_is_not_served(kerberos: KerberosBroker) -> None:
    for principal, may_connect in (("alice", True), (f"other/{HOST}", False)):
        with Wire(kerberos.bootstrap) as wire:
            assert is_served(wire, gssapi_client(context_of(kerberos.realm, principal))) == may_connect


def chooses(realm: Realm, choice: bytes) -> Generator[bytes, bytes, None]:
    context = context_of(realm, "alice")
    answer = b""
    while not context.is_complete:
        answer = yield context.step(answer)
    yield context.wrap(choice)


def replaced(realm: Realm, *, at: int, token: bytes) -> Generator[bytes, bytes, None]:
    """A client that sends ``token`` in place of its own one."""
    steps = gssapi_client(context_of(realm, "alice"))
    own = next(steps)
    for _ in range(at):
        own = steps.send((yield own))
    yield token


def spnego_token(realm: Realm) -> bytes:
    """The first token of a negotiation in which a weaker mechanism could be chosen."""
    store: dict[bytes | str, bytes | str] = {
        "client_keytab": str(realm.keytabs["alice"]),
        "ccache": "MEMORY:spnego",
    }
    credentials = gssapi.Credentials(usage="initiate", store=store)
    target = gssapi.Name(f"kafka@{HOST}", gssapi.NameType.hostbased_service)
    mech = gssapi.OID.from_int_seq("1.3.6.1.5.5.2")
    return gssapi.SecurityContext(name=target, creds=credentials, mech=mech, usage="initiate").step() or b""


@pytest.mark.parametrize(
    "case",
    [
        "another-key",
        "empty",
        "garbage",
        "truncated",
        "token-after-context",
        "garbage-choice",
        "layer",
        "plain",
        "spnego",
    ],
)
def test_tokens_are_refused(kerberos: KerberosBroker, case: str) -> None:
    realm = kerberos.realm
    steps = {
        "another-key": lambda: gssapi_client(context_of(realm, "alice", "other")),
        "empty": lambda: replaced(realm, at=0, token=b""),
        "garbage": lambda: replaced(realm, at=0, token=b"\x60" + bytes(range(256)) * 20),
        "truncated": lambda: replaced(realm, at=0, token=context_of(realm, "alice").step(b"")[:-7]),
        "token-after-context": lambda: replaced(realm, at=1, token=b"more"),
        "garbage-choice": lambda: replaced(realm, at=2, token=b"\x05\x04" + bytes(60)),
        "layer": lambda: chooses(realm, b"\x04\x00\xff\xff"),
        "plain": lambda: replaced(realm, at=0, token=b"\0alice\0alice-secret"),
        "spnego": lambda: alone(spnego_token(realm)),
    }[case]()
    with Wire(kerberos.bootstrap) as wire:
        answer = log_in(wire, steps)
        assert (answer.error_code, answer.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, REFUSAL)
    with Wire(kerberos.bootstrap) as wire:
        assert log_in(wire, gssapi_client(context_of(realm, "alice"))).error_code == 0


def alone(token: bytes) -> Generator[bytes, bytes, None]:
    yield token


def test_a_token_is_used_only_once(kerberos: KerberosBroker) -> None:
    token = context_of(kerberos.realm, "alice").step(b"")
    with Wire(kerberos.bootstrap) as wire:
        assert log_in(wire, alone(token)).error_code == 0
    with Wire(kerberos.bootstrap) as wire:
        assert not is_served(wire, alone(token))


@pytest.mark.slow
def test_old_tickets_and_tokens_are_refused(broker: Broker, realm: Realm, monkeypatch: pytest.MonkeyPatch) -> None:
    skew_s = 2
    config = realm.kdc.krb5_conf("strict.conf", clock_skew_s=skew_s)
    for name, value in environment_of(realm.kdc, config).items():
        monkeypatch.setenv(name, value)
    with kerberos_broker(broker, realm) as strict:
        options = {"useTicketCache": "true", "ticketCache": str(realm.tickets("alice", "1s"))}
        renewing = initiator("kafka", realm.options("short-lived"), "the login")
        renewing(HOST).step(b"")
        token = context_of(realm, "alice").step(b"")
        made_s = time.monotonic()

        def fresh() -> bool:
            with Wire(strict.bootstrap) as wire:
                return is_served(wire, gssapi_client(context_of(realm, "alice")))

        assert wait_for(fresh, WAIT_S), "a new token is accepted, unless the machine was busy for seconds"
        assert wait_for(lambda: time.monotonic() - made_s > skew_s + 1.5, WAIT_S)
        with Wire(strict.bootstrap) as wire:
            answer = log_in(wire, alone(token))
            assert (answer.error_code, answer.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, REFUSAL)
    with pytest.raises(AuthenticationFailedError, match=r"no login by GSSAPI: .*expired"):
        next(gssapi_client(initiator("kafka", options, "the login")(HOST)))
    assert next(gssapi_client(renewing(HOST))), "with a keytab there is a new ticket"


@pytest.mark.scenario("security", client="kafka-python")
def test_kafka_python(kerberos: KerberosBroker, topic_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", str(kerberos.realm.keytabs["alice"]))
    settings: Any = {
        "bootstrap_servers": kerberos.bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_service_name": "kafka",
        "sasl_kerberos_domain_name": HOST,
    }
    kafka_python_round_trip(settings, topic_name)


@pytest.mark.java
@pytest.mark.scenario("security", client="java-2.7.2")
def test_java(kerberos: KerberosBroker, topic_name: str, tmp_path: Path) -> None:
    config = str(kerberos.properties(tmp_path / "client.properties", "robot-Alice"))
    here = ["--bootstrap-server", kerberos.bootstrap, "--topic", topic_name]
    text = "".join(f"{value.decode()}\n" for value in VALUES)
    with Tools("2.7.2") as tools:  # of its own: a JVM reads the configuration of Kerberos once
        tools.run("ConsoleProducer", *here, "--producer.config", config, text=text)
        read = ["--from-beginning", "--max-messages", str(len(VALUES)), "--consumer.config", config]
        assert sorted(tools.run("ConsoleConsumer", *here, *read).split()) == sorted(value.decode() for value in VALUES)


@pytest.mark.scenario("security", client="kafkapy")
def test_the_commands_of_kafkapy(kerberos: KerberosBroker, topic_name: str, tmp_path: Path) -> None:
    def command(path: Path, *words: str) -> "subprocess.CompletedProcess[str]":
        whole = [*kafkapy_command(), "topics", *words, "-b", kerberos.bootstrap, "--command-config", str(path)]
        return subprocess.run(whole, capture_output=True, text=True, timeout=60, check=False, cwd=ROOT)

    path = kerberos.properties(tmp_path / "client.properties", "alice")
    assert command(path, "create", topic_name).stdout.strip() == f"created: {topic_name}"
    tickets = kerberos.realm.tickets("alice", "1h")
    own = path.read_text()
    jaas = f'x.Krb5LoginModule required useTicketCache=true ticketCache="{tickets}";'
    path.write_text(own.replace(kerberos.realm.jaas("alice"), jaas))
    assert topic_name in command(path, "list").stdout.split()
    path.write_text(own.replace("service.name=kafka", "service.name=nothing"))
    refused = command(path, "list")
    assert "no login by GSSAPI: Server nothing/localhost@KAFKAPY.TEST not found in Kerberos database" in refused.stderr
