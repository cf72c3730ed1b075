"""The security of connections to a ZooKeeper from a broker's configuration: for brokers, and for commands."""

import os

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.errors import InvalidConfigError
from kafkapy.config.keys import format_value
from kafkapy.config.own_keys import ZOOKEEPER_DIGEST
from kafkapy.security.errors import InvalidSecurityError
from kafkapy.security.settings import JAAS_FILE, JVM_OPTIONS, OPEN_ZOOKEEPER, ZooKeeperSecurity


def security_of(config: BrokerConfig, now_ms: int) -> ZooKeeperSecurity:
    """Return what ``zookeeper.*`` and the environment's ``KAFKA_OPTS`` say; raises InvalidConfigError.

    Nodes can be protected (``zookeeper.set.acl``) only by a session with an identity: of SASL, of a certificate, or of
    ``kafkapy.zookeeper.digest``.
    """
    jvm_options = os.environ.get(JVM_OPTIONS, "")
    security = OPEN_ZOOKEEPER
    has_certificate = False
    if config.flag("zookeeper.ssl.client.enable") or JAAS_FILE in jvm_options:
        from kafkapy.security import zookeeper

        values = {name: format_value(config[name]) or "" for name in zookeeper.KEYS}
        has_certificate = zookeeper.has_certificate(values)
        try:
            security = zookeeper.zookeeper_security(values, jvm_options, now_ms)
        except InvalidSecurityError as error:
            raise InvalidConfigError(str(error)) from None
    digest = config.text(ZOOKEEPER_DIGEST)
    protects_nodes = config.flag("zookeeper.set.acl")
    if protects_nodes and not (digest or has_certificate or security.login):
        raise InvalidConfigError(
            "zookeeper.set.acl is true: protected nodes need an owner; set zookeeper.ssl.keystore.location (with"
            " zookeeper.ssl.client.enable), name in KAFKA_OPTS a JAAS file with the section Client, or set"
            f" {ZOOKEEPER_DIGEST} to user:password"
        )
    return security._replace(credentials=[("digest", digest)] if digest else [], protects_nodes=protects_nodes)
