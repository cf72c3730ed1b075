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
_OWN_NAMES: Final[Mapping[str, str]] = {}


class TlsKeys:
    """The texts of the ``ssl.*`` keys, and the names by which the user knows them."""

    def __init__(self, values: Values, names: Mapping[str, str] = _OWN_NAMES) -> None:
        """``names`` has the keys that the user has set in place of those of a listener, and their common beginnings."""
        self._values = values
        self._names = names

    def get(self, key: str, default: str = "") -> str:
        """Return the text of a key, empty without a value."""
        return self._values.get(key) or default

    def name(self, key: str) -> str:
        """Return the name of a key, or of the keys that begin so, for an error."""
        return self._names.get(key, key)


class KeyStore(NamedTuple):
    """A private key and the certificates from the key's own to the last one that is sent, as PEM."""

    key: bytes
    password: str
    """Password of the key; empty if it is not encrypted."""
    certificates: bytes


def key_store(keys: TlsKeys) -> KeyStore | None:
    """Return the key store of ``ssl.keystore.*``, None if there is none; raises InvalidSecurityError."""
    if inline := keys.get("ssl.keystore.key"):
        _only_pem(keys, "ssl.keystore.type", "ssl.keystore.key")
        chain = keys.get("ssl.keystore.certificate.chain")
        if not chain:
            missing = keys.name("ssl.keystore.certificate.chain")
            raise InvalidSecurityError(f"{keys.name('ssl.keystore.key')} is set, and {missing} is not")
        return _pem_key(keys, inline.encode(), chain.encode(), "ssl.keystore.key")
    location = keys.get("ssl.keystore.location")
    if not location:
        return None
    data = _read(keys.name("ssl.keystore.location"), location)
    if keys.get("ssl.keystore.type").upper() == PEM:
        if keys.get("ssl.keystore.password"):
            password, own = keys.name("ssl.keystore.password"), keys.name("ssl.key.password")
            raise InvalidSecurityError(f"{password} has no use with PEM: a key's own is {own}")
        return _pem_key(keys, data, data, "ssl.keystore.location")
    return _pkcs12_key(data, location, keys)


def trusted_certificates(keys: TlsKeys) -> str | None:
    """Return the PEM certificates of ``ssl.truststore.*``, None if there is none; raises InvalidSecurityError."""
    if inline := keys.get("ssl.truststore.certificates"):
        _only_pem(keys, "ssl.truststore.type", "ssl.truststore.certificates")
        return _certificates(inline.encode(), keys.name("ssl.truststore.certificates"))
    location = keys.get("ssl.truststore.location")
    if not location:
        return None
    name = keys.name("ssl.truststore.location")
    data = _read(name, location)
    if keys.get("ssl.truststore.type").upper() == PEM:
        return _certificates(data, name)
    return _pkcs12_certificates(data, location, keys)


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


def _only_pem(keys: TlsKeys, type_key: str, inline_key: str) -> None:
    if keys.get(type_key).upper() != PEM:
        raise InvalidSecurityError(f"{keys.name(inline_key)} is set: {keys.name(type_key)} must be PEM")


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


def _pem_key(keys: TlsKeys, key_data: bytes, chain: bytes, key: str) -> KeyStore:
    password, name = keys.get("ssl.key.password"), keys.name(key)
    if b"PRIVATE KEY-----" not in key_data:
        raise InvalidSecurityError(f"{name} has no private key in the PEM format")
    if any(mark in key_data for mark in _ENCRYPTED) and not password:
        missing = keys.name("ssl.key.password")
        raise InvalidSecurityError(f"the private key of {name} is encrypted: {missing} is missing")
    certificates_of(chain, keys.name("ssl.keystore.certificate.chain") if key == "ssl.keystore.key" else name)
    return KeyStore(key_data, password, chain)


def _pkcs12_key(data: bytes, location: str, keys: TlsKeys) -> KeyStore:
    from_store = _pkcs12(data, location, keys, "ssl.keystore")
    if from_store.key is None or from_store.cert is None:
        name = keys.name("ssl.keystore.location")
        raise InvalidSecurityError(f"{name}: {location} has no private key with a certificate")
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = from_store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    chain = [from_store.cert.certificate, *(each.certificate for each in from_store.additional_certs)]
    return KeyStore(key, "", b"".join(each.public_bytes(Encoding.PEM) for each in chain))


def _pkcs12_certificates(data: bytes, location: str, keys: TlsKeys) -> str:
    from_store = _pkcs12(data, location, keys, "ssl.truststore")
    from cryptography.hazmat.primitives.serialization import Encoding

    found = [each.certificate for each in from_store.additional_certs]
    if from_store.cert is not None:
        found.append(from_store.cert.certificate)
    if not found:
        raise InvalidSecurityError(f"{keys.name('ssl.truststore.location')}: {location} has no certificate")
    return b"".join(each.public_bytes(Encoding.PEM) for each in found).decode("ascii")


if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates


def _pkcs12(data: bytes, location: str, keys: TlsKeys, store: str) -> "PKCS12KeyAndCertificates":
    """Open a PKCS12 store; the keys about it begin with ``store``."""
    name, place = keys.name(f"{store}.location"), f"{keys.name(f'{store}.location')}: {location}"
    if data.startswith(JKS_MAGIC):
        raise InvalidSecurityError(
            f"{place} is in the old JKS format, which only Java reads; convert it:"
            f" keytool -importkeystore -srckeystore {location} -destkeystore {location}.p12 -deststoretype PKCS12"
        )
    if data.lstrip().startswith(_BEGIN):
        raise InvalidSecurityError(f"{place} is a PEM file: set {keys.name(f'{store}.type')} to PEM")
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
    except ImportError:
        raise needs_extra(name) from None
    password = f"{store}.password"
    try:
        return load_pkcs12(data, keys.get(password).encode())
    except (ValueError, UnsupportedAlgorithm):
        problem = f"is no PKCS12 store, or {keys.name(password)} does not match"
        raise InvalidSecurityError(f"{place} {problem}") from None
