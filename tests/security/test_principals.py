import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from kafkapy.security.errors import AuthenticationFailedError, InvalidSecurityError
from kafkapy.security.principals import PrincipalRules, subject_of

SUBJECT = "CN=kafka1.example.com,OU=SME,O=mycp,L=Fulton,ST=MD,C=US"


@pytest.mark.parametrize(
    ("rules", "subject", "name"),
    [
        ("", SUBJECT, SUBJECT),
        ("DEFAULT", SUBJECT, SUBJECT),
        (r"RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L", SUBJECT, "kafka1.example.com@sme"),
        (r"RULE:^CN=(.*?),.*$/$1/U", SUBJECT, "KAFKA1.EXAMPLE.COM"),
        (r"RULE:^OU=x$/y/, RULE:^CN=(.*?),OU=.*$/$1/,DEFAULT", SUBJECT, "kafka1.example.com"),
        (r"RULE:^CN=x$/y/,DEFAULT", SUBJECT, SUBJECT),
        (r"RULE:^CN=(.)(.).*$/$1$13$2$3\$1/", SUBJECT, "kk3a$3$1"),
        (r"RULE:(.*)/x/", SUBJECT, "xx"),
    ],
)
def test_rules_map_subjects(rules: str, subject: str, name: str) -> None:
    assert PrincipalRules(rules).name_of(subject) == name


def test_a_subject_without_a_rule_is_refused() -> None:
    with pytest.raises(AuthenticationFailedError, match="no rule"):
        PrincipalRules("RULE:^CN=x$/y/").name_of(SUBJECT)
    with pytest.raises(AuthenticationFailedError, match=r"uses \$1 without groups"):
        PrincipalRules("RULE:.*/$1/").name_of(SUBJECT)


@pytest.mark.parametrize("rules", ["default", "RULE:^CN=(.*$/$1/", "RULE:^CN=x", "RULE:a/b/X", "DEFAULT;"])
def test_rules_that_can_not_be_read_are_refused(rules: str) -> None:
    with pytest.raises(InvalidSecurityError, match=r"ssl\.principal\.mapping\.rules"):
        PrincipalRules(rules)


def certificate(*attributes: "x509.NameAttribute[str] | x509.NameAttribute[bytes]") -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name(attributes)
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + datetime.timedelta(days=1))
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.DER)


def test_a_certificate_has_a_principal() -> None:
    der = certificate(
        x509.NameAttribute(NameOID.COUNTRY_NAME, "US"),
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, ' a,b+"c"<d>;=\\# '),
        x509.NameAttribute(NameOID.COMMON_NAME, "alicé"),
        x509.NameAttribute(NameOID.EMAIL_ADDRESS, "a@b.c"),
    )
    assert PrincipalRules("").principal_of(der) == (
        "User:1.2.840.113549.1.9.1=#16056140622e63,CN=alicé," + r"O=\ a\,b\+\"c\"\<d\>\;\=\\\#\ ,C=US"
    )


def test_long_values_have_their_length() -> None:
    subject = x509.load_der_x509_certificate(certificate(x509.NameAttribute(NameOID.TITLE, "x" * 60))).subject
    assert subject_of(subject) == "2.5.4.12=#0c3c" + "78" * 60


def test_bytes_that_are_no_certificate_are_refused() -> None:
    with pytest.raises(AuthenticationFailedError):
        PrincipalRules("").principal_of(b"\x30\x03\x02\x01\x01")
