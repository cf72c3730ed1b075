"""Keys that name a Java class, and the classes of Apache Kafka whose work kafkapy does itself.

Any other class is refused: without the class that makes its principals or checks its passwords, a broker would let in
other clients than its owner wants.
"""

from collections.abc import Mapping
from typing import Final

from kafkapy.config.broker_keys import base_name
from kafkapy.config.errors import InvalidConfigError

_SECURITY: Final = "org.apache.kafka.common.security"
_OAUTH: Final = f"{_SECURITY}.oauthbearer"

KNOWN_CLASSES: Final[Mapping[str, tuple[str, ...]]] = {
    "authorizer.class.name": (
        "kafka.security.authorizer.AclAuthorizer",
        "kafka.security.auth.SimpleAclAuthorizer",  # the same rules by an older name
    ),
    "replica.selector.class": ("org.apache.kafka.common.replica.RackAwareReplicaSelector",),
    "principal.builder.class": (
        f"{_SECURITY}.authenticator.DefaultKafkaPrincipalBuilder",
        f"{_SECURITY}.auth.DefaultPrincipalBuilder",
    ),
    "ssl.engine.factory.class": (f"{_SECURITY}.ssl.DefaultSslEngineFactory",),
    "sasl.server.callback.handler.class": (
        f"{_SECURITY}.authenticator.SaslServerCallbackHandler",
        f"{_SECURITY}.plain.internals.PlainServerCallbackHandler",
        f"{_SECURITY}.scram.internals.ScramServerCallbackHandler",
        f"{_OAUTH}.OAuthBearerValidatorCallbackHandler",
        f"{_OAUTH}.secured.OAuthBearerValidatorCallbackHandler",
        f"{_OAUTH}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler",
    ),
    "sasl.client.callback.handler.class": (
        f"{_SECURITY}.authenticator.SaslClientCallbackHandler",
        f"{_SECURITY}.kerberos.KerberosClientCallbackHandler",
        f"{_OAUTH}.internals.OAuthBearerSaslClientCallbackHandler",
    ),
    "sasl.login.class": (
        f"{_SECURITY}.authenticator.DefaultLogin",
        f"{_SECURITY}.kerberos.KerberosLogin",
        f"{_OAUTH}.internals.OAuthBearerRefreshingLogin",
    ),
    "sasl.login.callback.handler.class": (
        f"{_SECURITY}.authenticator.AbstractLogin$DefaultLoginCallbackHandler",
        f"{_OAUTH}.OAuthBearerLoginCallbackHandler",
        f"{_OAUTH}.secured.OAuthBearerLoginCallbackHandler",
        f"{_OAUTH}.internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler",
    ),
}
"""Key → the classes that it may name, also for one listener or mechanism. kafkapy's own classes do what they do."""


def check_classes(texts: Mapping[str, str]) -> None:
    """Raise InvalidConfigError if one of the keys names a class that kafkapy can't run."""
    for name, text in texts.items():
        known = KNOWN_CLASSES.get(base_name(name))
        if known and text.strip() and text.strip() not in known:
            raise InvalidConfigError(f"{name} is {text}: kafkapy can't load Java classes, it has only {known[0]}")
