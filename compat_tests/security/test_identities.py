"""Random names, mapping rules and JAAS texts beside the classes of Apache Kafka 2.7.2."""

import random
from typing import Final

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from compat_tests.security.oracles import ask, word
from kafkapy.security.errors import AuthenticationFailedError, InvalidSecurityError
from kafkapy.security.jaas import parse_jaas
from kafkapy.security.kerberos.short_names import ShortNames
from kafkapy.security.principals import PrincipalRules, subject_of

pytestmark = pytest.mark.java

COUNT: Final = 3_000
TYPES: Final = [
    NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME, NameOID.ORGANIZATIONAL_UNIT_NAME, NameOID.LOCALITY_NAME,
    NameOID.STATE_OR_PROVINCE_NAME, NameOID.STREET_ADDRESS, NameOID.USER_ID, NameOID.DOMAIN_COMPONENT,
    NameOID.EMAIL_ADDRESS, NameOID.TITLE, NameOID.SERIAL_NUMBER,
]  # fmt: skip
CHARACTERS: Final = "abcXYZ019 ,=+<>#;\"\\'()./:-_?@é€ü*"
PATTERNS: Final = ["^CN=(.*?),(.*)$", "^CN=(.*)$", "(.*)", "^OU=x$", r".*\,.*", "^(.*)=(.*)$"]
REPLACEMENTS: Final = ["$1", "$2@$1", "x", "", "$1-$1", "a b"]
KERBEROS_FORMATS: Final = ["$1", "$1@$0", "$2", "$1-$2", "x$1", "$3", "$", "$0", "$1$1", "$12", "", "a/b", "é$1"]
KERBEROS_MATCHES: Final = ["", "", "(.*)", "(.*@REALM)", "(a.*)", "([ab])", "(^a$)", "((.*)"]
KERBEROS_EDITS: Final = [
    "", "", "s/a/b/", "s/a/b/g", "s/(.)(.)/$2$1/", "s/(.)/$12/g", "s/@.*//", "s/x*/-/g", "s/a/$/", r"s/a/\\$1/",
    r"s/(a)|b/$1./g", "s/a/$2/", "s/[/b/", "s/a/b/x", "s/a/\\/", "s/$/z/g", "s/^/z/", r"s/\w/w/g",
]  # fmt: skip
KERBEROS_NAMES: Final = [
    "alice@REALM", "bob/host@REALM", "alice@OTHER", "a/b/c@REALM", "a@b@c", "simple", "", "@REALM", "ÄBé@REALM",
    "a/@REALM", "ab/ab@REALM", "aXxa@REALM", "a/b",
]  # fmt: skip
JAAS_PIECES: Final = [
    "a.B", "required", "optional", " ", "\n", "x", "=", '"v"', "'w'", '"q\\"r"', "user_a", ";", "y-z", "// c\n",
    "/* d */", '"a=b;"', "$v", "1", "0.5", "é",
]  # fmt: skip


def test_subjects_are_written_as_java_writes_them() -> None:
    draw = random.Random(1)
    names = []
    for _ in range(COUNT):
        parts = []
        for _ in range(draw.randrange(1, 5)):
            kind = draw.choice(TYPES)
            is_plain = kind in (NameOID.EMAIL_ADDRESS, NameOID.DOMAIN_COMPONENT, NameOID.SERIAL_NUMBER)
            text = "".join(draw.choice("abc.019" if is_plain else CHARACTERS) for _ in range(draw.randrange(1, 12)))
            parts.append(x509.RelativeDistinguishedName([x509.NameAttribute(kind, text)]))
        names.append(x509.Name(parts))
    theirs = ask("IdentityOracle", [f"subject {word(name.public_bytes())}" for name in names])
    assert [subject_of(name) for name in names] == theirs


def test_rules_map_as_in_apache_kafka() -> None:
    draw = random.Random(2)
    cases = []
    for _ in range(COUNT):
        rules = [
            "DEFAULT" if draw.random() < 0.3
            else f"RULE:{draw.choice(PATTERNS)}/{draw.choice(REPLACEMENTS)}/{draw.choice(['', 'L', 'U'])}"
            for _ in range(draw.randrange(1, 4))
        ]  # fmt: skip
        cases.append((",".join(rules), draw.choice(["CN=Alice,OU=x", "CN=b", "OU=x", "O=a\\,b", "x"])))

    def mine(rules: str, subject: str) -> str | None:
        try:
            return PrincipalRules(rules).name_of(subject)
        except (InvalidSecurityError, AuthenticationFailedError):
            return None

    theirs = ask("IdentityOracle", [f"map {word(rules)} {word(subject)}" for rules, subject in cases])
    different = [(case, mine(*case), other) for case, other in zip(cases, theirs, strict=True) if mine(*case) != other]
    assert different == []
    assert sum(each is not None for each in theirs) > COUNT / 2


def test_kerberos_names_are_shortened_as_in_apache_kafka() -> None:
    draw = random.Random(4)

    def rule() -> str:
        if draw.random() < 0.3:
            return draw.choice(["DEFAULT", "DEFAULT", "DEFAULT/L", "default", "DEFAULTx"])
        start = f"RULE:[{draw.choice(['1', '1', '1', '2', '0', '', '01'])}:{draw.choice(KERBEROS_FORMATS)}]"
        return start + "".join(map(draw.choice, (KERBEROS_MATCHES, KERBEROS_EDITS, ["", "", "/L", "/U", "L", "/LU"])))

    cases = [
        (draw.choice([",", ", "]).join(rule() for _ in range(draw.randrange(1, 4))), draw.choice(KERBEROS_NAMES))
        for _ in range(2 * COUNT)
    ]

    def mine(rules: str, principal: str) -> str | None:
        try:
            return ShortNames(rules, "REALM").name_of(principal)
        except (InvalidSecurityError, AuthenticationFailedError):
            return None

    theirs = ask("IdentityOracle", [f"kerberos {word(rules)} {word(principal)}" for rules, principal in cases])
    different = [(case, mine(*case), other) for case, other in zip(cases, theirs, strict=True) if mine(*case) != other]
    assert different == []
    assert sum(each is not None for each in theirs) > COUNT / 5


def test_jaas_is_read_as_in_apache_kafka() -> None:
    draw = random.Random(3)
    texts = ['a.B required user_alice="alice-secret" password=x;', "a.B required;"]
    for _ in range(COUNT):
        if draw.random() < 0.5:
            pairs = " ".join(
                f"{draw.choice(['x', 'user_a', 'y-z'])}={draw.choice(JAAS_PIECES)}" for _ in range(draw.randrange(3))
            )
            texts.append(f"a.B {draw.choice(['required', 'OPTIONAL', 'sufficient', 'no'])} {pairs};")
        else:
            texts.append("a.B required " + "".join(draw.choice(JAAS_PIECES) for _ in range(draw.randrange(8))) + ";")

    def mine(text: str) -> str | None:
        try:
            module = parse_jaas("key", text)
        except InvalidSecurityError:
            return None
        return "".join([module.class_name, *(f"\t{name}\t{value}" for name, value in sorted(module.options.items()))])

    theirs = ask("IdentityOracle", [f"jaas {word(text)}" for text in texts])
    different = [(text, mine(text), other) for text, other in zip(texts, theirs, strict=True) if mine(text) != other]
    assert different == []
    assert sum(each is not None for each in theirs) > COUNT / 10
