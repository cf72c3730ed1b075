"""The 216 keys of Apache Kafka 2.7's ``server.properties``: type, default, allowed values, dynamic or not.

The facts were read from the ConfigDef of the released 2.7.2 jars; ``tests/golden/config-keys-272.json`` keeps that
reading, and a test compares. kafkapy's own defaults are in ``broker_config.py``.
"""

from typing import Final

from kafkapy.config.consumer_group_keys import CONSUMER_GROUP_KEYS
from kafkapy.config.keys import RELEASES, AtLeast, ConfigKey, ConfigType, Dynamic, Importance, OneOf, Release
from kafkapy.config.oauth_keys import OAUTH_KEYS
from kafkapy.config.own_keys import OWN_BROKER_KEYS
from kafkapy.config.transaction_keys import TRANSACTION_KEYS

BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST, CLASS, PASSWORD = ConfigType
READ_ONLY, PER_BROKER, CLUSTER_WIDE = Dynamic
LOW, MEDIUM, HIGH = Importance
INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
CLEANUP_POLICIES: Final = OneOf(("compact", "delete"))
TIMESTAMP_TYPES: Final = OneOf(("CreateTime", "LogAppendTime"))
_PROTOCOL_MAP: Final = "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"

_STATIC_KEYS: Final = (
    # ZooKeeper
    ConfigKey("zookeeper.connect", STRING, None, None, READ_ONLY, HIGH),
    ConfigKey("zookeeper.session.timeout.ms", INT, 18_000, None, READ_ONLY, HIGH),
    ConfigKey("zookeeper.connection.timeout.ms", INT, None, None, READ_ONLY, HIGH),
    ConfigKey("zookeeper.sync.time.ms", INT, 2000, None, READ_ONLY, LOW),
    ConfigKey("zookeeper.set.acl", BOOLEAN, False, None, READ_ONLY, HIGH),
    ConfigKey("zookeeper.max.in.flight.requests", INT, 10, AtLeast(1), READ_ONLY, HIGH),
    ConfigKey("zookeeper.ssl.client.enable", BOOLEAN, False),
    ConfigKey("zookeeper.clientCnxnSocket", STRING, None),
    ConfigKey("zookeeper.ssl.keystore.location", STRING, None),
    ConfigKey("zookeeper.ssl.keystore.password", PASSWORD, None),
    ConfigKey("zookeeper.ssl.keystore.type", STRING, None),
    ConfigKey("zookeeper.ssl.truststore.location", STRING, None),
    ConfigKey("zookeeper.ssl.truststore.password", PASSWORD, None),
    ConfigKey("zookeeper.ssl.truststore.type", STRING, None),
    ConfigKey("zookeeper.ssl.protocol", STRING, "TLSv1.2", None, READ_ONLY, LOW),
    ConfigKey("zookeeper.ssl.enabled.protocols", LIST, None, None, READ_ONLY, LOW),
    ConfigKey("zookeeper.ssl.cipher.suites", LIST, None, None, READ_ONLY, LOW),
    ConfigKey("zookeeper.ssl.endpoint.identification.algorithm", STRING, "HTTPS", None, READ_ONLY, LOW),
    ConfigKey("zookeeper.ssl.crl.enable", BOOLEAN, False, None, READ_ONLY, LOW),
    ConfigKey("zookeeper.ssl.ocsp.enable", BOOLEAN, False, None, READ_ONLY, LOW),
    # broker identity
    ConfigKey("broker.id.generation.enable", BOOLEAN, True),
    ConfigKey("reserved.broker.max.id", INT, 1000, AtLeast(0)),
    ConfigKey("broker.id", INT, -1, None, READ_ONLY, HIGH),
    # threads and requests
    ConfigKey("message.max.bytes", INT, 1_048_588, AtLeast(0), CLUSTER_WIDE, HIGH),
    ConfigKey("num.network.threads", INT, 3, AtLeast(1), CLUSTER_WIDE, HIGH),
    ConfigKey("num.io.threads", INT, 8, AtLeast(1), CLUSTER_WIDE, HIGH),
    ConfigKey("num.replica.alter.log.dirs.threads", INT, None, None, READ_ONLY, HIGH),
    ConfigKey("background.threads", INT, 10, AtLeast(1), CLUSTER_WIDE, HIGH),
    ConfigKey("queued.max.requests", INT, 500, AtLeast(1), READ_ONLY, HIGH),
    ConfigKey("queued.max.request.bytes", LONG, -1),
    ConfigKey("request.timeout.ms", INT, 30_000, None, READ_ONLY, HIGH),
    ConfigKey("socket.connection.setup.timeout.ms", LONG, 10_000),
    ConfigKey("socket.connection.setup.timeout.max.ms", LONG, 127_000),
    # listeners and sockets
    ConfigKey("authorizer.class.name", STRING, "", None, READ_ONLY, LOW),
    ConfigKey("port", INT, 9092, None, READ_ONLY, HIGH),
    ConfigKey("host.name", STRING, "", None, READ_ONLY, HIGH),
    ConfigKey("listeners", STRING, None, None, PER_BROKER, HIGH),
    ConfigKey("advertised.host.name", STRING, None, None, READ_ONLY, HIGH),
    ConfigKey("advertised.port", INT, None, None, READ_ONLY, HIGH),
    ConfigKey("advertised.listeners", STRING, None, None, PER_BROKER, HIGH),
    ConfigKey("listener.security.protocol.map", STRING, _PROTOCOL_MAP, None, PER_BROKER, LOW),
    ConfigKey("control.plane.listener.name", STRING, None, None, READ_ONLY, HIGH),
    ConfigKey("socket.send.buffer.bytes", INT, 102_400, None, READ_ONLY, HIGH),
    ConfigKey("socket.receive.buffer.bytes", INT, 102_400, None, READ_ONLY, HIGH),
    ConfigKey("socket.request.max.bytes", INT, 104_857_600, AtLeast(1), READ_ONLY, HIGH),
    ConfigKey("max.connections.per.ip", INT, INT_MAX, AtLeast(0), CLUSTER_WIDE),
    ConfigKey("max.connections.per.ip.overrides", STRING, "", None, CLUSTER_WIDE),
    ConfigKey("max.connections", INT, INT_MAX, AtLeast(0), CLUSTER_WIDE),
    ConfigKey("max.connection.creation.rate", INT, INT_MAX, AtLeast(0), CLUSTER_WIDE),
    ConfigKey("connections.max.idle.ms", LONG, 600_000),
    ConfigKey("connection.failed.authentication.delay.ms", INT, 100, AtLeast(0), READ_ONLY, LOW),
    ConfigKey("broker.rack", STRING, None),
    # logs
    ConfigKey("num.partitions", INT, 1, AtLeast(1)),
    ConfigKey("log.dir", STRING, "/tmp/kafka-logs", None, READ_ONLY, HIGH),  # noqa: S108  Kafka's default; kafkapy's: broker_config.py
    ConfigKey("log.dirs", STRING, None, None, READ_ONLY, HIGH),
    ConfigKey("log.segment.bytes", INT, 1_073_741_824, AtLeast(14), CLUSTER_WIDE, HIGH),
    ConfigKey("log.roll.ms", LONG, None, None, CLUSTER_WIDE, HIGH),
    ConfigKey("log.roll.hours", INT, 168, AtLeast(1), READ_ONLY, HIGH),
    ConfigKey("log.roll.jitter.ms", LONG, None, None, CLUSTER_WIDE, HIGH),
    ConfigKey("log.roll.jitter.hours", INT, 0, AtLeast(0), READ_ONLY, HIGH),
    ConfigKey("log.retention.ms", LONG, None, None, CLUSTER_WIDE, HIGH),
    ConfigKey("log.retention.minutes", INT, None, None, READ_ONLY, HIGH),
    ConfigKey("log.retention.hours", INT, 168, None, READ_ONLY, HIGH),
    ConfigKey("log.retention.bytes", LONG, -1, None, CLUSTER_WIDE, HIGH),
    ConfigKey("log.retention.check.interval.ms", LONG, 300_000, AtLeast(1)),
    ConfigKey("log.cleanup.policy", LIST, ("delete",), CLEANUP_POLICIES, CLUSTER_WIDE),
    ConfigKey("log.cleaner.threads", INT, 1, AtLeast(0), CLUSTER_WIDE),
    ConfigKey("log.cleaner.io.max.bytes.per.second", DOUBLE, 1.7976931348623157e308, None, CLUSTER_WIDE),
    ConfigKey("log.cleaner.dedupe.buffer.size", LONG, 134_217_728, None, CLUSTER_WIDE),
    ConfigKey("log.cleaner.io.buffer.size", INT, 524_288, AtLeast(0), CLUSTER_WIDE),
    ConfigKey("log.cleaner.io.buffer.load.factor", DOUBLE, 0.9, None, CLUSTER_WIDE),
    ConfigKey("log.cleaner.backoff.ms", LONG, 15_000, AtLeast(0), CLUSTER_WIDE),
    ConfigKey("log.cleaner.min.cleanable.ratio", DOUBLE, 0.5, None, CLUSTER_WIDE),
    ConfigKey("log.cleaner.enable", BOOLEAN, True),
    ConfigKey("log.cleaner.delete.retention.ms", LONG, 86_400_000, None, CLUSTER_WIDE),
    ConfigKey("log.cleaner.min.compaction.lag.ms", LONG, 0, None, CLUSTER_WIDE),
    ConfigKey("log.cleaner.max.compaction.lag.ms", LONG, LONG_MAX, None, CLUSTER_WIDE),
    ConfigKey("log.index.size.max.bytes", INT, 10_485_760, AtLeast(4), CLUSTER_WIDE),
    ConfigKey("log.index.interval.bytes", INT, 4096, AtLeast(0), CLUSTER_WIDE),
    ConfigKey("log.flush.interval.messages", LONG, LONG_MAX, AtLeast(1), CLUSTER_WIDE, HIGH),
    ConfigKey("log.segment.delete.delay.ms", LONG, 60_000, AtLeast(0), CLUSTER_WIDE, HIGH),
    ConfigKey("log.flush.scheduler.interval.ms", LONG, LONG_MAX, None, READ_ONLY, HIGH),
    ConfigKey("log.flush.interval.ms", LONG, None, None, CLUSTER_WIDE, HIGH),
    ConfigKey("log.flush.offset.checkpoint.interval.ms", INT, 60_000, AtLeast(0), READ_ONLY, HIGH),
    ConfigKey("log.flush.start.offset.checkpoint.interval.ms", INT, 60_000, AtLeast(0), READ_ONLY, HIGH),
    ConfigKey("log.preallocate", BOOLEAN, False, None, CLUSTER_WIDE),
    ConfigKey("num.recovery.threads.per.data.dir", INT, 1, AtLeast(1), CLUSTER_WIDE, HIGH),
    ConfigKey("auto.create.topics.enable", BOOLEAN, True, None, READ_ONLY, HIGH),
    ConfigKey("min.insync.replicas", INT, 1, AtLeast(1), CLUSTER_WIDE, HIGH),
    ConfigKey("log.message.format.version", STRING, "2.7-IV2", Release()),
    ConfigKey("log.message.timestamp.type", STRING, "CreateTime", TIMESTAMP_TYPES, CLUSTER_WIDE),
    ConfigKey("log.message.timestamp.difference.max.ms", LONG, LONG_MAX, None, CLUSTER_WIDE),
    ConfigKey("create.topic.policy.class.name", CLASS, None, None, READ_ONLY, LOW),
    ConfigKey("alter.config.policy.class.name", CLASS, None, None, READ_ONLY, LOW),
    ConfigKey("log.message.downconversion.enable", BOOLEAN, True, None, CLUSTER_WIDE, LOW),
    # replication
    ConfigKey("controller.socket.timeout.ms", INT, 30_000),
    ConfigKey("default.replication.factor", INT, 1),
    ConfigKey("replica.lag.time.max.ms", LONG, 30_000, None, READ_ONLY, HIGH),
    ConfigKey("replica.socket.timeout.ms", INT, 30_000, None, READ_ONLY, HIGH),
    ConfigKey("replica.socket.receive.buffer.bytes", INT, 65_536, None, READ_ONLY, HIGH),
    ConfigKey("replica.fetch.max.bytes", INT, 1_048_576, AtLeast(0)),
    ConfigKey("replica.fetch.wait.max.ms", INT, 500, None, READ_ONLY, HIGH),
    ConfigKey("replica.fetch.backoff.ms", INT, 1000, AtLeast(0)),
    ConfigKey("replica.fetch.min.bytes", INT, 1, None, READ_ONLY, HIGH),
    ConfigKey("replica.fetch.response.max.bytes", INT, 10_485_760, AtLeast(0)),
    ConfigKey("num.replica.fetchers", INT, 1, None, CLUSTER_WIDE, HIGH),
    ConfigKey("replica.high.watermark.checkpoint.interval.ms", LONG, 5000, None, READ_ONLY, HIGH),
    ConfigKey("fetch.purgatory.purge.interval.requests", INT, 1000),
    ConfigKey("producer.purgatory.purge.interval.requests", INT, 1000),
    ConfigKey("delete.records.purgatory.purge.interval.requests", INT, 1),
    ConfigKey("auto.leader.rebalance.enable", BOOLEAN, True, None, READ_ONLY, HIGH),
    ConfigKey("leader.imbalance.per.broker.percentage", INT, 10, None, READ_ONLY, HIGH),
    ConfigKey("leader.imbalance.check.interval.seconds", LONG, 300, None, READ_ONLY, HIGH),
    ConfigKey("unclean.leader.election.enable", BOOLEAN, False, None, CLUSTER_WIDE, HIGH),
    ConfigKey("security.inter.broker.protocol", STRING, "PLAINTEXT"),
    ConfigKey("inter.broker.protocol.version", STRING, "2.7-IV2", Release(RELEASES[-1])),
    ConfigKey("inter.broker.listener.name", STRING, None),
    ConfigKey("replica.selector.class", STRING, None),
    ConfigKey("controlled.shutdown.max.retries", INT, 3),
    ConfigKey("controlled.shutdown.retry.backoff.ms", LONG, 5000),
    ConfigKey("controlled.shutdown.enable", BOOLEAN, True),
    # groups and their offsets
    ConfigKey("group.min.session.timeout.ms", INT, 6000),
    ConfigKey("group.max.session.timeout.ms", INT, 1_800_000),
    ConfigKey("group.initial.rebalance.delay.ms", INT, 3000),
    ConfigKey("group.max.size", INT, INT_MAX, AtLeast(1)),
    ConfigKey("offset.metadata.max.bytes", INT, 4096, None, READ_ONLY, HIGH),
    ConfigKey("offsets.load.buffer.size", INT, 5_242_880, AtLeast(1), READ_ONLY, HIGH),
    ConfigKey("offsets.topic.replication.factor", SHORT, 3, AtLeast(1), READ_ONLY, HIGH),
    ConfigKey("offsets.topic.num.partitions", INT, 50, AtLeast(1), READ_ONLY, HIGH),
    ConfigKey("offsets.topic.segment.bytes", INT, 104_857_600, AtLeast(1), READ_ONLY, HIGH),
    ConfigKey("offsets.topic.compression.codec", INT, 0, None, READ_ONLY, HIGH),
    ConfigKey("offsets.retention.minutes", INT, 10_080, AtLeast(1), READ_ONLY, HIGH),
    ConfigKey("offsets.retention.check.interval.ms", LONG, 600_000, AtLeast(1), READ_ONLY, HIGH),
    ConfigKey("offsets.commit.timeout.ms", INT, 5000, AtLeast(1), READ_ONLY, HIGH),
    ConfigKey("offsets.commit.required.acks", SHORT, -1, None, READ_ONLY, HIGH),
    # topics and compression
    ConfigKey("delete.topic.enable", BOOLEAN, True, None, READ_ONLY, HIGH),
    ConfigKey("compression.type", STRING, "producer", None, CLUSTER_WIDE, HIGH),
    # transactions
    ConfigKey("transactional.id.expiration.ms", INT, 604_800_000, AtLeast(1), READ_ONLY, HIGH),
    ConfigKey("transaction.max.timeout.ms", INT, 900_000, AtLeast(1), READ_ONLY, HIGH),
    ConfigKey("transaction.state.log.min.isr", INT, 2, AtLeast(1), READ_ONLY, HIGH),
    ConfigKey("transaction.state.log.load.buffer.size", INT, 5_242_880, AtLeast(1), READ_ONLY, HIGH),
    ConfigKey("transaction.state.log.replication.factor", SHORT, 3, AtLeast(1), READ_ONLY, HIGH),
    ConfigKey("transaction.state.log.num.partitions", INT, 50, AtLeast(1), READ_ONLY, HIGH),
    ConfigKey("transaction.state.log.segment.bytes", INT, 104_857_600, AtLeast(1), READ_ONLY, HIGH),
    ConfigKey("transaction.abort.timed.out.transaction.cleanup.interval.ms", INT, 10_000, AtLeast(1), READ_ONLY, LOW),
    ConfigKey("transaction.remove.expired.transaction.cleanup.interval.ms", INT, 3_600_000, AtLeast(1), READ_ONLY, LOW),
    # fetch
    ConfigKey("max.incremental.fetch.session.cache.slots", INT, 1000, AtLeast(0)),
    ConfigKey("fetch.max.bytes", INT, 57_671_680, AtLeast(1024)),
    # metrics
    ConfigKey("metrics.num.samples", INT, 2, AtLeast(1), READ_ONLY, LOW),
    ConfigKey("metrics.sample.window.ms", LONG, 30_000, AtLeast(1), READ_ONLY, LOW),
    ConfigKey("metric.reporters", LIST, (), None, CLUSTER_WIDE, LOW),
    ConfigKey("metrics.recording.level", STRING, "INFO", None, READ_ONLY, LOW),
    ConfigKey("kafka.metrics.reporters", LIST, (), None, READ_ONLY, LOW),
    ConfigKey("kafka.metrics.polling.interval.secs", INT, 10, AtLeast(1), READ_ONLY, LOW),
    # quotas
    ConfigKey("quota.producer.default", LONG, LONG_MAX, AtLeast(1), READ_ONLY, HIGH),
    ConfigKey("quota.consumer.default", LONG, LONG_MAX, AtLeast(1), READ_ONLY, HIGH),
    ConfigKey("quota.window.num", INT, 11, AtLeast(1), READ_ONLY, LOW),
    ConfigKey("replication.quota.window.num", INT, 11, AtLeast(1), READ_ONLY, LOW),
    ConfigKey("alter.log.dirs.replication.quota.window.num", INT, 11, AtLeast(1), READ_ONLY, LOW),
    ConfigKey("controller.quota.window.num", INT, 11, AtLeast(1), READ_ONLY, LOW),
    ConfigKey("quota.window.size.seconds", INT, 1, AtLeast(1), READ_ONLY, LOW),
    ConfigKey("replication.quota.window.size.seconds", INT, 1, AtLeast(1), READ_ONLY, LOW),
    ConfigKey("alter.log.dirs.replication.quota.window.size.seconds", INT, 1, AtLeast(1), READ_ONLY, LOW),
    ConfigKey("controller.quota.window.size.seconds", INT, 1, AtLeast(1), READ_ONLY, LOW),
    ConfigKey("client.quota.callback.class", CLASS, None, None, READ_ONLY, LOW),
    # security
    ConfigKey("connections.max.reauth.ms", LONG, 0),
    ConfigKey("security.providers", STRING, None, None, READ_ONLY, LOW),
    ConfigKey("principal.builder.class", CLASS, None, None, PER_BROKER),
    # TLS
    ConfigKey("ssl.protocol", STRING, "TLSv1.3", None, PER_BROKER),
    ConfigKey("ssl.provider", STRING, None, None, PER_BROKER),
    ConfigKey("ssl.enabled.protocols", LIST, ("TLSv1.2", "TLSv1.3"), None, PER_BROKER),
    ConfigKey("ssl.keystore.type", STRING, "JKS", None, PER_BROKER),
    ConfigKey("ssl.keystore.location", STRING, None, None, PER_BROKER),
    ConfigKey("ssl.keystore.password", PASSWORD, None, None, PER_BROKER),
    ConfigKey("ssl.key.password", PASSWORD, None, None, PER_BROKER),
    ConfigKey("ssl.keystore.key", PASSWORD, None, None, PER_BROKER),
    ConfigKey("ssl.keystore.certificate.chain", PASSWORD, None, None, PER_BROKER),
    ConfigKey("ssl.truststore.type", STRING, "JKS", None, PER_BROKER),
    ConfigKey("ssl.truststore.location", STRING, None, None, PER_BROKER),
    ConfigKey("ssl.truststore.password", PASSWORD, None, None, PER_BROKER),
    ConfigKey("ssl.truststore.certificates", PASSWORD, None, None, PER_BROKER),
    ConfigKey("ssl.keymanager.algorithm", STRING, "SunX509", None, PER_BROKER),
    ConfigKey("ssl.trustmanager.algorithm", STRING, "PKIX", None, PER_BROKER),
    ConfigKey("ssl.endpoint.identification.algorithm", STRING, "https", None, PER_BROKER, LOW),
    ConfigKey("ssl.secure.random.implementation", STRING, None, None, PER_BROKER, LOW),
    ConfigKey("ssl.client.auth", STRING, "none", OneOf(("required", "requested", "none")), PER_BROKER),
    ConfigKey("ssl.cipher.suites", LIST, (), None, PER_BROKER),
    ConfigKey("ssl.principal.mapping.rules", STRING, "DEFAULT", None, READ_ONLY, LOW),
    ConfigKey("ssl.engine.factory.class", CLASS, None, None, PER_BROKER, LOW),
    # SASL
    ConfigKey("sasl.mechanism.inter.broker.protocol", STRING, "GSSAPI", None, PER_BROKER),
    ConfigKey("sasl.jaas.config", PASSWORD, None, None, PER_BROKER),
    ConfigKey("sasl.enabled.mechanisms", LIST, ("GSSAPI",), None, PER_BROKER),
    ConfigKey("sasl.server.callback.handler.class", CLASS, None),
    ConfigKey("sasl.client.callback.handler.class", CLASS, None),
    ConfigKey("sasl.login.class", CLASS, None),
    ConfigKey("sasl.login.callback.handler.class", CLASS, None),
    ConfigKey("sasl.kerberos.service.name", STRING, None, None, PER_BROKER),
    ConfigKey("sasl.kerberos.kinit.cmd", STRING, "/usr/bin/kinit", None, PER_BROKER),
    ConfigKey("sasl.kerberos.ticket.renew.window.factor", DOUBLE, 0.8, None, PER_BROKER),
    ConfigKey("sasl.kerberos.ticket.renew.jitter", DOUBLE, 0.05, None, PER_BROKER),
    ConfigKey("sasl.kerberos.min.time.before.relogin", LONG, 60_000, None, PER_BROKER),
    ConfigKey("sasl.kerberos.principal.to.local.rules", LIST, ("DEFAULT",), None, PER_BROKER),
    ConfigKey("sasl.login.refresh.window.factor", DOUBLE, 0.8, None, PER_BROKER),
    ConfigKey("sasl.login.refresh.window.jitter", DOUBLE, 0.05, None, PER_BROKER),
    ConfigKey("sasl.login.refresh.min.period.seconds", SHORT, 60, None, PER_BROKER),
    ConfigKey("sasl.login.refresh.buffer.seconds", SHORT, 300, None, PER_BROKER),
    # delegation tokens and stored passwords
    ConfigKey("delegation.token.master.key", PASSWORD, None),
    ConfigKey("delegation.token.max.lifetime.ms", LONG, 604_800_000, AtLeast(1)),
    ConfigKey("delegation.token.expiry.time.ms", LONG, 86_400_000, AtLeast(1)),
    ConfigKey("delegation.token.expiry.check.interval.ms", LONG, 3_600_000, AtLeast(1), READ_ONLY, LOW),
    ConfigKey("password.encoder.secret", PASSWORD, None),
    ConfigKey("password.encoder.old.secret", PASSWORD, None),
    ConfigKey("password.encoder.keyfactory.algorithm", STRING, None, None, READ_ONLY, LOW),
    ConfigKey("password.encoder.cipher.algorithm", STRING, "AES/CBC/PKCS5Padding", None, READ_ONLY, LOW),
    ConfigKey("password.encoder.key.length", INT, 128, AtLeast(8), READ_ONLY, LOW),
    ConfigKey("password.encoder.iterations", INT, 4096, AtLeast(1024), READ_ONLY, LOW),
)

