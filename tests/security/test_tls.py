import ssl
import sys
import tempfile
from pathlib import Path

import pytest

from kafkapy.security import tls
from kafkapy.security.certificates import LOCAL_HOSTS, Authority
from kafkapy.security.errors import InvalidSecurityError
from kafkapy.security.tls import client_context, openssl_name, server_context
from tests.security.test_stores import AUTHORITY, CERTIFICATE, ENCRYPTED, KEY, NOW_MS

TRUST = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": AUTHORITY.certificate}
KEYS = {"ssl.keystore.type": "PEM", "ssl.keystore.key": KEY, "ssl.keystore.certificate.chain": CERTIFICATE}


def handshake(
    server: ssl.SSLContext, client: ssl.SSLContext, name: str = "localhost"
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Connect both sides in memory; raises what one of them raises."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        server.wrap_bio(to_server, to_client, server_side=True),
        client.wrap_bio(to_client, to_server, server_hostname=name),
    )
    for _ in range(6):
        for end in reversed(ends):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert ends[1].version() is not None
    return ends


def _values(**changes: str) -> dict[str, str]:
    """The settings of both sides; the certificates are of the present time."""
    return {**TRUST, **KEYS, **{name.replace("_", "."): value for name, value in changes.items()}}


@pytest.fixture(autouse=True)
def _present(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenSSL compares with the real time: certificates are made for it."""
    import time

    authority = Authority("present", time.time_ns() // 1_000_000)
    key, certificate = authority.issue("broker", LOCAL_HOSTS)
    monkeypatch.setitem(TRUST, "ssl.truststore.certificates", authority.certificate)
    monkeypatch.setitem(KEYS, "ssl.keystore.key", key)
    monkeypatch.setitem(KEYS, "ssl.keystore.certificate.chain", certificate)


def test_a_client_trusts_the_broker() -> None:
    server, client = handshake(server_context(_values(), NOW_MS), client_context(TRUST, NOW_MS))
    assert client.version() == "TLSv1.3"
    assert server.getpeercert() is None


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "other.example"])
def test_the_broker_must_have_the_name(name: str) -> None:
    server = server_context(_values(), NOW_MS)
    if name == "other.example":
        with pytest.raises(ssl.SSLCertVerificationError):
            handshake(server, client_context(TRUST, NOW_MS), name)
        handshake(server, client_context({**TRUST, "ssl.endpoint.identification.algorithm": ""}, NOW_MS), name)
    else:
        handshake(server, client_context(TRUST, NOW_MS), name)


def test_a_client_does_not_trust_another_authority() -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(server_context(_values(), NOW_MS), client_context({}, NOW_MS))


@pytest.mark.parametrize(("auth", "with_certificate", "is_accepted"), [
    ("none", False, True), ("requested", False, True), ("requested", True, True),
    ("required", True, True), ("required", False, False),
])  # fmt: skip
def test_client_certificates(auth: str, with_certificate: bool, is_accepted: bool) -> None:
    server = server_context(_values(ssl_client_auth=auth), NOW_MS)
    client = client_context(_values() if with_certificate else TRUST, NOW_MS)
    if not is_accepted:
        with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
            handshake(server, client)
        return
    at_server, _ = handshake(server, client)
    assert (at_server.getpeercert(binary_form=True) is not None) == with_certificate


def test_versions_and_suites_are_chosen() -> None:
    old = client_context({**TRUST, "ssl.enabled.protocols": "TLSv1.2"}, NOW_MS)
    suites = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
    _, client = handshake(server_context(_values(ssl_cipher_suites=suites), NOW_MS), client_context(TRUST, NOW_MS))
    assert (client.version(), client.cipher()[0]) == ("TLSv1.2", "ECDHE-ECDSA-AES256-GCM-SHA384")  # type: ignore[index]  # connected
    _, client = handshake(server_context(_values(), NOW_MS), old)
    assert client.version() == "TLSv1.2"
    with pytest.raises(ssl.SSLError):
        handshake(server_context(_values(ssl_enabled_protocols="TLSv1.3"), NOW_MS), old)


@pytest.mark.parametrize(("suite", "name"), [
    ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
    ("TLS_RSA_WITH_AES_256_CBC_SHA", "AES256-SHA"),
    ("TLS_DHE_RSA_WITH_AES_128_CBC_SHA256", "DHE-RSA-AES128-SHA256"),
    ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
])  # fmt: skip
def test_suites_have_openssls_names(suite: str, name: str) -> None:
    assert openssl_name(suite) == name
    assert name in {each["name"] for each in ssl.create_default_context().get_ciphers()} or "-SHA" in name


@pytest.mark.parametrize(("changes", "problem"), [
    ({"ssl.keystore.key": ""}, r"ssl\.keystore\.location is not set"),
    ({"ssl.enabled.protocols": "TLSv1.1"}, r"ssl\.enabled\.protocols names TLSv1\.1"),
    ({"ssl.cipher.suites": "TLS_AES_256_GCM_SHA384"}, "suites of TLS 1.3 can't be chosen"),
    ({"ssl.cipher.suites": "TLS_X_WITH_Y"}, "names 'TLS_X_WITH_Y', which OpenSSL does not have"),
    ({"ssl.cipher.suites": "TLS_RSA_WITH_AES_128_CBC_SHA,TLS_X_WITH_Y"}, "names 'TLS_X_WITH_Y'"),
    ({"ssl.cipher.suites": "TLS_X\0_WITH_Y"}, "which OpenSSL does not have"),
    ({"ssl.keystore.key": ENCRYPTED, "ssl.key.password": "x" * 2000}, "private key that can't be used"),
    ({"ssl.cipher.suites": "TLS_RSA_WITH_AES_128_CBC_SHA", "ssl.enabled.protocols": "TLSv1.3"}, "only suites"),
    ({"ssl.keystore.certificate.chain": CERTIFICATE}, "private key that can't be used"),
    ({"ssl.keystore.key": ENCRYPTED, "ssl.key.password": "wrong-one"}, "private key that can't be used"),
])  # fmt: skip
def test_settings_that_can_not_be_used_are_refused(changes: dict[str, str], problem: str) -> None:
    with pytest.raises(InvalidSecurityError, match=problem) as refused:
        server_context({**_values(), **changes}, NOW_MS)
    assert "wrong-one" not in str(refused.value)


def test_an_expired_certificate_is_refused() -> None:
    with pytest.raises(InvalidSecurityError, match=r"ssl\.keystore expired on 2\d\d\d-"):
        server_context(_values(), NOW_MS + 100 * 366 * 86_400_000)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has files in memory")
def test_a_private_key_does_not_reach_a_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", f"{tmp_path}/missing")
    assert server_context(_values(), NOW_MS)


def test_a_private_key_is_removed_where_it_has_to_be_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", f"{tmp_path}")
    monkeypatch.setattr(tls, "_OWN_DESCRIPTORS", f"{tmp_path}/missing")
    assert server_context(_values(), NOW_MS)
    with pytest.raises(InvalidSecurityError, match=r"ssl\.key\.password does not match"):
        server_context({**_values(), "ssl.keystore.key": ENCRYPTED, "ssl.key.password": "wrong"}, NOW_MS)
    assert list(tmp_path.iterdir()) == []
