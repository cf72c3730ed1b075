"""The keys that kafkapy has and Apache Kafka has not: their names begin with ``kafkapy.``.

Apache Kafka warns of such a key in ``server.properties`` and goes on. It does not take one among a topic's overrides:
``kafkapy metadata export`` leaves those out.
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
    )
}
"""``kafkapy.flush``: appends are fsynced as ``flush.messages`` and ``flush.ms`` say, or before any is acknowledged.

``kafkapy.fetch.session.partitions.max``: how many partitions all incremental fetch sessions together remember, at 400
bytes each. A client that gets no session names all its partitions in each request.

``kafkapy.max.replicas``: how many replicas all topics together may have; the creation of more is refused. A cluster of
Apache Kafka is advised to have at most 4,000 on a broker, and 10,000 take kafkapy about 100 MiB of memory.

``kafkapy.auto.create.topics.per.second``: how many topics Metadata requests may create, with a burst of ten seconds'
worth. Clients are answered LEADER_NOT_AVAILABLE for the others, as for any topic that is being created, and ask again.

``kafkapy.group.metadata.max.bytes``: how much memory the members of all groups may take.

``kafkapy.producer.ids.max``: how many producer ids a partition remembers. Beyond it those without an open transaction
that were silent longest are forgotten.
"""

OWN_TOPIC_KEYS: Final[dict[str, ConfigKey]] = {_FLUSH.name: _FLUSH._replace(dynamic=Dynamic.CLUSTER_WIDE)}
"""The same for a topic; without an override the broker's value holds."""


def is_own(name: str) -> bool:
    """Whether Apache Kafka has no such key, because it is kafkapy's."""
    return name.startswith(PREFIX)
