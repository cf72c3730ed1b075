import ssl
import sys
import time
from pathlib import Path

import pytest

from kafkapy.security.certificates import Authority
from kafkapy.security.errors import AuthenticationFailedError, InvalidSecurityError
from kafkapy.security.zookeeper import DigestLogin, has_certificate, zookeeper_security
from tests.metadata import digest_server

NOW_MS = time.time_ns() // 1_000_000
NETTY = "org.apache.zookeeper.ClientCnxnSocketNetty"
TLS = {
    "zookeeper.ssl.client.enable": "true",
    "zookeeper.clientCnxnSocket": NETTY,
    "zookeeper.ssl.protocol": "TLSv1.2",
    "zookeeper.ssl.endpoint.identification.algorithm": "HTTPS",
}
AUTHORITY = Authority("authority", NOW_MS)
LOGIN = 'org.apache.zookeeper.server.auth.DigestLoginModule required username="kafka" password="kafka-secret";'
OPTION = "-Djava.security.auth.login.config="


@pytest.fixture
def stores(tmp_path: Path) -> dict[str, str]:
    issued = AUTHORITY.issue("broker")
    (tmp_path / "broker.pem").write_text(issued.key + issued.certificate)
    (tmp_path / "authority.pem").write_text(AUTHORITY.certificate)
    return {
        "zookeeper.ssl.keystore.location": str(tmp_path / "broker.pem"),
        "zookeeper.ssl.truststore.location": str(tmp_path / "authority.pem"),
    }


def _context(values: dict[str, str]) -> ssl.SSLContext:
    context = zookeeper_security(TLS | values, "", NOW_MS).tls
    assert context is not None
    return context


def test_nothing_is_secured_without_settings() -> None:
    values = {"zookeeper.ssl.client.enable": "false", "zookeeper.ssl.keystore.location": "/nowhere"}
    assert zookeeper_security(values, "-Xmx1G -Dother=1", NOW_MS) == (None, None, (), False)
    assert not has_certificate(values)


def test_stores_protocols_and_the_check_of_names_are_those_of_the_keys(stores: dict[str, str]) -> None:
    context = _context(stores)
    assert has_certificate(TLS | stores)
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert [each["subject"] for each in context.get_ca_certs()] == [((("commonName", "authority"),),)]
    assert context.minimum_version == context.maximum_version == ssl.TLSVersion.TLSv1_2
    newer = _context({**stores, "zookeeper.ssl.enabled.protocols": "TLSv1.2,TLSv1.3"})
    assert newer.maximum_version is ssl.TLSVersion.TLSv1_3
    unchecked = _context({**stores, "zookeeper.ssl.endpoint.identification.algorithm": ""})
    assert not unchecked.check_hostname
    assert unchecked.verify_mode is ssl.CERT_REQUIRED


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"zookeeper.clientCnxnSocket": ""}, f"set zookeeper.clientCnxnSocket to {NETTY}"),
        (
            {"zookeeper.ssl.truststore.location": "/no/ssl.keystore"},
            r"^zookeeper\.ssl\.truststore\.location: '/no/ssl\.keystore' can't be read: No such file",
        ),
        ({"zookeeper.ssl.keystore.type": "PKCS12"}, "^zookeeper.ssl.keystore.loc.*: set zookeeper.ssl.keystore.type"),
        ({"zookeeper.ssl.protocol": "TLSv1.1"}, "^zookeeper.ssl.enabled.protocols names TLSv1.1"),
        ({"zookeeper.ssl.cipher.suites": "TLS_NO_WITH_SUCH"}, "^zookeeper.ssl.cipher.suites names"),
    ],
)  # fmt: skip
def test_a_refused_setting_is_named_as_the_user_knows_it(
    stores: dict[str, str], changes: dict[str, str], message: str
) -> None:
    with pytest.raises(InvalidSecurityError, match=message):
        _context(stores | changes)


