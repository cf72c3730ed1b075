"""TLS and SASL of a broker in a test: an authority in memory, users, and the settings that each client needs."""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkapy.clock import Clock, SystemClock
from kafkapy.security.errors import needs_extra
from kafkapy.security.mechanisms import OAUTHBEARER
from kafkapy.testing.errors import BrokerStartError
from kafkapy.testing.hosting.client_settings import CLIENTS, TOKEN_LIFETIME_S, Access, settings_of

if TYPE_CHECKING:
    from kafkapy.security.certificates import Authority, Certificate
    from kafkapy.server.dispatch.context import Services
    from kafkapy.testing.hosting.tokens import TokenIssuer


class SecurityKind(NamedTuple):
    """The security protocol and the SASL mechanism of a listener, empty without SASL."""

    protocol: str
    mechanism: str = ""
    asks_for_certificates: bool = False
    has_signed_tokens: bool = False


KINDS: Final[Mapping[str, SecurityKind]] = {
    "ssl": SecurityKind("SSL"),
    "mtls": SecurityKind("SSL", asks_for_certificates=True),
    "sasl_plaintext": SecurityKind("SASL_PLAINTEXT", "PLAIN"),
    "sasl_ssl": SecurityKind("SASL_SSL", "PLAIN"),
    "scram": SecurityKind("SASL_SSL", "SCRAM-SHA-256"),
    "scram_plaintext": SecurityKind("SASL_PLAINTEXT", "SCRAM-SHA-512"),
    "oauth": SecurityKind("SASL_SSL", OAUTHBEARER, has_signed_tokens=True),
    "oauth_unsecured": SecurityKind("SASL_PLAINTEXT", OAUTHBEARER),
}
"""The kinds of security that ``Broker(security=…)`` knows."""
DEFAULT_USERS: Final = {"admin": "admin-secret", "alice": "alice-secret", "bob": "bob-secret"}
BROKER_USER: Final = "admin"
"""As whom the brokers of a cluster connect to each other; ``users`` must have it."""
_LOGIN_MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    OAUTHBEARER: "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}
_ITERATIONS: Final = 4096
_SALT: Final = b"kafkapy-testing"


