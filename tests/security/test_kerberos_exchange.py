"""The messages of GSSAPI, over contexts that protect nothing: those of Kerberos are in ``compat_tests/security``."""

import sys
from pathlib import Path

import pytest

from kafkapy.security.client import client_security
from kafkapy.security.errors import AuthenticationFailedError, InvalidSecurityError
from kafkapy.security.kerberos.exchange import ContextError, GssapiServer, gssapi_client
from kafkapy.security.kerberos.short_names import ShortNames
from kafkapy.security.mechanisms import MalformedTokenError
from tests.server.harness import run, running_broker

NAMES = ShortNames("DEFAULT", "HOME")


class BareContext:
    """A context whose tokens are the names of its steps; those of this side are ``answers``."""

    def __init__(self, *answers: bytes, is_complete_after: int) -> None:
        self._answers = list(answers)
        self._steps_left = is_complete_after

    client = "alice@HOME"

    @property
    def is_complete(self) -> bool:
        return self._steps_left == 0

    def step(self, token: bytes) -> bytes:
        if token == b"wrong":
            raise ContextError("the token is wrong")
        self._steps_left -= 1
        return self._answers.pop(0)

    def wrap(self, message: bytes) -> bytes:
        return b"wrapped " + message

    def unwrap(self, message: bytes) -> bytes:
        if not message.startswith(b"wrapped "):
            raise ContextError("it is not wrapped")
        return message.removeprefix(b"wrapped ")


def server(*, is_mutual: bool = True) -> GssapiServer:
    return GssapiServer(BareContext(b"reply" if is_mutual else b"", is_complete_after=1), NAMES)


@pytest.mark.parametrize("is_mutual", [True, False])
def test_client_and_server_agree(is_mutual: bool) -> None:
    client = gssapi_client(
        BareContext(b"ticket", b"", is_complete_after=2) if is_mutual else BareContext(b"ticket", is_complete_after=1)
    )
    broker = server(is_mutual=is_mutual)
    token = next(client)
    messages = [token]
    for _ in range(3 if is_mutual else 2):
        assert broker.user is None
        answer = broker.step(token)
        if broker.user is None:
            token = client.send(answer)
            messages += [answer, token]
    with pytest.raises(StopIteration):
        client.send(answer)
    assert (broker.user, broker.expires_ms) == ("alice", None)
    none = b"wrapped \x01\x00\x00\x00"
    assert messages == ([b"ticket", b"reply", b"", none, none] if is_mutual else [b"ticket", none, none])


@pytest.mark.parametrize(
    "tokens",
    [
        [b"wrong"],
        [b"ticket", b"more"],
        [b"ticket", b"", b"\x01\x00\x00\x00"],
        [b"ticket", b"", b"wrapped "],
        [b"ticket", b"", b"wrapped \x01\x00\x00"],
        [b"ticket", b"", b"wrapped \x02\x00\x00\x00"],
        [b"ticket", b"", b"wrapped \x03\x00\x00\x00"],
    ],
)
def test_a_server_refuses(tokens: list[bytes]) -> None:
    broker = server()
    *good, bad = tokens
    for token in good:
        broker.step(token)
    with pytest.raises(MalformedTokenError):
        broker.step(bad)
    assert broker.user is None


def test_a_server_refuses_a_principal_without_a_name() -> None:
    broker = GssapiServer(BareContext(b"", is_complete_after=1), ShortNames("DEFAULT", "ELSEWHERE"))
    broker.step(b"ticket")
    with pytest.raises(AuthenticationFailedError, match="applies to alice@HOME"):
        broker.step(b"wrapped \x01\x00\x00\x00alice")
    assert broker.user is None


@pytest.mark.parametrize(
    ("answer", "problem"),
    [(b"wrapped \x06\x00\xff\xff", "wants a security layer"), (b"wrapped ", "wants a security layer"),
     (b"", "no login by GSSAPI: it is not wrapped")],
)  # fmt: skip
def test_a_client_refuses(answer: bytes, problem: str) -> None:
    client = gssapi_client(BareContext(b"ticket", is_complete_after=1))
    next(client)
    with pytest.raises(AuthenticationFailedError, match=problem):
        client.send(answer)


def test_without_the_package_the_error_has_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    monkeypatch.delitem(sys.modules, "kafkapy.security.kerberos.login", raising=False)
    needs = r"names GSSAPI, which needs the package gssapi: pip install 'kafkapy-broker\[gssapi\]'"
    jaas = "Krb5LoginModule required useKeyTab=true;"
    with pytest.raises(InvalidSecurityError, match=rf"^sasl\.mechanism {needs}"):
        client_security({"security.protocol": "SASL_PLAINTEXT", "sasl.jaas.config": jaas}, 0)

    async def scenario() -> None:
        keys = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "security.inter.broker.protocol": "SASL_PLAINTEXT"}
        with pytest.raises(Exception, match=rf"sasl\.enabled\.mechanisms {needs}"):
            async with running_broker(tmp_path, **keys):  # type: ignore[arg-type]  # keys only
                pass

    run(scenario())
