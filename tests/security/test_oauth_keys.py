"""Where the issuer's keys come from: which addresses are read, when, and what a failure leaves."""

import asyncio
import json
import logging
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from joserfc.jwk import ECKey

from kafkapy.security.certificates import Authority
from kafkapy.security.errors import InvalidSecurityError
from kafkapy.security.oauth.addresses import SIZE_LIMIT, Address, AddressNotReadError, check_allowed, parse_address
from kafkapy.security.oauth.keys import RETRY_MS, UNKNOWN_KEY_MS, IssuerKeys
from kafkapy.testing.clock import ManualClock
from tests.security.http_server import serving
from tests.server.harness import run, until


def key_set(*names: str) -> bytes:
    return json.dumps(
        {"keys": [{**ECKey.generate_key("P-256").as_dict(private=False), "kid": name} for name in names]}
    ).encode()


def address_of(url: str, **options: str) -> Address:
    return parse_address("KEY", url, {name.replace("_", "."): text for name, text in options.items()}, 0)


def read(url: str, machine_s: Callable[[], float] = lambda: 0.0, **options: str) -> bytes:
    return address_of(url, **options).read(machine_s)


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "http://169.254.169.254/latest",
        "https://issuer.test/jwks.json?",
        "https://ISSUER.test/jwks.json",
    ],
)
def test_an_address_that_is_not_allowed_is_refused(url: str) -> None:
    for allowed in ([], ["https://issuer.test/jwks.json"], ["*"], ["https://issuer.test"]):
        with pytest.raises(InvalidSecurityError, match="CVE-2025-27817") as refused:
            check_allowed("KEY", url, allowed)
        assert "kafkapy.sasl.oauthbearer.allowed.urls" in str(refused.value)


@pytest.mark.parametrize(
    "url",
    ["", "x", "ftp://host/x", "data:,{}", "jar:file:///x", "file://host/x", "file:x", "http://", "https:///x", "http://host:0/",
     "http://host:99999/", "http://user:secret@host/", "http://[::1/"],
)  # fmt: skip
def test_an_address_of_another_form_is_refused(url: str) -> None:
    with pytest.raises(InvalidSecurityError, match="is no https, http or file URL") as refused:
        address_of(url)
    assert "secret" not in str(refused.value)


def test_files_and_servers_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a key set.json"
    path.write_bytes(b"{}")
    assert read(path.as_uri()) == b"{}"
    with serving() as server:
        server.pages["/keys?a=b"] = 200, b"x" * SIZE_LIMIT
        assert read(f"{server.url}/keys?a=b") == b"x" * SIZE_LIMIT


def test_what_can_not_be_read_says_why(tmp_path: Path) -> None:
    large = tmp_path / "large"
    large.write_bytes(bytes(SIZE_LIMIT + 1))
    with serving() as server:
        secret = tmp_path / "secret"
        secret.write_bytes(b"secret")
        server.pages |= {
            "/large": (200, bytes(SIZE_LIMIT + 1)),
            "/missing": (404, b"secret"),
            "/moved": (302, secret.as_uri().encode()),
            "/": (200, b"x"),
        }
        for url, problem in (
            (large.as_uri(), "more than 262144 bytes"),
            ((tmp_path / "missing").as_uri(), "No such file"),
            (tmp_path.as_uri(), "Is a directory"),
            (f"{server.url}/large", "more than 262144 bytes"),
            (f"{server.url}/missing", "status 404"),
            (f"{server.url}/moved", "status 302"),
        ):
            with pytest.raises(AddressNotReadError, match=problem):
                read(url)
        ticks = iter(range(0, 1000, 11))
        with pytest.raises(AddressNotReadError, match="longer than 10 s"):
            read(server.url, lambda: next(ticks))
    with pytest.raises(AddressNotReadError, match="refused"):
        read(server.url)


def knows(keys: IssuerKeys, name: str) -> bool:
    """Whether a key is known, without a read if it is not."""
    return any(key.key_id == name for key in keys._keys)


