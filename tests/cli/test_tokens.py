"""``kafkapy tokens`` on a broker with delegation tokens, and on one without."""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from kafkapy.clients.delegation_tokens import Token
from kafkapy.testing import Broker
from tests.cli.conftest import Run

KEYS = {"delegation.token.master.key": "the-master-key"}
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.fixture(scope="module")
def secured() -> Iterator[Broker]:
    with Broker(KEYS, security="scram_plaintext") as broker:
        yield broker


@pytest.fixture
def tokens(run: Run, secured: Broker, tmp_path: Path) -> Run:
    """Runs ``kafkapy tokens`` as a user."""

    def run_as(*words: str, user: str = "alice", stdin: bytes = b"") -> object:
        path = tmp_path / f"{user}.properties"
        settings = secured.client_settings("java", user)
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        here = ["-b", f"localhost:{secured.port}", "--command-config", str(path)]
        return run("tokens", *words, *here, stdin=stdin)

    return run_as


def test_create_describe_renew_and_expire(tokens: Run) -> None:
    created = tokens("create", "--renewer", "User:bob", "--max-lifetime-ms", "60000")
    lines = dict(line.split(": ", 1) for line in created.out.splitlines())
    assert (created.code, lines["owner"], lines["renewers"]) == (0, "User:alice", "User:bob")
    assert lines["expires"] == lines["max"] > lines["issued"]
    hmac = lines["hmac"]
    assert len(b64decode(hmac)) == 64
    [described] = json.loads(tokens("describe", "--owner", "User:alice", "--json", user="bob").out)
    assert (described["token_id"], described["hmac"], described["renewers"]) == (lines["token id"], hmac, ["User:bob"])
    assert created.out in tokens("describe").out
    tokens("create", user="admin")
    assert tokens("describe").out.count("\n\ntoken id: ") >= 1
    assert tokens("describe", "--owner", "User:eve").out == "tokens: none\n"
    renewed = json.loads(tokens("renew", "--json", "--period-ms", "1000", user="bob", stdin=f"{hmac}\n".encode()).out)
    assert lines["issued"] < renewed["expires"] < lines["max"]
    assert tokens("expire", hmac, "--period-ms", "5000").out.startswith("changed: the token expires at 2")
    refused = tokens("renew", hmac, user="admin")
    assert (refused.code, refused.err) == (
        1,
        "kafkapy: the delegation token: Delegation token owner mismatch. (DELEGATION_TOKEN_OWNER_MISMATCH)\n",
    )
    assert tokens("expire", stdin=hmac.encode()).out == "removed: the token\n"
    missing = tokens("expire", hmac)
    assert (missing.code, "DELEGATION_TOKEN_NOT_FOUND" in missing.err, hmac in missing.err) == (1, True, False)


def test_kafkapy_s_own_client_logs_in_by_a_token(run: Run, secured: Broker, tokens: Run, tmp_path: Path) -> None:
    token = json.loads(tokens("create", "--json").out)
    login = f'username="{token["token_id"]}" password="{token["hmac"]}" tokenauth=true'
    path = tmp_path / "token.properties"
    settings = secured.client_settings("java") | {"sasl.jaas.config": f"{SCRAM} required {login};"}
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    here = ["-b", f"localhost:{secured.port}", "--command-config", str(path)]
    assert run("topics", "create", "by-token", *here).out == "created: by-token\n"
    refused = run("tokens", "create", *here)
    assert "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED" in refused.err
    path.write_text(path.read_text().replace("tokenauth=true", "tokenauth=false"))
    refused = run("topics", "list", *here)
    assert (refused.code, token["hmac"] in refused.err) == (1, False)


def test_words_that_are_not_valid(tokens: Run) -> None:
    assert "is no principal: write User:NAME" in tokens("create", "--renewer", "bob").err
    assert "is no principal: write User:NAME" in tokens("describe", "--owner", ":bob").err
    for words, problem in ((["?"], "can't be read"), (["YQ"], "can't be read"), ([], "the standard input is empty")):
        refused = tokens("renew", *words)
        assert (refused.code, problem in refused.err) == (1, True)


def test_an_hmac_is_asked_for_on_a_terminal(tokens: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = MagicMock(return_value=b64encode(b"another").decode())
    monkeypatch.setattr("kafkapy.cli.tokens.typer.prompt", asked)
    terminal = MagicMock()
    terminal.stdin.isatty = lambda: True
    monkeypatch.setattr("kafkapy.cli.tokens.sys", terminal)
    assert "DELEGATION_TOKEN_NOT_FOUND" in tokens("expire").err
    assert asked.call_args.kwargs["hide_input"]


def test_a_broker_without_security(run: Run) -> None:
    refused = run("tokens", "create")
    assert (refused.code, "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED" in refused.err) == (1, True)


def test_times_that_no_calendar_has(tokens: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    token = Token("id", b"secret", "User:a", (), 0, -(2**63), 2**63 - 1)
    monkeypatch.setattr("kafkapy.cli.tokens.describe_tokens", lambda *_: [token])
    [row] = json.loads(tokens("describe", "--json").out)
    assert (row["expires"], row["max"]) == (str(-(2**63)), str(2**63 - 1))
    assert "secret" not in repr(token)
