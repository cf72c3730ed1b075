"""TLS and SASL of the listeners, from the broker's configuration; imported if a listener is not PLAINTEXT."""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from kafkapy.clock import Clock
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.broker_keys import BROKER_KEYS, LISTENER_PREFIX, broker_key
from kafkapy.config.errors import InvalidConfigError
from kafkapy.config.keys import format_value
from kafkapy.config.listeners import EndPoint
from kafkapy.config.oauth_keys import OAUTH_KEYS
from kafkapy.config.own_keys import OAUTH_ALLOWED_URLS
from kafkapy.network.errors import RefusedError
from kafkapy.network.transport import ConnectionTransport, PlaintextTransport, TlsTransport
from kafkapy.security import plain, scram
from kafkapy.security.authentication import TIME_LIMIT_MS, SaslSettings
from kafkapy.security.client import SaslNames, client_security
from kafkapy.security.errors import AuthenticationFailedError, InvalidSecurityError, needs_gssapi_extra
from kafkapy.security.jaas import parse_jaas
from kafkapy.security.mechanisms import GSSAPI, OAUTHBEARER, PLAIN, Mechanism
from kafkapy.security.principals import PrincipalRules
from kafkapy.security.scram import ScramCredential, ScramServer, TokenLoginOf
from kafkapy.security.settings import ClientSecurity
from kafkapy.security.stores import store_files
from kafkapy.security.tls import server_context

if TYPE_CHECKING:
    from kafkapy.security.oauth.keys import IssuerKeys

logger: Final = logging.getLogger(__name__)

_TLS_PROTOCOLS: Final = frozenset({"SSL", "SASL_SSL"})
_SASL_PROTOCOLS: Final = frozenset({"SASL_PLAINTEXT", "SASL_SSL"})
_CLIENT_AUTH: Final = "ssl.client.auth"
_PEER_MECHANISM: Final = "sasl.mechanism.inter.broker.protocol"
_LOGIN_HANDLER: Final = "sasl.login.callback.handler.class"
_MAX_SESSION: Final = "connections.max.reauth.ms"


def listener_values(config: BrokerConfig, listener: str) -> dict[str, str]:
    """Return the ``ssl.*`` and ``sasl.*`` keys of a listener as texts: its own settings, else those of all.

    Raises InvalidConfigError for a value of its own that is not valid.
    """
    names = (name for name in BROKER_KEYS if name.startswith(("ssl.", "sasl.")))
    return {name: _text(config, name, f"{_prefix(listener)}{name}") for name in names}


def _prefix(listener: str) -> str:
    return f"{LISTENER_PREFIX}{listener.lower()}."


def _mechanism_values(config: BrokerConfig, listener: str, mechanism: str, names: Iterable[str]) -> dict[str, str]:
    """Return keys as texts: the setting of the mechanism on this listener, else of the listener, else of all."""
    prefix = _prefix(listener)
    return {name: _text(config, name, f"{prefix}{mechanism.lower()}.{name}", f"{prefix}{name}") for name in names}


def _text(config: BrokerConfig, name: str, *own_names: str) -> str:
    """Return the first of these settings of a listener that there is, else that of all; empty without a value."""
    own = next((text for each in own_names if (text := _own_text(config, each)) is not None), None)
    return (format_value(config[name]) or "") if own is None else own


def _own_text(config: BrokerConfig, name: str) -> str | None:
    """Return the setting of a key that begins with a listener's prefix; None if there is none."""
    settings = [setting for setting in config.settings(name) if setting.name == name]
    if not settings:
        return None
    key = broker_key(name)
    assert key is not None, "it is a key of a listener"
    try:
        return format_value(key.parse(settings[0].text)) or ""
    except InvalidConfigError as error:
        raise InvalidConfigError(f"{name}: {error}") from None


