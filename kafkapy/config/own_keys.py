"""The keys that kafkapy has and Apache Kafka has not: their names begin with ``kafkapy.``.

Apache Kafka logs a warning about such a key in ``server.properties`` and starts. It refuses one among a topic's
overrides: ``kafkapy metadata export`` leaves those out.
"""

from typing import Final

from kafkapy.config.keys import AtLeast, Between, ConfigKey, ConfigType, Dynamic, OneOf

PREFIX: Final = "kafkapy."
FETCH_SESSION_PARTITIONS: Final = "kafkapy.fetch.session.partitions.max"
FLUSH_AS_KAFKA: Final = "kafka"
FLUSH_BEFORE_ACK: Final = "ack"
MAX_REPLICAS: Final = "kafkapy.max.replicas"
GROUP_METADATA_MAX_BYTES: Final = "kafkapy.group.metadata.max.bytes"
PRODUCER_IDS_MAX: Final = "kafkapy.producer.ids.max"
AUTO_CREATE_RATE: Final = "kafkapy.auto.create.topics.per.second"
ZOOKEEPER_DIGEST: Final = "kafkapy.zookeeper.digest"
OAUTH_ALLOWED_URLS: Final = "kafkapy.sasl.oauthbearer.allowed.urls"
API_RELEASE: Final = "kafkapy.api.release"
API_RELEASES: Final = ("2.7", "3.9", "4.4")
"""The releases of Apache Kafka whose APIs and versions a broker can serve alone."""

_FLUSH: Final = ConfigKey("kafkapy.flush", ConfigType.STRING, FLUSH_AS_KAFKA, OneOf((FLUSH_AS_KAFKA, FLUSH_BEFORE_ACK)))

OWN_BROKER_KEYS: Final[dict[str, ConfigKey]] = {
    key.name: key
    for key in (
        _FLUSH,
        ConfigKey(FETCH_SESSION_PARTITIONS, ConfigType.INT, 500_000, AtLeast(0)),
        ConfigKey(MAX_REPLICAS, ConfigType.INT, 100_000, AtLeast(1)),
        ConfigKey(AUTO_CREATE_RATE, ConfigType.INT, 100, Between(1, 1_000_000)),
        ConfigKey(GROUP_METADATA_MAX_BYTES, ConfigType.LONG, 104_857_600, AtLeast(0)),
        ConfigKey(PRODUCER_IDS_MAX, ConfigType.INT, 100_000, AtLeast(1)),
        ConfigKey(ZOOKEEPER_DIGEST, ConfigType.PASSWORD, None),
        ConfigKey(OAUTH_ALLOWED_URLS, ConfigType.LIST, ()),
        ConfigKey(API_RELEASE, ConfigType.STRING, "", OneOf(("", *API_RELEASES))),
    )
}

OWN_DOCUMENTATION: Final[dict[str, str]] = {
    "kafkapy.flush": (
        "When records are flushed to the disk: kafka flushes as Apache Kafka does, ack acknowledges nothing before an "
        "fsync. It is a key of kafkapy alone."
    ),
    "kafkapy.fetch.session.partitions.max": (  # a partition takes 400 bytes
        "How many partitions all incremental fetch sessions together remember. A client without a session names all "
        "its partitions in each request. It is a key of kafkapy alone."
    ),
    # A broker of Apache Kafka is advised to have at most 4,000; 10,000 take kafkapy about 100 MiB.
    "kafkapy.max.replicas": (
        "How many replicas the partitions of all topics together may have. Requests for more are refused. It is a key "
        "of kafkapy alone."
    ),
    # For further topics clients get LEADER_NOT_AVAILABLE, as for a topic that is being created, and retry.
    "kafkapy.auto.create.topics.per.second": (
        "How many topics a second Metadata requests may create, with bursts of ten times as many. It is a key of "
        "kafkapy alone."
    ),
    "kafkapy.group.metadata.max.bytes": (
        "How much memory the members of all groups may take with their metadata, in bytes. A member or an assignment "
        "beyond it is refused. It is a key of kafkapy alone."
    ),
    "kafkapy.producer.ids.max": (
        "How many producer ids a partition remembers. Beyond it those are forgotten that wrote least recently and have "
        "no open transaction. It is a key of kafkapy alone."
    ),
    "kafkapy.zookeeper.digest": (
        "User and password, with a colon between them, of the broker's digest identity in ZooKeeper. With "
        "zookeeper.set.acl it owns the nodes, so all brokers need the same. It is a key of kafkapy alone."
    ),
    # An address from elsewhere could read any file, or reach servers that only the broker can reach (CVE-2025-27817).
    "kafkapy.sasl.oauthbearer.allowed.urls": (
        "Addresses that sasl.oauthbearer.jwks.endpoint.url may have. The broker reads keys of tokens from no other "
        "address. It is a key of kafkapy alone."
    ),
    # Without a release the brokers of a cluster on ZooKeeper would differ for clients if some are Apache Kafka.
    "kafkapy.api.release": (
        "The release of Apache Kafka whose APIs and versions clients are served, and no others: 2.7, 3.9 or 4.4. If it "
        "is empty, all that the broker has; in a cluster on ZooKeeper those of 2.7. It is a key of kafkapy alone."
    ),
}
"""The description of each key, for DescribeConfigs and ``kafkapy configs describe``."""

OWN_TOPIC_KEYS: Final[dict[str, ConfigKey]] = {_FLUSH.name: _FLUSH._replace(dynamic=Dynamic.CLUSTER_WIDE)}
"""The keys that a topic may override, by name; without an override the broker's value holds."""


def is_own(name: str) -> bool:
    """Whether the key is one of kafkapy's, which Apache Kafka does not have."""
    return name.startswith(PREFIX)
