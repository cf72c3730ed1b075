"""What a configuration may ask for in Apache Kafka and kafkapy does not have yet: refused, never quietly left out.

Serving plaintext where TLS was asked for, or everybody where an authorizer was, would be worse than not starting.
"""

from typing import Final

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.errors import InvalidConfigError
from kafkapy.config.own_keys import ZOOKEEPER_DIGEST

_REFUSED_KEYS: Final = {
    "zookeeper.ssl.client.enable": "kafkapy has no TLS yet",
    "authorizer.class.name": "kafkapy has no access control yet",
    "client.quota.callback.class": "kafkapy has no quotas yet",
    "create.topic.policy.class.name": "kafkapy can't load Java classes",
    "alter.config.policy.class.name": "kafkapy can't load Java classes",
}


def check_built(config: BrokerConfig) -> None:
    """Raise InvalidConfigError if ``config`` needs a feature that kafkapy does not have."""
    for name, reason in _REFUSED_KEYS.items():
        if config[name]:
            raise InvalidConfigError(f"{name} is set: {reason}")
    if config["zookeeper.set.acl"] and not config[ZOOKEEPER_DIGEST]:
        raise InvalidConfigError(
            f"zookeeper.set.acl is set: protected nodes need an owner; set {ZOOKEEPER_DIGEST} to user:password"
        )
    for endpoint in config.listeners:
        if endpoint.security_protocol != "PLAINTEXT":
            raise InvalidConfigError(
                f"the listener {endpoint} uses {endpoint.security_protocol}: kafkapy supports only PLAINTEXT"
            )
