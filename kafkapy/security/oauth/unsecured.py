"""Tokens without a signature, as Apache Kafka has them for tests and development: anyone can write one.

The options are those of ``OAuthBearerLoginModule``: ``unsecuredLogin…`` for tokens that are made, and
``unsecuredValidator…`` for tokens that are checked.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Self

from kafkapy.security.errors import InvalidSecurityError
from kafkapy.security.oauth.exchange import AUTH, EXTENSION_NAME, EXTENSION_VALUE
from kafkapy.security.oauth.tokens import (
    JAVA_BLANKS,
    Claims,
    TokenRefusedError,
    ValidToken,
    checked_user,
    encode_segment,
    read_object,
    required_time_claim,
    time_claim,
)

_VALIDATOR: Final = "unsecuredValidator"
_LOGIN: Final = "unsecuredLogin"
_EXTENSION: Final = f"{_LOGIN}Extension_"
_LIFETIME_S: Final = "3600"
_SCOPE: Final = re.compile(r"[!#-\[\]-~]+")
_INTEGER: Final = re.compile(r"[+-]?\d{1,18}", re.ASCII)

NowMs = Callable[[], int]


class UnsecuredRules(NamedTuple):
    """The requirements on a token without a signature."""

    principal_claim: str
    scope_claim: str
    scopes: list[str]
    skew_ms: int

    @classmethod
    def of_options(cls, options: Mapping[str, str]) -> Self:
        """Read the options of the login module; raises InvalidSecurityError."""
        texts = {name: value.strip(JAVA_BLANKS) for name, value in options.items()}
        scopes = [each for each in texts.get(f"{_VALIDATOR}RequiredScope", "").split(" ") if each]
        if not all(map(_SCOPE.fullmatch, scopes)):
            raise InvalidSecurityError(f"{_VALIDATOR}RequiredScope has a scope with a character that is not allowed")
        return cls(
            texts.get(f"{_VALIDATOR}PrincipalClaimName") or "sub",
            texts.get(f"{_VALIDATOR}ScopeClaimName") or "scope",
            scopes,
            _whole_number(f"{_VALIDATOR}AllowableClockSkewMs", texts.get(f"{_VALIDATOR}AllowableClockSkewMs") or "0"),
        )


class UnsecuredValidator:
    """Checks tokens without a signature, by the rules of ``OAuthBearerUnsecuredValidatorCallbackHandler``."""

    def __init__(self, rules: UnsecuredRules, now_ms: NowMs) -> None:
        self._rules = rules
        self._now_ms = now_ms

    def __call__(self, token: str) -> ValidToken:
        """See ``Validate``."""
        parts = token.split(".")
        if len(parts) != 3 or parts[2] or not parts[1]:
            raise TokenRefusedError("it is no token without a signature")
        header, claims = read_object(parts[0]), read_object(parts[1])
        if header.get("alg") != "none":
            raise TokenRefusedError("it is no token without a signature")
        rules = self._rules
        scopes = _scopes(claims, rules.scope_claim)
        expires = required_time_claim(claims, "exp")
        issued = time_claim(claims, "iat")
        user = checked_user(_as_text(claims.get(rules.principal_claim, "")))
        now_ms = self._now_ms()
        if issued is not None and 1000 * issued > now_ms + rules.skew_ms:
            raise TokenRefusedError("its time of issue is in the future")
        if now_ms - rules.skew_ms >= 1000 * expires:
            raise TokenRefusedError("it has expired")
        if issued is not None and expires <= issued:
            raise TokenRefusedError("it ends before its time of issue")
        if not scopes.issuperset(rules.scopes):
            raise TokenRefusedError("it lacks a scope", f"[{', '.join(rules.scopes)}]")
        return ValidToken(user, round(expires * 1000))


def _as_text(value: object) -> object:
    """Return a claim as Apache Kafka reads it: words of JSON are texts, an object is an empty one."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return "" if isinstance(value, dict) else value


def _scopes(claims: Claims, name: str) -> set[str]:
    value = _as_text(claims.get(name, ""))
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list):
        raise TokenRefusedError("the claim of the scope is neither a text nor a list")
    texts = [str(_as_text(each)).strip(JAVA_BLANKS) for each in value]
    return {text for text in texts if text}


def _whole_number(name: str, text: str) -> int:
    if not _INTEGER.fullmatch(text) or int(text) < 0:
        raise InvalidSecurityError(f"{name} is no whole number of at least 0")
    return int(text)


class UnsecuredLogin:
    """Makes tokens without a signature by the options of ``OAuthBearerUnsecuredLoginCallbackHandler``.

    Raises InvalidSecurityError, which names an option and has nothing of its value.
    """

    def __init__(self, options: Mapping[str, str], now_ms: NowMs) -> None:
        self.extensions: Final = _extensions(options)
        self._claims = _login_claims(options)
        lifetime = f"{_LOGIN}LifetimeSeconds"
        self._lifetime_s = _whole_number(lifetime, options.get(lifetime, _LIFETIME_S))
        self._now_ms = now_ms
        name = options.get(f"{_LOGIN}PrincipalClaimName", "").strip(JAVA_BLANKS) or "sub"
        try:
            checked_user(self._claims.get(name))
        except TokenRefusedError:
            problem = f"{_LOGIN}StringClaim_{name} is not set: it has the name to log in with"
            raise InvalidSecurityError(problem) from None

    def new_token(self) -> str:
        """Return a token that is valid from now on."""
        now_s = self._now_ms() / 1000
        return unsecured_token({**self._claims, "iat": now_s, "exp": now_s + self._lifetime_s})


def unsecured_token(claims: Claims) -> str:
    """Return a token without a signature."""
    header = encode_segment(json.dumps({"alg": "none"}).encode())
    return f"{header}.{encode_segment(json.dumps(claims).encode())}."


def _extensions(options: Mapping[str, str]) -> dict[str, str]:
    found = {name.removeprefix(_EXTENSION): value for name, value in options.items() if name.startswith(_EXTENSION)}
    for name, value in found.items():
        if not EXTENSION_NAME.fullmatch(name) or name == AUTH or not EXTENSION_VALUE.fullmatch(value):
            raise InvalidSecurityError(f"{_EXTENSION}{name} is no extension of OAUTHBEARER")
    return found


def _login_claims(options: Mapping[str, str]) -> dict[str, object]:
    claims: dict[str, object] = {}
    for option, value in options.items():
        kind, underscore, name = option.removeprefix(_LOGIN).partition("Claim_")
        if not option.startswith(_LOGIN) or not underscore or not name:
            continue
        if name in ("iat", "exp"):
            raise InvalidSecurityError(f"{option} is set: kafkapy sets this claim")
        if kind == "String":
            claims[name] = value
        elif kind == "Number":
            claims[name] = _number(option, value)
        elif kind == "List":  # its first character is what separates the items
            claims[name] = value[1:].split(value[0]) if len(value) > 1 else []
    return claims


def _number(option: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise InvalidSecurityError(f"{option} is no number") from None
    if not abs(number) <= 1e308:
        raise InvalidSecurityError(f"{option} is no number")
    return number
