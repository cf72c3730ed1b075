"""TLS and SASL towards a ZooKeeper, from Kafka's ``zookeeper.*`` keys and the JAAS file of ``KAFKA_OPTS``.

Apache Kafka passes ``KAFKA_OPTS`` to its JVM, whose property ``java.security.auth.login.config`` names the file. Of it
the section ``Client`` counts, or the one that ``zookeeper.sasl.clientconfig`` names:

Client {
    org.apache.zookeeper.server.auth.DigestLoginModule required username="kafka" password="kafka-secret";
};
"""

import shlex
from collections.abc import Generator
from typing import TYPE_CHECKING, Final

from kafkapy.security.errors import AuthenticationFailedError, InvalidSecurityError, needs_extra
from kafkapy.security.jaas import parse_jaas_section
from kafkapy.security.settings import JAAS_FILE, JVM_OPTIONS, ZooKeeperSecurity
from kafkapy.security.stores import PEM, Values

if TYPE_CHECKING:
    import ssl

_SECTION_NAME: Final = "zookeeper.sasl.clientconfig"
_DEFAULT_SECTION: Final = "Client"
_MODULE: Final = "org.apache.zookeeper.server.auth.DigestLoginModule"
_MECHANISM: Final = "DIGEST-MD5"
_SERVICE, _HOST = "zookeeper", "zk-sasl-md5"
"""Every ZooKeeper has these names in DIGEST-MD5."""

ENABLED: Final = "zookeeper.ssl.client.enable"
_SOCKET: Final = "zookeeper.clientCnxnSocket"
_NETTY: Final = "org.apache.zookeeper.ClientCnxnSocketNetty"
_KEY_STORE: Final = "zookeeper.ssl.keystore.location"
_ALGORITHM: Final = "zookeeper.ssl.endpoint.identification.algorithm"
_TLS_KEYS: Final = {
    "ssl.keystore.location": _KEY_STORE,
    "ssl.keystore.password": "zookeeper.ssl.keystore.password",
    "ssl.keystore.type": "zookeeper.ssl.keystore.type",
    "ssl.truststore.location": "zookeeper.ssl.truststore.location",
    "ssl.truststore.password": "zookeeper.ssl.truststore.password",
    "ssl.truststore.type": "zookeeper.ssl.truststore.type",
    "ssl.enabled.protocols": "zookeeper.ssl.enabled.protocols",
    "ssl.cipher.suites": "zookeeper.ssl.cipher.suites",
    "ssl.endpoint.identification.algorithm": _ALGORITHM,
}
"""The key of a broker's listener → the one for the connection to a ZooKeeper with the same meaning."""
_NAMES: Final = _TLS_KEYS | {
    "ssl.keystore": "zookeeper.ssl.keystore",
    "ssl.truststore": "zookeeper.ssl.truststore",
    "ssl.key.password": "zookeeper.ssl.keystore.password",
}
"""The keys for errors: here a PEM file's key has the password of the store."""
_PROTOCOL: Final = "zookeeper.ssl.protocol"
KEYS: Final = (ENABLED, _SOCKET, _PROTOCOL, *_TLS_KEYS.values())
"""All keys that are read."""


class DigestLogin:
    """User and password for DIGEST-MD5 (RFC 2831), as ``DigestLoginModule`` has them; raises InvalidSecurityError."""

    def __init__(self, user: str, password: str, source: str) -> None:
        """``source`` names to the user the place of the password."""
        try:
            import puresasl  # noqa: F401  # whether it is there
        except ImportError:
            raise needs_extra(source, "pure-sasl") from None
        if not (user and password and (user + password).isascii()):
            raise InvalidSecurityError(f"{source} needs a username and a password, of ASCII characters alone")
        self._user, self._password = user, password
        self.source: Final = source

    @property
    def options(self) -> dict[str, str]:
        """The login as pure-sasl and kazoo take it."""
        return {"mechanism": _MECHANISM, "username": self._user, "password": self._password}

    def tokens(self) -> Generator[bytes, bytes, None]:
        """Yield the tokens of one authentication, the first of which is empty; is sent the server's.

        Raises AuthenticationFailedError if the server does not know the password either, or sends nonsense.
        """
        from puresasl import SASLError, SASLProtocolException
        from puresasl.client import SASLClient

        client = SASLClient(_HOST, _SERVICE, **self.options)
        challenge = yield b""
        try:
            while (response := client.process(challenge)) is not None:
                challenge = yield response
        # pure-sasl raises the last two for messages that lack a part, or come out of order.
        except (SASLError, SASLProtocolException, ValueError, AttributeError, TypeError):
            raise AuthenticationFailedError("it does not authenticate by DIGEST-MD5") from None


