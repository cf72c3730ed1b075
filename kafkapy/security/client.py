"""The client's side: a connection's TLS context and the handshake that authenticates it, from Kafka's client keys.

security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-256
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="…";
ssl.truststore.type=PEM
ssl.truststore.location=ca.pem
"""

from collections.abc import Callable, Generator, Mapping
from typing import Final, NamedTuple

from kafkapy.clock import Clock, SystemClock
from kafkapy.protocol.client_core import Handshake
from kafkapy.protocol.message import ProtocolError
from kafkapy.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafkapy.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kafkapy.security import plain, scram
from kafkapy.security.errors import AuthenticationFailedError, InvalidSecurityError, needs_gssapi_extra
from kafkapy.security.jaas import parse_jaas
from kafkapy.security.mechanisms import GSSAPI, OAUTHBEARER, PLAIN
from kafkapy.security.settings import ClientSecurity

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISM, _JAAS = "sasl.mechanism", "sasl.jaas.config"
_SYSTEM_CLOCK: Final = SystemClock()
Tokens = Callable[[str], Generator[bytes, bytes, None]]
"""Begins the client's side of a mechanism with the broker on a host: yields its tokens, and is sent the broker's."""


class SaslNames(NamedTuple):
    """The names by which the user knows the keys of SASL, for errors."""

    mechanism: str = _MECHANISM
    jaas: str = _JAAS


CLIENT_NAMES: Final = SaslNames()


def client_security(
    values: Mapping[str, str], now_ms: int, clock: Clock = _SYSTEM_CLOCK, names: SaslNames = CLIENT_NAMES
) -> ClientSecurity:
    """Return the security of a client's connections from ``security.protocol``, ``ssl.*`` and ``sasl.*``.

    ``clock`` has the times of the tokens that it makes. Raises InvalidSecurityError.
    """
    protocol = values.get("security.protocol") or "PLAINTEXT"
    if protocol not in PROTOCOLS:
        raise InvalidSecurityError(f"security.protocol is {protocol}: it must be one of {', '.join(PROTOCOLS)}")
    tls = None
    if protocol.endswith("SSL"):
        from kafkapy.security.tls import client_context

        tls = client_context(values, now_ms)
    return ClientSecurity(tls, _sasl(values, clock, names) if protocol.startswith("SASL") else None)


def _sasl(values: Mapping[str, str], clock: Clock, names: SaslNames) -> Callable[[str], Handshake]:
    mechanism = values.get(_MECHANISM) or GSSAPI
    jaas = values.get(_JAAS)
    if not jaas:
        needed = f"it has the name and the password or keytab for {mechanism}"
        raise InvalidSecurityError(f"{names.jaas} is not set: {needed}")
    options = parse_jaas(names.jaas, jaas).options
    if mechanism == GSSAPI:
        return sasl_handshake(mechanism, _kerberos_tokens(values, options, names))
    if mechanism == OAUTHBEARER:
        return sasl_handshake(mechanism, _oauth_tokens(values, options, clock))
    return sasl_handshake(mechanism, client_tokens(mechanism, options, names))


def client_tokens(mechanism: str, options: Mapping[str, str], names: SaslNames = CLIENT_NAMES) -> Tokens:
    """Return the client's side of a mechanism with the options of its login module; raises InvalidSecurityError."""
    if mechanism != PLAIN and mechanism not in scram.HASHES:
        known = ", ".join((PLAIN, *scram.HASHES, OAUTHBEARER, GSSAPI))
        raise InvalidSecurityError(f"{names.mechanism} is {mechanism}: kafkapy has {known}")
    missing = [name for name in ("username", "password") if not options.get(name)]
    if missing:
        raise InvalidSecurityError(f"{names.jaas} has no {missing[0]}, which {mechanism} needs")
    user, password = options["username"], options["password"]
    if mechanism == PLAIN:
        return lambda _host: plain.plain_client(user, password)
    is_by_token = options.get(scram.TOKEN_AUTH, "").lower() == "true"
    return lambda _host: scram.scram_client(mechanism, user, password, is_by_token=is_by_token)


def _oauth_tokens(values: Mapping[str, str], options: Mapping[str, str], clock: Clock) -> Tokens:
    from kafkapy.security.oauth.exchange import oauth_client
    from kafkapy.security.oauth.login import make_login

    login = make_login(values, options, clock)
    return lambda _host: oauth_client(login.new_token, login.extensions)


def _kerberos_tokens(values: Mapping[str, str], options: Mapping[str, str], names: SaslNames) -> Tokens:
    from kafkapy.security.kerberos.exchange import gssapi_client

    try:
        from kafkapy.security.kerberos.login import initiator, service_name
    except ImportError as error:
        raise needs_gssapi_extra(names.mechanism, error) from None
    context_with = initiator(service_name(values, options, names.jaas), options, names.jaas)
    return lambda host: gssapi_client(context_with(host))


def sasl_handshake(mechanism: str, tokens: Tokens) -> Callable[[str], Handshake]:
    """Return what begins the handshake with a host: SaslHandshake, then the mechanism's tokens in SaslAuthenticate.

    It raises ``ProtocolError`` with the broker's words if the broker refuses. A step may compute for long, or wait for
    a third party such as a KDC.
    """

    def authenticate(host: str) -> Handshake:
        answer = yield SaslHandshakeRequest(mechanism), 1
        assert isinstance(answer, SaslHandshakeResponse), "a response is of the class of its request"
        if answer.error_code:
            enabled = ", ".join(answer.mechanisms) or "none: it is no SASL listener"
            raise ProtocolError(f"the broker does not offer SASL mechanism {mechanism}, it has {enabled}")
        steps = tokens(host)
        try:
            token = next(steps)
        except AuthenticationFailedError as error:
            raise ProtocolError(str(error)) from None
        while True:
            reply = yield SaslAuthenticateRequest(token), 1  # with the session's lifetime
            assert isinstance(reply, SaslAuthenticateResponse), "a response is of the class of its request"
            if reply.error_code:
                raise ProtocolError(reply.error_message or f"authentication failed with error {reply.error_code}")
            try:
                token = steps.send(bytes(reply.auth_bytes))
            except StopIteration:
                return reply.session_lifetime_ms
            except AuthenticationFailedError as error:
                raise ProtocolError(str(error)) from None

    return authenticate