class ListenerSecurity:
    """The security of listeners that are not PLAINTEXT.

    TLS contexts are replaced when the keys of their stores change, and when the broker's configuration is written again
    after the file of a store has changed, as Apache Kafka does.

    ``user_overrides`` returns what the metadata has of a user: SCRAM credentials. ``token_login_of`` is that of the
    delegation tokens, None if there are none. Raises InvalidConfigError.
    """

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        user_overrides: Callable[[str], Mapping[str, str]],
        token_login_of: TokenLoginOf | None = None,
    ) -> None:
        self._config = config
        self._clock = clock
        self._user_overrides = user_overrides
        self._token_login_of = token_login_of
        self._checked: dict[EndPoint, tuple[ConnectionTransport, SaslSettings | None]] = {}
        self._transports: dict[str, TlsTransport] = {}
        self._files: dict[str, list[tuple[str, int]]] = {}
        """By listener: see ``store_files``."""
        self._issuer_keys: dict[tuple[str, str], IssuerKeys] = {}
        config.add_listener(self._reload)

    def check(self, endpoint: EndPoint) -> None:
        """Raise InvalidConfigError if what the listener needs can't be read; else keep it until it is bound."""
        self._checked[endpoint] = self.of(endpoint)

    def of(self, endpoint: EndPoint) -> "tuple[ConnectionTransport, SaslSettings | None]":
        """Return the transport of a listener, and what its clients have to prove. Raises InvalidConfigError."""
        try:
            return self._checked.pop(endpoint, None) or self._made(endpoint)
        except InvalidSecurityError as error:
            raise InvalidConfigError(f"listener {endpoint.listener_name}: {error}") from None

    def _made(self, endpoint: EndPoint) -> "tuple[ConnectionTransport, SaslSettings | None]":
        name = endpoint.listener_name
        transport: ConnectionTransport = PlaintextTransport()
        if endpoint.security_protocol in _TLS_PROTOCOLS:
            values = self._tls_values(name)
            rules = PrincipalRules(values["ssl.principal.mapping.rules"])
            self._files[name] = store_files(values)
            context = server_context(values, self._clock.now_ms())
            transport = TlsTransport(
                context, lambda certificate: _principal_of(rules, certificate), self._time_limit_ms() / 1000
            )
            self._transports[name] = transport
        sasl = self._sasl_settings(name) if endpoint.security_protocol in _SASL_PROTOCOLS else None
        return transport, sasl

    def forget(self, listener: str) -> None:
        """The listener is closed: read its stores, and the keys of its issuers, no more."""
        self._transports.pop(listener, None)
        self._files.pop(listener, None)
        for name in [each for each in self._issuer_keys if each[0] == listener]:
            self._issuer_keys.pop(name).close()

    def close(self) -> None:
        """Read keys of issuers no more."""
        for keys in self._issuer_keys.values():
            keys.close()

    def _reload(self, names: frozenset[str]) -> None:
        """Read the stores of listeners again that have changed; a store that can't be used changes nothing."""
        for listener, transport in self._transports.items():
            try:
                values = self._tls_values(listener)
                files = store_files(values)
                has_other_keys = any(name.startswith((f"{_prefix(listener)}ssl.", "ssl.")) for name in names)
                if not has_other_keys and files == self._files[listener]:
                    continue
                transport.context = server_context(values, self._clock.now_ms())
            except (InvalidSecurityError, InvalidConfigError) as error:
                logger.error("Listener %s keeps its certificate: %s", listener, error)
            else:
                self._files[listener] = files
                logger.info("Listener %s has read its certificates again", listener)

    def _tls_values(self, listener: str) -> dict[str, str]:
        values = listener_values(self._config, listener)
        if self._config.listener_protocols.get(listener) == "SASL_SSL":
            # The client proves who it is by SASL: Apache Kafka asks for a certificate only if this listener says so.
            own = _own_text(self._config, f"{_prefix(listener)}{_CLIENT_AUTH}")
            values[_CLIENT_AUTH] = own or "none"
        return values

    def _sasl_settings(self, listener: str) -> SaslSettings:
        values = listener_values(self._config, listener)
        names = [name.strip() for name in values["sasl.enabled.mechanisms"].split(",") if name.strip()]
        return SaslSettings(
            {name: self._mechanism(listener, name) for name in names},
            {name: self._max_session_ms(listener, name) for name in names},
            self._config.integer("connection.failed.authentication.delay.ms"),
            self._time_limit_ms(),
        )

    def _time_limit_ms(self) -> int:
        """Return how long a peer may take to authenticate: not longer than an idle connection stays open."""
        idle_ms = self._config.integer("connections.max.idle.ms")
        return min(TIME_LIMIT_MS, idle_ms) if idle_ms > 0 else TIME_LIMIT_MS

    def _max_session_ms(self, listener: str, mechanism: str) -> int:
        """Return ``connections.max.reauth.ms`` of the mechanism on this listener, else of the listener, else of all."""
        return int(_mechanism_values(self._config, listener, mechanism, [_MAX_SESSION])[_MAX_SESSION])

    def _mechanism(self, listener: str, name: str) -> Mechanism:
        make = _MECHANISMS.get(name)
        if make is None:
            raise InvalidSecurityError(f"sasl.enabled.mechanisms names {name}: kafkapy has {', '.join(_MECHANISMS)}")
        return make(self, listener, name)

    def _plain(self, listener: str, _name: str) -> Mechanism:
        options = jaas_options(self._config, listener, PLAIN)
        users = plain.users_of(options)
        return lambda: plain.PlainServer(users)

    def _scram(self, _listener: str, name: str) -> Mechanism:
        return lambda: ScramServer(name, self._credential_of, token_login_of=self._token_login_of)

    def _oauth(self, listener: str, name: str) -> Mechanism:
        from kafkapy.security.oauth.exchange import OAuthServer
        from kafkapy.security.oauth.settings import HANDLER, OAuthSettings, make_validator

        values = _mechanism_values(self._config, listener, name, (HANDLER, *OAUTH_KEYS))
        key = jaas_key(listener, name)
        jaas = _own_text(self._config, key)
        options = parse_jaas(key, jaas).options if jaas else {}
        allowed = (format_value(self._config[OAUTH_ALLOWED_URLS]) or "").split(",")
        validate, keys = make_validator(OAuthSettings(values, options, allowed), self._clock)
        if keys is not None:
            self._issuer_keys[listener, name] = keys
        return lambda: OAuthServer(validate)

    def _kerberos(self, listener: str, name: str) -> Mechanism:
        from kafkapy.security.kerberos import short_names
        from kafkapy.security.kerberos.exchange import GssapiServer

        try:
            from kafkapy.security.kerberos import login
        except ImportError as error:
            raise needs_gssapi_extra("sasl.enabled.mechanisms", error) from None
        begin = login.acceptor(jaas_options(self._config, listener, name), jaas_key(listener, name))
        rules = _mechanism_values(self._config, listener, name, [short_names.KEY])[short_names.KEY]
        names = short_names.ShortNames(rules, login.default_realm())
        return lambda: GssapiServer(begin(), names)

    def _credential_of(self, mechanism: str, user: str) -> ScramCredential | None:
        text = self._user_overrides(user).get(mechanism)
        try:
            return None if text is None else ScramCredential.parse(text)
        except ValueError:
            logger.error("The %s credential of user %r can't be read", mechanism, user)
            return None


