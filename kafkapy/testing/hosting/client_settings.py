"""The settings with which each client library connects to a secured broker: one shape of settings for each."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkapy.clock import SystemClock
from kafkapy.security.mechanisms import OAUTHBEARER

if TYPE_CHECKING:
    from kafkapy.security.certificates import Certificate

TOKEN_LIFETIME_S: Final = 3600.0


class Access(NamedTuple):
    """How a user connects to a broker; None is a value that its protocol, or its mechanism, does not have."""

    bootstrap: str
    protocol: str
    authority: str | None
    """The certificate that the client trusts, as PEM."""
    certificate: "Certificate | None"
    mechanism: str | None
    user: str | None
    password: str | None
    new_token: Callable[[], str] | None
    java_properties: Callable[[], dict[str, str]]


Settings = dict[str, object]
Shape = Callable[[Access], Settings]


def _java(access: Access) -> Settings:
    return dict(access.java_properties())


def _spark(access: Access) -> Settings:
    return {f"kafka.{name}": value for name, value in access.java_properties().items()}


def _librdkafka(access: Access) -> Settings:
    key, certificate = access.certificate or (None, None)
    return {
        "bootstrap.servers": access.bootstrap,
        "security.protocol": access.protocol,
        "ssl.ca.pem": access.authority,
        "ssl.key.pem": key,
        "ssl.certificate.pem": certificate,
        "sasl.mechanism": access.mechanism,
        "sasl.username": access.user,
        "sasl.password": access.password,
    }


def _confluent_kafka(access: Access) -> Settings:
    return _librdkafka(access) | {"oauth_cb": access.new_token and partial(_token_and_end, access.new_token)}


def _token_and_end(new_token: Callable[[], str], _config: str) -> tuple[str, float]:
    """Return a token, and when it ends in seconds since the epoch by the machine's clock."""
    return new_token(), SystemClock().now_ms() / 1000 + TOKEN_LIFETIME_S


def _python(access: Access) -> Settings:
    settings: Settings = {
        "bootstrap_servers": access.bootstrap,
        "security_protocol": access.protocol,
        "sasl_mechanism": access.mechanism,
        "sasl_plain_username": access.user,
        "sasl_plain_password": access.password,
    }
    if access.authority is not None:
        from kafkapy.security.tls import client_context

        settings["ssl_context"] = client_context(access.java_properties(), SystemClock().now_ms())
    return settings


def _kafka_python(access: Access) -> Settings:
    if access.new_token is None:
        return _python(access)
    from kafkapy.testing.hosting.tokens import kafka_python_tokens

    return _python(access) | {"sasl_oauth_token_provider": kafka_python_tokens(access.new_token)}


def _aiokafka(access: Access) -> Settings:
    if access.new_token is None:
        return _python(access)
    from kafkapy.testing.hosting.tokens import aiokafka_tokens

    return _python(access) | {"sasl_oauth_token_provider": aiokafka_tokens(access.new_token)}


def _kafkajs(access: Access) -> Settings:
    key, certificate = access.certificate or (None, None)
    return {
        "brokers": access.bootstrap.split(","),
        "ssl": {"ca": access.authority and [access.authority], "key": key, "cert": certificate},
        "sasl": {
            "mechanism": access.mechanism and access.mechanism.lower(),
            "username": access.user,
            "password": access.password,
        },
    }


def _values(access: Access) -> Settings:
    """The values alone, for libraries that are set by calls instead of by names."""
    key, certificate = access.certificate or (None, None)
    return {
        "brokers": access.bootstrap.split(","),
        "tls": {"ca": access.authority, "certificate": certificate, "key": key},
        "sasl": {
            "mechanism": access.mechanism,
            "username": access.user,
            "password": access.password,
            "token": access.new_token and access.new_token(),
        },
    }


_SHAPES: Final[Mapping[str, Shape]] = {
    "aiokafka": _aiokafka,
    "confluent-kafka": _confluent_kafka,
    "franz-go": _values,
    "java": _java,
    "kafka-go": _values,
    "kafka-python": _kafka_python,
    "kafkajs": _kafkajs,
    "kcat": _librdkafka,
    "librdkafka": _librdkafka,
    "rdkafka": _librdkafka,
    "rskafka": _values,
    "sarama": _values,
    "spark": _spark,
}
CLIENTS: Final = tuple(_SHAPES)
_TOKENS_BY_FUNCTION: Final = (_librdkafka, _kafkajs)
"""Shapes of clients in other languages that take tokens from a function of the program alone."""


def settings_of(client: str, access: Access) -> Settings:
    """The settings of a client of ``CLIENTS``; raises ValueError for tokens that no settings can give to it."""
    shape = _SHAPES[client]
    if access.mechanism == OAUTHBEARER and shape in _TOKENS_BY_FUNCTION:
        raise ValueError(f"{client} takes tokens from a function of the program: give it those of broker.token(user)")
    return _present(shape(access))


def _present(values: Mapping[str, object]) -> Settings:
    """Leave out values that are None, and mappings without any value."""
    nested = {name: _present(value) if isinstance(value, dict) else value for name, value in values.items()}
    return {name: value for name, value in nested.items() if value is not None and value != {}}
