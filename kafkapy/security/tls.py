"""TLS contexts from Kafka's ``ssl.*`` keys, for the broker's listeners and for connections to brokers."""

import os
import ssl
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final

from kafkapy.security.errors import InvalidSecurityError
from kafkapy.security.stores import KeyStore, Values, certificates_of, key_store, trusted_certificates

_VERSIONS: Final = {
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
"""The versions that may be enabled. TLS 1.0 and 1.1 are broken, and Apache Kafka 2.7 enables neither by default."""
_CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}

_OWN_DESCRIPTORS: Final = "/proc/self/fd"


def server_context(values: Values, now_ms: int) -> ssl.SSLContext:
    """Return the context of a listener; ``ssl.client.auth`` says whether clients show certificates.

    Raises InvalidSecurityError for a missing, unreadable, mismatched or expired key store.
    """
    context = _context(ssl.PROTOCOL_TLS_SERVER, values)
    keys = key_store(values)
    if keys is None:
        raise InvalidSecurityError("a TLS listener needs a certificate: ssl.keystore.location is not set")
    _load_key(context, keys, now_ms)
    client_auth = values.get("ssl.client.auth") or "none"
    context.verify_mode = _CLIENT_AUTH[client_auth]
    if context.verify_mode is not ssl.CERT_NONE:
        _trust(context, values, ssl.Purpose.CLIENT_AUTH)
    return context


def client_context(values: Values, now_ms: int) -> ssl.SSLContext:
    """Return the context of connections to brokers, whose certificates are always checked.

    Their host names are checked too, unless ``ssl.endpoint.identification.algorithm`` is empty.
    Raises InvalidSecurityError.
    """
    context = _context(ssl.PROTOCOL_TLS_CLIENT, values)
    context.check_hostname = values.get("ssl.endpoint.identification.algorithm", "https") != ""
    _trust(context, values, ssl.Purpose.SERVER_AUTH)
    keys = key_store(values)
    if keys is not None:
        _load_key(context, keys, now_ms)
    return context


def _context(protocol: int, values: Values) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    names = _list(values, "ssl.enabled.protocols") or list(_VERSIONS)
    unknown = [name for name in names if name not in _VERSIONS]
    if unknown:
        allowed = " and ".join(_VERSIONS)
        raise InvalidSecurityError(f"ssl.enabled.protocols names {unknown[0]}: kafkapy has {allowed}")
    versions = sorted(_VERSIONS[name] for name in names)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    suites = _list(values, "ssl.cipher.suites")
    if suites:
        _choose_ciphers(context, suites)
    return context


def _list(values: Values, key: str) -> list[str]:
    return [item.strip() for item in values.get(key, "").split(",") if item.strip()]


def _choose_ciphers(context: ssl.SSLContext, suites: list[str]) -> None:
    """Enable ``suites``, which have the names of the TLS standards, as in Java.

    Python can't choose among the suites of TLS 1.3. If only older ones are listed, TLS 1.3 is off, as in Java.
    """
    newer = [suite for suite in suites if "_WITH_" not in suite]
    if newer:
        raise InvalidSecurityError(
            f"ssl.cipher.suites names {newer[0]}: the suites of TLS 1.3 can't be chosen, all of them are enabled;"
            " choose suites of TLS 1.2, or none"
        )
    if context.minimum_version is ssl.TLSVersion.TLSv1_3:
        raise InvalidSecurityError("ssl.cipher.suites names only suites of TLS 1.2, which ssl.enabled.protocols lacks")
    for suite in suites:
        try:
            context.set_ciphers(openssl_name(suite))  # a list may have unknown ones beside known ones
        except (ssl.SSLError, ValueError):
            raise InvalidSecurityError(f"ssl.cipher.suites names {suite!r}, which OpenSSL does not have") from None
    context.set_ciphers(":".join(openssl_name(suite) for suite in suites))
    context.maximum_version = ssl.TLSVersion.TLSv1_2


def openssl_name(suite: str) -> str:
    """Return OpenSSL's name of a suite: ECDHE-RSA-AES128-GCM-SHA256 for TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256."""
    exchange, _, cipher = suite.partition("_")[2].partition("_WITH_")
    parts = cipher.replace("AES_", "AES").replace("_CBC", "").replace("POLY1305_SHA256", "POLY1305").split("_")
    return "-".join([*([] if exchange == "RSA" else exchange.split("_")), *parts])


def _trust(context: ssl.SSLContext, values: Values, purpose: ssl.Purpose) -> None:
    trusted = trusted_certificates(values)
    if trusted is None:
        context.load_default_certs(purpose)
        return
    try:
        context.load_verify_locations(cadata=trusted)
    except ssl.SSLError as error:
        raise InvalidSecurityError(f"ssl.truststore has a certificate that can't be used: {error.reason}") from None


def _load_key(context: ssl.SSLContext, keys: KeyStore, now_ms: int) -> None:
    own = certificates_of(keys.certificates, "ssl.keystore.location")[0]
    end = own.not_valid_after_utc
    if end < datetime.fromtimestamp(now_ms / 1000, UTC):
        raise InvalidSecurityError(f"the certificate of ssl.keystore expired on {end:%Y-%m-%d %H:%M:%S} UTC")
    try:
        with _as_file(keys.key.strip() + b"\n" + keys.certificates.strip() + b"\n") as path:
            context.load_cert_chain(path, password=lambda: keys.password)
    except (ssl.SSLError, ValueError):  # ValueError: a password that is too long
        raise InvalidSecurityError(
            "ssl.keystore has a private key that can't be used: ssl.key.password does not match it, or the certificate"
        ) from None


@contextmanager
def _as_file(data: bytes) -> Iterator[str]:
    """Yield the path of a file with ``data``: Python reads keys from files alone.

    On Linux the file is in memory, so that a key does not reach a disk. Elsewhere it belongs to this user only, and
    exists for a moment.
    """
    if sys.platform == "linux" and os.path.isdir(_OWN_DESCRIPTORS):
        descriptor = os.memfd_create("kafkapy")
        path, is_on_disk = f"{_OWN_DESCRIPTORS}/{descriptor}", False
    else:
        descriptor, path = tempfile.mkstemp(prefix="kafkapy-", suffix=".pem")
        is_on_disk = True
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            yield path
    finally:
        if is_on_disk:
            os.unlink(path)