_THROTTLE_KEYS: Final = (
    ConfigKey("leader.replication.throttled.rate", LONG, LONG_MAX, AtLeast(0), CLUSTER_WIDE),
    ConfigKey("follower.replication.throttled.rate", LONG, LONG_MAX, AtLeast(0), CLUSTER_WIDE),
    ConfigKey("replica.alter.log.dirs.io.max.bytes.per.second", LONG, LONG_MAX, AtLeast(0), CLUSTER_WIDE),
)

BROKER_KEYS: Final[dict[str, ConfigKey]] = {key.name: key for key in _STATIC_KEYS}
"""Every key that ``server.properties`` may hold."""

KNOWN_KEYS: Final[dict[str, ConfigKey]] = (
    BROKER_KEYS | OAUTH_KEYS | CONSUMER_GROUP_KEYS | TRANSACTION_KEYS | OWN_BROKER_KEYS
)
"""The keys of Apache Kafka 2.7, those of later releases, and those that only kafkapy has."""

DYNAMIC_ONLY_KEYS: Final[dict[str, ConfigKey]] = {key.name: key for key in _THROTTLE_KEYS}
"""Keys that a broker takes while it runs but never from ``server.properties``."""

_ALTERNATIVES: Final = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
_ALTERNATIVES_OF: Final = {name: names for names in _ALTERNATIVES for name in names} | {
    "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
}


