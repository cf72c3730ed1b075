"""The messages of OAUTHBEARER."""

import re
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkapy.config.oauth_keys import TOKEN_URL
from kafkapy.security.client import client_security
from kafkapy.security.errors import AuthenticationFailedError, InvalidSecurityError
from kafkapy.security.mechanisms import MalformedTokenError
from kafkapy.security.oauth.exchange import OAuthServer, oauth_client, parse_initial
from kafkapy.security.oauth.login import FILE_HANDLERS, HANDLER, make_login
from kafkapy.security.oauth.tokens import TokenRefusedError, ValidToken, parse_object, read_object, time_claim
from kafkapy.testing.clock import ManualClock

INVALID = b'{"status":"invalid_token"}'


def validate(token: str) -> ValidToken:
    if token == "wide":
        raise TokenRefusedError("it lacks a scope", "[read, write]")
    if token != "good":
        raise TokenRefusedError("it has expired")
    return ValidToken("alice", 5_000)


@pytest.mark.parametrize(
    ("message", "found"),
    [
        (b"n,,\x01auth=Bearer a.b-c_d.\x01\x01", ("a.b-c_d.", "", {})),
        (b"n,,\x01auth=bEARER   x\x01\x01", ("x", "", {})),
        (b"n,a=bo=2Cb,\x01auth=Bearer x\x01\x01", ("x", "bo=2Cb", {})),
        (b"n,,\x01a=b=c d\x01auth=Bearer x\x01Trace=\t~\r\n\x01\x01", ("x", "", {"a": "b=c d", "Trace": "\t~\r\n"})),
        (b"n,,\x01auth=Bearer y\x01auth=Bearer x\x01\x01", ("x", "", {})),
    ],
)
def test_initial_messages_are_read(message: bytes, found: object) -> None:
    assert parse_initial(message) == found
    assert "x" not in repr(parse_initial(message)).replace("first", "")


@pytest.mark.parametrize(
    "message",
    [b"", b"\x01", b"n,,", b"n,,\x01\x01", b"n,,\x01auth=Bearer x\x01", b"n,,auth=Bearer x\x01\x01",
     b"y,,\x01auth=Bearer x\x01\x01",
     b"p=tls,,\x01auth=Bearer x\x01\x01", b"n,a=,\x01auth=Bearer x\x01\x01", b"n,a=a=b,\x01auth=Bearer x\x01\x01",
     b"n,,\x01auth=Bearer\x01\x01", b"n,,\x01auth=Basic x\x01\x01", b"n,,\x01auth=Bearer x y\x01\x01",
     b"n,,\x01auth=Bearer x=\x01\x01",
     b"n,,\x01auth=Bearer \xc3\xa9\x01\x01", b"n,,\x01auth=Bearer x\x01e1=x\x01\x01",
     b"n,,\x01auth=Bearer x\x01e=\x01\x01",
     b"n,,\x01auth=Bearer x\x01e=\x02\x01\x01", b"n,,\x01auth=Bearer x\x01\x01\x01", b"n,,\x01auth=Bearer \xff\x01\x01",
     b"n,,\x01Auth=Bearer x\x01\x01", b"n,,\x01auth=Bearer x\x01\x01\n"],
)  # fmt: skip
def test_other_messages_are_refused(message: bytes) -> None:
    with pytest.raises(MalformedTokenError):
        OAuthServer(validate).step(message)


@given(st.binary(max_size=200))
def test_random_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedTokenError):
        parse_initial(data)


NAMES = st.from_regex(re.compile("[A-Za-z]+"), fullmatch=True).filter(lambda name: name != "auth")
VALUES = st.text([chr(code) for code in range(0x20, 0x7F)] + ["\t", "\r", "\n"], min_size=1)
TOKENS = st.from_regex(re.compile(r"[-_.a-zA-Z0-9]+"), fullmatch=True)


@given(TOKENS, st.dictionaries(NAMES, VALUES, max_size=4))
def test_what_our_client_writes_is_read_as_it_was(token: str, extensions: dict[str, str]) -> None:
    assert parse_initial(next(oauth_client(lambda: token, extensions))) == (token, "", extensions)


@pytest.mark.parametrize("authorization_id", ["", "a=alice"])
def test_a_valid_token_is_accepted_with_an_empty_answer(authorization_id: str) -> None:
    server = OAuthServer(validate)
    assert server.step(f"n,{authorization_id},\x01auth=Bearer good\x01\x01".encode()) == b""
    assert (server.user, server.expires_ms) == ("alice", 5_000)


