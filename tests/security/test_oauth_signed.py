"""Signed tokens: signatures, claims, and the attacks on both."""

import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jws
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

from kafkapy.security.oauth.signed import SignedRules, SignedValidator, VerificationKey, parse_jwks
from kafkapy.security.oauth.tokens import TokenRefusedError, encode_segment

NOW_S = 1_000_000
RSA = RSAKey.generate_key(2048)
KEYS: dict[str, Any] = {
    "rsa": RSA,
    "p256": ECKey.generate_key("P-256"),
    "p384": ECKey.generate_key("P-384"),
    "p521": ECKey.generate_key("P-521"),
    "ed": OKPKey.generate_key("Ed25519"),
}
JWKS = {"keys": [{**key.as_dict(private=False), "kid": name} for name, key in KEYS.items()]}
RULES = SignedRules(frozenset({"kafka", "other"}), "https://issuer", 30, "sub", "scope")
CLAIMS: dict[str, object] = {
    "iss": "https://issuer",
    "aud": "kafka",
    "sub": "alice",
    "iat": NOW_S - 100,
    "exp": NOW_S + 60,
}


class FixedKeys:
    def __init__(self, keys: list[VerificationKey]) -> None:
        self.keys = keys

    def find(self, fits: Callable[[VerificationKey], bool]) -> VerificationKey | None:
        found = [key for key in self.keys if fits(key)]
        return found[0] if len(found) == 1 else None


def keys_of(*jwks: Mapping[str, object]) -> list[VerificationKey]:
    return parse_jwks(json.dumps({"keys": jwks}).encode())


def validator(rules: SignedRules = RULES, keys: list[VerificationKey] | None = None) -> SignedValidator:
    return SignedValidator(rules, FixedKeys(keys or keys_of(*JWKS["keys"])), lambda: NOW_S * 1000)


def signed(header: Mapping[str, object], claims: object = CLAIMS, key: Any = RSA, algorithm: str = "RS256") -> str:
    """A token with this header that is signed by ``algorithm``, whatever the header says."""
    text = claims if isinstance(claims, str) else json.dumps(claims)
    first = f"{encode_segment(json.dumps(header).encode())}.{encode_segment(text.encode())}"
    return f"{first}.{encode_segment(jws.JWSRegistry.algorithms[algorithm].sign(first.encode(), key))}"


def token(**changes: object) -> str:
    claims = {name: value for name, value in (CLAIMS | changes).items() if value is not None}
    return signed({"alg": "RS256", "kid": "rsa"}, claims)


def refusal(text: str, rules: SignedRules = RULES, keys: list[VerificationKey] | None = None) -> str:
    with pytest.raises(TokenRefusedError) as refused:
        validator(rules, keys)(text)
    assert refused.value.scope is None
    assert "alice" not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize(
    ("algorithm", "name"),
    [("RS256", "rsa"), ("RS384", "rsa"), ("RS512", "rsa"), ("PS256", "rsa"), ("PS384", "rsa"), ("PS512", "rsa"),
     ("ES256", "p256"), ("ES384", "p384"), ("ES512", "p521"), ("EdDSA", "ed")],
)  # fmt: skip
def test_each_algorithm_is_accepted_with_its_own_kind_of_key(algorithm: str, name: str) -> None:
    good = signed({"alg": algorithm, "kid": name, "typ": "JWT", "x": 1}, CLAIMS, KEYS[name], algorithm)
    assert validator()(good) == ("alice", (NOW_S + 60) * 1000)
    head, body, signature = good.split(".")
    for wrong in (
        f"{head}.{body}.",
        f"{head}.{body}.AAAA",
        f"{head}.{body}.{signature[:-8]}",
        f"{head}.{body}.{signature}AAAA",
    ):
        assert refusal(wrong) == "its signature is wrong"
    other = encode_segment(json.dumps(CLAIMS | {"sub": "admin"}).encode())
    assert refusal(f"{head}.{other}.{signature}") == "its signature is wrong"
    for other_name in KEYS.keys() - {name}:
        assert (
            refusal(signed({"alg": algorithm, "kid": other_name}, CLAIMS, KEYS[name], algorithm))
            == "its key is not known"
        )


@given(
    st.sampled_from(["RS256", "PS512", "ES256", "ES384", "ES512", "EdDSA"]),
    st.binary(max_size=300),
    st.integers(0, 300),
)
def test_random_signatures_are_wrong(algorithm: str, signature: bytes, size: int) -> None:
    name = {"ES256": "p256", "ES384": "p384", "ES512": "p521", "EdDSA": "ed"}.get(algorithm, "rsa")
    head, body, _ = signed({"alg": algorithm, "kid": name}, CLAIMS, KEYS[name], algorithm).split(".")
    for each in (signature, bytes(size), b"\xff" * size):
        assert refusal(f"{head}.{body}.{encode_segment(each)}") == "its signature is wrong"


