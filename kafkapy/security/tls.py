"""TLS contexts from Kafka's ``ssl.*`` keys, for the broker's listeners and for connections to brokers."""

import os
import ssl
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final

from kafkapy.security.errors import InvalidSecurityError
from kafkapy.security.stores import KeyStore, TlsKeys, Values, certificates_of, key_store, trusted_certificates

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
    keys = TlsKeys(values)
    context = _context(ssl.PROTOCOL_TLS_SERVER, keys)
    store = key_store(keys)
    if store is None:
        raise InvalidSecurityError("a TLS listener needs a certificate: ssl.keystore.location is not set")
    _load_key(context, keys, store, now_ms)
    client_auth = keys.get("ssl.client.auth", "none")
    context.verify_mode = _CLIENT_AUTH[client_auth]
    if context.verify_mode is not ssl.CERT_NONE:
        _trust(context, keys, ssl.Purpose.CLIENT_AUTH)
    return context


def client_context(values: Values, now_ms: int, names: Mapping[str, str] | None = None) -> ssl.SSLContext:
    """Return the context of connections to brokers, whose certificates are always checked.

    Their host names are checked too, unless ``ssl.endpoint.identification.algorithm`` is empty. ``names`` are those of
    the keys in errors, see ``TlsKeys``. Raises InvalidSecurityError.
    """
    keys = TlsKeys(values, names or {})
    context = _context(ssl.PROTOCOL_TLS_CLIENT, keys)
    context.check_hostname = values.get("ssl.endpoint.identification.algorithm", "https") != ""
    _trust(context, keys, ssl.Purpose.SERVER_AUTH)
    store = key_store(keys)
    if store is not None:
        _load_key(context, keys, store, now_ms)
    return context


def _context(protocol: int, keys: TlsKeys) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    names = _list(keys, "ssl.enabled.protocols") or list(_VERSIONS)
    unknown = [name for name in names if name not in _VERSIONS]
    if unknown:
        key, allowed = keys.name("ssl.enabled.protocols"), " and ".join(_VERSIONS)
        raise InvalidSecurityError(f"{key} names {unknown[0]}: kafkapy has {allowed}")
    versions = sorted(_VERSIONS[name] for name in names)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    suites = _list(keys, "ssl.cipher.suites")
    if suites:
        _choose_ciphers(context, suites, keys)
    return context


def _list(keys: TlsKeys, key: str) -> list[str]:
    return [item.strip() for item in keys.get(key).split(",") if item.strip()]


def _choose_ciphers(context: ssl.SSLContext, suites: list[str], keys: TlsKeys) -> None:
    """Enable ``suites``, which have the names of the TLS standards, as in Java.

    Python can't choose among the suites of TLS 1.3. If only older ones are listed, TLS 1.3 is off, as in Java.
    """
    key = keys.name("ssl.cipher.suites")
    newer = [suite for suite in suites if "_WITH_" not in suite]
    if newer:
        raise InvalidSecurityError(
            f"{key} names {newer[0]}: the suites of TLS 1.3 can't be chosen, all of them are enabled;"
            " choose suites of TLS 1.2, or none"
        )
    if context.minimum_version is ssl.TLSVersion.TLSv1_3:
        lacking = keys.name("ssl.enabled.protocols")
        raise InvalidSecurityError(f"{key} names only suites of TLS 1.2, which {lacking} lacks")
    for suite in suites:
        try:
            context.set_ciphers(openssl_name(suite))  # a list may have unknown ones beside known ones
        except (ssl.SSLError, ValueError):
            raise InvalidSecurityError(f"{key} names {suite!r}, which OpenSSL does not have") from None
    context.set_ciphers(":".join(openssl_name(suite) for suite in suites))
    context.maximum_version = ssl.TLSVersion.TLSv1_2


def openssl_name(suite: str) -> str:
    """Return OpenSSL's name of a suite: ECDHE-RSA-AES128-GCM-SHA256 for TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256."""
    exchange, _, cipher = suite.partition("_")[2].partition("_WITH_")
    parts = cipher.replace("AES_", "AES").replace("_CBC", "").replace("POLY1305_SHA256", "POLY1305").split("_")
    return "-".join([*([] if exchange == "RSA" else exchange.split("_")), *parts])


def _trust(context: ssl.SSLContext, keys: TlsKeys, purpose: ssl.Purpose) -> None:
    trusted = trusted_certificates(keys)
    if trusted is None:
        context.load_default_certs(purpose)
        return
    try:
        context.load_verify_locations(cadata=trusted)
    except ssl.SSLError as error:
        store = keys.name("ssl.truststore")
        raise InvalidSecurityError(f"{store} has a certificate that can't be used: {error.reason}") from None


def _load_key(context: ssl.SSLContext, keys: TlsKeys, store: KeyStore, now_ms: int) -> None:
    name = keys.name("ssl.keystore")
    own = certificates_of(store.certificates, keys.name("ssl.keystore.location"))[0]
    end = own.not_valid_after_utc
    if end < datetime.fromtimestamp(now_ms / 1000, UTC):
        raise InvalidSecurityError(f"the certificate of {name} expired on {end:%Y-%m-%d %H:%M:%S} UTC")
    try:
        with _as_file(store.key.strip() + b"\n" + store.certificates.strip() + b"\n") as path:
            context.load_cert_chain(path, password=lambda: store.password)
    except (ssl.SSLError, ValueError):  # ValueError: a password that is too long
        password = keys.name("ssl.key.password")
        raise InvalidSecurityError(
            f"{name} has a private key that can't be used: {password} does not match it, or the certificate"
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