def test_the_password_of_an_encrypted_key_is_that_of_the_store(stores: dict[str, str]) -> None:
    from cryptography.hazmat.primitives import serialization

    path = Path(stores["zookeeper.ssl.keystore.location"])
    key = serialization.load_pem_private_key(path.read_bytes(), None)
    encrypted = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"key-secret"),
    )
    path.write_bytes(encrypted + path.read_bytes().partition(b"-----END PRIVATE KEY-----\n")[2])
    _context({**stores, "zookeeper.ssl.keystore.password": "key-secret"})
    with pytest.raises(InvalidSecurityError, match=r"encrypted: zookeeper\.ssl\.keystore\.password is missing"):
        _context(stores)
    with pytest.raises(InvalidSecurityError, match=r"zookeeper\.ssl\.keystore\.password does not match") as refused:
        _context({**stores, "zookeeper.ssl.keystore.password": "wrong-secret"})
    assert "wrong-secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("option", "section"),
    [("{}", "Client"), ("={}", "Client"), ("file:{}", "Client"), ("{} -Dzookeeper.sasl.clientconfig=Mine", "Mine")],
)
def test_user_and_password_are_those_of_the_jaas_file(tmp_path: Path, option: str, section: str) -> None:
    path = tmp_path / "broker.jaas"
    path.write_text(f"KafkaServer {{ a.B required; c.D optional; }};\n{section} {{ {LOGIN} }};")
    login = zookeeper_security({}, f"-Xmx1G {OPTION}{option.format(path)}", NOW_MS).login
    assert login is not None
    assert (login.options["username"], login.options["password"]) == ("kafka", "kafka-secret")
    assert f"section {section} of {path}" in login.source


def test_a_file_without_the_section_has_no_login(tmp_path: Path) -> None:
    path = tmp_path / "broker.jaas"
    path.write_text("KafkaServer { a.B required; };")
    assert zookeeper_security({}, f"{OPTION}{path}", NOW_MS).login is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "can't be read: No such file or directory"),
        (b"\xff", "can't be read: it is no text in UTF-8"),
        (b"Client { kafka-secret };", "section Client of .* can't be read: it must be CLASS required"),
        (b"Client { com.sun.security.auth.module.Krb5LoginModule required; };", "Krb5LoginModule: kafkapy has only"),
        (LOGIN.replace("kafka-secret", "").join(("Client {", "};")).encode(), "needs a username and a password"),
        (LOGIN.replace('"kafka"', '"käfka"').join(("Client {", "};")).encode(), "of ASCII characters alone"),
    ],
)
def test_a_login_that_can_not_be_used_is_refused(tmp_path: Path, text: bytes | None, message: str) -> None:
    path = tmp_path / "broker.jaas"
    if text is not None:
        path.write_bytes(text)
    with pytest.raises(InvalidSecurityError, match=message) as refused:
        zookeeper_security({}, f"{OPTION}{path}", NOW_MS)
    assert "java.security.auth.login.config of KAFKA_OPTS" in str(refused.value)
    assert "secret" not in str(refused.value)


def test_options_that_can_not_be_read_are_refused() -> None:
    with pytest.raises(InvalidSecurityError, match="KAFKA_OPTS can't be read: a quotation mark is not closed"):
        zookeeper_security({}, f'{OPTION}"/a b', NOW_MS)


def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "puresasl", None)
    with pytest.raises(InvalidSecurityError, match=r"^there needs the package pure-sasl.*pip install '.*security\]'$"):
        DigestLogin("kafka", "kafka-secret", "there")


def test_client_and_server_prove_to_each_other_that_they_know_the_password() -> None:
    tokens = DigestLogin("kafka", "kafka-secret", "there").tokens()
    assert next(tokens) == b""
    response = tokens.send(digest_server.CHALLENGE)
    assert b"kafka-secret" not in response
    answer = digest_server.answer(response, "kafka", "kafka-secret")
    assert answer is not None
    with pytest.raises(StopIteration):
        tokens.send(answer)


@pytest.mark.parametrize(
    "answers", [[b"rspauth=00"], [b""], [b"\xff=1"], [digest_server.CHALLENGE, b"rspauth=00"], [b'nonce="1",qop="x"']]
)
def test_a_server_that_does_not_know_the_mechanism_or_the_password_is_left(answers: list[bytes]) -> None:
    tokens = DigestLogin("kafka", "kafka-secret", "there").tokens()
    next(tokens)
    for answer in answers[:-1]:
        tokens.send(answer)
    with pytest.raises(AuthenticationFailedError, match="it does not authenticate by DIGEST-MD5"):
        tokens.send(answers[-1])