def test_without_a_key_id_the_only_key_that_fits_is_used() -> None:
    assert validator()(signed({"alg": "ES256"}, CLAIMS, KEYS["p256"], "ES256"))
    two = keys_of(*({**KEYS["p256"].as_dict(private=False), "kid": each} for each in "ab"))
    assert refusal(signed({"alg": "ES256"}, CLAIMS, KEYS["p256"], "ES256"), keys=two) == "its key is not known"


@pytest.mark.parametrize(
    "algorithm", ["none", "None", "NONE", "", None, 5, ["RS256"], "HS256", "HS512", "RS1", "ES256K"]
)
def test_other_algorithms_are_refused(algorithm: object) -> None:
    assert refusal(signed({"alg": algorithm, "kid": "rsa"})) == "its algorithm is not accepted"


def test_a_token_without_a_signature_is_refused() -> None:
    head, body, _ = signed({"alg": "none"}).split(".")
    assert refusal(f"{head}.{body}.") == "its algorithm is not accepted"


def test_the_public_key_is_no_secret_of_hmac() -> None:
    public = RSA.public_key
    for secret in (
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        json.dumps(RSA.as_dict(private=False)).encode(),
    ):
        head, body, _ = signed({"alg": "HS256", "kid": "rsa"}).split(".")
        mac = hmac.digest(secret, f"{head}.{body}".encode(), hashlib.sha256)
        assert refusal(f"{head}.{body}.{encode_segment(mac)}") == "its algorithm is not accepted"


def test_a_key_in_the_header_is_not_used() -> None:
    own = RSAKey.generate_key(2048)
    jwk = own.as_dict(private=False)
    for header in (
        {"jwk": jwk},
        {"jku": "https://evil.test/jwks.json"},
        {"x5u": "https://evil.test/"},
        {"x5c": ["AA"]},
    ):
        assert refusal(signed({"alg": "RS256", "kid": "rsa", **header}, CLAIMS, own)) == "its signature is wrong"
        assert validator()(signed({"alg": "RS256", "kid": "rsa", **header}))


@pytest.mark.parametrize("header", [{"crit": ["exp"]}, {"crit": []}, {"b64": False, "crit": ["b64"]}, {"b64": True}])
def test_extensions_that_must_be_understood_are_refused(header: dict[str, object]) -> None:
    assert "extension" in refusal(signed({"alg": "RS256", "kid": "rsa", **header}))


@pytest.mark.parametrize("key_id", ["unknown", "../../etc/passwd", "' OR 1=1", ""])
def test_a_key_that_is_not_known_is_refused(key_id: str) -> None:
    assert refusal(signed({"alg": "RS256", "kid": key_id})) == "its key is not known"


def test_a_key_id_is_a_text() -> None:
    assert refusal(signed({"alg": "RS256", "kid": 5})) == "its key id is not a text"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"exp": NOW_S - 30}, "it has expired"),
        ({"exp": None}, "there is no exp"),
        ({"exp": "9999999999"}, "exp is not a number"),
        ({"exp": 1e300}, "exp is not a time"),
        ({"exp": 10**300}, "exp is not a time"),
        ({"exp": True}, "exp is not a number"),
        ({"iat": None}, "there is no iat"),
        ({"iat": "now"}, "iat is not a number"),
        ({"iat": NOW_S + 61}, "it ends before it begins"),
        ({"nbf": NOW_S + 31}, "it is not valid yet"),
        ({"nbf": "x"}, "nbf is not a number"),
        ({"iss": "https://issuer/"}, "it is of another issuer"),
        ({"iss": None}, "it is of another issuer"),
        ({"iss": ["https://issuer"]}, "it is of another issuer"),
        ({"aud": "kafk"}, "it is for another audience"),
        ({"aud": []}, "it is for another audience"),
        ({"aud": None}, "it is for another audience"),
        ({"aud": ["x", "y"]}, "it is for another audience"),
        ({"aud": 5}, "its audience is not a text"),
        ({"aud": {"kafka": 1}}, "its audience is not a text"),
        ({"sub": None}, "missing, or not a text"),
        ({"sub": "  "}, "missing, or not a text"),
        ({"sub": 5}, "missing, or not a text"),
        ({"sub": "\ud800"}, "not Unicode"),
        ({"scope": 5}, "its scope"),
        ({"scope": ["a", ""]}, "its scope"),
        ({"scope": [["a"]]}, "its scope"),
    ],
)
def test_claims_that_are_not_valid_are_refused(changes: Mapping[str, object], problem: str) -> None:
    assert problem in refusal(token(**changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": NOW_S - 29},
        {"nbf": NOW_S + 30},
        {"aud": ["x", "other"]},
        {"scope": "a b"},
        {"scope": ["a", "b"]},
        {"jti": "x"},
    ],
)
def test_other_claims_are_accepted(changes: Mapping[str, object]) -> None:
    assert validator()(token(**changes)).user == "alice"


