"""Tokens that an issuer has signed, checked against its keys (KIP-768, RFC 7519, RFC 8725).

Only asymmetric algorithms are accepted: with ``none`` anyone could write a token, and with HMAC the issuer's public key
could be used as if it were a secret. Nothing in a token's header names where its key is: keys come from the
configured address alone.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

from kafkapy.security.oauth.tokens import (
    JAVA_BLANKS,
    Claims,
    TokenRefusedError,
    ValidToken,
    checked_user,
    decode_segment,
    parse_object,
    read_object,
    required_time_claim,
    time_claim,
)

PublicKey = RSAKey | ECKey | OKPKey

ALGORITHMS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "RSA"),
    "ES256": "P-256",
    "ES384": "P-384",
    "ES512": "P-521",
    "EdDSA": "Ed25519",
}
"""The accepted algorithms: RSA, or the curve that the key has to be of."""
_MEMBERS: Final = {"RSA": ("n", "e"), "EC": ("crv", "x", "y"), "OKP": ("crv", "x")}
"""What makes a public key of each type: everything else of a key is left out, private parts too."""
_KEY_CLASSES: Final[Mapping[str, type[PublicKey]]] = {"RSA": RSAKey, "EC": ECKey, "OKP": OKPKey}
_RSA_BITS: Final = range(2048, 8193)


class VerificationKey(NamedTuple):
    """A public key of the issuer."""

    key_id: str | None
    kind: str
    """RSA, or the name of its curve."""
    algorithm: str | None
    """The only algorithm that it is for; None: each of its kind."""
    key: PublicKey

    def fits(self, algorithm: str, key_id: str | None) -> bool:
        """Whether a token with this header may be signed with the key."""
        return (
            self.kind == ALGORITHMS[algorithm]
            and self.algorithm in (None, algorithm)
            and (key_id is None or self.key_id == key_id)
        )


def parse_jwks(data: bytes) -> list[VerificationKey]:
    """Return the keys of a JSON Web Key Set that can be used; others are left out.

    Raises ValueError if it is no such set, or no key can be used.
    """
    try:
        found = parse_object(data).get("keys")
    except TokenRefusedError:
        found = None
    if not isinstance(found, list):
        raise ValueError("it is no JSON Web Key Set")  # noqa: TRY004  # it is the content that is wrong
    keys = [key for each in found if isinstance(each, dict) and (key := _key_of(each)) is not None]
    if not keys:
        raise ValueError("it has no key for signatures that can be used")
    return keys


def _key_of(jwk: Claims) -> VerificationKey | None:
    kind, key_id, algorithm, operations = (jwk.get(name) for name in ("kty", "kid", "alg", "key_ops"))
    if not isinstance(kind, str) or kind not in _MEMBERS or jwk.get("use", "sig") != "sig":
        return None
    if not isinstance(key_id, str | None) or not isinstance(algorithm, str | None):
        return None
    if operations is not None and not (isinstance(operations, list) and "verify" in operations):
        return None
    members: dict[str, str | list[str]] = {"kty": kind}
    for name in _MEMBERS[kind]:
        value = jwk.get(name)
        if not isinstance(value, str):
            return None
        members[name] = value
    try:
        key = _KEY_CLASSES[kind].import_key(members)
        is_usable = key.public_key is not None and (not isinstance(key, RSAKey) or key.public_key.key_size in _RSA_BITS)
    except (JoseError, ValueError, KeyError, TypeError):  # the key is not valid
        return None
    if not is_usable or (curve := members.get("crv", kind)) not in ALGORITHMS.values():
        return None
    return VerificationKey(key_id, str(curve), algorithm, key)


class Keys(Protocol):
    """Where the issuer's keys come from."""

    def find(self, fits: Callable[[VerificationKey], bool]) -> VerificationKey | None:
        """Return the one key that fits, None if none or several do."""


class SignedRules(NamedTuple):
    """The requirements on the claims of a signed token."""

    audiences: frozenset[str]
    """It has to name one of them; if there are none it must not name any."""
    issuer: str
    """Empty: each."""
    skew_s: int
    sub_claim: str
    scope_claim: str


class SignedValidator:
    """Checks tokens by the rules of ``OAuthBearerValidatorCallbackHandler`` of Apache Kafka 3.1 and later."""

    def __init__(self, rules: SignedRules, keys: Keys, now_ms: Callable[[], int]) -> None:
        self._rules = rules
        self._keys = keys
        self._now_ms = now_ms

    def __call__(self, token: str) -> ValidToken:
        """See ``Validate``."""
        parts = token.split(".")
        if len(parts) != 3:
            raise TokenRefusedError("it is no signed token")
        self._check_signature(read_object(parts[0]), f"{parts[0]}.{parts[1]}".encode(), decode_segment(parts[2]))
        return self._checked(read_object(parts[1]))

    def _check_signature(self, header: Claims, signed: bytes, signature: bytes) -> None:
        name, key_id = header.get("alg"), header.get("kid")
        if not isinstance(name, str) or name not in ALGORITHMS:
            raise TokenRefusedError("its algorithm is not accepted")
        if "crit" in header or "b64" in header:
            raise TokenRefusedError("its header has an extension that must be understood")
        if not isinstance(key_id, str | None):
            raise TokenRefusedError("its key id is not a text")
        found = self._keys.find(lambda key: key.fits(name, key_id))
        if found is None:
            raise TokenRefusedError("its key is not known")
        if not JWSRegistry.algorithms[name].verify(signed, signature, found.key):
            raise TokenRefusedError("its signature is wrong")

    def _checked(self, claims: Claims) -> ValidToken:
        rules, now_s = self._rules, self._now_ms() / 1000
        expires, issued = required_time_claim(claims, "exp"), required_time_claim(claims, "iat")
        begins = time_claim(claims, "nbf")
        if now_s - rules.skew_s >= expires:
            raise TokenRefusedError("it has expired")
        if begins is not None and now_s + rules.skew_s < begins:
            raise TokenRefusedError("it is not valid yet")
        if expires < issued or (begins is not None and expires < begins):
            raise TokenRefusedError("it ends before it begins")
        self._check_audience(claims)
        if rules.issuer and claims.get("iss") != rules.issuer:
            raise TokenRefusedError("it is of another issuer")
        _check_scope(claims.get(rules.scope_claim, []))
        return ValidToken(checked_user(claims.get(rules.sub_claim)), int(expires * 1000))

    def _check_audience(self, claims: Claims) -> None:
        audience = claims.get("aud", [])
        named = audience if isinstance(audience, list) else [audience]
        if not all(isinstance(each, str) for each in named):
            raise TokenRefusedError("its audience is not a text")
        if not self._rules.audiences.intersection(named) and (named or self._rules.audiences):
            raise TokenRefusedError("it is for another audience")


def _check_scope(scope: object) -> None:
    scopes = scope if isinstance(scope, list) else [scope]
    if not all(isinstance(each, str) and each.strip(JAVA_BLANKS) for each in scopes):
        raise TokenRefusedError("its scope is neither a text nor a list of texts")
