"""A certificate authority in memory: for tests, and for installations that have none."""

import ipaddress
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LOCAL_HOSTS: Final = ("localhost", "127.0.0.1", "::1")
_EARLIER: Final = timedelta(minutes=5)
"""Certificates are valid from this time before they are made: other machines' clocks may be late."""


class Certificate(NamedTuple):
    """A key and its certificate, as PEM."""

    key: str
    certificate: str


class Authority:
    """Signs certificates with a key that exists only here, unless ``key`` is stored."""

    def __init__(self, name: str, now_ms: int, days: float = 3650) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        self._now = datetime.fromtimestamp(now_ms / 1000, UTC)
        builder = _builder(self._name, self._name, self._key.public_key(), self._now, days)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_usage(is_authority=True), critical=True)
        builder = builder.add_extension(
            x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False
        )
        self.certificate: Final = _pem(builder.sign(self._key, hashes.SHA256()))
        """The authority's own certificate, which clients and brokers trust."""

    @property
    def key(self) -> str:
        """The authority's private key as PEM: who has it can sign certificates."""
        return _key_pem(self._key)

    def issue(self, common_name: str, hosts: Iterable[str] = (), days: float = 365) -> Certificate:
        """Sign a certificate; with ``hosts`` (names and addresses) it is a broker's, and also a client's.

        With negative ``days`` it has expired.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_name(common_name), self._name, key.public_key(), self._now, days)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_usage(is_authority=False), critical=True)
        uses = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
        )
        names = [_host(host) for host in hosts]
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return Certificate(_key_pem(key), _pem(builder.sign(self._key, hashes.SHA256())))


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey, now: datetime, days: float
) -> x509.CertificateBuilder:
    end = now + timedelta(days=days)
    return x509.CertificateBuilder(
        issuer_name=issuer,
        subject_name=subject,
        public_key=public_key,
        serial_number=x509.random_serial_number(),
        not_valid_before=min(now, end) - _EARLIER,
        not_valid_after=end,
    )


def _usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True, key_cert_sign=is_authority, crl_sign=is_authority, content_commitment=False,
        key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode("ascii")


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode("ascii")