def test_without_an_expected_audience_there_must_be_none() -> None:
    rules = RULES._replace(audiences=frozenset(), issuer="", sub_claim="name")
    assert validator(rules)(token(aud=None, iss=None, name="bob")).user == "bob"
    assert refusal(token(name="bob"), rules) == "it is for another audience"


@pytest.mark.parametrize(
    "claims",
    [
        '{"exp":2000000,"exp":1,"iat":0,"sub":"a"}',
        "[]",
        "null",
        '"x"',
        "{",
        '{"exp":NaN}',
        '{"a":' + "[" * 40_000,
        "é" * 10,
    ],
)
def test_claims_of_another_form_are_refused(claims: str) -> None:
    assert refusal(signed({"alg": "RS256", "kid": "rsa"}, claims)) == "a part is not a JSON object in UTF-8"


@pytest.mark.parametrize(
    "text", ["", ".", "..", "a.b.c", "....", "a" * 1_000_000, "." * 1_000_000, "e30.e30.e30", "e30=.e30.", "é.é.é"]
)
def test_other_texts_are_refused(text: str) -> None:
    refusal(text)


@given(st.text(alphabet="abcXYZ019-_.", max_size=200))
def test_random_texts_are_refused(text: str) -> None:
    refusal(text)


HEADER, BODY, SIGNATURE = token().split(".")


@given(st.integers(0, len(token()) - 1), st.sampled_from("AZaz09-_."))
def test_a_token_with_one_other_character_is_refused_or_the_same(at: int, character: str) -> None:
    text = f"{HEADER}.{BODY}.{SIGNATURE}"
    changed = text[:at] + character + text[at + 1 :]
    if at == len(text) - 1 or changed == text:  # the last bits of the signature's last character mean nothing
        return
    refusal(changed)


@pytest.mark.parametrize(
    "jwk",
    [{**KEYS["rsa"].as_dict(private=False), "use": "enc"},
     {**KEYS["rsa"].as_dict(private=False), "key_ops": ["encrypt"]},
     {**KEYS["rsa"].as_dict(private=False), "key_ops": "verify"},
     {**KEYS["rsa"].as_dict(private=False), "kid": 5},
     {**KEYS["rsa"].as_dict(private=False), "n": 5},
     {**KEYS["rsa"].as_dict(private=False), "n": "AQAB"},
     {**KEYS["rsa"].as_dict(private=False), "e": "AA"},
     {**KEYS["rsa"].as_dict(private=False), "n": "!"},
     {**KEYS["p256"].as_dict(private=False), "x": "AAAA"},
     {**KEYS["p256"].as_dict(private=False), "crv": "P-384"},
     {**KEYS["p256"].as_dict(private=False), "crv": "secp256k1"},
     {**KEYS["ed"].as_dict(private=False), "x": "AA"},
     {"kty": "oct", "k": "c2VjcmV0"}, {"kty": ["RSA"]}, {"kty": "RSA"}, {},
     OctKey.generate_key().as_dict(), OKPKey.generate_key("X25519").as_dict(private=False),
     RSAKey.generate_key(1024).as_dict(private=False)],
)  # fmt: skip
def test_keys_that_can_not_be_used_are_left_out(jwk: dict[str, object]) -> None:
    assert len(keys_of(jwk, JWKS["keys"][0], 5)) == 1  # type: ignore[arg-type]  # no key
    with pytest.raises(ValueError, match="no key"):
        keys_of(jwk)


def test_a_private_key_is_read_as_a_public_one() -> None:
    (key,) = keys_of(RSA.as_dict(private=True))
    assert not key.key.is_private


def test_a_key_may_be_for_one_algorithm() -> None:
    only = keys_of({**RSA.as_dict(private=False), "kid": "rsa", "alg": "PS256"})
    assert refusal(token(), keys=only) == "its key is not known"
    assert validator(keys=only)(signed({"alg": "PS256"}, CLAIMS, RSA, "PS256"))


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{}", b'{"keys":{}}', b'{"keys":[]}', b"\xff", b"<html>", b'{"keys":[],"keys":[]}']
)
def test_what_is_no_key_set_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"it is no JSON Web Key Set|it has no key"):
        parse_jwks(data)