LISTENER_PREFIX: Final = "listener.name."
LISTENER_KEYS: Final = frozenset({"listeners", "advertised.listeners", "listener.security.protocol.map"})
"""The keys that say which listeners there are, and under which addresses clients reach them."""
LISTENER_LIMITS: Final = frozenset({"max.connections", "max.connection.creation.rate"})
"""The keys that, with a listener's prefix, may also be set for all brokers at once."""
PER_LISTENER_SECURITY: Final = frozenset(
    {
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
"""The keys of key and trust stores: while the broker runs they change for one listener at a time."""
_MECHANISM_KEYS: Final = (
    *("connections.max.reauth.ms", "sasl.jaas.config", "sasl.login.callback.handler.class", "sasl.login.class"),
    "sasl.server.callback.handler.class",
    *OAUTH_KEYS,
)


def synonyms(name: str) -> tuple[str, ...]:
    """The broker keys that say the same as ``name``, itself among them, the one that wins first."""
    if name.startswith(LISTENER_PREFIX):
        return (name, base_name(name))
    return _ALTERNATIVES_OF.get(name, (name,))


def base_name(name: str) -> str:
    """``name`` without ``listener.name.<listener>.``, and without a SASL mechanism behind it."""
    if not name.startswith(LISTENER_PREFIX):
        return name
    base = name[len(LISTENER_PREFIX) :].partition(".")[2]
    return next((key for key in _MECHANISM_KEYS if base.endswith(key)), base)


def broker_key(name: str) -> ConfigKey | None:
    """The key called ``name``, also if it stands there for one listener; None if there is none."""
    key = KNOWN_KEYS.get(name) or DYNAMIC_ONLY_KEYS.get(name)
    if key is None and name.startswith(LISTENER_PREFIX):
        base = base_name(name)
        key = BROKER_KEYS.get(base) or OAUTH_KEYS.get(base)
    return key