def test_a_server_has_to_prove_who_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = Authority("authority", time.time_ns() // 1_000_000)
    pair = tmp_path / "server.pem"
    pair.write_text("".join(authority.issue("issuer", ["127.0.0.1"])))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair)
    with serving(context) as server:
        server.pages["/"] = 200, b"x"
        with pytest.raises(AddressNotReadError, match=r"(?i)certificate.verify.failed"):
            read(server.url)
        assert server.asked == []
        trusted = tmp_path / "ca.pem"
        trusted.write_text(authority.certificate)
        assert read(server.url, ssl_truststore_type="PEM", ssl_truststore_location=str(trusted)) == b"x"
        with pytest.raises(AddressNotReadError, match=r"(?i)certificate.verify.failed"):  # it is of another host
            read(server.url.replace("127.0.0.1", "localhost"), ssl_truststore_type="PEM",
                 ssl_truststore_location=str(trusted), ssl_endpoint_identification_algorithm="")  # fmt: skip
        monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
        assert read(server.url) == b"x"


def test_a_trust_store_that_can_not_be_read_is_named() -> None:
    with pytest.raises(
        InvalidSecurityError, match=r"login module of OAUTHBEARER: ssl\.truststore\.location: '/x' can't"
    ):
        address_of("https://issuer.test/", ssl_truststore_location="/x")


def test_a_file_is_read_at_the_start_and_again_when_it_is_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        path = tmp_path / "jwks.json"
        keys = IssuerKeys(address_of(path.as_uri()), 60_000, clock)
        with pytest.raises(InvalidSecurityError, match="can't be read: No such file"):
            keys.start()
        path.write_bytes(key_set("old"))
        keys.start()
        assert keys.find(lambda key: key.key_id == "old")
        path.write_bytes(key_set("new"))
        clock.advance(59_999)
        assert not keys._is_reading
        clock.advance(1)
        await until(lambda: knows(keys, "new"))
        assert not knows(keys, "old")
        path.write_bytes(b"secret")
        clock.advance(60_000)
        await until(lambda: not keys._is_reading)
        assert knows(keys, "new")
        assert "it is no JSON Web Key Set" in caplog.text
        assert "secret" not in caplog.text
        path.write_bytes(key_set("third"))
        clock.advance(RETRY_MS)
        await until(lambda: knows(keys, "third"))
        keys.close()
        clock.advance(600_000)
        assert not keys._is_reading
        assert keys.find(lambda key: key.key_id == "unknown") is None
        assert not keys._is_reading

    run(scenario())


def test_a_server_that_is_not_there_is_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)

    async def scenario() -> None:
        with serving() as server:
            url = f"{server.url}/keys"
            server.pages["/keys"] = 503, b""
            clock = ManualClock()
            keys = IssuerKeys(address_of(url), 3_600_000, clock)
            keys.start()
            await until(lambda: not keys._is_reading)
            assert "status 503" in caplog.text
            server.pages["/keys"] = 200, key_set("a", "b")
            clock.advance(RETRY_MS)
            await until(lambda: knows(keys, "b"))
            assert keys.find(lambda key: key.key_id in ("a", "b")) is None  # two fit
            assert server.asked == ["/keys"] * 2
            keys.close()

    run(scenario())


def test_unknown_keys_have_the_set_read_once_a_minute() -> None:
    async def scenario() -> None:
        with serving() as server:
            url = f"{server.url}/keys"
            server.pages["/keys"] = 200, key_set("a")
            clock = ManualClock()
            keys = IssuerKeys(address_of(url), 3_600_000, clock)
            keys.start()
            await until(lambda: knows(keys, "a"))
            server.pages["/keys"] = 200, key_set("a", "b")
            for _ in range(1000):
                assert keys.find(lambda key: key.key_id == "b") is None
            await until(lambda: knows(keys, "b"))
            for _ in range(1000):
                assert keys.find(lambda key: key.key_id == "c") is None
            clock.advance(UNKNOWN_KEY_MS - 1)
            assert keys.find(lambda key: key.key_id == "c") is None
            assert not keys._is_reading
            assert len(server.asked) == 2
            clock.advance(1)
            assert keys.find(lambda key: key.key_id == "c") is None
            await until(lambda: len(server.asked) == 3 and not keys._is_reading)
            keys.close()

    run(scenario())


def test_a_read_that_ends_after_the_loop_is_harmless() -> None:
    with serving() as server:
        url = f"{server.url}/keys"
        server.pages["/keys"] = 200, key_set("a")
        keys = IssuerKeys(address_of(url), 1, ManualClock())

        async def scenario() -> None:
            keys.start()

        server.may_answer.clear()
        asyncio.run(scenario())
        server.may_answer.set()
        for thread in threading.enumerate():
            if thread.name == "kafkapy-issuer-keys":
                thread.join()
        assert not knows(keys, "a")