_MECHANISMS: Final[Mapping[str, Callable[[ListenerSecurity, str, str], Mechanism]]] = {
    PLAIN: ListenerSecurity._plain,  # noqa: SLF001  # methods of the class above
    **dict.fromkeys(scram.HASHES, ListenerSecurity._scram),  # noqa: SLF001
    OAUTHBEARER: ListenerSecurity._oauth,  # noqa: SLF001
    GSSAPI: ListenerSecurity._kerberos,  # noqa: SLF001
}


def _principal_of(rules: PrincipalRules, certificate: bytes) -> str:
    try:
        return rules.principal_of(certificate)
    except AuthenticationFailedError as error:
        raise RefusedError(str(error)) from None


def peer_security(config: BrokerConfig, listener: str, protocol: str, clock: Clock) -> ClientSecurity:
    """Return the security of connections to that listener of other brokers; raises InvalidConfigError."""
    values = listener_values(config, listener) | {"security.protocol": protocol}
    mechanism = values["sasl.mechanism"] = config.text(_PEER_MECHANISM)
    values |= _mechanism_values(config, listener, mechanism, (_LOGIN_HANDLER, *OAUTH_KEYS))
    values[OAUTH_ALLOWED_URLS] = format_value(config[OAUTH_ALLOWED_URLS]) or ""
    key = jaas_key(listener, mechanism)
    values["sasl.jaas.config"] = _own_text(config, key) or ""
    try:
        return client_security(values, clock.now_ms(), clock, SaslNames(_PEER_MECHANISM, key))
    except InvalidSecurityError as error:
        raise InvalidConfigError(f"connections between brokers: {error}") from None


def jaas_key(listener: str, mechanism: str) -> str:
    """Return the key of a listener's login module for a mechanism (KIP-103, KIP-85)."""
    return f"{_prefix(listener)}{mechanism.lower()}.sasl.jaas.config"


def jaas_options(config: BrokerConfig, listener: str, mechanism: str) -> dict[str, str]:
    """Return the options of the login module of a listener's mechanism; raises InvalidSecurityError."""
    key = jaas_key(listener, mechanism)
    text = _own_text(config, key)
    if not text:
        raise InvalidSecurityError(f"{key} is not set: it has the users and passwords, or the keytab, of {mechanism}")
    return parse_jaas(key, text).options