class BrokerSecurity:
    """The security of one broker: made once, kept over restarts.

    ``users`` are passwords by name. Raises ``BrokerStartError`` for an unknown kind.
    """

    def __init__(self, kind: str, users: Mapping[str, str] | None = None) -> None:
        if kind not in KINDS:
            raise BrokerStartError(f"security is {kind!r}: it must be one of {', '.join(KINDS)}")
        self.kind: Final = KINDS[kind]
        self.users: Final = dict(DEFAULT_USERS if users is None else users)
        self._authority: Authority | None = None
        self._certificate: Certificate | None = None
        self._issued: dict[str, Certificate] = {}
        self._clock: Clock = SystemClock()
        self._issuer: TokenIssuer | None = _new_issuer() if self.kind.has_signed_tokens else None
        if self.uses_tls:
            from kafkapy.security import certificates

            self._authority = certificates.Authority("kafkapy test authority", SystemClock().now_ms())
            self._certificate = self._authority.issue("localhost", certificates.LOCAL_HOSTS)

    def follow(self, clock: Clock) -> None:
        """Take the times of tokens from the broker's clock."""
        self._clock = clock

    def token(self, user: str, expires_in_s: float = TOKEN_LIFETIME_S, *, foreign_key: bool = False) -> str:
        """Return a token of ``user`` for a client of the broker, or one that the broker refuses.

        One that has expired has a negative ``expires_in_s``, and with ``foreign_key`` it has the signature of another
        issuer. Raises ValueError if the broker has no tokens, or no signed ones.
        """
        now_ms = self._clock.now_ms()
        if self._issuer is not None:
            return self._issuer.token(user, now_ms, expires_in_s, foreign_key=foreign_key)
        if self.kind.mechanism != OAUTHBEARER or foreign_key:
            raise ValueError("the broker has no signed tokens: make it with Broker(security='oauth')")
        from kafkapy.security.oauth.unsecured import unsecured_token

        now_s = now_ms / 1000
        return unsecured_token({"sub": user, "iat": min(now_s, now_s + expires_in_s), "exp": now_s + expires_in_s})

    @property
    def uses_tls(self) -> bool:
        """Whether clients need a trust store."""
        return self.kind.protocol.endswith("SSL")

    @property
    def knows_its_clients(self) -> bool:
        """Whether clients prove who they are, by a login or a certificate."""
        return bool(self.kind.mechanism) or self.kind.asks_for_certificates

    @property
    def authority_pem(self) -> str:
        """The certificate of the authority that clients have to trust, as PEM; empty without TLS."""
        return "" if self._authority is None else self._authority.certificate

    def certificate_of(self, user: str) -> "Certificate":
        """The key and certificate of a user: its principal is ``User:CN=<user>``. Only with TLS."""
        assert self._authority is not None, "only TLS has certificates"
        if user not in self._issued:
            self._issued[user] = self._authority.issue(user)
        return self._issued[user]

    def broker_settings(self) -> dict[str, str]:
        """The keys of ``server.properties`` beside ``listeners``."""
        settings: dict[str, str] = {}
        if self._certificate is not None and self._authority is not None:
            settings |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.key": self._certificate.key,
                "ssl.keystore.certificate.chain": self._certificate.certificate,
                "ssl.truststore.type": "PEM",
                "ssl.truststore.certificates": self._authority.certificate,
                "ssl.client.auth": "required" if self.kind.asks_for_certificates else "none",
            }
        mechanism = self.kind.mechanism
        if mechanism:
            settings["sasl.enabled.mechanisms"] = mechanism
            users = [f" user_{name}={_quoted(password)}" for name, password in self.users.items()]
            options = "".join(users) if mechanism == "PLAIN" else ""
            key = f"{self.prefix}{mechanism.lower()}.sasl.jaas.config"
            settings[key] = f"{_LOGIN_MODULES[mechanism]} required{options};"
        if self._issuer is not None:
            settings |= self._issuer.broker_settings(self.prefix)
        return settings

    def expired_settings(self) -> dict[str, str]:
        """The keys of TLS with a certificate that has expired; only with TLS."""
        from kafkapy.security.certificates import LOCAL_HOSTS

        assert self._authority is not None, "only TLS has certificates"
        expired = self._authority.issue("localhost", LOCAL_HOSTS, days=-1)
        own = {"ssl.keystore.key": expired.key, "ssl.keystore.certificate.chain": expired.certificate}
        return self.broker_settings() | own

    def cluster_settings(self) -> dict[str, str]:
        """``broker_settings`` of brokers that connect to each other by the same protocol, as the user admin.

        Raises ``BrokerStartError`` for signed tokens, which brokers have no issuer for, and without that user.
        """
        if self.kind.mechanism and BROKER_USER not in self.users:
            raise BrokerStartError(f"users need {BROKER_USER!r}, as whom the brokers of a cluster log in to each other")
        if self._issuer is not None:
            raise BrokerStartError("security='oauth' is for one broker: a cluster can have 'oauth_unsecured'")
        settings = self.broker_settings() | {"security.inter.broker.protocol": self.kind.protocol}
        mechanism = self.kind.mechanism
        if mechanism:
            settings["sasl.mechanism.inter.broker.protocol"] = mechanism
            key = f"{self.prefix}{mechanism.lower()}.sasl.jaas.config"
            settings[key] = f"{settings[key].removesuffix(';')} {self._login(BROKER_USER)};"
        return settings

    def _login(self, user: str) -> str:
        """The options of JAAS with which a client logs in."""
        if self.kind.mechanism == OAUTHBEARER:
            return f"unsecuredLoginStringClaim_sub={_quoted(user)}"
        return f"username={_quoted(user)} password={_quoted(self.users[user])}"

    @property
    def prefix(self) -> str:
        """The beginning of keys that are for the listener alone; its name is that of the protocol."""
        return f"listener.name.{self.kind.protocol.lower()}."

    def settings_on(self, port: int) -> list[str]:
        """``broker_settings`` and the listener on a loopback port, each as ``key=value``."""
        listener = {"listeners": f"{self.kind.protocol}://127.0.0.1:{port}"}
        return [f"{name}={value}" for name, value in {**listener, **self.broker_settings()}.items()]

    def property_lines(self, bootstrap: str, user: str = "alice") -> list[str]:
        """The lines of a file with ``java_properties``."""
        properties = self.java_properties(bootstrap, user)
        escaped = {name: value.replace("\\", "\\\\").replace("\n", "\\n") for name, value in properties.items()}
        return [f"{name}={value}" for name, value in escaped.items()]

    async def store_users(self, services: "Services") -> None:
        """Store the SCRAM credentials of the users, which need a running broker."""
        if not self.kind.mechanism.startswith("SCRAM"):
            return
        from kafkapy.security.scram import ScramCredential

        for name, password in self.users.items():
            if self.kind.mechanism in services.config_admin.cached_user_overrides(name):
                continue  # another broker of the cluster, or an earlier start, has stored it
            credential = ScramCredential.of_password(self.kind.mechanism, password, _SALT, _ITERATIONS)
            await services.config_admin.set_user_overrides(name, {self.kind.mechanism: str(credential)})
            while self.kind.mechanism not in services.config_admin.cached_user_overrides(name):
                await SystemClock().sleep(1)

    def client_settings(self, client: str, bootstrap: str, user: str = "alice") -> dict[str, object]:
        """The settings with which a client connects as ``user``; raises ValueError for an unknown client or user."""
        if client not in CLIENTS:
            raise ValueError(f"client is {client!r}: it must be one of {', '.join(CLIENTS)}")
        if self.kind.mechanism and user not in self.users:
            raise ValueError(f"user is {user!r}: the broker has {', '.join(self.users)}")
        has_tokens = self.kind.mechanism == OAUTHBEARER
        has_password = bool(self.kind.mechanism) and not has_tokens
        access = Access(
            bootstrap=bootstrap,
            protocol=self.kind.protocol,
            authority=self.authority_pem or None,
            certificate=self.certificate_of(user) if self.kind.asks_for_certificates else None,
            mechanism=self.kind.mechanism or None,
            user=user if has_password else None,
            password=self.users[user] if has_password else None,
            new_token=partial(self.token, user) if has_tokens else None,
            java_properties=partial(self.java_properties, bootstrap, user),
        )
        return settings_of(client, access)

    def java_properties(self, bootstrap: str, user: str) -> dict[str, str]:
        """The properties of the Java client, from release 2.7 on, of Kafka's tools, and of ``--command-config``."""
        settings = {"bootstrap.servers": bootstrap, "security.protocol": self.kind.protocol}
        if self.uses_tls:
            settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": self.authority_pem}
        if self.kind.asks_for_certificates:
            key, certificate = self.certificate_of(user)
            settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.key": key}
            settings |= {"ssl.keystore.certificate.chain": certificate}
        if self.kind.mechanism == OAUTHBEARER:
            settings |= self._java_tokens(user)
        elif self.kind.mechanism:
            settings["sasl.mechanism"] = self.kind.mechanism
            settings["sasl.jaas.config"] = f"{_LOGIN_MODULES[self.kind.mechanism]} required {self._login(user)};"
        return settings

    def _java_tokens(self, user: str) -> dict[str, str]:
        """Java reads a signed token from a file, from release 3.9 on, and makes an unsecured one itself."""
        from kafkapy.config.oauth_keys import TOKEN_URL
        from kafkapy.security.oauth.login import FILE_HANDLERS, HANDLER

        settings = {"sasl.mechanism": OAUTHBEARER}
        module = _LOGIN_MODULES[OAUTHBEARER]
        if self._issuer is None:
            return settings | {"sasl.jaas.config": f"{module} required {self._login(user)};"}
        return settings | {
            "sasl.jaas.config": f"{module} required;",
            HANDLER: FILE_HANDLERS[0],
            TOKEN_URL: self._issuer.token_file(user, self.token(user)),
        }


def _new_issuer() -> "TokenIssuer":
    try:
        from kafkapy.testing.hosting.tokens import TokenIssuer
    except ImportError:
        raise BrokerStartError(str(needs_extra("security='oauth'", "joserfc", "oauth"))) from None
    return TokenIssuer()


def _quoted(text: str) -> str:
    """Return a value of JAAS in quotation marks."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
