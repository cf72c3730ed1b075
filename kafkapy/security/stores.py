"""Key stores and trust stores: PEM files, inline PEM (KIP-651) and PKCS12, read into PEM.

Apache Kafka's key is ``ssl.keystore.type``, by default JKS. Since Java 9 keytool writes PKCS12 whatever the name of the
file is, and Java reads it under the type JKS too. So a store that is not PEM is recognised by its first bytes; the old
JKS format, which only Java reads, is refused with the command that converts it.
"""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkapy.security.errors import InvalidSecurityError, needs_extra

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

JKS_MAGIC: Final = b"\xfe\xed\xfe\xed"
PEM: Final = "PEM"
_BEGIN: Final = b"-----BEGIN "
_CERTIFICATE: Final = b"-----BEGIN CERTIFICATE-----"
_ENCRYPTED: Final = (b"-----BEGIN ENCRYPTED PRIVATE KEY-----", b"Proc-Type: 4,ENCRYPTED")

Values = Mapping[str, str]
"""Texts by Kafka's keys; a key without a value is missing or empty."""


class KeyStore(NamedTuple):
    """A private key and the certificates from the key's own to the last one that is sent, as PEM."""

    key: bytes
    password: str
    """Password of the key; empty if it is not encrypted."""
    certificates: bytes


def key_store(values: Values) -> KeyStore | None:
    """Return the key store of ``ssl.keystore.*``, None if there is none; raises InvalidSecurityError."""
    if inline := values.get("ssl.keystore.key"):
        _only_pem(values, "ssl.keystore.type", "ssl.keystore.key")
        chain = values.get("ssl.keystore.certificate.chain")
        if not chain:
            raise InvalidSecurityError("ssl.keystore.key is set, and ssl.keystore.certificate.chain is not")
        return _pem_key(values, inline.encode(), chain.encode(), "ssl.keystore.key")
    location = values.get("ssl.keystore.location")
    if not location:
        return None
    data = _read("ssl.keystore.location", location)
    if values.get("ssl.keystore.type", "").upper() == PEM:
        if values.get("ssl.keystore.password"):
            raise InvalidSecurityError("ssl.keystore.password has no use with PEM: a key's own is ssl.key.password")
        return _pem_key(values, data, data, "ssl.keystore.location")
    return _pkcs12_key(data, location, values.get("ssl.keystore.password", ""))


def trusted_certificates(values: Values) -> str | None:
    """Return the PEM certificates of ``ssl.truststore.*``, None if there is none; raises InvalidSecurityError."""
    if inline := values.get("ssl.truststore.certificates"):
        _only_pem(values, "ssl.truststore.type", "ssl.truststore.certificates")
        return _certificates(inline.encode(), "ssl.truststore.certificates")
    location = values.get("ssl.truststore.location")
    if not location:
        return None
    data = _read("ssl.truststore.location", location)
    if values.get("ssl.truststore.type", "").upper() == PEM:
        return _certificates(data, "ssl.truststore.location")
    return _pkcs12_certificates(data, location, values.get("ssl.truststore.password", ""))


def certificates_of(pem: bytes, key: str) -> "list[Certificate]":
    """Parse PEM certificates; raises InvalidSecurityError that names ``key``."""
    try:
        from cryptography.x509 import load_pem_x509_certificates
    except ImportError:
        raise needs_extra(key) from None
    try:
        return load_pem_x509_certificates(pem)
    except ValueError:
        raise InvalidSecurityError(f"{key} has no readable certificate in the PEM format") from None


def store_files(values: Values) -> list[tuple[str, int]]:
    """Return the files of both stores, each with the time of its last change in ns; 0 if it can't be read."""
    found = []
    for key in ("ssl.keystore.location", "ssl.truststore.location"):
        if location := values.get(key):
            try:
                found.append((location, os.stat(location).st_mtime_ns))
            except OSError:
                found.append((location, 0))
    return found


def _only_pem(values: Values, type_key: str, inline_key: str) -> None:
    if values.get(type_key, "").upper() != PEM:
        raise InvalidSecurityError(f"{inline_key} is set: {type_key} must be PEM")


def _read(key: str, location: str) -> bytes:
    try:
        with open(location, "rb") as file:
            return file.read()
    except (OSError, ValueError) as error:  # ValueError: no name of a file
        reason = getattr(error, "strerror", None) or error
        raise InvalidSecurityError(f"{key}: {location!r} can't be read: {reason}") from None


def _certificates(data: bytes, key: str) -> str:
    certificates_of(data, key)
    return data[data.find(_CERTIFICATE) :].decode("ascii", "replace")


def _pem_key(values: Values, key_data: bytes, chain: bytes, name: str) -> KeyStore:
    password = values.get("ssl.key.password", "")
    if b"PRIVATE KEY-----" not in key_data:
        raise InvalidSecurityError(f"{name} has no private key in the PEM format")
    if any(mark in key_data for mark in _ENCRYPTED) and not password:
        raise InvalidSecurityError(f"the private key of {name} is encrypted: ssl.key.password is missing")
    certificates_of(chain, "ssl.keystore.certificate.chain" if name == "ssl.keystore.key" else name)
    return KeyStore(key_data, password, chain)


def _pkcs12_key(data: bytes, location: str, password: str) -> KeyStore:
    from_store = _pkcs12(data, location, password, "ssl.keystore")
    if from_store.key is None or from_store.cert is None:
        raise InvalidSecurityError(f"ssl.keystore.location: {location} has no private key with a certificate")
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = from_store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    chain = [from_store.cert.certificate, *(each.certificate for each in from_store.additional_certs)]
    return KeyStore(key, "", b"".join(each.public_bytes(Encoding.PEM) for each in chain))


def _pkcs12_certificates(data: bytes, location: str, password: str) -> str:
    from_store = _pkcs12(data, location, password, "ssl.truststore")
    from cryptography.hazmat.primitives.serialization import Encoding

    found = [each.certificate for each in from_store.additional_certs]
    if from_store.cert is not None:
        found.append(from_store.cert.certificate)
    if not found:
        raise InvalidSecurityError(f"ssl.truststore.location: {location} has no certificate")
    return b"".join(each.public_bytes(Encoding.PEM) for each in found).decode("ascii")


if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates


def _pkcs12(data: bytes, location: str, password: str, prefix: str) -> "PKCS12KeyAndCertificates":
    """Open a PKCS12 store; ``prefix`` is that of the keys, for errors."""
    if data.startswith(JKS_MAGIC):
        raise InvalidSecurityError(
            f"{prefix}.location: {location} is in the old JKS format, which only Java reads; convert it:"
            f" keytool -importkeystore -srckeystore {location} -destkeystore {location}.p12 -deststoretype PKCS12"
        )
    if data.lstrip().startswith(_BEGIN):
        raise InvalidSecurityError(f"{prefix}.location: {location} is a PEM file: set {prefix}.type to PEM")
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
    except ImportError:
        raise needs_extra(f"{prefix}.location") from None
    try:
        return load_pkcs12(data, password.encode())
    except (ValueError, UnsupportedAlgorithm):
        problem = f"is no PKCS12 store, or {prefix}.password does not match"
        raise InvalidSecurityError(f"{prefix}.location: {location} {problem}") from None
