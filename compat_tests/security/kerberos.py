"""A broker with a listener for GSSAPI in a realm of its own, of kafkapy or of Apache Kafka."""

import subprocess
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from compat_tests.brokers.own_broker import own_broker
from harness.java_programs import MissingToolchainError
from harness.kdc import KeyDistributionCenter
from harness.process import Broker, ChildProcess, free_port
from harness.wire import Wire
from kafkapy.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkapy.protocol.messages.sasl_handshake import SaslHandshakeRequest

HOST: Final = "localhost"
SERVICE: Final = f"kafka/{HOST}"
RULES: Final = "RULE:[1:$1](robot-.*)s/robot-//L,RULE:[1:$1]"
"""The short name of robot-Alice is alice; principals with two components have none, and are refused."""
PRINCIPALS: Final = ("alice", "robot-Alice", "bob", SERVICE, f"other/{HOST}", f"kafka/elsewhere.{HOST}")


class Realm:
    """A running KDC with the keytabs of ``PRINCIPALS``, which the environment of this process names."""

    def __init__(self, kdc: KeyDistributionCenter) -> None:
        self.kdc = kdc
        self.keytabs = {name: kdc.add(name) for name in PRINCIPALS}
        self.keytabs["short-lived"] = kdc.add("short-lived", "-maxlife", "2 seconds")

    def options(self, principal: str) -> dict[str, str]:
        """The options of Krb5LoginModule."""
        keytab = str(self.keytabs[principal])
        return {"useKeyTab": "true", "storeKey": "true", "keyTab": keytab, "principal": principal}

    def jaas(self, principal: str) -> str:
        """``sasl.jaas.config``."""
        words = " ".join(f'{name}="{value}"' for name, value in self.options(principal).items())
        return f"com.sun.security.auth.module.Krb5LoginModule required {words};"

    def tickets(self, principal: str, lifetime: str) -> Path:
        """The file with a ticket by kinit."""
        path = self.kdc.directory / f"tickets-{lifetime}"
        words = ["-k", "-t", str(self.keytabs[principal]), "-c", str(path), "-l", lifetime, principal]
        subprocess.run(["kinit", *words], timeout=60, check=True)
        return path

    def client_properties(self, bootstrap: str, principal: str) -> dict[str, str]:
        """The properties of Java's clients and of kafkapy's commands."""
        return {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "sasl.jaas.config": self.jaas(principal),
        }


def environment_of(kdc: KeyDistributionCenter, config: Path | None = None) -> dict[str, str]:
    """What programs need to be in the realm; Java has a property of its own for it."""
    config = config or kdc.config
    return {
        "KRB5_CONFIG": str(config),
        "KRB5RCACHEDIR": str(kdc.directory),
        "KRB5CCNAME": f"FILE:{kdc.directory}/tickets",
        "JAVA_TOOL_OPTIONS": f"-Djava.security.krb5.conf={config}",
    }


@pytest.fixture(scope="module")
def realm() -> Iterator[Realm]:
    """Skips where a KDC or the package gssapi is not installed."""
    pytest.importorskip("gssapi", reason="comes with the gssapi extra")
    try:
        started = KeyDistributionCenter()
    except MissingToolchainError as missing:
        pytest.skip(str(missing))
    with started as kdc, pytest.MonkeyPatch.context() as patch:
        for name, value in environment_of(kdc).items():
            patch.setenv(name, value)
        yield Realm(kdc)


class KerberosBroker:
    """A running broker whose second listener is for GSSAPI; only alice may do anything there."""

    def __init__(self, process: ChildProcess, realm: Realm) -> None:
        self.process = process
        self.realm = realm
        self.bootstrap = f"{HOST}:{free_port()}"

    def settings(self) -> dict[str, str]:
        """``server.properties``."""
        return {
            "listeners": f"PLAINTEXT://{self.process.bootstrap},SASL_PLAINTEXT://{self.bootstrap}",
            "sasl.enabled.mechanisms": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "sasl.kerberos.principal.to.local.rules": RULES,
            "listener.name.sasl_plaintext.gssapi.sasl.jaas.config": self.realm.jaas(SERVICE),
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": "User:ANONYMOUS;User:alice",
        }

    def properties(self, path: Path, principal: str) -> Path:
        """Writes the properties of a client."""
        properties: Mapping[str, str] = self.realm.client_properties(self.bootstrap, principal)
        path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        return path


@contextmanager
def kerberos_broker(broker: Broker, realm: Realm) -> Iterator[KerberosBroker]:
    """A broker with GSSAPI of the kind of ``broker``."""
    process = own_broker(broker, {})
    found = KerberosBroker(process, realm)
    process.overrides.update(found.settings())
    with process:
        yield found


def log_in(wire: Wire, steps: Generator[bytes, bytes, None]) -> Any:
    """Send the tokens of a client; return the last answer of the broker."""
    assert wire.ask(SaslHandshakeRequest("GSSAPI"), 1).error_code == 0
    token = next(steps)
    while True:
        answer = wire.ask(SaslAuthenticateRequest(token), 1)
        if answer.error_code:
            return answer
        try:
            token = steps.send(bytes(answer.auth_bytes))
        except StopIteration:
            return answer
