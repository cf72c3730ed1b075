"""Key and trust stores; those of keytool are read in ``test_keytool.py``."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509 import load_pem_x509_certificate

from kafkapy.security.certificates import Authority
from kafkapy.security.errors import InvalidSecurityError
from kafkapy.security.stores import JKS_MAGIC, TlsKeys, key_store, trusted_certificates

NOW_MS = 1_800_000_000_000
AUTHORITY = Authority("test authority", NOW_MS)
KEY, CERTIFICATE = AUTHORITY.issue("broker", ["localhost"])
_PRIVATE = load_pem_private_key(KEY.encode(), None)
ENCRYPTED = _PRIVATE.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"key-password")).decode()


@pytest.fixture
def pkcs12_file(tmp_path: Path) -> Path:
    path = tmp_path / "broker.jks"  # newer keytools write PKCS12 whatever the name is
    authority = load_pem_x509_certificate(AUTHORITY.certificate.encode())
    own = load_pem_x509_certificate(CERTIFICATE.encode())
    encryption = BestAvailableEncryption(b"store-password")
    path.write_bytes(pkcs12.serialize_key_and_certificates(b"broker", _PRIVATE, own, [authority], encryption))  # type: ignore[arg-type]  # an EC key
    return path


def test_without_settings_there_is_no_store() -> None:
    assert key_store(TlsKeys({})) is None
    assert trusted_certificates(TlsKeys({"ssl.truststore.location": ""})) is None


def test_pem_in_the_configuration() -> None:
    values = {
        "ssl.keystore.type": "PEM", "ssl.keystore.key": ENCRYPTED, "ssl.keystore.certificate.chain": CERTIFICATE,
        "ssl.key.password": "key-password", "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": AUTHORITY.certificate,
    }  # fmt: skip
    assert key_store(TlsKeys(values)) == (ENCRYPTED.encode(), "key-password", CERTIFICATE.encode())
    assert trusted_certificates(TlsKeys(values)) == AUTHORITY.certificate


def test_pem_in_files(tmp_path: Path) -> None:
    both, trusted = tmp_path / "both.pem", tmp_path / "trusted.pem"
    both.write_text(KEY + CERTIFICATE)
    trusted.write_text("a comment\n" + AUTHORITY.certificate)
    values = {
        "ssl.keystore.type": "pem", "ssl.keystore.location": f"{both}",
        "ssl.truststore.type": "pem", "ssl.truststore.location": f"{trusted}",
    }  # fmt: skip
    assert key_store(TlsKeys(values)) == ((KEY + CERTIFICATE).encode(), "", (KEY + CERTIFICATE).encode())
    assert trusted_certificates(TlsKeys(values)) == AUTHORITY.certificate


def test_pkcs12_whatever_its_name(pkcs12_file: Path) -> None:
    store = key_store(TlsKeys({"ssl.keystore.location": f"{pkcs12_file}", "ssl.keystore.password": "store-password"}))
    assert store is not None
    assert load_pem_private_key(store.key, None).private_numbers() == _PRIVATE.private_numbers()  # type: ignore[union-attr]  # an EC key
    assert store.certificates.decode() == CERTIFICATE + AUTHORITY.certificate
    found = trusted_certificates(
        TlsKeys({"ssl.truststore.location": f"{pkcs12_file}", "ssl.truststore.password": "store-password"})
    )
    assert found is not None
    assert AUTHORITY.certificate in found


_PEM = {"ssl.keystore.type": "PEM"}


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"ssl.keystore.location": "/nowhere"}, r"ssl\.keystore\.location: '/nowhere' can't be read: No such file"),
        ({"ssl.truststore.location": "/nowhere"}, r"ssl\.truststore\.location: '/nowhere' can't be read"),
        ({"ssl.keystore.location": "/no\0where"}, "can't be read: embedded null byte"),
        ({"ssl.keystore.key": KEY}, r"ssl\.keystore\.type must be PEM"),
        ({**_PEM, "ssl.keystore.key": KEY}, r"ssl\.keystore\.certificate\.chain is not"),
        ({**_PEM, "ssl.keystore.key": "x", "ssl.keystore.certificate.chain": CERTIFICATE}, "has no private key"),
        ({**_PEM, "ssl.keystore.key": KEY, "ssl.keystore.certificate.chain": "x"}, "no readable certificate"),
        ({**_PEM, "ssl.keystore.key": ENCRYPTED, "ssl.keystore.certificate.chain": "x"}, r"key\.password is missing"),
        ({"ssl.truststore.certificates": "x"}, r"ssl\.truststore\.type must be PEM"),
        ({"ssl.truststore.type": "PEM", "ssl.truststore.certificates": "x"}, r"ssl\.truststore\.certificates has no"),
    ],
)  # fmt: skip
def test_what_can_not_be_used_is_refused(values: dict[str, str], problem: str) -> None:
    with pytest.raises(InvalidSecurityError, match=problem):
        (key_store if any("keystore" in name for name in values) else trusted_certificates)(TlsKeys(values))


@pytest.mark.parametrize("kind", ["keystore", "truststore"])
def test_files_of_another_format_are_refused(kind: str, tmp_path: Path, pkcs12_file: Path) -> None:
    read = key_store if kind == "keystore" else trusted_certificates
    jks, pem, junk = (tmp_path / name for name in ("a.jks", "a.pem", "a.p12"))
    jks.write_bytes(JKS_MAGIC + b"\0\0\0\2")
    pem.write_text(KEY + CERTIFICATE)
    junk.write_bytes(b"junk")
    for path, problem in (
        (jks, "keytool -importkeystore -srckeystore"), (pem, rf"set ssl\.{kind}\.type to PEM"),
        (junk, rf"ssl\.{kind}\.password does not match"), (pkcs12_file, rf"ssl\.{kind}\.password does not match"),
    ):  # fmt: skip
        values = {f"ssl.{kind}.location": f"{path}", f"ssl.{kind}.password": "another-password"}
        with pytest.raises(InvalidSecurityError, match=problem) as refused:
            read(TlsKeys(values))
        assert "another-password" not in str(refused.value)


def test_a_pem_file_has_no_store_password(tmp_path: Path) -> None:
    path = tmp_path / "a.pem"
    path.write_text(KEY + CERTIFICATE)
    with pytest.raises(InvalidSecurityError, match=r"ssl\.keystore\.password has no use with PEM"):
        key_store(TlsKeys({**_PEM, "ssl.keystore.location": f"{path}", "ssl.keystore.password": "x"}))


def test_a_store_without_a_key_or_without_certificates_is_refused(tmp_path: Path) -> None:
    only_trusted, only_key = tmp_path / "trusted.p12", tmp_path / "key.p12"
    authority = load_pem_x509_certificate(AUTHORITY.certificate.encode())
    encryption = BestAvailableEncryption(b"x")
    only_trusted.write_bytes(pkcs12.serialize_key_and_certificates(None, None, None, [authority], encryption))
    only_key.write_bytes(pkcs12.serialize_key_and_certificates(b"k", _PRIVATE, None, None, encryption))  # type: ignore[arg-type]  # an EC key
    with pytest.raises(InvalidSecurityError, match="has no private key with a certificate"):
        key_store(TlsKeys({"ssl.keystore.location": f"{only_trusted}", "ssl.keystore.password": "x"}))
    with pytest.raises(InvalidSecurityError, match="has no certificate"):
        trusted_certificates(TlsKeys({"ssl.truststore.location": f"{only_key}", "ssl.truststore.password": "x"}))
