"""``kafkapy users``, ``kafkapy certificates``, and ``--command-config`` on a broker with TLS and SASL."""

import json
import subprocess
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from harness.kafkapy_process import kafkapy_command
from kafkapy.cli import certificates
from kafkapy.security.stores import TlsKeys, key_store, trusted_certificates
from kafkapy.testing import Broker
from tests.cli.conftest import Run


@pytest.fixture(scope="module")
def secured() -> Iterator[Broker]:
    with Broker(security="scram") as broker:
        yield broker


@pytest.fixture
def admin(secured: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The client properties of the administrator, which the commands use."""
    path = tmp_path / "admin.properties"
    _write(path, {str(name): str(value) for name, value in secured.client_settings("java", "admin").items()})
    monkeypatch.setenv("KAFKAPY_COMMAND_CONFIG", f"{path}")
    return path


def _write(path: Path, properties: dict[str, str]) -> None:
    """As a properties file: a line break within a value is written as an escape."""
    path.write_text("".join(name + "=" + value.replace("\n", "\\n") + "\n" for name, value in properties.items()))


def _words(secured: Broker) -> list[str]:
    return ["-b", f"localhost:{secured.port}"]


def test_passwords_are_stored_listed_and_removed(run: Run, secured: Broker, admin: Path) -> None:
    here = _words(secured)
    stored = run("users", "add", "eve", "-m", "SCRAM-SHA-256", "--iterations", "4096", *here, stdin=b"eves-secret\n")
    assert (stored.code, stored.out) == (0, "stored: eve\n")
    assert {"user": "eve", "mechanism": "SCRAM-SHA-256", "iterations": 4096} in json.loads(
        run("users", "list", "--json", *here).out
    )
    own = admin.with_name("eve.properties")
    own.write_text(admin.read_text().replace("admin-secret", "eves-secret").replace('"admin"', '"eve"'))
    assert run("topics", "create", "t", *here, "--command-config", f"{own}").code == 0
    assert run("users", "remove", "eve", *here, stdin=b"n\n").code == 1
    assert run("users", "remove", "eve", "--yes", *here).out == "removed: eve\n"
    refused = run("topics", "list", *here, "--command-config", f"{own}")
    assert refused.code == 1
    assert "refuses the client: Authentication failed during authentication" in refused.err
    assert "secret" not in refused.err
    missing = run("users", "remove", "eve", "--yes", *here)
    assert (missing.code, "user eve" in missing.err) == (1, True)
    both = run("users", "add", "eve", "--json", *here, stdin=b"x\n")
    assert json.loads(both.out)["mechanisms"] == ["SCRAM-SHA-256", "SCRAM-SHA-512"]


def test_bad_words_are_refused(run: Run, secured: Broker, admin: Path) -> None:
    here = _words(secured)
    assert "is no SCRAM mechanism" in run("users", "add", "eve", "-m", "PLAIN", *here).err
    assert "no password" in run("users", "add", "eve", *here).err
    assert "can't read the configuration /nowhere" in run("topics", "list", *here, "--command-config", "/nowhere").err
    for text, problem in (
        ("security.protocol=TLS", "security.protocol is TLS: it must be one of"),
        ("security.protocol=SASL_PLAINTEXT", "sasl.jaas.config is not set"),
        (
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=DIGEST\nsasl.jaas.config=X required a=b;",
            "sasl.mechanism is DIGEST: kafkapy has",
        ),
        (
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config=X required username=secret;",
            "sasl.jaas.config has no password",
        ),
        (
            "security.protocol=SSL\nssl.truststore.location=/nowhere",
            "ssl.truststore.location: '/nowhere' can't be read",
        ),
        (
            admin.read_text().replace("SCRAM-SHA-256", "PLAIN"),
            "does not offer SASL mechanism PLAIN, it has SCRAM",
        ),
        ("security.protocol=SSL", "no TLS connection"),
        ("", "its listener may need TLS or SASL"),
    ):
        path = admin.with_name("other.properties")
        path.write_text(text)
        refused = run("topics", "list", *here, "--command-config", f"{path}")
        assert (refused.code, refused.err.count("\n")) == (1, 1)
        assert problem in refused.err
        assert "secret" not in refused.err


def test_a_password_is_asked_for_on_a_terminal(
    run: Run, secured: Broker, admin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = MagicMock(return_value="typed")
    monkeypatch.setattr("kafkapy.cli.users.typer.prompt", asked)
    terminal = MagicMock()
    terminal.stdin.isatty = lambda: True
    monkeypatch.setattr("kafkapy.cli.users.sys", terminal)
    assert run("users", "add", "typist", *_words(secured)).code == 0
    assert asked.call_args.kwargs["hide_input"]


def test_certificates_are_written_for_their_owner_alone(run: Run, tmp_path: Path) -> None:
    made = run("certificates", "create", f"{tmp_path}/tls", "--client", "alice", "--host", "kafka.example")
    assert made.code == 0
    files = {path.name: path for path in (tmp_path / "tls").iterdir()}
    assert set(files) == {"ca.pem", "broker.pem", "alice.pem"}
    assert {path.stat().st_mode & 0o777 for path in files.values()} == {certificates.PRIVATE_MODE}
    settings = dict(line.strip().split("=") for line in made.out.splitlines() if "=" in line)
    assert key_store(TlsKeys(settings)) is not None
    assert trusted_certificates(TlsKeys(settings)) == files["ca.pem"].read_text()
    again = run("certificates", "create", f"{tmp_path}/tls")
    assert (again.code, "File exists" in again.err) == (1, True)
    odd = run("certificates", "create", f"{tmp_path}/odd", "--client", "../x", "--json")
    assert (odd.code, "is no name" in odd.err, (tmp_path / "odd").exists()) == (1, True, False)
    assert json.loads(run("certificates", "create", f"{tmp_path}/more", "--json").out)["files"] == [
        "ca.pem",
        "broker.pem",
    ]


def test_a_broker_for_other_languages_prints_what_its_clients_need(tmp_path: Path) -> None:
    command = [*kafkapy_command(), "start", "--ephemeral", "--print-bootstrap", "--security", "scram"]
    with subprocess.Popen([*command, "--print-client-properties"], stdout=subprocess.PIPE, text=True) as broker:
        assert broker.stdout is not None
        bootstrap = broker.stdout.readline().strip()
        lines = list(takewhile(str.strip, broker.stdout))
        (tmp_path / "alice.properties").write_text("".join(lines))
        words = ["topics", "create", "t", "-b", bootstrap, "--command-config", f"{tmp_path}/alice.properties"]
        created = subprocess.run([*kafkapy_command(), *words], capture_output=True, text=True, check=False)
        broker.terminate()
    assert (created.stdout, created.stderr) == ("created: t\n", "")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--security", "tls"], "security is 'tls': it must be one of ssl, mtls"),
        (["--print-client-properties"], "--print-client-properties needs --security"),
        (
            ["--security", "ssl", "--config", "x"],
            "--security makes settings of its own: it can't be used with --config",
        ),
    ],
)
def test_security_of_start_is_checked(words: list[str], problem: str) -> None:
    command = [*kafkapy_command(), "start", "--ephemeral", *words]  # a process of its own: a start configures the log
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stderr.startswith(f"kafkapy: {problem}")) == (1, True)
