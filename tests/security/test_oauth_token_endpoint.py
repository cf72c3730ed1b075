"""Tokens of an issuer's server: what is sent, what is accepted, and whom a broker may ask."""

from base64 import b64encode

import pytest

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.errors import InvalidConfigError
from kafkapy.config.oauth_keys import TOKEN_URL
from kafkapy.security.errors import AuthenticationFailedError, InvalidSecurityError
from kafkapy.security.oauth.login import FILE_HANDLERS, HANDLER, make_login
from kafkapy.server.lifecycle.listener_security import peer_security
from kafkapy.testing.clock import ManualClock
from tests.security.http_server import serving

ALLOWED = "kafkapy.sasl.oauthbearer.allowed.urls"


def test_tokens_are_asked_for_with_the_credentials_of_the_login_module() -> None:
    with serving() as server:
        values = {HANDLER: FILE_HANDLERS[0], TOKEN_URL: f"{server.url}/token"}
        for options, form in (
            ({"clientId": "id", "clientSecret": "s:cr=t", "scope": "a b"}, "grant_type=client_credentials&scope=a+b"),
            ({"clientId": "id", "clientSecret": "s:cr=t"}, "grant_type=client_credentials"),
        ):
            server.pages["/token"] = 200, b'{"access_token": "a.b.c", "expires_in": 60}'
            assert make_login(values, options, ManualClock()).new_token() == "a.b.c"
            assert server.forms[-1] == (form, "Basic " + b64encode(b"id:s:cr=t").decode())


@pytest.mark.parametrize(
    ("status", "content", "problem"),
    [
        (401, b'{"error": "secret"}', "status 401"),
        (302, b"http://127.0.0.1:1/", "status 302"),
        (200, b"secret", "not a JSON object"),
        (200, b'{"access_token": "secret="}', "has no access_token"),
        (200, b"{}", "has no access_token"),
    ],
)
def test_an_answer_without_a_token_says_so(status: int, content: bytes, problem: str) -> None:
    with serving() as server:
        server.pages["/"] = status, content
        values = {HANDLER: FILE_HANDLERS[0], TOKEN_URL: server.url}
        login = make_login(values, {"clientId": "id", "clientSecret": "secret"}, ManualClock())
        with pytest.raises(AuthenticationFailedError, match=problem) as refused:
            login.new_token()
        assert "secret" not in str(refused.value)


@pytest.mark.parametrize("options", [{"clientSecret": "secret"}, {"clientId": "id", "clientSecret": " "}])
def test_a_login_without_credentials_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(
        InvalidSecurityError, match=r"OAUTHBEARER has no client(Id|Secret), which the token endpoint needs"
    ):
        make_login({HANDLER: FILE_HANDLERS[0], TOKEN_URL: "https://issuer.test/"}, options, ManualClock())


@pytest.mark.parametrize("prefix", ["", "listener.name.in.", "listener.name.in.oauthbearer."])
@pytest.mark.parametrize("url", ["https://issuer.test/token", "file:///run/token"])
def test_a_broker_asks_only_addresses_that_are_allowed(prefix: str, url: str) -> None:
    texts = {
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        "listener.name.in.oauthbearer.sasl.jaas.config": "X required clientId=a clientSecret=b;",
        f"{prefix}{HANDLER}": FILE_HANDLERS[0],
        f"{prefix}{TOKEN_URL}": url,
    }
    with pytest.raises(InvalidConfigError, match=f"{TOKEN_URL} is an address that {ALLOWED} does not have"):
        peer_security(BrokerConfig.from_properties(texts), "IN", "SASL_PLAINTEXT", ManualClock())
    allowed = BrokerConfig.from_properties(texts | {ALLOWED: f"x,{url}"})
    assert peer_security(allowed, "IN", "SASL_PLAINTEXT", ManualClock()).authenticate is not None
