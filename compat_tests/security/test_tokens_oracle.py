"""Random first messages and tokens of OAUTHBEARER beside the classes of Apache Kafka 2.7.2.

The tokens have no two equal names in an object, nothing behind their JSON, no times after the year 9999 and no ``-`` or
``_``: kafkapy refuses the first three, and Apache Kafka the last (``docs/differences.md``).
"""

import json
import random
import time
from typing import Final

import pytest

from compat_tests.security.oracles import ask, word
from kafkapy.security.errors import InvalidSecurityError
from kafkapy.security.mechanisms import MalformedTokenError
from kafkapy.security.oauth.exchange import parse_initial
from kafkapy.security.oauth.tokens import TokenRefusedError, encode_segment
from kafkapy.security.oauth.unsecured import UnsecuredRules, UnsecuredValidator

pytestmark = pytest.mark.java

COUNT: Final = 2_000
INVALID: Final = "invalid_token\tnull"
PIECES: Final = [
    "n", ",", "a=", "bob", "=2C", "=3D", "=", "\x01", "\x01", "auth=Bearer ", "auth=", "bearer ",
    "Basic ", "a.b-c_.", "x", " ",
    "\x01auth=Bearer t", "\x01e=v", "\x01E=a b=c\t", "\x01e1=v", "\x01e=", "\x7f", "é", "\n", "\x00", "n,,", "\x01\x01",
]  # fmt: skip
NAMES: Final = ["sub", "name", "exp", "iat", "scope", "s", "nbf"]


def test_first_messages_are_read_as_in_apache_kafka() -> None:
    draw = random.Random(1)
    messages = []
    for _ in range(COUNT):
        if draw.random() < 0.6:
            authorization_id = draw.choice(["", "", "a=bob", "a=b=2Cc", "a=b=c", "a="])
            pairs = "".join(
                draw.choice(["\x01auth=Bearer t.u.", "\x01e=v", "\x01E=a=b", "\x01auth=BEARER  y", "\x01e1=v",
                             "\x01auth=Digest y"])
                for _ in range(draw.randrange(4))
            )  # fmt: skip
            text = f"n,{authorization_id},{pairs}\x01\x01"
        else:
            text = "".join(draw.choice(PIECES) for _ in range(draw.randrange(8)))
        data = text.encode()
        if draw.random() < 0.1 and data:
            at = draw.randrange(len(data))
            data = data[:at] + bytes([draw.randrange(256)]) + data[at + 1 :]
        messages.append(data)

    def mine(data: bytes) -> str | None:
        try:
            found = parse_initial(data)
        except MalformedTokenError:
            return None
        return "\t".join(
            [found.token, found.authorization_id, *(word for pair in sorted(found.extensions.items()) for word in pair)]
        )

    theirs = ask("OAuthOracle", [f"initial {word(data)}" for data in messages])
    different = [(data, mine(data), other) for data, other in zip(messages, theirs, strict=True) if mine(data) != other]
    assert different == []
    assert sum(each is not None for each in theirs) > COUNT / 10


def _claims(draw: random.Random, now_s: float) -> dict[str, object]:
    def value() -> object:
        choices: list[object] = [
            "alice", "bob ", "", " ", "käthe", None, True, 5, -1.5, [], ["a", " b ", ""], {}, {"x": 1},
            [1, None, True, {}],
            now_s + 600, now_s - 600, now_s + 100_000.25, 0, "1600000000", 1e9, -1e10, "read", ["read", "write"],
        ]  # fmt: skip
        return draw.choice(choices)

    claims: dict[str, object] = {"sub": "alice", "exp": now_s + 600}
    for _ in range(draw.randrange(4)):
        claims[draw.choice(NAMES)] = value()
    for name in draw.sample(list(claims), int(draw.random() < 0.1)):
        del claims[name]
    return claims


def _token(draw: random.Random, now_s: float) -> str:
    header = draw.choice(
        ['{"alg":"none"}'] * 12 + ['{"alg":"None"}', '{"alg":"HS256"}', '{"alg":null}', "{}", "[]", '"none"', "{", ""]
    )
    text = json.dumps(_claims(draw, now_s), ensure_ascii=draw.random() < 0.9)
    if draw.random() < 0.1:
        text = draw.choice(
            ["{}", "[]", "null", "1", '{"exp":NaN}', text[:-1], '{"exp":1e3,"sub":"a"}', "", " " + text + "\n"]
        )
    parts = [encode_segment(header.encode()), encode_segment(text.encode())]
    token = ".".join(parts) + draw.choice(["."] * 12 + ["", "..", ".e30", ".x.y", ". "])
    if draw.random() < 0.05:
        at = draw.randrange(len(token))
        token = token[:at] + draw.choice("AZz09.=") + token[at + 1 :]
    return token


def test_tokens_are_checked_as_in_apache_kafka() -> None:
    draw = random.Random(2)
    now_s = time.time()
    cases: list[tuple[str, dict[str, str]]] = []
    while len(cases) < COUNT:
        token = _token(draw, now_s)
        options = {
            "unsecuredValidatorPrincipalClaimName": draw.choice(["", "", "sub", " name "]),
            "unsecuredValidatorScopeClaimName": draw.choice(["", "s"]),
            "unsecuredValidatorRequiredScope": draw.choice(["", "", "", "read", " read  write "]),
            "unsecuredValidatorAllowableClockSkewMs": draw.choice([*["", "0", "1000000", "+5"] * 4, "-1", "x"]),
        }
        if not set("-_") & set(token):
            cases.append((token, {name: value for name, value in options.items() if value}))

    def mine(token: str, options: dict[str, str]) -> str | None:
        try:
            user, expires_ms = UnsecuredValidator(UnsecuredRules.of_options(options), lambda: int(now_s * 1000))(token)
        except TokenRefusedError as refused:
            return INVALID if refused.scope is None else f"insufficient_scope\t{refused.scope}"
        except InvalidSecurityError:
            return None
        return f"valid\t{user}\t{expires_ms}"

    def comparable(answer: str | None, options: dict[str, str]) -> str | None:
        """An exception of Apache Kafka is a refusal; where its options are not valid, nothing else is."""
        return (
            INVALID
            if answer is None and options.get("unsecuredValidatorAllowableClockSkewMs") not in ("-1", "x")
            else answer
        )

    theirs = ask(
        "OAuthOracle",
        [
            " ".join(["token", word(token), *(word(f"{name}={value}") for name, value in options.items())])
            for token, options in cases
        ],
    )
    different = [
        (case, mine(*case), other)
        for case, other in zip(cases, theirs, strict=True)
        if mine(*case) != comparable(other, case[1])
    ]
    assert different == []
    assert sum(str(each).startswith("valid") for each in theirs) > COUNT / 20
    assert sum(str(each).startswith("insufficient") for each in theirs) > COUNT / 40