def zookeeper_security(values: Values, jvm_options: str, now_ms: int) -> ZooKeeperSecurity:
    """Return the security of connections to a ZooKeeper from its keys' values and the JVM's options.

    Raises InvalidSecurityError.
    """
    has_tls = values.get(ENABLED) == "true"
    return ZooKeeperSecurity(_tls_context(values, now_ms) if has_tls else None, _login(jvm_options))


def has_certificate(values: Values) -> bool:
    """Tell whether the session has the identity of a certificate."""
    return values.get(ENABLED) == "true" and bool(values.get(_KEY_STORE))


def _tls_context(values: Values, now_ms: int) -> "ssl.SSLContext":
    from kafkapy.security.tls import client_context

    if values.get(_SOCKET) != _NETTY:
        raise InvalidSecurityError(
            f"{ENABLED} is true: set {_SOCKET} to {_NETTY} too, without which Apache Kafka does not encrypt"
        )
    texts = {name: values.get(key, "") for name, key in _TLS_KEYS.items()}
    texts["ssl.enabled.protocols"] = texts["ssl.enabled.protocols"] or values.get(_PROTOCOL) or "TLSv1.2"
    is_checked = values.get(_ALGORITHM, "HTTPS").upper() == "HTTPS"
    texts["ssl.endpoint.identification.algorithm"] = "https" if is_checked else ""
    for store in ("ssl.keystore", "ssl.truststore"):
        if not texts[f"{store}.type"] and texts[f"{store}.location"].lower().endswith(".pem"):
            texts[f"{store}.type"] = PEM
    if texts["ssl.keystore.type"].upper() == PEM:  # a ZooKeeper's client has one password for store and key
        texts["ssl.key.password"] = texts.pop("ssl.keystore.password")
    return client_context(texts, now_ms, _NAMES)


def _login(jvm_options: str) -> DigestLogin | None:
    properties = _jvm_properties(jvm_options)
    path = properties.get(JAAS_FILE, "").removeprefix("=").removeprefix("file:")
    if not path:
        return None
    source = f"{path} ({JAAS_FILE} of {JVM_OPTIONS})"
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, ValueError) as error:  # ValueError: no name of a file, or no UTF-8
        reason = getattr(error, "strerror", None) or "it is no text in UTF-8"
        raise InvalidSecurityError(f"{source} can't be read: {reason}") from None
    section = properties.get(_SECTION_NAME, _DEFAULT_SECTION)
    module = parse_jaas_section(source, text, section)
    if module is None:
        return None
    place = f"section {section} of {source}"
    if module.class_name != _MODULE:
        raise InvalidSecurityError(f"{place} has the login module {module.class_name}: kafkapy has only {_MODULE}")
    return DigestLogin(module.options.get("username", ""), module.options.get("password", ""), place)


def _jvm_properties(options: str) -> dict[str, str]:
    try:
        words = shlex.split(options)
    except ValueError:
        raise InvalidSecurityError(f"{JVM_OPTIONS} can't be read: a quotation mark is not closed") from None
    pairs = (word.removeprefix("-D").partition("=") for word in words if word.startswith("-D"))
    return {name: value for name, _, value in pairs}