@pytest.mark.parametrize(
    ("token", "answer"),
    [("bad", INVALID), ("wide", b'{"status":"insufficient_scope", "scope":"[read, write]"}')],
)
@pytest.mark.parametrize("after", [b"\x01", b"n,,\x01auth=Bearer good\x01\x01", b"", b"\xff"])
def test_after_a_refusal_the_next_message_is_the_end(token: str, answer: bytes, after: bytes) -> None:
    server = OAuthServer(validate)
    assert server.step(f"n,,\x01auth=Bearer {token}\x01\x01".encode()) == answer
    assert server.user is None
    with pytest.raises(AuthenticationFailedError) as refused:
        server.step(after)
    assert str(refused.value) == answer.decode()
    assert server.user is None


def test_another_authorization_id_is_refused() -> None:
    server = OAuthServer(validate)
    with pytest.raises(AuthenticationFailedError, match="different from the token's principal name") as refused:
        server.step(b"n,a=bob,\x01auth=Bearer good\x01\x01")
    assert "alice" not in str(refused.value)
    assert server.user is None


def test_our_client_ends_the_authentication_after_a_refusal() -> None:
    steps = oauth_client(lambda: "t", {})
    assert next(steps) == b"n,,\x01auth=Bearer t\x01\x01"
    assert steps.send(INVALID) == b"\x01"
    with pytest.raises(AuthenticationFailedError):
        steps.send(b"")
    accepted = oauth_client(lambda: "t", {})
    next(accepted)
    with pytest.raises(StopIteration):
        accepted.send(b"")


def test_an_unsecured_login_makes_a_token_for_each_connection() -> None:
    clock = ManualClock()
    login = make_login({}, {"unsecuredLoginStringClaim_sub": "a", "unsecuredLoginExtension_t": "x"}, clock)
    first = login.new_token()
    clock.advance(1)
    assert login.new_token() != first
    assert login.extensions == {"t": "x"}


def test_a_token_of_a_file_is_read_for_each_connection(tmp_path: Path) -> None:
    path = tmp_path / "a token"
    login = make_login({HANDLER: FILE_HANDLERS[1], TOKEN_URL: path.as_uri()}, {}, ManualClock())
    for content, problem in ((None, "No such file"), ("", "no token"), ("secret=", "no token"), ("sécret", "no text")):
        if content is not None:
            path.write_text(content)
        with pytest.raises(AuthenticationFailedError, match=problem) as refused:
            login.new_token()
        assert "cret" not in str(refused.value)
    for content in ("a.b.c\n", "d.e.f"):
        path.write_text(content)
        assert login.new_token() == content.strip()


@pytest.mark.parametrize("url", ["", "ftp://issuer.test/", "file://host/x"])
def test_tokens_are_read_from_files_and_servers_alone(url: str) -> None:
    with pytest.raises(InvalidSecurityError, match=f"{TOKEN_URL} is no https, http or file URL"):
        make_login({HANDLER: FILE_HANDLERS[0], TOKEN_URL: url}, {}, ManualClock())


def test_other_logins_are_refused() -> None:
    with pytest.raises(InvalidSecurityError, match="kafkapy can't load Java classes"):
        make_login({HANDLER: "com.example.Own"}, {}, ManualClock())
    values = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": "X required;"}
    with pytest.raises(InvalidSecurityError, match="unsecuredLoginStringClaim_sub is not set"):
        client_security(values, 0)


@given(st.text(max_size=60) | st.from_regex(re.compile("[A-Za-z0-9_-]{1,60}"), fullmatch=True))
def test_random_parts_of_tokens_are_refused_or_objects(segment: str) -> None:
    found: object = {}
    with suppress(TokenRefusedError):
        found = read_object(segment)
    assert isinstance(found, dict)


@pytest.mark.parametrize(
    "text",
    ['{"a":1,"a":2}', '{"a":{"b":1,"b":1}}', '{"a":NaN}', '{"a":-Infinity}', '{"a":1} x', "[]", "1", "", "\ufeff{}",
     "{'a':1}",
     '{"a":' + "[" * 50_000, '{"a":' + "9" * 5_000 + "}"],
)  # fmt: skip
def test_text_that_is_no_strict_object_is_refused(text: str) -> None:
    with pytest.raises(TokenRefusedError):
        parse_object(text.encode())


def test_bytes_that_are_not_utf_8_are_refused() -> None:
    for data in (b'{"a":"\xff"}', '{"a":1}'.encode("utf-16"), b'{"a":"\xed\xa0\x80"}'):
        with pytest.raises(TokenRefusedError):
            parse_object(data)


@pytest.mark.parametrize("value", ["1", True, None, [1], {}, 1e999, float("nan"), 10**400, -(10**400), 253_402_300_800])
def test_a_time_that_is_none_is_refused(value: object) -> None:
    with pytest.raises(TokenRefusedError, match="exp is no"):
        time_claim({"exp": value}, "exp")
    assert time_claim({}, "exp") is None
    assert time_claim({"exp": 1.5}, "exp") == 1.5
