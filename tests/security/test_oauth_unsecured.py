"""Tokens without a signature: what is checked, and what the login makes."""

from collections.abc import Mapping
from typing import Any

import pytest

from kafkapy.security.errors import InvalidSecurityError
from kafkapy.security.oauth.tokens import TokenRefusedError, encode_segment, read_object
from kafkapy.security.oauth.unsecured import UnsecuredLogin, UnsecuredRules, UnsecuredValidator, unsecured_token

NOW_S = 1_000_000


def check(token: str, **options: str) -> Any:
    rules = UnsecuredRules.of_options({f"unsecuredValidator{name}": value for name, value in options.items()})
    return UnsecuredValidator(rules, lambda: NOW_S * 1000)(token)


def claims(**changes: object) -> dict[str, object]:
    return {"sub": "alice", "exp": NOW_S + 60} | changes


def with_header(text: str) -> str:
    return f"{encode_segment(text.encode())}.{unsecured_token(claims()).split('.')[1]}."


def test_a_token_is_accepted_with_its_name_and_its_end() -> None:
    assert check(unsecured_token(claims(iat=NOW_S, nbf=NOW_S + 9))) == ("alice", (NOW_S + 60) * 1000)
    assert check(unsecured_token(claims(name="b", exp=NOW_S + 0.5)), PrincipalClaimName=" name ") == (
        "b",
        NOW_S * 1000 + 500,
    )
    assert check(unsecured_token(claims(sub="käthe")))[0] == "käthe"


@pytest.mark.parametrize(
    "changes",
    [{"exp": NOW_S}, {"exp": "1e9"}, {"exp": None}, {"exp": 1e300}, {"exp": True}, {"iat": NOW_S + 1}, {"iat": "x"},
     {"iat": NOW_S + 60}, {"sub": ""}, {"sub": " \t"}, {"sub": 5}, {"sub": ["alice"]}, {"sub": {}}, {"sub": "\ud800"},
     {"scope": 5}],
)  # fmt: skip
def test_claims_that_are_not_valid_are_refused(changes: Mapping[str, object]) -> None:
    with pytest.raises(TokenRefusedError) as refused:
        check(unsecured_token(claims(**changes)))
    assert "alice" not in str(refused.value)
    assert refused.value.scope is None


def test_the_clocks_may_differ_by_the_skew() -> None:
    for changes in ({"exp": NOW_S - 2}, {"iat": NOW_S + 2}):
        with pytest.raises(TokenRefusedError):
            check(unsecured_token(claims(**changes)), AllowableClockSkewMs="1999")
        assert check(unsecured_token(claims(**changes)), AllowableClockSkewMs="2001")


@pytest.mark.parametrize("required", ["read", "read write", " write  read "])
@pytest.mark.parametrize(
    ("scope", "has_both"),
    [(["read", " write"], True), (["read"], False), ("read", False), ("read write", False), (None, False)],
)
def test_scopes_are_required(scope: object, has_both: bool, required: str) -> None:
    token = unsecured_token(claims(s=scope))
    if has_both or (required == "read" and scope in ("read", ["read"])):
        assert check(token, ScopeClaimName="s", RequiredScope=required)
        return
    with pytest.raises(TokenRefusedError) as refused:
        check(token, ScopeClaimName="s", RequiredScope=required)
    assert refused.value.scope == f"[{', '.join(required.split())}]"


@pytest.mark.parametrize(
    "token",
    ["", ".", "..", "...", "a.b", "a.b.c.d",
     unsecured_token(claims()) + "c2lnbmF0dXJl",
     unsecured_token(claims()) + ".",
     "e30.e30.",
     with_header('{"alg":"None"}'),
     with_header('{"alg":"HS256"}'),
     with_header('{"alg":"HS256","alg":"none"}'),
     "a" * 1_000_000],
)  # fmt: skip
def test_other_tokens_are_refused(token: str) -> None:
    with pytest.raises(TokenRefusedError):
        check(token)


@pytest.mark.parametrize(
    "option", [{"AllowableClockSkewMs": "-1"}, {"AllowableClockSkewMs": "x"}, {"RequiredScope": 'a"b'}]
)
def test_options_that_are_not_valid_are_refused(option: dict[str, str]) -> None:
    with pytest.raises(InvalidSecurityError, match=f"unsecuredValidator{next(iter(option))}"):
        check("", **option)


def login(**options: str) -> UnsecuredLogin:
    return UnsecuredLogin({f"unsecuredLogin{name}": value for name, value in options.items()}, lambda: NOW_S * 1000)


def test_the_login_makes_tokens_of_its_options() -> None:
    made = login(
        StringClaim_sub='al"ice\\', NumberClaim_n="1.5", ListClaim_scope="|a|b", ListClaim_none="",
        LifetimeSeconds="60", Extension_trace="1 2",
    )  # fmt: skip
    assert made.extensions == {"trace": "1 2"}
    token = made.new_token()
    assert read_object(token.split(".")[1]) == {
        "sub": 'al"ice\\', "n": 1.5, "scope": ["a", "b"], "none": [], "iat": NOW_S, "exp": NOW_S + 60
    }  # fmt: skip
    assert check(token, RequiredScope="a b") == ('al"ice\\', (NOW_S + 60) * 1000)
    assert check(login(StringClaim_x="bob", PrincipalClaimName="x").new_token(), PrincipalClaimName="x") == (
        "bob", (NOW_S + 3600) * 1000
    )  # fmt: skip


@pytest.mark.parametrize(
    "options",
    [{}, {"StringClaim_sub": " "}, {"NumberClaim_sub": "1"}, {"StringClaim_sub": "a", "PrincipalClaimName": "b"},
     {"StringClaim_sub": "a", "NumberClaim_exp": "1"}, {"StringClaim_sub": "a", "StringClaim_iat": "1"},
     {"StringClaim_sub": "a", "NumberClaim_n": "secret"}, {"StringClaim_sub": "a", "NumberClaim_n": "NaN"},
     {"StringClaim_sub": "a", "LifetimeSeconds": "secret"}, {"StringClaim_sub": "a", "Extension_auth": "secret"},
     {"StringClaim_sub": "a", "Extension_a1": "secret"}, {"StringClaim_sub": "a", "Extension_a": "secret\x01"}],
)  # fmt: skip
def test_a_login_that_is_not_possible_is_refused_without_its_values(options: dict[str, str]) -> None:
    with pytest.raises(InvalidSecurityError, match="unsecuredLogin") as refused:
        login(**options)
    assert "secret" not in str(refused.value)
